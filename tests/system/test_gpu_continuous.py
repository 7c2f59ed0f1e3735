# SPDX-License-Identifier: Apache-2.0
"""Calls of CUDA beside the samples: record --gpu, daemon --gpu, top --gpu.

Against programs that count their calls; what is equal must be equal.
"""

import collections
import glob
import json
import os
import re
import signal
import subprocess
import time
import urllib.request

import chains
from gpu_truth import SECONDS, TYPES, Caller, equal, fakes, is_frame, shown
from harness import MODES, Skip, check, test
from loaded import private_stacks
from pprof import Pprof
from test_daemon import Daemon
from test_dump import wait_for
from test_gpu_gc import BEGIN, SPOILED, interpreter

BESIDE = True
SHARE = 0.06  # how far a share of the samples may be off: 1,000 of them and more
BUDGET = 64 << 20  # of docs/setup.md
KINDS = ("launch", "sync", "alloc", "free")


class Steps(Caller):
    """A running gpu_steps."""

    def __init__(self, context, *args):
        where = fakes(context)
        self.process = context.spawn([where.steps, where.folder, *args], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE)
        self.pid = self.process.pid
        self.rest = b""
        check(self.line() == "ready", "not ready")

    def run(self, number):
        """What it has done since its start, after so many steps more."""
        self.say(str(number))
        return json.loads(self.line())

    def end(self):
        self.process.stdin.close()
        self.process.wait(SECONDS)


class Run:
    """A running bpfprof that has hooked libcuda."""

    def __init__(self, context, *args):
        self.context = context
        self.path = context.path("messages-%d" % len(os.listdir(context.dir)))
        with open(self.path, "wb") as file:
            self.process = context.start(*args, stderr=file)

    def messages(self):
        with open(self.path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait_for(self, pattern):
        end = time.monotonic() + SECONDS
        while not re.search(pattern, self.messages()):
            check(self.process.poll() is None, "it has ended: " + self.messages()[-2000:])
            check(time.monotonic() < end, "never said: %s\n%s" % (pattern, self.messages()[-2000:]))
            time.sleep(0.05)

    def interrupt(self):
        self.process.send_signal(2)
        done = self.context.finish(self.process, 2 * SECONDS)
        done.err = self.messages().encode()
        return done.expect(0)


class Calls:
    """A profile of calls: (frames, values, labels) of each sample."""

    def __init__(self, data):
        profile = Pprof(data)
        check(profile.sample_types == TYPES, "sample types: %s" % profile.sample_types)
        self.stats = profile.stats
        self.samples = [([name for at in sample["stack"]
                          for name in profile.locations[at]["functions"]],
                         dict(zip(TYPES, sample["values"])), sample["labels"])
                        for sample in profile.samples]

    def total(self, kind, pid=None, frame=None):
        return sum(values[kind] for frames, values, labels in self.samples
                   if (pid is None or labels.get("pid") == pid) and
                   (frame is None or frame in frames))


def shares_of(data):
    """{function: its share of the CPU samples that have forward, backward or wait_step}, and how many."""
    names = ("forward", "backward", "wait_step")
    profile, found = Pprof(data), collections.Counter()
    for sample in profile.samples:
        frames = [name for at in sample["stack"] for name in profile.locations[at]["functions"]]
        for name in names:
            if name in frames:
                found[name] += sample["values"][0]
    total = sum(found.values())
    return {name: found[name] / max(1, total) for name in names}, total


def folded_total(text):
    return sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines()
               if line and not line.startswith("#"))


@test(modes=MODES)
def record(context):
    """Shares of the CPU as the program took it, in hooked calls too; beside it all of its calls."""
    steps = Steps(context, "spin")
    run = Run(context, "record", "--gpu", "-p", steps.pid, "-F", "499", "-d", "120", "-o", "x.pb.gz",
              "-o", "x.folded", "-o", "x.html", "--stats", "s.json")
    run.wait_for(r"watching \d+ functions? in \d+ librar")
    truth = steps.run(300)
    done = run.interrupt()
    shares, samples = shares_of(context.read("x.pb.gz"))
    took = sum(truth["cpu"].values())
    check(samples > 700, "%d samples" % samples)
    for name, ns in truth["cpu"].items():
        check(abs(shares[name] - ns / took) < SHARE, "%s: %.3f of the samples, not %.3f" % (
            name, shares[name], ns / took))
    stats = context.json("s.json")
    stacks = stats["stacks"]
    check(stacks["truncated"] * 50 < stats["samples"]["total"], "cut short: %s" % stacks)
    calls = Calls(context.read("x.cuda.pb.gz"))
    check(calls.total("calls/count") == truth["calls"], "%d calls, not %d" % (
        calls.total("calls/count"), truth["calls"]))
    check(folded_total(context.text("x.cuda.folded")) == truth["calls"], "the folded file")
    for name, wanted in (("forward", 1200), ("backward", 1800), ("wait_step", 300), ("keep", 30),
                         ("scratch", 60)):
        check(calls.total("calls/count", frame=name) == wanted, "%s: %d calls, not %d" % (
            name, calls.total("calls/count", frame=name), wanted))
    check(calls.total("inuse/bytes", frame="keep") == truth["inuse"], "in use")
    check(calls.total("inuse/bytes") == truth["inuse"], "in use, by others")
    check("train_kernel" in context.text("x.cuda.folded"), "no name")
    check(context.text("x.cuda.html").rstrip().endswith("</html>"), "no flame graph")
    gpu = stats["gpu"]
    check(gpu["calls"]["total"] == truth["calls"], "stats: %s" % gpu)
    check({kind: gpu["calls"][kind] for kind in KINDS} == {kind: truth[kind] for kind in KINDS},
          "stats: %s" % gpu)
    check(not any(gpu["lost"].values()), "lost: %s" % gpu["lost"])
    check("CUDA and NCCL calls: %d:" % truth["calls"] in done.text, done.text)
    check(calls.stats["gpu"]["calls"]["launch"] == truth["launch"], "comments: %s" % calls.stats)
    context.note("%d samples, %s; startup %.2f s" % (
        samples, {k: round(v, 3) for k, v in shares.items()}, stats["agent"]["startup_seconds"]))


