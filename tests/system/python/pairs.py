# SPDX-License-Identifier: Apache-2.0
"""Python frames and C calls of the eval loop that do not pair one by one: pairs.py HOW OUT [N].

OUT gets the names of the frames that Python says there are, outermost first; then the program works
in a callback of sorted() for ever. HOW is the name of a function below.
"""
import asyncio
import contextlib
import functools
import json
import os
import sys
import threading
import traceback


def key_of(number):
    total = 0
    for i in range(40):
        total += i * number
    return -number


def work():
    names = [one.name for one in traceback.extract_stack()]
    with open(sys.argv[2] + ".new", "w") as out:
        json.dump(names, out)
    os.rename(sys.argv[2] + ".new", sys.argv[2])
    while True:
        sorted(range(300), key=key_of)


def inner():
    try:
        yield 1
    except ValueError:
        work()


def middle():
    yield from inner()


def outer():
    yield from middle()


def thrown():
    chain = outer()
    next(chain)
    functools.reduce(lambda _, error: chain.throw(error), [ValueError(), ValueError()])


def closed():
    def last():
        try:
            yield 1
        finally:
            work()

    def first():
        yield from last()
    chain = first()
    next(chain)
    chain.close()


def cancelled():
    async def waits():
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            work()

    async def between():
        await waits()

    async def main():
        await asyncio.wait_for(between(), 0.01)
    asyncio.run(main())


@contextlib.contextmanager
def manager():
    try:
        yield
    except ValueError:
        work()


def managed():
    with manager():
        raise ValueError


def down(rest):
    return down(rest - 1) if rest else work()


def deep():
    sys.setrecursionlimit(int(sys.argv[3]) + 200)
    threading.stack_size(512 << 20)
    thread = threading.Thread(target=lambda: down(int(sys.argv[3])))
    thread.start()
    thread.join()


def crowd():
    threading.stack_size(256 << 10)
    gate = threading.Event()
    for _ in range(int(sys.argv[3])):
        threading.Thread(target=gate.wait, daemon=True).start()
    work()


def switched():
    import greenlet
    main = greenlet.getcurrent()

    def starts(rest):
        return starts(rest - 1) if rest else green.switch()

    def body():
        main.switch()
        work()
    green = greenlet.greenlet(lambda: body())
    starts(4)
    green.switch()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
