# SPDX-License-Identifier: Apache-2.0
"""What record finds at its end: of programs with something wrong, against what they say of
themselves; and nothing of healthy ones."""

import contextlib
import os
import re
import signal
import subprocess
import time

from dumps import wait_for
from harness import check, test
from pprof import Pprof

BESIDE = True
LOCK = "workers"
HERE = os.path.dirname(os.path.abspath(__file__))
HZ = 499
ROOM = "r" * 300  # an argument that is long enough for every title
CPUS = os.sched_getaffinity(0)
CGROUP = "/sys/fs/cgroup"


def symptoms(context, *arguments, **kwargs):
    return context.spawn([context.helper("symptoms", "symptoms.c", "-pthread"), ROOM, *arguments],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, **kwargs)


def go(target):
    with contextlib.suppress(BrokenPipeError):
        target.stdin.write(b"\n")
        target.stdin.flush()


def findings(context, done, name="x.json"):
    """{kind: (text, command)} of --stats, of what is on standard error too, line by line."""
    listed = context.json(name)["findings"]
    told = re.findall(r"(?m)^bpfprof: finding: (.*); next: (bpfprof .*)$", done.err.decode())
    check(told == [(one["text"], one["command"]) for one in listed],
          "told %s, in the file %s" % (told, listed))
    check(all(re.search(r"\d", text) for text, _ in told), "without numbers: %s" % told)
    return {one["kind"]: (one["text"], one["command"]) for one in listed}


def record(context, targets, *flags, seconds=30, meanwhile=None):
    """Records the targets until they have ended, from before they begin to work; calls meanwhile then."""
    pids = [flag for target in targets for flag in ("-p", str(target.pid))]
    recorder = context.start("record", "-F", HZ, "-d", seconds, *pids, *flags, "-o", "x.folded",
                             "--stats", "x.json")
    context.sampling(recorder)
    for target in targets:
        go(target)
    if meanwhile:
        meanwhile()
    return findings(context, context.finish(recorder, seconds + 30).expect(0))


@test()
def short_tasks(context):
    """A thousand tasks of a millisecond, each counted and timed; twenty of 100 ms are fine."""
    target = symptoms(context, "tasks", "tiny", 1000, 1000)
    found = record(context, [target])
    nr, ns, _ = map(int, target.stdout.read().split())
    check(set(found) == {"short_tasks"}, "found: %s" % found)
    text, command = found["short_tasks"]
    said = re.match(r"(\d+) calls of tiny took ([\d.]+) ms each", text)
    check(said and int(said.group(1)) == nr == 1000, text)
    mean = ns / nr / 1e6
    context.note("told %s ms each, own clock %.2f ms" % (said.group(2), mean))
    # What the worker does between writing the title and asking the clock is in one, not the other.
    check(mean - 0.01 <= float(said.group(2)) <= mean + 0.2, "%s; own clock %.2f" % (text, mean))
    check(command == "bpfprof record -d 10 --worker tiny --by process", command)


@test()
def long_task(context):
    """Nine tasks of 100 ms, then one of 2 s, against the worker's own clock."""
    target = symptoms(context, "tasks", "step", 9, 100000, 2000000)
    found = record(context, [target])
    nr, ns, last = map(int, target.stdout.read().split())
    check(set(found) == {"long_task"}, "found: %s" % found)
    text = found["long_task"][0]
    said = re.match(r"one of (\d+) calls of step took ([\d.]+) s in pid (\d+), .* median is "
                    r"(\d+) ms \(longest/median = (\d+), (\d+)% of", text)
    check(said and int(said.group(1)) == nr == 10 and int(said.group(3)) == target.pid, text)
    check(abs(float(said.group(2)) - last / 1e9) <= 0.06 and
          abs(int(said.group(6)) - 100 * last / ns) <= 1, "%s; own clock %d of %d" % (text, last, ns))
    check(abs(int(said.group(5)) - last / 1e6 / int(said.group(4))) <= 1, text)


