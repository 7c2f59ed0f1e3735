# SPDX-License-Identifier: Apache-2.0
"""Tasks of asyncio that wait in every way. Writes what it knows of them as JSON.

usage: tasks.py FILE [uvloop | cython | many NUMBER | depths NUMBER DEPTH | flips NUMBER | eager |
                       changes]
"""

import asyncio
import concurrent.futures
import json
import os
import socket
import sys
import threading
import time
import types

from awaited import chain, place, without_frame

if "cython" in sys.argv:
    import cython_awaits

LONG = 100000
DEEP = 300
KNOWN = {}  # by name: [what the task waits for, the names of the tasks that wait for it]
KEPT = []
VERSION = sys.version_info[:2]


def known(task, kind, *awaiters):
    KNOWN[task.get_name()] = [kind, sorted(awaiters)]
    KEPT.append(task)
    return task


def start(coroutine, name, kind, *awaiters):
    task = asyncio.get_running_loop().create_task(coroutine)
    task.set_name(name)
    return known(task, kind, *awaiters)


# Ways to wait.

async def sleeps(seconds=LONG):
    await asyncio.sleep(seconds)


async def deep(depth):
    if depth:
        await deep(depth - 1)
    await asyncio.sleep(LONG + 0.5)


@types.coroutine
def old_style():
    result = yield from asyncio.sleep(LONG).__await__()
    return result


class ByCython:
    """Its __await__ is a generator of Cython."""

    def __init__(self, coroutine):
        self.coroutine = coroutine

    def __await__(self):
        return cython_awaits.iterates(self.coroutine)


class Awaitable:
    """Its __await__ is a generator; another one lies on its stack where it yields."""

    def __init__(self, coroutine):
        self.coroutine = coroutine

    def __await__(self):
        return (yield from self.coroutine.__await__())


class Forwards:
    def __init__(self, coroutine):
        self.coroutine = coroutine

    def __await__(self):
        for value in self.coroutine.__await__():
            yield value


async def numbers():
    try:
        await asyncio.sleep(LONG)
        yield 1
    finally:
        await asyncio.sleep(LONG + 1)


async def counts(of=None):
    async for _ in of or numbers():
        pass


async def yields():
    try:
        yield 1
    finally:
        await sleeps()


async def throws():
    generator = yields()
    await generator.asend(None)
    await generator.athrow(ValueError())


async def closes():
    generator = yields()
    await generator.asend(None)
    await generator.aclose()


async def nested():
    async def inner():
        async with Enters():
            pass
    await inner()


class Enters:
    async def __aenter__(self):
        await sleeps()

    async def __aexit__(self, *_):
        pass


async def awaits(awaitable):
    return await awaitable


async def comprehension():
    return [number async for number in numbers()]


async def gathers(*tasks):
    await asyncio.gather(*tasks)


async def waits(*tasks):
    await asyncio.wait(tasks)


async def shields(task):
    await asyncio.shield(task)


async def limits(task):
    await asyncio.wait_for(task, LONG)


async def puts(queue):
    await queue.put(1)
    await queue.put(2)


async def acquires(lock):
    await lock.acquire()
    await lock.acquire()


async def executes():
    await asyncio.get_running_loop().run_in_executor(None, time.sleep, LONG)


async def conditions():
    condition = asyncio.Condition()
    async with condition:
        await condition.wait()


async def reads(reader):
    await reader.readline()


async def receives(sock):
    await asyncio.get_running_loop().sock_recv(sock, 100)


def singles():
    start(sleeps(), "sleeps", "timer")
    start(deep(DEEP), "deep", "timer")
    start(awaits(old_style()), "old style", "timer")
    start(awaits(Awaitable(sleeps())), "awaitable", "timer")
    start(awaits(Forwards(sleeps())), "forwards", "future")
    start(counts(), "async generator", "timer")
    start(throws(), "athrow", "timer")
    start(closes(), "aclose", "timer")
    start(nested(), "nested \x1b[31m \"wörd\"", "timer")
    start(comprehension(), "comprehension", "timer")
    start(awaits(asyncio.Queue().get()), "queue", "queue")
    start(puts(asyncio.Queue(1)), "full queue", "queue")
    start(acquires(asyncio.Lock()), "lock", "lock")
    start(awaits(asyncio.Event().wait()), "event", "event")
    start(conditions(), "condition", "event")
    start(awaits(asyncio.get_running_loop().create_future()), "future", "future")
    start(executes(), "executor", "executor")


