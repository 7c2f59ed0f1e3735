# SPDX-License-Identifier: Apache-2.0
"""gpu: what threads do while the device has nothing to do, against programs that know it."""

import glob
import json
import math
import os

from daemons import Daemon
from gpu_truth import Caller, Run, Seen, Watch, fakes, is_frame
from harness import check, test
from pprof import Pprof
from test_gpu_continuous import hooked, next_interval

PAIRED = True
LOCK = "gpu"
HZ = 99
UNSEEN = "[before this launch]"


class Starved:
    """starved/nanoseconds of a file."""

    def __init__(self, data):
        profile = Pprof(data)
        at = profile.sample_types.index("starved/nanoseconds")
        self.rows = [([name for one in sample["stack"]
                       for name in profile.locations[one]["functions"]],
                      sample["values"][at], sample["labels"])
                     for sample in profile.samples if sample["values"][at]]

    def total(self, where=None, pid=None):
        return sum(ns for frames, ns, labels in self.rows
                   if (pid is None or labels["pid"] == pid) and
                   (where is None or any(is_frame(frame, where) for frame in frames)))

    def unseen(self, pid=None):
        return self.total(UNSEEN, pid)


def error_ns(ns):
    """Of that time at the clock's rate, with 1 in 30,000 beyond it; samples come one by one."""
    return 4 * math.sqrt(max(ns, 0) * 1e9 / HZ) + 2e9 / HZ


def check_part(starved, truth, where):
    """It has what it used a CPU for, and not more than it took."""
    part, found = truth["parts"][where], starved.total(where, truth["pid"])
    least = part["cpu_ns"] - error_ns(part["cpu_ns"])
    most = part["ns"] + error_ns(part["ns"])
    check(least <= found <= most, "%s: %d ns, not %d to %d" % (where, found, least, most))


def check_sum(starved, truth):
    """All gaps, to the time that the program can know no better."""
    found = starved.total(pid=truth["pid"])
    check(truth["ns"][0] <= found <= truth["ns"][1], "%d: %d ns, not %s" % (
        truth["pid"], found, truth["ns"]))


def native(context):
    return Caller(context, "long", program=fakes(context).gaps)


def watched(context, scenario, *args):
    caller = Caller(context, scenario, script="gpu_gaps.py")
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid, "-o", "x.pb.gz", *args)
    truth = caller.work()
    seen = Seen(watch.end())
    found, starved = seen.process(caller.pid)["starved"], Starved(context.read("x.pb.gz"))
    check(found["gaps"] == truth["gaps"], "%s, not %s" % (found, truth))
    for name in ("ns", "copy_ns"):
        check(truth[name][0] <= found[name] <= truth[name][1], "%s: %s, not %s" % (name, found, truth))
    check(starved.total() == found["ns"], "%d ns in the file, not %d" % (starved.total(), found["ns"]))
    context.note("%s: unseen %.3f s of %s" % (
        scenario, starved.unseen() / 1e9,
        {name: "%.3f of %.3f s" % (starved.total(name) / 1e9, part["ns"] / 1e9)
         for name, part in truth["parts"].items()}))
    return truth, seen, starved


@test()
def ran(context):
    """Functions that ran in gaps have them, by the time that they ran; their launches the rest."""
    truth, _, starved = watched(context, "long")
    check_part(starved, truth, "load_batch")
    check_part(starved, truth, "augment")
    of_launches = [frames for frames, _, _ in starved.rows if "cuLaunchKernel" in frames]
    check(all(UNSEEN in frames for frames in of_launches), "launches without a marker")
    idle = truth["ns"][1] - sum(part["cpu_ns"] for part in truth["parts"].values())
    check(starved.unseen() <= idle + error_ns(truth["ns"][1]), "unseen: %d ns" % starved.unseen())


@test()
def short(context):
    """Gaps of a period or less: all of them together."""
    truth, _, starved = watched(context, "short")
    check_part(starved, truth, "load_batch")
    check_part(starved, truth, "augment")


@test()
def copied(context):
    """A copy that a thread waits for is separate: a thread that polls for it has no part of the gap."""
    truth, _, starved = watched(context, "copies")
    check_part(starved, truth, "load_batch")
    # But for a sample or two on the way to a copy: what polls there takes 900 ms.
    check(starved.total("copy_batch") <= error_ns(0),
          "%d ns in copies" % starved.total("copy_batch"))


@test()
def copied_asleep(context):
    """So is a copy in which the thread sleeps: the rest of the gap belongs to the running thread."""
    truth, _, starved = watched(context, "copies_asleep")
    check_part(starved, truth, "load_batch")
    slept = sum(ns for frames, ns, _ in starved.rows
                if "[asleep]" in frames and any(is_frame(frame, "copy_batch") for frame in frames))
    ran = starved.total("copy_batch") - slept
    check(slept == 0 and ran <= error_ns(0), "%d ns asleep in copies, %d on the way there" % (slept, ran))


@test()
def by_another_thread(context):
    """The gap belongs to the thread that runs while the launching thread waits."""
    truth, _, starved = watched(context, "threads")
    found = starved.total("decode")
    check(found >= 0.4 * truth["parts"]["decode"]["cpu_ns"], "decode: %d of %s" % (found, truth))