@test()
def long_task_of_many_names(context):
    """Ten calls of names that differ in a number: together one is long. Files have each name."""
    target = symptoms(context, "tasks", "part-%", 9, 100000, 2000000)
    found = record(context, [target], "-o", "x.pb.gz", "-o", "t.json")
    nr, ns, last = map(int, target.stdout.read().split())
    check(set(found) == {"long_task"}, "found: %s" % found)
    text, command = found["long_task"]
    said = re.match(r"one of (\d+) calls of part-# took ([\d.]+) s in pid (\d+), the median is "
                    r"(\d+) ms \(part-9, longest/median = (\d+), (\d+)% of", text)
    check(said and int(said.group(1)) == nr == 10 and int(said.group(3)) == target.pid, text)
    check(abs(float(said.group(2)) - last / 1e9) <= 0.06 and
          abs(int(said.group(6)) - 100 * last / ns) <= 1, "%s; own clock %d of %d" % (text, last, ns))
    check(command == "bpfprof record -d 10 --worker 'part-*' --by process", command)
    names = {"part-%d" % i for i in range(10)}
    tasks = {sample["labels"].get("ray_task", "")[len("ray::"):]
             for sample in Pprof(context.read("x.pb.gz")).samples}
    check(names <= tasks, "in the profile: %s" % tasks)
    timeline = context.text("t.json")
    check(all('"ray::%s"' % name in timeline for name in names), "not all are in the timeline")
    for file in ("t.json", "x.pb.gz"):
        table = context.bpfprof("report", "--tasks", file).expect(0).out.decode()
        check("  part-# (10 names)\n" in table and "part-9" not in table, table)
    told = context.bpfprof("report", "--tasks", "t.json").out.decode()
    check(told.startswith("10 calls of 10 names in "), told)


@test()
def tasks_of_two_functions(context):
    """Their names differ in a number that is part of a word: each is judged by itself."""
    targets = [symptoms(context, "tasks", "conv2d", 5, 50000),
               symptoms(context, "tasks", "conv3d", 3, 1000000)]
    found = record(context, targets, "-o", "t.json")
    check(not found, "found: %s" % found)
    table = context.bpfprof("report", "--tasks", "t.json").expect(0).out.decode()
    check("  conv2d\n" in table and "  conv3d\n" in table, table)


@test()
def long_task_runs(context):
    """The one long task has not ended when the recording does: it says so, and dump is next."""
    target = symptoms(context, "tasks", "step", 9, 50000, 60000000)
    found = record(context, [target], seconds=4)
    check(set(found) == {"long_task"}, "found: %s" % found)
    text, command = found["long_task"]
    check("of 10 calls of step has run for " in text and command == "bpfprof dump -p %d" %
          target.pid, "%s: %s" % (text, command))


def class_of_four(context, busy):
    targets = [symptoms(context, "worker", "ray::Shard.work", busy_ms, 100) for busy_ms in busy]
    return targets, record(context, targets, seconds=5)


@test()
def busy_worker(context):
    """One of four actors of a class computes all of the time, the others 4 ms of 100."""
    targets, found = class_of_four(context, (4, 100, 4, 4))
    check(set(found) == {"busy_worker"}, "found: %s" % found)
    check(found["busy_worker"][0].startswith("Shard pid %d used " % targets[1].pid) and
          " of 4 workers " in found["busy_worker"][0], found["busy_worker"][0])


@test()
def healthy_ray(context):
    """Tasks of 100 ms, four equal actors: nothing to find."""
    target = symptoms(context, "tasks", "large", 20, 100000)
    found = record(context, [target])
    check(target.stdout.read().startswith(b"20 "), "the worker did not do its work")
    check(not found, "found: %s" % found)
    _, found = class_of_four(context, (30, 30, 30, 30))
    check(not found, "found: %s" % found)


@test()
def threads(context):
    """More threads that compute than CPUs, by affinity too; as many as CPUs are fine."""
    nr = 4 * len(CPUS)
    target = symptoms(context, "threads", nr, 5)
    found = record(context, [target])
    check(set(found) == {"threads"}, "found: %s" % found)
    text, command = found["threads"]
    said = re.match(r"symptoms pid (\d+): (\d+) threads of symptoms .* share (\d+) CPUs?.*: ([\d.]+) "
                    r"of them want to run .* ran ([\d.]+) s and waited ([\d.]+) s", text)
    check(said and int(said.group(2)) == nr and int(said.group(3)) == len(CPUS), text)
    check(float(said.group(4)) > 0.9 * nr and
          float(said.group(6)) > 0.7 * (nr / len(CPUS) - 1) * float(said.group(5)), text)
    check(command == "bpfprof record -d 10 -p %d --threads" % target.pid, command)
    if len(CPUS) < 2:
        return
    target = symptoms(context, "threads", len(CPUS) - 1, 3)
    check(not record(context, [target]), "found of %d threads" % (len(CPUS) - 1))
    target = symptoms(context, "threads", 2, 4)
    os.sched_setaffinity(target.pid, [min(CPUS)])
    found = record(context, [target])
    check(set(found) == {"threads"} and " share 1 CPU" in found["threads"][0], "found: %s" % found)