def of_cython():
    """Coroutines of Cython as those of tasks, and in the middle of chains."""
    start(cython_awaits.awaits(sleeps()), "cython root", "timer")
    start(awaits(cython_awaits.awaits(sleeps())), "cython middle", "timer")
    start(cython_awaits.awaits(cython_awaits.awaits(awaits(sleeps()))), "cython twice", "timer")
    start(cython_awaits.counts(numbers()), "cython for", "timer")
    start(counts(cython_awaits.yields(sleeps())), "cython async generator", "timer")
    start(awaits(ByCython(sleeps())), "cython generator", "timer")
    start(cython_awaits.awaits(asyncio.get_running_loop().create_future()), "cython future",
          "future")
    start(cython_awaits.awaits(gathers(*(start(sleeps(), "c%d" % i, "timer", "cython gathers")
                                         for i in range(2)))), "cython gathers", "gather")


def several():
    start(awaits(start(sleeps(), "awaited", "timer", "awaits")), "awaits", "task")
    start(gathers(*(start(sleeps(), "g%d" % i, "timer", "gathers") for i in range(3))), "gathers",
          "gather")
    both = start(sleeps(), "both", "timer", "first", "second")
    start(awaits(both), "first", "task")
    start(gathers(both), "second", "gather")
    start(waits(*(start(sleeps(), "w%d" % i, "timer", "waits") for i in range(2))), "waits",
          "tasks")
    start(shields(start(sleeps(), "shielded", "timer", "shields")), "shields", "future")
    start(limits(start(sleeps(), "limited", "timer", "limits")), "limits", "task")
    if VERSION >= (3, 11):
        start(groups(), "group", "tasks")


async def groups():
    async with asyncio.TaskGroup() as group:
        for i in range(2):
            known(group.create_task(sleeps(), name="t%d" % i), "timer", "group")


async def streams():
    server = await asyncio.start_server(lambda reader, writer: KEPT.append((reader, writer)),
                                        "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    KEPT.extend((server, writer))
    start(reads(reader), "stream", "socket")
    ends = socket.socketpair()
    KEPT.extend(ends)
    ends[0].setblocking(False)
    start(receives(ends[0]), "socket",
          "socket" if "uvloop" not in sys.modules else "future")


class Derived(asyncio.Task):
    """A subclass with attributes."""


def other_kinds():
    """Tasks of other classes than that of _asyncio."""
    loop = asyncio.get_running_loop()
    task = Derived(sleeps(), loop=loop)
    task.more = 1
    task.set_name("derived")
    known(task, "timer")
    task = asyncio.tasks._PyTask(sleeps(), loop=loop)
    task.set_name("python")
    known(task, "timer", "awaits python")
    start(awaits(task), "awaits python", "task")
    start(sleeps(float("inf")), "for ever", "timer")
    start(sleeps(1e300), "very long", "timer")
    future = asyncio.futures._PyFuture(loop=loop)
    start(awaits(future), "python future", "future")
    KEPT.append(future)
    if VERSION >= (3, 12):
        task = asyncio.Task(sleeps(), loop=loop, name="eager", eager_start=True)
        known(task, "timer")
        if VERSION >= (3, 13):
            task = asyncio.tasks._PyTask(sleeps(), loop=loop, name="eager python",
                                         eager_start=True)
            known(task, "timer")


# A loop in a thread of its own, whose task runs.

def blocks():
    time.sleep(LONG)


async def runs(ready):
    if "cython" in sys.argv:
        await asyncio.sleep(0)  # before that, a coroutine of Cython holds no reference to this one
    ready.set()
    blocks()


def other_loop(ready):
    async def main():
        asyncio.current_task().set_name("other main")
        start(sleeps(), "other loop", "timer")
        await asyncio.sleep(0.1)
        body = runs(ready)
        if "cython" in sys.argv:
            body = cython_awaits.awaits(body)
        task = start(body, "runs", "", "other main")
        if "cython" in sys.argv:
            await asyncio.sleep(0)  # the task begins
        start(sleeps(), "turn", "turn")
        await awaits(task)
    asyncio.run(main())


def write(path, loops):
    tasks = {}
    for loop in loops:
        # From 3.14 on all_tasks() is that of _asyncio, which leaves out tasks written in Python.
        written = getattr(asyncio.tasks, "_py_all_tasks", asyncio.all_tasks)
        for task in asyncio.all_tasks(loop) | written(loop):
            coroutine = task.get_coro()
            tasks[task.get_name()] = {
                "frames": chain(coroutine),
                "coroutine": None if without_frame(coroutine) else
                coroutine.__qualname__ if VERSION >= (3, 11) else coroutine.cr_code.co_name,
                "known": KNOWN.get(task.get_name())}
    for frame in sys._current_frames().values():
        if frame.f_code is blocks.__code__:
            outer = tasks["runs"]["frames"][-1:] if "cython" in sys.argv else []
            tasks["runs"]["frames"] = [place(frame), place(frame.f_back), *outer]
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump({"tasks": tasks, "pid": os.getpid()}, file)
    os.rename(path + ".new", path)


async def main(path):
    loop = asyncio.get_running_loop()
    asyncio.current_task().set_name("main")
    KNOWN["main"] = ["timer", []]
    loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(1))
    singles()
    several()
    if "cython" in sys.argv:
        of_cython()
    await streams()
    if "uvloop" not in sys.modules:
        other_kinds()
    ready, others = threading.Event(), []
    thread = threading.Thread(target=other_loop, args=(ready,), daemon=True)
    thread.start()
    await loop.run_in_executor(concurrent.futures.ThreadPoolExecutor(1), ready.wait)
    others = [task.get_loop() for task in KEPT if isinstance(task, asyncio.Task) and
              task.get_name() == "runs"]
    await asyncio.sleep(0.2)
    loop.call_later(0.2, write, path, [loop, *others])
    await sleeps()


