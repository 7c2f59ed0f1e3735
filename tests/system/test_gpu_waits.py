# SPDX-License-Identifier: Apache-2.0
"""gpu: how long collectives take, and devices have nothing to do, against programs that know it.

The fake libcuda keeps streams busy for a chosen time; the programs note when they saw what.
"""

import collections
import json
import re
import time

from chrome_trace import Trace
from gpu_truth import Caller, Seen, Watch, asleep_by, check_asleep, equal, is_frame, shown, sums
from harness import check, test
from pprof import Pprof

LIGHT = True
SHARED_NS = 20000000  # two samples of the clock
TIMES = ("ns", "max_ns", "within_ns", "within_max_ns")


def waited(context, scenario, *args):
    caller = Caller(context, scenario, script="gpu_waits.py")
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid, *args)
    truth = caller.work()
    return truth, Seen(watch.end())


def lost(seen):
    """Losses except for names, which no test looks up here, and for stacks of sleeps that end meanwhile."""
    return {reason: n for reason, n in seen.lost.items()
            if n and reason not in ("kernel_names_of_launches", "stacks_of_sleepers_unread")}


def key_of(row):
    return (row["operation"], row["datatype"], row.get("op"), row.get("peer"), row["comm"],
            row["bytes"])


def check_between(found, bounds, what):
    """A time that the program could not know any better."""
    check(bounds[0] <= found <= bounds[1], "%s: %d, not %d to %d" % (what, found, *bounds))


def check_completions(context, truth, seen):
    """Each row is there, and all numbers are right; times as far as the program can know them."""
    found = {key_of(row): row for row in seen.process(truth["pid"])["completions"]}
    wanted = {key_of(row): row for row in truth["completions"]}
    check(set(found) == set(wanted), "rows %s, not %s" % (sorted(found), sorted(wanted)))
    for key, row in wanted.items():
        names = ("count", "pending", "unknown")
        equal({name: found[key][name] for name in names}, {name: row[name] for name in names},
              str(key))
        for name in TIMES:
            check_between(found[key][name], row[name], "%s of %s" % (name, key))
        context.note("%s: %s within %s" % (key, found[key]["ns"], row["ns"]))


def check_in_profile(data, rows):
    """By operation the profile has what the rows have, with the stacks of the calls."""
    profile = Pprof(data)
    at = [profile.sample_types.index(kind) for kind in ("completed/count", "complete/nanoseconds")]
    found = {}
    for sample in profile.samples:
        values = [sample["values"][one] for one in at]
        if any(values):
            old = found.get(sample["labels"]["op"], (0, 0))
            found[sample["labels"]["op"]] = tuple(a + b for a, b in zip(old, values))
    wanted = {}
    for row in rows:
        old = wanted.get(row["operation"], (0, 0))
        wanted[row["operation"]] = (old[0] + row["count"], old[1] + row["ns"])
    equal(found, wanted, "completions in the profile")


@test()
def synced(context):
    """Streams, events and contexts that are waited for."""
    truth, seen = waited(context, "synced")
    check_completions(context, truth, seen)
    check(not lost(seen), "lost: %s" % lost(seen))


@test()
def crossed(context):
    """A stream that had to wait for another stream's event, and went on, proves that stream's work."""
    truth, seen = waited(context, "crossed")
    check_completions(context, truth, seen)
    check(set(lost(seen)) <= {"waits_between_streams_no_room"}, "lost: %s" % lost(seen))


@test()
def watchdog(context):
    """Events that are asked for each 40 ms: that late it is known."""
    truth, seen = waited(context, "watchdog")
    check_completions(context, truth, seen)
    rows = [row for row in seen.process(truth["pid"])["completions"] if row["bytes"] != 4 * 4096]
    check(all(row["within_max_ns"] > 5e6 for row in rows), "nothing is that exact: %s" % rows)
    check(not lost(seen), "lost: %s" % lost(seen))


