# SPDX-License-Identifier: Apache-2.0
"""--steps: exactly the calls that were asked for, of each worker, against what workers say."""

import os
import re
import signal
import time

import chains
from gpu_truth import Caller, Files, Run, fakes
from harness import check, test

BESIDE = True
LOCK = "workers"
HZ = 999
ROOM = "r" * 300  # an argument that is long enough for every title


class Actor:
    """A worker that writes down when its calls began and ended."""

    def __init__(self, context, name, call_ms, rest_ms, mode="plain", seconds=20, gate=False,
                 calls=None, hold=0, windows=None):
        self.log = context.path(name + ".log")
        with open(self.log, "wb") as out:
            self.process = context.spawn(
                [context.helper("steps", "steps.c", "-pthread"), seconds, ROOM, name,
                 int(call_ms * 1000), int(rest_ms * 1000), mode], stdout=out,
                env={**({"STEPS_GATE": "1"} if gate else {}),
                     **({"STEPS_HOLD": str(hold)} if hold else {}),
                     **({"LD_PRELOAD": windows} if windows else {}),
                     **({"STEPS_CALLS": str(calls)} if calls else {})})
        self.pid = self.process.pid

    def calls(self):
        """(earliest begin, latest begin, earliest end, latest end) of each, seconds."""
        with open(self.log, encoding="ascii") as file:
            rows = [line.split() for line in file.read().split("\n")[:-1]]
        return [tuple(int(word) / 1e9 for word in row) for row in rows]

class Overlapping:
    """A worker that makes several calls at once, in threads or fibers, and writes down each."""

    NR_LANES, NR_CALLS = 4, 60

    def __init__(self, context, mode, seconds=60):
        self.log = context.path(mode + ".log")
        with open(self.log, "wb") as out:
            self.process = context.spawn(
                [context.helper("overlaps", "overlaps.c", "-pthread"), seconds, ROOM, "Service",
                 mode], stdout=out)
        self.pid = self.process.pid

    def rows(self):
        with open(self.log, encoding="ascii") as file:
            return [line.split() for line in file.read().split("\n")[:-1]]

    def wait(self, nr_rows):
        limit = time.monotonic() + 60
        while len(self.rows()) < nr_rows:
            check(time.monotonic() < limit, "%d rows" % len(self.rows()))
            time.sleep(0.05)

    def calls(self):
        """(method, tid, earliest begin, latest begin, earliest end, latest end) in order of begin, ns."""
        rows = sorted([int(row[0]), row[1], *map(int, row[2:])] for row in self.rows()[1:])
        check([row[0] for row in rows] == list(range(1, len(rows) + 1)), "%s" % rows)
        return [tuple(row[1:]) for row in rows]


def union_ns(spans):
    """The time that lies in any of these."""
    total = until = 0
    for begin, end in sorted(spans):
        total += max(0, end - max(begin, until))
        until = max(until, end)
    return total


def functions(context, name, process="ray::"):
    """Samples of each call_N (and of what else the workers do) under a process."""
    seen = {}
    for title, frames, count in chains.read_folded(context.text(name)):
        if not title.startswith(process):
            continue
        for frame in frames:
            if re.fullmatch(r"call_(\d+|other)|resting|beside", frame):
                seen[frame] = seen.get(frame, 0) + count
    return seen


def summary(done):
    """Recorded, asked for, seconds of each worker by its pid."""
    return {int(pid): (int(n), int(of), float(seconds or 0)) for pid, n, of, seconds in re.findall(
        r"worker '[^']*' pid (\d+): (\d+) of (\d+) steps recorded(?:, ([\d.]+) s)?", done.text)}


