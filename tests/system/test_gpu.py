# SPDX-License-Identifier: Apache-2.0
"""gpu against programs that know which CUDA and NCCL calls they made, through libraries without a device.

Counts, bytes, names and live memory must be equal; times within 5 %.
"""

import collections
import json
import os
import re
import select
import signal
import struct
import subprocess
import time
from unittest import mock

from gpu.build import Unavailable, build
from harness import MODES, NOBODY, Failure, Skip, check, test
from pprof import Pprof
from test_top import python
from test_wall_daemon import maps_bytes

BESIDE = True
SECONDS = 30  # until something that is waited for must have come
NANOSECONDS = 0.05  # how far a time may be off
# What may be counted, too: makes nothing, moves nothing.
CONTROL = re.compile(r"cuInit|cuMemGetInfo_v2|ncclGroupEnd|ncclComm\w+|ncclGetUniqueId")
DIRECTIONS = [("cuMemset", {"set"}), ("cuMemcpyHtoD", {"HtoD"}), ("cuMemcpyDtoH", {"DtoH"}),
              ("cuMemcpyDtoD", {"DtoD"}), ("cuMemcpyPeer", {"DtoD", "any"}), ("cuMemcpy", {"any"})]
TYPES = ["calls/count", "blocked/nanoseconds", "moved/bytes", "allocated/bytes", "inuse/bytes",
         "starved/nanoseconds", "host_allocated/bytes", "host_inuse/bytes",
         "tensor_allocated/bytes", "tensor_inuse/bytes", "gc/nanoseconds", "completed/count",
         "complete/nanoseconds"]


def fakes(context):
    try:
        return build(os.path.join(context.builder.folder, "gpu"))
    except Unavailable as reason:
        raise Skip(str(reason)) from None


def release():
    """Of the kernel."""
    return tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))


class Caller:
    """A running gpu_calls, C++ or Python, that is ready."""

    def __init__(self, context, scenario, *, where=None, with_python=False, env=None, program=None,
                 title=None, script="gpu_calls.py", interpreter=None):
        where = where or fakes(context)
        with_python = with_python or script != "gpu_calls.py"
        argv = [interpreter or python(context), os.path.join(where.folder, script)] if with_python else [
            program or where.program]
        more = {}
        if title:  # what it has in place of its arguments
            more = {"executable": argv[0]}
            argv[0] = title
        self.process = context.spawn([*argv, scenario, where.folder], env=env,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, **more)
        self.pid = self.process.pid
        self.rest = b""
        check(self.line() == "ready", "not ready: " + scenario)

    def line(self):
        end = time.monotonic() + 2 * SECONDS
        while b"\n" not in self.rest:
            ready = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]
            check(ready, "the caller says nothing")
            more = os.read(self.process.stdout.fileno(), 1 << 16)
            check(more, "the caller has ended")
            self.rest += more
        line, self.rest = self.rest.split(b"\n", 1)
        return line.decode()

    def say(self, word):
        self.process.stdin.write(word.encode() + b"\n")
        self.process.stdin.flush()

    def work(self):
        """Lets it make its calls; what they were."""
        self.say("go")
        return json.loads(self.line())


class Watch:
    """A running bpfprof gpu that has hooked what there is."""

    def __init__(self, context, *args, env=None):
        self.context = context
        self.path = context.path("messages-%d" % len(os.listdir(context.dir)))
        with open(self.path, "wb") as file:
            self.process = context.start("gpu", "--once", *args, stderr=file, env=env)
        self.wait_for(r"watching \d+ functions? in \d+ librar")

    def messages(self):
        with open(self.path, encoding="utf-8", errors="replace") as file:
            return file.read()

    def wait_for(self, pattern):
        end = time.monotonic() + SECONDS
        while not re.search(pattern, self.messages()):
            if self.process.poll() == 3 and release() < (6, 6):
                raise Skip("this kernel cannot hook many places at once: " + self.messages()[-200:])
            check(self.process.poll() is None, "it has ended: " + self.messages()[-2000:])
            check(time.monotonic() < end, "never said: %s\n%s" % (pattern, self.messages()[-2000:]))
            time.sleep(0.05)

    def end(self, interrupt=True):
        """What it wrote to standard output."""
        if interrupt:
            self.process.send_signal(signal.SIGINT)
        done = self.context.finish(self.process, 2 * SECONDS)
        done.err = self.messages().encode()
        return done.expect(0).out.decode("utf-8")


class Seen:
    """What bpfprof gpu --once --json told."""

    def __init__(self, text):
        try:
            self.whole = json.loads(text)
        except ValueError as error:
            raise Failure("no JSON (%s): %s" % (error, text[:2000])) from None
        self.lost = self.whole["lost"]

    def process(self, pid):
        found = [one for one in self.whole["processes"] if one["pid"] == pid]
        check(len(found) == 1, "pid %d stands there %d times; libraries: %s, lost: %s" % (
            pid, len(found), self.whole["libraries"], self.lost))
        return found[0]

    def pids(self):
        return {one["pid"] for one in self.whole["processes"]}

    def lost_for(self, word):
        return sum(n for reason, n in self.lost.items() if word in reason)


def watched(context, scenario, *args, with_python=False, pid=True):
    """A caller's truth and what was seen of it, from before its first call on."""
    caller = Caller(context, scenario, with_python=with_python)
    watch = Watch(context, "--json", "-d", "120", *(["-p", caller.pid] if pid else []), *args)
    truth = caller.work()
    return caller, truth, Seen(watch.end())


def shown(name):
    return re.sub(r"(_v\d+)?(_ptsz|_ptds)?$|__start$", "", name)


def sums(rows, key, *columns):
    """{key of a row: sums of its columns}"""
    found = collections.defaultdict(lambda: [0] * len(columns))
    for row in rows:
        total = found[key(row)]
        for i, column in enumerate(columns):
            total[i] += row[column]
    return dict(found)


def equal(found, wanted, what):
    if found == wanted:
        return
    missing = {key: value for key, value in wanted.items() if found.get(key) != value}
    wrong = {key: value for key, value in found.items() if wanted.get(key) != value}
    check(False, "%s: %s\n  instead of %s" % (what, wrong, missing))


def check_calls(process, truth):
    rows = process["calls"]
    for row in rows:
        check(row["function"] == shown(row["exported"]), "another name: %s" % row)
        check(row["max_ns"] <= row["ns"], "longer than all together: %s" % row)
    found = sums(rows, lambda row: row["exported"], "calls", "bytes", "errors")
    wanted = {name: [one["calls"], one["bytes"], one["errors"]]
              for name, one in truth["calls"].items()}
    equal({name: value for name, value in found.items()
           if name in wanted or not CONTROL.fullmatch(name)}, wanted, "calls")


def kernel_name(name):
    """A mangled name may be shown readably, with or without its parameters."""
    return "fused::softmax" if "fused" in name and "softmax" in name else name


def launch_key(row):
    return (kernel_name(row["kernel"]), row["exported"], tuple(row["grid"]), tuple(row["block"]),
            row["stream"])


UNKNOWN = "kernel_names_of_launches"


def check_unknown(seen, truth, wanted):
    """Launches of kernels that nobody named are as many as their rows have, and as they were."""
    check(sum(row["calls"] for row in truth["launches"]
              if row["kernel"].startswith("kernel@")) == wanted, str(truth["launches"]))
    check(seen.lost[UNKNOWN] == wanted, "of unknown kernels: %d, not %d" % (
        seen.lost[UNKNOWN], wanted))


def check_launches(process, truth):
    rows = [row for row in process["launches"] if not row["exported"].startswith("cuGraph")]
    equal(sums(rows, launch_key, "calls"), sums(truth["launches"], launch_key, "calls"), "launches")
    handles = {launch_key(row): row["handle"] for row in truth["launches"] if "handle" in row}
    for row in rows:
        check(row["handle"] == handles.get(launch_key(row), row["handle"]), "handle of %s" % row)


def check_copies(process, truth):
    wanted = collections.defaultdict(lambda: [0, 0])
    for name, one in truth["calls"].items():
        if name.startswith(("cuMemcpy", "cuMemset")):
            wanted[shown(name)][0] += one["calls"]
            wanted[shown(name)][1] += one["bytes"]
    rows = process["copies"]
    equal(sums(rows, lambda row: shown(row["function"]), "calls", "bytes"), dict(wanted), "copies")
    for row in rows:
        directions = next(d for start, d in DIRECTIONS if row["function"].startswith(start))
        check(row["direction"] in directions, "another direction: %s" % row)


def check_memory(process, truth):
    wanted = dict(truth["memory"])
    for name in ("device_free", "device_total"):
        wanted[name] = wanted[name] or None
    equal({name: process["memory"][name] for name in wanted}, wanted, "memory")
    equal(process["host_memory"], truth["host_memory"], "page-locked memory of the host")
    check(process["tensor_memory"] == truth.get("tensor_memory"), "tensors: %s, not %s" % (
        process["tensor_memory"], truth.get("tensor_memory")))


def operation_key(row):
    extra = [(name, row[name]) for name in ("op", "root", "peer") if row.get(name) is not None]
    return (row["operation"], row["datatype"], *extra, row["comm"], row["stream"])