@test()
def groups(context):
    truth, seen = waited(context, "groups", "-o", "x.pb.gz")
    check_completions(context, truth, seen)
    check_in_profile(context.read("x.pb.gz"), seen.process(truth["pid"])["completions"])


@test()
def composite(context):
    """A collective that is made of others, in a group, is one; and what comes after it is in no group."""
    truth, seen = waited(context, "composite")
    check_completions(context, truth, seen)
    calls = {row["function"]: row["calls"] for row in seen.process(truth["pid"])["calls"]
             if row["function"].startswith("nccl")}
    equal({name: calls.get(name) for name in ("ncclAllToAll", "ncclAllReduce", "ncclSend", "ncclRecv")},
          {"ncclAllToAll": 4, "ncclAllReduce": 4, "ncclSend": None, "ncclRecv": None}, "calls")


def hung_group(context, group, rank=0, *args):
    """A process whose group's end does not return, gpu's report about it, and its whole JSON."""
    caller = Caller(context, "hung_group", script="gpu_waits.py",
                    env={"GROUP": group, "RANK": str(rank)})
    watches = [Watch(context, *more, "-d", "120", "-p", caller.pid, *args)
               for more in (["--json"], ["--rows", "64"])]
    truth = caller.work()
    time.sleep(1.5)
    seen, text = Seen(watches[0].end()), watches[1].end()
    found = [one for one in seen.process(truth["pid"])["open"] if one["function"] == "ncclGroupEnd"]
    check([one["tid"] for one in found] == [truth["tid"]] * (group != "late"), str(found))
    context.note(text)
    return truth, found[0] if found else None, text, seen


def grouped_lines(text):
    return re.search(r"ncclGroupEnd has not returned .*\n((?:(?:    (?:in|and|\.)|        ).*\n)*)",
                     text).group(1)


@test()
def group_of_two_communicators(context):
    """The collectives that a group waits for are reported, and the waiting ranks of each communicator."""
    truth, found, text, waiting = hung_group(context, "both")
    equal({"group": found["group"], "calls": found["group_calls"], "all": found["group_complete"]},
          {"group": truth["group"], "calls": 5, "all": True}, "group")
    p2p, collective = truth["comms"][:2]
    lines = [("in the group: 2 ncclSend float32 4.0 MB peer 1,", p2p, "0x7e0000001000"),
             ("and 1 ncclRecv float32 4.0 MB peer 1,", p2p, "0x7e0000001000"),
             ("and 1 ncclAllReduce float32 4.0 kB sum,", collective, "0x7e0000002000"),
             ("and 1 ncclAllReduce float32 4.0 kB sum,", collective, "0x2")]
    equal(grouped_lines(text), "".join(
        "    %s\n        communicator %s, rank 0 of 2, stream %s\n" % line for line in lines), "text")
    _, _, _, other = hung_group(context, "late", 1)
    files = []
    for name, seen in (("a.json", waiting), ("b.json", other)):
        files.append(context.path(name))
        with open(files[-1], "w", encoding="utf-8") as file:
            json.dump(seen.whole, file)
    text = context.bpfprof("report", "--nccl", *files, timeout=30).expect(0).out.decode()
    context.note(text)
    hashes = {row["comm"]: row["hash"] for row in waiting.process(truth["pid"])["communicators"]}
    parts = {part.split(",")[0]: part for part in text.split("\nCommunicator ")[1:]}
    parts = [parts[hashes[comm]] for comm in truth["comms"]]
    check("BEHIND: rank 1, in no call of this communicator, while rank 0 waits, in ncclSend (group) "
          "for " in parts[0], text)
    check("BEHIND: rank 1, in no collective of this communicator, while rank 0 waits, in "
          "ncclAllReduce (group) for " in parts[1], text)
    check("BEHIND: rank 1, with" in parts[2] or "BEHIND" not in parts[2], text)
    check("another communicator" not in text and " waits, in" not in parts[2], text)