@test()
def two_speeds(context):
    """Two workers, each counts its own steps; ends by itself after the slower one's."""
    actors = {"Fast": Actor(context, "Fast", 60, 20, gate=True),
              "SlowPolicyWorker": Actor(context, "SlowPolicyWorker", 280, 30, gate=True)}
    time.sleep(0.3)
    recorder = context.start("record", "-F", HZ, "--worker", "fast.step, *policy*,", "--steps",
                             "3:5", "-o", "x.folded", "--stats", "x.json")
    context.sampling(recorder)
    for actor in actors.values():
        actor.process.send_signal(signal.SIGUSR1)
    done = context.finish(recorder, 15).expect(0)
    told = summary(done)
    check(set(told) == {actor.pid for actor in actors.values()}, done.text)
    for name, actor in actors.items():
        seen = functions(context, "x.folded", "ray::%s.step" % name)
        check(set(seen) == {"call_3", "call_4", "beside"}, "%s: %s" % (name, seen))
        calls = actor.calls()[2:4]
        least, most = sum(c[2] - c[1] for c in calls), sum(c[3] - c[0] for c in calls)
        check(told[actor.pid][:2] == (2, 2) and
              least - 0.001 <= told[actor.pid][2] <= most + 0.001, "%s: it took %.4f to %.4f s: %s" %
              (name, least, most, done.text))
        main = seen["call_3"] + seen["call_4"]
        context.note("%s: %.3f s, samples for %.3f s, and %.3f s of its other thread" %
                     (name, told[actor.pid][2], main / HZ, seen["beside"] / HZ))
        check(all(n <= 1.1 * most * HZ + 5 for n in (main, seen["beside"])),
              "more samples than there was time: %s in %s s" % (seen, most))
    fast, slow = actors["Fast"], actors["SlowPolicyWorker"]
    steps = context.json("x.json")["steps"]
    check(steps["workers"] == 2 and steps["recorded"] == 4 and steps["samples_outside"] > 0 and
          "title_changes_lost" not in steps, "%s" % steps)
    matched = re.findall(r"watching worker '([^']*)' pid (\d+) \(matched '([^']*)'\)", done.text)
    check({(pid, pattern) for _, pid, pattern in matched} ==
          {(str(fast.pid), "fast.step"), (str(slow.pid), "*policy*")}, "%s" % matched)


@test()
def short_steps(context):
    """Steps of 3 ms, shorter than the time between two samples: each counts."""
    actor = Actor(context, "Quick", 3, 2, gate=True)
    time.sleep(0.3)
    recorder = context.start("record", "-F", 99, "--worker", "quick", "--steps", "101:301", "-o",
                             "x.folded", "--stats", "x.json")
    context.sampling(recorder)
    actor.process.send_signal(signal.SIGUSR1)
    done = context.finish(recorder, 15).expect(0)
    steps, seconds = context.json("x.json")["steps"], summary(done)[actor.pid][2]
    calls = actor.calls()[100:300]
    check(steps["seen"] == 300 and steps["recorded"] == 200, "%s" % steps)
    least, most = sum(c[2] - c[1] for c in calls), sum(c[3] - c[0] for c in calls)
    context.note("%.4f s, calls 101 to 300 took %.4f to %.4f s" % (seconds, least, most))
    check(least - 0.001 <= seconds <= most + 0.001, "%.4f s, they took %.4f to %.4f s" %
          (seconds, least, most))
    check("resting" not in functions(context, "x.folded"), "recorded between two steps")