async def many(path, number):
    async def one(i):
        await (sleeps() if i % 4 else asyncio.Event().wait())
    KEPT.extend(asyncio.get_running_loop().create_task(one(i)) for i in range(number))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.2, write, path, [])
    await sleeps()


async def depths(path, number, depth):
    KEPT.extend(asyncio.get_running_loop().create_task(deep(depth)) for _ in range(number))
    await asyncio.sleep(0)
    asyncio.get_running_loop().call_later(0.2, write, path, [])
    await sleeps()


async def flips(path, number):
    """All tasks move from one function to the other in one step of the loop."""
    sides = [asyncio.Event(), asyncio.Event()]

    async def left():
        await sides[0].wait()

    async def right():
        await sides[1].wait()

    async def moves():
        while True:
            await left()
            await right()
    KEPT.extend(asyncio.get_running_loop().create_task(moves()) for _ in range(number))
    asyncio.get_running_loop().call_later(0.2, write, path, [])
    while True:
        for i in range(2):
            await asyncio.sleep(0.7)
            sides[1 - i].clear()
            sides[i].set()


async def eager(path):
    """A task that runs starts another one, which runs at once, and that one a third."""
    async def outer():
        await asyncio.create_task(runs(threading.Event()), name="inner")
    asyncio.current_task().set_name("main")
    asyncio.get_running_loop().create_task(sleeps(0), name="turn")
    asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
    write(path, [])
    await asyncio.create_task(outer(), name="outer")


async def changes(path):
    """Tasks come and go all the time, below some that stay."""
    async def naps(number):
        for _ in range(number):
            await asyncio.sleep(0.0005)

    async def stays():
        while True:
            await asyncio.gather(*(naps(i % 5) for i in range(20)))
    for i in range(10):
        start(stays(), "stays %d" % i, "gather")
    asyncio.get_running_loop().call_later(0.2, write, path, [])
    await sleeps()


if __name__ == "__main__":
    if "uvloop" in sys.argv:
        import uvloop
        uvloop.install()
    if "many" in sys.argv:
        asyncio.run(many(sys.argv[1], int(sys.argv[3])))
    elif "depths" in sys.argv:
        asyncio.run(depths(sys.argv[1], int(sys.argv[3]), int(sys.argv[4])))
    elif "flips" in sys.argv:
        asyncio.run(flips(sys.argv[1], int(sys.argv[3])))
    elif "eager" in sys.argv:
        asyncio.run(eager(sys.argv[1]))
    elif "changes" in sys.argv:
        asyncio.run(changes(sys.argv[1]))
    else:
        asyncio.run(main(sys.argv[1]))
