# SPDX-License-Identifier: Apache-2.0
"""Tasks of asyncio that wait in known functions: who waited where, and when, is written down.

async_waits.py FILE [COPIES [uvloop | cython]]: once FILE.stop is there, FILE gets JSON: {"begin", "end", "waits": [[functions, why, begin,
end], ...]} in nanoseconds since 1970. `functions` are those of this file, from the task that nothing awaits to the one
that waits. FILE.ready is there as soon as all run.
"""

import asyncio
import json
import os
import random
import socket
import sys
import time

WAITS, KEPT = [], []
VERSION = sys.version_info[:2]


if "cython" in sys.argv:
    import cython_awaits


def task(coroutine):
    if "cython" in sys.argv:
        coroutine = cython_awaits.awaits(coroutine)
    return asyncio.get_running_loop().create_task(coroutine)


def note(functions, why, begin):
    WAITS.append([functions.split(), why, begin, time.time_ns()])


def seconds():
    return random.uniform(0.05, 0.25)


# Two awaits deep.

async def plain():
    await middle()


async def middle():
    await inner()


async def inner():
    begin = time.time_ns()
    await asyncio.sleep(seconds())
    note("plain middle inner", "timer", begin)


async def naps(outer, length=None):
    begin = time.time_ns()
    await asyncio.sleep(length or seconds())
    note(outer + " naps", "timer", begin)


async def other(outer):
    begin = time.time_ns()
    await asyncio.sleep(seconds() * 2)
    note(outer + " other", "timer", begin)


# Tasks that await tasks.

async def gathers():
    await asyncio.gather(task(naps("gathers", 0.05)), task(other("gathers")))


async def nests():
    await asyncio.gather(task(naps("nests")), task(pair()))


async def pair():
    await asyncio.gather(task(naps("nests pair")), task(other("nests pair")))


async def waits():
    await asyncio.wait({task(naps("waits")), task(other("waits"))})


async def awaits():
    await task(naps("awaits"))


async def shields():
    await asyncio.shield(task(other("shields")))


async def limits():
    await asyncio.wait_for(task(naps("limits")), 100)


async def groups():
    async with asyncio.TaskGroup() as group:
        for function in (naps, other):
            group.create_task(function("groups"))


# Other reasons to wait.

async def consumes():
    queue = asyncio.Queue()
    asyncio.get_running_loop().call_later(seconds(), queue.put_nowait, 1)
    await takes(queue)


async def takes(queue):
    begin = time.time_ns()
    await queue.get()
    note("consumes takes", "queue", begin)


async def locks(lock):
    begin = time.time_ns()
    async with lock:
        note("locks", "lock", begin)
        await naps("locks")


async def events():
    event = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds(), event.set)
    begin = time.time_ns()
    await event.wait()
    note("events", "event", begin)


async def futures():
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(seconds(), future.set_result, 1)
    begin = time.time_ns()
    await future
    note("futures", "future", begin)


async def calls():
    begin = time.time_ns()
    await asyncio.get_running_loop().run_in_executor(None, time.sleep, seconds())
    note("calls", "executor", begin)


async def reads():
    ours, theirs = socket.socketpair()
    begin = time.time_ns()
    reader, writer = await asyncio.open_connection(sock=ours)
    note("reads", "future", begin)
    asyncio.get_running_loop().call_later(seconds(), theirs.send, b"x")
    begin = time.time_ns()
    await reader.readexactly(1)
    note("reads", "socket", begin)
    writer.close()
    theirs.close()


async def counts():
    for _ in range(2):
        begin = time.time_ns()
        await asyncio.sleep(seconds())
        note("iterates counts", "timer", begin)
        yield


async def iterates():
    async for _ in counts():
        pass


async def again(path, function, *args):
    """The same over and over. Each time is a task of its own, which nothing awaits."""
    done = asyncio.Event()
    while not os.path.exists(path + ".stop"):
        done.clear()
        one = task(function(*args))
        one.add_done_callback(lambda _: done.set())
        KEPT.append(one)
        begin = time.time_ns()
        await done.wait()
        note("again", "event", begin)
        KEPT.remove(one)


async def main(path, copies):
    begin = time.time_ns()
    functions = [plain, gathers, nests, waits, awaits, shields, limits, consumes, events, futures,
                 iterates]
    functions += [groups] if VERSION >= (3, 11) else []
    drivers = []
    for function in functions * copies:
        drivers.append((function,))
    for _ in range(2):
        drivers.append((calls,))
        drivers.append((reads,))
    for _ in range(copies // 2):
        lock = asyncio.Lock()
        drivers += [(locks, lock)] * 2
    for driver in drivers:
        KEPT.append(task(again(path, *driver)))
    with open(path + ".ready", "w", encoding="ascii"):
        pass
    while not os.path.exists(path + ".stop"):
        now = time.time_ns()
        await asyncio.sleep(0.1)
        note("main", "timer", now)
    end = time.time_ns()
    with open(path + ".part", "w", encoding="ascii") as file:
        json.dump({"begin": begin, "end": end, "waits": WAITS}, file)
    os.rename(path + ".part", path)
    os._exit(0)


if sys.argv[3:] == ["uvloop"]:
    import uvloop
    uvloop.install()
asyncio.run(main(sys.argv[1], int(sys.argv[2])))
