# SPDX-License-Identifier: Apache-2.0
"""What one sample costs inside the kernel, beside a program that lets the kernel walk."""

import contextlib
import json
import os
import re
import statistics
import time

from workplace import BPFPROF, Child, Problem, cpus, load, out, print_table, spread

DEPTHS = (5, 20, 50, 100)
FRAMES_AROUND = 5  # leaf, main and the C library's three
HZ = 4999
PRIORITY = -10


def targets(stack, program, frames):
    """One spinning process per CPU, of high priority so that most ticks hit it; their pids."""
    pids = []
    for cpu in cpus():
        child = stack.enter_context(Child([out(program), frames - FRAMES_AROUND], cpu=cpu, group=True))
        os.setpriority(os.PRIO_PROCESS, child.pid, PRIORITY)
        # Where sessions are scheduled as groups, the group's priority is what counts.
        with contextlib.suppress(OSError):
            with open("/proc/%d/autogroup" % child.pid, "w", encoding="ascii") as file:
                file.write("%d" % PRIORITY)
        pids.append(child.pid)
    return pids


def steady(children, warm, seconds):
    """Of each child (runs, ns) of its program, all within one window after they have warmed up."""
    end = time.monotonic() + 15
    for child in children:
        while not (child.program_statistics() or (0,))[0]:
            if time.monotonic() > end:
                raise Problem("no run seen of the program of: " + " ".join(child.argv))
            time.sleep(0.02)
    time.sleep(warm)
    begin = [child.program_statistics() for child in children]
    time.sleep(seconds)
    return [(runs - runs_begin, ns - ns_begin)
            for (runs_begin, ns_begin), (runs, ns) in zip(begin, [child.program_statistics() for child in children])]


def recording(pids, clock="perf", binary=BPFPROF, name="cost"):
    """A bpfprof that records these; recorded(name) when it has ended."""
    argv = [binary, "record", "-F", HZ, "--clock", clock, "-o", out(name + ".folded"),
            "--stats", out(name + ".json")]
    for pid in pids:
        argv += ["-p", pid]
    return Child(argv)


def recorded(name="cost"):
    with open(out(name + ".json"), encoding="utf-8") as file:
        return json.load(file)


def share_others(stats):
    """Of all runs of its program those that took no sample."""
    samples = stats["samples"]["total"] + stats["lost"].get("ring_full", 0)
    return 1 - min(samples / stats["agent"]["bpf_runs"], 1)


def run_bpfprof(pids, warm, seconds, clock="perf"):
    """(runs and ns of the window or None, its statistics file, frames per stack)."""
    with recording(pids, clock) as child:
        if clock == "perf":
            [window] = steady([child], warm, seconds)
        else:
            window = None
            time.sleep(warm + seconds)
        child.interrupt()
    stats = recorded()
    if clock == "perf" and stats["agent"]["bpf_ns_source"] != "kernel":
        raise Problem("bpfprof did not report the kernel's statistics")
    return window, stats, mean_frames(out("cost.folded"))


def mean_frames(path):
    """User frames per sample in a collapsed file."""
    samples = frames = 0
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            match = re.match(r"([^#].*) (\d+)$", line)
            if match:
                names = [n for n in match.group(1).split(";")[1:] if not n.endswith("_[k]")]
                samples += int(match.group(2))
                frames += len(names) * int(match.group(2))
    return frames / samples if samples else 0.0


def run_reference(pids, lean, warm, seconds):
    with Child([out("reference"), HZ, int(lean), *pids]) as child:
        [window] = steady([child], warm, seconds)
        counts = json.loads(child.interrupt())
    frames = counts["user_frames"] / counts["records"] if counts["records"] else 0
    return window, counts, frames


def per_sample(window, others, empty_ns):
    """Mean ns of the runs that took a sample; of the others, a share, each costs what an empty run costs."""
    runs, ns = window
    if not runs or others >= 1:
        raise Problem("no sample was taken")
    return (ns / runs - others * empty_ns) / (1 - others)


class Side:
    """One of the programs that are compared: its figures per depth."""

    def __init__(self, name, run):
        self.name = name
        self.run = run  # pids, warm, seconds -> window, share of runs without a sample, frames
        self.empty = None
        self.ns = {depth: [] for depth in DEPTHS}
        self.frames = {}
        self.others = {}

    def measure(self, depth, pids, warm, seconds):
        window, others, frames = self.run(pids, warm, seconds)
        self.ns[depth].append(per_sample(window, others, self.empty))
        self.frames[depth] = frames
        self.others[depth] = others


