# SPDX-License-Identifier: Apache-2.0
"""Threads that have nothing to do, and threads that wait for something: who did what is written down.

parked.py FILE LIBRARY: once FILE.stop is there, FILE gets JSON: {TID: [[begin, end], ...]}, for each
helper thread the times that it was at work, waiting in it included, in nanoseconds since 1970; "all" as
TID's value: it never has nothing to do. FILE.ready is there as soon as all threads are. LIBRARY: of parked.c.
"""

import asyncio
import concurrent.futures
import ctypes
import json
import os
import queue
import sys
import threading
import time

WORK = {}
STOP = threading.Event()


def tid():
    return threading.get_native_id()


def nap(seconds):
    """A task: waits, and is at work all the same."""
    begin = time.time_ns()
    time.sleep(seconds)
    WORK.setdefault(tid(), []).append([begin, time.time_ns()])


def consume(jobs):
    """A thread of the program's own that waits for something to do: that is what it is about."""
    WORK[tid()] = "all"
    jobs.get()


def run_loop(loop):
    WORK[tid()] = []
    loop.run_forever()


def regions(library):
    """Parallel regions of OpenMP with pauses in between."""
    WORK[tid()] = "all"
    while not STOP.is_set():
        library.region(100)
        time.sleep(0.2)


def main():
    path, library = sys.argv[1], ctypes.CDLL(sys.argv[2])
    loop, jobs = asyncio.new_event_loop(), queue.Queue()
    threads = [threading.Thread(target=consume, args=(jobs,)),
               threading.Thread(target=run_loop, args=(loop,)),
               threading.Thread(target=regions, args=(library,))]
    for thread in threads:
        thread.start()
    idle, busy = (concurrent.futures.ThreadPoolExecutor(1) for _ in range(2))
    idle.submit(nap, 0.01).result()
    busy.submit(nap, 0.01).result()
    library.wait_ready()
    with open(path + ".ready", "w", encoding="ascii"):
        pass
    while not os.path.exists(path + ".stop"):
        busy.submit(nap, 0.1)
        time.sleep(0.25)
    STOP.set()
    jobs.put(None)
    loop.call_soon_threadsafe(loop.stop)
    for thread in threads:
        thread.join()
    for pool in (idle, busy):
        pool.shutdown()
    library.written.restype = ctypes.c_size_t
    times = (ctypes.c_int64 * (3 * library.written(None)))()
    library.written(times)
    for i in range(0, len(times), 3):
        if times[i]:
            WORK.setdefault(times[i], []).append([times[i + 1], times[i + 2]])
    with open(path + ".new", "w", encoding="ascii") as file:
        json.dump(WORK, file)
    os.rename(path + ".new", path)


if __name__ == "__main__":
    main()
