# SPDX-License-Identifier: Apache-2.0
"""gpu -o x.json against programs that wrote down each of their calls: which, by whom, and when."""

import collections
import os
import time

from chrome_trace import Broken, Trace
from gpu_truth import OUTPUTS, Caller, Files, Seen, Watch, check_all, equal, kernel_name, launch_key, operation_key, shown, sums
from harness import check, test

BESIDE = True


# Hooked functions that are no calls: look-ups, queries, and the beginning of a group.
NO_CALLS = {"cuModuleGetFunction", "cuLibraryGetKernel", "cuKernelGetFunction", "cuMemGetInfo_v2",
            "ncclGetUniqueId", "ncclGroupStart"}
STREAMS = 1 << 22  # tracks that are no threads have ids from here on


class Made:
    """A call as its program wrote it down: it lies within begin and end."""

    def __init__(self, line):
        tid, self.name, begin, end, self.by = line.split()
        self.tid, self.begin, self.end = int(tid), int(begin), int(end)


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    try:
        return Trace(data)
    except Broken as rule:
        check(False, "%s (of %d bytes)" % (rule, len(data)))


def traced(context, scenario, *args, with_python=False, trace="x.json", before_end=None):
    """A caller, its truth, the calls it wrote down, the trace, and messages."""
    log = os.path.join(context.scratch("made", 0o777), "calls")
    caller = Caller(context, scenario, with_python=with_python, env={"GPU_CALLS_LOG": log})
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid, "-o", trace, *args)
    truth = caller.work()
    if before_end:
        before_end(caller)
    seen = Seen(watch.end())
    with open(log, encoding="ascii") as file:
        made = [Made(line) for line in file]
    return truth, made, read(context.path(trace)), seen, watch.messages()


def calls_of(trace, pid):
    """Slices of calls, of each thread."""
    found = collections.defaultdict(list)
    for one in trace.slices:
        check(one.pid == pid, "of another process: %s" % one.event)
        if one.tid < STREAMS:
            found[one.tid].append(one)
    return found


def check_each(trace, truth, made, nested=False):
    """Each thread's calls: the same, in the same order, at the time when they were made.

    nested: those that are shown as parts of others were the program's, too.
    """
    wanted = collections.defaultdict(list)
    for one in made:
        if one.name not in NO_CALLS and one.by in ("caller", "inner", "left"):
            wanted[one.tid].append(one)
    found = calls_of(trace, truth["pid"])
    check(set(found) == set(wanted), "threads: %s, not %s" % (sorted(found), sorted(wanted)))
    for tid, calls in wanted.items():
        mine = [one for one in found[tid] if nested or not one.args.get("nested")]
        # An inner call comes after the call that contains it, in the order of the program's log.
        calls.sort(key=lambda one: (one.begin, one.by == "inner"))
        check([one.name for one in mine] == [shown(one.name) for one in calls],
              "thread %d: %s\n instead of %s" % (tid, [one.name for one in mine][:40],
                                                 [one.name for one in calls][:40]))
        for one, call in zip(mine, calls):
            check(call.begin <= one.begin <= one.end <= call.end, "%s: %d to %d, not in %d to %d" % (
                one.name, one.begin, one.end, call.begin, call.end))
            check((one.args.get("returned") is False) == (call.by == "left"), str(one.event))
            check(one.category == ("nccl" if one.name.startswith("nccl") else "cuda"),
                  str(one.event))
    return sum(len(calls) for calls in wanted.values())


