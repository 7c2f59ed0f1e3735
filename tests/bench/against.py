# SPDX-License-Identifier: Apache-2.0
"""What one sample costs beside another build of bpfprof, that AGAINST names: the same targets, in turns."""

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


def measure(binary, pids, empty_ns, warm, seconds):
    cost.BPFPROF = binary
    try:
        window, stats, _ = cost.run_bpfprof(pids, warm, seconds)
    finally:
        cost.BPFPROF = BPFPROF
    samples = stats["samples"]["total"] + stats["lost"].get("ring_full", 0)
    return cost.per_sample(window, 1 - min(samples / stats["agent"]["bpf_runs"], 1), empty_ns)


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
                for binary in (BPFPROF, OTHER) if nr % 2 else (OTHER, BPFPROF):
                    found[binary].append(measure(binary, pids, empty_ns, warm, seconds))
        ratios = spread([a / b for a, b in zip(found[BPFPROF], found[OTHER])])
        ours, theirs = (statistics.median(found[binary]) for binary in (BPFPROF, OTHER))
        rows.append([name, "%.0f" % ours, "%.0f" % theirs,
                     "%.3f (%.2f-%.2f)" % (ratios["median"], ratios["min"], ratios["max"])])
        result[name] = {"ns": ours, "other_ns": theirs, "ratio": ratios}
    print("Cost of one sample beside %s, ns (medians of %d runs in turns; %s)" % (OTHER, rounds, load()))
    print_table(["stacks", "bpfprof", "the other", "ratio, median (least-greatest)"], rows)
    return result
