# SPDX-License-Identifier: Apache-2.0
"""An actor that hangs: a method waits for an event that nobody sets. argv: a folder for Ray.

Prints the actor's pid and "ready", and waits for a line.
"""

import os
import sys
import threading
import time

import ray


@ray.remote
class Trainer:
    def pid(self):
        return os.getpid()

    def fit(self, epochs):
        return self.barrier(epochs)

    def barrier(self, epochs):
        threading.Event().wait()
        return epochs


def main():
    ray.init(num_cpus=1, include_dashboard=False, _temp_dir=sys.argv[1])
    trainer = Trainer.remote()
    pid = ray.get(trainer.pid.remote())
    trainer.fit.remote(3)
    time.sleep(1)
    print("pid %d" % pid, flush=True)
    print("ready", flush=True)
    sys.stdin.readline()


main()
