# SPDX-License-Identifier: Apache-2.0
"""dump: the tasks of asyncio, against what the programs and the interpreters say of them."""

import os
import re
import subprocess

from dumps import PROGRAMS, Sleeper, Watch, dump_json, frames_of
from harness import Skip, check, test
from pythons import Python
from test_python import CACHE, all_pythons, each_once, pick

BESIDE = True
MANY = 100000
# Types of Cython 0.29 have no prefix. Those of 3 are made when the module is loaded.
CYTHONS = [((3, 8), "0.29.37"), ((3, 11), "0.29.37"), ((3, 11), "3.0.12"), ((3, 13), "3.2.1")]
DUMPS = 10


def tasks_of(threads):
    return [task for thread in threads for task in thread["tasks"] or []]


def differences(truth, tasks):
    """The faults of the tasks of a dump."""
    wrong, found = [], {task["name"]: task for task in tasks}
    if len(found) != len(tasks):
        wrong.append("%d tasks have %d names" % (len(tasks), len(found)))
    wrong += ["%r is no task" % name for name in set(found) - set(truth)]
    for name, known in truth.items():
        task = found.get(name)
        if not task:
            wrong.append("%r is missing" % name)
            continue
        got = {"frames": frames_of(task), "coroutine": task["coroutine"]}
        wanted = {"frames": known["frames"], "coroutine": known["coroutine"]}
        if known["known"]:
            kind, wanted["awaited_by"] = known["known"]
            got["awaited_by"] = sorted(task["awaited_by"])
            got["kind"] = task["waits_for"] and task["waits_for"]["kind"]
            wanted["kind"] = kind or None
        got["running"], wanted["running"] = task["running"], name == "runs"
        got["consistent"], wanted["consistent"] = task["consistent"], True
        wrong += ["%r: %s:\n  %s\nfor\n  %s" % (name, key, got[key], wanted[key])
                  for key in wanted if got[key] != wanted[key]]
    return wrong


ROW = re.compile(r"^\d+ +0x\w+ +(\S.*)$")