@test()
def two_processes(context):
    """Each has its own, in record --gpu, too, whose samples are the same ones."""
    callers = [native(context), Caller(context, "long", script="gpu_gaps.py")]
    run = Run(context, "record", "--gpu", "-p", callers[0].pid, "-p", callers[1].pid, "-d", "120",
              "-o", "x.pb.gz")
    run.wait_for(r"watching \d+ functions? in \d+ librar")
    for caller in callers:
        caller.say("go")
    truths = [json.loads(caller.line()) for caller in callers]
    run.interrupt()
    starved, samples = Starved(context.read("x.cuda.pb.gz")), Pprof(context.read("x.pb.gz"))
    for truth in truths:
        check_sum(starved, truth)
        for where in ("load_batch", "augment"):
            check_part(starved, truth, where)
    check(sum(sample["values"][0] for sample in samples.samples) * 1e9 / HZ >
          0.8 * sum(part["cpu_ns"] for truth in truths for part in truth["parts"].values()),
          "samples are missing beside the gaps")


@test()
def asleep(context):
    """No thread of the process runs: the gap belongs to the thread that waits for a batch and will launch."""
    truth, seen, starved = watched(context, "asleep")
    slept, found = truth["parts"]["next_batch"]["ns"], starved.total("next_batch")
    lost = {reason: n for reason, n in seen.lost.items() if n}
    check(0.85 * slept <= found <= truth["ns"][1], "next_batch: %d of %d ns, lost %s" % (
        found, slept, lost))
    awake, cpu_ns = found - starved.total("[asleep]"), truth["parts"]["next_batch"]["cpu_ns"]
    check(awake <= cpu_ns + error_ns(cpu_ns), "%d ns without the marker, of %d on a CPU" % (awake, cpu_ns))


@test()
def asleep_too_deep(context):
    """Reading stacks may take a fifth of each second: sleeps without time for a read are counted."""
    # 20 sleeps a second each: all of them could be read only if that took under 2 ms.
    callers = [Caller(context, "deep", script="gpu_gaps.py") for _ in range(5)]
    watch = Watch(context, "--json", "-d", "120", "-o", "x.pb.gz",
                  *[word for caller in callers for word in ("-p", caller.pid)])
    for caller in callers:
        caller.say("go")
    truths = [json.loads(caller.line()) for caller in callers]
    seen, starved = Seen(watch.end()), Starved(context.read("x.pb.gz"))
    gaps = sum(truth["gaps"] for truth in truths)
    part = {name: sum(truth["parts"]["next_batch"][name] for truth in truths) for name in ("ns", "cpu_ns")}
    found = starved.total("next_batch")
    lost = {reason: n for reason, n in seen.lost.items() if n}
    no_time = lost.get("stacks_of_sleepers_no_time", 0)
    unread = no_time + lost.get("stacks_of_sleepers_unread", 0)
    context.note("%d of %d sleeps not read, %.3f of %.3f s told, lost %s" % (
        unread, gaps, found / 1e9, part["ns"] / 1e9, lost))
    check(no_time and unread < gaps, "%d of %d sleeps not read, lost %s" % (unread, gaps, lost))
    # These have none of their 50 ms. Each of the others has at least the 20 after which it is looked at, or none, if
    # that was too late. One stack takes 3 to 12 ms, and the last of five waits for the others: one in ten is in time.
    least = 0.1 * 20e6 * (gaps - unread)
    most = part["ns"] - 50e6 * unread + error_ns(part["cpu_ns"])
    check(least <= found <= most, "next_batch: %d, not %d to %d ns; lost %s" % (found, least, most, lost))


@test()
def intervals(context):
    """A gap is reported in the interval of its end, with stacks from the interval before."""
    daemon = Daemon(context, "--gpu", "--log-level", "debug", interval="3s")
    hooked(context, daemon)
    caller = Caller(context, "open", script="gpu_gaps.py")
    other = native(context)
    next_interval(daemon)
    caller.work()
    other.say("go")
    first = json.loads(other.line())
    next_interval(daemon)
    next_interval(daemon)
    caller.say("on")
    truth = json.loads(caller.line())
    other.say("go")
    second = json.loads(other.line())
    next_interval(daemon)
    check(daemon.end() == 0, "ended badly")
    files = [Starved(open(path, "rb").read())
             for path in sorted(glob.glob(os.path.join(daemon.output, "cuda-*.pb.gz")))]
    found = [one.total(pid=caller.pid) for one in files if one.total(pid=caller.pid)]
    check(len(found) == 1 and truth["ns"][0] <= found[0] <= truth["ns"][1], "%s of %s" % (found, truth))
    least = truth["parts"]["load_batch"]["cpu_ns"]
    ran = sum(one.total("load_batch", caller.pid) for one in files)
    check(ran >= least - error_ns(least), "%d ns of what ran in it, of %s" % (ran, truth))
    total = sum(one.total(pid=other.pid) for one in files)
    check(second["ns"][0] <= total <= second["ns"][1], "%d of %s" % (total, second))
    with_gaps = [one for one in files if one.total(pid=other.pid)]
    check(len(with_gaps) > 1 and first["gaps"] == 12 and second["gaps"] == 24, "%s" % second)
    ran = sum(one.total("load_batch", other.pid) for one in files)
    cpu_ns, ns = (second["parts"]["load_batch"][name] for name in ("cpu_ns", "ns"))
    check(cpu_ns - error_ns(cpu_ns) <= ran <= ns + error_ns(ns), "%d ns of %s" % (ran, second))
    context.note("%.2f s of %.2f s" % (ran / 1e9, ns / 1e9))


@test()
def natively(context):
    """Functions of C++, and the table of stacks beside it."""
    caller = native(context)
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid, "-o", "x.pb.gz", "-o", "x.folded")
    truth = caller.work()
    Seen(watch.end())
    starved = Starved(context.read("x.pb.gz"))
    check_sum(starved, truth)
    for where in ("load_batch", "augment"):
        check_part(starved, truth, where)
    calls = sum(int(line.rsplit(" ", 1)[1]) for line in context.text("x.folded").splitlines()
                if not line.startswith("#"))
    check(calls == 25, "%d calls in the folded file" % calls)
