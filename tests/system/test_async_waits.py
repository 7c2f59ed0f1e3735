# SPDX-License-Identifier: Apache-2.0
"""record --wall --async: the time of suspended tasks, beside what the program says of itself."""

import concurrent.futures
import math
import os
import re
import threading
import time

from dumps import PROGRAMS, truth_of, wait_for
from harness import check, test
from pprof import Pprof
from test_asyncio import with_cython, with_uvloop
from test_python import all_pythons, pick, spawn
from test_wall import span, time_under

PAIRED = True
PROGRAM = os.path.join(PROGRAMS, "async_waits.py")
COPIES = 8
AT_ONCE = 3
SECONDS = 8
SIGMAS = 5
# Tasks that start, end, continue or change their place while they are read; and the ends of the recording.
SLACK = 0.01
MOVED = 0.5  # of the time may be of tasks that moved while they were read: on a busy machine a read takes long
SHIELDED = ((("shields",), "future"),)  # its task has ended, and the future that stands for it has not yet
FUNCTIONS = set()
for path in (PROGRAM, os.path.join(PROGRAMS, "async_many.py")):
    with open(path, encoding="utf-8") as program_file:
        FUNCTIONS |= set(re.findall(r"(?m)^async def (\w+)", program_file.read()))
BRIEF = ("running", "turn", "task", "unread")  # what a task waits for, for less than a millisecond


class Program:
    """A run of async_waits.py."""

    def __init__(self, context, python, copies=COPIES, *args):
        folder = context.scratch("async-" + python.name.replace("/", "-"))
        self.path = os.path.join(folder, "truth")
        needs = [python.stdlib, PROGRAMS, *(a for a in python.argv if "/" in a[:1]),
                 *python.env.get("PYTHONPATH", "").split(":")]
        self.process = spawn(context, [*python.argv, PROGRAM, self.path, str(copies), *args],
                             python.environment({"TMPDIR": folder}), [n for n in needs if n])
        self.pid = self.process.pid
        wait_for(lambda: os.path.exists(self.path + ".ready") or self.process.poll() is not None,
                 "%s waits" % python)
        check(self.process.poll() is None, "%s ended" % python)

    def truth(self):
        return truth_of(self.path)


def true_times(truth, begin, end):
    """{(functions, why): ns} that lie between begin and end."""
    times = {}
    for functions, why, since, until in truth["waits"]:
        since, until = max(since, begin), min(until, end)
        if since < until:
            key = tuple(functions), why
            times[key] = times.get(key, 0) + until - since
    return times


def seen_times(profile, pid):
    """The same from a profile, where functions of other files are left out; and a whole stack for each key."""
    times, stacks = {}, {}
    for sample in profile.samples:
        names = [name for at in reversed(sample["stack"])
                 for name in profile.locations[at]["functions"]]
        if "[tasks]" not in names:
            continue
        check(names[0] == "[tasks]" and sample["labels"]["pid"] == pid, "%s of %s" % (
            names, sample["labels"]))
        why = re.fullmatch(r"\[([a-z ]+)\]", names[-1])
        check(why, "the leaf is %s" % names[-1])
        ours = tuple(name for name in (name.split(".")[-1] for name in names) if name in FUNCTIONS)
        times[ours, why[1]] = times.get((ours, why[1]), 0) + sample["values"][1]
        stacks[ours, why[1]] = names
    return times, stacks


