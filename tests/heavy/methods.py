# SPDX-License-Identifier: Apache-2.0
"""A Ray job: two actors whose methods take turns (argv: plain), or run at once in threads (threads) or as
coroutines (asyncio), short ones and long ones, each timed by its thread's clock. argv: seconds of work, kind. Prints "ready", then one line "METHOD SECONDS" each."""

import asyncio
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


async def burn_in_turns(seconds):
    spent = 0.0
    while spent < seconds:
        spent += burn(0.005)
        await asyncio.sleep(0.001)
    return spent


@ray.remote
class MixedCoroutines:
    async def rollout(self):
        return await burn_in_turns(0.015)

    async def train_step(self):
        return await burn_in_turns(0.06)

    async def evaluate(self):
        return await burn_in_turns(0.03)


def main():
    kind = sys.argv[2]
    ray.init(num_cpus=2, include_dashboard=False)
    cls = MixedCoroutines if kind == "asyncio" else Mixed
    actors = [cls.options(max_concurrency=1 if kind == "plain" else 4).remote() for _ in range(2)]
    ray.get([actor.rollout.remote() for actor in actors])
    print("ready", flush=True)
    end = time.time() + float(sys.argv[1])
    names = ("rollout", "train_step", "evaluate", "rollout")
    spent = dict.fromkeys(names, 0.0)
    while time.time() < end:
        for at_once in [[name] for name in names] if kind == "plain" else [names]:
            calls = [(name, getattr(actor, name).remote()) for name in at_once for actor in actors]
            for name, call in calls:
                spent[name] += ray.get(call)
    for name, seconds in spent.items():
        print(name, seconds, flush=True)


main()
