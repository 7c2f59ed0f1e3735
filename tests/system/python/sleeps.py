# SPDX-License-Identifier: Apache-2.0
"""Threads that sleep, each in its own way, and what the interpreter says of their frames.

sleeps.py FILE [NUMBER]: a last thread watches the others until they hold still, writes
their frames as sys._current_frames() has them to FILE, and sleeps too. NUMBER: that many more
threads that wait for one event.
"""

import asyncio
import concurrent.futures
import contextlib
import ctypes
import fcntl
import functools
import json
import multiprocessing
import os
import queue
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

LONG = 100000
LIBC = ctypes.CDLL(None)
NATIVE = {}  # ident -> thread id of the kernel
WAYS = []
KEPT = []  # what must not be collected
FOLDER = tempfile.mkdtemp(prefix="sleeps-")
HAS_IDS = sys.version_info >= (3, 8)


def way(function):
    WAYS.append(function)
    return function


def path(name):
    return os.path.join(FOLDER, name)


def keep(*things):
    KEPT.extend(things)
    return things[0]


@way
def lock():
    mine = keep(threading.Lock())
    mine.acquire()
    mine.acquire()


@way
def reentrant_lock():
    with HELD:
        pass


@way
def condition():
    mine = threading.Condition()
    with mine:
        mine.wait()


@way
def condition_timed():
    mine = threading.Condition()
    with mine:
        mine.wait(LONG)


@way
def event():
    threading.Event().wait()


@way
def semaphore():
    threading.Semaphore(0).acquire()


@way
def barrier():
    threading.Barrier(2).wait()


@way
def sleep():
    time.sleep(LONG)


@way
def socket_receive():
    left, right = socket.socketpair()
    keep(right)
    left.recv(1)


@way
def socket_accept():
    server = socket.socket(socket.AF_INET)
    server.bind(("127.0.0.1", 0))
    server.listen(1)
    server.accept()


@way
def socket_timeout():
    left, right = socket.socketpair()
    keep(right)
    left.settimeout(LONG)
    left.recv(1)


@way
def select_select():
    reader, writer = os.pipe()
    keep(writer)
    select.select([reader], [], [])


@way
def select_poll():
    reader, _ = os.pipe()
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    poll.poll()


@way
def select_epoll():
    reader, _ = os.pipe()
    epoll = select.epoll()
    epoll.register(reader, select.EPOLLIN)
    epoll.poll()


@way
def selector():
    reader, _ = os.pipe()
    mine = selectors.DefaultSelector()
    mine.register(reader, selectors.EVENT_READ)
    mine.select()


@way
def queue_get():
    queue.Queue().get()


@way
def queue_put():
    full = queue.Queue(1)
    full.put(1)
    full.put(2)


@way
def simple_queue():
    queue.SimpleQueue().get()


@way
def subprocess_wait():
    with subprocess.Popen(["sleep", str(LONG)]) as child:
        child.wait()


@way
def wait_pid():
    child = keep(subprocess.Popen(["sleep", str(LONG)]))
    os.waitpid(child.pid, 0)


@way
def communicate():
    child = keep(subprocess.Popen(["sleep", str(LONG)], stdout=subprocess.PIPE))
    child.communicate()


@way
def fifo():
    os.mkfifo(path("fifo"))
    with open(path("fifo"), encoding="ascii") as file:
        file.read()


@way
def pipe_read():
    reader, writer = os.pipe()
    keep(writer)
    os.read(reader, 1)


@way
def pipe_write():
    reader, writer = os.pipe()
    keep(reader)
    while True:
        os.write(writer, b"x" * 65536)


@way
def buffered_read():
    reader, writer = os.pipe()
    keep(writer)
    with os.fdopen(reader, "rb") as file:
        file.readline()


async def idle():
    await asyncio.get_running_loop().create_future()


@way
def asyncio_idle():
    asyncio.new_event_loop().run_until_complete(idle())


async def blocks():
    time.sleep(LONG)


async def awaits():
    await blocks()


@way
def asyncio_blocked():
    asyncio.new_event_loop().run_until_complete(awaits())


@way
def executor():
    pool = keep(concurrent.futures.ThreadPoolExecutor(2, "pool"))
    pool.submit(int).result()
    pool.submit(time.sleep, LONG).result()


def deeper(depth):
    if depth:
        return deeper(depth - 1)
    return time.sleep(LONG)


@way
def recursion():
    deeper(300)


def numbers():
    yield 1
    time.sleep(LONG)
    yield 2


@way
def generator():
    for _ in numbers():
        pass


@way
def generator_in_c():
    sum(numbers())


def delegating():
    yield from numbers()


@way
def generator_delegates():
    list(delegating())


FIRST, SECOND, MET = threading.Lock(), threading.Lock(), threading.Barrier(2)


@way
def deadlock_one():
    with FIRST:
        MET.wait()
        with SECOND:
            pass


@way
def deadlock_two():
    with SECOND:
        MET.wait()
        with FIRST:
            pass


COMPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


def compare(_left, _right):
    time.sleep(LONG)
    return 0


@way
def ctypes_callback():
    items = (ctypes.c_int * 2)(2, 1)
    LIBC.qsort(items, 2, ctypes.sizeof(ctypes.c_int), COMPARE(compare))


@way
def ctypes_call():
    LIBC.sleep(LONG)


