# SPDX-License-Identifier: Apache-2.0
"""Matrices multiplied by numpy with so many threads. argv: threads, seconds.

OPENBLAS_NUM_THREADS does that too, but not past the CPUs of the machine; a container whose limit is lower has
the same trouble. Prints "ready", waits for a line, works, and prints how far it came, and the CPU time of its
main thread and of the others.
"""

import ctypes
import json
import os
import re
import sys
import time

import numpy


def set_threads(nr):
    with open("/proc/self/maps", encoding="utf-8") as file:
        path = re.search(r"/\S*openblas\S*\.so\S*", file.read()).group()
    library = ctypes.CDLL(path)
    for name in ("scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads",
                 "openblas_set_num_threads64_", "openblas_set_num_threads"):
        if hasattr(library, name):
            getattr(library, name)(nr)
            return
    raise SystemExit("OpenBLAS cannot be told")


def multiply(matrix, seconds):
    end = time.monotonic() + seconds
    rounds = 0
    while time.monotonic() < end:
        matrix @ matrix
        rounds += 1
    return rounds


def main():
    set_threads(int(sys.argv[1]))
    matrix = numpy.random.rand(600, 600)
    multiply(matrix, 0.1)
    print("ready", flush=True)
    sys.stdin.readline()
    every, main_thread = time.process_time(), time.thread_time()
    rounds = multiply(matrix, float(sys.argv[2]))
    time.sleep(0.5)  # the others look for more to do for a moment
    every, main_thread = time.process_time() - every, time.thread_time() - main_thread
    print(json.dumps({"rounds": rounds, "threads": len(os.listdir("/proc/self/task")),
                      "main_thread": main_thread, "others": every - main_thread}), flush=True)


main()
