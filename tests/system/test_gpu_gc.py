# SPDX-License-Identifier: Apache-2.0
"""gpu --gc: Python's garbage collections, beside what its gc.callbacks say of them."""

import collections
import os
import re
import shutil
import subprocess
import time

from gpu_truth import NANOSECONDS, OUTPUTS, Caller, Seen, Watch, check_all, check_files, check_open, check_times, equal, fakes
from harness import Skip, check, test
from test_gpu_trace import STREAMS, read

BESIDE = True
BEGIN = "python:gc__start"


def has_probes(path):
    notes = subprocess.run(["readelf", "-nW", path], stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, check=False).stdout
    return b"Name: gc__start" in notes


def interpreter():
    for name in ("python3", "python3.11", "python3.13"):
        path = shutil.which(name, path="/usr/bin")
        if path and has_probes(os.path.realpath(path)):
            return path
    raise Skip("no Python here has probes of its garbage collector")


@test()
def collected(context):
    """Collections: their number, generation, time and stack; and the calls made in them."""
    caller = Caller(context, "garbage", with_python=True, interpreter=interpreter())
    watch = Watch(context, "--json", "--gc", "-d", "120", "-p", caller.pid, *OUTPUTS, "-o", "x.json")
    truth = caller.work()
    seen = Seen(watch.end())
    process = seen.process(truth["pid"])
    check_all(process, truth)
    check(truth["calls"][BEGIN]["calls"] > 15 and truth["where"]["py_train"][BEGIN] > 2,
          str(truth["calls"]))
    context.note("off by %.2f %% at most" % (100 * check_times(process, truth, [BEGIN])))
    files = check_files(context, process, truth)
    row, = [row for row in process["calls"] if row["exported"] == BEGIN]
    check(files.total("gc/nanoseconds") == row["ns"], "%d ns in the profile, not %d" % (
        files.total("gc/nanoseconds"), row["ns"]))
    for where in ("py_collect", "py_tidy", "py_train"):
        found, wanted = files.of(where, "gc/nanoseconds"), truth["collected_ns"][where]
        check(abs(found - wanted) <= NANOSECONDS * row["ns"], "%s: %d ns, not %d" % (
            where, found, wanted))
    table = Watch(context, "--gc", "-d", "120", "-p", caller.pid)
    caller.say("again")
    caller.line()
    text = table.end()
    check(re.search(r"(?m)^  Garbage collections: \S+ \S+ in 1, the longest \S+ \S+$",
                    text), "no line of them:\n" + text)
    check(not seen.lost["calls_left_without_return"] and not seen.lost["returns_of_calls_not_seen"], str(seen.lost))
    trace = read(context.path("x.json"))
    slices = [one for one in trace.slices if one.category == "python"]
    found = collections.Counter(str(one.args["generation"]) for one in slices)
    equal(dict(found), truth["generations"], "generations")
    check(all(one.tid < STREAMS and one.name == "python:gc" for one in slices), "other slices")
    total = sum(one.end - one.begin for one in slices)
    check(abs(total - row["ns"]) <= NANOSECONDS * row["ns"], "%d ns in the trace, not %d" % (
        total, row["ns"]))
    inside = [one for one in trace.slices if one.name == "cuMemFree" and
              any(gc.begin <= one.begin and one.end <= gc.end for gc in slices)]
    check(len(inside) == 20, "%d of 20 frees lie in a collection" % len(inside))


@test()
def generations_known(context):
    """A compiler that knows the generation writes it into the probe itself."""
    caller = Caller(context, "constants", with_python=True)
    watch = Watch(context, "--json", "--gc", "-d", "120", "-p", caller.pid, *OUTPUTS, "-o", "x.json")
    truth = caller.work()
    seen = Seen(watch.end())
    process = seen.process(truth["pid"])
    check_all(process, truth)
    check_files(context, process, truth)
    found = collections.Counter(str(one.args["generation"])
                                for one in read(context.path("x.json")).slices if one.category == "python")
    equal(dict(found), truth["generations"], "generations")
    check(truth["generations"] == {"0": 15, "2": 5}, str(truth["generations"]))
    row, = [row for row in process["calls"] if row["exported"] == BEGIN]
    check(0 < row["ns"] <= truth["calls"][BEGIN]["ns"], "%d ns, not %d" % (
        row["ns"], truth["calls"][BEGIN]["ns"]))
    library, = [one for one in seen.whole["libraries"] if "libgc_probes" in one["path"]]
    check(library["problem"] is None and library["functions"] == 4, str(library))
    check(not seen.lost["python_probes_not_understood"], str(seen.lost))


