# SPDX-License-Identifier: Apache-2.0
"""Programs that know which CUDA and NCCL calls they made, and comparisons of what gpu shows with what they know."""

import collections
import json
import os
import re
import select
import signal
import subprocess
import time
from unittest import mock

from gpu.build import Unavailable, build
from harness import Failure, Skip, check, test
from pprof import Pprof
from test_top import python

SECONDS = 30  # until something that is waited for must have come
NANOSECONDS = 0.05  # how far a time may be off
# Calls that may be counted, too: they make nothing and move nothing.
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
    """The version of the kernel."""
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


class Run:
    """A running bpfprof; its messages go to a file."""

    def __init__(self, context, *args, env=None):
        self.context = context
        self.path = context.path("messages-%d" % len(os.listdir(context.dir)))
        with open(self.path, "wb") as file:
            self.process = context.start(*args, stderr=file, env=env)

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

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        return self.finish()

    def finish(self):
        done = self.context.finish(self.process, 2 * SECONDS)
        done.err = self.messages().encode()
        return done.expect(0)


class Watch(Run):
    """A running bpfprof gpu that has hooked the libraries that are mapped."""

    def __init__(self, context, *args, env=None):
        super().__init__(context, "gpu", "--once", *args, env=env)
        self.wait_for(r"watching \d+ functions? in \d+ librar")

    def end(self, interrupt=True):
        """The program's standard output."""
        return (self.interrupt() if interrupt else self.finish()).out.decode("utf-8")


class Seen:
    """The output of bpfprof gpu --once --json."""

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
    """Launches of kernels without a name are as many as their rows have, and are unchanged."""
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


@test(modes=("root",), paired=True, lock="gpu")
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


def launches_by_name(files, where=None):
    """{kernel: launches} of a profile."""
    found = collections.Counter()
    for frames, values, labels in files.samples:
        if "kernel" in labels and (where is None or any(is_frame(frame, where) for frame in frames)):
            found[labels["kernel"]] += values["calls/count"]
    return dict(found)


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


MIB = 1 << 20


def check_open(seen, truth, names):
    """Every call that has not returned: its function, since when, and the thread that waits there."""
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


def stolen_ns():
    """Time of all processors together that interrupts and the hypervisor took from their clocks."""
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
