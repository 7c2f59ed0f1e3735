# SPDX-License-Identifier: Apache-2.0
"""Requests that await each other's tasks in every way, and compute in the innermost one. Writes as JSON which stack
each kind of request has, and what CPU time it took.

usage: awaiters.py FILE SECONDS [uvloop | cython]; begins when FILE.go exists, after FILE.ready
"""

import asyncio
import functools
import json
import os
import sys
import time
import types

from awaited import inner_of

VERSION = sys.version_info[:2]
PARENTS = {}  # by task: the one that awaits it
STACKS = {}  # by kind: the stack above its leaf, root first
SPENT = {}
KEPT = set()
FAULTS = []


def start(coroutine):
    """A task that the present one awaits."""
    task = asyncio.ensure_future(coroutine)
    PARENTS[task] = asyncio.current_task()
    return task


def place(frame):
    code = frame.f_code
    return [getattr(code, "co_qualname", code.co_name), os.path.basename(code.co_filename),
            frame.f_lineno]


def chain(task):
    """The frames of a suspended task, outermost first."""
    found, at = [], task.get_coro()
    while at is not None:
        at, frame = inner_of(at)
        if frame:
            found.append(place(frame))
    return found


def note(kind):
    """Writes down the stack above the leaf that calls this."""
    frame, stack, task = sys._getframe(2), [], PARENTS.get(asyncio.current_task())
    if frame.f_code is later.__code__:  # of the same task as the leaf
        frame, stack = frame.f_back, [place(frame)]
    while task:
        stack = chain(task) + stack
        task = PARENTS.get(task)
    while frame:
        stack.insert(0, place(frame))
        frame = frame.f_back
    if STACKS.setdefault(kind, stack) != stack:
        FAULTS.append([kind, stack])


def burn(kind):
    begin = time.thread_time()
    while time.thread_time() < begin + 0.002:
        pass
    SPENT[kind] = SPENT.get(kind, 0) + time.thread_time() - begin


async def computes(kind):
    note(kind)
    for _ in range(4):
        burn(kind)
        await asyncio.sleep(0)


@functools.lru_cache(maxsize=None)
def named_leaf(kind):
    """computes(), with a name of its own."""
    names = {"co_name": "leaf_" + kind}
    if VERSION >= (3, 11):
        names["co_qualname"] = names["co_name"]
    return types.FunctionType(computes.__code__.replace(**names), globals())


def leaf(kind):
    return named_leaf(kind)(kind)


# Each kind of request.

async def direct(kind):
    await start(leaf(kind))


async def gather(kind):
    await asyncio.gather(asyncio.sleep(0.02), start(leaf(kind)), asyncio.sleep(0))


async def gathers(kind):
    await asyncio.gather(asyncio.gather(start(leaf(kind)), asyncio.sleep(0)))


async def wait(kind):
    await asyncio.wait([asyncio.ensure_future(asyncio.sleep(0.02)), start(leaf(kind))])


async def wait_for(kind):
    await asyncio.wait_for(start(leaf(kind)), 60)


async def shield(kind):
    await asyncio.shield(start(leaf(kind)))


async def shielded_wait_for(kind):
    await asyncio.wait_for(asyncio.shield(start(leaf(kind))), 60)


async def kept(kind):
    """The usual way to keep a task: its first callback is not that of who awaits it."""
    task = start(leaf(kind))
    KEPT.add(task)
    task.add_done_callback(KEPT.discard)
    await task


async def inner(kind):
    await asyncio.gather(start(leaf(kind)))


async def middle(kind):
    await asyncio.shield(start(inner(kind)))


async def nested(kind):
    await start(middle(kind))


async def yields(kind):
    yield await start(leaf(kind))


async def generator(kind):
    async for _ in yields(kind):
        pass


class Awaits:
    def __init__(self, task):
        self.task = task

    def __await__(self):
        return (yield from self.task.__await__())


async def own_await(kind):
    await Awaits(start(leaf(kind)))


async def alone(kind):
    """No task awaits the leaf."""
    done = asyncio.Event()
    task = asyncio.ensure_future(leaf(kind))
    task.add_done_callback(lambda _: done.set())
    await done.wait()


async def group(kind):
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(asyncio.sleep(0.02))
        PARENTS[tasks.create_task(leaf(kind))] = asyncio.current_task()


async def timeout(kind):
    async with asyncio.timeout(60):
        await start(leaf(kind))


async def cython_root(kind):
    """The awaiting task is one of Cython."""
    await start(cython_awaits.awaits(gather(kind)))


async def cython_middle(kind):
    await cython_awaits.awaits(cython_awaits.awaits(direct(kind)))


async def cython_generator(kind):
    async for _ in cython_awaits.yields(start(leaf(kind))):
        pass


async def later(kind):
    """Until it is suspended for the first time, a coroutine of Cython holds no reference to it."""
    await asyncio.sleep(0)
    await leaf(kind)


async def cython_leaf(kind):
    """The running task is one of Cython."""
    await start(cython_awaits.awaits(later(kind)))


KINDS = [direct, gather, gathers, wait, wait_for, shield, shielded_wait_for, kept, nested, generator, own_await, alone]
KINDS += [group, timeout] if VERSION >= (3, 11) else []
if sys.argv[3:] == ["cython"]:
    import cython_awaits
    KINDS = [direct, cython_root, cython_middle, cython_generator, cython_leaf]


async def main():
    open(sys.argv[1] + ".ready", "w").close()
    while not os.path.exists(sys.argv[1] + ".go"):
        time.sleep(0.02)
    end = time.monotonic() + float(sys.argv[2])
    while time.monotonic() < end:
        for kind in KINDS:
            await start(kind(kind.__name__))
    with open(sys.argv[1] + ".new", "w", encoding="utf-8") as file:
        json.dump({"stacks": STACKS, "spent": SPENT, "faults": FAULTS}, file)
    os.rename(sys.argv[1] + ".new", sys.argv[1])

if sys.argv[3:] == ["uvloop"]:
    import uvloop
    uvloop.install()
asyncio.run(main())
