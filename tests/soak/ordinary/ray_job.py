# SPDX-License-Identifier: Apache-2.0
"""A Ray job: tasks, actors that sleep and serve, and a driver that is idle for a while. argv: seconds."""

import asyncio
import random
import sys
import time

import ray


@ray.remote
def task(seconds):
    started = time.time()
    while time.time() < started + seconds:
        sum(range(1000))


@ray.remote
class Env:
    def step(self, seconds):
        time.sleep(seconds)


@ray.remote
class Server:
    async def ask(self):
        await asyncio.sleep(0.1)

    async def serve(self):
        while True:
            await asyncio.sleep(5)


def main():
    end = time.time() + float(sys.argv[1])
    ray.init(num_cpus=3, include_dashboard=False)
    server, envs = Server.remote(), [Env.remote() for _ in range(2)]
    kept = server.serve.remote()
    while time.time() < end:
        ray.get([task.remote(0.2) for _ in range(5)])
        ray.get([env.step.remote(random.choice([0.1, 1, 5])) for env in envs])
        ray.wait([server.ask.remote() for _ in range(3)], num_returns=3)
        time.sleep(random.choice([0, 1, 25]))
    del kept


main()
