# SPDX-License-Identifier: Apache-2.0
"""daemon --wall: each interval has all time of every thread in it, waits that go on over its borders
too, beside what programs say of themselves."""

import json
import os
import subprocess
import time
import urllib.request

from daemons import SECONDS, Daemon, stored, token_file
from harness import check, test
from pprof import Pprof
from test_python import spawn
from test_wall import Waits, by_thread, some_pythons, span, time_under

BESIDE = True
WITHIN = 0.01  # of an interval: what a thread's sum may differ by
# Its child sleeps, in two threads, until it is killed.
DOOMED = """
import os, signal, sys, threading, time
def doomed():
    threading.Event().wait()
child = os.fork()
if not child:
    threading.Thread(target=doomed, daemon=True).start()
    doomed()
print(child, flush=True)
sys.stdin.readline()
begin = time.time_ns()
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
print(begin, time.time_ns(), flush=True)
time.sleep(1000)
"""


class Interval:
    """The content of one interval's files."""

    def __init__(self, files):
        with open(files[".pb.gz"], "rb") as file:
            self.profile = Pprof(file.read())
        with open(files[".folded"], encoding="utf-8") as file:
            self.stats = json.loads(file.readline()[2:])
        self.begin, self.end = span(self.profile)

    def read(self):
        """Were all stacks of waits that went on over its end to be had? Not in time on a busy machine."""
        return "without_user_stack" not in self.stats["waits"]

    def of(self, pid):
        """Time of each thread of the process, as a share of the interval."""
        return {tid: ns / (self.end - self.begin)
                for tid, ns in by_thread(self.profile, pid).items()}

    def under(self, pid, tid, place):
        """The same of what a thread does in one function."""
        profile, total = self.profile, 0
        for sample in profile.samples:
            if sample["labels"].get("pid") != pid or sample["labels"]["tid"] != tid:
                continue
            if any(place in profile.locations[at]["functions"] for at in sample["stack"]):
                total += sample["values"][1]
        return total / (self.end - self.begin)

    def others(self, pid, tid, place):
        """Stacks of the thread without that function, the longest first."""
        found = {}
        for sample in self.profile.samples:
            names = [f for at in sample["stack"] for f in self.profile.locations[at]["functions"]]
            if sample["labels"].get("pid") == pid and sample["labels"]["tid"] == tid and \
               place not in names:
                found[";".join(names)] = found.get(";".join(names), 0) + sample["values"][1]
        return sorted(found.items(), key=lambda item: -item[1])[:3]


def intervals_of(daemon):
    found = [Interval(files) for files in stored(daemon.output).values()]
    return sorted(found, key=lambda interval: interval.begin)


def wrong_sums(interval, pid, tids):
    """Time of the threads that existed during the whole recording."""
    sums = interval.of(pid)
    return ["%d: %.4f" % (tid, sums.get(tid, 0)) for tid in tids
            if abs(sums.get(tid, 0) - 1) > WITHIN]