def check_windows(context, mode, range_of_steps, wanted, with_methods):
    """The samples of exactly these windows, and of nothing that was taken for a step before."""
    actor = Actor(context, "PolicyWorker", 160, 40, mode, gate=True, windows=fakes(context).cuda)
    time.sleep(0.3)
    recorder = context.start("record", "-F", HZ, "--worker", "*policy*", "--steps", range_of_steps,
                             "-o", "x.folded", "--stats", "x.json")
    context.sampling(recorder)
    actor.process.send_signal(signal.SIGUSR1)
    done = context.finish(recorder, 20).expect(0)
    check("pid %d makes windows with cudaProfilerStart" % actor.pid in done.text, done.text)
    seen = functions(context, "x.folded", "ray::" if mode == "plain" else "beside")
    check(set(seen) == {*wanted, "beside"}, "%s" % seen)
    stats = context.json("x.json")
    check(stats["samples"]["total"] == sum(
        count for _, _, count in chains.read_folded(context.text("x.folded"))),
          "%s" % stats["samples"])
    steps = stats["steps"]
    check(steps["workers_with_windows"] == 1 and steps["recorded"] == 2 and
          "windows_lost" not in steps, "%s" % steps)
    check(steps.get("samples_before_windows", 0) >= (10 if with_methods else 0), "%s" % steps)
    told = re.search(r"worker '[^']*' pid %d: 2 of 2 windows of the profiler recorded, ([\d.]+) s" %
                     actor.pid, done.text)
    check(told, done.text)
    logged = actor.calls()[int(wanted[0].split("_")[1]) - 1:][:2]
    least, most = sum(c[2] - c[1] for c in logged), sum(c[3] - c[0] for c in logged)
    check(least - 0.001 <= float(told.group(1)) <= most + 0.001, "%s, not %.4f to %.4f s" % (
        told.group(1), least, most))
    check(sum(seen[name] for name in wanted) <= 1.1 * most * HZ + 5, "%s in %.4f s" % (seen, most))
    context.note("%s s, %.4f to %.4f s; %s" % (told.group(1), least, most, steps))


@test()
def windows(context):
    """Windows of the profiler, where a worker makes some; calls recorded before are forgotten."""
    check_windows(context, "plain", "2:4", ["call_4", "call_5"], True)


@test()
def windows_of_threads(context):
    """The calls of the worker run in another thread than the main one."""
    check_windows(context, "threads", "2:4", ["call_4", "call_5"], True)


def recorded(context, steps):
    """What ran in these steps of a worker that makes windows in its calls from the third one on."""
    actor = Actor(context, "PolicyWorker", 160, 40, gate=True, windows=fakes(context).cuda)
    time.sleep(0.3)
    recorder = context.start("record", "-F", HZ, "--worker", "*policy*", "--steps", steps, "-o",
                             "x.folded", "--stats", "x.json")
    context.sampling(recorder)
    actor.process.send_signal(signal.SIGUSR1)
    done = context.finish(recorder, 20).expect(0)
    stats = context.json("x.json")["steps"]
    check(stats["recorded"] == 2 and "samples_before_windows" not in stats and
          "makes windows with cudaProfilerStart" not in done.text, "%s\n%s" % (stats, done.text))
    what = "windows of the profiler" if steps.startswith("windows") else "steps"
    check("pid %d: 2 of 2 %s recorded" % (actor.pid, what) in done.text, done.text)
    return set(functions(context, "x.folded", "ray::")), stats


@test()
def windows_asked_for(context):
    """Exactly these windows, though as many calls are over before the first one."""
    seen, stats = recorded(context, "windows:1:3")
    check(seen == {"call_3", "call_4", "beside"} and stats["workers_with_windows"] == 1,
          "%s: %s" % (seen, stats))


@test()
def calls_asked_for(context):
    """Whole calls, windows in them or not."""
    seen, stats = recorded(context, "calls:2:4")
    check(seen == {"call_2", "call_3", "call_other", "beside"} and
          "workers_with_windows" not in stats, "%s: %s" % (seen, stats))


@test()
def no_windows_asked_for(context):
    """A worker without any is told so, and its calls are none."""
    actor = Actor(context, "PolicyWorker", 60, 20)
    time.sleep(0.3)
    done = context.bpfprof("record", "-d", "2", "--worker", "*policy*", "--steps", "windows:1:3",
                           "-o", "x.folded", "--stats", "x.json", timeout=20).expect(0)
    check("pid %d: 0 of 2 windows of the profiler recorded; 0 seen" % actor.pid in done.text,
          done.text)
    stats = context.json("x.json")
    check(stats["samples"]["total"] == 0 and "workers_with_windows" not in stats["steps"],
          "%s" % stats)


WATCHING = r"watching \d+ functions? in \d+ librar"


