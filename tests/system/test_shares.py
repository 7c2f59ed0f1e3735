# SPDX-License-Identifier: Apache-2.0
"""CPU time in the profile is CPU time that was really taken."""

import chains
from harness import ROOT, check, test
from pprof import Pprof

PAIRED = True
HZ = 4999


class ChurnTarget:
    """The truth about a child of churn, for chains.check()."""

    def __init__(self, name, path):
        self.name = name
        self.path = self.twin = path
        self.expect = ROOT + "/tests/system/targets/churn.expect"


def read_truth(text):
    return {name: int(ns) for name, ns in (line.split() for line in text.splitlines())}


def measure_shares(context, clock):
    """Shares within one point, and the whole within 5%, of what the program measured itself."""
    program = context.helper("shares", "shares.c")
    context.bpfprof("record", "--clock", clock, "-F", HZ, "-o", "x.folded", "-o", "x.pb.gz", "--",
                    program, "10", context.path("truth")).expect(0)
    truth = read_truth(context.text("truth"))
    seen, everything = {}, 0
    for process, frames, count in chains.read_folded(context.text("x.folded")):
        if process != "shares":
            continue
        everything += count
        for name in truth:
            if name in frames:
                seen[name] = seen.get(name, 0) + count
    total = truth.pop("total")
    functions = sum(truth.values())
    sampled = sum(seen.values())
    worst = max(abs(100.0 * seen.get(name, 0) / max(1, sampled) - 100.0 * ns / functions)
                for name, ns in truth.items())
    cpu = profile_ns(context, lambda comm: comm == "shares")
    whole = 100.0 * cpu / total - 100
    context.note("%d samples, largest difference %.2f points, total %+.2f%%" %
                 (everything, worst, whole))
    check(worst <= 1, "shares differ by %.2f points: sampled %s, true %s" % (worst, seen, truth))
    check(abs(whole) <= 5, "%.2f s sampled, %.2f s true" % (cpu / 1e9, total / 1e9))


def profile_ns(context, wanted):
    """CPU time in the pprof file of the processes with a wanted name."""
    return sum(sample["values"][1] for sample in Pprof(context.read("x.pb.gz")).samples
               if wanted(sample["labels"].get("comm", "")))


@test()
def six_functions(context):
    measure_shares(context, "auto")


@test()
def six_functions_by_timer(context):
    measure_shares(context, "timer")


@test()
def churn(context):
    """500 processes of 20 ms: all named, all time accounted for, whole lives walked."""
    parent = context.helper("churn", "churn.c")
    child = context.helper("churn_child", "churn_child.c")
    links = context.scratch("links")
    truth_path = context.path("links", "truth")
    context.bpfprof("record", "-F", 1999, "-o", "x.folded", "-o", "x.pb.gz", "--",
                    parent, "500", links, child, truth_path, timeout=120).expect(0)
    with open(truth_path, encoding="ascii") as file:
        truth = read_truth(file.read())
    total = truth.pop("total")
    folded = context.text("x.folded")
    names = {process for process, _, _ in chains.read_folded(folded)}
    cpu = profile_ns(context, lambda comm: comm.startswith("churn"))
    targets = [ChurnTarget(name, child) for name in truth]
    merged = {"exact": 0, "truncated": 0, "wrong": 0}
    bad = {}
    for result in chains.check(targets, folded).values():
        for what, count in result.counts.items():
            merged[what] += count
        for stack, count in result.bad.items():
            bad[stack] = bad.get(stack, 0) + count
    whole = 100.0 * cpu / total - 100
    count = max(1, sum(merged.values()))
    exact = 100.0 * merged["exact"] / count
    context.note("%d samples of %d processes, time %+.2f%%, %.2f%% exact, %.2f%% truncated" %
                 (count, len(names & set(truth)), whole, exact,
                  100.0 * merged["truncated"] / count))
    missing = sorted(set(truth) - names)
    check(not missing, "%d of 500 processes are not in the profile: %s" %
          (len(missing), missing[:5]))
    check(abs(whole) <= 5, "%.2f s sampled, %.2f s true" % (cpu / 1e9, total / 1e9))
    worst = sorted(bad.items(), key=lambda item: -item[1])[:12]
    check(exact >= 99, "%.2f%% of the stacks exact\n" % exact +
          "\n".join("%6d %s" % (n, chains.shorten(stack)) for stack, n in worst))
