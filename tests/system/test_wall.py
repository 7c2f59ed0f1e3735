# SPDX-License-Identifier: Apache-2.0
"""Waiting: time of threads on a CPU, off it, and why, beside what programs say of themselves."""

import json
import os
import subprocess

import chains
from dumps import truth_of, wait_for
from harness import ROOT, check, test
from pprof import Pprof
from test_python import all_pythons, spawn

BESIDE = True
PROGRAM = os.path.join(ROOT, "tests", "system", "python", "waits.py")
WITHIN = 0.02  # of the time in a place
SLACK_NS = 12e6  # beside that: a wait that begins or ends with the recording
CHANCE_NS = 30e6  # where it is samples: of the clock, and of short waits, by chance
VERSIONS = ((3, 9), (3, 11), (3, 13))


def some_pythons():
    """One of each version that matters, and the newest; what is missing is said."""
    found, _ = all_pythons()
    by_version = {python.version: python for python in found if not python.free_threaded}
    chosen = [by_version[version] for version in VERSIONS if version in by_version]
    newest = by_version[max(by_version)]
    return chosen + ([newest] if newest not in chosen else [])


class Waits:
    """A run of waits.py."""

    def __init__(self, context, python):
        folder = context.scratch("waits-" + python.name.replace("/", "-"))
        self.path = os.path.join(folder, "truth")
        self.process = spawn(context, [*python.argv, PROGRAM, self.path],
                             python.environment(), [python.stdlib, os.path.dirname(PROGRAM)])
        wait_for(lambda: os.path.exists(self.path + ".ready"), "%s waits" % python)

    def truth(self):
        return truth_of(self.path)


def within(calls, begin, end):
    """Time of the calls that lies between begin and end."""
    return sum(max(0, min(end, call[1]) - max(begin, call[0])) for call in calls)


def span(profile):
    return profile.scalars[9], profile.scalars[9] + profile.scalars[10]


def time_under(profile, name, but=(), value=1):
    """Of the samples with that function in their stack, and none of those."""
    total = 0
    for sample in profile.samples:
        names = {f for at in sample["stack"] for f in profile.locations[at]["functions"]}
        if name in names and not names & set(but):
            total += sample["values"][value]
    return total


def differs(seen, true, slack_ns=SLACK_NS):
    return abs(seen - true) > true * WITHIN + slack_ns


def by_thread(profile, pid):
    """Time of each thread of the process."""
    times = {}
    for sample in profile.samples:
        if sample["labels"].get("pid") == pid:
            tid = sample["labels"]["tid"]
            times[tid] = times.get(tid, 0) + sample["values"][1]
    return times


def compare(profile, truth, places, moved_ns):
    """
    Time in each place as it was seen and as it was, and the places where they differ. moved_ns: what
    is told with a later wait of the thread, maybe in another place.
    """
    begin, end = span(profile)
    notes, wrong = [], []
    for place in places:
        true = within(truth["places"][place], begin, end)
        seen = time_under(profile, place)
        notes.append("%s %.3f of %.3f" % (place, seen / 1e9, true / 1e9))
        slack_ns = (CHANCE_NS if place == "spin" else SLACK_NS) + moved_ns
        if differs(seen, true, slack_ns) or not true or not seen:
            wrong.append(notes[-1])
    return notes, wrong


