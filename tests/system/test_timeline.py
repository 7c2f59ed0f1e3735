# SPDX-License-Identifier: Apache-2.0
"""record -o x.json: when Ray workers were in which call, against what they wrote down."""

import contextlib
import os
import re
import shutil
import signal
import time

from chrome_trace import Broken, Trace
from harness import check, descendants, test
from test_steps import ROOM, Actor, Overlapping

BESIDE = True
LOCK = "workers"
NR_SHORT = 20000


def read(context, name="x.json"):
    try:
        return Trace(context.read(name))
    except Broken as rule:
        check(False, str(rule))


def begin(context, *args):
    recorder = context.start("record", "-o", "x.json", "--stats", "stats.json", *args)
    until(lambda: has_spool(recorder.pid, context.dir), "it records")
    return recorder


def has_spool(pid, folder):
    """Has it made its file without a name? That is the last thing before the recording."""
    for one in descendants(pid):
        with contextlib.suppress(OSError):
            links = [os.readlink("/proc/%d/fd/%s" % (one, name))
                     for name in os.listdir("/proc/%d/fd" % one)]
            if any(link.startswith(folder + "/") and link.endswith("(deleted)") for link in links):
                return True
    return False


def end(context, recorder):
    """Its trace, and what was said. The last titles are told when they are changed: no wait."""
    recorder.send_signal(signal.SIGINT)
    done = context.finish(recorder, 60).expect(0)
    return read(context), done


def of(trace, pid):
    return [one for one in trace.slices if one.pid == pid]


def changes_lost(trace):
    lost = trace.other["lost"]
    return lost["title_changes_lost"] + lost["title_changes_too_many"]


def check_calls(trace, actor, name, category, skip=0):
    """Each call that the worker wrote down is there once, when it was made; no more but skip of them."""
    found = [one for one in of(trace, actor.pid) if one.name == name]
    calls = actor.calls()
    check(len(found) == len(calls) - skip, "%d of %d calls of %s" % (len(found), len(calls), name))
    for one, (begins, begun, ends, ended) in zip(found, calls[skip:]):
        check(begins * 1e9 - 1 <= one.begin <= begun * 1e9 + 1 and
              ends * 1e9 - 1 <= one.end <= ended * 1e9 + 1,
              "%s: %d to %d, not %.0f to %.0f" % (name, one.begin, one.end, begun * 1e9,
                                                  ends * 1e9))
        check(one.category == category and one.tid == actor.pid, str(one.event))
        check(one.args["pid"] == one.args["tid"] == actor.pid and one.args["node"] ==
              os.uname().nodename and "ended" not in one.args, str(one.event))
    return len(found)


def until(condition, what):
    """However loaded the machine is."""
    limit = time.monotonic() + 60
    while not condition():
        check(time.monotonic() < limit, what)
        time.sleep(0.05)


def made(actor, nr):
    """It has made all its calls."""
    until(lambda: len(actor.calls()) == nr, "%d calls of pid %d" % (nr, actor.pid))


def comm(pid):
    with open("/proc/%d/comm" % pid, encoding="utf-8") as file:
        return file.read().strip()


@test()
def every_call(context):
    """Methods, tasks, constructors: of each worker every one."""
    actors = {mode: Actor(context, name, 20, 5, mode, seconds=60, gate=True, calls=40)
              for mode, name in (("plain", "Trainer"), ("task", "sort_numbers"))}
    recorder = begin(context)
    young = actors["born"] = Actor(context, "Born", 20, 5, "born", seconds=60, calls=40)
    for mode in ("plain", "task"):
        actors[mode].process.send_signal(signal.SIGUSR1)
    for actor in actors.values():
        made(actor, 40)
    trace, _ = end(context, recorder)
    check_calls(trace, actors["plain"], "ray::Trainer.step", "actor")
    check_calls(trace, actors["task"], "ray::sort_numbers", "task")
    check_calls(trace, young, "ray::Born.step", "actor")
    names = [one.name for one in of(trace, young.pid)]
    check(names[:3] == ["ray::Born.__init__", "ray::Born.__ray_ready__", "ray::Born.step"],
          str(names[:5]))
    check(trace.processes[young.pid] == "ray::Born" and
          trace.processes[actors["task"].pid] == "Ray worker", str(trace.processes))
    check(trace.other["calls"] == len(trace.slices) and not trace.other["calls_dropped"],
          str(trace.other))
    context.note("%d calls" % len(trace.slices))


