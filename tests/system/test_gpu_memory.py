# SPDX-License-Identifier: Apache-2.0
"""gpu -o x.pickle against programs that know what memory they took and gave back: the file of PyTorch's viewer."""

import collections
import io
import pickle
import pickletools
import random

from gpu_truth import Caller, Seen, Watch
from harness import check, test

LIGHT = True
LATE_US = 100000  # how far a time may be off on a busy machine


def load(data):
    """The snapshot; the opcodes are those that the viewer knows too (a large file takes minutes)."""
    if len(data) > 1 << 20:
        return pickle.loads(data)
    known = {"PROTO", "STOP", "MARK", "EMPTY_DICT", "EMPTY_LIST", "APPEND", "SETITEMS", "BININT", "BININT1", "BININT2",
             "LONG1", "BINUNICODE", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "TUPLE2", "NEWTRUE", "NEWFALSE"}
    used = collections.Counter(opcode.name for opcode, _, _ in pickletools.genops(data))
    check(set(used) <= known, "opcodes: %s" % (set(used) - known))
    pickletools.dis(data, out=io.StringIO())
    return pickle.loads(data)


class Unpickler(pickle.Unpickler):
    """Nothing but plain values is in the file."""

    def find_class(self, module_name, global_name):
        raise AssertionError("a class: %s.%s" % (module_name, global_name))


def history(context, scenario, *arguments, env=None):
    """The caller's truth, the table as JSON, and the snapshot."""
    seed = random.randrange(1 << 30)
    context.note("SEED=%d" % seed)
    caller = Caller(context, scenario, script="gpu_history.py", env={"SEED": str(seed), **(env or {})})
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid, "-o", "x.pickle", *arguments)
    truth = caller.work()
    seen = Seen(watch.end())
    return truth, seen, load(context.read("x.pickle"))


def is_in(frames, where):
    return not where or any(frame["name"] == where and frame["filename"].endswith("gpu_history.py") and
                            frame["line"] > 0 for frame in frames)


def check_trace(trace, truth):
    """The same events, in the same order, at their times."""
    wanted = truth["events"]
    check(len(trace) == len(wanted), "%d events, not %d" % (len(trace), len(wanted)))
    for found, want in zip(trace, wanted):
        for key in ("action", "addr", "size", "stream"):
            check(found[key] == want[key], "%s, not %s" % (found, want))
        check(abs(found["time_us"] - want["time_ns"] / 1000) < LATE_US, "time of %s, not %s" % (found, want))
        if not found["action"].startswith("free") and found["action"] not in ("segment_free", "segment_unmap"):
            check(is_in(found["frames"], want["where"]), "stack of %s, not %s" % (found, want))
        elif found["frames"]:
            check(is_in(found["frames"], want["where"]), "stack of %s, not %s" % (found, want))
    check([one["time_us"] for one in trace] == sorted(one["time_us"] for one in trace), "times are not in order")


def check_segments(segments, wanted):
    """What is held at the end; the blocks of each segment fill it."""
    found = {segment["address"]: segment for segment in segments}
    check(len(found) == len(segments) and set(found) == set(wanted), "segments: %s, not %s" % (
        sorted(found), sorted(wanted)))
    for va, (size, where, blocks) in wanted.items():
        segment = found[va]
        check(segment["total_size"] == size, "%s, not of %d bytes" % (segment, size))
        check(where is None or is_in(segment["frames"], where), "stack of %s" % segment)
        at, active = va, {}
        for block in segment["blocks"]:
            check(block["address"] == at, "a block at 0x%x, not 0x%x" % (block["address"], at))
            at += block["size"]
            if block["state"] == "active_allocated":
                active[block["address"]] = block
        check(at == va + size, "blocks of %d bytes, not %d" % (at - va, size))
        check({at: block["size"] for at, block in active.items()} == {at: one[0] for at, one in blocks.items()},
              "blocks: %s, not %s" % (active, blocks))
        for at, block in blocks.items():
            check(is_in(active[at]["frames"], block[1]), "stack of %s, not %s" % (active[at], block))
        in_use = sum(one[0] for one in blocks.values())
        check(segment["allocated_size"] == segment["active_size"] == segment["requested_size"] == in_use, str(segment))


