# SPDX-License-Identifier: Apache-2.0
"""The most switches that two pairs of threads can make, and threads that wait for a CPU."""

import os

from harness import check, test
from pprof import Pprof

SECONDS = 2
SLACK_NS = 10e6  # from where a thread begins in the kernel to where it looks at the clock
TOKENS_PER_MS, TOKENS_MAX = 1, 250  # samples that a CPU may take (kernel/waits.c)


def by_thread(profile):
    """Time of each thread, and of that the time in which it only waited for a CPU."""
    times, runnable = {}, {}
    for sample in profile.samples:
        tid, ns = sample["labels"]["tid"], sample["values"][1]
        times[tid] = times.get(tid, 0) + ns
        if "[runnable]" in profile.locations[sample["stack"][0]]["functions"]:
            runnable[tid] = runnable.get(tid, 0) + ns
    return times, runnable


@test()
def storm(context):
    """Each thread has its time, few switches are sampled, and waits for a CPU are the kernel's."""
    storm_path = context.helper("storm", "storm.c", "-lpthread")
    done = context.bpfprof("record", "--wall", "--threads", "-o", "x.pb.gz", "--stats", "x.json",
                           "--", storm_path, SECONDS).expect(0)
    truth = [line.split() for line in done.text.splitlines()
             if line.startswith(("hand ", "spin "))]
    check(len(truth) == 7, "7 threads: %s" % truth)
    profile, stats = Pprof(context.read("x.pb.gz")), context.json("x.json")
    (times, runnable), wrong = by_thread(profile), []
    for what, tid, life, delay, _ in truth:
        tid, life, delay = int(tid), int(life), int(delay)
        seen, late = times.get(tid, 0), runnable.get(tid, 0)
        if abs(seen - life) > 0.01 * life + SLACK_NS:
            wrong.append("%s %d: %.3f s of %.3f" % (what, tid, seen / 1e9, life / 1e9))
        # One that only computes waits for nothing else.
        if what == "spin" and abs(late - delay) > 0.02 * delay + SLACK_NS:
            wrong.append("spin %d: waits %.3f s for a CPU, the kernel says %.3f" %
                         (tid, late / 1e9, delay / 1e9))
        if what == "spin":
            context.note("runnable %.3f of %.3f s" % (late / 1e9, delay / 1e9))
    check(not wrong, "\n".join(wrong))
    waits, switches = stats["waits"], sum(int(nr) for *_, nr in truth)
    seconds = stats["duration_seconds"]
    context.note("%d switches in %.1f s, the threads count %d; %d sampled, period at most %d us" %
                 (waits["switches"], seconds, switches, waits["sampled"],
                  waits["longest_period_us"]))
    check(waits["switches"] > 0.9 * switches and switches > 10000, "switches")
    most = os.sysconf("SC_NPROCESSORS_CONF") * (seconds * 1e3 * TOKENS_PER_MS + TOKENS_MAX)
    check(0 < waits["sampled"] < most, "%d samples" % waits["sampled"])
    check(not stats["lost"]["ring_full"], "lost %s" % stats["lost"])