def check_args(trace, truth):
    """The arguments, as often as they were given."""
    launches, bytes_of, collectives = (collections.Counter() for _ in range(3))
    for one in trace.slices:
        if one.tid >= STREAMS or one.args.get("nested") or one.args.get("returned") is False:
            continue
        if "kernel" in one.args:
            launches[(kernel_name(one.args["kernel"]), one.name, tuple(one.args["grid"]),
                      tuple(one.args["block"]), one.args["stream"])] += 1
        if "datatype" in one.args:
            collectives[operation_key(dict(one.args, operation=one.name))] += 1
        if not one.args.get("result"):
            bytes_of[one.name] += one.args.get("bytes", 0)
    wanted = collections.Counter()
    for row in truth["launches"]:
        key = launch_key(row)
        wanted[(key[0], shown(key[1]), *key[2:])] += row["calls"]
    equal(launches, wanted, "launches")
    equal({key: [n] for key, n in collectives.items()},
          sums(truth["collectives"], operation_key, "calls"), "collectives")
    for name in {shown(name) for name in truth["calls"]}:
        told = sum(one["bytes"] for full, one in truth["calls"].items() if shown(full) == name)
        check(bytes_of[name] == told, "%s: %d bytes, not %d" % (name, bytes_of[name], told))


def check_trace(context, scenario, *args, with_python=False):
    truth, made, trace, seen, _ = traced(context, scenario, *args, with_python=with_python)
    if not with_python:
        nr = check_each(trace, truth, made)
        context.note("%d calls, each where it was made" % nr)
    check_args(trace, truth)
    process = seen.process(truth["pid"])
    check_all(process, truth)  # a trace does not change what is counted
    calls = [one for one in trace.slices if one.tid < STREAMS]
    check(trace.other["calls"] == len(calls) and trace.other["calls_dropped"] == 0,
          str(trace.other))
    lost = {reason: n for reason, n in trace.other["lost"].items() if n}
    check(not any("traced" in reason for reason in lost), "lost: %s" % lost)
    return truth, made, trace, process


@test()
def launches(context):
    truth, _, trace, _ = check_trace(context, "launches", *OUTPUTS)
    pid = truth["pid"]
    check(trace.processes == {pid: "gpu_calls"}, str(trace.processes))
    check(trace.tracks[pid, pid] == "gpu_calls", str(trace.tracks))
    # Each launch is shown on its stream, when it was enqueued.
    streams = {track[1]: name for track, name in trace.tracks.items() if track[1] >= STREAMS}
    found, wanted = collections.Counter(), collections.Counter()
    for event in trace.instants:
        found[streams[event["tid"]], event["name"], event["ns"]] += 1
    for one in trace.slices:
        stream = one.args["stream"]
        name = "default stream of thread %d" % pid if stream == "0x2" or (
            stream == "0x0" and one.name != "cuGraphLaunch") else "stream " + stream
        wanted[name, one.args.get("kernel", one.name), one.begin] += 1
    equal(found, wanted, "enqueued")
    check(Files(context).total("calls/count") == len(trace.slices), "the profile beside it")


@test()
def launches_python(context):
    truth, made, trace, _ = check_trace(context, "launches", with_python=True)
    check_each(trace, truth, made)


@test()
def collectives(context):
    truth, _, trace, _ = check_trace(context, "nccl")
    comms = {row["comm"]: row for row in truth["communicators"]}
    for one in trace.slices:
        if "datatype" in one.args or one.name.startswith("ncclCommInit"):
            row = comms[one.args["comm"]]
            check((one.args["comm_hash"], one.args["rank"], one.args["size"]) ==
                  (row["hash"], row["rank"], row["size"]), str(one.event))
    inside = [one for one in trace.slices if one.name == "cuLaunchKernelEx"]
    outer = [one for one in trace.slices if one.category == "nccl"]
    check(inside and all(any(o.begin <= one.begin and one.end <= o.end for o in outer)
                         for one in inside), "NCCL's own launches are not in its calls")


