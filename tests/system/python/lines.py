# SPDX-License-Identifier: Apache-2.0
"""
Which line? The marked ones cost the same, all the others nothing: a line that is
shifted by one is seen.
"""
import contextlib

import truth

R = list(range(5000))


class Guard:
    def __init__(self, number):
        self.number = number

    def __enter__(self):
        sum(R)  # BUSY
        return self

    def __exit__(self, *_):
        sum(R)  # BUSY
        return True


@contextlib.contextmanager
def guard():
    sum(R)  # BUSY
    try:
        yield 1
    finally:
        sum(R)  # BUSY


def handled():
    try:
        sum(R)  # BUSY
        raise ValueError("x")
    except KeyError as e:
        print(e)
    except ValueError as e:
        text = e.args
        sum(R)  # BUSY
        del text
    sum(R)  # BUSY
    try:
        pass
    finally:
        sum(R)  # BUSY
    sum(R)  # BUSY


def leave():
    for i in range(3):
        try:
            if i == 1:
                continue
            if i == 2:
                return i
        finally:
            pass
    return 0


def multiline(a, b):
    return a + b == max(
        1,
        sum(R),  # BUSY
        2,
        *(
            3,
            4,
        ),
    ) or sum(  # BUSY
        R
    )


def long_gap():
    sum(R)  # BUSY
    if R is None:
        # Comments and code that never runs make line numbers jump.
        print("never")



















































































































































    sum(R)  # BUSY
    return leave()


def backwards():
    i = 0
    while i < 2:
        i += 1
    else:
        sum(R)  # BUSY
    return (
        i
    ) + (
        sum(R)  # BUSY
    )


def work():
    with Guard(1) as g:
        sum(R)  # BUSY
        raise RuntimeError(g)
    with guard():
        sum(R)  # BUSY
    handled()
    multiline(1, 2)
    long_gap()
    backwards()


truth.equal_lines(__file__)
truth.run(work)
