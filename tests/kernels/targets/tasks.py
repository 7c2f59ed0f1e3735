# SPDX-License-Identifier: Apache-2.0
"""Tasks of asyncio await each other for ever. The innermost one computes."""

import asyncio


def computes(n):
    total = 0
    for i in range(n):
        total += i & 7
    return total


async def leaf():
    for _ in range(10):
        computes(20000)
        await asyncio.sleep(0)


async def middle():
    await asyncio.gather(leaf())


async def outer():
    print("busy", flush=True)
    while True:
        await asyncio.ensure_future(middle())

asyncio.run(outer())