@test()
def report(context):
    """report --tasks: the table of a timeline, against the calls' own clocks; of a profile."""
    actor = Actor(context, "Trainer", 20, 5, seconds=60, gate=True, calls=60)
    task = Actor(context, "sort_numbers", 10, 5, "task", seconds=60, gate=True, calls=70)
    recorder = begin(context, "-o", "x.pb.gz", "-F", "499")
    actor.process.send_signal(signal.SIGUSR1)
    task.process.send_signal(signal.SIGUSR1)
    made(actor, 60)
    made(task, 70)
    trace, _ = end(context, recorder)
    shutil.copy(context.path("x.json"), context.path("y.json"))
    done = context.bpfprof("report", "--tasks", "x.json", "y.json", "x.json").expect(0)
    check("x.json: the same file as x.json, which is taken once" in done.text, done.text)
    for name, worker in (("Trainer.step", actor), ("sort_numbers", task)):
        found = sorted(one.end - one.begin for one in of(trace, worker.pid))
        row = next(line.split() for line in done.text.split("\n") if line.endswith(" " + name))
        check(int(row[0]) == 2 * len(worker.calls()), "%s: %s" % (name, row))
        wanted = [sum(found) / len(found), found[(len(found) - 1) // 2], found[-1]]
        check(all(rounds_to(want, row[at], row[at + 1]) for at, want in zip((1, 3, 5), wanted)),
              "%s: %s, not %s" % (name, row, wanted))
        check(abs(float(row[12]) - found[-1] / wanted[1]) <= 0.051, "%s" % row)
        context.note(" ".join(row))
    shares = [float(share) for share in re.findall(r" ([\d.]+)% ", done.text)]
    check(abs(sum(shares) - 100) <= 0.1 * len(shares), str(shares))
    check("the sum of 2 files" in done.text, done.text)
    done = context.bpfprof("report", "--tasks", "x.pb.gz").expect(0)
    told = {row["name"]: float(row["cpu_seconds"]) for row in trace.other["tasks"]}
    for name in ("Trainer.step", "sort_numbers"):
        seconds = re.search(r"([\d.]+) s +[\d.]+%  " + name + "\n", done.text)
        check(seconds and abs(float(seconds.group(1)) - told["ray::" + name]) <= 0.006, done.text)
    check("A profile has samples, no calls" in done.text, done.text)


def rounds_to(ns, number, unit):
    """Is that what stands there, as far as it has digits?"""
    unit = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[unit]
    return abs(float(number) * unit - ns) <= 0.51 * unit / 10 ** len(number.partition(".")[2])


@test()
def report_wrong(context):
    """Files that are no timelines, or are damaged; flags that exclude each other."""
    context.bpfprof("record", "-d", "0.2", "-o", "x.json", "-o", "x.folded").expect(0)
    text = context.text("x.json")
    for name, content in (("cut.json", text[:-40]), ("other.json", "[1]"), ("empty.json", "")):
        with open(context.path(name), "w", encoding="utf-8") as file:
            file.write(content)
        done = context.bpfprof("report", "--tasks", name).expect(1)
        check(name in done.text and not done.out, done.text)
    for words in ("--tasks x.json x.folded", "--tasks --nccl x.json", "--tasks x.json -o y.html",
                  "--tasks"):
        done = context.bpfprof("report", *words.split()).expect(2)
        check("--tasks" in done.text, done.text)
    done = context.bpfprof("report", "--tasks", "x.json").expect(0)
    check(" names in 0." in done.text, done.text)


@test()
def short_calls(context):
    """20,000 short ones: what is not there was counted as lost."""
    actor = Actor(context, "Quick", 0.06, 0.06, seconds=60, gate=True, calls=NR_SHORT)
    recorder = begin(context, "-p", actor.pid)
    actor.process.send_signal(signal.SIGUSR1)
    made(actor, NR_SHORT)
    trace, done = end(context, recorder)
    calls, found, lost = actor.calls(), of(trace, actor.pid), changes_lost(trace)
    check(len(calls) == NR_SHORT, "%d calls" % len(calls))
    check(len(found) <= NR_SHORT <= len(found) + lost, "%d calls and %d changes lost" % (
        len(found), lost))
    check(lost or "calls are missing" not in done.text, done.text[-500:])
    context.note("%d of %d calls, %d changes lost" % (len(found), len(calls), lost))
    at = 0
    for one in found:
        check(one.name == "ray::Quick.step", str(one.event))
        while at < len(calls) and calls[at][1] * 1e9 + 1 < one.begin:
            at += 1
        check(at < len(calls) and calls[at][0] * 1e9 - 1 <= one.begin and
              calls[at][2] * 1e9 - 1 <= one.end <= calls[at][3] * 1e9 + 1, "no such call: %s" %
              one.event)
        at += 1


@test()
def newest_kept(context):
    """Without room the oldest calls are dropped; this is reported and counted."""
    actor = Actor(context, "Quick", 0.1, 0.1, seconds=60, gate=True, calls=4000)
    recorder = begin(context, "--worker", "quick", "--max-trace-bytes", "100K")
    actor.process.send_signal(signal.SIGUSR1)
    made(actor, 4000)
    trace, done = end(context, recorder)
    size, kept = os.path.getsize(context.path("x.json")), trace.other["calls"]
    calls, dropped, lost = len(actor.calls()), trace.other["calls_dropped"], changes_lost(trace)
    check(size <= 100 << 10 and kept == len(trace.slices) and dropped > 0, str(trace.other))
    check(kept + dropped <= calls <= kept + dropped + lost, "%d and %d of %d, %d changes lost" % (
        kept, dropped, calls, lost))
    check("the newest %d of %d calls" % (kept, kept + dropped) in done.text, done.text[-500:])
    check(size > 85 << 10, "more would have fitted: %d bytes" % size)
    if not lost:
        check_calls(trace, actor, "ray::Quick.step", "actor", skip=dropped)


@test()
def open_at_the_ends(context):
    """Calls at the begin and at the end of the recording, and a worker that dies; filters."""
    long = Actor(context, "Long", 60000, 1, seconds=60)
    task = Actor(context, "slow_task", 60000, 1, "task", seconds=60)
    rests = Actor(context, "Rests", 60000, 1, seconds=60, gate=True)
    dies = Actor(context, "Dies", 60000, 1, seconds=60, gate=True)
    other = Actor(context, "Other", 5, 5, seconds=60)
    until(lambda: comm(long.pid) == "ray::Long.step" and comm(task.pid) == "ray::slow_task" and
          comm(dies.pid) == "ray::Dies" and comm(rests.pid) == "ray::Rests", "all are there")
    before = time.monotonic_ns()
    recorder = begin(context, "--worker", "long, slow*,rests,dies")
    dies.process.send_signal(signal.SIGUSR1)
    until(lambda: comm(dies.pid) == "ray::Dies.step", "it calls")
    dies.process.kill()
    dies.process.wait()
    died = time.monotonic_ns()
    rests.process.send_signal(signal.SIGUSR1)
    until(lambda: comm(rests.pid) == "ray::Rests.step", "it calls")
    trace, _ = end(context, recorder)
    after = time.monotonic_ns()
    check(not of(trace, other.pid), "nobody asked for it: %s" % of(trace, other.pid)[:1])
    found = {one.name: one for one in trace.slices}
    check(set(found) == {"ray::Long.step", "ray::slow_task", "ray::Rests.step", "ray::Dies.step"} and
          len(trace.slices) == 4, str(found))
    one = found["ray::Long.step"]
    check(one.args["begun_before"] is True and one.args["ended"] is False and
          one.category == "actor" and before <= one.begin <= one.end <= after, str(one.event))
    one = found["ray::slow_task"]  # may as well be an actor at rest
    check(one.category == "unclear" and one.args["begun_before"] is True and
          one.args["ended"] is False and "what" in one.args, str(one.event))
    one = found["ray::Rests.step"]
    check("begun_before" not in one.args and one.args["ended"] is False and one.begin >= died,
          str(one.event))
    one = found["ray::Dies.step"]
    check("ended" not in one.args and one.begin < died and one.pid == dies.pid, str(one.event))
    check(task.process.poll() is None and long.process.poll() is None, "they ended")


@test()
def target_dies(context):
    """The call in which the only worker that was asked for dies, and when that was."""
    actor = Actor(context, "Dies", 60000, 1, seconds=60, gate=True)
    until(lambda: comm(actor.pid) == "ray::Dies", "it is there")
    recorder = begin(context, "-p", actor.pid)
    actor.process.send_signal(signal.SIGUSR1)
    until(lambda: comm(actor.pid) == "ray::Dies.step", "it calls")
    killed = time.monotonic_ns()
    actor.process.kill()
    actor.process.wait()
    died = time.monotonic_ns()
    trace, _ = end(context, recorder)
    check([one.name for one in trace.slices] == ["ray::Dies.step"], str(trace.other))
    one = trace.slices[0]
    check("ended" not in one.args and one.begin < killed and killed - 1 <= one.end <= died + 1,
          "%s, killed from %d to %d" % (one.event, killed, died))


@test()
def begun_before(context):
    """The end of a task that had begun before says what it was."""
    task = Actor(context, "slow_task", 5, 5, "task", seconds=60, calls=10, hold=1)
    until(lambda: comm(task.pid) == "ray::slow_task", "it is in its first call")
    recorder = begin(context, "-p", task.pid)
    task.process.send_signal(signal.SIGUSR1)
    made(task, 10)
    trace, _ = end(context, recorder)
    first = trace.slices[0]
    check(first.name == "ray::slow_task" and first.category == "task" and
          first.args["begun_before"] is True and "ended" not in first.args, str(first.event))
    ended = task.calls()[0]
    check(ended[2] * 1e9 - 1 <= first.end <= ended[3] * 1e9 + 1, str(first.event))
    check_calls(Rest(trace), task, "ray::slow_task", "task", skip=1)


class Rest:
    """A trace without its first slice."""

    def __init__(self, trace):
        self.slices = trace.slices[1:]


@test()
def too_many_changes(context):
    """Thousands of new titles a second: bounded, counted, said."""
    flood = Actor(context, "Flood", 0, 0, "flood", seconds=60)
    done = context.bpfprof("record", "-d", "2", "--no-findings", "--max-trace-bytes", "1M", "-o",
                           "x.json").expect(0)
    trace = read(context)
    lost = trace.other["lost"]
    check(lost["title_changes_too_many"] > 1000 and "came too fast: calls are missing" in done.text,
          "%s: %s" % (lost, done.text[-600:]))
    check(os.path.getsize(context.path("x.json")) <= 1 << 20, "too large")
    told = context.bpfprof("report", "--tasks", "x.json").expect(0).text
    told = {name: int(count) for count, name in re.findall(r"^ *(\d+) ([a-z_]+)$", told, re.M)}
    check(told == {name: count for name, count in lost.items() if count} and
          "changes_missed" not in told, "%s, not %s" % (told, lost))
    check(all(one.name.startswith("ray::Flood.x") for one in of(trace, flood.pid)), "names")


def check_overlapping(context, mode):
    """Each of the calls that a worker makes at once, in its thread; none nested in another."""
    actor = Overlapping(context, mode)
    actor.wait(1)
    recorder = begin(context, "-p", actor.pid)
    actor.process.send_signal(signal.SIGUSR1)
    actor.wait(1 + actor.NR_CALLS)
    trace, done = end(context, recorder)
    found, calls = of(trace, actor.pid), actor.calls()
    check(len(found) == len(calls) == actor.NR_CALLS, "%d of %d calls" % (len(found), len(calls)))
    for one, (method, tid, begins, begun, ends, ended) in zip(found, calls):
        check(one.name == "ray::Service." + method and one.category == "actor" and
              begins - 1 <= one.begin <= begun + 1 and ends - 1 <= one.end <= ended + 1 and
              one.args["tid"] == tid and one.args["pid"] == actor.pid,
              "%s, not %s" % (one.event, (method, tid, begins, begun, ends, ended)))
    most = max(sum(a[2] <= b[2] < a[5] for a in calls) for b in calls)
    check(len({one.tid for one in found}) == most > 2, "%s tracks, %d at once" % (
        {one.tid for one in found}, most))
    # The calls that were open before: their ends are seen.
    check(trace.other["lost"]["calls_without_begin"] == actor.NR_LANES and
          "%d calls had begun" % actor.NR_LANES in done.text, "%s" % done.text)
    context.note("%d calls, %d at once" % (len(found), most))


@test()
def overlapping_threads(context):
    check_overlapping(context, "threads")


@test()
def overlapping_fibers(context):
    check_overlapping(context, "fibers")


@test()
def many_titles(context):
    """The node has more titles than the kernel's map has room: other workers' calls are still reported."""
    recorder = begin(context)
    beside = context.start("record", "-o", "x.folded", "--stats", "beside.json")
    context.sampling(beside)
    actor = Actor(context, "Quick", 0.4, 0.1, "other", seconds=60, calls=6000, hold=4)
    until(lambda: len(actor.calls()) == 3 and comm(actor.pid) == "ray::Quick.step", "it calls")
    check(Actor(context, "Crowd", 160, 0, "crowd", seconds=60).process.wait() == 0, "the crowd")
    actor.process.send_signal(signal.SIGUSR1)
    made(actor, 6000)
    trace, _ = end(context, recorder)
    beside.send_signal(signal.SIGINT)
    context.finish(beside, 60).expect(0)
    names, lost = {one.name for one in trace.slices}, trace.other["lost"]
    found = len(of(trace, actor.pid))
    walk = context.json("beside.json")["walk"]
    context.note("%d titles, %d of 6000 calls, %s" % (len(names), found, lost))
    check(len(names) > 4096, "%d titles" % len(names))
    check(found <= 6000 <= found + changes_lost(trace), "%d, %s" % (found, lost))
    # It makes 12000 changes. What comes before the titles are judged again may be too many.
    for reasons in (lost, walk):
        check(reasons.get("title_changes_too_many", 0) < 4000, str(reasons))


@test()
def end_lost(context):
    """The last call before lost changes does not last until the worker or the recording ends."""
    actors = [Actor(context, "Halt%d" % i, 0, 0, "halt", seconds=60) for i in range(2)]
    until(lambda: all(comm(actor.pid) == "ray::Halt" for actor in actors), "they wait")
    recorder = begin(context)
    for actor in actors:
        actor.process.send_signal(signal.SIGUSR1)
    until(lambda: all(context.text("Halt%d.log" % i) for i in range(2)), "they rest")
    actors[0].process.kill()
    actors[0].process.wait()
    trace, _ = end(context, recorder)
    for actor, name in zip(actors, ("Halt0.log", "Halt1.log")):
        rests, found = int(context.text(name)), of(trace, actor.pid)
        check(found and trace.other["lost"]["title_changes_too_many"] > 0, str(trace.other))
        # The line that the last title wrote follows its own change.
        late = [one.event for one in found if one.end > rests and one.name != "ray::Halt.x4999"]
        check(not late, "%s, it rests since %d" % (late, rests))
        context.note("%d of 5000 calls" % len(found))


@test()
def cpu_of_tasks(context):
    """Beside the calls stands the CPU time that was sampled under each name; of a program to run."""
    helper = context.helper("titles", "titles.c")
    with open(context.path("truth"), "wb") as out:
        context.bpfprof("record", "-F", "999", "-o", "x.json", "-o", "x.folded", "--", helper, 2,
                        ROOM, "shares", stdout=out).expect(0)
    trace = read(context)
    truth = {line.split()[0]: int(line.split()[1]) / 1e9
             for line in context.text("truth").split("\n") if line.startswith("ray::")}
    told = {row["name"]: float(row["cpu_seconds"]) for row in trace.other["tasks"]}
    check(set(told) == set(truth) == {"ray::Trainer.fit", "ray::Trainer.evaluate", "ray::IDLE",
                                      "ray::MapBatches(expensive)"}, "%s, %s" % (told, truth))
    samples = 999 * sum(told.values())
    for name, seconds in truth.items():
        share, found = seconds / sum(truth.values()), told[name] / sum(told.values())
        context.note("%s: %.1f%%, by its own clock %.1f%%" % (name, 100 * found, 100 * share))
        check(abs(found - share) <= 5 * (share * (1 - share) / samples) ** 0.5 + 0.005,
              "%s: %.3f, not %.3f, of %.0f samples" % (name, found, share, samples))
    names = {one.name for one in trace.slices}
    check(names == set(truth) - {"ray::IDLE"}, str(names))


@test()
def wrong(context):
    """Usage; standard output; nothing to tell of is a trace."""
    for words in ("--max-trace-bytes 1M", "-o x.json --max-trace-bytes 1K",
                  "-o x.json --worker x --steps 1:2", "-o x.json --stats x.json"):
        done = context.bpfprof("record", *words.split()).expect(2)
        check(done.err and not done.out, done.text)
    done = context.bpfprof("record", "-d", "0.2", "-o", "-", "--format", "trace").expect(0)
    trace = Trace(done.out)
    check(trace.other["of"] == "ray" and b"Samples" in done.err, done.text[:300])
    done = context.bpfprof("record", "-d", "0.2", "-o", "/proc/x.json").expect(1)
    check("/proc/x.json" in done.text, done.text)