class Rounds(Caller):
    """A running gpu_calls.py that holds tensors and collects garbage."""

    def __init__(self, context, path=None):
        super().__init__(context, "rounds", with_python=True, interpreter=path or interpreter())

    def round(self):
        """What it has done since its start, after one round more."""
        self.say("round")
        return json.loads(self.line())

    def hoard(self, count):
        self.say("hoard %d" % count)
        return json.loads(self.line())

    def end(self):
        self.say("exit")
        self.process.wait(SECONDS)


ALLOCATE, FREE = "pytorch:malloc", "pytorch:free"
PARTS = {BEGIN: "gc", ALLOCATE: "tensor_alloc", FREE: "tensor_free"}  # as the summary calls them
ZERO = {"calls": {}, "where": {}, "tensor_allocated": {}, "tensor_inuse": {}, "collected_ns": {}}
TENSORS = 7168  # that a daemon follows of one process, along with what the driver handed out
COLLECTED = 0.2  # how far below what Python says of its collections their time may be


def grown(now, before):
    """{name: by how much}, without what has not changed."""
    return {name: count - before.get(name, 0) for name, count in now.items()
            if count != before.get(name, 0)}


def by_place(calls, kind, pid, places, function=None):
    """{Python function: the sum of its samples}, of one hooked function or of all."""
    sums = collections.Counter()
    for frames, values, labels in calls.samples:
        if labels.get("pid") == pid and (not function or shown(frames[0]) == shown(function)):
            where = [place for place in places if any(is_frame(frame, place) for frame in frames)]
            sums[where[0] if where else "nowhere"] += values[kind]
    return {where: count for where, count in sums.items() if count}


def check_parts(calls, truth, before):
    """Tensors and collections between two states of a program, in the profile of that time."""
    pid, places = truth["pid"], truth["where"]
    for name in PARTS:
        wanted = {where: names[name] - before["where"].get(where, {}).get(name, 0)
                  for where, names in places.items() if name in names}
        equal(by_place(calls, "calls/count", pid, places, "python:gc" if name == BEGIN else name),
              {where: count for where, count in wanted.items() if count}, name)
    equal(by_place(calls, "tensor_allocated/bytes", pid, places),
          grown(truth["tensor_allocated"], before["tensor_allocated"]), "tensors allocated")
    equal(by_place(calls, "tensor_inuse/bytes", pid, places),
          {where: size for where, size in truth["tensor_inuse"].items() if size}, "tensors in use")
    took = by_place(calls, "gc/nanoseconds", pid, places)
    wanted = grown(truth["collected_ns"], before["collected_ns"])
    check(took.keys() == wanted.keys(), "collections: %s, not %s" % (took, wanted))
    for where, ns in wanted.items():  # Python's own clock runs around the probes
        check((1 - COLLECTED) * ns < took[where] <= ns, "%s: %d ns, not %d" % (where, took[where], ns))


@test(alone=True)  # a probe is on in all processes of the file, whoever asked for it
def record_parts(context):
    """--tensors and --gc beside the samples; neither unless it is asked for."""
    caller = Rounds(context)
    bare = Run(context, "record", "--gpu", "-p", caller.pid, "-d", "120", "-o", "y.folded", "--stats", "t.json")
    bare.wait_for(r"watching \d+ functions? in \d+ librar")
    before = caller.round()
    bare.interrupt()
    check(before["semaphores"][-1] == 0, "PyTorch's probes are on: %s" % before["semaphores"])
    check(not set(PARTS.values()) & set(context.json("t.json")["gpu"]["calls"]), "told, not asked for")
    run = Run(context, "record", "--gpu", "--tensors", "--gc", "-p", caller.pid, "-d", "120", "-o", "x.pb.gz",
              "-o", "x.folded", "-o", "x.html", "--stats", "s.json")
    run.wait_for(r"watching \d+ functions? in \d+ librar")
    truth = caller.round()
    done = run.interrupt()
    check(truth["semaphores"][-1] == 3, "semaphores: %s" % truth["semaphores"])
    calls = Calls(context.read("x.cuda.pb.gz"))
    held = [before["tensor_inuse"], truth["tensor_inuse"]]
    # What was handed out before is not known, nor are its frees those of anything.
    known = dict(truth, tensor_inuse={where: size - (held[0][where] if where != "py_activation" else 2 << 20)
                                      for where, size in held[1].items()})
    check_parts(calls, known, before)
    gpu = context.json("s.json")["gpu"]
    wanted = {PARTS[name]: truth["calls"][name]["calls"] - before["calls"][name]["calls"] for name in PARTS}
    equal({kind: gpu["calls"].get(kind) for kind in wanted}, wanted, "stats")
    total = sum(one["calls"] - before["calls"][name]["calls"] for name, one in truth["calls"].items())
    check(gpu["calls"]["total"] == calls.total("calls/count") == folded_total(context.text("x.cuda.folded")) ==
          total, "%s: %d in the profile, not %d" % (gpu["calls"], calls.total("calls/count"), total))
    check(not any(gpu["lost"].values()), "lost: %s" % gpu["lost"])
    for kind, count in wanted.items():
        check(re.search(r"CUDA and NCCL calls: .*\b%s %d\b" % (kind.replace("_", " "), count), done.text),
              done.text)
        check(calls.stats["gpu"]["calls"][kind] == count, "comments: %s" % calls.stats)
    check("python:gc" in context.text("x.cuda.html"), "no collection in the flame graph")


def completions(calls, pid):
    """{where: (collectives called there, those known to be complete, how long these took)}"""
    return {where: tuple(sum(values[kind] for frames, values, labels in calls.samples
                             if labels["pid"] == pid and labels.get("op") == "ncclAllReduce" and
                             any(is_frame(frame, where) for frame in frames))
                         for kind in ("calls/count", "completed/count", "complete/nanoseconds"))
            for where in ("first_half", "second_half")}


