# SPDX-License-Identifier: Apache-2.0
"""A Ray job: two actors whose methods take turns, short ones and long ones, each timed by its own
thread's clock. argv: seconds. Prints "ready", then one line "METHOD SECONDS" each."""

import sys
import time

import ray


def burn(seconds):
    start = time.thread_time()
    while time.thread_time() - start < seconds:
        sum(i * i for i in range(100))
    return time.thread_time() - start


@ray.remote
class Mixed:
    def rollout(self):
        return burn(0.015)

    def train_step(self):
        return burn(0.06)

    def evaluate(self):
        return burn(0.03)


def main():
    end = time.time() + float(sys.argv[1])
    ray.init(num_cpus=2, include_dashboard=False)
    actors = [Mixed.remote() for _ in range(2)]
    ray.get([actor.rollout.remote() for actor in actors])
    print("ready", flush=True)
    names = ("rollout", "train_step", "evaluate", "rollout")
    spent = dict.fromkeys(names, 0.0)
    while time.time() < end:
        for name in names:
            spent[name] += sum(ray.get([getattr(actor, name).remote() for actor in actors]))
    for name, seconds in spent.items():
        print(name, seconds, flush=True)


main()
