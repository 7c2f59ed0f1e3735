# SPDX-License-Identifier: Apache-2.0
"""A Ray job: an actor that computes in Python, a task that computes in numpy. argv: seconds."""

import sys
import time

import numpy
import ray


@ray.remote
class Trainer:
    def spin(self, seconds):
        end = time.time() + seconds
        total = 0
        while time.time() < end:
            total += self.step(400)
        return total

    def step(self, n):
        return sum(self.cost(i) for i in range(n))

    def cost(self, i):
        return i * i % 7


@ray.remote
def sort_numbers(seconds):
    end = time.time() + seconds
    total = 0.0
    while time.time() < end:
        total += float(numpy.sort(numpy.random.rand(200000)).sum())
    return total


def main():
    seconds = float(sys.argv[1])
    ray.init(num_cpus=2, include_dashboard=False)
    trainer = Trainer.remote()
    ray.get(trainer.step.remote(1))
    print("ready", flush=True)
    ray.get([trainer.spin.remote(seconds), sort_numbers.remote(seconds)])


main()
