# SPDX-License-Identifier: Apache-2.0
"""The same work in 2,000 tasks of a millisecond or in 20 of 100 ms. argv: tiny, large, or both.

Prints "ready"; for each waits for a line, works, and prints what the tasks measured of themselves; and waits
for another line.
"""

import json
import sys
import time

import ray


def work(seconds):
    begin = time.perf_counter()
    while time.perf_counter() < begin + seconds:
        sum(i * i for i in range(20))
    return time.perf_counter() - begin


@ray.remote
def begin():
    work(0.2)


@ray.remote
def tiny():
    return work(0.001)


@ray.remote
def large():
    return work(0.1)


def main():
    ray.init(num_cpus=2, include_dashboard=False)
    ray.get([begin.remote() for _ in range(2)])  # two workers are there
    print("ready", flush=True)
    for size in sys.argv[1:]:
        task, nr = {"tiny": (tiny, 2000), "large": (large, 20)}[size]
        sys.stdin.readline()
        started = time.perf_counter()
        took = ray.get([task.remote() for _ in range(nr)])
        print(json.dumps({"calls": nr, "mean_ms": 1000 * sum(took) / nr,
                          "seconds": time.perf_counter() - started}), flush=True)
    sys.stdin.readline()


main()