@test()
def memory(context):
    """A leak is named with its process and speed; loading and taking turns are no leak."""
    target = symptoms(context, "leak", 100, 6)
    found = record(context, [target])
    check(set(found) == {"memory_grows"}, "found: %s" % found)
    text = found["memory_grows"][0]
    said = re.match(r"symptoms pid (\d+): memory grew by (\d+) MiB in ([\d.]+) s \((\d+) MiB per", text)
    check(said and int(said.group(1)) == target.pid, text)
    # It takes a tenth of that ten times a second, and somewhat less on a busy machine.
    check(40 < int(said.group(4)) < 110 and
          abs(int(said.group(2)) / float(said.group(3)) - int(said.group(4))) < 3, text)
    for mode in ("load", "saw"):
        target = symptoms(context, mode, 200, 5)
        check(not record(context, [target]), "found of " + mode)


def keepgil(context, mode, seconds):
    return context.spawn(["/usr/bin/python3", os.path.join(HERE, "python", "keepgil.py"), mode,
                          str(seconds)], stdin=subprocess.PIPE)


def runs_of_threads(pid):
    """How often each thread was put on a CPU, as the kernel counts it, and when that was asked."""
    counts = {}
    for tid in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/schedstat" % (pid, tid), encoding="ascii") as file:
            counts[int(tid)] = int(file.read().split()[2])
    return counts, time.monotonic()


@test()
def gil(context):
    """A thread that does not let go of the GIL while others want it; alone, or by turns, it is fine."""
    target = keepgil(context, "keep", 60)
    wait_for(lambda: len(os.listdir("/proc/%d/task" % target.pid)) == 3, "its threads are there")
    counted = []

    def count():
        """Within the seconds that are recorded."""
        counted.append(runs_of_threads(target.pid))
        time.sleep(3.5)
        counted.append(runs_of_threads(target.pid))
    found = record(context, [target], "--threads", seconds=5, meanwhile=count)
    (before, began), (after, ended) = counted
    check(set(found) == {"gil"}, "found: %s" % found)
    text, command = found["gil"]
    said = re.match(r"python3 pid (\d+): thread (\d+) \(python3\) held the GIL (\d+)% of [\d.]+ s; (\d+) "
                    r"other threads? that wanted it woke (\d+) times per second", text)
    check(said and int(said.group(1)) == int(said.group(2)) == target.pid, text)
    check(int(said.group(3)) >= 90, text)
    # Two want it, for some milliseconds of CPU time in all: those that the clock met are told.
    met = {int(tid) for tid in re.findall(r"(?m)^[^#;]*;python3-(\d+);.*\bwant ",
                                          context.text("x.folded"))}
    check(1 <= len(met) <= 2 and int(said.group(4)) == len(met), "%s; met: %s" % (text, met))
    rate = sum(after[tid] - before[tid] for tid in met) / (ended - began)
    context.note("told %s times per second, the kernel counted %.0f" % (said.group(5), rate))
    check(0.9 * rate < int(said.group(5)) < 1.1 * rate, "%s; the kernel: %.0f" % (text, rate))
    check(command == "bpfprof record -d 10 -p %d --gil --threads" % target.pid, command)
    for mode in ("alone", "share"):
        found = record(context, [keepgil(context, mode, 4)], seconds=3)
        check("gil" not in found, "found of %s: %s" % (mode, found))


def group_make(context):
    """A cgroup, and what to write to set its limits."""
    own = os.path.join(CGROUP, "cpu") if os.path.isdir(os.path.join(CGROUP, "cpu")) else CGROUP
    path = os.path.join(own, "bpfprof-test-%d" % os.getpid())
    os.mkdir(path)
    context.stack.callback(lambda: os.rmdir(path))
    return path


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def stopped(path):
    """Periods in which the group was stopped, as the kernel counts them."""
    with open(os.path.join(path, "cpu.stat"), encoding="ascii") as file:
        return int(re.search(r"nr_throttled (\d+)", file.read()).group(1))