class Replay:
    """As a viewer does, from the end back to the begin: each event undoes something that is there."""

    def __init__(self, segments, trace):
        self.segments = {one["address"]: one["address"] + one["total_size"] for one in segments}
        self.blocks = {block["address"]: block["size"] for one in segments for block in one["blocks"]
                       if block["state"] == "active_allocated"}
        self.requested = {}
        for event in reversed(trace):
            getattr(self, event["action"])(event["addr"], event["size"])
        check(not self.requested, "no free was asked for: %s" % self.requested)

    def around(self, va, end):
        return [(first, last) for first, last in self.segments.items() if first < end and va < last]

    def free_completed(self, va, size):
        check(va not in self.blocks and len(self.around(va, va + size)) == 1, "free of 0x%x" % va)
        self.blocks[va] = self.requested[va] = size

    def free_requested(self, va, size):
        check(self.requested.pop(va) == size, "0x%x" % va)

    def alloc(self, va, size):
        check(self.blocks.pop(va) == size and len(self.around(va, va + size)) == 1, "0x%x" % va)

    def segment_free(self, va, size):
        check(not self.around(va, va + size), "0x%x" % va)
        self.segments[va] = va + size

    def segment_alloc(self, va, size):
        check(self.segments.pop(va) == va + size, "0x%x" % va)
        check(not any(va <= at < va + size for at in self.blocks), "blocks in 0x%x" % va)

    def segment_unmap(self, va, size):
        check(not self.around(va, va + size), "0x%x" % va)
        end = self.segments.pop(va + size, va + size)
        first = next((first for first, last in self.segments.items() if last == va), va)
        self.segments[first] = end

    def segment_map(self, va, size):
        (first, last), = self.around(va, va + size)
        check(first <= va and va + size <= last, "0x%x" % va)
        check(not any(at < va + size and va < at + bytes_ for at, bytes_ in self.blocks.items()), "0x%x" % va)
        del self.segments[first]
        self.segments.update({begin: end for begin, end in ((first, va), (va + size, last)) if begin < end})


def numbers(segments):
    """JSON has texts as keys."""
    return {int(va): (size, where, {int(at): block for at, block in blocks.items()})
            for va, (size, where, blocks) in segments.items()}


def check_all(context, truth, seen, snapshot):
    check([one["pid"] for one in snapshot["processes"]] == [truth["pid"]], str(snapshot["processes"]))
    check(len(snapshot["device_traces"]) == 1, "%d devices" % len(snapshot["device_traces"]))
    check(all(one["device"] == 0 for one in snapshot["segments"]), "another device")
    check(not seen.lost_for("memory_history"), str(seen.lost))
    with open(context.path("x.pickle"), "rb") as file:
        check(Unpickler(file).load() == snapshot, "another value")
    check_trace(snapshot["device_traces"][0], truth)
    check_segments(snapshot["segments"], numbers(truth["segments"]))
    replay = Replay(snapshot["segments"], snapshot["device_traces"][0])
    check(not replay.segments and not replay.blocks, "left: %s, %s" % (replay.segments, replay.blocks))


@test()
def driver(context):
    """Each allocation of a program that divides nothing is a segment with one block."""
    truth, seen, snapshot = history(context, "driver")
    check_all(context, truth, seen, snapshot)
    context.note("%d events in %d bytes" % (len(truth["events"]), len(context.read("x.pickle"))))


@test()
def tensors(context):
    """Segments with PyTorch's tensors in them, beside memory that is not PyTorch's."""
    truth, seen, snapshot = history(context, "caching", "--tensors")
    check_all(context, truth, seen, snapshot)
    context.note("%d events in %d bytes" % (len(truth["events"]), len(context.read("x.pickle"))))


@test()
def expandable_segments(context):
    truth, seen, snapshot = history(context, "expandable", "--tensors")
    check_all(context, truth, seen, snapshot)
    check([one["is_expandable"] for one in snapshot["segments"]] == [True], str(snapshot["segments"]))


@test()
def from_before(context):
    """Tensors in segments that are not known: these are guessed, and no event is invented for them."""
    truth, _, snapshot = history(context, "earlier", "--tensors")
    check_trace(snapshot["device_traces"][0], truth)
    wanted = numbers(truth["segments"])
    for va in sorted(wanted)[:2]:
        blocks = wanted.pop(va)[2]
        wanted[va] = (18 * (1 << 20) + 300018, None, blocks)  # up to the end of its last tensor
    check_segments(snapshot["segments"], wanted)
    replay = Replay(snapshot["segments"], snapshot["device_traces"][0])
    check(len(replay.segments) == 2 and not replay.blocks, "left: %s, %s" % (replay.segments, replay.blocks))


