# SPDX-License-Identifier: Apache-2.0
"""A Python process that computes at the end of a stack of known depth. argv: Python frames, C detours.

Every frame is a function of its own, two to a file: as in recordings of Ray and of torch.
"""

import sys

SPIN = """
def level_0(functions):
    total = 0
    while True:
        total = total + 1 & 1023
"""
CALL = """
def level_{here}(functions):
    a, b, c = {here}, "b", None
    return functions[{below}](functions)
"""
DETOUR = """
def level_{here}(functions):
    a, b, c = {here}, "b", None
    return sorted((functions,), key=functions[{below}])
"""


def level(here, detours):
    if not here:
        return SPIN
    return (DETOUR if here <= detours else CALL).format(here=here, below=here - 1)


def main():
    names = {}
    levels = int(sys.argv[1]) - 2  # <module> and main are there already
    detours = int(sys.argv[2])
    for first in range(0, levels, 2):
        text = "".join(level(here, detours) for here in range(first, min(first + 2, levels)))
        exec(compile(text, "levels_%d.py" % (first // 2), "exec"), names)
    functions = [names["level_%d" % here] for here in range(levels)]
    functions[-1](functions)


main()
