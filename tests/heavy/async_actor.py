# SPDX-License-Identifier: Apache-2.0
"""A Ray job: an async actor whose methods wait, and one whose method computes in gathered coroutines. argv: seconds.

Prints "ready", then one line of JSON: {"pid": of the first actor, "tasks": {name: frames, innermost first}}.
"""

import asyncio
import json
import os
import sys
import time

import ray

PROGRAMS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "system", "python")
LONG = 1000


def chain(coroutine):
    sys.path.append(PROGRAMS)
    import awaited
    return awaited.chain(coroutine)


@ray.remote
class Waits:
    async def sleeps(self):
        await asyncio.sleep(LONG)

    async def takes(self):
        await asyncio.Queue().get()

    async def gathers(self):
        await asyncio.gather(self.inner(), self.inner())

    async def inner(self):
        async with asyncio.Lock():
            await asyncio.Event().wait()

    async def tasks(self):
        """Without the task of this method."""
        return os.getpid(), {task.get_name(): chain(task.get_coro()) for task in asyncio.all_tasks()
                             if task is not asyncio.current_task()}


@ray.remote
class Computes:
    async def gathers(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await asyncio.gather(self.inner(), self.inner())

    async def inner(self):
        await asyncio.sleep(0)
        self.spin()

    def spin(self):
        end = time.thread_time() + 0.01
        while time.thread_time() < end:
            pass


def main():
    ray.init(num_cpus=2, include_dashboard=False)
    waits = Waits.options(max_concurrency=8).remote()
    computes = Computes.options(max_concurrency=8).remote()
    kept = [waits.sleeps.remote(), waits.takes.remote(), waits.gathers.remote()]
    tasks = {}
    while len(tasks) < 5:  # the three methods and two tasks of gather()
        time.sleep(0.5)
        pid, tasks = ray.get(waits.tasks.remote())
    ray.get(computes.gathers.remote(0.1))
    print("ready", flush=True)
    print(json.dumps({"pid": pid, "tasks": tasks}), flush=True)
    ray.get(computes.gathers.remote(float(sys.argv[1])))
    del kept


main()