def check_completions(calls, pid, wanted, bounds):
    """wanted: collectives called, and complete; bounds: of the time of these."""
    found = completions(calls, pid)
    for where, part in (("first_half", 6), ("second_half", 2)):
        check(found[where][:2] == tuple(part * n // 8 for n in wanted), "%s: %s, not %s" % (where, found, wanted))
    total = sum(one[2] for one in found.values())
    check(bounds[0] <= total <= bounds[1], "%d ns until complete, not %s" % (total, bounds))
    # All of one kind take the same.
    check(abs(found["first_half"][2] - total * 6 // 8) < 8, str(found))


@test()
def record_completions(context):
    """How long collectives took, by the stacks that called them."""
    caller = Caller(context, "rounds", script="gpu_waits.py")
    run = Run(context, "record", "--gpu", "-p", caller.pid, "-d", "120", "-o", "x.pb.gz", "--stats", "s.json")
    run.wait_for(r"watching \d+ functions? in \d+ librar")
    row, = [caller.work() for _ in range(5)][-1]["completions"]
    run.interrupt()
    check((row["count"], row["pending"]) == (32, 8), str(row))
    check_completions(Calls(context.read("x.cuda.pb.gz")), caller.pid, (40, 32), row["ns"])
    lost = context.json("s.json")["gpu"]["lost"]
    check(not any(lost.values()), "lost: %s" % lost)


@test()
def completions_of_intervals(context):
    """In the interval in which it is known, wherever they were called; of the last ones it never is."""
    daemon = Daemon(context, "--gpu", "--log-level", "debug", interval="3s", listen="127.0.0.1:0")
    hooked(context, daemon)
    caller = Caller(context, "rounds", script="gpu_waits.py")
    time.sleep(1)  # its libnccl is new
    rows = []
    for rounds in (1, 2, 1):
        next_interval(daemon)
        for _ in range(rounds):
            truth = caller.work()
        rows += truth["completions"]
    next_interval(daemon)
    lost = 'bpfprof_gpu_lost_total{reason="collectives_never_known_complete"}'
    never = metrics(daemon)[lost]
    caller.say("exit")
    caller.process.wait(SECONDS)
    next_interval(daemon)
    never = metrics(daemon)[lost] - never
    check(daemon.end() == 0, "ended badly")
    files = [calls for calls in calls_files(daemon.output).values()
             if any(one[0] for one in completions(calls, caller.pid).values())]
    check(len(files) == 3, "%d intervals with collectives" % len(files))
    done, took = 0, [0, 0]
    for calls, called, row in zip(files, (8, 16, 8), rows):
        check_completions(calls, caller.pid, (called, row["count"] - done),
                          [after - before for after, before in zip(row["ns"], took)])
        done, took = row["count"], row["ns"]
    check(done == 24 and never == 8, "%d complete, of %d it is never known" % (done, never))


@test()
def record_long_wait(context):
    """A call that has not returned at the end has blocked until then, on its stack."""
    caller = Caller(context, "long", script="gpu_waits.py")
    run = Run(context, "record", "--gpu", "-p", caller.pid, "-d", "120", "-o", "x.pb.gz")
    run.wait_for(r"watching \d+ functions? in \d+ librar")
    caller.say("go\n60")
    begin = json.loads(caller.line())["begin"]
    time.sleep(2)
    least = time.monotonic_ns() - begin[1]
    run.interrupt()
    most = time.monotonic_ns() - begin[0]
    calls = Calls(context.read("x.cuda.pb.gz"))
    found = calls.total("blocked/nanoseconds", frame="long_wait")
    check(least <= found <= most, "blocked for %d ns, not %d to %d" % (found, least, most))
    check(calls.total("calls/count", frame="long_wait") == 1, "calls")


@test(paired=True, lock="gpu")
def record_killed_in_it(context):
    """Who is killed in a call has blocked until then."""
    caller = Caller(context, "long", script="gpu_waits.py")
    run = Run(context, "record", "--gpu", "-d", "120", "-o", "x.pb.gz")
    run.wait_for(r"watching \d+ functions? in \d+ librar")
    caller.say("go\n60")
    begin = json.loads(caller.line())["begin"]
    time.sleep(2)
    least = time.monotonic_ns() - begin[1]
    caller.process.kill()
    caller.process.wait()
    most = time.monotonic_ns() - begin[0]
    time.sleep(1)
    run.interrupt()
    calls = Calls(context.read("x.cuda.pb.gz"))
    found = calls.total("blocked/nanoseconds", pid=caller.pid, frame="long_wait")
    check(least <= found <= most, "blocked for %d ns, not %d to %d" % (found, least, most))


@test()
def long_wait_of_intervals(context):
    """Each interval has its part of a call that spans several; another one that is killed in it, too."""
    daemon = Daemon(context, "--gpu", "--log-level", "debug", interval="3s", listen="127.0.0.1:0")
    hooked(context, daemon)
    caller = Caller(context, "long", script="gpu_waits.py")
    time.sleep(1)
    caller.say("go\n10")
    begin = json.loads(caller.line())["begin"]
    end = json.loads(caller.line())["end"]
    next_interval(daemon)  # which may have been over before
    next_interval(daemon)
    caller.say("60")
    second = json.loads(caller.line())["begin"]
    next_interval(daemon)
    next_interval(daemon)
    time.sleep(1)
    killed = time.monotonic_ns()
    caller.process.kill()
    caller.process.wait()
    next_interval(daemon)
    check(daemon.end() == 0, "ended badly")
    found = [calls.total("blocked/nanoseconds", pid=caller.pid, frame="long_wait")
             for calls in calls_files(daemon.output).values()]
    shown = ["%.2f" % (ns / 1e9) for ns in found]
    context.note("blocked for %s s of intervals of 3 s" % ", ".join(shown))
    check(max(found) < 3.3e9, "longer than an interval: %s" % shown)
    check(sum(ns > 2.7e9 for ns in found) >= 3, "not in each: %s" % shown)
    first = next(at for at, ns in enumerate(found) if ns)
    last = next(at for at in range(first, len(found)) if found[at] < 2.7e9 and at > first)
    took = sum(found[first:last + 1])
    # Until the end of the thread was noticed, and its first launch, are not in it.
    check(end - begin[1] - 0.2e9 <= took <= end - begin[0], "%s: in all %d ns, not %d" % (
        shown, took, end - begin[0]))
    took = sum(found[last + 1:]) + max(0, found[last] - (end - begin[0] - sum(found[first:last])))
    context.note("the one that was killed: %.2f s of %.2f" % (took / 1e9, (killed - second[1]) / 1e9))
    check(killed - second[1] - 0.2e9 <= took <= killed - second[0] + 0.1e9,
          "%s: of the one that was killed %d ns, not %d" % (shown, took, killed - second[0]))
    others = [calls.total("blocked/nanoseconds", pid=caller.pid, frame="wait_later")
              for calls in calls_files(daemon.output).values()]
    check(max(others) < 1.5e9, "short waits: %s" % others)


@test(alone=True)
def parts_alone(context):
    """Both are parts of --gpu."""
    for command in (["record", "-d", "1"], ["daemon", "--output", context.path("o")]):
        for flag in ("--tensors", "--gc"):
            done = context.bpfprof(*command, flag, timeout=20).expect(2)
            check(re.search(r"%s: .*add --gpu" % flag, done.text), done.text)


NR_WITHIN = 9  # programs that call; three have ended after 400 samples on a fast machine


@test(alone=True)
def samples_within_walks(context):
    """A sample that comes while the stack of a call is taken is none the worse for it."""
    callers = [Caller(context, "threads") for _ in range(NR_WITHIN)]
    for caller in callers:
        subprocess.run(["taskset", "-a", "-p", "-c", "0", str(caller.pid)], check=True,
                       stdout=subprocess.DEVNULL)
    run = Run(context, "record", "--gpu", "-F", "9999", "-d", "120", "-o", "x.folded", "--stats", "s.json")
    run.wait_for(r"watching \d+ functions? in \d+ librar")
    for caller in callers:
        caller.say("go")
    calls = [json.loads(caller.line())["calls"] for caller in callers]
    run.interrupt()
    stats = context.json("s.json")
    lost = {name: n for name, n in stats["lost"].items() if n}
    context.note("%s, %d stacks of calls, lost: %s" % (
        stats["samples"], stats["gpu"]["stacks"]["taken"], lost))
    samples = sum(count for process, _, count in chains.read_folded(context.text("x.folded"))
                  if process == "gpu_calls")
    check(samples > 500, "%d samples of who calls, %s" % (samples, stats["samples"]))
    check(len(calls) == NR_WITHIN and stats["gpu"]["stacks"]["taken"] > 1000, "%s" % stats["gpu"]["stacks"])
    check("scratch_busy" not in lost, "lost: %s" % lost)
    check(not stats["gpu"]["lost"]["stacks_scratch_busy"], "lost: %s" % stats["gpu"]["lost"])


@test()
def record_timer(context):
    """The other clock walks over hooked returns, too."""
    steps = Steps(context, "spin")
    run = Run(context, "record", "--gpu", "--clock", "timer", "-p", steps.pid, "-F", "499", "-d",
              "120", "-o", "x.pb.gz")
    run.wait_for(r"watching \d+ functions? in \d+ librar")
    truth = steps.run(200)
    run.interrupt()
    shares, samples = shares_of(context.read("x.pb.gz"))
    took = sum(truth["cpu"].values())
    check(samples > 400, "%d samples" % samples)
    for name, ns in truth["cpu"].items():
        check(abs(shares[name] - ns / took) < 1.5 * SHARE, "%s: %.3f of the samples, not %.3f" % (
            name, shares[name], ns / took))
    check(Calls(context.read("x.cuda.pb.gz")).total("calls/count") == truth["calls"], "calls")


@test()
def record_others(context):
    """Processes that a name leaves out have no calls either; one file per process."""
    one, other = Steps(context), Caller(context, "launches")
    run = Run(context, "record", "--gpu", "--comm", "gpu_steps", "-d", "120", "--split", "process",
              "-o", "x.pb.gz", "--stats", "s.json")
    run.wait_for(r"watching \d+ functions? in \d+ librar")
    truth = one.run(5)
    other.work()
    run.interrupt()
    check(context.json("s.json")["gpu"]["calls"]["total"] == truth["calls"], "calls of others")
    calls = Calls(context.read("x.%d.cuda.pb.gz" % one.pid))
    check(calls.total("calls/count") == truth["calls"], "calls of one process")
    check(not os.path.exists(context.path("x.%d.cuda.pb.gz" % other.pid)), "a file of the other")


@test()
def record_standard_output(context):
    """There is one standard output: it is the CPU's."""
    done = context.bpfprof("record", "--gpu", "-d", "0.5", "--format", "folded", "-o", "-").expect(0)
    check(done.out.startswith(b"# {"), "not a collapsed file: %s" % done.out[:200])
    check(done.out.count(b"\n# {") == 0, "two files")
    check(b"the profile of calls goes into files alone" in done.err, "not said: %s" % done.err)
    for arguments in (("-o", "x.pb.gz", "-o", "x.cuda.pb.gz"),
                      ("-o", "x.folded", "--stats", "x.cuda.folded")):
        done = context.bpfprof("record", "--gpu", *arguments, timeout=20).expect(2)
        check(b"--gpu" in done.err, "%s: %s" % (arguments, done.text))


def calls_files(folder, pattern="cuda-*.pb.gz"):
    """{name: profile} by time."""
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, pattern))):
        with open(path, "rb") as file:
            found[os.path.basename(path)] = Calls(file.read())
    return found


def metrics(daemon):
    """{name with labels: value}"""
    port = daemon.wait("listening")[0]["port"]
    with urllib.request.urlopen("http://127.0.0.1:%s/metrics" % port, timeout=10) as reply:
        lines = reply.read().decode().splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
            for line in lines if not line.startswith("#")}


