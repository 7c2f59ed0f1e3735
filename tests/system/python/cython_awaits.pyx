# SPDX-License-Identifier: Apache-2.0
# cython: language_level=3
"""Coroutines and generators of Cython, for tasks.py and awaiters.py: they have no Python frames."""


async def awaits(awaitable):
    return await awaitable


async def counts(numbers):
    async for _ in numbers:
        pass


async def yields(awaitable):
    yield await awaitable


def iterates(awaitable):
    return (yield from awaitable.__await__())