def start_with_calls(context, steps):
    return Run(context, "record", "-F", HZ, "--gpu", "--worker", "*launcher*", "--steps",
               steps, "-o", "x.folded", "-o", "x.pb.gz", "--stats", "x.json")


def kernels_of(context):
    """Launches by (pid, kernel), all calls that are in the files, which agree."""
    kernels, files = {}, Files(context, "x.cuda")
    for frames, values, labels in files.samples:
        key = labels["pid"], labels.get("kernel", frames[0])
        kernels[key] = kernels.get(key, 0) + values["calls/count"]
    stats = context.json("x.json")
    check(not any(stats["gpu"]["lost"].values()), "lost: %s" % stats["gpu"]["lost"])
    check(stats["gpu"]["calls"]["launch"] == sum(kernels.values()) == sum(
        count for _, count in files.folded), "%s, but %s" % (stats["gpu"]["calls"], kernels))
    return kernels


def with_calls(context, steps, nr_windows):
    """record --gpu of these steps of a worker that makes windows from its third call on: kernels, frames."""
    actor = Actor(context, "Launcher", 400, 200, seconds=90, gate=True,
                  windows=fakes(context).cuda)
    other = Caller(context, "windows")  # of nobody that was asked for
    time.sleep(0.3)
    run = start_with_calls(context, steps)
    run.wait_for(WATCHING)
    other.work()
    actor.process.send_signal(signal.SIGUSR1)
    context.finish(run.process, 60).expect(0)
    stats = context.json("x.json")["steps"]
    check(stats["recorded"] == 2 and stats.get("workers_with_windows", 0) == nr_windows and
          "windows_lost" not in stats, "%s" % stats)
    check("2 of 2 %s recorded" % ("windows of the profiler" if nr_windows else "steps") in
          run.messages(), run.messages())
    kernels = kernels_of(context)
    check({pid for pid, _ in kernels} == {actor.pid}, "%s" % kernels)
    return {name: n for (_, name), n in kernels.items()}, set(functions(context, "x.folded", "ray::"))


@test()
def calls_in_windows(context):
    """Windows of the profiler: each launch in them, the first and the last too, and no other one."""
    kernels, seen = with_calls(context, "2:4", 1)
    check(kernels == {"in_4": 8, "in_5": 10}, "%s" % kernels)
    check(seen == {"call_4", "call_5", "beside"}, "%s" % seen)


@test()
def calls_in_windows_asked_for(context):
    kernels, seen = with_calls(context, "windows:1:3", 1)
    check(kernels == {"in_3": 6, "in_4": 8}, "%s" % kernels)
    check(seen == {"call_3", "call_4", "beside"}, "%s" % seen)


@test()
def calls_in_calls(context):
    """Whole calls of the method, windows in them or not."""
    kernels, seen = with_calls(context, "calls:2:4", 0)
    check(kernels == {"out_2": 2, "out_3": 6, "in_3": 6}, "%s" % kernels)
    check(seen == {"call_2", "call_3", "call_other", "beside"}, "%s" % seen)


@test()
def calls_of_two_workers(context):
    """One without windows beside one that makes some: each has its own steps, in both files."""
    where = fakes(context).cuda
    plain = Actor(context, "QuietLauncher", 1600, 200, seconds=90, gate=True, calls=2, windows=where)
    actor = Actor(context, "Launcher", 400, 200, seconds=90, gate=True, windows=where)
    time.sleep(0.3)
    run = start_with_calls(context, "2:3")
    run.wait_for(WATCHING)
    for one in (plain, actor):
        one.process.send_signal(signal.SIGUSR1)
    context.finish(run.process, 60).expect(0)
    kernels = kernels_of(context)
    check(kernels == {(plain.pid, "out_2"): 2, (actor.pid, "in_4"): 8}, "%s" % kernels)
    seen = functions(context, "x.folded", "ray::")
    check(set(seen) == {"call_2", "call_4", "beside"}, "%s" % seen)
    check(context.json("x.json")["steps"]["recorded"] == 2, "%s" % context.json("x.json")["steps"])


