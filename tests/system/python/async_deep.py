# SPDX-License-Identifier: Apache-2.0
"""One task, DEPTH coroutines deep, gathers NUMBER tasks, each in a function of its own.

async_deep.py FILE NUMBER DEPTH; FILE is there as soon as all wait.
"""

import asyncio
import sys

NUMBER, DEPTH = map(int, sys.argv[2:])
FUNCTIONS = []


async def down(depth):
    if depth:
        await down(depth - 1)
    else:
        waiting = asyncio.gather(*(function() for function in FUNCTIONS))
        asyncio.get_running_loop().call_later(0.1, lambda: open(sys.argv[1], "w", encoding="ascii").close())
        await waiting


scope = {"asyncio": asyncio}
for number in range(NUMBER):
    exec("async def leaf_%d():\n    await asyncio.sleep(1000)\n" % number, scope)
    FUNCTIONS.append(scope["leaf_%d" % number])
sys.setrecursionlimit(10 * DEPTH)
asyncio.run(down(DEPTH))