def asyncio_ps(python, pid):
    """{name: (names of the frames, names of the awaiters)} by the interpreter's own tool (3.14+)."""
    done = subprocess.run([*python.argv, "-m", "asyncio", "ps", str(pid)],
                          env=python.environment(), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    check(not done.returncode, done.stdout[-500:])
    found = {}
    for match in map(ROW.match, done.stdout.splitlines()):
        # name, stack[, stack and name of an awaiter], id of the awaiter
        fields = re.split(r" {2,}", match.group(1).strip()) if match else []
        if len(fields) in (3, 5):
            stack, awaiters = found.setdefault(fields[0], (fields[1].split(" -> "), set()))
            if len(fields) == 5:
                awaiters.add(fields[3])
    return found


def against_ps(python, pid, tasks):
    """The number of tasks that the interpreter's tool names too, and the faults by it."""
    wrong, ours = [], {task["name"]: task for task in tasks}
    theirs = asyncio_ps(python, pid)
    for name, (stack, awaiters) in theirs.items():
        if "\0" in name:
            continue  # 3.14 misreads a name with other characters than ASCII
        if name not in ours:
            wrong.append("%r is missing" % name)
            continue
        # It ends a chain at the first object that is no coroutine.
        names = [frame["name"] for frame in ours[name]["frames"]]
        if names[-len(stack):] != stack:
            wrong.append("%r: %s for %s" % (name, names, stack))
        if set(ours[name]["awaited_by"]) != awaiters:
            wrong.append("%r: awaited by %s, not %s" % (name, ours[name]["awaited_by"], awaiters))
    return len(theirs), wrong


def compare_one(context, python, *args):
    sleeper = Sleeper(context, python, "tasks", *args)
    truth = sleeper.wait()["tasks"]
    with Watch(sleeper.pid):
        threads, run = dump_json(context, sleeper.pid)
    tasks = tasks_of(threads)
    wrong = ["%s: %s" % (python, text) for text in differences(truth, tasks)]
    wrong += ["%s: %r: %s" % (python, task["name"], task["waits_for"]) for task in tasks
              if task["name"] in ("for ever", "very long") and
              (task["waits_for"]["text"], task["waits_for"]["seconds"]) != ("a timer", None)]
    check(not run.err or python.free_threaded, run.text[-1000:])
    if python.version >= (3, 14) and os.geteuid() == 0 and not args:
        nr, faults = against_ps(python, sleeper.pid, tasks)
        context.note("%s: %d tasks as `python -m asyncio ps` has them" % (python, nr))
        check(nr > 30, "only %d" % nr)
        wrong += ["%s: ps: %s" % (python, text) for text in faults]
    sleeper.end()
    return len(truth), wrong


@test()
def equal(context):
    """Every way to wait, every Python: all tasks, their chains, awaiters and reasons to wait."""
    pythons, missing = all_pythons()
    pythons = each_once(pythons)
    wrong, nr = [], 0
    for python in pythons:
        one, faults = compare_one(context, python)
        nr += one
        wrong += faults
    context.note("%d tasks of %d interpreters: %s" % (nr, len(pythons), ", ".join(
        python.full for python in pythons)))
    for name, reason in missing:
        context.note("not had: %s: %s" % (name, reason))
    check(not wrong, "%d faults, as:\n%s" % (len(wrong), "\n".join(wrong[:6])))


@test()
def many(context):
    """Of 100,000 tasks the first have names, and the others are summed by equal frames."""
    for python in (pick((3, 8)), all_pythons()[0][-1]):
        sleeper = Sleeper(context, python, "tasks", "many", str(MANY))
        sleeper.wait()
        threads, run = dump_json(context, sleeper.pid)
        tasks = tasks_of(threads)
        named = [task for task in tasks if task["name"]]
        sums = sorted((task["waits_for"]["kind"], task["count"]) for task in tasks
                      if not task["name"])
        check(len(named) == 1000, "%s: %d tasks have names" % (python, len(named)))
        # One in four waits for an event, and the main task for a timer.
        waits = [task["waits_for"]["kind"] for task in named]
        check(sums == [("event", MANY // 4 - waits.count("event")),
                       ("timer", MANY - MANY // 4 + 1 - waits.count("timer"))],
              "%s: %s" % (python, sums))
        check(not run.err or python.free_threaded, run.text[-1000:])
        context.note("%s: %d tasks" % (python, MANY + 1))
        sleeper.end()


@test()
def depths(context):
    """Many deep tasks leave the stacks of threads whole, also those of the next process."""
    python = all_pythons()[0][-1]
    sleepers = [Sleeper(context, python, "tasks", "depths", "600", "950"),
                Sleeper(context, python, "tasks", "many", "1")]
    for sleeper in sleepers:
        sleeper.wait()
    threads, run = dump_json(context, sleepers[0].pid, "-p", sleepers[1].pid)
    nr = sum(len(task["frames"]) for task in tasks_of(threads))
    check(b"lists of variables were left out" in run.err, run.text[-1000:])
    context.note("%d frames of tasks" % nr)
    for sleeper in sleepers:
        names = [[frame["name"] for frame in thread["frames"]] for thread in threads
                 if thread["pid"] == sleeper.pid]
        check(any(name[0].endswith("select") and name[-1] == "<module>" for name in names if name),
              "%d: %s" % (sleeper.pid, names))
        sleeper.end()


@test()
def flipping(context):
    """Tasks that move together are all on one side, or marked; and none of many gets lost."""
    python, shown, marked = all_pythons()[0][-1], 0, 0
    sleeper = Sleeper(context, python, "tasks", "flips", "40000")
    sleeper.wait()
    for _ in range(DUMPS):
        threads, run = dump_json(context, sleeper.pid)
        check(any(thread["tasks"] is not None for thread in threads), run.text[-500:])
        tasks = tasks_of(threads)
        shown += sum(task["count"] for task in tasks)
        sides = {frame["name"].split(".")[-1] for task in tasks if task["consistent"]
                 for frame in task["frames"]} & {"left", "right"}
        check(len(sides) < 2 or b"asyncio came and went" in run.err, "both sides: %s" % run.text[-500:])
        marked += any(not task["consistent"] for task in tasks)
    context.note("%d dumps of %d tasks, %d have marks" % (DUMPS, shown // DUMPS, marked))
    check(shown, "no tasks")
    sleeper.end()


@test()
def eager(context):
    """Tasks that were started eagerly run, as do those that started them."""
    innermost = ["blocks", "runs"]
    outer = [*innermost, "eager.<locals>.outer"]
    for python in (pick((3, 12)), all_pythons()[0][-1]):
        sleeper = Sleeper(context, python, "tasks", "eager")
        sleeper.wait()
        tasks = tasks_of(dump_json(context, sleeper.pid)[0])
        got = {task["coroutine"]: ([frame["name"] for frame in task["frames"]
                                    if frame["filename"].startswith(PROGRAMS)],
                                   task["running"],
                                   task["waits_for"] and task["waits_for"]["kind"])
               for task in tasks}
        check(got == {"runs": (innermost, True, None), outer[-1]: (outer, True, None),
                      "eager": ([*outer, "eager"], True, None),
                      "sleeps": (["sleeps"], False, "turn")}, "%s: %s" % (python, got))
        sleeper.end()


@test()
def changing(context):
    """Tasks that stay are found while others come and go, or the dump says that some are missing."""
    names = {"stays %d" % i for i in range(10)}
    for python in (pick((3, 8)), pick((3, 13)), all_pythons()[0][-1]):
        sleeper = Sleeper(context, python, "tasks", "changes")
        sleeper.wait()
        # On a busy machine any number of dumps may say so: a list changes faster than it is read.
        torn = 0
        for _ in range(DUMPS):
            threads, run = dump_json(context, sleeper.pid)
            tasks = tasks_of(threads)
            is_torn = b"asyncio came and went" in run.err
            torn += is_torn
            missing = names - {task["name"] for task in tasks}
            check(is_torn or not missing, "%s: %s are missing, of %d:\n%s" % (
                python, sorted(missing), len(tasks), run.text[-500:]))
            for task in tasks:
                if task["consistent"] and not task["running"] and \
                        task["coroutine"].endswith("naps"):
                    inner = [frame["name"].split(".")[-1] for frame in task["frames"]]
                    check(inner in (["sleep", "naps"], ["naps"], ["__sleep0", "sleep", "naps"]),
                          "%s: %s" % (python, inner))
        context.note("%s: %d of %d dumps say that tasks are missing" % (python, torn, DUMPS))
        sleeper.end()


def with_uvloop():
    """A Python that has uvloop, or Skip."""
    python = pick((3, 11), "pyenv")
    folder = os.path.join(CACHE, "uvloop-" + python.full)
    if not os.path.isdir(os.path.join(folder, "uvloop")):
        done = subprocess.run([*python.argv, "-m", "pip", "install", "-q", "--target", folder,
                               "uvloop"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=120, check=False)
        if done.returncode:
            raise Skip("uvloop cannot be had: " + done.stdout.decode()[-300:])
    return Python(python.name + "-uvloop", python.argv, {"PYTHONPATH": folder})


def module_build(python, folder, version):
    """Builds cython_awaits by a version of Cython, or raises Skip."""
    source = os.path.join(PROGRAMS, "cython_awaits.pyx")
    tool, code = os.path.join(folder, "cython"), os.path.join(folder, "cython_awaits.c")
    include = python.ask("import sysconfig; print(sysconfig.get_path('include'))")
    commands = [[*python.argv, "-m", "pip", "install", "-q", "--target", tool, "Cython==" + version],
                [*python.argv, "-m", "cython", "-3", "-o", code, source],
                ["gcc", "-shared", "-fPIC", "-O1", "-w", "-I" + include, code, "-o",
                 os.path.join(folder, "cython_awaits.so")]]
    for argv in commands[1 if os.path.isdir(tool) else 0:]:
        try:
            done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  env=dict(python.environment(), PYTHONPATH=tool), timeout=300,
                                  check=False)
        except OSError as error:
            raise Skip("no module of Cython: %s" % error) from error
        if done.returncode:
            raise Skip("no module of Cython %s: %s" % (version, done.stdout.decode()[-300:]))


def with_cython(least, version):
    """A Python that has cython_awaits, or Skip."""
    python = pick(least, "pyenv")
    folder = os.path.join(CACHE, "cython-%s-%s" % (python.full, version))
    module = os.path.join(folder, "cython_awaits.so")
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(module) or os.path.getmtime(module) < os.path.getmtime(
            os.path.join(PROGRAMS, "cython_awaits.pyx")):
        module_build(python, folder, version)
    return Python("%s-cython-%s" % (python.name, version), python.argv, {"PYTHONPATH": folder})


def each_with_cython(context):
    """Pythons with modules of several versions of Cython; Skip if there is none."""
    found, reasons = [], []
    for least, version in CYTHONS:
        try:
            found.append(with_cython(least, version))
        except Skip as reason:
            reasons.append(str(reason))
            context.note("not had: %s" % reason)
    if not found:
        raise Skip(reasons[0])
    return found


@test()
def cython(context):
    """Coroutines of Cython, which have no frames, lead on to those of Python, as in Ray's async actors."""
    wrong = []
    for python in each_with_cython(context):
        nr, faults = compare_one(context, python, "cython")
        context.note("%d tasks of %s" % (nr, python))
        wrong += faults
    check(not wrong, "%d faults, as:\n%s" % (len(wrong), "\n".join(wrong[:6])))


@test()
def uvloop(context):
    """Loops of uvloop run the same tasks."""
    python = with_uvloop()
    nr, wrong = compare_one(context, python, "uvloop")
    context.note("%d tasks of %s" % (nr, python))
    check(not wrong, "%d faults, as:\n%s" % (len(wrong), "\n".join(wrong[:6])))
