# SPDX-License-Identifier: Apache-2.0
"""A main thread that works on what others load. loader.py FILE KIND

KIND: starved - one process loads, and takes six times as long as the work; helped - the same, and a thread
hands it on; fed - two that are quicker than the work; collector - a pool computes, and there is no work.
FILE gets JSON once FILE.stop is there: {"pid": PID, "children": [PID], "waits": [[begin, end], ...]}, in nanoseconds
since 1970. FILE.ready is there as soon as something has come.
"""

import ctypes
import json
import multiprocessing
import os
import queue
import sys
import threading
import time

PATH, KIND = sys.argv[1:]
LOAD_S, WORK_S = {"starved": (0.012, 0.002), "helped": (0.012, 0.002), "fed": (0.002, 0.02),
                  "collector": (0.03, 0)}[KIND]


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(100))


def end_with_parent():
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG


def load(items):
    end_with_parent()
    while True:
        burn(LOAD_S)
        items.put(b"x" * 1000)


def compute(_):
    burn(LOAD_S)
    return b"x" * 1000


def hand_on(items, loaded):
    while True:
        loaded.put(items.get())




def source():
    """What brings the next one, and the processes that make them."""
    context = multiprocessing.get_context("fork")
    if KIND == "collector":
        pool = context.Pool(2, end_with_parent)
        children = multiprocessing.active_children()
        return pool.imap_unordered(compute, range(1 << 20)).__next__, children
    items = context.Queue(8)
    children = [context.Process(target=load, args=(items,), daemon=True)
                for _ in range(2 if KIND == "fed" else 1)]
    for child in children:
        child.start()
    if KIND != "helped":
        return items.get, children
    loaded = queue.Queue(8)
    threading.Thread(target=hand_on, args=(items, loaded), daemon=True).start()
    return loaded.get, children


def main():
    take, children = source()
    waits = []
    while not os.path.exists(PATH + ".stop"):
        begin = time.time_ns()
        take()
        waits.append([begin, time.time_ns()])
        burn(WORK_S)
        if len(waits) == 3:
            with open(PATH + ".ready", "w", encoding="ascii"):
                pass
    with open(PATH + ".new", "w", encoding="ascii") as file:
        json.dump({"pid": os.getpid(), "children": [child.pid for child in children],
                   "waits": waits}, file)
    os.rename(PATH + ".new", PATH)
    for child in children:
        child.kill()
    os._exit(0)


main()
