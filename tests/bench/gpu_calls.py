# SPDX-License-Identifier: Apache-2.0
"""What a hooked call costs its thread, and what bpfprof gpu costs beside 10,000 launches a second.

The calls are those of the fake libcuda of tests/system/gpu, which returns at once. It lies there
twice: a program that has one copy is watched, one that has the other is bare, and both make the same
calls in turn.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import time

from live import Screen
from workplace import BPFPROF, ROOT, Child, Problem, cpus, kernel_statistics, load, out, print_table

sys.path.append(os.path.join(ROOT, "tests", "system"))

from gpu.build import Unavailable, build  # noqa: E402  pylint: disable=wrong-import-position

BPF_PROG_TYPE_KPROBE = 2
NR_CALLS = 200000
STACKS = 90  # fewer than a thread has tokens for
REFILL_SECONDS = 1.2  # until it has all of them again
FRAMES = 15  # of the caller's own, below main
THREADS, HZ = 8, 10000
# What the caller is told, its name, how many tokens one takes, and the goal in ns.
CALLS = {"launch": ("launch: entry only", 1, 1000),
         "sync": ("cuStreamSynchronize: entry and return", 1, 1800),
         "pair": ("cuMemAlloc, cuMemFree: both", 2, 2800)}


class Caller(Child):
    """A running gpu_calls."""

    def __init__(self, library, cpu=None):  # pylint: disable=super-init-not-called
        self.group, self.usage, self.argv = False, None, [out("bw-gpu"), library]
        pinned = [] if cpu is None else ["taskset", "-c", str(cpu)]
        self.process = subprocess.Popen([*pinned, *self.argv], stdin=subprocess.PIPE, text=True,
                                        stdout=subprocess.PIPE, bufsize=1)
        self.pid = self.process.pid
        if self.process.stdout.readline() != "ready\n":
            raise Problem("did not start: " + " ".join(self.argv))

    def __exit__(self, *_):
        self.process.stdin.close()
        super().__exit__()

    def ask(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        return int(self.process.stdout.readline())

    def ns(self, what, nr):
        return self.ask(what, nr) / nr


class Watch(Child):
    """A running bpfprof gpu that has hooked one library."""

    def __init__(self, pid, *more):  # pylint: disable=super-init-not-called
        self.group, self.usage = False, None
        self.argv = [BPFPROF, "gpu", "--once", "--json", "-d", "600", "-p", str(pid), *more]
        with open(out("gpu.log"), "wb") as log:
            self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stderr=log,
                                            stdout=subprocess.PIPE)
        self.pid = self.process.pid
        end = time.monotonic() + 60
        while "watching" not in (said := self.messages()):
            if self.process.poll() is not None or time.monotonic() > end:
                self.process.kill()
                raise Problem("bpfprof gpu does not watch: " + said[-300:])
            time.sleep(0.05)

    @staticmethod
    def messages():
        with open(out("gpu.log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def end(self):
        """What it has seen."""
        return json.loads(self.interrupt())

    def programs(self):
        """(runs, ns) of its programs for hooks."""
        found = {}
        folder = "/proc/%d/fdinfo" % self.pid
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), encoding="ascii") as file:
                fields = dict(line.split(":", 1) for line in file if ":" in line)
            if "run_cnt" in fields and int(fields["prog_type"]) == BPF_PROG_TYPE_KPROBE:
                found[int(fields["prog_id"])] = (int(fields["run_cnt"]),
                                                 int(fields["run_time_ns"]))
        return [sum(column) for column in zip(*found.values())]


class Row:
    """ns of a call, bare and hooked, in each round."""

    def __init__(self, name, goal=None):
        self.name = name
        self.goal = goal
        self.bare = []
        self.hooked = []

    def measure(self, bare, hooked, what, nr):
        self.bare.append(bare.ns(what, nr))
        self.hooked.append(hooked.ns(what, nr))

    def added(self):
        return [hooked - bare for bare, hooked in zip(self.bare, self.hooked)]

    def ratio(self):
        return statistics.median(hooked / bare for bare, hooked in zip(self.bare, self.hooked))

    def cells(self):
        added = self.added()
        return [self.name, "%.0f" % statistics.median(self.bare),
                "%.0f" % statistics.median(self.hooked), "%.0f" % statistics.median(added),
                "%.0f-%.0f" % (min(added), max(added)), self.goal or ""]

    def result(self):
        return {"bare_ns": self.bare, "hooked_ns": self.hooked, "goal_ns": self.goal,
                "added_ns": statistics.median(self.added()), "ratio": self.ratio()}


def lost_of(seen):
    return {reason: n for reason, n in seen["lost"].items() if n}


def measure_calls(bare, hooked, other, rounds):
    """Without stacks, but for the few that the budget allows; and where nobody asked for them."""
    rows = {what: Row(name, goal) for what, (name, _, goal) in CALLS.items()}
    left_out = Row("launch in a process that -p leaves out")
    with Watch(hooked.pid) as watch:
        for what in CALLS:
            hooked.ns(what, NR_CALLS // 10)
        for _ in range(rounds):
            for what, row in rows.items():
                row.measure(bare, hooked, what, NR_CALLS)
            left_out.measure(bare, other, "launch", NR_CALLS)
        seen = watch.end()
    paths = [one["path"] for one in seen["libraries"]]
    if len(paths) != 1:
        raise Problem("not one library is hooked: %s" % paths)
    calls = sum(row["calls"] for one in seen["processes"] for row in one["launches"])
    if calls != NR_CALLS // 10 + rounds * NR_CALLS:
        raise Problem("%d launches were counted" % calls)
    return [*rows.values(), left_out], seen


def measure_stacks(bare, hooked, rounds):
    """Each call with its stack: as many as the budget allows, and a pause."""
    rows = {what: Row(name + ", with a stack each") for what, (name, _, _) in CALLS.items()}
    wanted = 0
    with Watch(hooked.pid) as watch:
        for i in range(1 + rounds):
            for what, row in rows.items():
                nr = STACKS // CALLS[what][1]
                if i:
                    row.measure(bare, hooked, what, nr)
                else:  # code that was never walked through
                    hooked.ns(what, nr)
                wanted += nr * CALLS[what][1]
                time.sleep(REFILL_SECONDS)
        seen = watch.end()
    return list(rows.values()), seen["stacks"]["taken"] / wanted


def measure_traced(bare, hooked, rounds):
    """Each call with its end, and told by itself."""
    rows = {what: Row(name + ", traced") for what, (name, _, _) in CALLS.items()}
    with Watch(hooked.pid, "-o", out("gpu-trace.json")) as watch:
        for what in CALLS:
            hooked.ns(what, NR_CALLS // 10)
        for _ in range(rounds):
            for what, row in rows.items():
                row.measure(bare, hooked, what, NR_CALLS)
        watch.end()
    with open(out("gpu-trace.json"), encoding="utf-8") as file:
        other = json.load(file)["otherData"]
    return list(rows.values()), {
        "bytes": os.path.getsize(out("gpu-trace.json")), "lost": lost_of(other),
        "kept": other["calls"], "dropped": other["calls_dropped"],
        "made": (NR_CALLS // 10 + rounds * NR_CALLS) * sum(one[1] for one in CALLS.values())}


def measure_programs(hooked):
    """What of it is spent in bpfprof's programs, by the kernel's statistics; these take time, too."""
    found = {}
    with kernel_statistics(), Watch(hooked.pid) as watch:
        for what in CALLS:
            hooked.ns(what, NR_CALLS // 10)
            runs, ns = watch.programs()
            hooked.ns(what, NR_CALLS)
            runs_end, ns_end = watch.programs()
            found[what] = {"runs": (runs_end - runs) / NR_CALLS, "ns": (ns_end - ns) / NR_CALLS}
        watch.end()
    return found


class Table(Screen):
    """bpfprof gpu as people look at it: drawn once a second."""

    def __init__(self, pid):
        super().__init__(["-p", str(pid)], "gpu")
        end = time.monotonic() + 60
        while not self.bytes:
            if time.monotonic() > end:
                raise Problem("bpfprof gpu draws nothing")
            time.sleep(0.05)

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        super().__exit__()


def launch_evenly(caller, watch, warm, seconds):
    """How many launches there were, and the CPU that was used beside them, in percent of a core."""
    done = caller.ask("threads", THREADS, HZ, warm)
    cpu, start = watch.cpu_seconds(), time.monotonic()
    done += caller.ask("threads", THREADS, HZ, seconds)
    cpu, took = watch.cpu_seconds() - cpu, time.monotonic() - start
    return done, 100 * cpu / took


def measure_threads(library, warm, seconds):
    with Caller(library) as caller:
        with Watch(caller.pid, "-o", out("gpu-trace.json")) as watch:
            traced, traced_percent = launch_evenly(caller, watch, warm, seconds)
            watch.end()
        with Watch(caller.pid) as watch:
            done, percent = launch_evenly(caller, watch, warm, seconds)
            seen = watch.end()
        with Table(caller.pid) as table:
            drawn_percent = launch_evenly(caller, table, warm, seconds)[1]
    counted = sum(row["calls"] for one in seen["processes"] for row in one["launches"])
    with open(out("gpu-trace.json"), encoding="utf-8") as file:
        other = json.load(file)["otherData"]
    return {"traced": traced, "traced_kept": other["calls"], "traced_lost": lost_of(other),
            "traced_percent": traced_percent, "launches": done, "counted": counted, "lost": lost_of(seen), "stacks": seen["stacks"],
            "launches_per_second": HZ, "agent_percent": percent,
            "agent_percent_live": drawn_percent}


def bench(quick):
    try:
        fakes = build(out("gpu"))
    except Unavailable as reason:
        raise Problem(str(reason)) from None
    bare_library = fakes.copy(out("gpu-bare")).cuda
    cpu = cpus()[-1]
    rounds = 2 if quick else 7
    with Caller(bare_library, cpu) as bare, Caller(fakes.cuda, cpu) as hooked, \
            Caller(fakes.cuda, cpu) as other:
        calls, seen = measure_calls(bare, hooked, other, rounds)
        stacks, share = measure_stacks(bare, hooked, rounds)
        traced, trace = measure_traced(bare, hooked, rounds)
        programs = measure_programs(hooked)
    threads = measure_threads(fakes.cuda, 1 if quick else 3, 4 if quick else 15)
    print("Hooked calls, ns of CPU time of one (medians of %d rounds of %d calls, with stacks of %d; "
          "%s)" % (rounds, NR_CALLS, STACKS, load()))
    print("  A libcuda that returns at once; bare and hooked programs in turn on one CPU. added: "
          "hooked less bare of the same\n  round. Stacks: of %d frames below main; %.0f %% of them "
          "were taken. What -p leaves out takes %.2f times as long\n  as bare. In bpfprof's programs, by the "
          "kernel's statistics: %s.\n  Lost meanwhile: %s." % (
              FRAMES, 100 * share, calls[-1].ratio(),
              ", ".join("%s %.0f ns in %.1f runs" % (what, one["ns"], one["runs"])
                        for what, one in programs.items()), lost_of(seen) or "nothing"))
    print_table(["call", "bare", "hooked", "added", "least-greatest", "goal"],
                [row.cells() for row in [*calls, *stacks, *traced]])
    plain = statistics.median(calls[0].added())
    print("Traced: a launch costs %.1f times as much as one that is counted only. Of %d calls in a loop "
          "%d are in the file of\n  %.0f MB, %d were dropped for its size, lost: %s." % (
              statistics.median(traced[0].added()) / plain, trace["made"], trace["kept"],
              trace["bytes"] / 1e6, trace["dropped"], trace["lost"] or "nothing"))
    print("%d threads, %d launches a second together" % (THREADS, HZ))
    print_table(["what", "measured", "goal"], [
        ["launches counted", "%d of %d" % (threads["counted"], threads["launches"]), "all"],
        ["lost", threads["lost"] or 0, "0"],
        ["stacks taken, skipped", "%(taken)d, %(skipped)d" % threads["stacks"], ""],
        ["CPU of bpfprof, % of a core", "%.2f" % threads["agent_percent"], "2"],
        ["the same with its live table", "%.2f" % threads["agent_percent_live"], "2"],
        ["launches traced", "%d of %d" % (threads["traced_kept"], threads["traced"]), "all"],
        ["lost", threads["traced_lost"] or 0, "0"],
        ["CPU of bpfprof meanwhile, %", "%.2f" % threads["traced_percent"], ""]])
    return {"rows": {row.name: row.result() for row in [*calls, *stacks, *traced]}, "trace": trace,
            "lost": lost_of(seen),
            "stacks_taken_share": share, "programs": programs, "threads": threads}
