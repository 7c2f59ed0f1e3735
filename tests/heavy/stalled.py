# SPDX-License-Identifier: Apache-2.0
"""A Ray job that hangs or waits. argv: "deadlock", "spins", "sleeps", or "serves". Prints "ready"."""

import asyncio
import sys
import threading
import time

import ray


def deadlock():
    first, second = threading.Lock(), threading.Lock()

    def other():
        with second:
            time.sleep(0.5)
            with first:
                pass

    with first:
        threading.Thread(target=other).start()
        time.sleep(1)
        with second:
            pass


@ray.remote
class Learner:
    def fit(self, way):
        if way == "deadlock":
            deadlock()
        elif way == "spins":
            while True:
                pass
        while True:
            time.sleep(0.5)


@ray.remote
class Server:
    async def serve(self):
        self.asked = asyncio.Queue()
        while True:
            await self.asked.get()


def main():
    way = sys.argv[1]
    ray.init(num_cpus=1, include_dashboard=False)
    work = Server.remote().serve.remote() if way == "serves" else Learner.remote().fit.remote(way)
    time.sleep(3)
    print("ready", flush=True)
    ray.get(work)


main()