@test()
def group_of_many_kinds(context):
    truth, found, text, _ = hung_group(context, "many")
    check(found["group"] == truth["group"][:512] and found["group_calls"] == 600 and
          not found["group_complete"], "%s" % found)
    lines = grouped_lines(text).splitlines()
    check(len(lines) == 2 * 8 + 2 and lines[-2:] == [
        "    ... and 504 more", "    and 88 more that are not known"], str(lines))


@test()
def group_not_known(context):
    """A group that began before the recording, or into which a capture falls, is reported so."""
    _, found, text, _ = hung_group(context, "begun")
    check((found["group"], found["group_calls"], found["group_complete"]) == (None, None, False),
          str(found))
    equal(grouped_lines(text), "    in the group: not known, the group began before the hooks\n",
          "text")
    truth, found, text, _ = hung_group(context, "captured")
    check((found["group"], found["group_calls"], found["group_complete"]) ==
          (truth["group"], 2, False), str(found))
    check(grouped_lines(text).endswith("    and 1 more that are not known\n"), text)


def captured_rows(process):
    """{(function, stream, captured): [calls, bytes]} of what puts something on a stream."""
    found = collections.defaultdict(lambda: [0, 0])
    for row in process["launches"]:
        check((row["grid"] == [0, 0, 0]) == row["captured"], "%s" % row)
    for row in process["launches"] + process["copies"]:
        at = found[(row["function"], int(row["stream"], 16), row["captured"])]
        at[0] += row["calls"]
        at[1] += row.get("bytes", 0)
    return dict(found)


@test()
def captures(context):
    """Work written into a graph, on joined streams as well, and work that runs beside it on other streams."""
    caller = Caller(context, "captures", script="gpu_waits.py")
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid, "-o", "x.pb.gz", "-o", "x.json")
    truth = caller.work()
    seen = Seen(watch.end())
    process = seen.process(caller.pid)
    written = sum(row[3] for row in truth["rows"] if row[2]) + 3  # with the collectives
    wanted = sums([{"key": (shown(name), stream, captured), "calls": calls, "bytes": size}
                   for name, stream, captured, calls, size in truth["rows"] if name != "cuGraphLaunch"],
                  lambda row: row["key"], "calls", "bytes")
    equal(captured_rows(process), wanted, "rows")
    equal(len([row for row in process["launches"] if row["captured"] and row["stream"] == "0x7e0000001000"]),
          2, "rows of all sizes, with that of NCCL's kernel")
    equal([(row["captured"], row["calls"]) for row in process["collectives"]], [(True, 3)],
          "collectives")
    check(not lost(seen) or set(lost(seen)) == {"collectives_in_graphs_not_timed"}, str(lost(seen)))
    bytes_moved = sum(size for _, _, captured, _, size in truth["rows"] if not captured)
    equal(sum(row["bytes"] for row in process["calls"]), bytes_moved, "bytes")
    profile = Pprof(context.read("x.pb.gz"))
    calls, moved = [profile.sample_types.index(kind) for kind in ("calls/count", "moved/bytes")]
    found, size = 0, 0
    for sample in profile.samples:
        frames = [name for one in sample["stack"] for name in profile.locations[one]["functions"]]
        found += sample["values"][calls] if "[captured]" in frames else 0
        size += sample["values"][moved]
        check("[captured]" not in frames or frames.index("[captured]") < 2, str(frames))
    equal((found, size), (written, bytes_moved), "calls and bytes in the profile")
    check(profile.stats["gpu"]["calls"]["captured"] == written, str(profile.stats))
    with open(context.path("x.json"), "rb") as file:
        trace = Trace(file.read())
    slices = [one for one in trace.slices if one.args.get("captured")]
    equal((len(slices), len(trace.instants)),
          (written, sum(row[3] for row in truth["rows"] if not row[2])), "slices and what ran")


