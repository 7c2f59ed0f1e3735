# SPDX-License-Identifier: Apache-2.0
"""Nested functions whose shares of the time are known."""
import truth

N = truth.size(300)


def spin(count):
    x = 1
    for i in range(count):
        x = (x * 7 + i) & 0xffff
    return x


def light():
    return spin(N)


def heavy():
    return spin(
        3 * N
    )


def middle(kind):
    if kind:
        return heavy()
    return light()


def outer(kind, *, repeat=1):
    total = 0
    for _ in range(repeat):
        total += middle(kind)
    return total


def work():
    outer(0)
    outer(1, repeat=1)
    outer(0, repeat=2)


truth.direct("spin", "light", "heavy", "middle", "outer", "work")
truth.share("heavy", 50, 4)
truth.share("light", 50, 4)
truth.run(work)
