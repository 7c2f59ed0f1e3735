# SPDX-License-Identifier: Apache-2.0
"""Two threads that hold the GIL in turn, each of which writes down when, and one that wants it.

gilwaits.py FILE LIBRARY: FILE gets JSON: {"tids": {NAME: TID}, "held": {NAME: [[begin, end], ...]}}, times in
nanoseconds since 1970, once FILE.stop is there. FILE.ready is there as soon as all threads are. LIBRARY: of
gilwaits.c.
"""

import ctypes
import json
import os
import sys
import threading
import time

LIBC, LIBRARY = ctypes.PyDLL(None), ctypes.PyDLL(sys.argv[2])  # calls of them keep the GIL
TIDS, HELD = {}, {"much": [], "less": []}
BARRIER = threading.Barrier(4)
STOP = []


def holder(name, ns):
    times = (ctypes.c_int64 * 2)()
    TIDS[name] = LIBC.syscall(186)
    BARRIER.wait()
    while not STOP:
        LIBRARY.hold(ctypes.c_int64(ns), times)
        HELD[name].append(list(times))
        time.sleep(0.004)


def want():
    TIDS["want"] = LIBC.syscall(186)
    BARRIER.wait()
    while not STOP:
        time.sleep(0.001)


def main():
    path = sys.argv[1]
    threads = [threading.Thread(target=holder, args=("much", 120000000)),
               threading.Thread(target=holder, args=("less", 40000000)),
               threading.Thread(target=want)]
    for thread in threads:
        thread.start()
    BARRIER.wait()
    with open(path + ".ready", "w", encoding="ascii"):
        pass
    while not os.path.exists(path + ".stop"):
        time.sleep(0.1)
    STOP.append(1)
    for thread in threads:
        thread.join()
    with open(path + ".new", "w", encoding="ascii") as file:
        json.dump({"tids": TIDS, "held": HELD}, file)
    os.rename(path + ".new", path)


main()
