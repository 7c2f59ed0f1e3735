# SPDX-License-Identifier: Apache-2.0
"""A fixed piece of work in one thread, beside many that sleep. argv: threads that sleep, size of the work.

Prints the seconds of wall time that the work took.
"""

import sys
import threading
import time


def leaf(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


def work(rounds):
    for _ in range(rounds):
        leaf(2000)


def main():
    done = threading.Event()
    threads = [threading.Thread(target=done.wait, daemon=True) for _ in range(int(sys.argv[1]))]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    sys.stdin.readline()
    start = time.perf_counter()
    work(int(sys.argv[2]))
    print(time.perf_counter() - start, flush=True)


main()