def check_collectives(process, truth):
    equal(sums(process["collectives"], operation_key, "calls", "bytes"),
          sums(truth["collectives"], operation_key, "calls", "bytes"), "collectives")
    known = {row["comm"]: row for row in process["communicators"]}
    for row in truth["communicators"]:
        found = known.get(row["comm"])
        check(found, "no communicator %s: %s" % (row["comm"], list(known)))
        equal({name: found[name] for name in row}, row, "communicator " + row["comm"])


def check_all(process, truth):
    check_calls(process, truth)
    check_launches(process, truth)
    check_copies(process, truth)
    check_memory(process, truth)
    check_collectives(process, truth)


def check_times(process, truth, names, most=NANOSECONDS):
    """Time in calls, as the caller measured it around them."""
    told = sums(process["calls"], lambda row: row["exported"], "ns")
    longest = {row["exported"]: row["max_ns"] for row in process["calls"]}
    worst = 0
    for name in names:
        one = truth["calls"][name]
        for found, wanted in ((told[name][0], one["ns"]), (longest[name], one["max_ns"])):
            off = abs(found - wanted) / wanted
            worst = max(worst, off)
            check(off <= most, "%s: %d ns, not %d" % (name, found, wanted))
    return worst


class Files:
    """x.pb.gz and x.folded, or of another name."""

    def __init__(self, context, name="x"):
        profile = Pprof(context.read(name + ".pb.gz"))
        check(profile.sample_types == TYPES, "sample types: %s" % profile.sample_types)
        self.samples = []
        for sample in profile.samples:
            frames = [name for at in sample["stack"] for name in profile.locations[at]["functions"]]
            self.samples.append((frames, dict(zip(TYPES, sample["values"])), sample["labels"]))
        self.folded = []
        for line in context.text(name + ".folded").splitlines():
            if line and not line.startswith("#"):
                stack, count = line.rsplit(" ", 1)
                self.folded.append((stack.split(";"), int(count)))

    @staticmethod
    def call_of(frames, labels):
        """The hooked function: the leaf, or below it, leaf first, if that is a kernel."""
        if "kernel" in labels:
            check(kernel_name(labels["kernel"]) == kernel_name(frames[0]), "leaf of %s" % frames)
            return shown(frames[1])
        return shown(frames[0])

    def total(self, kind):
        return sum(values[kind] for _, values, _ in self.samples)

    def of(self, where, kind, calls=None):
        """Of all stacks with that function, and one of these hooked functions."""
        return sum(values[kind] for frames, values, labels in self.samples
                   if any(is_frame(frame, where) for frame in frames) and
                   (calls is None or self.call_of(frames, labels) in calls))


def is_frame(frame, where):
    """Is it that function? Python's may have its file, and its class where that is known."""
    name = frame.split(" (")[0]
    return name == where or where.endswith("." + name)


def check_files(context, process, truth, name="x"):
    """The files add up to the table, and each function has what it called on its stacks."""
    files = Files(context, name)
    calls = sum(row["calls"] for row in process["calls"])
    check(files.total("calls/count") == calls, "%d calls in the profile, not %d" %
          (files.total("calls/count"), calls))
    folded = sum(count for _, count in files.folded)
    check(folded == calls, "%d calls in the folded file, not %d" % (folded, calls))
    for where, names in truth["where"].items():
        wanted = collections.Counter()
        for name, count in names.items():
            wanted[shown(name)] += count
        for function, count in wanted.items():
            found = files.of(where, "calls/count", {function})
            check(found == count, "%d calls of %s in %s, not %d: %s" % (
                found, function, where, count, [f for f, _, _ in files.samples][:5]))
        lines = sum(count for stack, count in files.folded
                    if any(is_frame(frame, where) for frame in stack) and
                    any(shown(frame) in wanted for frame in stack[-2:]))
        check(lines == sum(wanted.values()), "%d calls in %s in the folded file, not %d" % (
            lines, where, sum(wanted.values())))
    for kind, word in (("moved/bytes", "moved"), ("allocated/bytes", "allocated"),
                       ("inuse/bytes", "inuse"), ("host_allocated/bytes", "host_allocated"),
                       ("host_inuse/bytes", "host_inuse"),
                       ("tensor_allocated/bytes", "tensor_allocated"),
                       ("tensor_inuse/bytes", "tensor_inuse")):
        told = truth.get(word, {})
        for where in truth["where"]:
            found, wanted = files.of(where, kind), told.get(where, 0)
            check(found == wanted, "%s in %s: %d, not %d" % (kind, where, found, wanted))
        check(files.total(kind) == sum(told.values()), "%s: %d, not %d" % (
            kind, files.total(kind), sum(told.values())))
    return files


OUTPUTS = ("-o", "x.pb.gz", "-o", "x.folded")


def both_files(context, scenario, with_python):
    _, truth, seen = watched(context, scenario, *OUTPUTS, with_python=with_python)
    process = seen.process(truth["pid"])
    check_all(process, truth)
    return truth, seen, process, check_files(context, process, truth)


@test(modes=MODES)
def launches(context):
    truth, seen, process, files = both_files(context, "launches", False)
    kernels = {kernel_name(labels["kernel"]) for _, _, labels in files.samples
               if "kernel" in labels}
    wanted = {kernel_name(row["kernel"]) for row in truth["launches"]}
    check(wanted <= kernels, "kernels in the profile: %s" % kernels)
    check(process["name"] == "gpu_calls", process["name"])
    check(seen.pids() == {truth["pid"]}, "processes: %s" % seen.pids())
    paths = {os.path.basename(one["path"]): one for one in seen.whole["libraries"]}
    for name, layer in (("libcuda.so.1", "cuda"), ("libnccl.so.2", "nccl")):
        check(name in paths and paths[name]["layers"] == [layer] and paths[name]["functions"] > 10
              and paths[name]["problem"] is None, "libraries: %s" % seen.whole["libraries"])
    context.note("%d stacks taken, %d skipped" % (seen.whole["stacks"]["taken"],
                                                 seen.whole["stacks"]["skipped"]))


@test()
def launches_python(context):
    both_files(context, "launches", True)


@test()
def shared_key(context):
    """Two callers of one kernel at one place in the grid: by the stacks that were taken, 4 to 1."""
    _, truth, seen = watched(context, "shared", *OUTPUTS)
    check_all(seen.process(truth["pid"]), truth)
    files = Files(context)
    check(files.total("calls/count") == 5000, "calls: %d" % files.total("calls/count"))
    left = files.of("shared::left", "calls/count")
    right = files.of("shared::right", "calls/count")
    check(left + right == 5000, "%d and %d" % (left, right))
    context.note("%d and %d of 4000 and 1000" % (left, right))
    check(3500 <= left <= 4500, "left has %d" % left)


@test(modes=("root",), alone=True)
def environment(context):
    """Each flag can be set in the environment, for all commands or for this one; the command line wins."""
    caller = Caller(context, "launches")
    with mock.patch.dict(os.environ, {
            "BPFPROF_GPU_ONCE": "1", "BPFPROF_GPU_DURATION": "0.2", "BPFPROF_PID": str(caller.pid),
            "BPFPROF_GPU_JSON": "1", "BPFPROF_OUTPUT": context.path("x.folded")}):
        text = context.bpfprof("gpu", timeout=60).expect(0).out.decode()
    seen = Seen(text)
    check(0.2 <= seen.whole["seconds"] < 30, "seconds: %s" % seen.whole["seconds"])
    check(os.path.exists(context.path("x.folded")), "no file")
    for name in ("BPFPROF_SORT", "BPFPROF_GPU_SORT", "BPFPROF_GPU_ROWS", "BPFPROF_ONCE"):
        with mock.patch.dict(os.environ, {name: "nonsense"}):
            done = context.bpfprof("gpu", timeout=60).expect(2)
        check(name in done.err.decode(), done.text)
    with mock.patch.dict(os.environ, {
            "BPFPROF_ONCE": "1", "BPFPROF_DURATION": "60", "BPFPROF_SORT": "blocked",
            "BPFPROF_GPU_ROWS": "2", "BPFPROF_GPU_PID": str(caller.pid)}):
        watches = [Watch(context), Watch(context, "--rows", "3", "--sort", "calls")]
    caller.work()
    for watch, rows in zip(watches, (2, 3)):
        text = watch.end()
        context.note(text)
        calls = text.split("\n  Calls: ")[1].split("\n\n")[0].splitlines()
        check(len(calls) == 2 + rows + 1 and re.fullmatch(r" +\.\.\. and \d+ more", calls[-1]), str(calls))


UNSIZED = "batches_of_copies_not_all_bytes"


@test()
def copies(context):
    truth, seen, _, _ = both_files(context, "copies", False)
    check(truth["calls"]["cuMemcpy3DBatchAsync_v2"]["calls"] == 4, str(truth["calls"]))
    check(not seen.lost[UNSIZED], "batches whose bytes are known: %d" % seen.lost[UNSIZED])


@test()
def long_batches(context):
    """What is past the part of them that is looked at, or lies in arrays, is not made up, and said."""
    _, truth, seen = watched(context, "long_batches")
    check_all(seen.process(truth["pid"]), truth)
    check(seen.lost[UNSIZED] == 16, "batches of arrays or too long: %d" % seen.lost[UNSIZED])


