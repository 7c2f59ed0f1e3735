# SPDX-License-Identifier: Apache-2.0
"""Which C call runs which Python frames, where it is not one each: exceptions thrown into chains of
coroutines, greenlets, compiled Python, stacks that are cut, and very many threads."""

import json
import os
import re
import subprocess
import sys
import time

import python_truth as truth
from harness import Skip, check, test
from test_python import CACHE, all_pythons, each_once, spawn

BESIDE = True
HZ = 499
SECONDS = 2, 8, 20  # of a recording: longer where others have the processors
LEAST = 30  # samples
PROGRAM = os.path.join(truth.PROGRAMS, "pairs.py")
KEPT = 1000  # Python frames that are shown of each stack, at least
BROKEN = "python_chain_broken"
FEW = 0.02  # of the samples: calls that are just beginning or ending


def recorded(context, jobs):
    """
    (process, stacks of `record`, statistics) of each job (argv, env, out, label, library): one recording has them all,
    once each has written `out`.
    """
    processes, end = [], time.monotonic() + 60
    for argv, env, out, label, library in jobs:
        processes.append(spawn(context, argv, env, [library or argv[0]], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL))
    for process, (_, _, out, label, _) in zip(processes, jobs):
        while not os.path.exists(out):
            check(time.monotonic() < end and process.poll() is None, "%s does not get ready" % label)
            time.sleep(0.02)
    for seconds in SECONDS:
        context.bpfprof("record", *(word for one in processes for word in ("-p", one.pid)), "-F", HZ, "-d", seconds,
                        "--split", "process", "-o", "%p.folded").expect(0)
        texts = [context.text("%d.folded" % process.pid) for process in processes]
        stacks = [list(truth.read_folded(text)) for text in texts]
        few = [job[3] for job, found in zip(jobs, stacks) if sum(count for _, count in found) < LEAST]
        if not few:
            break
    check(not few, "too few samples: %s" % few)
    return [(process, found, json.loads(text.split("\n", 1)[0][2:])["stacks"])
            for process, found, text in zip(processes, stacks, texts)]


def names_of(frames):
    found = [truth.PYTHON.fullmatch(frame) for frame in frames]
    return [one["name"].rpartition(".")[2] for one in found if one]


def run(context, python, *programs, env=None):
    """
    Of each (how, arguments): label, names of Python's own frames, stacks, statistics, text of dump. They run at once.
    """
    jobs = []
    for how in programs:
        label = "%s, %s" % (python.name, " ".join(map(str, how)))
        out = os.path.join(context.scratch("-".join([python.name, *map(str, how)])), "out")
        jobs.append(([*python.argv, PROGRAM, how[0], out, *map(str, how[1:])], python.environment(env), out, label,
                     None))
    found = recorded(context, jobs)
    pids = [word for process, _, _ in found for word in ("-p", process.pid)]
    dumped = re.split(r"(?m)^Process (\d+)\b", context.bpfprof("dump", *pids, timeout=120).expect(0).text)
    dumped = dict(zip(map(int, dumped[1::2]), dumped[2::2]))
    for (process, stacks, stats), (_, _, out, label, _) in zip(found, jobs):
        process.kill()
        process.wait()
        with open(out, encoding="utf-8") as file:
            truth_names = json.load(file)
        check((stats["unmerged"] == 0 and stats["truncated"] == 0) or stats["reasons"],
              "%s: no reason for %s" % (label, stats))
        yield label, truth_names, stacks, stats, dumped[process.pid]


def in_order(frames):
    """sorted() calls key_of: its C code is between; nothing of the start is inside of Python."""
    names = [frame.split(" (")[0].rpartition(".")[2] for frame in frames]
    first = next((i for i, frame in enumerate(frames) if truth.PYTHON.fullmatch(frame)), 0)
    if any(name in ("_start", "clone3", "start_thread") for name in names[first:]):
        return False
    if "key_of" not in names:
        return True
    work = names.index("work")
    return any("sort" in name or "+0x" in name for name in names[work:names.index("key_of")])


def is_right(frames, truth_names):
    return truth.UNMERGED_MARK not in frames and in_order(frames) and \
        names_of(frames) in (truth_names, truth_names + ["key_of"])


def check_all(label, stacks, right, floor=99.0):
    total = sum(count for _, count in stacks)
    wrong = [(count, ";".join(frames)) for frames, count in stacks if not right(frames)]
    check(100 * (total - sum(count for count, _ in wrong)) >= floor * total,
          "%s: %s" % (label, [(count, truth.shorten(stack)) for count, stack in
                              sorted(wrong, reverse=True)[:3]]))


@test(long=True)
def thrown(context):
    """Coroutines that wait while an exception goes through them run in no C call, and stand in their place."""
    for python in each_once(all_pythons()[0]):
        for label, truth_names, stacks, stats, dumped in run(context, python, ("thrown",), ("closed",), ("cancelled",),
                                                      ("managed",)):
            check_all(label, stacks, lambda frames: is_right(frames, truth_names), 98.0)
            total = sum(count for _, count in stacks)
            if truth_names[0] == "<module>":
                check(stats["complete"] >= (1 - FEW) * total, "%s: %s" % (label, stats))
            else:  # up to 3.9 Python loses the outer frames without a message
                check(stats["reasons"].get(BROKEN, 0) >= (1 - FEW) * total and
                      stats["complete"] <= FEW * total, "%s: %s" % (label, stats))
            shown = [line.split(" (")[0].strip().rpartition(".")[2] for line in
                     dumped.partition("\nTask ")[0].splitlines() if line.startswith("    ") and " (" in line][::-1]
            check(shown[:len(truth_names)] == truth_names, "%s: dump says %s, Python %s" % (label, shown, truth_names))