def compare(profile, stats, truth, pid):
    """Faults, and the largest error of a place in standard deviations and in percent."""
    begin, end = span(profile)
    length, period = end - begin, stats["task_period_us"] * 1000
    true, (seen, stacks) = true_times(truth, begin, end), seen_times(profile, pid)
    places = {functions[i:k] for functions, _ in true
              for i in range(len(functions) + 1) for k in range(i, len(functions) + 1)}
    wrong, worst, percent = [], 0.0, 0.0
    moved = seen.pop(((), "moved"), 0)
    for key, ns in seen.items():
        # A task that begins, ends or continues is on the way to a place, or back.
        if key not in true and key not in SHIELDED and not (key[1] in BRIEF and key[0] in places):
            wrong.append("%s: %.3f s, and nothing waits there" % (stacks[key], ns / 1e9))
    for key, ns in true.items():
        # Each snapshot adds `period` for each task that it meets there.
        deviation = math.sqrt(ns * period) + 1
        error = abs(seen.get(key, 0) - ns) - SLACK * ns - moved * ns / sum(true.values())
        worst = max(worst, error / deviation)
        percent = max(percent, 100 * error / ns if ns > 4 * length else 0)
        if error > SIGMAS * deviation:
            wrong.append("%s: %.3f s of %.3f" % (key, seen.get(key, 0) / 1e9, ns / 1e9))
    total, known = sum(seen.values()) + moved, sum(true.values())
    if abs(total - known) > SLACK * known + SIGMAS * math.sqrt(known * period):
        wrong.append("%.3f s of %.3f in all" % (total / 1e9, known / 1e9))
    if moved > MOVED * total:
        wrong.append("%.3f s moved" % (moved / 1e9))
    return wrong, "%d places, period %.3f s, %.1f%% moved, errors up to %.1f deviations, %.1f%%" % (
        len(true), period / 1e9, 100 * moved / total, worst, percent)


def record(context, *args, name="x"):
    context.bpfprof("record", "--wall", "--async", "-o", name + ".pb.gz", "-o", name + ".folded", "--stats",
                    name + ".json", *args).expect(0)
    return Pprof(context.read(name + ".pb.gz")), context.json(name + ".json")


def compare_one(context, python, *args):
    program = Program(context, python, COPIES, *args)
    profile, stats = record(context, "-p", program.pid, "-d", SECONDS, name=python.name.replace("/", "-"))
    wrong, note = compare(profile, stats["waits"], program.truth(), program.pid)
    context.note("%s: %s" % (python, note))
    return ["%s: %s" % (python, text) for text in wrong]


@test(alone=True)
def places(context):
    """Every way to wait, every Python: the time under each chain of awaits is what the program says.

    All wait most of their time: some have recordings at once.
    """
    by_version, only = {}, os.environ.get("ONLY_PYTHON", "")
    for python in all_pythons()[0]:
        if not python.free_threaded and only in python.name:
            by_version.setdefault(python.version, python)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(lambda python: compare_one(context, python), by_version.values()))
    wrong = sum(found, [])
    check(not wrong, "%d faults, as:\n%s" % (len(wrong), "\n".join(wrong[:8])))


@test()
def cython(context):
    """The same below coroutines of Cython, which have no frames, as in Ray's async actors."""
    wrong = compare_one(context, with_cython((3, 11), "3.0.12"), "cython")
    check(not wrong, "%d faults, as:\n%s" % (len(wrong), "\n".join(wrong[:8])))


@test()
def uvloop(context):
    """The same in loops of uvloop."""
    wrong = compare_one(context, with_uvloop(), "uvloop")
    check(not wrong, "%d faults, as:\n%s" % (len(wrong), "\n".join(wrong[:8])))


class Many:
    """A run of async_many.py."""

    def __init__(self, context, number):
        python = pick((3, 11), "pyenv")
        self.path = os.path.join(context.scratch("async-many"), "rounds")
        self.process = spawn(context, [*python.argv, os.path.join(PROGRAMS, "async_many.py"),
                                       self.path, str(number)],
                             python.environment(), [python.stdlib, PROGRAMS])
        self.pid = self.process.pid
        wait_for(lambda: os.path.exists(self.path), "it computes")

    def rounds(self):
        with open(self.path, encoding="ascii") as file:
            return int(file.read())

    def pace(self, seconds, work=time.sleep):
        """Rounds in a second of CPU time, while that is done."""
        def used():
            with open("/proc/%d/stat" % self.pid, encoding="ascii") as file:
                fields = file.read().rpartition(")")[2].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        rounds, cpu = self.rounds(), used()
        result = work(seconds)
        return (self.rounds() - rounds) / (used() - cpu), result