@test()
def intervals(context):
    """Three in a row: each thread's sum in each, one that sleeps through all, two that die asleep."""
    python = some_pythons()[-1]
    waits = Waits(context, python)
    doomed = spawn(context, [*python.argv, "-c", DOOMED], python.environment(), [python.stdlib],
                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child = int(doomed.stdout.readline())
    daemon = Daemon(context, "--wall", "--threads", "-F", 997, "-p", waits.process.pid, "-p",
                    doomed.pid, interval="2s")
    daemon.wait("profile written", 2)
    time.sleep(0.7)  # somewhere in the third
    doomed.stdin.write(b"\n")
    doomed.stdin.flush()
    killed = [int(word) for word in doomed.stdout.readline().split()]
    daemon.wait("profile written", 5)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    truth = waits.truth()
    found = intervals_of(daemon)
    middle = found[1:-1]
    check(len(middle) >= 3, "%d intervals" % len(found))
    tids = {name: tid for name, (_, _, tid) in truth["threads"].items()}
    read = 0
    for interval in middle:
        profile = interval.profile
        check(profile.sample_types == ["samples/count", "wall/nanoseconds"] and
              profile.default_type == "wall", "types %s" % profile.sample_types)
        check(not interval.stats["lost"].get("ring_full"), "lost %s" % interval.stats["lost"])
        sums = interval.of(waits.process.pid)
        check(set(tids.values()) | {waits.process.pid} <= set(sums), "threads %s" % sorted(sums))
        wrong = wrong_sums(interval, waits.process.pid, sums)
        check(not wrong, "sums of threads: %s; %s" % (", ".join(wrong), interval.stats["waits"]))
        # A wait with an incomplete stack has no known functions.
        for name, tid in tids.items() if interval.read() else ():
            share = interval.under(waits.process.pid, tid, "run")
            check(share > 0.5, "%s: %.3f of it has its stack, else %s; %s" % (
                name, share, interval.others(waits.process.pid, tid, "run"), interval.stats))
        if interval.read():
            read += 1
            share = time_under(profile, "forever") / (interval.end - interval.begin)
            check(abs(share - 1) < WITHIN, "who sleeps through all: %.4f" % share)
            share = interval.under(waits.process.pid, waits.process.pid, "get")
            check(abs(share - 1) < WITHIN, "the main thread in get(): %.4f" % share)
        check(interval.stats["waits"]["period_us"] == 1003, "%s" % interval.stats["waits"])
        context.note("%.3f s: %d threads, sums off by %.4f at most" % (
            (interval.end - interval.begin) / 1e9, len(sums),
            max(abs(share - 1) for share in sums.values())))
    context.note("all stacks of %d of %d intervals" % (read, len(middle)))
    dies(context, found, child, killed)
    # Time that includes waiting has no seconds: report says so, and takes the interval.
    check(not [name for name in os.listdir(daemon.output) if name.endswith(SECONDS)], "seconds")
    done = context.bpfprof("report", daemon.output, "--at", middle[0].begin // 10**9, "--for", 1, "-o", "cut.pb.gz").expect(0)
    check("1 profiles reach beyond that time, and are taken whole" in done.text, done.text)
    check(Pprof(context.read("cut.pb.gz")).scalars[10] == middle[0].end - middle[0].begin, "not the whole interval")


def dies(context, found, child, killed):
    """Threads that sleep across a boundary and are killed then have their time until the end, and no more."""
    after = 0
    for interval in found:
        total = interval.end - interval.begin
        lived_least = max(0, min(interval.end, killed[0]) - interval.begin)
        lived_most = max(0, min(interval.end, killed[1]) - interval.begin)
        times = by_thread(interval.profile, child)
        if lived_least > 0.05 * total:
            check(len(times) == 2, "two threads sleep, there are %s" % times)
        for tid, ns in times.items():
            check(lived_least - WITHIN * total <= ns <= lived_most + WITHIN * total,
                  "thread %d slept %.3f s, not %.3f to %.3f" % (tid, ns / 1e9, lived_least / 1e9,
                                                              lived_most / 1e9))
        if interval.read() and lived_least > 0.05 * total:
            places = [interval.under(child, tid, "doomed") * total / ns
                      for tid, ns in times.items()]
            check(min(places) > 0.98, "in the place where they sleep: %s" % places)
        after += interval.begin > killed[1]
        if interval.begin < killed[0] < interval.end:
            context.note("killed after %.3f s of an interval: %s s" % (
                lived_least / 1e9, ", ".join("%.3f" % (ns / 1e9) for ns in times.values())))
    check(after, "no interval began after it was killed")



NAPS = """
import threading, time
def asleep():
    threading.Event().wait()
def naps():
    while True:
        time.sleep(0.3)
for body in (asleep, naps):
    threading.Thread(target=body, daemon=True).start()
print("ready", flush=True)
asleep()
"""


@test()
def asked_for(context):
    """A profile that a client asks for begins and ends amid waits, and has what lies in between."""
    python = some_pythons()[-1]
    process = spawn(context, [*python.argv, "-c", NAPS], python.environment(), [python.stdlib],
                    stdout=subprocess.PIPE)
    process.stdout.readline()
    token = token_file(context, "sesame-of-the-test")
    daemon = Daemon(context, "--wall", "--threads", "--allow-remote-profiling", token, interval="1s", listen="127.0.0.1:0")
    port = daemon.wait("listening")[0]["port"]
    request = urllib.request.Request(
        "http://127.0.0.1:%s/profile?seconds=3&pid=%d" % (port, process.pid),
        headers={"Authorization": "Bearer sesame-of-the-test"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        profile = Pprof(answer.read())
    begin, end = span(profile)
    times = by_thread(profile, process.pid)
    check(len(times) == 3, "threads %s" % times)
    for tid, ns in times.items():
        check(abs(ns / (end - begin) - 1) < WITHIN, "thread %d has %.3f s of %.3f" % (
            tid, ns / 1e9, (end - begin) / 1e9))
    slept = time_under(profile, "asleep")
    unread = profile.stats["waits"].get("without_user_stack", 0)
    check(unread or abs(slept / (end - begin) / 2 - 1) < WITHIN, "two sleep %.3f s in %.3f" % (
        slept / 1e9, (end - begin) / 1e9))
    context.note("%.3f s asked for, three threads: %s" % (
        (end - begin) / 1e9, ", ".join("%.3f" % (ns / 1e9) for ns in times.values())))
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)


MANY = 10000


def memory_limit():
    """Of everything: docs/setup.md."""
    return (64 << 20) + (max(0, os.sysconf("SC_NPROCESSORS_CONF") - 32) << 19)


def own_bytes(pid):
    with open("/proc/%d/status" % pid, encoding="ascii", errors="replace") as file:
        return sum(int(line.split()[1]) << 10 for line in file if line.startswith(("RssAnon", "RssShmem")))


def maps_bytes(pid):
    """The kernel's number of bytes for the BPF maps that the process has open."""
    maps = {}
    folder = "/proc/%d/fdinfo" % pid
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding="ascii") as file:
            fields = dict(line.split(None, 1) for line in file if line.strip())
        if "map_id:" in fields:
            maps[int(fields["map_id:"])] = int(fields["memlock:"])
    return sum(maps.values())


@test(alone=True)
def many_threads(context):
    """A process of 10,000 that sleep: all their time, within the memory that there is for everything."""
    process = context.spawn([context.helper("many_sleep", "many_sleep.c", "-pthread"), MANY],
                            stdout=subprocess.PIPE)
    check(process.stdout.readline() == b"ready\n", "it does not have so many threads")
    daemon = Daemon(context, "--wall", "--threads", "-p", process.pid, interval="2s")
    daemon.wait("sampling")
    maps, most = maps_bytes(daemon.process.pid), 0
    end = time.monotonic() + 120
    while len(daemon.said("profile written")) < 3:
        check(time.monotonic() < end, "no three intervals: %s" % daemon.lines()[-3:])
        for _ in range(20):  # the memory of stacks that are read is gone soon
            most = max(most, own_bytes(daemon.process.pid))
            time.sleep(0.005)
    check(daemon.end(timeout=60) == 0, "exit status %s" % daemon.process.returncode)
    limit = memory_limit()
    told = max(line["memory_bytes"] for line in daemon.said("profile written"))
    context.note("%.1f MiB of its own and %.1f of maps, says %.1f at most" % (
        most / 2**20, maps / 2**20, told / 2**20))
    check(maps > 16 << 20, "maps of %d bytes only" % maps)
    check(most + maps <= limit, "%d bytes at a time, and %d of maps" % (most, maps))
    found = intervals_of(daemon)
    check(len(found) >= 4, "%d intervals" % len(found))
    for interval in found:
        sums = interval.of(process.pid)
        lost = interval.stats["lost"].get("process_table_full", 0)  # each of a thread
        whole = sum(abs(share - 1) <= WITHIN for share in sums.values())
        under = time_under(interval.profile, "rest") / (interval.end - interval.begin)
        context.note("%.3f s: %d of %d threads whole, %d lost, %.0f with their stacks; %s" % (
            (interval.end - interval.begin) / 1e9, whole, len(sums), lost, under,
            {name: n for name, n in interval.stats["waits"].items() if "stack" in name}))
        check(whole + lost >= MANY + 1, "%d threads have all of their time" % whole)
        check(max(sums.values()) <= 1 + WITHIN, "%.3f of it" % max(sums.values()))
