# SPDX-License-Identifier: Apache-2.0
"""Four actors with one name, of which one takes another path through the same code. argv: seconds.

Prints "ready", waits for a line, works, prints the CPU seconds that each measured of itself, and
waits for another one.
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


def parse_fast():
    burn(0.02)


def parse_slowly():
    burn(0.2)


@ray.remote
class Shard:
    def __init__(self, path):
        self.path = path

    def load(self):
        begin = time.thread_time()
        (parse_slowly if self.path == "old" else parse_fast)()
        return os.getpid(), time.thread_time() - begin


def main():
    ray.init(num_cpus=4, include_dashboard=False)
    shards = [Shard.remote("old" if i == 2 else "new") for i in range(4)]
    pids = [pid for pid, _ in ray.get([shard.load.remote() for shard in shards])]
    print("ready", flush=True)
    sys.stdin.readline()
    spent = dict.fromkeys(pids, 0.0)
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:  # each round waits for the slowest
        for pid, seconds in ray.get([shard.load.remote() for shard in shards]):
            spent[pid] += seconds
    print(json.dumps({"seconds": spent, "straggler": pids[2]}), flush=True)
    sys.stdin.readline()


main()
