# SPDX-License-Identifier: Apache-2.0
"""The holders of the GIL while other threads waited for it."""

import os
import re

from dumps import truth_of, wait_for
from harness import ROOT, check, test
from pprof import Pprof
from test_python import all_pythons, compiled, spawn
from test_wall import span, within

BESIDE = True
PROGRAM = os.path.join(ROOT, "tests", "system", "python", "gilwaits.py")
HOLDER = re.compile(r"\[GIL last held by (.*)-(\d+)\]")
SLACK_NS = 30e6  # beside that: waits at both ends, threads that come late to a CPU


def one_of_each():
    found, _ = all_pythons()
    return {python.version: python for python in found if not python.free_threaded}.values()


def start(context, python):
    path = os.path.join(context.scratch("gil-" + python.name), "truth")
    library = compiled(context, "libgilwaits.so", "gilwaits.c", "-shared", "-fPIC")
    process = spawn(context, [*python.argv, PROGRAM, path, library], python.environment(),
                    [python.stdlib, os.path.dirname(PROGRAM), os.path.dirname(library)])
    wait_for(lambda: os.path.exists(path + ".ready"), "%s holds its GIL" % python)
    return process.pid, path


def by_holder(profile, pid):
    """{(tid of who waits, tid of the holder): ns}"""
    times = {}
    for sample in profile.samples:
        if sample["labels"].get("pid") != pid:
            continue
        for place in sample["stack"]:
            for name in profile.locations[place]["functions"]:
                found = HOLDER.fullmatch(name)
                if found:
                    key = sample["labels"]["tid"], int(found.group(2))
                    times[key] = times.get(key, 0) + sample["values"][1]
    return times


def time_runnable(profile, pid):
    """Time of each thread in which it only waited for a CPU."""
    times = {}
    for sample in profile.samples:
        names = profile.locations[sample["stack"][0]]["functions"] if sample["stack"] else []
        if sample["labels"].get("pid") == pid and "[runnable]" in names:
            tid = sample["labels"]["tid"]
            times[tid] = times.get(tid, 0) + sample["values"][1]
    return times


def sampling_error_ns(true, total, moved, period_ns):
    """
    Of samples that fall to one place or another by chance: five times the deviation. moved: waits
    of which the time is told with the thread's next one. period_ns: what a sample stands for.
    """
    share = true / total
    return 5 * (share * (1 - share) * total / period_ns + moved) ** 0.5 * period_ns


def compare(profile, python, pid, truth, chance):
    """A note, and what is wrong."""
    begin, end = span(profile)
    seen, runnable = by_holder(profile, pid), time_runnable(profile, pid)
    tids, notes, wrong = truth["tids"], [], []
    for name, other in (("much", "less"), ("less", "much")):
        held = within(truth["held"][name], begin, end)
        error = SLACK_NS + sampling_error_ns(held, end - begin, *chance)
        for waiter in ("want", other):
            ns, late = seen.get((tids[waiter], tids[name]), 0), runnable.get(tids[waiter], 0)
            notes.append("%s for %s %.2f of %.2f" % (waiter, name, ns / 1e9, held / 1e9))
            # The thread checks every 5 ms whether the GIL is free, and may have to wait for a CPU for this.
            if not held or not held - late - error < ns < held + error:
                wrong.append("%s: %s s, error %.2f, runnable %.2f" %
                             (python, notes[-1], error / 1e9, late / 1e9))
        if seen.get((tids[name], tids[name])):
            wrong.append("%s: %s waits for itself" % (python, name))
    if any(not set(key) <= {*tids.values(), pid} for key in seen):
        wrong.append("%s: strangers in %s" % (python, seen))
    return "%s: %s" % (python, ", ".join(notes)), wrong


@test()
def holders(context):
    """Each holder has the time that it let the others wait, in every Python."""
    running = [(python, *start(context, python)) for python in one_of_each()]
    check(len(running) > 1, "only one Python")
    targets = [arg for _, pid, _ in running for arg in ("-p", pid)]
    context.bpfprof("record", "--wall", "--threads", *targets, "-d", 2, "-o", "x.pb.gz", "--stats",
                    "x.json").expect(0)
    profile, stats = Pprof(context.read("x.pb.gz")), context.json("x.json")["waits"]
    moved = sum(n for name, n in stats.items()
                    if name.startswith("deferred_") and name != "deferred_ns")
    chance = moved / len(running), stats["longest_period_us"] * 1e3
    wrong = []
    for python, pid, path in running:
        note, more = compare(profile, python, pid, truth_of(path), chance)
        context.note(note)
        wrong += more
    check(not wrong, "\n".join(wrong))
    unknown = stats.get("gil_holder_unknown", 0)
    check(stats["for_the_gil"] > 10 * len(running) and unknown < stats["for_the_gil"] / 10,
          "stats %s" % stats)