@test()
def many(context):
    """10,000 suspended tasks: all of their time, within the limits of CPU time and memory."""
    number, seconds = 10000, 12
    program = Many(context, number)
    alone, _ = program.pace(3)
    beside, (profile, stats) = program.pace(
        seconds, lambda s: record(context, "-p", program.pid, "-d", s))
    begin, end = span(profile)
    waits = stats["waits"]
    seen, _ = seen_times(profile, program.pid)
    total = sum(seen.values())
    context.note("%d snapshots, period %.1f s, %.2f s CPU of the reader, %d KiB; the target computes "
                 "%.0f rounds a second of its CPU time alone, %.0f beside it" % (
                     waits["task_snapshots"], waits["task_period_us"] / 1e6,
                     waits["task_reader_cpu_us"] / 1e6, waits["task_reader_memory_kb"], alone, beside))
    slept = seen.get((("sleeps", "naps"), "timer"), 0)
    check(abs(total - (number + 2) * (end - begin)) < 0.01 * total, "%.0f s in all" % (total / 1e9))
    check(slept > 0.9 * total, "%.0f s asleep of %.0f" % (slept / 1e9, total / 1e9))
    # The first and the last read are due whatever they take.
    check(waits["task_reader_cpu_us"] < 1e6 * (0.02 * seconds + 1.5), "CPU time: %s" % waits)
    check(waits["task_reader_memory_kb"] < 16384, "memory: %s" % waits)


@test()
def parked(context):
    """A consumer without items is parked, and --parked shows where; a request in a queue is not."""
    program = Many(context, 10)
    hidden, _ = record(context, "-p", program.pid, "-d", 2)
    text = context.text("x.folded")
    check(";[tasks];[parked] " in text and "consumes" not in text, text)
    check(time_under(hidden, "[parked]") > 1.9e9, text)
    shown, _ = record(context, "-p", program.pid, "-d", 2, "--parked")
    check(time_under(shown, "consumes") > 1.9e9 and not time_under(shown, "[parked]"),
          context.text("x.folded"))


@test()
def ends(context):
    """The target ends meanwhile: the time until then is there."""
    program = Many(context, 10)
    timer = threading.Timer(3, program.process.kill)
    timer.start()
    profile, stats = record(context, "-p", program.pid, "-d", 20)
    timer.join()
    check("task_reader_ended" not in stats["waits"], "%s" % stats["waits"])
    check(5e9 < time_under(profile, "[timer]") < 60e9, context.text("x.folded"))


@test()
def deep_and_many(context):
    """6,000 stacks of 900 frames: their time is there, the reader's memory and the end of the recording are bounded."""
    number, seconds = 6000, 6
    python = pick((3, 11), "pyenv")
    path = os.path.join(context.scratch("async-deep"), "waits")
    program = spawn(context, [*python.argv, os.path.join(PROGRAMS, "async_deep.py"), path, str(number), "900"],
                    python.environment(), [python.stdlib, PROGRAMS])
    wait_for(lambda: os.path.exists(path), "its tasks wait")
    began = time.monotonic()
    profile, stats = record(context, "-p", program.pid, "-d", seconds)
    took, waits = time.monotonic() - began, stats["waits"]
    begin, end = span(profile)
    slept, other = time_under(profile, "[timer]"), time_under(profile, "[other stacks]")
    context.note("%.1f s; %.0f s asleep and %.0f s without a stack of %.0f; %s" % (
        took, slept / 1e9, other / 1e9, number * (end - begin) / 1e9,
        {name: count for name, count in waits.items() if name.startswith("task")}))
    check(waits["task_stacks_cut"] > 0 and other > 0, "nothing was cut: %s" % waits)
    check(waits["task_reader_memory_kb"] < 32768, "memory: %s" % waits)
    check(slept + other < 1.01 * number * (end - begin), "more time than there is")
    check(took < seconds + 15, "%.1f s" % took)