@test()
def hung(context):
    """The wait of a finalizer is reported, not the collection around it."""
    caller = Caller(context, "collected_hang", with_python=True, interpreter=interpreter())
    watch = Watch(context, "--json", "--gc", "-d", "120", "-p", caller.pid)
    truth = caller.work()
    time.sleep(1)
    seen = Seen(watch.end())
    check_open(seen, truth, ("function", "stream", "comm", "bytes"))
    rows = [row for row in seen.process(truth["pid"])["calls"] if row["exported"] == BEGIN]
    check(rows and rows[0]["calls"] == 1, "no collection: %s" % rows)


@test()
def not_asked_for(context):
    caller = Caller(context, "garbage", with_python=True, interpreter=interpreter())
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid)
    caller.work()
    seen = Seen(watch.end())
    check(not any(row["exported"] == BEGIN for row in seen.process(caller.pid)["calls"]), "counted")
    check(not any("python" in one["path"] for one in seen.whole["libraries"]), "it is listed")


PYTHONS = 128  # that are hooked at once


@test()
def too_many_pythons(context):
    """Pythons over the limit are reported and counted; they take no room from PyTorch and the driver."""
    folder = context.scratch("pythons")
    source = os.path.join(fakes(context).folder, "libgc_probes.so")
    for i in range(PYTHONS + 12):
        shutil.copy(source, os.path.join(folder, "probes-%03d" % i))
    caller = Caller(context, "crowd", with_python=True,
                    env=dict(os.environ, GPU_CALLS_PYTHONS=folder))
    watch = Watch(context, "--json", "--gc", "--tensors", "-d", "120", "-p", caller.pid, *OUTPUTS)
    truth = caller.work()
    seen = Seen(watch.end())
    check(truth["semaphores"][-1] == 3, "PyTorch is not hooked: %s" % truth["semaphores"])
    check_all(seen.process(truth["pid"]), truth)
    listed = [one for one in seen.whole["libraries"] if one["path"].startswith(folder)]
    refused = [one for one in listed if one["problem"] == "too many libraries are hooked already"]
    check(len(listed) == PYTHONS + 12, "%d listed" % len(listed))
    others = [one for one in seen.whole["libraries"] if one["layers"] == ["python"] and one not in listed]
    check(len(refused) == 12 + len(others), "%d refused, %d other Pythons" % (len(refused), len(others)))
    equal({"libraries_no_room": seen.lost["libraries_no_room"]}, {"libraries_no_room": len(refused)}, "lost")


ABSENT, UNREADABLE = "no probes of the garbage collector", "Python's probes in it cannot be read"
# Changes of a Python, and the message about each.
SPOILED = {"other": (b".note.stapsdt\0", b".note.nothing\0", ABSENT),
           "nowhere": (b"gc__start\0-4@", b"gc__start\0-7@", UNREADABLE)}


@test()
def without_probes(context):
    """A Python whose collections are not seen: that must not pass for none."""
    with open(os.path.realpath(interpreter()), "rb") as file:
        whole = file.read()
    callers, wanted = [], {}
    for name, (old, new, problem) in SPOILED.items():
        check(old in whole, "nothing to be changed: " + name)
        path = os.path.join(context.scratch(name), "python3")
        with open(path, "wb") as file:
            file.write(whole.replace(old, new))
        os.chmod(path, 0o755)
        callers.append(Caller(context, "garbage", with_python=True, interpreter=path))
        wanted[path] = (problem, 0)
    watch = Watch(context, "--json", "--gc", "-d", "120",
                  *(word for caller in callers for word in ("-p", caller.pid)))
    for caller in callers:
        caller.work()
    seen = Seen(watch.end())
    found = {one["path"]: (one["problem"], one["functions"]) for one in seen.whole["libraries"]
             if "python" in one["path"]}
    equal(found, wanted, "libraries")
    for path, (problem, _) in wanted.items():
        check("%s: not watched: %s" % (path, problem) in watch.messages(), watch.messages())
    lost = {name: count for name, count in seen.lost.items() if "python" in name}
    equal(lost, {"pythons_without_probes": 2, "python_probes_not_understood": 1}, "lost")
