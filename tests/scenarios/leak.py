# SPDX-License-Identifier: Apache-2.0
"""An actor that never lets go of what it computed, beside one that does. argv: seconds.

Prints "ready", waits for a line, works, prints who leaked how much, and waits for another one.
"""

import json
import os
import sys
import time

import numpy
import ray


class Step:
    def step(self):
        array = numpy.random.rand(256 * 1024)  # 2 MiB
        array.sort()
        return array


@ray.remote
class Leaker(Step):
    def __init__(self):
        self.history = []

    def run(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.history.append(self.step())
            time.sleep(0.05)
        return os.getpid(), sum(array.nbytes for array in self.history)


@ray.remote
class Keeper(Step):
    def run(self, seconds):
        end = time.monotonic() + seconds
        last = None
        while time.monotonic() < end:
            last = self.step()
            time.sleep(0.05)
        return os.getpid(), last.nbytes


def main():
    ray.init(num_cpus=2, include_dashboard=False)
    leaker, keeper = Leaker.remote(), Keeper.remote()
    ray.get([leaker.run.remote(0.1), keeper.run.remote(0.1)])
    print("ready", flush=True)
    sys.stdin.readline()
    seconds = float(sys.argv[1])
    (pid, leaked), (other, _) = ray.get([leaker.run.remote(seconds), keeper.run.remote(seconds)])
    print(json.dumps({"leaker": pid, "mib": leaked / (1 << 20), "keeper": other}), flush=True)
    sys.stdin.readline()


main()
