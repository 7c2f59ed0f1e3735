# SPDX-License-Identifier: Apache-2.0
"""A Ray Data pipeline of three operators, of which one is dear. argv: rows.

Prints "ready", waits for a line, works, and prints what it knows, by the titles of the operators: "ray",
seconds that their tasks took in all and on a CPU by Ray's own statistics; "own", the seconds on a CPU that
the three functions measured of themselves; "timeline", of each task the microseconds that it took by
ray.timeline(). Then it waits for another line.
"""

import json
import re
import sys
import time

import ray

CALL = 5  # rows


def work(batch, name, seconds):
    """Computes for so long, and adds a column: the seconds on a CPU, said once in each call."""
    began = time.thread_time()
    while time.thread_time() < began + seconds:
        sum(i * i for i in range(200))
    batch[name] = [time.thread_time() - began] + [0.0] * (CALL - 1)
    return batch


def decode(batch):
    return work(batch, "decode", 0.02)


def augment(batch):
    return work(batch, "augment", 0.12)


def tokenize(batch):
    return work(batch, "tokenize", 0.04)


def pipeline(rows):
    data = ray.data.range(rows, override_num_blocks=rows // CALL)
    # Operators that ask for different resources are not made one.
    data = data.map_batches(decode, batch_size=CALL, num_cpus=0.3)
    data = data.map_batches(augment, batch_size=CALL, num_cpus=0.6)
    return data.map_batches(tokenize, batch_size=CALL, num_cpus=0.5).materialize()


def seconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s)", text).groups()
    return float(number) * {"us": 1e-6, "ms": 1e-3, "s": 1}[unit]


def ray_says(stats):
    """Of each operator: seconds in all, and on a CPU."""
    told = re.findall(r"Operator \d+ (.*): \d+ tasks executed(?:.*\n)*?.*Remote wall time: .* (\S+) total\n"
                      r".*Remote cpu time: .* (\S+) total", stats)
    return {name: [seconds(wall), seconds(cpu)] for name, wall, cpu in told}


def main():
    ray.init(num_cpus=2, include_dashboard=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    pipeline(10)
    print("ready", flush=True)
    sys.stdin.readline()
    data = pipeline(int(sys.argv[1]))
    said = ray_says(data.stats())
    own = dict.fromkeys(("decode", "augment", "tokenize"), 0.0)
    for row in data.iter_rows():
        for name in own:
            own[name] += row[name]
    time.sleep(3)  # workers report to Ray now and then
    told = {name: [] for name in said}
    for one in ray.timeline():
        if one["cat"].removeprefix("task::") in told and one["cat"].startswith("task::"):
            told[one["cat"].removeprefix("task::")].append((one["ts"], one["dur"]))
    print(json.dumps({"ray": said, "own": own, "timeline": told, "text": data.stats()}), flush=True)
    sys.stdin.readline()


main()