@test()
def memory(context):
    truth, _, trace, _ = check_trace(context, "memory")
    failed = [one for one in trace.slices if one.args.get("result")]
    check(len(failed) == sum(one["errors"] for one in truth["calls"].values()) == 3 and
          all(("address" in one.args) == (one.name == "cuMemHostRegister") for one in failed),
          str([one.event for one in failed]))
    live, unknown = set(), []
    for one in sorted(trace.slices, key=lambda one: one.begin):
        if one.args.get("result"):
            continue
        key = ("Host" in one.name, one.args["address"])
        if one.name.startswith(("cuMemFree", "cuMemRelease", "cuMemHostUnregister")):
            if key not in live:
                unknown.append(key)
            live.discard(key)
        else:
            live.add(key)
    check(unknown == [(False, "0x123456789000"), (True, "0x123456789000")],
          "freed, but not allocated: %s" % unknown)
    for host, told in ((False, truth["memory"]), (True, truth["host_memory"])):
        check(sum(key[0] == host for key in live) == told["allocations"] - told["frees"] + 1,
              str(live))


@test()
def memory_python(context):
    check_trace(context, "memory", with_python=True)


@test()
def copies(context):
    check_trace(context, "copies")


@test()
def sync(context):
    check_trace(context, "sync")


@test()
def nested(context):
    """Calls inside calls of the same library are in the trace, too, and are marked."""
    truth, _, trace, _ = check_trace(context, "nested")
    inner = collections.Counter(one.name for one in trace.slices if one.args.get("nested"))
    copies_in = truth["calls"]["cuMemcpyHtoD_v2"]["calls"]
    check(inner == {"cuMemcpyHtoDAsync": copies_in, "cuStreamSynchronize": copies_in}, str(inner))


@test()
def threads(context):
    truth, made, trace, _ = check_trace(context, "threads")
    check_each(trace, truth, made)


@test()
def jumps(context):
    """A call that is left by a jump: that it is over is seen when the stack is as low again."""
    truth, made, trace, _, _ = traced(context, "jumps")
    for one in made:
        if one.by == "left":
            one.end = sorted(other.end for other in made if other.begin >= one.end)[1]
    check_each(trace, truth, made, nested=True)
    check(sum(one.args.get("returned") is False for one in trace.slices) == 10, "left by a jump")


def truth_of_spans(trace, pid):
    """From the trace's own slices: [(stream, begin, end)], by the rule that the manual gives."""
    open_since, found = {}, []
    for one in sorted((one for one in trace.slices if one.pid == pid and one.tid < STREAMS),
                      key=lambda one: one.begin):
        if one.name.startswith("cuLaunch"):
            open_since.setdefault(one.args["stream"], one.begin)
        elif one.name in ("cuStreamSynchronize", "cuCtxSynchronize"):
            for stream in [one.args["stream"]] if "stream" in one.args else list(open_since):
                if stream in open_since:
                    found.append((stream, open_since.pop(stream), one.end))
    return sorted(found + [(stream, begin, None) for stream, begin in open_since.items()])


@test()
def training_loop(context):
    """Ten steps fit in 20 MB; spans go from the first launch to the end of waiting."""
    truth, made, trace, _ = check_trace(context, "steps", "--max-trace-bytes", "20M")
    size = os.path.getsize(context.path("x.json"))
    context.note("%d calls in %.1f MB" % (len(trace.slices), size / 1e6))
    check(size <= 20e6, "%d bytes" % size)
    check_each(trace, truth, made)
    spans = sorted((first["name"].rsplit(" ", 1)[1], first["ns"], last["ns"])
                   for first, last in trace.spans)
    equal(spans, truth_of_spans(trace, truth["pid"]), "spans")
    check(len(spans) == 30, "%d spans" % len(spans))
    check(len(trace.flows) == 30 and not trace.flows_without_end, "%d arrows" % len(trace.flows))
    slices = {(one.tid, one.begin): one.name for one in trace.slices}
    for first, last in trace.flows:
        check(slices[first["tid"], first["ns"]].startswith("cuLaunch") and
              "Synchronize" in slices[last["tid"], last["ns"]], "%s, %s" % (first, last))


