# SPDX-License-Identifier: Apache-2.0
"""gpu against programs that know which CUDA and NCCL calls they made, through libraries without a device.

Counts, bytes, names and live memory must be equal; times within 5 %.
"""

import collections
import json
import os
import re
import signal
import time

from gpu_truth import (
    NANOSECONDS, OUTPUTS, SECONDS, UNKNOWN, Caller, Files, Seen, Watch, both_files, check_all,
    check_blocked, check_calls, check_files, check_launches, check_times, check_unknown, equal,
    fakes, kernel_name, launches_by_name, sums, watched)
from harness import MODES, NOBODY, check, test
from terminals import check_terminal, evil_names

BESIDE = True


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


UNSIZED = "batches_of_copies_not_all_bytes"


@test()
def copies(context):
    truth, seen, _, _ = both_files(context, "copies", False)
    check(truth["calls"]["cuMemcpy3DBatchAsync_v2"]["calls"] == 4, str(truth["calls"]))
    check(not seen.lost[UNSIZED], "batches whose bytes are known: %d" % seen.lost[UNSIZED])


@test()
def long_batches(context):
    """Copies beyond the part of a batch that is read, or in arrays, are not made up; the output says so."""
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
    """Memory lives until its last reference and mapping are gone, and is freed once."""
    truth, seen, process, _ = both_files(context, "handles", False)
    context.note(str(process["memory"]))
    check(truth["memory"]["live_bytes"] == 50 << 20, str(truth["memory"]))
    check(not seen.lost["mappings_no_room"] and not seen.lost["allocations_no_room"], str(seen.lost))


@test()
def memory_by_handle_python(context):
    both_files(context, "handles", True)


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
    """The name of a new kernel is lost: launches of its handle have no name, not that of the kernel before."""
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
    """Does the program have no active probe any more? The kernel may need a moment."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        caller.say("watched")
        if caller.line() == "0":
            return True
        time.sleep(0.05)
    return False


@test()
def tensors(context):
    """Tensors by PyTorch's own probes, which are off in the program until a recording needs them."""
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
    """With very many small tensors, the driver's allocations between them still have their stacks."""
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
# Changes of a libc10_cuda.so, the message about each, and the number of functions that are hooked.
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
    """Unusual names of kernels."""
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


@test()
def library_names(context):
    """Messages about libraries whose file names control a terminal or look like a line of bpfprof."""
    where = fakes(context).copy(context.scratch("fakes", 0o755))
    for path, name in zip((where.cuda, where.nccl), evil_names()):
        os.rename(path, os.path.join(os.fsencode(where.folder), name))
        os.symlink(name, os.fsencode(path))
    caller = Caller(context, "threads", where=where)
    for argv in (["gpu", "--once", "-d", 1], ["gpu", "--once", "-d", 1, "-v"], ["gpu", "--once", "-d", 1, "--json"],
                 ["gpu", "-d", 1, "-o", "x.folded"], ["record", "--gpu", "-d", 1, "-v", "-o", "y.folded"]):
        done = context.bpfprof(*argv, "-p", caller.pid).expect(0)
        check_terminal(" ".join(map(str, argv)), done.out, done.err)
        if "-v" in argv:
            check(b"lib?]0;owned??[31mpython.so" in done.err, "the library is not named: %r" % done.err)


@test()
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
