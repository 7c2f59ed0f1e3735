# SPDX-License-Identifier: Apache-2.0
"""What one sample costs beside another build of bpfprof, that AGAINST names: at the same time, of the same targets."""

import contextlib
import os
import statistics
import time

import cost
import python
from workplace import BPFPROF, Child, HERE, Problem, cpus, load, print_table, spread

OTHER = os.environ.get("AGAINST")


def stacks():
    """Pairs (name, begin): begin(stack) starts one process per CPU, which end with stack, and returns their pids."""
    for depth in cost.DEPTHS:
        yield "native, %d frames" % depth, lambda stack, depth=depth: cost.targets(stack, "bw-plain", depth)
    for version, interpreter in python.pythons().items():
        for detours in python.DETOURS if int(version[2:]) <= 10 else python.DETOURS[:1]:
            argv = [interpreter, os.path.join(HERE, "python_stack.py"), python.PYTHON_FRAMES, detours]
            yield "Python %s, %d detours" % (version, detours), lambda stack, argv=argv: [
                stack.enter_context(Child(argv, cpu=cpu)).pid for cpu in cpus()]


def measure(binaries, pids, empty_ns, warm, seconds):
    """Of each of these programs, which record at the same time, what a sample costs."""
    with contextlib.ExitStack() as stack:
        children = {binary: stack.enter_context(cost.recording(pids, binary=binary, name="against%d" % nr))
                    for nr, binary in enumerate(binaries)}
        windows = cost.steady(list(children.values()), warm, seconds)
        for child in children.values():
            child.interrupt()
    return {binary: cost.per_sample(window, cost.share_others(cost.recorded("against%d" % nr)), empty_ns)
            for nr, (binary, window) in enumerate(zip(binaries, windows))}


def bench(quick):
    if not OTHER or not os.access(OTHER, os.X_OK):
        raise Problem("AGAINST does not name a program to compare with")
    rounds, warm, seconds = (4, 0.3, 0.4) if quick else (8, 0.5, 1.0)
    empty_ns = python.measure_empty(seconds)
    rows, result = [], {}
    for name, begin in stacks():
        found = {BPFPROF: [], OTHER: []}
        with contextlib.ExitStack() as stack:
            pids = begin(stack)
            time.sleep(0.3)
            for nr in range(rounds):
                both = (BPFPROF, OTHER) if nr % 2 else (OTHER, BPFPROF)
                for binary, ns in measure(both, pids, empty_ns, warm, seconds).items():
                    found[binary].append(ns)
        ratios = spread([a / b for a, b in zip(found[BPFPROF], found[OTHER])])
        ours, theirs = (statistics.median(found[binary]) for binary in (BPFPROF, OTHER))
        rows.append([name, "%.0f" % ours, "%.0f" % theirs,
                     "%.3f (%.2f-%.2f)" % (ratios["median"], ratios["min"], ratios["max"])])
        result[name] = {"ns": ours, "other_ns": theirs, "ratio": ratios}
    print("Cost of one sample beside %s, ns (medians of %d runs of both at once; %s)" % (OTHER, rounds, load()))
    print_table(["stacks", "bpfprof", "the other", "ratio, median (least-greatest)"], rows)
    return result
