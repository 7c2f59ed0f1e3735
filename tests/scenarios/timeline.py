# SPDX-License-Identifier: Apache-2.0
"""Tasks and actor calls of several lengths that write down when they began and ended. argv: how many.

Prints "ready", waits for a line, works, prints what each call measured of itself and what
ray.timeline() has of them, and waits for another one.
"""

import json
import os
import sys
import time

import ray


def spend(seconds):
    begin = time.monotonic_ns()
    time.sleep(seconds / 2)
    end = time.perf_counter() + seconds / 2
    while time.perf_counter() < end:
        sum(i * i for i in range(100))
    return os.getpid(), begin, time.monotonic_ns()


@ray.remote
def load(seconds):
    return spend(seconds)


@ray.remote
def transform_with_a_name_longer_than_fifteen_bytes(seconds):
    return spend(seconds)


@ray.remote
class Model:
    def predict(self, seconds):
        return spend(seconds)


def ask(nr, model):
    calls = {"load": [], "transform_with_a_name_longer_than_fifteen_bytes": [],
             "Model.predict": []}
    for i in range(nr):
        calls["load"].append(load.remote(0.002 + 0.001 * (i % 7)))
        calls["transform_with_a_name_longer_than_fifteen_bytes"].append(
            transform_with_a_name_longer_than_fifteen_bytes.remote(0.004 + 0.001 * (i % 3)))
        calls["Model.predict"].append(model.predict.remote(0.001))
    return {name: ray.get(refs) for name, refs in calls.items()}


def main():
    ray.init(num_cpus=3, include_dashboard=False)
    model = Model.remote()
    ask(3, model)
    print("ready", flush=True)
    sys.stdin.readline()
    truth = ask(int(sys.argv[1]), model)
    time.sleep(3)  # workers report to Ray now and then
    told = [(one["cat"].removeprefix("task::"), one["ts"], one["dur"]) for one in ray.timeline()
            if one["cat"].startswith("task::")]
    print(json.dumps({"calls": truth, "ray": told}), flush=True)
    sys.stdin.readline()


main()