@test(long=True)
def cut(context):
    """A deep recursion shows its innermost frames: whole, or under [truncated], and counted."""
    for python in each_once(all_pythons()[0]):
        depths = (900, 3000)
        for depth, (label, truth_names, stacks, stats, _) in zip(depths, run(context, python,
                                                                     *(("deep", depth) for depth in depths))):
            truth_names = [name for name in truth_names if name != "<module>"]

            def right(frames):
                names = names_of(frames)
                inner = names[:-1] if names[-1:] == ["key_of"] else names
                if truth.UNMERGED_MARK in frames or not in_order(frames):
                    return False
                if frames[0] != truth.TRUNCATED_MARK:
                    return depth < KEPT and inner == truth_names
                if inner == truth_names:  # only C code is missing
                    return True
                return inner == ["down"] * (len(inner) - 1) + ["work"] and \
                    len(inner) >= (KEPT if python.version >= (3, 11) else 300)
            check_all(label, stacks, right)
            marked = sum(count for frames, count in stacks if frames[0] == truth.TRUNCATED_MARK)
            # Now and then a sample meets a call that is just beginning; check_all() bounds them.
            unmerged = sum(count for frames, count in stacks if truth.UNMERGED_MARK in frames)
            check(stats["truncated"] == marked and stats["unmerged"] == unmerged, "%s: %s" %
                  (label, stats))
            if depth > 2 * KEPT:
                check(stats["reasons"].get("python_too_deep", 0) >= marked, "%s: %s" %
                      (label, stats))


@test()
def many_threads(context):
    """The oldest of more threads than a list is followed for has its frames while it runs Python."""
    for python in each_once(all_pythons()[0]):
        if python.version in ((3, 10), (3, 12), (3, 13)) and not python.free_threaded:
            (_, truth_names, stacks, _, _), = run(context, python, ("crowd", 4400))
            check_all(str(python), stacks, lambda frames: is_right(frames, truth_names))


@test()
def greenlets(context):
    """The stack of a greenlet ends where it begins, whatever lies on the C stack beyond it."""
    tried = 0
    for python in each_once(all_pythons()[0]):
        if python.version not in ((3, 8), (3, 10), (3, 12)):
            continue
        folder = os.path.join(CACHE, "greenlet-%s-%s" % (python.name, python.full))
        if not os.path.exists(os.path.join(folder, "greenlet")):
            subprocess.run([*python.argv, "-m", "pip", "install", "-q", "--target", folder,
                            "greenlet"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           env=python.environment(), timeout=120, check=False)
        if not os.path.exists(os.path.join(folder, "greenlet")):
            continue
        tried += 1
        (_, truth_names, stacks, stats, _), = run(context, python, ("switched",), env={"PYTHONPATH": folder})
        check_all(str(python), stacks, lambda frames: is_right(frames, truth_names) and
                  "<module>" not in names_of(frames) and
                  not truth.EVAL.match(frames[0]) and "_start" not in frames, 98.0)
        check(stats["complete"] >= (1 - FEW) * sum(count for _, count in stacks),
              "%s: %s" % (python, stats))
    if not tried:
        raise Skip("greenlet cannot be had here")


@test()
def compiled(context):
    """Frames that C code made stand outside of those that Python runs, with a mark and a reason."""
    tried = 0
    for python in each_once(all_pythons()[0]):
        include, folder, name = python.ask(
            "import sysconfig as s; print(s.get_path('include'), s.get_config_var('LIBDIR'), "
            "s.get_config_var('LDLIBRARY'))").split()
        if python.version > (3, 10) or not os.path.exists(os.path.join(folder, name)) or \
                not name.endswith(".so"):
            continue
        program = context.builder.out("compiled-" + python.name)
        if not context.builder.command(program, [
                "gcc", "-O2", "-I", include, os.path.join(truth.PROGRAMS, "compiled.c"),
                os.path.join(folder, name), "-Wl,-rpath," + folder, "-o", program]):
            continue
        tried += 1
        out = os.path.join(context.scratch("compiled-" + python.name), "out")
        home = os.path.dirname(folder)
        (_, stacks, stats), = recorded(context, [([program, out], dict(os.environ, PYTHONHOME=home), out, str(python),
                                                  os.path.join(folder, name))])
        total = sum(count for _, count in stacks)
        check(stats["unmerged"] == total and
              stats["reasons"] == {"python_frames_without_calls": total}, "%s: %s" %
              (python, stats))
        check_all(str(python), stacks, lambda frames: names_of(frames)[:2] ==
                  ["compiled", "interpreted"] and "_start" in frames[:frames.index("[unmerged]")])
    if not tried:
        raise Skip("no Python up to 3.10 with a library here")


