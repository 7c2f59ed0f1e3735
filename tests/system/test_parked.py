# SPDX-License-Identifier: Apache-2.0
"""Threads that have nothing to do are one frame, and those that wait for something are not."""

import os

from dumps import truth_of, wait_for
from harness import ROOT, check, test
from test_python import compiled, spawn
from test_wall import by_thread, record, some_pythons, span, time_under, within

LIGHT = True
HERE = os.path.join(ROOT, "tests", "system", "python")
WITHIN = 0.03  # of the recording: switches that were not traced, and the steps in between
USED = {"consume", "nap", "share", "regions"}  # functions of who waits for something


def start(context, python):
    path = os.path.join(context.scratch("parked-" + python.name.replace("/", "-")), "truth")
    library = compiled(context, "libparked.so", "parked.c", "-fPIC", "-shared", "-fopenmp")
    process = spawn(context, [*python.argv, os.path.join(HERE, "parked.py"), path, library],
                    python.environment({"OMP_WAIT_POLICY": "passive"}),
                    [python.stdlib, HERE, os.path.dirname(library)])
    wait_for(lambda: os.path.exists(path + ".ready"), "%s waits" % python)
    return process, path


def finish(path):
    return {int(tid): work for tid, work in truth_of(path).items()}


def parked_by_thread(profile):
    times = {}
    for sample in profile.samples:
        names = [f for at in sample["stack"] for f in profile.locations[at]["functions"]]
        if "[parked]" in names:
            check(names == ["[parked]"], "[parked] is not alone: %s" % names)
            tid = sample["labels"]["tid"]
            times[tid] = times.get(tid, 0) + sample["values"][1]
    return times


def compare(context, python):
    process, path = start(context, python)
    profile, _ = record(context, "--wall", "--threads", "-p", process.pid, "-d", 2)
    stats = context.json("x.json")["waits"]
    text = context.text("x.folded")
    shown, _ = record(context, "--wall", "--parked", "-p", process.pid, "-d", 1)
    work = finish(path)
    begin, end = span(profile)
    length = end - begin
    parked, wrong = parked_by_thread(profile), []
    for tid, times in work.items():
        true = 0 if times == "all" else length - within(times, begin, end)
        if abs(parked.get(tid, 0) - true) > WITHIN * length:
            wrong.append("%s: thread %d is parked for %.3f s of %.3f" %
                         (python, tid, parked.get(tid, 0) / 1e9, true / 1e9))
    check(process.pid not in parked, "%s: the main thread is parked" % python)
    # 3 of Python's own, of OpenMP all but the one that calls it.
    check(len(work) == 7 and len(parked) == 5, "%s: threads %s, parked %s" % (python, work, parked))
    for tid, ns in by_thread(profile, process.pid).items():
        if abs(ns - length) > 0.01 * length:
            wrong.append("%s: thread %d has %.3f s of %.3f" % (python, tid, ns / 1e9, length / 1e9))
    total = sum(parked.values())
    check(abs(stats["parked_ms"] * 1e6 - total) < 1e7 and stats["parked_stacks"] >= 3,
          "stats %s, parked %d ns" % (stats, total))
    check(";[parked] " in text, "[parked] is not in collapsed stacks")
    for function in USED:
        check(time_under(profile, function) > 0, "%s: %s is not there" % (python, function))
    check(not time_under(shown, "[parked]") and time_under(shown, "_worker") > 0,
          "%s: --parked hides them" % python)
    context.note("%s: %d of 8 threads parked, %.3f of %.3f s" %
                 (python, len(parked), total / 1e9, 8 * length / 1e9))
    return wrong


@test()
def parked(context):
    """Idle pools of Python and OpenMP and an event loop; tasks that wait in them, and other threads."""
    wrong = compare(context, some_pythons()[-1])
    check(not wrong, "\n".join(wrong))