@test()
def copies_python(context):
    both_files(context, "copies", True)


@test()
def memory(context):
    both_files(context, "memory", False)


@test()
def memory_python(context):
    both_files(context, "memory", True)


@test()
def memory_by_handle(context):
    """What was allocated is there until nothing refers to it and it is mapped nowhere, and freed once."""
    truth, seen, process, _ = both_files(context, "handles", False)
    context.note(str(process["memory"]))
    check(truth["memory"]["live_bytes"] == 50 << 20, str(truth["memory"]))
    check(not seen.lost["mappings_no_room"] and not seen.lost["allocations_no_room"], str(seen.lost))


@test()
def memory_by_handle_python(context):
    both_files(context, "handles", True)


def launches_by_name(files, where=None):
    """{kernel: launches} of a profile."""
    found = collections.Counter()
    for frames, values, labels in files.samples:
        if "kernel" in labels and (where is None or any(is_frame(frame, where) for frame in frames)):
            found[labels["kernel"]] += values["calls/count"]
    return dict(found)


def check_names(files, truth):
    wanted = collections.Counter()
    for row in truth["launches"]:
        wanted[row["kernel"]] += row["calls"]
    equal(launches_by_name(files), dict(wanted), "launches by kernel")


@test()
def handles_again(context):
    """Each kernel has the launches made while it had its handle, and their stacks."""
    truth, seen, _, files = both_files(context, "modules", False)
    check_names(files, truth)
    check_unknown(seen, truth, 4)
    for where, wanted in (
            ("modules::before", {"first_kernel": 5, "first_of_library": 8, "kernel_that_stays": 1}),
            ("modules::after", {"second_kernel": 9, "second_of_library": 12, "kernel_that_stays": 1}),
            ("modules::at_last", {"third_kernel": 6, "second_of_library": 9, "kernel_that_stays": 1}),
            ("modules::nameless", {"kernel@0x5a00000000c0": 4}), ("modules::named", {"a": 3})):
        equal(launches_by_name(files, where), wanted, "launches in " + where)
    for reason in ("kernel_handles_no_room", "kernel_handles_reused_no_room",
                   "kernel_names_ring_full", "events_ring_full"):
        check(not seen.lost[reason], str(seen.lost))


@test()
def handles_again_python(context):
    truth, seen, _, files = both_files(context, "modules", True)
    check_names(files, truth)
    check_unknown(seen, truth, 3)


@test()
def handles_again_unheard(context):
    """The name of who is given a handle is lost: launches have no name, not that of the one before."""
    caller = Caller(context, "lost_names", with_python=True)
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid,
                  env=dict(os.environ, BPFPROF_TEST_RING_BYTES="65536"))
    caller.work()
    time.sleep(1)  # all of that is read
    os.killpg(watch.process.pid, signal.SIGSTOP)
    caller.say("round")
    caller.line()
    os.killpg(watch.process.pid, signal.SIGCONT)
    time.sleep(2)
    caller.say("round")
    truth = json.loads(caller.line())
    seen = Seen(watch.end())
    check_launches(seen.process(truth["pid"]), truth)
    check_unknown(seen, truth, 5 + 7)
    check({row["kernel"]: row["calls"] for row in truth["launches"]}["kernel_1"] == 9, str(truth["launches"]))
    lost = seen.lost["kernel_names_ring_full"]
    context.note("%d names lost" % lost)
    check(lost > 10, str(seen.lost))


def unwatched(caller):
    """Is nobody counted in the program any more? That may take the kernel a moment."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        caller.say("watched")
        if caller.line() == "0":
            return True
        time.sleep(0.05)
    return False


@test()
def tensors(context):
    """What PyTorch hands out, by its own probes, which are off in the program until they are asked for."""
    caller, truth, seen = watched(context, "tensors", "--tensors", *OUTPUTS, with_python=True)
    process = seen.process(truth["pid"])
    check_all(process, truth)
    check_files(context, process, truth)
    check(truth["semaphores"] == [0, 3], "semaphores before and while: %s" % truth["semaphores"])
    layers = [one["layers"] for one in seen.whole["libraries"] if "c10" in one["path"]]
    check(layers == [["torch"]], str(seen.whole["libraries"]))
    check(unwatched(caller), "a semaphore is left behind")
    table = Watch(context, "--tensors", "-d", "120", "-p", caller.pid)
    caller.say("again")
    caller.line()
    check(re.search(r"(?m)^  PyTorch's tensors: 1.0 MB live", table.end()), "no line of them")


@test()
def busy_tensors(context):
    """However many small tensors there are: what the driver allocates in between has its stacks."""
    _, truth, seen = watched(context, "busy_tensors", "--tensors", *OUTPUTS, with_python=True)
    process = seen.process(truth["pid"])
    check_all(process, truth)
    context.note("%d stacks taken, %d skipped" % (seen.whole["stacks"]["taken"],
                                                 seen.whole["stacks"]["skipped"]))
    files = Files(context)
    for kind in ("allocated", "inuse"):
        found, wanted = files.of("py_weights", kind + "/bytes"), truth[kind]["py_weights"]
        check(found == wanted == files.total(kind + "/bytes"), "%s: %d, not %d" % (
            kind, found, wanted))


@test()
def tensors_not_asked_for(context):
    caller = Caller(context, "tensors", with_python=True)
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid)
    truth = caller.work()
    seen = Seen(watch.end())
    check(truth["semaphores"] == [0, 0], "semaphores: %s" % truth["semaphores"])
    process = seen.process(caller.pid)
    check(process["tensor_memory"] is None, str(process["tensor_memory"]))
    check(not any("pytorch" in row["exported"] for row in process["calls"]), str(process["calls"]))
    check(not any("c10" in one["path"] for one in seen.whole["libraries"]), "it is listed")


ABSENT, UNREADABLE = "PyTorch's probes are not in it", "PyTorch's probes in it cannot be read"
# What is changed in a libc10_cuda.so, what is said of it then, and how many of its functions are hooked.
SPOILED = {
    "other": (rb"\.note\.stapsdt\x00", b".note.nothing\0", ABSENT, 0),
    "broken": (rb"\x08\x00\x00\x00....\x03\x00\x00\x00stapsdt", b"\x08\0\0\0\0\xff\xff\xff\3\0\0\0stapsdt",
               UNREADABLE, 0),
    "nowhere": (rb"-8@", b"-7@", UNREADABLE, 0),  # three probes
    "half": (rb"pytorch\x00free\x00", b"pytorch\0flee\0", None, 2),
}


@test()
def tensors_unreadable(context):
    """A libc10_cuda whose probes are not found: what it allocates is not known, and that is said."""
    callers, wanted = [], {}
    for name, (old, new, problem, functions) in SPOILED.items():
        where = fakes(context).copy(context.path(name))
        with open(where.torch, "rb") as file:
            spoiled, count = re.subn(old, lambda _, new=new: new, file.read(), flags=re.DOTALL)
        check(count, "nothing to be changed: " + name)
        os.unlink(where.torch)
        with open(where.torch, "wb") as file:
            file.write(spoiled)
        callers.append(Caller(context, "tensors", where=where, with_python=True))
        wanted[where.torch] = (problem, functions)
    watch = Watch(context, "--tensors", "--json", "-d", "120",
                  *(word for caller in callers for word in ("-p", caller.pid)))
    for caller in callers:
        caller.work()
    seen = Seen(watch.end())
    found = {one["path"]: (one["problem"], one["functions"]) for one in seen.whole["libraries"]
             if "c10" in one["path"]}
    equal(found, wanted, "libraries")
    for path, (problem, _) in wanted.items():
        said = "%s: not watched: %s" % (path, problem)
        check((said in watch.messages()) == bool(problem), watch.messages())
    lost = {name: count for name, count in seen.lost.items() if "pytorch" in name}
    equal(lost, {"pytorch_libraries_without_probes": 3, "pytorch_probes_not_understood": 3 + 1},
          "lost")


def check_blocked(process, truth, files, most=NANOSECONDS):
    """Time in calls, in all and of each function; how far it is off at most."""
    worst = check_times(process, truth, truth["calls"], most)
    for where, calls in truth["where"].items():
        found = files.of(where, "blocked/nanoseconds")
        wanted = sum(truth["calls"][name]["ns"] for name in calls)
        worst = max(worst, abs(found - wanted) / wanted)
        check(abs(found - wanted) <= most * wanted, "blocked in %s: %d ns, not %d" % (
            where, found, wanted))
    return worst


def blocked(context, with_python):
    truth, _, process, files = both_files(context, "sync", with_python)
    context.note("off by %.2f %% at most" % (100 * check_blocked(process, truth, files)))


@test()
def sync(context):
    blocked(context, False)


@test()
def sync_python(context):
    blocked(context, True)


LATE = {"ncclCommInitRank": "gathering::begin", "ncclCommSplit": "gathering::begin",
        "ncclAllReduce": "parallel::reduce_gradients", "ncclGroupEnd": "gathering::end"}


@test()
def gathering(context):
    """Ranks that come late: NCCL's calls block meanwhile, those that make communicators, too."""
    truth, _, process, files = both_files(context, "gathering", False)
    check_times(process, truth, LATE)
    table = context.bpfprof("report", "x.pb.gz", "--sample-type", "blocked", "--rows", "0").expect(0)
    for name, where in LATE.items():
        wanted = truth["calls"][name]["ns"]
        check(wanted > 0.9e9, "it did not block: %s" % truth["calls"])
        found = files.of(where, "blocked/nanoseconds", {name})
        check(abs(found - wanted) <= NANOSECONDS * wanted, "%s: %d ns, not %d" % (name, found, wanted))
        check(re.search(r" %s$" % name, table.out.decode(), re.M), "no %s:\n%s" % (name, table.text))
    # Nothing twice, and nothing of calls that only begin something.
    found = sum(values["blocked/nanoseconds"] for _, values, _ in files.samples)
    wanted = sum(truth["calls"][name]["ns"] for name in LATE)
    check(abs(found - wanted) <= NANOSECONDS * wanted, "%d ns in all, not %d" % (found, wanted))


