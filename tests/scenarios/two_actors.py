# SPDX-License-Identifier: Apache-2.0
"""An actor of two classes each, at different speeds; call n of each runs work_n(). argv: calls.

Prints "ready" when both rest, waits for a line, calls them, prints the pid of each and when each of its calls began
and ended, and waits for another one.
"""

import json
import os
import sys
import time

import ray


def burn(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(i * i for i in range(100))


def works():
    made = {"burn": burn}
    for n in range(1, 1000):
        exec("def work_%d(seconds):\n    burn(seconds)\n" % n, made)  # pylint: disable=exec-used
    return made


class Stepper:
    def __init__(self, seconds):
        self.seconds = seconds
        self.calls = 0
        self.works = works()

    def train(self):
        self.calls += 1
        begin = time.monotonic_ns()
        self.works["work_%d" % self.calls](self.seconds)
        return os.getpid(), begin, time.monotonic_ns()


@ray.remote
class PolicyWorker(Stepper):
    pass


@ray.remote
class VllmGeneration(Stepper):
    pass


def main():
    ray.init(num_cpus=2, include_dashboard=False)
    actors = [PolicyWorker.remote(0.1), VllmGeneration.remote(0.4)]
    ray.get([actor.__ray_ready__.remote() for actor in actors])
    print("ready", flush=True)
    sys.stdin.readline()
    calls = [[actor.train.remote() for _ in range(int(sys.argv[1]))] for actor in actors]
    took = [ray.get(refs) for refs in calls]
    print(json.dumps(dict(zip(("PolicyWorker", "VllmGeneration"), took))), flush=True)
    sys.stdin.readline()


main()