def has_link(fdinfo):
    """Is it of a program of BPF that runs? False, too, if it has been closed."""
    try:
        with open(fdinfo, encoding="ascii") as file:
            return "link_type:" in file.read()
    except FileNotFoundError:
        return False


@test()
def calls_before_the_hooks(context):
    """What begins before launches can be counted is no step: not of the samples either."""
    actor = Actor(context, "Launcher", 200, 20, seconds=90, gate=True,
                  windows=fakes(context).cuda)
    time.sleep(0.3)
    run = start_with_calls(context, "calls:1:3")
    links = "/proc/%d/fdinfo" % run.process.pid
    while run.process.poll() is None and not any(has_link(os.path.join(links, name))
                                                 for name in os.listdir(links)):
        time.sleep(0.05)
    actor.process.send_signal(signal.SIGUSR1)
    not_yet = time.monotonic()
    while run.process.poll() is None and "watching" not in re.sub("watching worker", "", run.messages()):
        not_yet = time.monotonic()
        time.sleep(0.01)
    context.finish(run.process, 60).expect(0)
    first = min(int(name[5:]) for name in functions(context, "x.folded", "ray::")
                if re.fullmatch(r"call_\d+", name))
    begun = actor.calls()[first - 1][0]
    context.note("call %d, begun %.3f s after the hooks were told of" % (first, begun - not_yet))
    check(begun > not_yet - 0.05, "call %d begun %.3f s before the hooks were there" % (
        first, not_yet - begun))


@test()
def elsewhere(context):
    """A worker that matches and lives where --container does not say: nothing, and no crash."""
    Actor(context, "PolicyWorker", 60, 20)
    time.sleep(0.3)
    done = context.bpfprof("record", "-F", HZ, "--container", "deadbeef", "--worker", "*policy*",
                           "--steps", "3:5", "-d", "1", "-o", "x.folded", "--stats", "x.json",
                           timeout=20).expect(0)
    check("steps recorded" not in done.text and "no process on this node lives" in done.text, done.text)
    check(context.json("x.json")["samples"]["total"] == 0, "samples")


@test()
def begun_before(context):
    """A call that runs when the recording begins is no step: the next one is the first."""
    Actor(context, "Long", 2500, 20)
    time.sleep(0.3)
    context.bpfprof("record", "-F", HZ, "--worker", "long", "--steps", "1:2", "-o", "x.folded",
                    timeout=20).expect(0)
    seen = functions(context, "x.folded")
    check(set(seen) == {"call_2", "beside"}, "%s" % seen)


@test()
def born_meanwhile(context):
    """The constructor and what Ray calls are no steps; nor does another name end one."""
    recorder = context.start("record", "-F", HZ, "--worker", "young", "--steps", "1:3", "-o",
                             "x.folded")
    context.sampling(recorder)
    actor = Actor(context, "Young", 60, 20, "born")
    done = context.finish(recorder, 15).expect(0)
    check(summary(done)[actor.pid][:2] == (2, 2), done.text)
    seen = functions(context, "x.folded")
    check(set(seen) == {"call_1", "call_2", "beside"}, "%s" % seen)


@test()
def one_of_two_methods(context):
    """Calls of another method of the class do not count."""
    actor = Actor(context, "Mixed", 40, 10, "other", gate=True)
    time.sleep(0.3)
    recorder = context.start("record", "-F", HZ, "--worker", "mixed.step", "--steps", "2:4", "-o",
                             "x.folded")
    context.sampling(recorder)
    actor.process.send_signal(signal.SIGUSR1)
    done = context.finish(recorder, 15).expect(0)
    seen = functions(context, "x.folded")
    check(set(seen) == {"call_2", "call_3", "beside"}, "%s" % seen)
    check(summary(done)[actor.pid][:2] == (2, 2), done.text)


