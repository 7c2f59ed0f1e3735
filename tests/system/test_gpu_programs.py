# SPDX-License-Identifier: Apache-2.0
"""gpu and programs that come later, end, fork, or whose libraries are replaced, deleted or forged."""

import collections
import os
import re
import subprocess
import time

from gpu_truth import (
    OUTPUTS, Caller, Files, Seen, Watch, check_all, check_calls, check_unknown, equal, fakes,
    launch_key, sums, watched)
from harness import check, test
from test_top import python

BESIDE = True


@test()
def late(context):
    """Names and memory from before the start are reported as not known. A communicator can be read."""
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
    where = fakes(context).copy(context.path("own"))  # no other process has used it yet
    caller = Caller(context, scenario, where=where)
    watch = Watch(context, "--json", "--verbose", "-d", "120",
                  *(["-p", caller.pid] if arguments else []))
    caller.say("load")
    check(caller.line() == "loaded", "not loaded")
    for path in (where.cuda, where.nccl):
        watch.wait_for(r"hooked %s: \d+ functions" % re.escape(path))
    truth = caller.work()
    check_all(Seen(watch.end()).process(truth["pid"]), truth)


@test()
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


@test(paired=True, lock="gpu")
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


@test(paired=True, lock="gpu")
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


@test(paired=True, lock="gpu")
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
    """A mapped file that was removed from the disk is hooked, or reported as not hooked."""
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


@test(paired=True, lock="gpu")
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


@test(paired=True, lock="gpu")
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