@test()
def gathering_as_a_table(context):
    """The same on a terminal: how long each blocked, the longest one, and all together."""
    caller = Caller(context, "gathering")
    watch = Watch(context, "-d", "120", "-p", caller.pid, "--rows", "0")
    truth = caller.work()
    text = watch.end()
    for name in LATE:
        one = truth["calls"][name]
        row = re.search(r"^ +(\d+) +([\d.]+) s +([\d.]+) s .* %s$" % name, text, re.M)
        check(row and int(row[1]) == one["calls"], "%s:\n%s" % (name, text))
        for found, wanted in ((row[2], one["ns"]), (row[3], one["max_ns"])):
            check(abs(float(found) - wanted / 1e9) <= 0.051, "%s: %s s, not %d ns" % (name, found, wanted))
    head = re.search(r"Calls: \d+, blocked for ([\d.]+) s \(", text)
    wanted = sum(truth["calls"][name]["ns"] for name in LATE)
    check(head and abs(float(head[1]) - wanted / 1e9) <= 0.051, "not %d ns in all:\n%s" % (wanted, text))


@test()
def collective_not_returned(context):
    """One that has not come back has blocked until now, on its stack."""
    caller = Caller(context, "hang")
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid, *OUTPUTS)
    begin = caller.work()["open"][0]["begin_ns"]
    since = time.monotonic_ns()
    time.sleep(1)
    least = time.monotonic_ns() - since
    watch.end()
    most = time.monotonic_ns() - begin
    found = Files(context).of("hangs::wait_for_peers", "blocked/nanoseconds", {"ncclAllReduce"})
    check(least <= found <= most, "blocked for %d ns, not %d to %d" % (found, least, most))


@test()
def nested(context):
    """A call of the driver inside another one is part of that."""
    _, truth, seen = watched(context, "nested")
    process = seen.process(truth["pid"])
    check_all(process, truth)
    check_times(process, truth, truth["calls"])


@test()
def left(context):
    """Calls that were left by a jump: what is called deeper on the stack later is not inside them."""
    _, truth, seen = watched(context, "deep_jumps")
    process = seen.process(truth["pid"])
    check_calls(process, truth)
    check_launches(process, truth)
    check(not process["open"], "still open: %s" % process["open"])
    check(seen.lost["calls_left_without_return"] == 10, "not counted: %s" % seen.lost)


def exceptions(context, with_python):
    _, truth, seen = watched(context, "exceptions", with_python=with_python)
    process = seen.process(truth["pid"])
    check_all(process, truth)
    check(not process["open"], "still open: %s" % process["open"])


@test()
def thrown(context):
    """In calls, and through those whose return is not hooked; threads that are cancelled in one."""
    exceptions(context, False)


@test()
def thrown_python(context):
    """By Python, for what a call gave back, and in what it calls back."""
    exceptions(context, True)


@test()
def collectives(context):
    """A collective and the launch in it are of two layers: both count."""
    truth, _, _, files = both_files(context, "nccl", False)
    comms = {row["hash"]: row for row in truth["communicators"]}
    found = set()
    for frames, _, labels in files.samples:
        if labels.get("communicator") in comms and "rank" in labels:
            found.add((labels["communicator"], str(labels["rank"])))
    wanted = {(comm, str(row["rank"])) for comm, row in comms.items()}
    check(found == wanted, "labels: %s, not %s" % (found, wanted))


# Where else NCCL's functions may be, and what exports none of them.
OTHER_NCCL = ("librccl.so.1", "libtorch_cuda.so", "libtorch_cuda_hidden.so")


@test()
def collectives_elsewhere(context):
    """In AMD's library, and linked into PyTorch's: found by their symbols."""
    callers = {name: Caller(context, "nccl", env={"GPU_CALLS_NCCL": name}) for name in OTHER_NCCL}
    watch = Watch(context, "--json", "-d", "120",
                  *(word for caller in callers.values() for word in ("-p", caller.pid)))
    truths = [caller.work() for caller in callers.values()]
    seen = Seen(watch.end())
    for truth in truths:
        check_all(seen.process(truth["pid"]), truth)
    listed = {os.path.basename(one["path"]): one for one in seen.whole["libraries"]}
    check(set(listed) == {"libcuda.so.1", *callers}, "libraries: %s" % listed)
    for name in callers:
        check(listed[name]["layers"] == ["nccl"] and listed[name]["problem"] is None and
              listed[name]["functions"] > 10, "%s: %s" % (name, listed[name]))


TOO_LARGE = "too many symbols to be searched for NCCL"
UNSEARCHABLE = "its symbols cannot be searched for NCCL"
MIB = 1 << 20
# How much of its strings a library has of which it keeps NCCL to itself, and what is said of it then.
HIDDEN = {"large": (200 * MIB, 200 * MIB, None), "too_large": (257 * MIB, 257 * MIB, TOO_LARGE),
          "cut": (200 * MIB, 20 * MIB, UNSEARCHABLE)}