@test()
def names_and_tasks(context):
    """Calls with a name of their own; tasks, between which a worker is idle."""
    for name, mode, pattern in (("Owner", "named", "special"), ("sort_numbers", "task", "sort*")):
        # One begins while it calls, one while it rests.
        for gate in (False, True):
            actor = Actor(context, name, 120, 30, mode, gate=gate)
            time.sleep(0.3)
            recorder = context.start("record", "-F", HZ, "--worker", pattern, "--steps", "2:4",
                                     "-o", "x.folded")
            context.sampling(recorder)
            actor.process.send_signal(signal.SIGUSR1)
            done = context.finish(recorder, 15).expect(0)
            seen = functions(context, "x.folded")
            check(len([f for f in seen if f.startswith("call_")]) == 2 and "resting" not in seen,
                  "%s: %s" % (mode, seen))
            check(not gate or set(seen) == {"call_2", "call_3", "beside"}, "%s: %s" % (mode, seen))
            check(summary(done)[actor.pid][:2] == (2, 2), done.text)
            actor.process.kill()


@test()
def cut_short(context):
    """By -d, by Ctrl-C, by the worker's end: said how far it came."""
    actor = Actor(context, "Tired", 200, 20, seconds=60)
    time.sleep(0.3)
    done = context.bpfprof("record", "-d", "2", "--worker", "tired", "--steps", "2:1000", "-o",
                           "x.folded", timeout=15).expect(0)
    check(re.search(r"worker 'Tired[^']*' pid %d: [1-9]\d* of 998 steps recorded, .*; [1-9]\d* seen" %
                    actor.pid, done.text), done.text)
    recorder = context.start("record", "--worker", "tired", "--steps", "500:501", "-o", "x.folded")
    context.sampling(recorder)
    time.sleep(1)
    recorder.send_signal(signal.SIGINT)
    done = context.finish(recorder, 15).expect(0)
    check(re.search(r"worker 'Tired[^']*' pid %d: 0 of 1 steps recorded; [1-9]\d* seen" % actor.pid,
                    done.text), done.text)
    check("no step has a sample" in done.text, done.text)
    recorder = context.start("record", "--worker", "tired", "--steps", "1:1000", "-o", "x.folded")
    context.sampling(recorder)
    time.sleep(1)
    actor.process.kill()
    actor.process.wait()
    done = context.finish(recorder, 15).expect(0)
    check("seen when it exited" in done.text, done.text)


@test()
def in_threads(context):
    """An actor whose calls run in another thread than the main one: as any other."""
    actor = Actor(context, "Threaded", 50, 20, "threads", gate=True)
    time.sleep(0.3)
    recorder = context.start("record", "-F", HZ, "--worker", "threaded", "--steps", "2:4", "-o",
                             "x.folded")
    context.sampling(recorder)
    actor.process.send_signal(signal.SIGUSR1)
    done = context.finish(recorder, 15).expect(0)
    check(summary(done)[actor.pid][:2] == (2, 2), done.text)
    seen = functions(context, "x.folded", "")
    check(set(seen) == {"call_2", "call_3", "beside"}, "%s" % seen)


def check_overlapping(context, mode, pattern, wanted_of):
    """The time in which any of steps 3 to 5 runs, to the change of the title, and what runs in it."""
    actor = Overlapping(context, mode)
    actor.wait(1)
    recorder = context.start("record", "-F", HZ, "--worker", pattern, "--steps", "3:6", "-o",
                             "x.folded", "--stats", "x.json")
    context.sampling(recorder)
    actor.process.send_signal(signal.SIGUSR1)
    done = context.finish(recorder, 60).expect(0)
    actor.wait(1 + actor.NR_CALLS)
    calls = actor.calls()
    steps = [call for call in calls if wanted_of(call[0])][2:5]
    least, most = union_ns([call[3:5] for call in steps]), union_ns([(c[2], c[5]) for c in steps])
    check(summary(done)[actor.pid][:2] == (3, 3) and
          least / 1e9 - 0.001 <= summary(done)[actor.pid][2] <= most / 1e9 + 0.001,
          "%s, not %.4f to %.4f s" % (done.text, least / 1e9, most / 1e9))
    check(most < sum(call[5] - call[2] for call in steps), "they do not overlap: %s" % steps)
    may = {"call_%d" % (n + 1) if n < 12 else "call_other" for n, call in enumerate(calls)
           if any(call[2] < step[5] and step[2] < call[5] for step in steps)}
    must = {"call_%d" % (calls.index(step) + 1) if calls.index(step) < 12 else "call_other"
            for step in steps}
    seen = functions(context, "x.folded", "")
    check(must <= set(seen) <= may, "%s, not %s to %s" % (seen, must, may))
    stats = context.json("x.json")["steps"]
    check(stats["recorded"] == 3 and not stats.get("recorded_in_part") and
          not stats.get("calls_no_room"), "%s" % stats)
    context.note("%s s, %.4f to %.4f s; %s" % (summary(done)[actor.pid][2], least / 1e9,
                                               most / 1e9, seen))


