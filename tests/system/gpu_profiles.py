# SPDX-License-Identifier: Apache-2.0
"""Programs that call in rounds, and the calls in the profiles that are written of them."""

import collections
import json
import shutil
import subprocess
import time

from gpu_truth import SECONDS, TYPES, Caller, equal, fakes, is_frame, shown
from harness import check
from pprof import Pprof
from test_gpu_gc import BEGIN, interpreter

SHARE = 0.06  # how far a share of the samples may be off: 1,000 of them and more
BUDGET = 64 << 20  # of docs/setup.md
KINDS = ("launch", "sync", "alloc", "free")


class Steps(Caller):
    """A running gpu_steps, also under another name."""

    def __init__(self, context, *args, name=None, where=None):
        where = where or fakes(context)
        program = where.steps
        if name:
            program = context.path(name)
            shutil.copy(where.steps, program)
        self.process = context.spawn([program, where.folder, *args], stdin=subprocess.PIPE,
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