def strings_grow(path, size, kept):
    """The strings of its .symtab are its end, so long as it says, of which so many are there."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    start, entry = struct.unpack_from("<Q", data, 0x28)[0], struct.unpack_from("<H", data, 0x3a)[0]
    headers = range(start, start + entry * struct.unpack_from("<H", data, 0x3c)[0], entry)
    symtab = [at for at in headers if struct.unpack_from("<I", data, at + 4)[0] == 2]
    check(len(symtab) == 1, "%d tables of symbols" % len(symtab))
    strings = headers[struct.unpack_from("<I", data, symtab[0] + 40)[0]]
    old, length = struct.unpack_from("<QQ", data, strings + 24)
    struct.pack_into("<QQ", data, strings + 24, len(data), size)
    os.unlink(path)
    with open(path, "wb") as file:
        file.write(data + data[old:old + length])
        file.truncate(len(data) + kept)


@test()
def collectives_large(context):
    """NCCL that is hidden where many symbols are; where that are too many, it is said and counted."""
    callers = {}
    for name, (size, kept, _) in HIDDEN.items():
        where = fakes(context).copy(context.path(name))
        strings_grow(os.path.join(where.folder, OTHER_NCCL[2]), size, kept)
        callers[name] = Caller(context, "nccl", where=where, env={"GPU_CALLS_NCCL": OTHER_NCCL[2]})
    watch = Watch(context, "--json", "-d", "120",
                  *(word for caller in callers.values() for word in ("-p", caller.pid)))
    truths = {name: caller.work() for name, caller in callers.items()}
    seen = Seen(watch.end())
    check_all(seen.process(truths["large"]["pid"]), truths["large"])
    listed = {os.path.basename(os.path.dirname(one["path"])): one for one in seen.whole["libraries"]
              if os.path.basename(one["path"]) == OTHER_NCCL[2]}
    equal({name: one["problem"] for name, one in listed.items()},
          {name: problem for name, (_, _, problem) in HIDDEN.items()}, "problems")
    check(listed["large"]["functions"] > 10, str(listed))
    equal({"nccl": seen.lost["libraries_not_searched_for_nccl"]}, {"nccl": 2}, "lost")
    for one in listed.values():
        if one["problem"]:
            said = "%s: not watched: %s" % (one["path"], one["problem"])
            check(said in watch.messages(), watch.messages())
    for name in ("too_large", "cut"):
        check(not seen.process(truths[name]["pid"])["collectives"], "collectives of " + name)


@test()
def collectives_python(context):
    both_files(context, "nccl", True)


@test()
def communicators(context):
    """However they are made: split, shrunk, grown, by several ids. Who got none is in none."""
    _, truth, seen = watched(context, "communicators")
    process = seen.process(truth["pid"])
    check_all(process, truth)
    check(len(process["communicators"]) == len(truth["communicators"]) == 6, "communicators: %s" %
          process["communicators"])


@test()
def one_sided(context):
    """Calls with a communicator that are no collectives: counted, not taken for one."""
    _, truth, seen = watched(context, "one_sided")
    process = seen.process(truth["pid"])
    check_all(process, truth)
    check(not process["collectives"], "collectives: %s" % process["collectives"])


@test()
def communicator_again(context):
    """A new communicator where one was destroyed."""
    _, truth, seen = watched(context, "recycled")
    process = seen.process(truth["pid"])
    check_calls(process, truth)
    wanted = truth["communicators"][0]
    found = [row for row in process["communicators"] if row["comm"] == wanted["comm"]]
    check(found, "no communicator: %s" % process["communicators"])
    check(any(all(row[name] == wanted[name] for name in ("hash", "rank", "size", "last"))
              for row in found), "%s, not %s" % (found, wanted))


@test()
def threads(context):
    truth, seen, process, files = both_files(context, "threads", False)
    check(files.of("threads::work", "calls/count") == 16028, "calls of the threads")
    lost = {reason: n for reason, n in seen.lost.items() if n}
    context.note("lost: %s; stacks: %s" % (lost, seen.whole["stacks"]))
    check(len(process["launches"]) == len(truth["launches"]), "rows of launches")


def check_open(seen, truth, names):
    """Every call that has not returned: which, since when, and who waits there."""
    now = time.monotonic_ns()
    rows = {row["tid"]: row for row in seen.process(truth["pid"])["open"]}
    check(set(rows) == {row["tid"] for row in truth["open"]}, "open: %s" % rows)
    for wanted in truth["open"]:
        found = rows[wanted["tid"]]
        age = (now - wanted["begin_ns"]) / 1e9
        check(age - 3 < found["seconds"] < age + 0.1, "%.2f s old, not %.2f" % (found["seconds"],
                                                                               age))
        equal({name: found[name] for name in names if name in wanted},
              {name: wanted[name] for name in names if name in wanted}, "open call")
        check(shown(found["stack"][0].split(" (")[0]) == wanted["function"], str(found["stack"]))
        check(any(is_frame(frame, wanted["where"]) for frame in found["stack"]),
              "%s is not on %s" % (wanted["where"], found["stack"]))


@test(modes=MODES)
def hung(context):
    caller = Caller(context, "hang")
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid)
    truth = caller.work()
    time.sleep(1)
    seen = Seen(watch.end())
    check_launches(seen.process(truth["pid"]), truth)
    check_open(seen, truth, ("thread", "function", "stream", "comm", "bytes"))


@test()
def hung_python(context):
    caller = Caller(context, "hang", with_python=True)
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid)
    truth = caller.work()
    time.sleep(1)
    check_open(Seen(watch.end()), truth, ("function", "stream", "comm", "bytes"))


def stolen_ns():
    """Of all processors together: what interrupts and the hypervisor took from their clocks."""
    with open("/proc/stat", encoding="ascii") as file:
        fields = file.readline().split()
    return sum(int(fields[i]) for i in (6, 7, 8)) * 1000000000 // os.sysconf("SC_CLK_TCK")


def asleep_by(caller, truth):
    """When all threads that hang were seen to sleep, and what was stolen by then."""
    end = time.monotonic() + SECONDS
    for row in truth["open"]:
        path = "/proc/%d/task/%d/stat" % (caller.pid, row["tid"])
        while True:
            with open(path, encoding="utf-8", errors="replace") as file:
                if file.read().rpartition(")")[2].split()[0] == "S":
                    break
            check(time.monotonic() < end, "it does not sleep")
            time.sleep(0.001)
    return time.monotonic_ns(), stolen_ns()


# By how much the clock of a processor may be behind: some ticks of 100 Hz.
TICKS_NS = 50000000
# Half of our budget: 16 MiB for memory of a process that is read, 8 for its stacks, and the rest.
MEMORY_BYTES = 32 << 20


def check_asleep(found, wanted, asleep, before, after):
    """Seconds that a thread slept, seen between before and after; it began at wanted."""
    check(found <= (after - wanted["begin_ns"]) / 1e9, "%s s asleep, since %s" % (found, wanted))
    least = before - asleep[0] - (stolen_ns() - asleep[1]) - TICKS_NS
    check(found >= least / 1e9, "%s s asleep, not %s" % (found, least / 1e9))


def check_open_before(seen, truth, times):
    """Calls that began before we came: which, who waits there, and for how long at least."""
    rows = {row["tid"]: row for row in seen.process(truth["pid"])["open"]}
    check(set(rows) == {row["tid"] for row in truth["open"]}, "open: %s" % rows)
    for wanted in truth["open"]:
        found = rows[wanted["tid"]]
        # The driver's functions leave no frame of their own.
        function = wanted["function"] if wanted["function"].startswith("nccl") else DRIVER
        arguments = {name: None if function == DRIVER else wanted[name]
                     for name in ("stream", "comm", "bytes")}
        equal({name: found[name] for name in ("function", "since_before", *arguments)},
              {"function": function, "since_before": True, **arguments}, "open call")
        check(found["thread"] == wanted.get("thread", found["thread"]), str(found))
        check_asleep(found["seconds"], wanted, *times)
        check(found["stack"][0] == function, str(found["stack"]))
        check(any(is_frame(frame, wanted["where"]) for frame in found["stack"]),
              "%s is not on %s" % (wanted["where"], found["stack"]))


DRIVER = "a function of libcuda"


def hung_before_we_came(context, with_python, *arguments):
    caller = Caller(context, "hang", with_python=with_python)
    truth = caller.work()
    asleep = asleep_by(caller, truth)
    watch = Watch(context, "--json", "-d", "120", *arguments, *(["-p", caller.pid] if arguments
                                                               else []))
    before = time.monotonic_ns()
    seen = Seen(watch.end())
    check_open_before(seen, truth, (asleep, before, time.monotonic_ns()))
    check(not any(row["calls"] for row in seen.process(truth["pid"])["calls"]), "calls were seen")
    return caller, truth


@test()
def hung_before(context):
    """Who came after a job hung sees it hang."""
    caller, truth = hung_before_we_came(context, False)
    text = context.bpfprof("gpu", "--once", "-d", "0.1", "-p", caller.pid).expect(0).out.decode()
    for row in truth["open"]:
        check(re.search(r"has not returned for more than .*: thread %d " % row["tid"], text), text)
        check(row["where"] in text, "no %s in:\n%s" % (row["where"], text))
    text = context.bpfprof("gpu", "--once", "--json", "-d", "0.1", "-p", caller.pid).expect(0).out
    with open(context.path("hung.json"), "wb") as file:
        file.write(text)
    text = context.bpfprof("report", "--nccl", context.path("hung.json")).expect(0).out.decode()
    for row in truth["open"]:
        check(re.search(r"(?m)^ +in .* for more than .*: thread %d " % row["tid"], text), text)
        check(row["where"] in text, "no %s in:\n%s" % (row["where"], text))


@test(alone=True)
def hung_before_python(context):
    hung_before_we_came(context, True, "--no-subprocesses")


def check_polls(context, caller, truth, *arguments):
    """Whose thread polls in a call since before we came, and who makes one short call after the other."""
    wanted, = truth["open"]
    watch = Watch(context, "--json", "-d", "120", *arguments)
    begin = time.monotonic_ns()
    time.sleep(2)
    seen = Seen(watch.end())
    seconds = (time.monotonic_ns() - begin) / 1e9
    rows = [row for row in seen.process(caller.pid)["open"] if row["since_before"]]
    check([row["tid"] for row in rows] == [wanted["tid"]], "polls: %s, lost: %s" % (rows, seen.lost))
    found, = rows
    equal({name: found[name] for name in ("function", "stream", "comm", "bytes")},
          {"function": DRIVER, "stream": None, "comm": None, "bytes": None}, "open call")
    check(found["thread"] == wanted.get("thread", found["thread"]), str(found))
    check(0 < found["seconds"] <= seconds + 1, "%s of %s s" % (found["seconds"], seconds))
    check(any(is_frame(frame, wanted["where"]) for frame in found["stack"]),
          "%s is not on %s" % (wanted["where"], found["stack"]))
    return found


@test(alone=True)
def polls_before(context):
    """A call that polls since before we came is found; short ones in a loop are not taken for one."""
    caller = Caller(context, "polling")
    truth = caller.work()
    check_polls(context, caller, truth, "-p", caller.pid)
    text = context.bpfprof("gpu", "--once", "-d", "2", "-p", caller.pid).expect(0).out.decode()
    check(re.search(r"has not returned for more than .*: thread %d " % truth["open"][0]["tid"], text),
          text)


@test(alone=True)
def polls_before_python(context):
    caller = Caller(context, "polling", with_python=True)
    check_polls(context, caller, caller.work())


def told_map_bytes(text):
    """What a folded file says that BPF maps took."""
    return json.loads(text.splitlines()[0].lstrip("# "))["agent"]["bpf_map_bytes"]


@test(alone=True)
def polls_memory(context):
    """Samples of threads that poll take little memory, on however many processors, and it is told."""
    idle, caller = Caller(context, "launches"), Caller(context, "polling")
    caller.work()
    Watch(context, "-d", "120", "-o", "idle.folded", "-p", idle.pid).end()
    watch = Watch(context, "-d", "120", "-o", "polls.folded", "-p", caller.pid)
    held = maps_bytes(watch.process.pid)  # whoever runs is sampled for a second at least
    watch.end()
    told, without = (told_map_bytes(context.text(name)) for name in ("polls.folded", "idle.folded"))
    context.note("%.1f MiB of maps, %.1f of them for samples" % (told / (1 << 20), (told - without) / (1 << 20)))
    check(abs(told - held) < 1 << 16, "%d bytes are told, not %d" % (told, held))
    check(1 << 20 < told - without < 5 << 20, "%d bytes, without samples %d" % (told, without))


@test()
def dozes_before(context):
    """It ran when we came, and sleeps when we go: that is found out after all else was."""
    caller = Caller(context, "dozing", with_python=True)
    begin = time.monotonic()
    caller.work()
    seconds = []
    for _ in range(6):
        seen = Seen(context.bpfprof("gpu", "--once", "--json", "-d", "0.3", "-p", caller.pid).expect(0).out)
        seconds += [row["seconds"] for row in seen.process(caller.pid)["open"]]
    check(seconds, "no call")
    check(max(seconds) <= time.monotonic() - begin, "for %s s" % max(seconds))


@test(alone=True)
def polls_before_beside_python(context):
    """The thread has no Python, but its process does."""
    caller = Caller(context, "polling_native", with_python=True)
    found = check_polls(context, caller, caller.work())
    check(not any(".py" in frame or "[unmerged]" in frame for frame in found["stack"]),
          str(found["stack"]))


def named_late(context, tries, seconds):
    """The rows of those that poll, and what is counted, where so many tries have had no time for names."""
    caller = Caller(context, "polling")
    truth = caller.work()
    done = context.bpfprof("gpu", "--once", "--json", "-d", seconds, "-p", caller.pid,
                           env=dict(os.environ, BPFPROF_TEST_LATE_NAMES=str(tries))).expect(0)
    seen = Seen(done.out)
    rows = [row for row in seen.process(caller.pid)["open"] if row["since_before"]]
    return truth["open"][0], rows, seen.lost["threads_running_at_the_start_not_read"]


@test(alone=True)
def polls_named_late(context):
    """What could not be named in time is named with the next try."""
    wanted, rows, lost = named_late(context, 2, "5")
    check([row["tid"] for row in rows] == [wanted["tid"]], "polls: %s, lost: %d" % (rows, lost))
    check(rows[0]["stack"][0] == DRIVER and
          any(is_frame(frame, wanted["where"]) for frame in rows[0]["stack"]) and
          not any("+0x" in frame for frame in rows[0]["stack"] if "libstdc++" not in frame), str(rows[0]["stack"]))


@test(alone=True)
def polls_named_too_late(context):
    """What is not named after some tries is not shown, and counted; nor is it before the end comes."""
    for tries, seconds in ((4, "5"), (2, "1.2")):
        _, rows, lost = named_late(context, tries, seconds)
        check(not rows and lost >= 1, "%d tries: %s, lost: %d" % (tries, rows, lost))


@test(alone=True)
def polls_in_many_threads(context):
    """More threads run than are looked at, on few CPUs: each of them is shown or counted."""
    caller = Caller(context, "polling_many")
    polls = caller.work()["open"]
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid)
    time.sleep(3)
    peak = peak_bytes(watch.process.pid)
    seen = Seen(watch.end())
    context.note("%.1f MiB" % (peak / (1 << 20)))
    rows = seen.process(caller.pid)["open"] if caller.pid in seen.pids() else []
    counted = {reason: n for reason, n in seen.lost.items() if n}
    context.note("%d of %d shown, lost: %s" % (len(rows), polls, counted))
    check(counted.get("threads_running_at_the_start_not_read", 0) >= polls - 128, str(counted))
    told = len(rows) + sum(counted.get(reason, 0) for reason in (
        "threads_running_at_the_start_not_read", "threads_in_calls_from_before_not_read"))
    check(told == polls, "%d of %d, lost: %s" % (told, polls, counted))
    check(peak < MEMORY_BYTES, "%.1f MiB in use" % (peak / (1 << 20)))


@test(alone=True)
def polls_no_more(context):
    """It comes back from the call while we look on."""
    caller = Caller(context, "polling")
    caller.work()
    watch = Watch(context, "--json", "-v", "-d", "120", "-p", caller.pid)
    watch.wait_for(r"threads on a CPU: [12] of \d+ are in calls that began before")
    caller.say("release")
    check(caller.line() == "released", "not released")
    seen = Seen(watch.end())
    rows = [row for row in seen.process(caller.pid)["open"] if row["since_before"]]
    check(not rows, "it has ended: %s" % rows)


ENTRIES_BYTES = 64 << 10  # of maps that take as much as is in them


def maps_of(pid):
    """How many BPF maps a process has open, and the bytes that they take."""
    found, folder = {}, "/proc/%d/fdinfo" % pid
    for name in os.listdir(folder):
        try:
            with open(os.path.join(folder, name), encoding="ascii") as file:
                fields = dict(line.split(None, 1) for line in file if line.strip())
        except FileNotFoundError:
            continue
        if "map_id:" in fields:
            found[int(fields["map_id:"])] = int(fields["memlock:"])
    return len(found), sum(found.values())


def frees_maps(context, end):
    """Samples take maps of their own, while somebody polls and no longer."""
    caller = Caller(context, "polling")
    caller.work()
    idle = Caller(context, "launches")  # and somebody is left to be watched
    watch = Watch(context, "--json", "-v", "-d", "120", "-p", caller.pid, "-p", idle.pid)
    watch.wait_for(r"threads on a CPU: [12] of \d+ are in calls that began before")
    alone = maps_of(Watch(context, "--json", "-d", "120", "-p", idle.pid).process.pid)
    during = maps_of(watch.process.pid)
    cpus = os.sysconf("SC_NPROCESSORS_CONF")
    more = (during[1] - alone[1]) / (1 << 20)
    context.note("%d maps and %.1f MiB more, on %d CPUs" % (during[0] - alone[0], more, cpus))
    check(during[0] > alone[0] and 1 < more < 5, "%s, without samples %s" % (during, alone))
    end(caller)
    deadline = time.monotonic() + SECONDS / 2
    after = during
    while after[0] != alone[0] or after[1] > alone[1] + ENTRIES_BYTES:
        check(time.monotonic() < deadline, "%s, not %s" % (after, alone))
        time.sleep(0.1)
        after = maps_of(watch.process.pid)
    return caller, watch


@test(alone=True)
def polls_no_more_frees_maps(context):
    """Also without a live table, where nobody looks at the calls before the end."""
    def release(caller):
        caller.say("release")
        check(caller.line() == "released", "not released")
    caller, watch = frees_maps(context, release)
    rows = Seen(watch.end()).process(caller.pid)["open"]
    check(not any(row["since_before"] for row in rows), str(rows))


@test(alone=True)
def polls_to_its_end_frees_maps(context):
    """Of a thread that has ended no samples come."""
    def kill(caller):
        caller.process.kill()
        caller.process.wait()
    caller, watch = frees_maps(context, kill)
    seen = Seen(watch.end())
    check(not any(one["open"] for one in seen.whole["processes"]), str(seen.whole["processes"]))


@test()
def hung_no_more(context):
    """Calls that began before we came and end before we go are over, also if they are made again."""
    caller = Caller(context, "release")
    truth = caller.work()
    over, again, hangs = truth["open"]
    asleep_by(caller, {"open": [{"tid": tid} for tid in truth["open"]]})
    watch = Watch(context, "--json", "-v", "-d", "120", "-p", caller.pid)
    watch.wait_for(r"calls that began before: 3 in 1 process")
    caller.say("release")
    check(caller.line() == "released", "not released")
    rows = {row["tid"]: row for row in Seen(watch.end()).process(caller.pid)["open"]}
    check(over not in rows, "it has ended: %s" % rows.get(over))
    check({tid: row["since_before"] for tid, row in rows.items()} == {again: False, hangs: True},
          "open: %s" % rows)


def peak_bytes(pid):
    """The most memory of its own that it had, but for what of files has gone since."""
    with open("/proc/%d/status" % pid, encoding="utf-8") as file:
        sizes = {name: int(size) << 10 for name, size in re.findall(r"(\w+):\s+(\d+) kB", file.read())}
    return sizes["VmHWM"] - sizes["RssFile"]


@test(alone=True)
def hung_many(context):
    """More hang, deeper, than there is memory for: each of them is shown or counted."""
    caller = Caller(context, "hang_many")
    hung = caller.work()["open"]
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid)
    peak = peak_bytes(watch.process.pid)
    context.note("%.1f MiB" % (peak / (1 << 20)))
    check(peak < MEMORY_BYTES, "%.1f MiB in use" % (peak / (1 << 20)))
    seen = Seen(watch.end())
    rows = seen.process(caller.pid)["open"] if caller.pid in seen.pids() else []
    counted = {reason: n for reason, n in seen.lost.items() if n}
    context.note("%d of %d shown, lost: %s" % (len(rows), hung, counted))
    if "processes_not_read_at_the_start" in counted:  # no time for it
        check(not rows, str(rows))
        return
    told = len(rows) + sum(counted.get(reason, 0) for reason in (
        "calls_from_before_no_room", "stacks_at_the_start_cut",
        "threads_running_at_the_start_not_read", "threads_in_calls_from_before_not_read"))
    # One may have been cut where the frames end, and be in another of them.
    check(hung <= told <= hung + 1, "%d of %d, lost: %s" % (told, hung, counted))
    check(len(rows) < hung, "there is room for all: this tests nothing")
    for row in rows:
        check(any("hangs::descend" in frame for frame in row["stack"]), str(row))


def gone_with_calls_open(context, end):
    caller = Caller(context, "hang")
    watch = Watch(context, "--json", "-d", "120", *OUTPUTS)
    truth = caller.work()
    end(caller)
    caller.process.wait(timeout=SECONDS)
    time.sleep(0.5)
    seen = Seen(watch.end())
    process = seen.process(truth["pid"])
    check_launches(process, truth)
    check(not process["open"], "calls of nobody: %s" % process["open"])
    check(Files(context).total("calls/count") == sum(row["calls"] for row in process["calls"]),
          "the profile does not add up")


@test(alone=True)
def exits_with_calls_open(context):
    gone_with_calls_open(context, lambda caller: caller.say("exit"))


@test(alone=True)
def killed_with_calls_open(context):
    gone_with_calls_open(context, lambda caller: caller.process.kill())


@test()
def late(context):
    """What was made before is not known, and said so: names, memory. A communicator can be asked."""
    caller = Caller(context, "late")
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid, *OUTPUTS)
    table = Watch(context, "-d", "120", "-p", caller.pid)
    truth = caller.work()
    seen = Seen(watch.end())
    process = seen.process(truth["pid"])
    check_all(process, truth)
    check(any(row["kernel"] == "kernel@0x5a0000000000" for row in process["launches"]),
          str(process["launches"]))
    check_unknown(seen, truth, 40)
    text = table.end()
    check("Lost: 40 (kernel names of launches)" in text, text)


@test()
def late_names(context):
    """The code that launches says what a handle is that was made before."""
    caller = Caller(context, "", program=fakes(context).stubs)
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid, *OUTPUTS)
    truth = caller.work()
    seen = Seen(watch.end()).process(truth["pid"])
    found = {row["kernel"]: row["calls"] for row in seen["launches"]}
    check(found == truth["launches"], "%s, not %s" % (found, truth["launches"]))
    files = Files(context)
    found = collections.Counter()
    for _, values, labels in files.samples:
        found[labels["kernel"]] += values["calls/count"]
    check(found == truth["launches"], "pprof: %s" % found)
    check(any(frames[:3] == ["ns::scale", "cuLaunchKernel", "cudaLaunchKernel"]
              for frames, _, _ in files.samples), str([one[0] for one in files.samples]))


def mapped_later(context, *arguments, scenario="mapped"):
    where = fakes(context).copy(context.path("own"))  # of which nobody else has made the first use
    caller = Caller(context, scenario, where=where)
    watch = Watch(context, "--json", "--verbose", "-d", "120",
                  *(["-p", caller.pid] if arguments else []))
    caller.say("load")
    check(caller.line() == "loaded", "not loaded")
    for path in (where.cuda, where.nccl):
        watch.wait_for(r"hooked %s: \d+ functions" % re.escape(path))
    truth = caller.work()
    check_all(Seen(watch.end()).process(truth["pid"]), truth)


@test(modes=MODES)
def mapped(context):
    mapped_later(context)


@test()
def mapped_of_one(context):
    mapped_later(context, "-p")


@test()
def mapped_by_a_child(context):
    """A process that was forked, and executes nothing, is the first to map them."""
    mapped_later(context, scenario="mapped_in_child")


@test()
def others_left_out(context):
    one, other = Caller(context, "launches"), Caller(context, "copies")
    watch = Watch(context, "--json", "-d", "120", "-p", one.pid)
    truth = one.work()
    other.work()
    seen = Seen(watch.end())
    check(seen.pids() == {one.pid}, "processes: %s" % seen.pids())
    check_all(seen.process(one.pid), truth)


@test()
def two_processes(context):
    one = Caller(context, "launches", env={"RANK": "5"})
    other = Caller(context, "memory", with_python=True)
    watch = Watch(context, "--json", "-d", "120", "-p", one.pid, "-p", other.pid)
    truths = [one.work(), other.work()]
    seen = Seen(watch.end())
    check(seen.pids() == {one.pid, other.pid}, "processes: %s" % seen.pids())
    for truth in truths:
        check_all(seen.process(truth["pid"]), truth)
    check(str(seen.process(one.pid).get("rank")) == "5", "no rank: %s" %
          seen.process(one.pid).get("rank"))


@test(alone=True)
def several_libraries(context):
    """Each process has a copy of its own."""
    where = fakes(context)
    callers = [Caller(context, scenario, where=where.copy(context.path("copy%d" % number)))
               for number, scenario in enumerate(("launches", "nccl", "copies"))]
    watch = Watch(context, "--json", "-d", "120")
    truths = [caller.work() for caller in callers]
    seen = Seen(watch.end())
    for truth in truths:
        check_all(seen.process(truth["pid"]), truth)
    paths = {one["path"] for one in seen.whole["libraries"]}
    check(len(paths) >= 6, "libraries: %s" % paths)


@test()
def forks(context):
    """A child's calls are its own. The name of a kernel that its parent looked up may be unknown."""
    _, truth, seen = watched(context, "fork", pid=False)
    check_all(seen.process(truth["pid"]), truth)
    child = truth["children"][0]
    process = seen.process(child["pid"])
    check_calls(process, child)
    equal(sums(process["launches"], lambda row: launch_key(row)[1:], "calls"),
          sums(child["launches"], lambda row: launch_key(row)[1:], "calls"), "launches of the child")