def next_interval(daemon):
    """Waits for the next border: what is done now is in the interval that has just begun."""
    written = len(daemon.said("profile written"))
    daemon.wait("profile written", written + 1)
    return written + 1


def hooked(context, daemon):
    """Has one program make itself known, so that what others do is seen from its first call on."""
    first = Steps(context)
    end = time.monotonic() + SECONDS
    while not any("libcuda.so.1" in str(line) and "hooked" in line["msg"]
                  for line in daemon.lines()):
        check(time.monotonic() < end, "never hooked: %s" % daemon.lines()[-3:])
        time.sleep(0.05)
    return first


def check_starved(files, pid, truths):
    """What the device starved before launches of each interval, and not what it did before it."""
    for calls, before, after in zip(files, truths, truths[1:]):
        ns = calls.total("starved/nanoseconds", pid=pid)
        least, most = after[0] - before[0], after[1] - before[1]
        check(least <= ns <= most, "%d: starved for %d ns, not %d to %d" % (pid, ns, least, most))
        by_stack = calls.total("starved/nanoseconds", pid=pid, frame="forward")
        check(by_stack <= ns, "more in forward than at all")


@test(paired=True, lock="gpu")
def intervals(context):
    """Each interval has the calls made in it; all of them together all that were made."""
    daemon = Daemon(context, "--gpu", "--log-level", "debug", interval="3s", listen="127.0.0.1:0")
    stays = hooked(context, daemon)
    told = []  # of each interval: {pid: calls made in it}
    before, starved = {}, {}

    def note(*truths):
        told.append({truth["pid"]: truth["calls"] - before.get(truth["pid"], 0)
                     for truth in truths})
        before.update({truth["pid"]: truth["calls"] for truth in truths})
        for truth in truths:
            starved.setdefault(truth["pid"], [[0, 0]]).append(truth["starved_ns"])

    next_interval(daemon)
    note(stays.run(10))
    next_interval(daemon)
    short = Steps(context)  # begins and ends in one interval
    note(stays.run(3), short.run(20))
    short.end()
    next_interval(daemon)
    told.append({})  # nobody makes a call
    next_interval(daemon)
    other = Steps(context)
    note(other.run(7), stays.run(1))
    next_interval(daemon)
    note(other.run(2))
    next_interval(daemon)
    last = stays.run(0)
    found = metrics(daemon)
    check(daemon.end() == 0, "ended badly")
    found_files = calls_files(daemon.output)
    ours = {stays.pid, short.pid, other.pid}  # whoever else makes calls on this machine
    seen = [{pid: calls.total("calls/count", pid=pid) for pid in
             {labels["pid"] for _, values, labels in calls.samples
              if values["calls/count"] and labels["pid"] in ours}} for calls in found_files.values()]
    made = [one for one in seen if one]
    check(made == [one for one in told if one], "%s, not %s" % (seen, told))
    # In the order in which they were made, with the idle one in between.
    at = seen.index(told[1])
    check(seen[at + 1] == {} and seen[at + 2] == told[3], "not in their intervals: %s" % seen)
    # What is allocated stays so, under the stack that it came from, though nobody allocates.
    latest = list(found_files.values())[-1]
    check(latest.total("inuse/bytes", pid=stays.pid, frame="keep") == last["inuse"], "in use: %d" %
          latest.total("inuse/bytes", pid=stays.pid, frame="keep"))
    check(not latest.total("inuse/bytes", pid=short.pid), "in use by what has ended")
    check(any("train_kernel" in frames for calls in found_files.values()
              for frames, _, labels in calls.samples if labels["pid"] == short.pid), "no name")
    for pid, truths in starved.items():
        check_starved([calls for calls, one in zip(found_files.values(), seen) if pid in one], pid, truths)
    kinds = {kind: found['bpfprof_gpu_calls_total{kind="%s"}' % kind] for kind in KINDS}
    everybody = sum(sum(values["calls/count"] for _, values, _ in calls.samples)
                    for calls in found_files.values())
    check(sum(before.values()) <= sum(kinds.values()) <= everybody, "metrics: %s, not from %d to %d" % (
        kinds, sum(before.values()), everybody))
    memory = max(line["memory_bytes"] for line in daemon.said("profile written"))
    check(memory < BUDGET, "%d bytes" % memory)
    context.note("%d intervals, %.1f MiB" % (len(found_files), memory / (1 << 20)))


