# SPDX-License-Identifier: Apache-2.0
"""gpu shows calls that have not returned: those that it saw begin, and those that began before it."""

import json
import os
import re
import time

from gpu_truth import (
    MEMORY_BYTES, OUTPUTS, SECONDS, Caller, Files, Seen, Watch, asleep_by, both_files,
    check_asleep, check_launches, check_open, equal, is_frame)
from harness import check, test
from test_wall_daemon import maps_bytes

BESIDE = True


@test()
def threads(context):
    truth, seen, process, files = both_files(context, "threads", False)
    check(files.of("threads::work", "calls/count") == 16028, "calls of the threads")
    lost = {reason: n for reason, n in seen.lost.items() if n}
    context.note("lost: %s; stacks: %s" % (lost, seen.whole["stacks"]))
    check(len(process["launches"]) == len(truth["launches"]), "rows of launches")


@test()
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


def check_open_before(seen, truth, times):
    """Calls that began before gpu did: which ones, which threads wait there, and for how long at least."""
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
    """A recording that begins after a job hung shows that it hangs."""
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


@test(paired=True, lock="gpu")
def hung_before_python(context):
    hung_before_we_came(context, True, "--no-subprocesses")


def check_polls(context, caller, truth, *arguments):
    """One thread has polled in a call since before gpu began; another makes one short call after the other."""
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


@test(paired=True, lock="gpu")
def polls_before(context):
    """A call that polls since before we came is found; short ones in a loop are not taken for one."""
    caller = Caller(context, "polling")
    truth = caller.work()
    check_polls(context, caller, truth, "-p", caller.pid)
    text = context.bpfprof("gpu", "--once", "-d", "2", "-p", caller.pid).expect(0).out.decode()
    check(re.search(r"has not returned for more than .*: thread %d " % truth["open"][0]["tid"], text),
          text)


@test(paired=True, lock="gpu")
def polls_before_python(context):
    caller = Caller(context, "polling", with_python=True)
    check_polls(context, caller, caller.work())


def told_map_bytes(text):
    """The memory of BPF maps, as a folded file reports it."""
    return json.loads(text.splitlines()[0].lstrip("# "))["agent"]["bpf_map_bytes"]


@test(paired=True, lock="gpu")
def polls_memory(context):
    """Samples of polling threads take little memory, on any number of processors, and it is reported."""
    idle, caller = Caller(context, "launches"), Caller(context, "polling")
    caller.work()
    Watch(context, "-d", "120", "-o", "idle.folded", "-p", idle.pid).end()
    watch = Watch(context, "-d", "120", "-o", "polls.folded", "-p", caller.pid)
    held = maps_bytes(watch.process.pid)  # a running thread is sampled for a second at least
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


@test(paired=True, lock="gpu")
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


@test(paired=True, lock="gpu")
def polls_named_late(context):
    """Frames without a name in time get it with the next try."""
    wanted, rows, lost = named_late(context, 2, "5")
    check([row["tid"] for row in rows] == [wanted["tid"]], "polls: %s, lost: %d" % (rows, lost))
    check(rows[0]["stack"][0] == DRIVER and
          any(is_frame(frame, wanted["where"]) for frame in rows[0]["stack"]) and
          not any("+0x" in frame for frame in rows[0]["stack"] if "libstdc++" not in frame), str(rows[0]["stack"]))


@test(paired=True, lock="gpu")
def polls_named_too_late(context):
    """Calls without names after some tries are not shown, but counted; the same holds before the end."""
    for tries, seconds in ((4, "5"), (2, "1.2")):
        _, rows, lost = named_late(context, tries, seconds)
        check(not rows and lost >= 1, "%d tries: %s, lost: %d" % (tries, rows, lost))


@test(alone=True)
def polls_in_many_threads(context):
    """More threads run than are polled, on few CPUs: each of them is shown or counted."""
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


@test(paired=True, lock="gpu")
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
    """Samples take maps of their own while a thread polls, and no longer."""
    caller = Caller(context, "polling")
    caller.work()
    idle = Caller(context, "launches")  # so that a process is left to watch
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


@test(paired=True, lock="gpu")
def polls_no_more_frees_maps(context):
    """The same without a live table, when nothing reads the calls before the end."""
    def release(caller):
        caller.say("release")
        check(caller.line() == "released", "not released")
    caller, watch = frees_maps(context, release)
    rows = Seen(watch.end()).process(caller.pid)["open"]
    check(not any(row["since_before"] for row in rows), str(rows))


@test(paired=True, lock="gpu")
def polls_to_its_end_frees_maps(context):
    """A thread that has ended has no samples."""
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


@test(paired=True, lock="gpu")
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


@test(paired=True, lock="gpu")
def exits_with_calls_open(context):
    gone_with_calls_open(context, lambda caller: caller.say("exit"))


@test(paired=True, lock="gpu")
def killed_with_calls_open(context):
    gone_with_calls_open(context, lambda caller: caller.process.kill())
