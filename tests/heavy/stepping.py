# SPDX-License-Identifier: Apache-2.0
"""A Ray job: an actor of two classes each, at different speeds; call n of each runs work_n(). argv:
seconds. Prints "ready" when both rest, and calls them from the first line of its input on."""

import sys
import time

import ray


def burn(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
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
        self.works["work_%d" % self.calls](self.seconds)


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
    end = time.time() + float(sys.argv[1])
    pending = {actor.train.remote(): actor for actor in actors}
    while time.time() < end:
        done, _ = ray.wait(list(pending))
        actor = pending.pop(done[0])
        pending[actor.train.remote()] = actor


main()
