# SPDX-License-Identifier: Apache-2.0
"""dump, gpu: with which arguments threads hang in collectives of NCCL that nobody saw begin.

The fake libnccl has in its frames what the real one has there (tests/heavy/real_nccl tries that one).
"""

import json
import re

from gpu_truth import Caller, Seen, Watch, asleep_by, equal
from harness import check, test

BESIDE = True


def hanging(context, scenario):
    caller = Caller(context, scenario, script="nccl_arguments.py")
    truth = caller.work()
    asleep_by(caller, truth)
    return caller, truth


def told(context, caller):
    """By thread: the call and its arguments."""
    out = context.bpfprof("dump", "-p", caller.pid, "--json", timeout=60).expect(0).out
    return {row["os_thread_id"]: (row["gpu_call"], row["gpu_arguments"])
            for row in json.loads(out) if row["gpu_call"] or row["gpu_arguments"]}


def wanted(truth):
    return {row["tid"]: (row["function"], row["arguments"]) for row in truth["open"]}


def check_told(context, caller, truth):
    found, want = told(context, caller), wanted(truth)
    check(set(found) == set(want), "in calls: %s, not %s" % (found, want))
    for tid, row in want.items():
        check(found[tid] == row, "%s, not %s" % (found[tid], row))


def words(row):
    """The text of dump -v."""
    is_in = row["arguments"]
    size = is_in["bytes"]
    parts = ["%d B" % size if size < 1000 else "%.1f kB" % (size / 1000), is_in["datatype"]]
    parts += [is_in["op"]] if "op" in is_in else []
    text = " ".join(parts)
    for name in ("root", "peer"):
        text += ", %s %d" % (name, is_in[name]) if name in is_in else ""
    return "  in %s (%s, communicator %s: rank %d of %d, stream %s), asleep for " % (
        row["function"], text, is_in["comm"], is_in["rank"], is_in["size"], is_in["stream"])


@test()
def dumped(context):
    caller, truth = hanging(context, "right")
    check(len(truth["open"]) == 8, "calls: %s" % truth["open"])
    check_told(context, caller, truth)
    said = context.bpfprof("dump", "-v", "-p", caller.pid, timeout=60).expect(0).out.decode()
    for row in truth["open"]:
        check("\n" + words(row) in said, "no %s in:\n%s" % (words(row), said))
    context.note(words(truth["open"][0]))
    plain = context.bpfprof("dump", "-p", caller.pid, timeout=60).expect(0).out.decode()
    check("communicator" not in plain and "  in " not in plain.replace("    ", ""), plain)


@test()
def spoilt(context):
    """Arguments without proof are not reported."""
    caller, truth = hanging(context, "wrong")
    check([row["arguments"] is None for row in truth["open"]].count(True) == 6, str(truth))
    check_told(context, caller, truth)


@test()
def mapped_again(context):
    """A name is looked for wherever the library is, but not in thousands of places."""
    caller, truth = hanging(context, "again")
    check_told(context, caller, truth)
    caller, truth = hanging(context, "everywhere")
    tid = truth["open"][0]["tid"]
    found = told(context, caller)
    check(found == {tid: ("ncclAllReduce", None)}, "found: %s" % found)


def given(row):
    """The text of gpu."""
    is_in = row["arguments"]
    size = is_in["bytes"]
    text = "%d B" % size if size < 1000 else "%.1f kB" % (size / 1000)
    text += " " + " ".join([is_in["datatype"], *([is_in["op"]] if "op" in is_in else []),
                            *("%s %d" % (name, is_in[name]) for name in ("root", "peer")
                              if name in is_in)])
    return "  %s has not returned for more than ([^\n]*): thread %d [^\n]*\n    %s,\n    %s\n" % (
        row["function"], row["tid"], text, "communicator %s, rank %d of %d, stream %s" % (
            is_in["comm"], is_in["rank"], is_in["size"], is_in["stream"]))


@test()
def seen_later(context):
    """gpu says it of calls that began before it came."""
    caller, truth = hanging(context, "right")
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid)
    process = Seen(watch.end()).process(caller.pid)
    rows = {row["tid"]: row for row in process["open"]}
    for row in truth["open"]:
        wanted = {name: value for name, value in row["arguments"].items() if name != "count"}
        equal({name: rows[row["tid"]].get(name) for name in ("function", "since_before", *wanted)},
              {"function": row["function"], "since_before": True, **wanted}, "open call")
    comms = {row["arguments"]["comm"]: row["arguments"] for row in truth["open"]}
    found = {row["comm"]: row for row in process["communicators"]}
    check(set(found) == set(comms), "%s, not %s" % (found, comms))
    for comm, row in comms.items():
        equal({name: found[comm][name] for name in ("hash", "rank", "size", "calls")},
              {**{name: row[name] for name in ("hash", "rank", "size")}, "calls": 0}, comm)
    watch = Watch(context, "-d", "120", "-p", caller.pid)
    said = watch.end()
    for row in truth["open"]:
        check(re.search(given(row), said), "no %s in:\n%s" % (given(row), said))
    for comm, row in comms.items():
        line = "  Communicator %s: rank %d of %d, hash %s\n" % (
            comm, row["rank"], row["size"], row["hash"])
        check(line in said, "no %s in:\n%s" % (line, said))
    context.note(re.search(given(truth["open"][0]), said).group())


@test(modes=("root",))
def watched(context):
    """The return addresses of calls that gpu watches are the kernel's: their frames are read all the same."""
    caller = Caller(context, "right", script="nccl_arguments.py")
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid)
    truth = caller.work()
    asleep_by(caller, truth)
    found = told(context, caller)
    rows = {row["tid"]: row for row in Seen(watch.end()).process(caller.pid)["open"]}
    for row in truth["open"]:
        # The frame of ncclBcast has the kernel's address, too: the inner call is reported.
        if row["function"] == "ncclBcast":
            continue
        check(found[row["tid"]] == (row["function"], row["arguments"]),
              "%s, not %s" % (found[row["tid"]], row))
        names = ["stream", "comm", "hash", "rank", "size", "bytes", "datatype"]
        # Of the two calls of ncclReduce, the one whose begin gpu saw has the root.
        names += [name for name in ("root", "peer") if name in row["arguments"]] or [
            name for name in ("op",) if name in row["arguments"]]
        equal({name: rows[row["tid"]].get(name) for name in names},
              {name: row["arguments"][name] for name in names}, "as gpu")
