# SPDX-License-Identifier: Apache-2.0
"""
What the kernel itself tells of waits, by tracefs. Where tests run in a sandbox, no BPF program is called
while one of the sandbox's own tasks is on a CPU: of what an interrupt wakes meanwhile nobody is told.
Such a task is known by this: it comes to CPUs, and never leaves one.
"""

import contextlib
import os
import re
import subprocess
import time

from harness import check

EVENT = re.compile(
    r"-(?P<task>\d+) +\[(?P<cpu>\d+)\] \S+ +(?P<s>\d+)\.(?P<us>\d{6}): sched_(?:"
    r"switch: prev_comm=.*? prev_pid=(?P<prev>\d+) prev_prio=\d+ prev_state=(?P<state>\S+) ==> "
    r"next_comm=.*? next_pid=(?P<next>\d+) next_prio=|"
    r"waking: comm=.*? pid=(?P<woken>\d+) prio=)", re.DOTALL)
INSTANCE = "bpfprof-test-%d" % os.getpid()


class WaitEvents:
    """What wait_events() has heard of, once it is left."""

    def __init__(self, folder):
        self.folder = folder
        self.ends = {}

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="ascii") as file:
            file.write(text)

    def read(self, name):
        with open(os.path.join(self.folder, name), encoding="utf-8", errors="replace") as file:
            return file.read()

    def begin(self):
        self.write("trace_clock", "mono")
        self.write("buffer_size_kb", "8192")
        for name in ("sched_switch", "sched_waking"):
            self.write("events/sched/%s/enable" % name, "1")

    def end(self):
        self.write("tracing_on", "0")
        self.ends = untold_waits(self.read("trace"))
        for cpu in os.listdir(os.path.join(self.folder, "per_cpu")):
            check("\noverrun: 0\n" in self.read("per_cpu/%s/stats" % cpu), "events lost")

    def untold_ns(self, tid, begin, end):
        """Time, between the two (since 1970), of the thread's waits whose end was not seen."""
        ahead = time.time_ns() - time.monotonic_ns()
        return sum(max(0, min(end, last + ahead) - max(begin, first + ahead))
                   for first, last in self.ends.get(tid, ()))


@contextlib.contextmanager
def wait_events(context):
    """Without tracefs no wait is one that nobody was told of."""
    mount = context.scratch("tracefs")
    events = WaitEvents(os.path.join(mount, "instances", INSTANCE))
    with contextlib.ExitStack() as undo:
        if subprocess.run(["mount", "-t", "tracefs", "tracefs", mount], check=False).returncode:
            context.note("no tracefs: every wait is taken for one that we were told of")
            yield events
            return
        undo.callback(subprocess.run, ["umount", mount], check=True)
        os.mkdir(events.folder)
        undo.callback(os.rmdir, events.folder)
        events.begin()
        yield events
        events.end()


def hidden_tasks(events):
    switches = [event for event in events if event["next"]]
    return {event["next"] for event in switches} - {event["prev"] for event in switches}


def untold_waits(text):
    """Of each thread: when those began, and when it was seen on a CPU again."""
    events = list(EVENT.finditer(text))
    hidden, begun, untold = hidden_tasks(events), {}, {}

    def is_back(tid, now):
        if tid in begun:
            untold.setdefault(int(tid), []).append((begun.pop(tid), now))

    for event in events:
        now = int(event["s"]) * 10**9 + int(event["us"]) * 1000
        if event["woken"]:
            if event["task"] not in hidden:
                begun.pop(event["woken"], None)
            continue
        is_back(event["prev"], now)
        is_back(event["next"], now)
        if not event["state"].startswith("R"):
            begun[event["prev"]] = now
    return untold