@test()
def children(context):
    """-p means a process and its children, unless they are not wanted. These are hooked as they come."""
    for arguments, wanted in (((), True), (("--no-subprocesses",), False)):
        caller, truth, seen = watched(context, "fork_wait", *arguments)
        pids = {caller.pid, truth["children"][0]["pid"]} if wanted else {caller.pid}
        check(seen.pids() == pids, "%s: %s, not %s" % (arguments, seen.pids(), pids))
        check_all(seen.process(caller.pid), truth)


@test()
def library_replaced(context):
    """Another file takes the name of one that is hooked."""
    where = fakes(context).copy(context.path("own"))
    caller = Caller(context, "launches", where=where)
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid)
    with open(where.cuda + ".new", "wb") as file:
        file.write(b"not a library")
    os.rename(where.cuda + ".new", where.cuda)
    truth = caller.work()
    check_all(Seen(watch.end()).process(truth["pid"]), truth)


@test(alone=True)
def library_touched(context):
    """A file whose time has changed is another one for a profiler, but its probes are there."""
    where = fakes(context).copy(context.path("own"))
    first = Caller(context, "launches", where=where)
    watch = Watch(context, "--json", "-d", "120")
    os.utime(where.cuda)
    second = Caller(context, "launches", where=where)
    time.sleep(1)
    truths = [first.work(), second.work()]
    seen = Seen(watch.end())
    for truth in truths:
        check_all(seen.process(truth["pid"]), truth)


