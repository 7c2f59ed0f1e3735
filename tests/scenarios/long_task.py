# SPDX-License-Identifier: Apache-2.0
"""Ten tasks of one name, of which one is given twenty times the work of the others.

Prints "ready", waits for a line, works, prints how long each took, and waits for another one.
"""

import json
import os
import sys
import time

import ray


@ray.remote
def nap():
    time.sleep(0.2)


@ray.remote
def step(seconds):
    begin = time.perf_counter()
    while time.perf_counter() < begin + seconds:
        sum(i * i for i in range(100))
    return os.getpid(), time.perf_counter() - begin


def main():
    ray.init(num_cpus=2, include_dashboard=False)
    ray.get([nap.remote() for _ in range(2)])  # two workers are there
    print("ready", flush=True)
    sys.stdin.readline()
    took = ray.get([step.remote(4.0 if i == 3 else 0.2) for i in range(10)])
    pid, longest = max(took, key=lambda one: one[1])
    every = sorted(seconds for _, seconds in took)
    print(json.dumps({"pid": pid, "longest": longest, "median": every[4], "all": sum(every)}),
          flush=True)
    sys.stdin.readline()


main()