def record(context, *args):
    """
    A recording, and the time of waits that is told with a later one. Best none: where this test runs
    in a sandbox, switches from the sandbox's own tasks are kept from being traced.
    """
    for tries in range(2):
        context.bpfprof("record", "-o", "x.pb.gz", "-o", "x.folded", "--stats", "x.json",
                        *args).expect(0)
        stats = context.json("x.json")
        check(not stats["lost"]["ring_full"] and "switches_no_room" not in stats["lost"],
              "lost %s" % stats["lost"])
        moved = sum(n for name, n in stats["waits"].items()
                    if name.startswith("deferred_") and name != "deferred_ns")
        if not moved:
            break
    moved_ns = stats["waits"].get("deferred_ns", 0)
    context.note("recording %d: %d of %d waits told later, %.3f s" % (
        tries + 1, moved, stats["waits"]["ended"], moved_ns / 1e9))
    # Few enough that all the rest is still to be asserted.
    check(moved <= 20 + stats["waits"]["ended"] // 20, "waits told later: %s" % stats["waits"])
    return Pprof(context.read("x.pb.gz")), moved_ns


@test()
def places(context):
    """Each place has the time that the program spent there, on every Python; so has each thread."""
    wrong = []
    for python in some_pythons():
        waits = Waits(context, python)
        pid = waits.process.pid
        # At that rate no wait of a millisecond is left to chance, such as one for the GIL.
        profile, moved_ns = record(context, "--wall", "--threads", "-F", 997, "-p", pid, "-d", 2)
        truth = waits.truth()
        check(profile.sample_types == ["samples/count", "wall/nanoseconds"] and
              profile.default_type == "wall", "types %s" % profile.sample_types)
        for place in ("forever", "get"):
            truth["places"][place] = [[0, 1 << 62]]  # as long as the recording, and longer
        notes, bad = compare(profile, truth, truth["places"], moved_ns)
        wrong += ["%s: %s" % (python, text) for text in bad]
        begin, end = span(profile)
        threads = by_thread(profile, pid)
        for name, (_, _, tid) in truth["threads"].items():
            if abs(threads.get(tid, 0) - (end - begin)) > 0.01 * (end - begin):
                wrong.append("%s: thread %s has %.3f s of %.3f" %
                             (python, name, threads.get(tid, 0) / 1e9, (end - begin) / 1e9))
        if time_under(profile, "get") < 0.98 * (end - begin):
            wrong.append("%s: less than 98%% of the main thread is in get" % python)
        context.note("%s: %s; %d threads" % (python, ", ".join(notes), len(threads)))
    check(not wrong, "\n".join(wrong))


@test(alone=True)
def blocked(context):
    """--off-cpu: time asleep and nothing else, as long as was asked for."""
    python = some_pythons()[-1]
    waits = Waits(context, python)
    profile, moved_ns = record(context, "--off-cpu", "-p", waits.process.pid, "-d", 3)
    truth = waits.truth()
    check(profile.sample_types == ["samples/count", "off_cpu/nanoseconds"] and
          profile.default_type == "off_cpu", "types %s" % profile.sample_types)
    begin, end = span(profile)
    for place, asked_ns in (("nap", 50e6), ("doze", 210e6), ("poll_wait", 130e6)):
        calls = [[call[0], min(call[1], call[0] + asked_ns)] for call in truth["places"][place]]
        true = within(calls, begin, end)
        seen = time_under(profile, place, but=["take_gil"])
        context.note("%s %.3f of %.3f" % (place, seen / 1e9, true / 1e9))
        check(not differs(seen, true, SLACK_NS + moved_ns),
              "%s: %.3f s of %.3f" % (place, seen / 1e9, true / 1e9))
    check(time_under(profile, "spin", but=["take_gil", "drop_gil"]) < SLACK_NS + moved_ns,
          "a thread that computes is not blocked")
    total = sum(sample["values"][1] for sample in profile.samples)
    folded = sum(count for _, _, count in chains.read_folded(context.text("x.folded")))
    check(abs(folded * 1e3 - total) < 1e6, "collapsed %d us, pprof %d ns" % (folded, total))


TURNS = """
import json, sys, threading, time
PERIOD = 1 / 80
spent = {"one": [], "other": []}
def one(end):
    time.sleep(max(0, end - time.monotonic()))
def other(end):
    time.sleep(max(0, end - time.monotonic()))
def work():
    now = time.monotonic()
    while True:
        for place, share in ((one, 0.4), (other, 0.6)):
            now += share * PERIOD
            begin = time.time_ns()
            place(now)
            spent[place.__name__].append([begin, time.time_ns()])
for _ in range(8):
    threading.Thread(target=work, daemon=True).start()
print("ready", flush=True)
sys.stdin.readline()
print(json.dumps(spent), flush=True)
"""


@test()
def short_waits_by_turns(context):
    """Those of two places that take a period together: samples of both, by their lengths."""
    python = some_pythons()[-1]
    process = spawn(context, [*python.argv, "-c", TURNS], python.environment(), [python.stdlib],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.readline()
    profile, moved_ns = record(context, "--wall", "-F", 80, "-p", process.pid, "-d", 3)
    process.stdin.write(b"\n")
    process.stdin.flush()
    spent = json.loads(process.stdout.readline())
    begin, end = span(profile)
    period_ns = 1e9 / 80
    chance_ns = 5 * period_ns * (0.25 * 8 * (end - begin) / period_ns) ** 0.5  # five sigma
    for place, calls in spent.items():
        true, seen = within(calls, begin, end), time_under(profile, place)
        context.note("%s %.3f of %.3f, give or take %.3f" % (place, seen / 1e9, true / 1e9,
                                                           chance_ns / 1e9))
        check(not differs(seen, true, chance_ns + moved_ns), context.notes[-1])


CROWD = """
import random, threading, time
def work(n):
    while True:
        time.sleep(random.choice((0.0003, 0.004, 0.03, 0.3, 4)))
        if not n % 10:
            sum(range(30000))
for n in range(200):
    threading.Thread(target=work, args=(n,), daemon=True).start()
print("ready", flush=True)
time.sleep(1000)
"""


@test()
def crowd(context):
    """200 threads that switch often, now and then, or never: each has all of its time."""
    python = some_pythons()[-1]
    process = spawn(context, [*python.argv, "-c", CROWD], python.environment(), [python.stdlib],
                    stdout=subprocess.PIPE)
    process.stdout.readline()
    profile, _ = record(context, "--wall", "--threads", "-p", process.pid, "-d", 3)
    begin, end = span(profile)
    times = by_thread(profile, process.pid)
    worst = max(abs(ns - (end - begin)) for ns in times.values()) / (end - begin)
    stats = context.json("x.json")["waits"]
    context.note("%d threads, %d switches, %d sampled: sums differ by %.3f%% at most" %
                 (len(times), stats["switches"], stats["sampled"], 100 * worst))
    check(len(times) == 201, "%d threads" % len(times))
    check(worst < 0.01, "a thread's sum is wrong by %.2f%%" % (100 * worst))


DYING = """
import os, signal, threading, time
for _ in range(40):
    child = os.fork()
    if not child:
        for _ in range(4):
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        time.sleep(1000)
    time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""


@test()
def dying(context):
    """Threads that are killed while they wait: their time until then is there."""
    python = some_pythons()[-1]
    profile, _ = record(context, "--wall", "--", *python.argv, "-c", DYING)
    begin, end = span(profile)
    slept = time_under(profile, "<module>")
    stats = context.json("x.json")["waits"]
    context.note("%.2f s in %.2f s; %s" % (slept / 1e9, (end - begin) / 1e9, stats))
    # The parent's own time, and 40 times 0.05 s of each child's main thread.
    check(slept > 0.9 * (40 * 0.05e9 + (end - begin) * 0.8), "only %.2f s" % (slept / 1e9))
    check(stats["switches"] >= 40 * 5, "switches %s" % stats)


@test()
def exec_by_another_thread(context):
    """A thread that executes a program takes the first one's number: no time is there twice."""
    process = spawn(context, [context.helper("exec_thread", "exec_thread.c", "-pthread")], {}, [],
                    stdout=subprocess.PIPE)
    process.stdout.readline()
    context.bpfprof("record", "--wall", "--threads", "-p", process.pid, "-d", 8, "-o",
                    "x.pb.gz").expect(0)
    profile = Pprof(context.read("x.pb.gz"))
    begin, end = span(profile)
    times = by_thread(profile, process.pid)
    tid, at = process.stdout.readline().split()
    check(set(times) == {process.pid, int(tid)}, "%s, not %d and %s" % (times, process.pid, tid))
    second = float(at) * 1e9 - begin
    context.note("%.3f of %.3f s, of the other thread %.3f of %.3f s" % (
        times[process.pid] / 1e9, (end - begin) / 1e9, times[int(tid)] / 1e9, second / 1e9))
    check(not differs(times[process.pid], end - begin), "the first thread's sum is wrong")
    check(not differs(times[int(tid)], second), "the other thread's sum is wrong")


# Two threads that sleep during the whole recording, and eight that switch now and then.
SLEEPERS = """
import threading, time
def asleep():
    time.sleep(100000)
def naps():
    while True:
        time.sleep(0.2)
for body in (asleep, *[naps] * 8):
    threading.Thread(target=body, daemon=True).start()
asleep()
"""


def sleep_in(pid, place, nr):
    """Switches of each of its nr threads, if all are in that function of the kernel's; else None."""
    sums = {}
    for tid in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/status" % (pid, tid), encoding="ascii") as file:
            sums[int(tid)] = sum(int(line.split()[1]) for line in file if "ctxt_switches" in line)
        with open("/proc/%d/task/%s/wchan" % (pid, tid), encoding="ascii") as file:
            if place not in file.read():
                return None
    return sums if len(sums) == nr else None


@test()
def no_places(context):
    """Nowhere to keep what threads do: who sleeps all the time still has it, the others are counted."""
    python = some_pythons()[-1]
    process = spawn(context, [*python.argv, "-c", SLEEPERS], python.environment(), [python.stdlib])
    pid = process.pid
    before = wait_for(lambda: sleep_in(pid, "nanosleep", 10), "all ten threads sleep")
    context.bpfprof("record", "--wall", "--threads", "-p", pid, "-d", 2, "-o", "x.pb.gz",
                    "--stats", "x.json",
                    env=dict(os.environ, BPFPROF_TEST_WAITER_PLACES="1")).expect(0)
    after = wait_for(lambda: sleep_in(pid, "nanosleep", 10), "all ten threads sleep")
    lost = context.json("x.json")["lost"]
    profile = Pprof(context.read("x.pb.gz"))
    begin, end = span(profile)
    times = by_thread(profile, pid)
    sleepers = [tid for tid in before if before[tid] == after[tid]]
    context.note("%d threads slept all the time, %s" % (len(sleepers), lost))
    check(len(sleepers) == 2, "switches before %s, after %s" % (before, after))
    for tid in sleepers:
        check(abs(times.get(tid, 0) - (end - begin)) <= 0.01 * (end - begin),
              "thread %d has %.3f s of %.3f" % (tid, times.get(tid, 0) / 1e9, (end - begin) / 1e9))
    check(lost.get("switches_no_room", 0) > 0, "there was room: %s" % lost)
    # One of the eight at most has the one place; more than one is hardly awake at the end.
    check(lost.get("threads_unknown", 0) >= 1, "nobody is missing: %s" % lost)
