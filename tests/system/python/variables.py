# SPDX-License-Identifier: Apache-2.0
"""A function that sleeps with variables of every kind that a dump shows. variables.py FILE"""

import sys
import time


def function(number, text, *rest, named=3, **more):
    big = 123456789012345678901234567890
    nothing, yes, half = None, True, 0.5
    several, pair, table = [1, 2, "three"], (1, None), {"a": 1}
    escape = "\x1b[31mred"
    with open(sys.argv[1], "w", encoding="ascii") as file:
        file.write("{}")
    time.sleep(1000)
    return number, text, rest, named, more, big, nothing, yes, half, several, pair, table, escape


function(-17, "wörd", 1, 2, named=4, other=5)
