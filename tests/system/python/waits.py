# SPDX-License-Identifier: Apache-2.0
"""Threads that wait in known places, each of which writes down when it did.

waits.py FILE: FILE gets JSON: {"places": {NAME: [[begin, end, thread], ...]}, "threads": {NAME:
[begin, end, tid]}}, times in nanoseconds since 1970, once FILE.stop is there. FILE.ready is there
as soon as all threads are.
"""

import ctypes
import json
import os
import select
import sys
import threading
import time

PLACES, THREADS = {}, {}
LIBC = ctypes.CDLL(None)
STOP = []  # filled in the end


def timed(place):
    """Writes down each call of the place."""
    log = PLACES.setdefault(place.__name__, [])

    def call(*args):
        begin = time.time_ns()
        place(*args)
        log.append([begin, time.time_ns(), threading.current_thread().name])
    return call


@timed
def nap():
    time.sleep(0.05)


@timed
def doze():
    time.sleep(0.21)


@timed
def blink():
    for _ in range(30):
        time.sleep(0.001)


@timed
def pipe_wait(fd):
    os.read(fd, 1)


@timed
def poll_wait(poller):
    poller.poll(0.13)


@timed
def lock_wait(lock):
    lock.acquire()


@timed
def get(condition):
    """Waits as a driver does for its results: not only in Python's own code."""
    with condition:
        condition.wait()


@timed
def forever():
    threading.Event().wait()


@timed
def spin():
    end = time.monotonic() + 0.03
    while time.monotonic() < end:
        pass


def sleeper():
    while not STOP:
        nap()
        doze()
        spin()


def blinker():
    while not STOP:
        blink()


def piper(fd):
    while not STOP:
        pipe_wait(fd)


def writer(fd):
    while len(STOP) < 2:
        time.sleep(0.07)
        os.write(fd, b"x")


def poller():
    none = select.epoll()
    while not STOP:
        poll_wait(none)


def locker(lock):
    while not STOP:
        lock_wait(lock)
        lock.release()
        time.sleep(0.02)


def holder(lock):
    while len(STOP) < 2:
        with lock:
            time.sleep(0.11)
        time.sleep(0.03)


def run(name, body, args, barrier):
    begin = time.time_ns()
    barrier.wait()
    body(*args)
    THREADS[name] = [begin, time.time_ns(), LIBC.syscall(186)]


def main():
    path = sys.argv[1]
    reading, writing = os.pipe()
    lock, condition = threading.Lock(), threading.Condition()
    bodies = [("sleeper", sleeper, ()), ("blinker", blinker, ()), ("piper", piper, (reading,)),
              ("writer", writer, (writing,)), ("poller", poller, ()), ("locker", locker, (lock,)),
              ("holder", holder, (lock,))]
    barrier = threading.Barrier(len(bodies) + 1)
    threads = [threading.Thread(target=run, args=(name, body, args, barrier), name=name)
               for name, body, args in bodies]
    for thread in threads:
        thread.start()
    threading.Thread(target=forever, name="forever", daemon=True).start()
    barrier.wait()
    with open(path + ".ready", "w", encoding="ascii") as file:
        file.write("%d" % os.getpid())

    def wake():
        while not os.path.exists(path + ".stop"):
            time.sleep(0.05)
        STOP.append(1)
        time.sleep(1)  # those that are waited for end later
        STOP.append(2)
        with condition:
            condition.notify()
    threading.Thread(target=wake, name="wake").start()
    get(condition)
    for thread in threads:
        thread.join()
    with open(path + ".new", "w", encoding="ascii") as file:
        json.dump({"places": PLACES, "threads": THREADS}, file)
    os.rename(path + ".new", path)


if __name__ == "__main__":
    main()