def graph_rows(rows):
    """{content: launches}; graphs without known content count together."""
    found = collections.Counter()
    for row in rows:
        nodes = sorted((node["function"], str(node["kernel"]), node["count"]) for node in row["nodes"])
        found[(row["complete"], *nodes)] += row["launches"]
    return found


@test()
def only_captures(context):
    """A process that begins a graph and ends has room among the captures until it ends, no longer."""
    caller = Caller(context, "children", script="gpu_waits.py")
    watch = Watch(context, "--json", "-d", "120")
    caller.work()
    seen = Seen(watch.end())
    check(seen.process(caller.pid)["completions"], "not followed: %s" % seen.lost)
    check(not seen.lost["processes_of_waits_no_room"], str(seen.lost))


@test()
def graphs(context):
    """Launches of CUDA graphs run these kernels, with any handles."""
    caller = Caller(context, "graphs", script="gpu_waits.py")
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid, "-o", "x.pb.gz", "-o", "x.json")
    truth = caller.work()
    seen = Seen(watch.end())
    found = seen.process(caller.pid)["graphs"]
    with open(context.path("x.json"), "rb") as file:
        trace = Trace(file.read())
    equal(collections.Counter(one.args.get("content") for one in trace.slices
                              if one.name == "cuGraphLaunch" and "captured" not in one.args),
          collections.Counter({graph["content"]: graph["launches"] for graph in found}), "traced")
    for graph in found:
        check((graph["content"] is None) == (not graph["complete"] and not graph["nodes"]), str(graph))
    equal(graph_rows(found), graph_rows(truth["graphs"]), "graphs")
    equal(lost(seen), {"captured_streams_no_room": 9}, "lost")
    profile = Pprof(context.read("x.pb.gz"))
    calls, names = profile.sample_types.index("calls/count"), collections.Counter()
    for sample in profile.samples:
        frames = [name for one in sample["stack"] for name in profile.locations[one]["functions"]]
        if frames[0].startswith("graph of ") and frames[1] != "[captured]":
            names[frames[0]] += sample["values"][calls]
    wanted = collections.Counter()
    for graph in truth["graphs"]:
        kernels = sum(node["count"] for node in graph["nodes"] if node["kernel"])
        if graph["complete"] or graph["nodes"]:
            wanted["graph of %s%d kernel%s" % ("" if graph["complete"] else "at least ", kernels,
                                               "" if kernels == 1 else "s")] += graph["launches"]
    equal(names, wanted, "frames")


def check_ratio(text, fast, slow):
    """Of the means of two of the program's rows, as far as it knows these, as it was printed."""
    check(fast["count"] == slow["count"], "%s and %s" % (fast, slow))
    half = 0.06 if "." in text else 0.51  # of the last digit
    check(slow["ns"][0] / fast["ns"][1] - half <= float(text) <= slow["ns"][1] / fast["ns"][0] + half,
          "%s, not %s to %s" % (text, slow["ns"], fast["ns"]))


