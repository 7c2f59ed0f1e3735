# SPDX-License-Identifier: Apache-2.0
"""A Ray job with a dashboard: an actor that sleeps and computes, a task that computes. argv: port of the dashboard."""

import json
import os
import sys
import tempfile
import time

import ray


@ray.remote
class Trainer:
    def __init__(self):
        self.kept = []

    def pid(self):
        return os.getpid()

    def hold(self):
        while True:
            self.kept.append(bytearray(256 << 10))
            self.rest()

    def rest(self):
        time.sleep(0.2)


@ray.remote
class Sleeper:
    def pid(self):
        return os.getpid()

    def sleep(self):
        time.sleep(3600)


@ray.remote
def crunch(path):
    with open(path, "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    total = 0
    while True:
        total += sum(range(1000))


def main():
    ray.init(num_cpus=4, include_dashboard=True, dashboard_host="127.0.0.1", dashboard_port=int(sys.argv[1]),
             object_store_memory=100 << 20)
    trainer, sleeper = Trainer.remote(), Sleeper.remote()
    facts = {"trainer": ray.get(trainer.pid.remote()), "sleeper": ray.get(sleeper.pid.remote()), "driver": os.getpid(),
             "node": ray.get_runtime_context().get_node_id()}
    path = os.path.join(tempfile.mkdtemp(), "crunch.pid")
    held, slept, task = trainer.hold.remote(), sleeper.sleep.remote(), crunch.remote(path)
    while not os.path.exists(path) or not os.path.getsize(path):
        time.sleep(0.1)
    with open(path, encoding="ascii") as file:
        facts.update(task_pid=int(file.read()))
    facts.update(task=task.task_id().hex(), actor_task=slept.task_id().hex())
    print("facts " + json.dumps(facts), flush=True)
    ray.get([held, slept, task])


try:
    main()
finally:
    print("facts {}", flush=True)  # the test waits for a line