def launched(truth, before):
    """{kernel: launches} since then."""
    found = collections.Counter()
    for sign, rows in ((1, truth["launches"]), (-1, before)):
        for row in rows:
            found[row["kernel"]] += sign * row["calls"]
    return {kernel: calls for kernel, calls in found.items() if calls}


def launched_of(calls, pid):
    found = collections.Counter()
    for _, values, labels in calls.samples:
        if labels["pid"] == pid and "kernel" in labels:
            found[labels["kernel"]] += values["calls/count"]
    return {kernel: calls for kernel, calls in found.items() if calls}


@test()
def handles_again_in_intervals(context):
    """Each kernel has its launches of an interval, whoever had its handle in that interval or before."""
    reason = 'bpfprof_gpu_lost_total{reason="kernel_names_of_launches"}'
    caller = Caller(context, "modules", with_python=True)
    daemon = Daemon(context, "--gpu", "-p", str(caller.pid), "--log-level", "debug", interval="3s",
                    listen="127.0.0.1:0")
    hooked(context, daemon)
    before = metrics(daemon)[reason]
    told, rows = [], []
    for word in ("go", "round", "round"):
        next_interval(daemon)
        caller.say(word)
        truth = json.loads(caller.line())
        told.append(launched(truth, rows))
        rows = truth["launches"]
    next_interval(daemon)
    unknown = metrics(daemon)[reason] - before
    check(daemon.end() == 0, "ended badly")
    found = [launched_of(calls, caller.pid) for calls in calls_files(daemon.output).values()]
    found = [one for one in found if one]
    check(found == told, "%s, not %s" % (found, told))
    check(all(len(one) == 3 for one in told), "two kernels and one without a name: %s" % told)
    check(unknown == sum(one["kernel@0x4711"] for one in told), "of unknown kernels: %d" % unknown)


@test()
def record_handles_again(context):
    caller = Caller(context, "modules", with_python=True)
    run = Run(context, "record", "--gpu", "-p", str(caller.pid), "-d", "120", "-o", "x.pb.gz",
              "--stats", "s.json")
    run.wait_for(r"watching \d+ functions? in \d+ librar")
    truth = caller.work()
    run.interrupt()
    found = launched_of(Calls(context.read("x.cuda.pb.gz")), caller.pid)
    check(found == launched(truth, []), "%s, not %s" % (found, launched(truth, [])))
    lost = context.json("s.json")["gpu"]["lost"]
    check(lost["kernel_names_of_launches"] == found["kernel@0x4711"] == 3, str(lost))


def hooked_files(daemon, *parts):
    """Waits until files whose paths have these in them are hooked."""
    end = time.monotonic() + SECONDS
    while not all(any(line["msg"].startswith("hooked ") and part in line["msg"] for line in daemon.lines())
                  for part in parts):
        check(time.monotonic() < end, "never hooked: %s" % [
            line["msg"] for line in daemon.lines() if "hooked" in line["msg"]])
        time.sleep(0.05)