@test(alone=True)
def library_of_a_breakpoint(context):
    """Code that begins with a breakpoint cannot be hooked: said, and nothing else suffers."""
    folder = context.scratch("breakpoint", 0o755)
    path = os.path.join(folder, "libcuda.so.1")
    source = os.path.join(folder, "one.S")
    with open(source, "w", encoding="ascii") as file:
        file.write(".globl cuLaunchKernel\n.type cuLaunchKernel, @function\n"
                   "cuLaunchKernel: int3; ret\n.size cuLaunchKernel, 2\n")
    subprocess.run(["gcc", "-shared", "-nostdlib", "-o", path, source], check=True)
    forger = context.spawn([python(context), "-c", FORGED, path], stdout=subprocess.PIPE)
    check(forger.stdout.readline() == b"ready\n", "it cannot be mapped")
    caller = Caller(context, "launches")
    watch = Watch(context, "--json", "-d", "120")
    truth = caller.work()
    seen = Seen(watch.end())
    check_all(seen.process(truth["pid"]), truth)
    problems = [one for one in seen.whole["libraries"] if one["path"] == path]
    check(len(problems) == 1 and problems[0]["problem"], str(seen.whole["libraries"]))


@test()
def library_deleted(context):
    """What is mapped but gone from the disk is hooked, or said not to be."""
    where = fakes(context).copy(context.path("own"))
    caller = Caller(context, "launches", where=where)
    os.unlink(where.cuda)
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid)
    truth = caller.work()
    seen = Seen(watch.end())
    problems = [one for one in seen.whole["libraries"] if one["problem"]]
    if problems or "libcuda.so.1" in watch.messages():
        context.note("said: %s" % (problems or watch.messages()[-300:]))
    else:
        check_all(seen.process(truth["pid"]), truth)


# Who maps files that lie where nobody else can see them.
OUT_OF_REACH = """
mount -t tmpfs none "$1" || exit 1
shift
for path; do echo "$path" > "$path"; done
exec "$PYTHON" -c "$FORGED" "$@"
"""


