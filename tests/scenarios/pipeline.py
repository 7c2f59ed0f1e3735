# SPDX-License-Identifier: Apache-2.0
"""A Ray Data pipeline of three operators, of which one is dear. argv: rows.

Prints "ready", waits for a line, works, prints Ray's own statistics: of each operator its title and the
seconds that its tasks took in all; and waits for another one.
"""

import json
import re
import sys
import time

import ray


def burn(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(i * i for i in range(200))


def decode(batch):
    burn(0.02)
    return batch


def augment(batch):
    burn(0.12)
    return batch


def tokenize(batch):
    burn(0.04)
    return batch


def pipeline(rows):
    data = ray.data.range(rows, override_num_blocks=rows // 5)
    # Operators that ask for different resources are not made one.
    data = data.map_batches(decode, batch_size=5, num_cpus=0.3)
    data = data.map_batches(augment, batch_size=5, num_cpus=0.6)
    return data.map_batches(tokenize, batch_size=5, num_cpus=0.5).materialize()


def seconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()
    return float(number) * {"us": 1e-6, "ms": 1e-3, "s": 1}[unit]


def main():
    ray.init(num_cpus=2, include_dashboard=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    pipeline(10)
    print("ready", flush=True)
    sys.stdin.readline()
    stats = pipeline(int(sys.argv[1])).stats()
    told = re.findall(r"Operator \d+ (.*): \d+ tasks executed(?:.*\n)*?.*Remote wall time: .* (\S+) total",
                      stats)
    print(json.dumps({"operators": {name: seconds(total) for name, total in told},
                      "text": stats}), flush=True)
    sys.stdin.readline()


main()