@way
def größe():
    время = lambda: time.sleep(LONG)  # noqa: E731
    время()


@way
def join():
    other = keep(threading.Thread(target=time.sleep, args=(LONG,), daemon=True))
    other.start()
    other.join()


@way
def process_pipe():
    left, right = multiprocessing.Pipe()
    keep(right)
    left.recv()


@way
def sig_wait():
    signal.sigwait({signal.SIGUSR1})


@way
def sig_timed_wait():
    signal.sigtimedwait({signal.SIGUSR2}, LONG)


@way
def file_lock():
    with open(path("lock"), "w", encoding="ascii") as one, \
            open(path("lock"), "w", encoding="ascii") as two:
        fcntl.flock(one, fcntl.LOCK_EX)
        fcntl.flock(two, fcntl.LOCK_EX)


def by_sleeping(value):
    time.sleep(LONG)
    return value


@way
def sort_key():
    sorted([3, 1, 2], key=by_sleeping)


@way
def comprehension():
    return [by_sleeping(value) for value in (1, 2)]


@way
def mapped():
    return list(map(by_sleeping, (1, 2)))


@contextlib.contextmanager
def manager():
    time.sleep(LONG)
    yield


@way
def context_manager():
    with manager():
        pass


def wrapped(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)
    return wrapper


@way
def decorated():
    wrapped(wrapped(by_sleeping))(1)


class Sleeper:
    def __init__(self, now=True):
        if now:
            time.sleep(LONG)

    @property
    def value(self):
        return by_sleeping(1)

    def __getattr__(self, name):
        return by_sleeping(name)

    def __call__(self):
        return by_sleeping(self)

    def __lt__(self, other):
        return by_sleeping(other)

    def __del__(self):
        time.sleep(LONG)

    @classmethod
    def of_class(cls):
        by_sleeping(cls)

    @staticmethod
    def of_nothing():
        by_sleeping(0)


@way
def constructor():
    Sleeper()


@way
def prop():
    return keep(Sleeper(False)).value


@way
def missing_attribute():
    return keep(Sleeper(False)).nothing


@way
def callable_object():
    keep(Sleeper(False))()


@way
def operator():
    return keep(Sleeper(False)) < 1


@way
def finalizer():
    Sleeper(False)


@way
def class_method():
    Sleeper.of_class()


@way
def static_method():
    Sleeper.of_nothing()


@way
def class_body():
    class Inner:  # pylint: disable=unused-variable
        time.sleep(LONG)


@way
def executed():
    exec("import time\n\ntime.sleep(%d)" % LONG)  # pylint: disable=exec-used


@way
def evaluated():
    eval("[by_sleeping(x) for x in (1, 2)]")  # pylint: disable=eval-used


@way
def imported():
    with open(path("sleeping_module.py"), "w", encoding="ascii") as file:
        file.write("import time\n\n\ndef f():\n    time.sleep(%d)\n\n\nf()\n" % LONG)
    sys.path.insert(0, FOLDER)
    import sleeping_module  # noqa: F401  # pylint: disable=import-error,import-outside-toplevel


@way
def packaged():
    os.makedirs(path("outer/inner"))
    for name in ("outer/__init__.py", "outer/inner/__init__.py"):
        with open(path(name), "w", encoding="ascii") as file:
            file.write("")
    with open(path("outer/inner/deep.py"), "w", encoding="ascii") as file:
        file.write("import time\n\n\ndef wait():\n    time.sleep(%d)\n" % LONG)
    sys.path.insert(0, FOLDER)
    from outer.inner import deep  # pylint: disable=import-error,import-outside-toplevel
    deep.wait()


@way
def exception_handler():
    try:
        raise ValueError
    except ValueError:
        try:
            raise KeyError
        finally:
            time.sleep(LONG)


def run(function):
    NATIVE[threading.get_ident()] = threading.get_native_id()
    function()


def stack(frame):
    found = []
    while frame:
        code = frame.f_code
        found.append([getattr(code, "co_qualname", code.co_name), code.co_filename,
                      frame.f_lineno or 0])
        frame = frame.f_back
    return found


def look():
    mine = threading.get_ident()
    for thread in threading.enumerate():
        NATIVE.setdefault(thread.ident, thread.native_id)
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return {str(NATIVE[ident]): {"name": names.get(ident), "frames": stack(frame)}
            for ident, frame in sys._current_frames().items()  # pylint: disable=protected-access
            if ident != mine and ident in NATIVE}


def watch(out):
    before, now = None, look()
    while before != now:
        time.sleep(0.3)
        before, now = now, look()
    with open(out + ".part", "w", encoding="utf-8") as file:
        json.dump(now, file)
    os.rename(out + ".part", out)
    threading.Event().wait()


HELD = threading.RLock()


def main():
    # These are for the threads that wait for them.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1, signal.SIGUSR2})
    HELD.acquire()
    for function in WAYS:
        threading.Thread(target=run, args=(function,), name="way " + function.__name__,
                         daemon=True).start()
    for _ in range(int(sys.argv[2]) if len(sys.argv) > 2 else 0):
        threading.Thread(target=run, args=(event,), daemon=True).start()
    threading.Thread(target=watch, args=(sys.argv[1],), name="watcher", daemon=True).start()
    time.sleep(LONG)


if __name__ == "__main__":
    main()
