# SPDX-License-Identifier: Apache-2.0
"""Coroutines driven by hand, and a chain of them under asyncio."""
import asyncio
import weakref

import truth

N = truth.size(200)


def spin(count):
    x = 1
    for i in range(count):
        x = (x * 3 + i) & 0xffff
    return x


class Pause:
    def __await__(self):
        spin(N)
        yield 1
        spin(N)


async def leaf(number):
    spin(N)
    await Pause()
    return number + spin(N)


async def middle(number):
    return await leaf(
        number
    ) + spin(N)


async def ticks(count):
    for i in range(count):
        spin(N)
        yield i


async def outer():
    total = 0
    async for i in ticks(2):
        total += i
    async with Manager():
        total += await middle(1)
    return [await middle(i) async for i in ticks(2)]


class Manager:
    async def __aenter__(self):
        spin(N)

    async def __aexit__(self, *_):
        spin(N)


def drive(coroutine):
    try:
        while True:
            coroutine.send(None)
    except StopIteration as stop:
        return stop.value


async def pause():
    spin(N)
    await asyncio.sleep(0)
    spin(N)


async def chained(depth):
    if depth:
        await chained(depth - 1)
    else:
        await pause()


async def application():
    await asyncio.gather(chained(0), chained(5), chained(10))
    await asyncio.get_running_loop().create_task(
        chained(2)
    )

LOOP = asyncio.new_event_loop()


def work():
    drive(outer())
    LOOP.run_until_complete(application())


# Tasks are kept in a weak set, which is Python code up to 3.13.
for constant in getattr(weakref.WeakSet.__init__, "__code__", truth.run.__code__).co_consts:
    if hasattr(constant, "co_code"):
        truth.anywhere(constant)
truth.run(work)
LOOP.close()
