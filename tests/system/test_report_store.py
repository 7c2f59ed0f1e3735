# SPDX-License-Identifier: Apache-2.0
"""report on the folder of a daemon: intervals by time, and processes by number."""

import gzip
import math
import os
import subprocess
import time

from daemons import SECONDS, Daemon, check_seconds, profiles
from harness import check, test
from pprof import Pprof
from test_report_profiles import rows
from test_usage import one_sentence

# early until it is asked, then late: it writes when it changed.
PHASES = """
import select, sys, time
def early():
    while not select.select([sys.stdin], [], [], 0)[0]:
        for _ in range(20000): pass
def late():
    while True: pass
print("running", flush=True)
early()
print(time.time(), flush=True)
late()
"""


def shown(context, folder, *arguments):
    """{function: seconds} of the table, and the messages."""
    done = context.bpfprof("report", folder, "--rows", "0", *arguments, timeout=60).expect(0)
    return {name: own for name, (own, _) in rows(done.out.decode()).items()}, done.err.decode()


@test()
def times(context):
    """--last, --at and --for choose intervals by the time of the day; -p chooses processes; -o and --diff do, too."""
    target, other = (context.spawn(["/usr/bin/python3", "-c", PHASES], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                     for _ in range(2))
    check(target.stdout.readline() == other.stdout.readline() == b"running\n", "the programs")
    daemon = Daemon(context, "-p", "%d,%d" % (target.pid, other.pid), "-F", "199", interval="1s", listen="none")
    daemon.wait("profile written", 4)
    target.stdin.write(b"\n")
    target.stdin.flush()
    changed = float(target.stdout.readline())
    daemon.wait("profile written", 10)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    folder = daemon.output
    sets = profiles(folder)
    begins = [one.scalars[9] / 1e9 for one in sets]
    # Of an interval that holds the change, neither alone is true.
    clock = time.strftime("%H:%M:%S", time.gmtime(begins[1]))
    before, said = shown(context, folder, "--at", clock, "-p", target.pid)
    check(" 1 of %d profiles, from " % len(sets) in said, said)
    check("early (<string>)" in before and "late (<string>)" not in before, str(before))
    after, _ = shown(context, folder, "--at", "%d" % (changed + 2), "--for", "3", "-p", target.pid)
    check("late (<string>)" in after and "early (<string>)" not in after, str(after))
    at = int(changed + 2)
    wanted = sum(sample["values"][1] for one in sets for sample in one.samples if sample["labels"]["pid"] == target.pid and
                 one.scalars[9] // 10**9 < at + 3 and round((one.scalars[9] + one.scalars[10]) / 1e9) > at) / 1e9
    check(wanted and abs(sum(after.values()) - wanted) < 0.001 * len(after), "%.3f s of CPU, not %.3f" % (
        sum(after.values()), wanted))
    last, said = shown(context, folder, "--last", "3s", "-p", target.pid)
    check("late (<string>)" in last and "early (<string>)" not in last, str(last))
    everything, said = shown(context, folder)
    check("%d of %d profiles" % (len(sets), len(sets)) in said, said)
    total = sum(sample["values"][0] for one in sets for sample in one.samples)
    context.bpfprof("report", folder, "-o", "all.pb.gz").expect(0)
    check(sum(sample["values"][0] for sample in Pprof(context.read("all.pb.gz")).samples) == total, "-o: not the sum")
    context.bpfprof("report", folder, "-p", other.pid, "-o", "other.pb.gz").expect(0)
    found = Pprof(context.read("other.pb.gz")).samples
    wanted = sum(sample["values"][0] for one in sets for sample in one.samples if sample["labels"]["pid"] == other.pid)
    check(sum(sample["values"][0] for sample in found) == wanted and
          {sample["labels"]["pid"] for sample in found} == {other.pid}, "-p: not all of it, or more")
    check(set(everything) >= set(before) | set(after), str(everything))
    diff = context.bpfprof("report", "--diff", folder, folder).expect(0).text
    check("late (<string>)" not in diff, "a folder differs from itself: " + diff)
    for arguments, says in (((folder, "--at", "1234567890"), "has no interval of that time"),
                            ((folder, "-p", "1"), "no sample of these files is of a process"),
                            ((context.scratch("none"),), "holds no profile of bpfprof daemon")):
        check(says in context.bpfprof("report", *arguments).expect(1).text, says)
    for arguments, says in (((folder, "--at", "25:00"), "must be a time like 14:03"), ((folder, "--for", "3"), "goes with --at"),
                            ((folder, "--at", "03:00", "--last", "3"), "one of them at a time"),
                            ((folder, "--last", "1.5"), "must be a number of seconds")):
        check(says in one_sentence(context.bpfprof("report", *arguments).expect(2)), says)
    os.unlink(context.path("other.pb.gz"))


# a, b, then a again: a line for each turn, with the time and the CPU time that the program had then.
TURNS = """
import sys, time
def turn(name, seconds):
    print(name, time.time(), time.process_time(), flush=True)
    end = time.time() + seconds
    while time.time() < end:
        work[name]()
        moments.append((time.time(), time.process_time()))
def a():
    for _ in range(20000): pass
def b():
    for _ in range(20000): pass
work, moments = {"a": a, "b": b}, []
sys.stdin.readline()
turn("a", 4)
turn("b", 7)
turn("a", 3)
print("end", time.time(), time.process_time(), flush=True)
for moment in moments: print("%f %f" % moment)
"""
TURN_HZ = 199


def chance(seconds):
    """Samples more or less than CPU time gives, at most: the program runs in slices that are shorter than a period."""
    return 4 * math.sqrt(TURN_HZ * seconds) + 3


def cut(context, folder, pid, *arguments):
    """{function: samples} of the process in the pprof that report makes, its times, and the messages."""
    out = context.path("cut.pb.gz")
    done = context.bpfprof("report", folder, "-p", pid, "-o", out, *arguments, timeout=60)
    if done.status == 1 and ("no sample of these files is of a process" in done.text or "has no interval of that time" in done.text):
        return {}, None, done.text
    done.expect(0)
    profile = Pprof(context.read("cut.pb.gz"))
    found = {}
    for sample in profile.samples:
        names = {name for id in sample["stack"] for name in profile.locations[id]["functions"]}
        for name in names & {"a", "b"} or {"other"}:
            found[name] = found.get(name, 0) + sample["values"][0]
    return found, profile, done.text


@test()
def seconds(context):
    """--at and --for take seconds out of an interval: of the function that ran then, as many samples as it had CPU time."""
    target = context.spawn(["/usr/bin/python3", "-c", TURNS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    daemon = Daemon(context, "-p", target.pid, "-F", TURN_HZ, interval="1h")
    daemon.wait("sampling")
    target.stdin.write("\n")
    target.stdin.flush()
    turns = [(name, float(at), float(cpu)) for name, at, cpu in (target.stdout.readline().split() for _ in range(4))]
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    moments = [tuple(map(float, line.split())) for line in target.stdout]
    folder = daemon.output

    def cpu_at(when):
        return max(((at, cpu) for at, cpu in moments if at <= when), default=(0, 0))[1]

    whole, profile, _ = cut(context, folder, target.pid)
    check(len(profiles(folder)) == 1, "several intervals")
    begin, end = turns[1][1], turns[2][1]
    at = int(begin) + 2
    check(at + 3 < end, "b ran from %f to %f" % (begin, end))
    found, profile, said = cut(context, folder, target.pid, "--at", at, "--for", 3)
    used = cpu_at(at + 3) - cpu_at(at)
    context.note("%s in 3 s of b, %.2f s of CPU" % (found, used))
    check("a" not in found and "whole" not in said and "no second" not in said, "%s %s" % (found, said))
    check(abs(sum(found.values()) - TURN_HZ * used) <= chance(used), "%s for %.2f s" % (found, used))
    check(found["b"] > 0.9 * sum(found.values()), str(found))
    check(profile.scalars[9] == at * 10**9 and profile.scalars[10] == 3 * 10**9, "its time: %s" % profile.scalars)
    ns = sum(sample["values"][1] for sample in profile.samples)
    check(abs(ns / 1e9 - used) <= chance(used) / TURN_HZ, "%.2f s sampled, %.2f s used" % (ns / 1e9, used))
    check("rest_of: interval" in profile.comments, str(profile.comments[:3]))
    # Each second has its own functions, and all of them together are the interval.
    together = {}
    first, last = int(turns[0][1]) - 3, int(turns[3][1]) + 3
    for second in range(first, last):
        one, _, _ = cut(context, folder, target.pid, "--at", second, "--for", 1)
        may = {name for (name, since, _), (_, until, _) in zip(turns, turns[1:]) if since < second + 1 and until > second}
        check(set(one) <= may | {"other"}, "second %d has %s, and may have %s" % (second, one, may))
        if may == {"a"} or may == {"b"}:
            used = cpu_at(second + 1) - cpu_at(second)
            nr = sum(one.values())
            check(second in (int(turns[0][1]), int(turns[3][1])) or abs(nr - TURN_HZ * used) <= chance(used),
                  "second %d: %s for %.2f s" % (second, one, used))
        for name, count in one.items():
            together[name] = together.get(name, 0) + count
    check(together == whole, "%s in seconds, %s in all" % (together, whole))
    halves = [cut(context, folder, target.pid, "--at", begin, "--for", length)[0] for begin, length in
              ((first, at - first), (at, last - at))]
    check({name: sum(half.get(name, 0) for half in halves) for name in whole} == whole, "%s of %s" % (halves, whole))
    everything, _, _ = cut(context, folder, target.pid, "--at", at)
    check(everything == whole, "--at alone is not the interval: %s" % everything)
    beside = [name for name in os.listdir(folder) if name.endswith(SECONDS)]
    check(len(beside) == 1 and check_seconds(folder), str(beside))
    unusable(context, folder, target.pid, os.path.join(folder, beside[0]), at, whole)


def unusable(context, folder, pid, path, at, whole):
    """Seconds that are damaged, of another profile, or not there: the interval is taken whole, and a message says so."""
    with open(path, "rb") as file:
        good = file.read()
    plain = gzip.decompress(good)
    for data, says in ((good[:-9], "its gzip data is cut off"), (b"x", "its gzip data is"), (gzip.compress(plain[:-1]), "cut off"),
                       (gzip.compress(plain[:15] + b"\x02" + plain[16:]), "another version of bpfprof"),
                       (gzip.compress(plain[:16] + b"\x00\x00\x00\x00\x00"), "the seconds of another profile"),
                       (None, "1 profiles reach beyond that time, and are taken whole")):
        if data is None:
            os.unlink(path)
        else:
            with open(path, "wb") as file:
                file.write(data)
        found, _, said = cut(context, folder, pid, "--at", at, "--for", 3)
        check(says in said and "whole" in said, said)
        check(found == whole, "%s: %s, not %s" % (says, found, whole))
