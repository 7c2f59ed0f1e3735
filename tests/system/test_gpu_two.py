# SPDX-License-Identifier: Apache-2.0
"""Two bpfprof gpu, or more, that watch one program: each sees what it would see alone."""

import collections
import contextlib
import os
import re
import subprocess
import time

import chains
from gpu_profiles import Steps
from gpu_truth import NANOSECONDS, OUTPUTS, Caller, Files, Seen, Watch, check_all, check_blocked, check_calls, check_files, check_launches, check_open, fakes
from harness import Skip, check, test
from test_gpu_trace import Made, check_args, check_each, read

BESIDE = True
TRACED = ("-o", "y.json", "-o", "y.pb.gz", "-o", "y.folded", "--threads")


def two(context, scenario, with_python=False, end_first=0):
    """The truth of a caller, and what each of two saw: the second one with a trace, of each call's return."""
    log = os.path.join(context.scratch("made", 0o777), "calls")
    caller = Caller(context, scenario, with_python=with_python, env={"GPU_CALLS_LOG": log})
    watches = [Watch(context, "--json", "-d", "120", "-p", caller.pid, *OUTPUTS),
               Watch(context, "--json", "-d", "120", "-p", caller.pid, *TRACED)]
    truth = caller.work()
    seen = [None, None]
    for i in (end_first, 1 - end_first):
        seen[i] = Seen(watches[i].end())
        lost = {reason: n for reason, n in seen[i].lost.items() if n}
        check(not lost, "lost: %s" % lost)
    trace = read(context.path("y.json"))
    check_args(trace, truth)
    with open(log, encoding="ascii") as file:
        made = [Made(line) for line in file]
    return truth, [one.process(truth["pid"]) for one in seen], trace, made


def check_whole(files, what):
    """
    Not one call's stack is cut. The clock that looks at gaps has the kernel's frames, too, and may come in
    the middle of a trampoline, which no table describes.
    """
    cut = [frames for frames, _, _ in files.samples if any("[truncated]" in one for one in frames) and
           not any("_[k]" in one for one in frames)]
    check(files.samples and not cut, "%s: %d stacks are cut: %s" % (what, len(cut), cut[:3]))


def check_two(context, scenario, **how):
    truth, processes, trace, made = two(context, scenario, **how)
    for name, process in zip("xy", processes):
        check_all(process, truth)
        check_whole(check_files(context, process, truth, name), name)
    return truth, processes, trace, made


@test()
def launches(context):
    truth, _, trace, made = check_two(context, "launches")
    check_each(trace, truth, made)


@test()
def launches_python(context):
    check_two(context, "launches", with_python=True, end_first=1)


def blocked(context, with_python):
    truth, processes, _, _ = check_two(context, "sync", with_python=with_python)
    context.note("off by %s %% at most" % ", ".join(
        "%.2f" % (100 * check_blocked(process, truth, Files(context, name), 2 * NANOSECONDS))
        for name, process in zip("xy", processes)))
    for process in processes:
        more = [row for row in process["calls"] if row["ns"] > truth["calls"][row["exported"]]["ns"]]
        check(not more, "longer than the program was in them: %s" % more)


@test()
def sync(context):
    """Time in calls: part of what the other one does there is in it, and part of it is not."""
    blocked(context, False)


@test()
def sync_python(context):
    blocked(context, True)


@test()
def collectives(context):
    """Calls in calls whose return the other one has hooked, too."""
    check_two(context, "nccl", end_first=1)


@test()
def threads(context):
    truth, _, trace, made = check_two(context, "threads")
    check_each(trace, truth, made)


@test()
def left(context):
    """Calls that a jump leaves; only one of the two recordings has hooked all returns."""
    caller = Caller(context, "deep_jumps")
    watches = [Watch(context, "--json", "-d", "120", "-p", caller.pid),
               Watch(context, "--json", "-d", "120", "-p", caller.pid, *TRACED)]
    truth = caller.work()
    for watch in watches:
        seen = Seen(watch.end())
        process = seen.process(truth["pid"])
        check_calls(process, truth)
        check_launches(process, truth)
        check(not process["open"], "still open: %s" % process["open"])
        check(seen.lost["calls_left_without_return"] == 10, "not counted: %s" % seen.lost)


