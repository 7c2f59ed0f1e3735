# SPDX-License-Identifier: Apache-2.0
"""Actors that make several calls at once: an asyncio actor, one with threads, one with concurrency groups. argv: how
many calls of each.

Prints "ready" when all rest, waits for a line, calls each actor once and then many times at once, prints what each call
measured of itself, in the order of its begin, and waits for another line. Each of the many calls has a name of its own.
"""

import asyncio
import json
import os
import sys
import time

import ray


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


class Log:
    def __init__(self):
        self.rows = []

    def ran(self, name, begin):
        self.rows.append((name, os.getpid(), begin, time.monotonic_ns()))


def spend(log, name, seconds):
    begin = time.monotonic_ns()
    burn(seconds / 10)
    time.sleep(seconds)
    log.ran(name, begin)


@ray.remote
class Coroutines(Log):
    async def serve(self, name, seconds):
        begin = time.monotonic_ns()
        for _ in range(5):
            await asyncio.sleep(seconds / 5)
        self.ran(name, begin)

    async def take(self):
        return self.rows


@ray.remote
class Threads(Log):
    def serve(self, name, seconds):
        spend(self, name, seconds)

    def take(self):
        return self.rows


@ray.remote(concurrency_groups={"io": 2, "compute": 2})
class Groups(Log):
    @ray.method(concurrency_group="io")
    def load(self, name, seconds):
        spend(self, name, seconds)

    @ray.method(concurrency_group="compute")
    def serve(self, name, seconds):
        spend(self, name, seconds)

    def take(self):
        return self.rows


def called(actor, name, nr):
    refs = []
    for i in range(nr):
        method = actor.load if name == "Groups" and i % 2 else actor.serve
        label = "%s_call_%dx" % (name, i)
        refs.append(method.options(name=label).remote(label, 0.02 * (1 + 7 * i % 5)))
    return refs


def main():
    ray.init(num_cpus=4, include_dashboard=False)
    actors = {"Coroutines": Coroutines.options(max_concurrency=8).remote(),
              "Threads": Threads.options(max_concurrency=4).remote(), "Groups": Groups.remote()}
    ray.get([actor.take.remote() for actor in actors.values()])
    print("ready", flush=True)
    sys.stdin.readline()
    for name, actor in actors.items():
        ray.get(actor.serve.remote(name + ".serve", 0.05))
    ray.get([ref for name, actor in actors.items()
             for ref in called(actor, name, int(sys.argv[1]))])
    rows = {name: sorted(ray.get(actor.take.remote()), key=lambda row: row[2])
            for name, actor in actors.items()}
    print(json.dumps(rows), flush=True)
    sys.stdin.readline()


main()
