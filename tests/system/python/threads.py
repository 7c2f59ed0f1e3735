# SPDX-License-Identifier: Apache-2.0
"""Eight Python threads, each with a function of its own."""
import truth

N = truth.size(300)


def spin(count):
    x = 1
    for i in range(count):
        x = (x * 3 + i) & 0xffff
    return x


def make(number):
    space = {"spin": spin, "N": N}
    source = "\n" * (10 * number) + "def worker_%d():\n    return spin(\n        N)" % number
    exec(compile(source, "worker_%d.py" % number, "exec"), space)
    return space["worker_%d" % number]


truth.direct("spin", *["worker_%d" % i for i in range(8)])
truth.run_threads([make(i) for i in range(8)])