@test()
def one_comes_and_goes(context):
    """Hooks that come and go while the program calls do not touch what another one counts."""
    steps = Steps(context)
    stays = Watch(context, "--json", "-d", "120", "-p", steps.pid, *OUTPUTS)
    base = steps.run(10)
    steps.say("150")
    seconds = 0
    for arguments in (("-p", steps.pid), ("-p", steps.pid, *TRACED), ()):
        begin = time.monotonic()
        guest = Watch(context, "--json", "-d", "120", *arguments)
        guest.end()
        seconds += time.monotonic() - begin
    during = steps.line()
    check(during, "nothing was done")
    guest = Watch(context, "--json", "-d", "120", *TRACED)
    before = steps.run(0)
    truth = steps.run(30)
    mine = Seen(guest.end()).process(steps.pid)
    process = Seen(stays.end()).process(steps.pid)
    check(base["calls"] < before["calls"] < truth["calls"], "%s" % truth)
    for found, since in ((process, None), (mine, before)):
        rows = collections.Counter()
        for row in found["calls"]:
            rows[row["function"]] += row["calls"]
        wanted = {name: truth[short] - (since[short] if since else 0) for name, short in (
            ("cuLaunchKernel", "launch"), ("cuStreamSynchronize", "sync"), ("cuMemAlloc", "alloc"),
            ("cuMemFree", "free"))}
        check({name: rows[name] for name in wanted} == wanted, "%s, not %s" % (rows, wanted))
        ns = sum(row["ns"] for row in found["calls"] if row["function"] == "cuStreamSynchronize")
        blocked_ns = truth["blocked_ns"] - (since["blocked_ns"] if since else 0)
        check(abs(ns - blocked_ns) <= 0.05 * blocked_ns, "blocked: %d ns, not %d" % (ns, blocked_ns))
    check_whole(Files(context), "who stayed")
    check_whole(Files(context, "y"), "who came")


@test()
def hung(context):
    """Calls that do not return have their stacks in both, and in a dump of who has hooked nothing."""
    caller = Caller(context, "hang")
    watches = [Watch(context, "--json", "-d", "120", "-p", caller.pid),
               Watch(context, "--json", "-d", "120", "-p", caller.pid, *TRACED)]
    truth = caller.work()
    time.sleep(1)
    dumped = context.bpfprof("dump", "--native", "-p", caller.pid).expect(0).out.decode()
    stacks = {int(tid): text for tid, text in re.findall(r"(?ms)^Thread (\d+)(.*?)(?=^Thread|\Z)", dumped)}
    for row in truth["open"]:
        check(row["where"] in stacks[row["tid"]] and "clone3" in stacks[row["tid"]],
              "cut: %s" % stacks[row["tid"]])
    for watch in watches:
        seen = Seen(watch.end())
        check_launches(seen.process(truth["pid"]), truth)
        check_open(seen, truth, ("thread", "function", "stream", "comm", "bytes"))


@contextlib.contextmanager
def returns_hooked(context, path, functions):
    """The kernel's own probes, as bpftrace uses them, in functions of a program that are no calls of CUDA."""
    listed = subprocess.run(["nm", "-C", path], check=True, capture_output=True, text=True).stdout
    loads = [line.split() for line in subprocess.run(
        ["readelf", "-lW", path], check=True, capture_output=True, text=True).stdout.splitlines()]
    loads = [[int(word, 16) for word in fields[1:6]] for fields in loads if fields[:1] == ["LOAD"]]
    mount = context.scratch("tracefs")
    if subprocess.run(["mount", "-t", "tracefs", "tracefs", mount], check=False).returncode:
        raise Skip("no tracefs")
    with contextlib.ExitStack() as undo:
        undo.callback(subprocess.run, ["umount", mount], check=True)
        for i, function in enumerate(functions):
            va, = (int(line.split()[0], 16) for line in listed.splitlines()
                   if re.search(r" [tT] %s\(" % function, line))
            offset, = (va - start + off for off, start, _, size, _ in loads if start <= va < start + size)
            name = "bpfprof_%d/made_%d" % (os.getpid(), i)
            tracefs_write(os.path.join(mount, "uprobe_events"), "r:%s %s:0x%x\n" % (name, path, offset))
            undo.callback(tracefs_write, os.path.join(mount, "uprobe_events"), "-:%s\n" % name)
            enable = os.path.join(mount, "events", name, "enable")
            tracefs_write(enable, "1\n")
            undo.callback(tracefs_write, enable, "0\n")
        yield


def tracefs_write(path, text):
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


@test()
def returns_of_others(context):
    """Stacks of calls go on over functions of the program whose returns another tracer has hooked."""
    with returns_hooked(context, fakes(context).program,
                        ["trainer::forward", "waits::for_stream", "waits::for_copy", "launches"]):
        for scenario in ("launches", "sync"):
            check_two(context, scenario)


@test()
def sampled(context):
    """Samples of a thread in a call go on over the returns that two others have hooked."""
    steps = Steps(context, "spin")
    watches = [Watch(context, "--json", "-d", "120", "-p", steps.pid),
               Watch(context, "--json", "-d", "120", "-p", steps.pid, *TRACED)]
    recorder = context.start("record", "-F", "499", "-p", steps.pid, "-d", "60", "-o", "z.folded",
                             "--stats", "z.stats")
    context.sampling(recorder)
    steps.run(150)
    recorder.send_signal(2)
    context.finish(recorder, 20).expect(0)
    for watch in watches:
        watch.end()
    waits = cut = 0
    for _, frames, count in chains.read_folded(context.text("z.folded")):
        if "stream_wait" in frames:  # what the driver's function is made of
            waits += count
            cut += count * (not {"wait_step", "main"} <= set(frames))
    context.note("%d samples in calls" % waits)
    check(waits > 150 and not cut, "%d of %d are cut" % (cut, waits))