@test(alone=True)
def libraries_out_of_reach(context):
    """By their names these would be of interest: said that they are not watched, and why."""
    folder = context.scratch("own")
    paths = [os.path.join(folder, name) for name in ("libcuda.so.1", "libnccl.so.2", "librccl.so.1")]
    forger = context.spawn(["unshare", "--mount", "sh", "-c", OUT_OF_REACH, "sh", folder, *paths],
                           plain=True, env={"PYTHON": python(context), "FORGED": FORGED},
                           stdout=subprocess.PIPE)
    check(forger.stdout.readline() == b"ready\n", "the files cannot be mapped")
    caller = Caller(context, "launches")
    watch = Watch(context, "--json", "-d", "120")
    truth = caller.work()
    seen = Seen(watch.end())
    check_all(seen.process(truth["pid"]), truth)
    problems = {one["path"]: one["problem"] for one in seen.whole["libraries"]
                if one["path"].startswith(folder)}
    equal(problems, {path: "the file cannot be opened" for path in paths}, "libraries")
    for path in paths:
        check("%s: not watched: the file cannot be opened" % path in watch.messages(),
              watch.messages())


FORGED = """
import mmap, sys, time
files = [open(path, "rb") for path in sys.argv[1:]]
maps = [mmap.mmap(f.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC) for f in files]
print("ready", flush=True)
time.sleep(1000)
"""


@test(alone=True)
def forged_libraries(context):
    """Files of the right name and of any content, besides a real one."""
    where = fakes(context)
    with open(where.cuda, "rb") as file:
        real = file.read()
    folder = context.scratch("forged", 0o755)
    contents = {"empty": b"\0" * 4096, "short": real[:200], "cut": real[:len(real) // 2],
                "text": b"text\n" * 2000, "ones": real[:64] + b"\xff" * 20000}
    # Section and program headers, then the symbols, that point and count as far as they can.
    contents["headers"] = real[:32] + b"\xff" * 8 + real[40:54] + b"\xff" * 10 + real[64:]
    contents["bytes"] = bytes(byte ^ (0xff if i % 97 == 0 and i > 64 else 0)
                              for i, byte in enumerate(real))
    paths = []
    for name, content in contents.items():
        os.makedirs(os.path.join(folder, name))
        paths.append(os.path.join(folder, name, "libcuda.so.1"))
        with open(paths[-1], "wb") as file:
            file.write(content)
    forger = context.spawn([python(context), "-c", FORGED, *paths], stdout=subprocess.PIPE)
    check(forger.stdout.readline() == b"ready\n", "the files cannot be mapped")
    caller = Caller(context, "launches")
    watch = Watch(context, "--json", "-d", "120")
    truth = caller.work()
    seen = Seen(watch.end())
    check_all(seen.process(truth["pid"]), truth)
    context.note("problems: %s" % [one["problem"] for one in seen.whole["libraries"]
                                   if one["problem"]])


@test()
def wild_arguments(context):
    """Pointers that point nowhere: the call counts, what it pointed to is not made up."""
    _, truth, seen = watched(context, "faults")
    process = seen.process(truth["pid"])
    rows = {row["exported"]: row for row in process["calls"]}
    for name in ("cuLaunchKernelEx", "cuMemcpy2D_v2", "cuMemcpy3D_v2"):
        check(rows[name]["calls"] == truth["calls"][name]["calls"] and not rows[name]["bytes"],
              "%s, not %s" % (rows[name], truth["calls"][name]))
    nowhere = [row for row in process["launches"] if row["kernel"] == "kernel@0x4711"]
    check(sum(row["calls"] for row in nowhere) == 25, "launches with wild pointers: %s" % nowhere)
    check(all(row["grid"] == row["block"] == [0, 0, 0] for row in nowhere), "made up: %s" % nowhere)
    process["launches"] = [row for row in process["launches"] if row not in nowhere]
    check_launches(process, truth)
    check(seen.lost_for("argument") >= 25, "not counted: %s" % seen.lost)
    check(seen.lost[UNKNOWN] == 25, "of unknown kernels: %d" % seen.lost[UNKNOWN])


@test()
def loud_names(context):
    """Names of kernels that are not what anybody would call them."""
    caller = Caller(context, "names")
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid, *OUTPUTS)
    table = Watch(context, "-d", "120", "-p", caller.pid)
    truth = caller.work()
    process = Seen(watch.end()).process(truth["pid"])
    check_calls(process, truth)
    equal(sums(process["launches"], lambda row: (row["grid"][0], row["handle"]), "calls"),
          sums(truth["launches"], lambda row: (row["grid"][0], row["handle"]), "calls"), "launches")
    check(sum(count for _, count in Files(context).folded) == 40, "the folded file is torn")
    text = table.end()
    check("\x1b" not in text and "\x07" not in text, "the terminal was written to: %r" % text)


@test(modes=MODES)
def table(context):
    """For people: everything has its name, and its process."""
    caller = Caller(context, "nccl")
    watch = Watch(context, "-d", "120", "-p", caller.pid)
    truth = caller.work()
    text = watch.end()
    check(not text.startswith("{"), "that is JSON: " + text[:500])
    for name in [str(caller.pid), "gpu_calls"] + [row["kernel"] for row in truth["launches"]] + [
            row["operation"] for row in truth["collectives"]]:
        check(name in text, "no %s in:\n%s" % (name, text))
    context.note(text)


@test()
def table_order(context):
    """Rows by what was asked for, and no more of them."""
    caller = Caller(context, "copies")
    watches = [Watch(context, "-d", "120", "-p", caller.pid, *arguments) for arguments in (
        ("--rows", "2"), ("--rows", "0"), ("--rows", "0", "--sort", "bytes"),
        ("--rows", "0", "--sort", "blocked"))]
    caller.work()
    few, calls, size, _ = [watch.end() for watch in watches]
    check(len(few.splitlines()) < len(calls.splitlines()), "not fewer rows:\n" + few)
    # Many calls of few bytes against few calls of many bytes.
    for text, first, second in ((calls, "cuMemcpyDtoHAsync", "cuMemsetD32Async"),
                                (size, "cuMemsetD32Async", "cuMemcpyDtoHAsync")):
        check(-1 < text.find(first) < text.find(second), "%s is not before %s in:\n%s" % (
            first, second, text))


@test()
def table_of_memory(context):
    caller = Caller(context, "memory")
    watch = Watch(context, "-d", "120", "-p", caller.pid)
    caller.work()
    text = watch.end()
    check(not text.startswith("{"), "that is JSON: " + text[:500])
    check("cuMemAlloc" in text and "cuMemCreate" in text, text)
    for what in ("Memory", "Page-locked on host"):
        check(re.search(r"(?m)^  %s: .* live, peak .*; \d+ allocations, \d+ frees$" % what, text), text)


@test()
def duration(context):
    caller = Caller(context, "launches")
    watch = Watch(context, "--json", "-d", "3", "-p", caller.pid)
    truth = caller.work()
    seen = Seen(watch.end(interrupt=False))
    check(2.9 < seen.whole["seconds"] < 5, "%s s" % seen.whole["seconds"])
    check_all(seen.process(truth["pid"]), truth)
    done = context.bpfprof("gpu", "--once", "--json", "-p", caller.pid).expect(0)
    seen = Seen(done.out.decode())
    check(0.9 < seen.whole["seconds"] < 3, "%s s" % seen.whole["seconds"])
    check(all(not one["calls"] for one in seen.whole["processes"]), "calls of an idle process")


@test(paired=True, lock="gpu")
def no_cuda(context):
    """Said, and no failure."""
    idle = context.spawn(["sleep", "1000"])
    for arguments in ((), ("-p", idle.pid)):
        done = context.bpfprof("gpu", "--once", *arguments).expect(0)
        check(re.search(r"(?i)\bno\b.*(cuda|nccl)|(cuda|nccl).*\b(no|not|none)\b", done.text),
              "nothing is said: " + done.text)
        done = context.bpfprof("gpu", "--once", "--json", *arguments).expect(0)
        check(not Seen(done.out.decode()).whole["processes"], "processes: " + done.text)


@test(modes=("root",))
def wrong(context):
    for arguments, status in ((["--bogus"], 2), (["stray"], 2), (["-d", "x"], 2), (["-d", "-1"], 2),
                              (["-p", "x"], 2), (["-p"], 2), (["--once", "--sort", "nothing"], 2),
                              (["--once", "--rows", "x"], 2), (["--json"], 2),
                              (["--format", "html"], 2), (["-o", "-"], 2),
                              (["-o", "-", "--format", "nothing"], 2),
                              (["--once", "-o", "x.unknown"], 2), (["--once", "-p", "4194305"], 4)):
        done = context.bpfprof("gpu", *arguments, timeout=20).expect(status)
        check(done.err and not done.out, "%s: %s" % (arguments, done.text))
    done = context.bpfprof("gpu", "--once", "-d", "0.1", "-o", "-", "--format", "folded",
                           timeout=20).expect(0)
    check(done.out.startswith(b"# {"), "not a collapsed file: %s" % done.out[:200])
    done = context.bpfprof("gpu", "--help", timeout=10).expect(0)
    check(b"bpfprof gpu" in done.out and b"--once" in done.out, "no examples")
    done = context.bpfprof("gpu", "--once", user=NOBODY, group=NOBODY, extra_groups=[],
                           timeout=10).expect(3)
    check("CAP_BPF" in done.text, "no remedy: " + done.text)