@test()
def overlapping_threads(context):
    check_overlapping(context, "threads", "service", lambda method: True)


@test()
def overlapping_fibers(context):
    check_overlapping(context, "fibers", "service", lambda method: True)


@test()
def overlapping_one_method(context):
    """Only calls of one method, whose ends are titles of the class; another begins with its name."""
    check_overlapping(context, "fibers", "service.f", lambda method: method == "f")


@test()
def usage(context):
    """What is no range, and what is asked of nobody."""
    for words in ("--worker x --steps 0:10", "--worker x --steps 5:5", "--worker x --steps a:b",
                  "--worker x --steps 5:", "--worker x --steps -1:3"):
        done = context.bpfprof("record", *words.split()).expect(2)
        check("START:STOP" in done.text, done.text)
    done = context.bpfprof("record", "--steps", "3:5").expect(2)
    check("--worker" in done.text, done.text)
    context.bpfprof("top", "--steps", "3:5").expect(2)
    done = context.bpfprof("record", "-d", "1", "--worker", "no_such", "--steps", "1:2", "-o",
                           "x.folded").expect(0)
    check("no process matched --worker" in done.text, done.text)


@test()
def storms(context):
    """Others that change their titles as fast as they can cost a worker none of its steps."""
    storm = [Actor(context, "Other", 0, 0, "storm", seconds=60) for _ in range(2)]
    flood = Actor(context, "Flood", 0, 0, "flood", seconds=60)
    worker = Actor(context, "Steady", 60, 20, seconds=60)
    time.sleep(0.5)
    began = time.monotonic()
    done = context.bpfprof("record", "-F", HZ, "--worker", "steady,flood*", "--steps", "3:23", "-o",
                           "x.folded", "--stats", "x.json", timeout=40).expect(0)
    stats = context.json("x.json")
    context.note("%s" % stats["steps"])
    check(summary(done)[worker.pid][:2] == (20, 20), done.text)
    seconds = time.monotonic() - began
    check(stats["steps"]["title_changes"] < 100000 * seconds, "%s" % stats["steps"])
    check(stats["steps"]["title_changes_too_many"] > 10000, "%s" % stats["steps"])
    check(not stats["lost"].get("ring_full") and "process_events_lost" not in stats["clock"],
          "%s" % stats)
    line = re.search(r": worker 'Steady[^\n]*", done.text).group(0)
    check("lost" not in line, line)
    check(all(actor.process.poll() is None for actor in [*storm, flood]), "a storm ended")
    calls = [c for c in functions(context, "x.folded", "ray::Steady") if c.startswith("call_")]
    check(len(calls) == 12, "%s" % calls)
    done = context.bpfprof("record", "-d", "2", "--worker", "flood*,steady", "--steps",
                           "1:1000000000", "-o", "x.folded").expect(0)
    line = re.search(r": worker 'Flood[^\n]*", done.text).group(0)
    check("changes of its title were lost: steps may be miscounted" in line, line)
    check("lost" not in re.search(r": worker 'Steady[^\n]*", done.text).group(0), done.text)