def two_groups_seen(context, run):
    """Two ranks of two groups: what they know, by group, and the file that gpu wrote of them."""
    callers = [Caller(context, "two_groups", script="gpu_waits.py",
                      env={"RANK": str(rank), "RUN": run, "FAST_MS": fast, "SLOW_MS": slow})
               for rank, (fast, slow) in enumerate((("2", "20"), ("5", "70")))]
    pids = [arg for caller in callers for arg in ("-p", caller.pid)]
    watch = Watch(context, "--json", "-d", "120", *pids)
    truths = [caller.work() for caller in callers]
    seen = Seen(watch.end())
    rows = {}
    for truth in truths:
        known = {row["comm"]: row["hash"] for row in seen.process(truth["pid"])["communicators"]}
        for row in truth["completions"]:
            rows.setdefault(known[row["comm"]], []).append(row)
    path = context.path(run + ".json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(seen.whole, file)
    return rows, path


def ratios(text):
    """{communicator: ratio} of the times until collectives were complete, None: of all of that size."""
    part = text.split("\nTime in calls")[0]
    return {comm or None: times for comm, times in re.findall(
        r"ncclAllReduce float32, 4.0 kB each, 2 ranks(?:, communicator (0x\w+))?: ([\d.]+) times\n", part)}


@test(modes=("root",))
def two_groups(context):
    """Groups of as many ranks are each compared by themselves: which is slow by its nature does not count."""
    rows, path = two_groups_seen(context, "one")
    text = context.bpfprof("report", "--nccl", path, timeout=30).expect(0).out.decode()
    context.note(text)
    found = ratios(text)
    equal(set(found), set(rows), "communicators")
    check(len(rows) == 2 and "several communicators" not in text, text)
    for comm, (fast, slow) in rows.items():
        check_ratio(found[comm], fast, slow)
    other, path_2 = two_groups_seen(context, "two")
    text = context.bpfprof("report", "--nccl", path, path_2, timeout=30).expect(0).out.decode()
    context.note(text)
    found = ratios(text)
    equal(set(found), {None, *rows, *other}, "communicators of both runs")
    for comm, (fast, slow) in {**rows, **other}.items():
        check_ratio(found[comm], fast, slow)
    check(text.count("(one run has several communicators of that size: ") in (1, 2), text)


@test(modes=("root",))
def slow_not_hung(context):
    """The same program on a device that takes a hundred times as long: the times are reported by size."""
    files, rows = [], []
    for name, speed in (("fast.json", "1"), ("slow.json", "100")):
        caller = Caller(context, "speed", script="gpu_waits.py", env={"WORK_MS": speed})
        watch = Watch(context, "--json", "-d", "120", "-p", caller.pid)
        rows += caller.work()["completions"]
        with open(context.path(name), "w", encoding="utf-8") as file:
            file.write(watch.end())
        files.append(context.path(name))
    text = context.bpfprof("report", "--nccl", *files, timeout=30).expect(0).out.decode()
    context.note(text)
    ratio = re.search(r"ncclAllReduce float32, 4.0 MB each, 4 ranks: ([\d.]+) times\n", text)
    check(ratio and float(ratio.group(1)) <= 101, "ratio in:\n" + text)
    check_ratio(ratio.group(1), *rows)
    rows = [row for row in text[ratio.end():].splitlines()[1:3] if row.count("<= ") == 2]
    check([row.split("[")[1][0] for row in rows] == ["2", "1"], "order:\n" + text)


@test()
def hanging(context):
    """Collectives that have returned without a seen completion: which, on which stream, for how long."""
    caller = Caller(context, "hanging", script="gpu_waits.py")
    watches = [Watch(context, *more, "-d", "120", "-p", caller.pid) for more in (["--json"], [])]
    truth = caller.work()
    time.sleep(8)
    ends = []
    for watch in watches:
        now = time.monotonic_ns()
        ends.append((watch.end(), [[(now - at) / 1e9 for at in row["called"]]
                                   for row in truth["hanging"]]))
    seen, ages = Seen(ends[0][0]), ends[0][1]
    rows = {(row["comm"], row["bytes"]): row for row in seen.process(truth["pid"])["completions"]}
    check(len(rows) == 3, str(rows))
    for row, age in zip(truth["hanging"], ages):
        found = rows[row["comm"], row["bytes"]]
        equal((found["pending"], found["pending_stream"]), (row["pending"], row["stream"]), str(found))
        check(age[1] - 0.001 <= found["pending_seconds"] <= 1.05 * age[0],
              "%.3f s, not %s" % (found["pending_seconds"], age))
        context.note("%.3f s of %.3f" % (found["pending_seconds"], age[0]))
    text, ages = ends[1]
    context.note(text)
    found = re.findall(r"(\d+) not known to be complete yet(?:,|; the oldest) called ([\d.]+) s ago:\n"
                       r" +ncclAllReduce float32 (\S+ \S+) on stream (0x\w+)\n", text)
    equal({(n, size, stream) for n, _, size, stream in found},
          {("5", "4.0 kB", "0x7e0000001000"), ("1", "28 B", "0x7e0000002000")}, "oldest")
    for n, seconds, _, _ in found:
        age = ages[0 if n == "5" else 1]
        check(age[1] - 0.06 <= float(seconds) <= 1.05 * age[0] + 0.06, "%s, not %s" % (seconds, age))
    path = context.path("a.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(seen.whole, file)
    text = context.bpfprof("report", "--nccl", path, timeout=30).expect(0).out.decode()
    context.note(text)
    known = {row["comm"]: row["hash"] for row in seen.process(truth["pid"])["communicators"]}
    lines = re.findall(r"([\d.]+) s +(\d+)  ncclAllReduce float32 (\S+ \S+) on stream (0x\w+),\n"
                       r" +communicator (0x\w+), rank (\d) of 4: \S+ pid (\d+) ", text)
    equal([line[1:] for line in lines],
          [("5", "4.0 kB", "0x7e0000001000", known[truth["hanging"][0]["comm"]], "1", str(caller.pid)),
           ("1", "28 B", "0x7e0000002000", known[truth["hanging"][1]["comm"]], "2", str(caller.pid))],
          "in the report")


@test(modes=("root",))
def table(context):
    caller = Caller(context, "synced", script="gpu_waits.py")
    watch = Watch(context, "-d", "120", "-p", caller.pid)
    caller.work()
    text = watch.end()
    context.note(text)
    check(re.search(r"(?m)^ +12 +<= \S+ ms +<= \S+ ms +4\.2 MB  ncclAllReduce float32 sum$",
                    text), "no such row:\n" + text)
    check(re.search(r"(?m)^    <=: noticed within \S+ .s on average", text), text)


@test()
def starving(context):
    """The device has nothing to do: how long, and who launches after that."""
    caller = Caller(context, "starving", script="gpu_waits.py")
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid, "-o", "x.pb.gz")
    truth = caller.work()["starved"]
    time.sleep(0.5)
    now = time.monotonic_ns()
    seen = Seen(watch.end())
    found = seen.process(caller.pid)["starved"]
    check(found["gaps"] == truth["gaps"], "%s, not %s" % (found, truth))
    for name in ("ns", "max_ns", "copy_ns"):
        check_between(found[name], truth[name], name)
    check(-0.01 <= found["since_seconds"] - (now - truth["since_ns"]) / 1e9 < 5, str(found))
    profile = Pprof(context.read("x.pb.gz"))
    at = profile.sample_types.index("starved/nanoseconds")
    sums, on_the_way = dict.fromkeys(truth["where"], 0), 0
    for sample in profile.samples:
        frames = [name for one in sample["stack"] for name in profile.locations[one]["functions"]]
        where = [name for name in sums if any(is_frame(frame, name) for frame in frames)]
        check(len(where) == 1 or not sample["values"][at] or
              not where and any(is_frame(frame, "starving") for frame in frames), "starved in %s" % frames)
        if where:
            sums[where[0]] += sample["values"][at]
        else:
            on_the_way += sample["values"][at]
    # The thread that calls both makes a short call in each gap.
    check(on_the_way <= SHARED_NS, "%d ns in neither" % on_the_way)
    total = sum(sample["values"][at] for sample in profile.samples)
    check(total == found["ns"], "%d ns in the file, not %d" % (total, found["ns"]))
    # Short gaps are shared out together: the few samples that come in them move some of one's to the other.
    for where, (least, most) in truth["where"].items():
        check_between(sums[where], (least - SHARED_NS, most + SHARED_NS), "starved before " + where)
    context.note("%s of %s" % (found, truth))


@test()
def spans(context):
    """From launches to when their process knew that all is done: that long the device was busy at most."""
    caller = Caller(context, "spans", script="gpu_waits.py")
    watches = [Watch(context, *more, "-d", "120", "-p", caller.pid) for more in (["--json"], [])]
    truth = caller.work()["spans"]
    time.sleep(2)
    now = time.monotonic_ns()
    seen = Seen(watches[0].end())
    found = seen.process(caller.pid)["spans"]
    equal(found["count"], truth["count"], "spans")
    for name in ("ns", "max_ns"):
        check_between(found[name], truth[name], name)
        check(truth[name][1] - truth[name][0] < 0.05 * truth[name][1], "not known that well: %s" % truth)
    since = [(now - at) / 1e9 for at in truth["since_ns"]]
    check(since[1] - 0.001 <= found["since_seconds"] < since[0] + 5, "%s, not %s" % (found, since))
    context.note("%s of %s" % (found, truth))
    text = watches[1].end()
    line = re.search(r"\n  Launch to sync: (\S+) s \((\d+)% of the time\) in 13 spans, the longest (\S+) s\n"
                     r"    of these, (\S+) s in the span that still runs\n", text)
    check(line, text)
    total, share, longest, rest = map(float, line.groups())
    seconds = float(re.search(r", ([\d.]+) s\n", text).group(1))
    check(abs(total - rest - found["ns"] / 1e9) < 0.16, "%s of %s" % (line.group(0), found))
    check(abs(share - 100 * total / seconds) < 2 and rest == longest, line.group(0))


@test()
def steps(context):
    """With steps, work outside of them is not reported, but it counts as proof for work inside."""
    truth, seen = waited(context, "steps", "--steps", "2:4")
    check_completions(context, truth, seen)
    found, wanted = seen.process(truth["pid"])["starved"], truth["starved"]
    check(found["gaps"] == wanted["gaps"] == 2, "%s, not %s" % (found, wanted))
    for name in ("ns", "max_ns", "copy_ns"):
        check_between(found[name], wanted[name], name)
    check(not lost(seen), "lost: %s" % lost(seen))


@test()
def wait_tokens(context):
    """Launches do not use up the stacks of waits: each has its own, so each is where it was made."""
    caller = Caller(context, "tokens", script="gpu_waits.py")
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid, "-o", "x.pb.gz")
    caller.work()
    seen = Seen(watch.end())
    stacks = seen.whole["stacks"]
    check(stacks["skipped"] > 10000, "enough for all: %s" % stacks)
    equal(stacks["per_thread_and_second"], 100, "the rate")
    check(0 < stacks["taken"] < 100 * 4 * (seen.whole["seconds"] + 2), "over the rate: %s" % stacks)
    profile = Pprof(context.read("x.pb.gz"))
    sums = {"wait_first": 0, "wait_later": 0}
    for sample in profile.samples:
        frames = [name for one in sample["stack"] for name in profile.locations[one]["functions"]]
        for where in sums:
            if any(is_frame(frame, where) for frame in frames):
                sums[where] += sample["values"][0]
    check(sums == {"wait_first": 10, "wait_later": 50}, "calls by stack: %s" % sums)