@test()
def cpu_limit(context):
    """A cgroup's CPU limit that stops its processes, against the kernel's own count."""
    path = group_make(context)
    if os.path.exists(os.path.join(path, "cpu.max")):
        write(os.path.join(path, "cpu.max"), "10000 100000")
    else:
        write(os.path.join(path, "cpu.cfs_period_us"), "100000")
        write(os.path.join(path, "cpu.cfs_quota_us"), "10000")
    target = symptoms(context, "threads", 1, 5)
    write(os.path.join(path, "cgroup.procs"), str(target.pid))
    before = stopped(path)
    found = record(context, [target])
    times = stopped(path) - before
    check(set(found) == {"cpu_limit"}, "found: %s; the kernel counted %d" % (found, times))
    text = found["cpu_limit"][0]
    said = re.match(r"the cgroup of symptoms pid (\d+) was stopped by its CPU limit of 0.10 CPUs in "
                    r"\d+% of the periods \((\d+) of \d+\)", text)
    context.note("told %s, the kernel counted %d" % (text, times))
    check(said and int(said.group(1)) == target.pid, text)
    # It is looked at within half a second of the first sample.
    check(times - 10 <= int(said.group(2)) <= times, "%s; the kernel: %d" % (text, times))
    target.wait()


@test()
def not_wanted(context):
    """--no-findings, and its twin: nothing is said, and no title is watched."""
    for flags, env in ((["--no-findings"], None), ([], dict(os.environ, BPFPROF_NO_FINDINGS="1"))):
        target = symptoms(context, "tasks", "tiny", 500, 1000)
        recorder = context.start("record", "-d", 20, "-p", target.pid, "-o", "x.folded", "--stats",
                                 "x.json", *flags, **({"env": env} if env else {}))
        context.sampling(recorder)
        go(target)
        done = context.finish(recorder, 40).expect(0)
        check("findings" not in context.json("x.json") and b"finding" not in done.err, done.text)


@test()
def whole_machine(context):
    """Not only of processes that were asked for: the same among all that there are."""
    target = symptoms(context, "tasks", "tiny", 1000, 1000)
    recorder = context.start("record", "-F", HZ, "-o", "x.folded", "--stats", "x.json")
    context.sampling(recorder)
    go(target)
    target.wait(timeout=60)
    time.sleep(0.2)
    recorder.send_signal(signal.SIGINT)
    done = context.finish(recorder, 30).expect(0)
    found = [one["text"] for one in context.json("x.json")["findings"]]
    check(any(text.startswith("1000 calls of tiny took ") for text in found), found or done.text)


WAITING = """
import asyncio, sys, threading, time
def get():
    threading.Event().wait()
def compute():
    while True:
        for _ in range(20000): pass
        time.sleep(0.001)
def turns():
    lock, other = threading.Lock(), threading.Lock()
    lock.acquire()
    while True:
        time.sleep(0.05)
        lock.acquire(timeout=0.05)
def loop():
    asyncio.run(asyncio.sleep(1000))
print("ready", flush=True)
globals()[sys.argv[1]]()
"""


@test()
def waits(context):
    """A main thread that waits in one line, found with --wall; not one that is idle, or in turns."""
    targets = {name: context.spawn(["/usr/bin/python3", "-c", WAITING, name], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
               for name in ("get", "compute", "turns", "loop")}
    for target in targets.values():
        target.stdout.readline()
    pids = [arg for target in targets.values() for arg in ("-p", target.pid)]
    done = context.bpfprof("record", "--wall", "-d", 3, *pids, "-o", "x.folded", "--stats",
                           "x.json").expect(0)
    listed = [one for one in context.json("x.json")["findings"] if one["kind"] == "waits"]
    check(len(listed) == 1 and done.err.decode().count("in one place") == 1, "found %s" % listed)
    found = re.fullmatch(r"the main thread of \S+ \(pid (\d+)\) waited (\d+)% of ([\d.]+) s in one "
                         r"place: \S*wait \(threading\.py:\d+\), called from get \(.*\)",
                         listed[0]["text"])
    check(found and int(found[1]) == targets["get"].pid and int(found[2]) >= 98,
          "found %s" % listed)
    check(listed[0]["command"] == "bpfprof dump -p %d --native" % targets["get"].pid,
          listed[0]["command"])