@test(lock="workers")
def ray_tasks(context):
    """The titles of a worker have a track of their own."""
    truth, made, trace, _, _ = traced(context, "tasks")
    check_each(trace, truth, made)
    track = [track for track, name in trace.tracks.items() if name == "Ray task"]
    check(len(track) == 1 and track[0][0] == truth["pid"], str(trace.tracks))
    found = [one for one in trace.slices if (one.pid, one.tid) == track[0]]
    begins = [one for one in made if one.by == "begins"]
    ends = [one for one in made if one.by == "ends"]
    check(len(found) == len(begins) == 5, "%d tasks" % len(found))
    for one, begin, end in zip(found, begins, ends):
        check(one.name == begin.name, one.name)
        check(begin.begin <= one.begin <= begin.end and end.begin <= one.end <= end.end,
              "%s: %d to %d" % (one.name, one.begin, one.end))
    check(trace.processes[truth["pid"]].startswith("ray::Trainer"), str(trace.processes))


def check_hung(context, end, gone):
    truth, _, trace, _, _ = traced(context, "hang", before_end=end)
    now = time.monotonic_ns()
    found = {one.tid: one for one in trace.slices if one.args.get("returned") is False}
    check(set(found) == {row["tid"] for row in truth["open"]}, str(found))
    for row in truth["open"]:
        one = found[row["tid"]]
        check(one.name == row["function"] and one.args["stream"] == row["stream"], str(one.event))
        check(one.args.get("bytes") == row.get("bytes"), str(one.event))
        check(row["begin_ns"] <= one.begin < one.end <= now, str(one.event))
        check(trace.tracks[truth["pid"], one.tid] == row["thread"], str(trace.tracks))
        if not gone:
            check(one.end - one.begin > 0.9e9, "ends before the end: %s" % one.event)


@test()
def hung(context):
    """Calls that have not returned go on to the end."""
    check_hung(context, lambda caller: time.sleep(1), False)


def kill(caller):
    caller.process.kill()
    caller.process.wait()
    time.sleep(0.5)


@test()
def killed_with_calls_open(context):
    """And those of a process that has ended, to its end."""
    check_hung(context, kill, True)


@test()
def newest_kept(context):
    """Without room the oldest events are dropped; this is reported and counted."""
    truth, made, trace, _, messages = traced(context, "threads", "--max-trace-bytes", "1M")
    size = os.path.getsize(context.path("x.json"))
    check(size <= 1 << 20, "%d bytes" % size)
    kept, dropped = trace.other["calls"], trace.other["calls_dropped"]
    context.note("%d of %d calls in %d bytes" % (kept, kept + dropped, size))
    check(kept == len(trace.slices) and kept + dropped == len(made) - 1 == 16028,
          "%d and %d of %d" % (kept, dropped, len(made)))
    check(size > 0.9 * (1 << 20), "more would have fitted: %d bytes" % size)
    check("the newest %d of %d calls" % (kept, kept + dropped) in messages, messages)
    begins = sorted(one.begin for one in made if one.name not in NO_CALLS)
    first = min(one.begin for one in trace.slices)
    # All that began later are there: to the call, but for those that began at the same moment.
    check(begins[dropped - 8] <= first, "newer calls were dropped")
    found = calls_of(trace, truth["pid"])
    for tid, slices in found.items():
        mine = [one for one in made if one.tid == tid and one.name not in NO_CALLS]
        for one, call in zip(slices[::-1], sorted(mine, key=lambda one: one.begin)[::-1]):
            check(call.begin <= one.begin <= one.end <= call.end, "not the newest of its thread")


@test()
def nothing_fits(context):
    """Names of tracks alone are more than there is room for."""
    truth, made, trace, _, messages = traced(context, "launches", "--max-trace-bytes", "64K")
    kept, dropped = trace.other["calls"], trace.other["calls_dropped"]
    total = sum(calls["calls"] for calls in truth["calls"].values())
    check(os.path.getsize(context.path("x.json")) <= 64 << 10 and kept + dropped == total and
          kept == len(trace.slices) < total, "%d and %d of %d" % (kept, dropped, total))
    check("calls" in messages and truth and made, messages)


