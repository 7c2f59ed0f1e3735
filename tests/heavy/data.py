# SPDX-License-Identifier: Apache-2.0
"""A Ray Data job: batches that are dear in Python. argv: seconds. Prints "ready" when the first is done."""

import sys
import time

import ray


def expensive(batch):
    end = time.process_time() + 0.05
    while time.process_time() < end:
        sum(i * i for i in range(200))
    return batch


def main():
    end = time.time() + float(sys.argv[1])
    ray.init(num_cpus=2, include_dashboard=False)
    first = True
    while time.time() < end:
        ray.data.range(40, override_num_blocks=8).map_batches(expensive, batch_size=1).materialize()
        if first:
            print("ready", flush=True)
        first = False


main()