@test()
def parts_of_intervals(context):
    """Each interval has its own tensors and collections, and what is in use at its end."""
    stays, other = Rounds(context), Rounds(context)
    daemon = Daemon(context, "--gpu", "--tensors", "--gc", "--log-level", "debug", interval="3s",
                    listen="127.0.0.1:0")
    hooked_files(daemon, "libcuda.so.1", "libc10_cuda.so", os.path.realpath(interpreter()))
    told, states = [], {stays.pid: [], other.pid: []}  # after each round: in which interval, and what

    def note(caller):
        state = caller.round()
        states[caller.pid].append((len(told), state))

    for callers in ((stays,), (stays, other), (), (other, stays, stays)):
        next_interval(daemon)
        for caller in callers:
            note(caller)
        told.append(callers)
    other.end()
    next_interval(daemon)
    told.append(())
    next_interval(daemon)
    found = metrics(daemon)
    check(daemon.end() == 0, "ended badly")
    profiles = list(calls_files(daemon.output).values())
    first = next(i for i, calls in enumerate(profiles) if calls.total("calls/count", pid=stays.pid))
    for pid, states_of in states.items():
        before = dict(ZERO, pid=pid)
        for i in range(len(told)):
            now = [state for at, state in states_of if at == i]
            after = now[-1] if now else before
            calls = profiles[first + i]
            if pid == other.pid and i >= len(told) - 2:  # it ended here: nothing is in use by it
                after = dict(after, tensor_inuse={})
            check_parts(calls, after, before)
            before = after
        last = states_of[-1][1]
        for name in PARTS:
            total = sum(calls.total("calls/count", pid=pid, frame="python:gc" if name == BEGIN else name)
                        for calls in profiles)
            check(total == last["calls"][name]["calls"], "%s: %d in all, not %d" % (
                name, total, last["calls"][name]["calls"]))
        total = sum(calls.total("tensor_allocated/bytes", pid=pid) for calls in profiles)
        check(total == last["calls"][ALLOCATE]["bytes"], "%d bytes in all, not %d" % (
            total, last["calls"][ALLOCATE]["bytes"]))
    for name, kind in PARTS.items():
        least = sum(states_of[-1][1]["calls"][name]["calls"] for states_of in states.values())
        value = found['bpfprof_gpu_calls_total{kind="%s"}' % kind]
        check(value >= least, "metrics: %s %d, not %d" % (kind, value, least))
    memory = max(line["memory_bytes"] for line in daemon.said("profile written"))
    check(memory < BUDGET, "%d bytes" % memory)
    context.note("%d intervals, %.1f MiB" % (len(profiles), memory / (1 << 20)))


@test(paired=True, lock="gpu")
def too_many_tensors(context):
    """More than are followed: what was allocated is told, the rest counted, the driver's stay known."""
    caller = Rounds(context)
    daemon = Daemon(context, "--gpu", "--tensors", "--log-level", "debug", interval="4s",
                    listen="127.0.0.1:0")
    hooked_files(daemon, "libcuda.so.1", "libc10_cuda.so")
    next_interval(daemon)
    before = caller.round()
    truth = caller.hoard(TENSORS + 500)
    next_interval(daemon)
    next_interval(daemon)
    found = metrics(daemon)
    check(daemon.end() == 0, "ended badly")
    profiles = list(calls_files(daemon.output).values())
    pid, called = caller.pid, truth["calls"][ALLOCATE]
    for kind, frame, wanted in (("calls/count", ALLOCATE, called["calls"]),
                                ("tensor_allocated/bytes", None, called["bytes"])):
        total = sum(calls.total(kind, pid=pid, frame=frame) for calls in profiles)
        check(total == wanted, "%s: %d in all, not %d" % (kind, total, wanted))
    live = sum(before[kind]["allocations"] - before[kind]["frees"] for kind in ("memory", "tensor_memory"))
    over = live + 500
    lost = found['bpfprof_gpu_lost_total{reason="allocations_no_room"}']
    check(lost == over, "%d are counted, not %d" % (lost, over))
    latest = profiles[-1]
    held, wanted = latest.total("tensor_inuse/bytes", pid=pid), (
        before["tensor_memory"]["live_bytes"] + 500 * (TENSORS - live))
    check(held == wanted, "%d bytes in use, not %d" % (held, wanted))
    check(latest.total("inuse/bytes", pid=pid, frame="cuMemAlloc") == sum(truth["inuse"].values()),
          "in use of the driver's: %d, not %s" % (latest.total("inuse/bytes", pid=pid), truth["inuse"]))
    memory = max(line["memory_bytes"] for line in daemon.said("profile written"))
    check(memory < BUDGET, "%d bytes" % memory)
    context.note("%d of %d followed, %.1f MiB" % (TENSORS, live + TENSORS + 500, memory / (1 << 20)))


@test()
def pythons_that_come(context):
    """One whose collections cannot be seen is told when it comes, once."""
    with open(os.path.realpath(interpreter()), "rb") as file:
        whole = file.read()
    old, new, problem = SPOILED["other"]
    path = os.path.join(context.scratch("other"), "python3")
    with open(path, "wb") as file:
        file.write(whole.replace(old, new))
    os.chmod(path, 0o755)
    daemon = Daemon(context, "--gpu", "--gc", interval="2s", listen="127.0.0.1:0")
    next_interval(daemon)
    before = metrics(daemon)
    check(before['bpfprof_gpu_calls_total{kind="gc"}'] >= 0, "not there before the first one")
    Rounds(context, path).round()
    said = "%s: not watched: %s" % (path, problem)
    daemon.wait(said)
    os.utime(path, (1, 1))  # the same file, met as if it were another
    Rounds(context, path).round()
    next_interval(daemon)
    next_interval(daemon)
    reason = 'bpfprof_gpu_lost_total{reason="pythons_without_probes"}'
    check(metrics(daemon)[reason] >= before[reason] + 1, "not counted")
    check(daemon.end() == 0, "ended badly")
    check(len(daemon.said(said)) == 1, "said %d times" % len(daemon.said(said)))


