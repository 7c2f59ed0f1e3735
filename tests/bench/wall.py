# SPDX-License-Identifier: Apache-2.0
"""What a thread's switches cost while waits are recorded: a byte handed to and fro by two threads."""

import contextlib
import json
import os
import statistics
import time

from workplace import BPFPROF, Child, Problem, command, cpus, load, out, print_table

SECONDS, ROUNDS = 2, 5
GOAL = 1.05
# What runs beside it; %d: the pid of another process, one that sleeps.
BESIDE = {"record": [], "record --wall": ["--wall"],
          "record --wall --waker": ["--wall", "--waker"],
          "record --wall -p OTHER": ["--wall", "-p", "%d"]}


class Record(Child):
    """A running bpfprof record; it is there when it has begun."""

    def __init__(self, args):
        self.stats = out("wall.json")
        super().__init__([BPFPROF, "record", "-d", "600", "-o", out("wall.folded"), "--stats",
                          self.stats, *args])
        end = time.monotonic() + 60
        while not self.attached():
            if self.process.poll() is not None or time.monotonic() > end:
                raise Problem("does not record: " + " ".join(self.argv))
            time.sleep(0.05)
        time.sleep(0.5)  # the last one, too

    def attached(self):
        """Has it a program attached to something?"""
        folder = "/proc/%d/fdinfo" % self.pid
        for name in os.listdir(folder):
            with contextlib.suppress(FileNotFoundError):
                with open(os.path.join(folder, name), encoding="ascii") as file:
                    if "link_type:" in file.read():
                        return True
        return False

    def end(self):
        self.interrupt()
        with open(self.stats, encoding="utf-8") as file:
            return json.load(file)


def switch_ns(seconds):
    """On one CPU, so that each hand-over is one switch."""
    return float(command(["taskset", "-c", str(cpus()[-1]), out("bw-ping-pong"), str(seconds)]))


def bench(quick):
    seconds, rounds = (0.5, 3) if quick else (SECONDS, ROUNDS)
    bare, beside, waits = [], {name: [] for name in BESIDE}, {}
    switch_ns(seconds)
    with Child(["sleep", "600"]) as other:
        for _ in range(rounds):
            bare.append(switch_ns(seconds))
            for name, args in BESIDE.items():
                args = [arg.replace("%d", str(other.pid)) for arg in args]
                with Record(args) as record:
                    beside[name].append(switch_ns(seconds))
                    waits[name] = record.end().get("waits")
    rows, result = [["bare", "%.0f" % statistics.median(bare), "", "", ""]], {}
    for name, figures in beside.items():
        ratios = sorted(with_it / one for one, with_it in zip(bare, figures))
        result[name] = {"ratios": ratios, "waits": waits[name]}
        rows.append([name, "%.0f" % statistics.median(figures),
                     "%.3f" % statistics.median(ratios), "%.3f-%.3f" % (ratios[0], ratios[-1]),
                     "%.2f" % GOAL])
    print("Two threads that hand a byte to and fro (%s)\n" % load())
    print_table(["beside it runs", "CPU ns/switch", "slower", "of %d rounds" % rounds, "goal"], rows)
    result["bare_ns"] = bare
    return result
