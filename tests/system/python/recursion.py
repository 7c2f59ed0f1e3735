# SPDX-License-Identifier: Apache-2.0
"""Recursion, 50 and 400 Python frames deep, and 40 deep through C code."""
import functools

import truth

N = truth.size(400)


def spin(count):
    x = 1
    for i in range(count):
        x = (x * 5 + i) & 0xffff
    return x


def down(depth):
    if depth:
        return down(
            depth - 1
        ) + 1
    return spin(N)


def step(depth, _):
    if depth:
        return functools.reduce(step, (depth - 1, None)) or 0
    return spin(N)


def work():
    down(50)
    down(390)
    step(40, None)


truth.direct("spin", "down", "work")
truth.run(work)