@test()
def files(context):
    """A set has the files of both, whole; links, listing and retention hold for them."""
    token = context.path("token")
    with open(token, "w", encoding="ascii") as file:
        file.write("secret\n")
    os.chmod(token, 0o644)
    daemon = Daemon(context, "--gpu", "--retain-age", "5s", "--allow-remote-profiling", token,
                    interval="2s", listen="127.0.0.1:0")
    daemon.wait("profile written", 5)
    port = daemon.wait("listening")[0]["port"]
    request = urllib.request.Request("http://127.0.0.1:%s/files/" % port,
                                     headers={"Authorization": "Bearer secret"})
    with urllib.request.urlopen(request, timeout=10) as reply:
        listed = reply.read().decode().split()
    request.full_url += "latest.cuda.pb.gz"
    with urllib.request.urlopen(request, timeout=10) as reply:
        Calls(reply.read())
    check(daemon.end() == 0, "ended badly")
    for suffix in (".pb.gz", ".folded", ".html"):
        cpu = {path[4:] for path in os.listdir(daemon.output)
               if path.startswith("cpu-") and path.endswith(suffix)}
        cuda = {path[5:] for path in os.listdir(daemon.output)
                if path.startswith("cuda-") and path.endswith(suffix)}
        check(cpu == cuda and 2 <= len(cpu) <= 5, "%s beside %s" % (cuda, cpu))
        link = os.readlink(os.path.join(daemon.output, "latest.cuda" + suffix))
        check(link == "cuda-" + max(cpu), "%s leads to %s" % (suffix, link))
        check("latest.cuda" + suffix in listed, "listed: %s" % listed)
    check(any(name.startswith("cuda-") for name in listed), "listed: %s" % listed)
    # Without --gpu nothing leads to what is old, which goes as the rest does.
    daemon = Daemon(context, "--retain-age", "1s", interval="1s", log="second")
    daemon.wait("profile written", 4)
    check(daemon.end() == 0, "ended badly")
    check(not [name for name in os.listdir(daemon.output) if "cuda" in name],
          "still there: %s" % os.listdir(daemon.output))


@test(paired=True, lock="gpu")
def many_processes(context):
    """Counts of what has ended do not stay in the kernel."""
    daemon = Daemon(context, "--gpu", "--log-level", "debug", interval="2s", listen="127.0.0.1:0")
    stays = hooked(context, daemon)
    stays.run(1)
    next_interval(daemon)
    before, made = metrics(daemon)["bpfprof_gpu_keys"], {}
    for _ in range(30):
        one = Steps(context)
        made[one.pid] = one.run(1)["calls"]
        one.end()
    made[stays.pid] = stays.run(1)["calls"]
    next_interval(daemon)
    next_interval(daemon)
    after = metrics(daemon)["bpfprof_gpu_keys"]
    check(daemon.end() == 0, "ended badly")
    profiles = calls_files(daemon.output).values()
    for pid, calls in made.items():
        total = sum(profile.total("calls/count", pid=pid) for profile in profiles)
        check(total == calls, "pid %d: %d calls, not %d" % (pid, total, calls))
    # Each of them had five: what else comes and goes on this machine is less.
    check(after < before + 75, "%d keys, %d before" % (after, before))


@test(paired=True, lock="gpu")
def too_many_shapes(context):
    """One process cannot take all the room: its calls stay counted, and others keep their detail."""
    daemon = Daemon(context, "--gpu", "--log-level", "debug", interval="4s", listen="127.0.0.1:0")
    greedy = hooked(context, daemon)
    next_interval(daemon)
    made = {}
    greedy.say("s9000")
    made[greedy.pid] = json.loads(greedy.line())["calls"]
    modest = Steps(context)
    made[modest.pid] = modest.run(5)["calls"]
    next_interval(daemon)
    next_interval(daemon)
    found = metrics(daemon)
    check(daemon.end() == 0, "ended badly")
    profiles = calls_files(daemon.output).values()
    for pid, calls in made.items():
        total = sum(profile.total("calls/count", pid=pid) for profile in profiles)
        check(total == calls, "pid %d: %d calls, not %d" % (pid, total, calls))
    other = {pid: sum(profile.total("calls/count", pid=pid, frame="[other kernels]")
                      for profile in profiles) for pid in made}
    check(other[greedy.pid] == 9000 - 2048 and not other[modest.pid], "others: %s" % other)
    check(found['bpfprof_gpu_lost_total{reason="calls_without_detail"}'] >= other[greedy.pid],
          "not counted: %s" % found)
    memory = max(line["memory_bytes"] for line in daemon.said("profile written"))
    check(memory < BUDGET, "%d bytes" % memory)
    context.note("%.1f MiB" % (memory / (1 << 20)))


@test()
def chosen(context):
    """--pid of the daemon: calls of others are not written."""
    first, other = Steps(context), Steps(context)
    daemon = Daemon(context, "--gpu", "-p", str(first.pid), "--log-level", "debug", interval="2s")
    hooked(context, daemon)
    next_interval(daemon)
    truth = first.run(4)
    other.run(6)
    next_interval(daemon)
    check(daemon.end() == 0, "ended badly")
    total = sum(calls.total("calls/count") for calls in calls_files(daemon.output).values())
    check(total == truth["calls"], "%d calls, not %d" % (total, truth["calls"]))


@test()
def chosen_later(context):
    """What hangs when it is chosen on SIGHUP sends nothing more: it is in the intervals all the same."""
    other, later = Steps(context), Steps(context)
    config = context.path("config")

    def configure(*pids):
        with open(config, "w", encoding="ascii") as file:
            file.write("BPFPROF_PID=%s\n" % ",".join(map(str, pids)))

    configure(other.pid)
    daemon = Daemon(context, "--gpu", "--config", config, "--log-level", "debug", interval="2s")
    hooked(context, daemon)
    caller = Caller(context, "long", script="gpu_waits.py")
    time.sleep(1)
    caller.say("go\n60")
    caller.line()
    later.run(2)
    time.sleep(0.5)  # in which it starves
    before = later.run(3)
    next_interval(daemon)
    check(calls_files(daemon.output) and not any(
        calls.total("blocked/nanoseconds") for calls in calls_files(daemon.output).values()), "not chosen")
    configure(caller.pid, later.pid)
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait("reloaded")
    now = later.run(3)
    for _ in range(3):
        next_interval(daemon)
    check(daemon.end() == 0, "ended badly")
    found = [calls.total("blocked/nanoseconds", pid=caller.pid, frame="[no stack]")
             for calls in calls_files(daemon.output).values()]
    shown = ["%.2f" % (ns / 1e9) for ns in found]
    context.note("blocked for %s s of intervals of 2 s" % ", ".join(shown))
    files = calls_files(daemon.output).values()
    total = sum(calls.total("calls/count", pid=later.pid) for calls in files)
    check(total == now["calls"] - before["calls"], "%d calls, not %s after %s" % (total, now, before))
    starved = sum(calls.total("starved/nanoseconds", pid=later.pid) for calls in files)
    least, most = [now["starved_ns"][i] - before["starved_ns"][i] for i in (0, 1)]
    check(least <= starved <= most, "starved for %d ns, not %d to %d" % (starved, least, most))
    check(sum(1.8e9 < ns < 2.2e9 for ns in found) >= 2 and max(found) < 2.2e9, shown)


