# SPDX-License-Identifier: Apache-2.0
"""A driver that waits for each of its five tasks before it asks for the next.

Prints "ready", waits for a line, works, prints how long that took and its own CPU time, and waits
for another one.
"""

import json
import sys
import time

import ray


@ray.remote
def fetch(seconds):
    time.sleep(seconds)


def fetch_all():
    for _ in range(5):
        ray.get(fetch.remote(0.5))


def main():
    ray.init(num_cpus=5, include_dashboard=False)
    ray.get(fetch.remote(0))
    print("ready", flush=True)
    sys.stdin.readline()
    begin, cpu = time.perf_counter(), time.process_time()
    fetch_all()
    print(json.dumps({"seconds": time.perf_counter() - begin,
                      "cpu": time.process_time() - cpu}), flush=True)
    sys.stdin.readline()


main()
