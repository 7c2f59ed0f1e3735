# SPDX-License-Identifier: Apache-2.0
"""Chains of generators: for, next, send, throw, close, yield from."""
import truth

N = truth.size(80)


def spin(count):
    x = 1
    for i in range(count):
        x = (x * 3 + i) & 0xffff
    return x


def source(count):
    for i in range(count):
        yield spin(N) + i


def double(upstream):
    for item in upstream:
        yield item * 2 + spin(N)


def delegate(upstream):
    yield from upstream
    yield spin(N)


def deeper(level):
    if level:
        yield from deeper(
            level - 1
        )
    else:
        for i in range(3):
            yield spin(N)


def two_way():
    got = 0
    try:
        while True:
            try:
                got = yield spin(N) + got
            except KeyError as e:
                spin(N)
                got = len(e.args)
    finally:
        spin(N)


def drive():
    two = two_way()
    next(two)
    two.send(3)
    two.throw(KeyError(1))
    two.close()


def work():
    for _ in delegate(double(double(source(3)))):
        pass
    for _ in deeper(10):
        pass
    drive()
    list(double(source(2)))
    a, *b = source(3)
    return a, b


truth.run(work)