@test()
def without_tensors(context):
    """Segments alone, which look used as a whole, where tensors are not asked for."""
    truth, _, snapshot = history(context, "caching")
    trace = snapshot["device_traces"][0]
    wanted = [event for event in truth["events"] if event["action"].startswith("segment")]
    found = [event for event in trace if event["action"].startswith("segment")]
    check([(one["action"], one["addr"], one["size"]) for one in found] ==
          [(one["action"], one["addr"], one["size"]) for one in wanted], str(found))
    Replay(snapshot["segments"], trace)
    for segment in snapshot["segments"]:
        check([block["state"] for block in segment["blocks"]] == ["active_allocated"], str(segment))


@test()
def too_many(context):
    """The allocations that were freed first are dropped, and counted; the rest is exact."""
    rounds = 80000
    truth, seen, snapshot = history(context, "busy", "--tensors", env={"ROUNDS": str(rounds)})
    trace = snapshot["device_traces"][0]
    check(not seen.lost["events_ring_full"], "the program was too fast")
    check(seen.lost["memory_history_no_room"] == rounds + 3 - (1 << 16), str(seen.lost))
    base = truth["events"][0]["addr"]
    wanted = [(base, 512, action) for action in ("alloc", "free_requested", "free_completed")] * ((1 << 16) - 3)
    wanted.append((base + (5 << 20), 2 << 20, "alloc"))
    check([(one["addr"], one["size"], one["action"]) for one in trace] == wanted, "%d events" % len(trace))
    Replay(snapshot["segments"], trace)
    check_segments(snapshot["segments"], numbers(truth["segments"]))
    context.note("%d events in %d bytes" % (len(trace), len(context.read("x.pickle"))))


@test()
def wild(context):
    """Addresses and sizes that no device has are counted, and in no file."""
    truth, seen, snapshot = history(context, "wild", "--tensors")
    check(seen.lost["memory_history_implausible"] == 5, str(seen.lost))
    check_trace(snapshot["device_traces"][0], truth)
    check_segments(snapshot["segments"], numbers(truth["segments"]))


@test()
def two_devices(context):
    """What is on one GPU is a device of its own: by the tensors, or where the memory was made; else it is not known."""
    truth, _, snapshot = history(context, "devices", "--tensors")
    check([(one["pid"], one.get("gpu")) for one in snapshot["processes"]] ==
          [(truth["pid"], gpu) for gpu in (0, 1, None)], str(snapshot["processes"]))
    for one, trace in zip(snapshot["processes"], snapshot["device_traces"]):
        events = [event for event in truth["events"] if event["device"] == one.get("gpu")]
        check(len(events) > 3, str(truth))
        # Memory by handle without a tensor is one block.
        found = [(event["action"], event["addr"], event["size"]) for event in trace
                 if not (event["action"] == "alloc" and is_in(event["frames"], "py_map"))]
        check(found == [(event["action"], event["addr"], event["size"]) for event in events], "%s, not %s" % (found, events))
        segments = [segment for segment in snapshot["segments"] if segment["device"] == one["device"]]
        Replay(segments, trace)
        check({segment["address"] for segment in segments} == {
            int(va) for va in truth["segments"] if any(event["addr"] == int(va) and event["action"].startswith("segment")
                                                       for event in events)}, "segments of %s" % one)


@test()
def two_processes(context):
    """Each is a device of its own."""
    callers = [Caller(context, "driver", script="gpu_history.py", env={"SEED": str(seed), "RANK": str(seed)})
               for seed in (5, 6)]
    watch = Watch(context, "-d", "120", "-p", callers[0].pid, "-p", callers[1].pid, "-o", "x.pickle")
    truths = {caller.pid: caller.work() for caller in callers}
    callers[0].process.kill()  # what it held stays
    callers[0].process.wait()
    watch.end()
    snapshot = load(context.read("x.pickle"))
    check({one["pid"]: one["rank"] for one in snapshot["processes"]} == {callers[0].pid: "5", callers[1].pid: "6"},
          str(snapshot["processes"]))
    for process in snapshot["processes"]:
        truth = truths[process["pid"]]
        check_trace(snapshot["device_traces"][process["device"]], truth)
        check_segments([one for one in snapshot["segments"] if one["device"] == process["device"]],
                       numbers(truth["segments"]))