def wait_for_keys(daemon, what, is_it):
    end = time.monotonic() + SECONDS
    while not is_it(metrics(daemon)["bpfprof_gpu_keys"]):
        check(time.monotonic() < end, "%s: %s" % (what, metrics(daemon)["bpfprof_gpu_keys"]))
        time.sleep(0.2)


def others_end(context, interval):
    """Processes that nobody chose take the room of more keys than there is, in all of them."""
    first = Steps(context)
    daemon = Daemon(context, "--gpu", "-p", str(first.pid), "--log-level", "debug",
                    interval=interval, listen="127.0.0.1:0", output=context.path(interval),
                    log="log-" + interval)
    hooked(context, daemon).end()
    first.run(1)
    wait_for_keys(daemon, "none of the chosen", lambda keys: 0 < keys < 100)
    for _ in range(3):
        others = [Steps(context) for _ in range(4)]
        for other in others:
            other.say("s3000")
            other.line()
        wait_for_keys(daemon, "the others are not among", lambda keys: keys > 4 * 2048)
        for other in others:
            other.end()
        wait_for_keys(daemon, "still there", lambda keys: keys < 100)
    truth = first.run(50)
    found = metrics(daemon)
    check(daemon.end() == 0, "ended badly")
    lost = found['bpfprof_gpu_lost_total{reason="calls_no_room"}']
    check(not lost, "%d calls without room" % lost)
    profiles = calls_files(daemon.output).values()
    total = sum(calls.total("calls/count") for calls in profiles)
    check(total == truth["calls"], "%d calls, not %d" % (total, truth["calls"]))
    first.end()


@test(paired=True, lock="gpu")
def others_leave_room(context):
    """Counts of processes that nobody chose go with them, between two borders and at one."""
    for interval in ("300s", "2s"):
        others_end(context, interval)


@test()
def top(context):
    """Launches per second and blocked time of a process, in its rows and where it has none."""
    steps = Steps(context)
    run = Run(context, "top", "--gpu", "--once", "--delay", "8", "--verbose", "-p", steps.pid)
    run.wait_for(r"hooked \S*libcuda\S*: \d+ functions")
    truth = steps.run(200)
    done = context.finish(run.process, 2 * SECONDS).expect(0)
    text = done.out.decode()
    found = re.search(r"^GPU: (\d+) gpu_steps: (\d+) launches/s, ([\d.]+)% blocked$", text, re.M)
    check(found and int(found.group(1)) == steps.pid, text)
    wanted = truth["launch"] / 8
    check(abs(int(found.group(2)) - wanted) < 0.05 * wanted, "%s launches/s, not %.0f" % (
        found.group(2), wanted))
    blocked = truth["blocked_ns"] / 8e9 * 100
    check(abs(float(found.group(3)) - blocked) < 0.08 * blocked, "%s%% blocked, not %.2f" % (
        found.group(3), blocked))
    check(re.search(r"TotalTime +Launch/s +%Blocked +", text), text)
    rows = [line.split() for line in text.splitlines() if "forward" in line]
    check(rows and rows[0][4] == found.group(2) and rows[0][5] == found.group(3) + "%", text)
    context.note(text)


@test()
def top_hangs(context):
    """A process that hangs in a call uses no CPU: it is shown all the same."""
    caller = Caller(context, "hang")
    run = Run(context, "top", "--gpu", "--once", "--delay", "5", "--verbose", "-p", caller.pid)
    run.wait_for(r"hooked \S*libnccl\S*: \d+ functions")
    caller.say("go")
    done = context.finish(run.process, 2 * SECONDS).expect(0)
    found = re.search(r"^GPU: %d \S+: \d+ launches/s, ([\d.]+)%% blocked$" % caller.pid,
                      done.out.decode(), re.M)
    check(found and float(found.group(1)) > 30, done.out.decode())


@test()
def top_hangs_in_collective(context):
    """In one of NCCL's, too: it waits for its peers."""
    caller = Caller(context, "hang", with_python=True)
    run = Run(context, "top", "--gpu", "--once", "--delay", "6", "--verbose", "-p", caller.pid)
    run.wait_for(r"hooked \S*libnccl\S*: \d+ functions")
    caller.say("go")
    done = context.finish(run.process, 2 * SECONDS).expect(0)
    found = re.search(r"^GPU: %d \S+: \d+ launches/s, ([\d.]+)%% blocked$" % caller.pid,
                      done.out.decode(), re.M)
    check(found and 30 < float(found.group(1)) < 100, done.out.decode())


@test(modes=("root",))
def stacks_of_programs(context):
    """Programs that can be preempted run on their thread's stack, not on one of the CPU's."""
    runs = [(context.start("record", "--gpu", "--clock", "timer", "-d", "20", "-o", "x.folded"),
             {"gpu_enter", "gpu_return", "gpu_stack", "process_fork"}),
            (context.start("gpu", "--tensors", "--once", "-d", "20"), {"gpu_site"})]
    loaded = {}

    def all_there():
        for running, wanted in runs:
            loaded.update(private_stacks(running.pid))
        return all(wanted <= set(loaded) for _, wanted in runs)
    wait_for(all_there, "the programs are loaded")
    context.note(str({name: nr for name, nr in loaded.items() if nr or name.startswith("gpu")}))
    if not sum(loaded.values()):
        raise Skip("this kernel gives no program a stack of the CPU")
    check(not any(nr for name, nr in loaded.items() if name.startswith("gpu_")), str(loaded))