def check_dump(context, with_python, watched=False):
    """dump shows the call of a thread, even with another recording; without -v it is py-spy's text."""
    caller = Caller(context, "hang", with_python=with_python)
    if watched:  # then the returns of these calls are hooked
        Watch(context, "--json", "-d", "120", "-p", caller.pid)
    truth = caller.work()
    asleep = asleep_by(caller, truth)
    time.sleep(1)
    before = time.monotonic_ns()
    done = context.bpfprof("dump", "-p", caller.pid, "--json", timeout=60).expect(0)
    after = time.monotonic_ns()
    slept = {row["os_thread_id"]: row["asleep_seconds"] for row in json.loads(done.out)}
    for row in truth["open"]:
        check_asleep(slept[row["tid"]], row, asleep, before, after)
    found = {row["os_thread_id"]: row["gpu_call"] for row in json.loads(done.out)}
    wanted = {row["tid"]: row["function"] if row["function"].startswith("nccl") else
              "a function of libcuda" for row in truth["open"]}
    check({tid: call for tid, call in found.items() if call} == wanted, "%s, not %s" % (
        found, wanted))
    plain = context.bpfprof("dump", "-p", caller.pid, timeout=60).expect(0).out.decode()
    said = context.bpfprof("dump", "-v", "-p", caller.pid, timeout=60).expect(0).out.decode()
    lines = [line for line in said.splitlines() if line.startswith("  in ")]
    check([re.sub(r", asleep for \d[^,]*$", "", line) for line in lines] ==
          ["  in " + wanted[row["tid"]] + row.get("shown", "") for row in truth["open"]] and
          all("asleep for" in line for line in lines), said)
    check("  in " not in plain.replace("    ", ""), plain)