def bpfprof_side(pids, warm, seconds):
    window, stats, frames = run_bpfprof(pids, warm, seconds)
    return window, share_others(stats), frames


def reference_side(lean):
    def run(pids, warm, seconds):
        window, counts, frames = run_reference(pids, lean, warm, seconds)
        samples = counts["taken"] + counts["lost"]
        return window, 1 - samples / max(samples + counts["others"], 1), frames
    return run


def measure_empty(sides, seconds):
    """Cost of a run that finds a process nobody asked for."""
    with contextlib.ExitStack() as stack:
        targets(stack, "bw-plain", DEPTHS[0])
        sleeper = stack.enter_context(Child(["sleep", "1000"])).pid
        for side in sides:
            runs, ns = side.run([sleeper], 0.2, seconds)[0]
            side.empty = ns / runs


def measure_timer(quick):
    """Self-timed on the timer clock: mean ns per sample by bpf_ktime_get_ns around it.

    A mean from the very start on, first misses included: short runs tell nothing.
    """
    found = {}
    for depth in (20,) if quick else DEPTHS:
        with contextlib.ExitStack() as stack:
            pids = targets(stack, "bw-plain", depth)
            _, stats, _ = run_bpfprof(pids, 0, 2.5 if quick else 6.0, clock="timer")
        samples = stats["samples"]["total"] + stats["lost"].get("ring_full", 0)
        found[depth] = stats["agent"]["bpf_ns"] / samples if samples else None
    return found


def ratio(side, other, depth):
    """Median over the rounds: machines have phases, and the runs of a round are neighbours."""
    return statistics.median(a / b for a, b in zip(side.ns[depth], other.ns[depth]))


def show(sides, timer):
    ours, reference, lean = sides
    rows = []
    for depth in DEPTHS:
        cells = [depth, "%.1f" % ours.frames[depth], "%.1f" % reference.frames[depth]]
        for side in sides:
            values = spread(side.ns[depth])
            cells.append("%.0f (%.0f-%.0f)" % (values["median"], values["min"], values["max"]))
        cells += ["%.2f" % ratio(ours, side, depth) for side in (reference, lean)]
        cells.append("%.0f" % timer[depth] if timer.get(depth) else "-")
        rows.append(cells)
    print("Cost of one whole sample, ns (median, least and greatest of %d runs each; %s)" %
          (len(ours.ns[DEPTHS[0]]), load()))
    print("  One program per CPU, compiled without frame pointers for bpfprof and with them for "
          "the reference, sampled\n  %d times a second. The kernel's BPF statistics, after warming "
          "up. reference: bpf_get_stack of kernel and user,\n  both in one ring buffer record; "
          "lean: no kernel part for ticks in user mode. Runs that hit another\n  process are taken "
          "out at the cost of an empty run: %s ns.\n  seen: user frames per stack that came out. "
          "Ratios: medians over rounds, each side once per round.\n  timer: bpfprof on the timer "
          "clock, where it times every 64th sample by itself; no statistics of the kernel there." %
          (HZ, ", ".join("%s %.0f" % (side.name, side.empty) for side in sides)))
    print_table(["frames", "seen", "seen by ref.", "bpfprof", "reference", "lean",
                 "bpfprof/reference", "bpfprof/lean", "timer"], rows)


def bench(quick):
    sides = [Side("bpfprof", bpfprof_side), Side("reference", reference_side(False)),
             Side("lean", reference_side(True))]
    rounds, warm, seconds = (2, 0.2, 0.35) if quick else (5, 0.5, 1.5)
    measure_empty(sides, seconds)
    for depth in DEPTHS:
        for _ in range(rounds):
            for side in sides:
                program = "bw-plain" if side is sides[0] else "bw-fp"
                with contextlib.ExitStack() as stack:
                    side.measure(depth, targets(stack, program, depth), warm, seconds)
    timer = measure_timer(quick)
    show(sides, timer)
    return {"hz": HZ, "timer_self_ns": timer,
            "ratio_to_reference": {d: ratio(sides[0], sides[1], d) for d in DEPTHS},
            "ratio_to_lean": {d: ratio(sides[0], sides[2], d) for d in DEPTHS},
            "sides": {side.name: {"empty_ns": side.empty, "frames_seen": side.frames,
                                  "share_of_other_runs": side.others,
                                  "ns": {d: dict(spread(v), runs=v) for d, v in side.ns.items()}}
                      for side in sides}}
