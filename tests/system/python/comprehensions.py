# SPDX-License-Identifier: Apache-2.0
"""List, set, dict and generator comprehensions, nested: frames of their own up to 3.11."""
import truth

N = truth.size(60)


def spin(count):
    x = 1
    for i in range(count):
        x = (x * 3 + i) & 0xffff
    return x


def lists():
    return [
        spin(N) + i
        for i in range(3)
        if spin(N) >= 0
    ]


def nested():
    return [[spin(i)
             for i in range(j, N)]
            for j in range(N - 2, N)]


def sets():
    return {spin(N + i) for i in range(3)}, {
        i: spin(N + i)
        for i in range(3)
    }


def generators():
    return sum(
        spin(N) + i
        for i in range(3)
    )


def in_lambda():
    return (lambda n: [spin(n) for _ in range(2)])(N)


def work():
    lists()
    nested()
    sets()
    generators()
    in_lambda()
    [spin(x * 2) for x in (spin(2), N)]


truth.run(work)