@test()
def dumped(context):
    check_dump(context, False)


@test()
def dumped_python(context):
    check_dump(context, True)


@test()
def dumped_while_watched(context):
    check_dump(context, False, watched=True)


@test()
def dumped_python_while_watched(context):
    check_dump(context, True, watched=True)


@test()
def dumped_in_the_runtime(context):
    """Of a runtime call that waits in the driver, the outer one is reported, with its time."""
    caller = Caller(context, "runtime", script="gpu_waits.py")
    truth = caller.work()
    asleep = asleep_by(caller, {"open": [truth]})
    time.sleep(3)
    before = time.monotonic_ns()
    done = context.bpfprof("dump", "-p", caller.pid, "--json", timeout=60).expect(0)
    after = time.monotonic_ns()
    threads = {row["os_thread_id"]: row for row in json.loads(done.out)}
    found = threads[truth["tid"]]
    equal({tid: row["gpu_call"] for tid, row in threads.items() if row["gpu_call"]},
          {truth["tid"]: "cudaStreamSynchronize"}, "calls")
    names = [frame["name"] for frame in found["frames"]]
    check(any(is_frame(name, "wait_in_runtime") for name in names), str(names))
    check_asleep(found["asleep_seconds"], truth, asleep, before, after)
    said = context.bpfprof("dump", "-v", "-p", caller.pid, timeout=60).expect(0).out.decode()
    check(re.search(r"(?m)^  in cudaStreamSynchronize, asleep for \d", said), said)
    check("a function of libcuda" not in said, said)


