# SPDX-License-Identifier: Apache-2.0
"""What a dump of a process of 500 Python threads costs, and what the process feels of it.

A thread of the target beats every 0.2 ms and notes its longest pause between two looks; it is
read while nobody does anything, while bpfprof dumps the process and while py-spy does, which
stops it.
"""

import re
import statistics
import subprocess
import sys
import time

from python import py_spy
from workplace import BPFPROF

THREADS = 500
TARGET = r"""
import sys, threading, time
def deeper(n):
    if n:
        return deeper(n - 1)
    threading.Event().wait()
for _ in range(int(sys.argv[1])):
    threading.Thread(target=deeper, args=(10,), daemon=True).start()
worst = 0.0
def beat():
    global worst
    last = time.monotonic()
    while True:
        time.sleep(0.0002)
        now = time.monotonic()
        worst = max(worst, now - last)
        last = now
threading.Thread(target=beat, daemon=True).start()
for _ in sys.stdin:
    print(worst, flush=True)
    worst = 0.0
"""


class Target:
    def __init__(self):
        self.process = subprocess.Popen([sys.executable, "-c", TARGET, str(THREADS)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        bufsize=1)
        time.sleep(2)
        self.worst_ms()

    def worst_ms(self):
        """The longest pause since the last call."""
        self.process.stdin.write("\n")
        return 1000 * float(self.process.stdout.readline())

    def end(self):
        self.process.kill()
        self.process.wait()


def measure(target, argv, times):
    """Seconds of the whole command and the target's longest pause, each time."""
    seconds, pauses, reading = [], [], []
    for _ in range(times):
        time.sleep(0.2)
        target.worst_ms()
        began = time.monotonic()
        if argv:
            done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                  check=False)
            read = re.search(rb"read in ([0-9.]+) ms", done.stderr)
            reading += [float(read.group(1))] if read else []
            seconds.append(1000 * (time.monotonic() - began))
        else:
            time.sleep(0.2)
        pauses.append(target.worst_ms())
    return {
        "command_ms": statistics.median(seconds) if seconds else None,
        "reading_ms": statistics.median(reading) if reading else None,
        "pause_ms": statistics.median(pauses),
        "worst_pause_ms": max(pauses),
    }


def bench(quick):
    times = 5 if quick else 20
    target = Target()
    pid = str(target.process.pid)
    commands = {
        "nobody looks": None,
        "bpfprof dump": [BPFPROF, "dump", "-p", pid],
        "bpfprof dump --native": [BPFPROF, "dump", "-p", pid, "--native"],
    }
    spy = py_spy()
    if spy:
        commands["py-spy dump"] = [spy, "dump", "-p", pid]
    results = {}
    try:
        for name, argv in commands.items():
            results[name] = measure(target, argv, times)
            if argv and argv[0] == BPFPROF:
                # Said with --verbose only, which costs time of its own.
                results[name]["reading_ms"] = measure(target, [*argv, "-v"], times)["reading_ms"]
    finally:
        target.end()
    print("Dump of a process of %d Python threads (medians of %d, ms)" % (THREADS, times))
    print("%-24s%10s%10s%18s%14s" % ("", "command", "reading", "target's pause", "worst pause"))
    for name, row in results.items():
        print("%-24s%10s%10s%18.1f%14.1f" % (
            name, "" if row["command_ms"] is None else "%.0f" % row["command_ms"],
            "" if row["reading_ms"] is None else "%.0f" % row["reading_ms"], row["pause_ms"],
            row["worst_pause_ms"]))
    print()
    return results