@test()
def storm(context):
    """8 threads, 10,000 launches a second each: nothing is lost, or it is counted."""
    truth, _, trace, seen, messages = traced(context, "storm")
    made = truth["calls"]["cuLaunchKernel"]["calls"]
    lost = seen.lost["traced_calls_ring_full"]
    check(made == 80000 and len(trace.slices) + lost == made, "%d and %d of %d" % (
        len(trace.slices), lost, made))
    check(not lost or "%d calls are missing" % lost in messages, messages)
    per_thread = collections.Counter(one.tid for one in trace.slices)
    check(len(per_thread) == 8 and (lost or set(per_thread.values()) == {10000}), str(per_thread))
    context.note("%d made, %d lost" % (made, lost))


@test()
def ring_full(context):
    """With a buffer that is far too small: what is missing is counted, to the call."""
    os.environ["BPFPROF_TEST_RING_BYTES"] = "16384"
    try:
        truth, _, trace, seen, messages = traced(context, "threads")
    finally:
        del os.environ["BPFPROF_TEST_RING_BYTES"]
    made = truth["calls"]["cuLaunchKernel"]["calls"]
    lost = seen.lost["traced_calls_ring_full"]
    context.note("%d of %d lost" % (lost, made))
    check(lost and len(trace.slices) + lost == made, "%d and %d of %d" % (len(trace.slices), lost,
                                                                          made))
    check(trace.other["lost"]["traced_calls_ring_full"] == lost, str(trace.other))
    check("%d calls are missing" % lost in messages, messages)
    calls = {row["exported"]: row["calls"] for row in seen.process(truth["pid"])["calls"]}
    check(calls["cuLaunchKernel"] == made, "counted: %s" % calls)


@test()
def loud_names(context):
    """Names that are no UTF-8, or would end a string."""
    caller = Caller(context, "names")
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid, "-o", "x.json")
    truth = caller.work()
    watch.end()
    trace = read(context.path("x.json"))
    check(len(trace.slices) == sum(row["calls"] for row in truth["launches"]), "calls")
    check(all("kernel" in one.args for one in trace.slices), "names")


@test()
def standard_output(context):
    """-o - --format trace: nothing else there; and nothing stays behind elsewhere."""
    caller = Caller(context, "launches")
    spool = context.scratch("spool", 0o777)
    watch = Watch(context, "-d", "120", "-p", caller.pid, "-o", "-", "--format", "trace")
    truth = caller.work()
    trace = Trace(watch.end().encode())
    made = sum(calls["calls"] for calls in truth["calls"].values())
    check(len(trace.slices) == made and trace.processes[truth["pid"]] == "gpu_calls", "calls")
    check(not os.listdir(spool), "left behind: %s" % os.listdir(spool))


@test()
def idle(context):
    """A trace of nothing is a trace."""
    caller = Caller(context, "launches")
    context.bpfprof("gpu", "--once", "-d", "0.2", "-p", caller.pid, "-o", "a/b/x.json").expect(0)
    trace = read(context.path("a/b/x.json"))
    check(not trace.slices and trace.other["calls"] == 0, str(trace.other))
    check(os.listdir(context.path("a/b")) == ["x.json"], str(os.listdir(context.path("a/b"))))


@test(modes=("root",))
def wrong(context):
    for arguments in (["--max-trace-bytes", "1M"], ["-o", "x.json", "--max-trace-bytes", "x"],
                      ["-o", "x.json", "--max-trace-bytes", "1K"], ["-o", "x.html",
                      "--max-trace-bytes", "1M"], ["-o", "x.json", "--max-trace-bytes", "1T"],
                      ["-o", "x.jsonl"]):
        done = context.bpfprof("gpu", "--once", *arguments, timeout=20).expect(2)
        check(done.err and not done.out, "%s: %s" % (arguments, done.text))
    done = context.bpfprof("gpu", "--once", "-d", "0.1", "-o", "/proc/x.json").expect(1)
    check("/proc/x.json" in done.text, done.text)