def check_recorded(context, with_python):
    caller = Caller(context, "polling", with_python=with_python)
    Watch(context, "--json", "-d", "120", "-p", caller.pid)
    wanted, = caller.work()["open"]
    context.bpfprof("record", "-p", caller.pid, "-F", "199", "-d", "3", "-o", context.path("x.folded"),
                    timeout=60).expect(0)
    in_call = [line.rpartition(" ") for line in context.read("x.folded").decode().splitlines()
               if ";stream_wait" in line]
    total = sum(int(count) for _, _, count in in_call)
    whole = sum(int(count) for stack, _, count in in_call
                if any(is_frame(frame, wanted["where"]) for frame in stack.split(";")) and
                not any(marker in stack for marker in ("[truncated]", "[unmerged]")))
    context.note("%d of %d samples" % (whole, total))
    check(total > 20 and whole == total, "%d of %d go on: %s" % (whole, total, in_call))


@test()
def recorded_while_watched(context):
    """Samples of a thread in a call whose return another tracer has hooked go on to the caller."""
    check_recorded(context, False)


@test()
def recorded_python_while_watched(context):
    check_recorded(context, True)


@test()
def unknown(context):
    truth, seen = waited(context, "unknown")
    check_completions(context, truth, seen)
    check(lost(seen) == {"collectives_in_graphs_not_timed": 4}, "lost: %s" % lost(seen))


@test()
def several_devices(context):
    truth, seen = waited(context, "several")
    check_completions(context, truth, seen)
    rows = seen.process(truth["pid"])["completions"]
    check(len(rows) == 2 and all(row["pending"] == 5 for row in rows), str(rows))
