# SPDX-License-Identifier: Apache-2.0
"""The Ray task of each sample: what workers write over their arguments, and what else is there."""

import json
import os
import re
import time

import chains
from harness import check, test
from pprof import Pprof

BESIDE = True
LOCK = "workers"
HERE = os.path.dirname(os.path.abspath(__file__))
HZ = 999
ROOM = "r" * 1500  # an argument that is long enough for every title
TITLE_MAX = 1023


def worker(context, seconds, mode, **kwargs):
    return context.spawn([context.helper("titles", "titles.c"), str(seconds), ROOM, mode], **kwargs)


def python_worker(context, seconds):
    return context.spawn(["/usr/bin/python3", os.path.join(HERE, "python", "worker.py"),
                          str(seconds), ROOM])


def processes(context, name="x.folded"):
    seen = {}
    for process, _, count in chains.read_folded(context.text(name)):
        seen[process] = seen.get(process, 0) + count
    return seen


def measure_shares(context, *flags):
    out = open(context.path("truth"), "w+", encoding="ascii")
    context.stack.callback(out.close)
    target = worker(context, 5, "shares", stdout=out)
    context.bpfprof("record", "-F", HZ, "-d", "50", "-p", target.pid, *flags, "-o", "x.folded",
                    "-o", "x.pb.gz", "--stats", "x.json").expect(0)
    target.wait()
    out.seek(0)
    truth = dict((line.rpartition(" ")[0], int(line.rpartition(" ")[2])) for line in out)
    seen = {t: n for t, n in processes(context).items() if t.startswith("ray::")}
    every, total = sum(truth.values()), sum(seen.values())
    check(total > HZ and set(seen) == set(truth), "recorded: %s" % seen)
    worst = max(abs(100.0 * truth[t] / every - 100.0 * seen[t] / total) for t in truth)
    context.note("worst of 4 titles: %.2f points of %d samples" % (worst, total))
    check(worst <= 2, "%.2f points: %s, own clocks: %s" % (worst, seen, truth))
    labels = {}
    for sample in Pprof(context.read("x.pb.gz")).samples:
        task = sample["labels"].get("ray_task")
        check(not task or sample["labels"].get("ray_role") == "worker", "%s" % sample["labels"])
        if task:
            labels[task] = labels.get(task, 0) + sample["values"][0]
    check(labels == seen, "labels %s, collapsed %s" % (labels, seen))
    stats = context.json("x.json")
    check(stats["walk"]["ray_samples"] == total, "counted: %s of %d" % (stats["walk"], total))
    check("ray_titles_bad" not in stats["walk"], "bad: %s" % stats["walk"])


@test()
def shares(context):
    """Four titles in turns, none longer than 80 ms: within 2 points of the worker's own clock."""
    measure_shares(context, "--clock", "perf" if context.mode == "root" else "auto")


@test()
def shares_by_timer(context):
    measure_shares(context, "--clock", "timer")


@test()
def renamed_thread(context):
    """A worker whose main thread took another name is one all the same: its titles count."""
    program = [context.helper("titles", "titles.c"), "4", ROOM, "once"]
    context.bpfprof("record", "-F", HZ, "-o", "x.folded", "--", *program).expect(0)
    seen = {name: n for name, n in processes(context).items() if name not in ("titles", "bpfprof")}
    check(set(seen) <= {"ray::Trainer.fit", "ray::Trainer.later"} and len(seen) == 2,
          "recorded: %s" % seen)


@test()
def renamed_before(context):
    """A Python worker that has another name already when the recording begins; its functions."""
    target = python_worker(context, 8)
    context.bpfprof("record", "-F", HZ, "-d", "4", "-p", target.pid, "-o", "y.folded").expect(0)
    context.bpfprof("record", "-F", HZ, "-d", "3", "-p", target.pid, "-o", "x.folded", "-o",
                    "x.raw").expect(0)
    seen = processes(context)
    check(set(seen) <= {"ray::Trainer.fit", "ray::Trainer.evaluate"}, "recorded: %s" % seen)
    wrong = right = 0
    for process, frames, count in chains.read_folded(context.text("x.folded")):
        functions = {frame.split(" (")[0] for frame in frames}
        for function in ("fit", "evaluate"):
            if function in functions:
                right += count if process == "ray::Trainer." + function else 0
                wrong += count if process != "ray::Trainer." + function else 0
    context.note("%d samples, %d under another's title" % (right + wrong, wrong))
    check(right > 50 and wrong <= 0.005 * right, "%d right, %d wrong" % (right, wrong))
    raw = context.text("x.raw")
    check("process " not in raw, "one process became several:\n" + raw[:500])


@test()
def bad_titles(context):
    """Escapes, broken text, no title: all for the last good one, and counted."""
    target = worker(context, 4, "bad")
    context.bpfprof("record", "-F", HZ, "-d", "3", "-p", target.pid, "-o", "x.folded", "--stats",
                    "x.json").expect(0)
    text = context.text("x.folded")
    check("\033" not in text and "\x07" not in text, "an escape came through")
    seen = processes(context)
    check(seen.get("ray::Good.one", 0) > 0.99 * sum(seen.values()), "recorded: %s" % seen)
    check(context.json("x.json")["walk"].get("ray_titles_bad", 0) > 0.2 * sum(seen.values()),
          "not counted")


@test()
def long_titles(context):
    """1305 bytes, and no end at all: cut visibly at 1023."""
    for mode, letter in (("long", "x"), ("endless", "y")):
        target = worker(context, 4, mode)
        context.bpfprof("record", "-F", HZ, "-d", "1", "-p", target.pid, "-o",
                        "x.folded").expect(0)
        want = ("ray::" + letter * TITLE_MAX)[:TITLE_MAX - 3] + "..."
        seen = processes(context)
        check(seen.get(want, 0) > 0.9 * sum(seen.values()), "%s: recorded: %s" % (mode, seen))
        target.kill()


@test()
def many_titles(context):
    """A title that changes each millisecond: 256 are kept apart, the rest is counted together."""
    target = worker(context, 6, "many")
    context.bpfprof("record", "-F", 1999, "-d", "4", "-p", target.pid, "-o", "x.folded",
                    "--stats", "x.json").expect(0)
    seen = {t: n for t, n in processes(context).items() if t.startswith("ray::")}
    check(len(seen) == 257 and "ray::(other)" in seen, "%d titles" % len(seen))
    over = context.json("x.json")["walk"].get("ray_titles_too_many")
    check(over == seen["ray::(other)"], "%s counted, %d seen" % (over, seen["ray::(other)"]))


def watched(done):
    return sorted(re.findall(r"watching worker '(.*)' pid (\d+) \(matched '(.*)'\)", done.text))


@test()
def by_worker(context):
    """--worker: exactly the matching processes, each reported once; a pattern without a match is reported."""
    target = worker(context, 30, "shares")
    done = context.bpfprof("record", "-F", HZ, "-d", "2", "--worker", " *.EVAL_uate, ,mapb[a-b]*",
                           "-o", "x.folded").expect(0)
    check(set(processes(context)) == {"ray::Trainer.evaluate", "ray::MapBatches(expensive)"},
          "recorded: %s" % processes(context))
    found = watched(done)
    check(len(found) == 1 and found[0][1] == str(target.pid) and
          found[0][::2] in (("Trainer.evaluate", "*.EVAL_uate"),
                            ("MapBatches(expensive)", "mapb[a-b]*")), "told: %s" % found)
    other = worker(context, 30, "shares")
    done = context.bpfprof("record", "-F", HZ, "-d", "2", "-o", "x.folded",
                           env=dict(os.environ, BPFPROF_WORKER="trainer")).expect(0)
    check(set(processes(context)) == {"ray::Trainer.evaluate", "ray::Trainer.fit"},
          "recorded: %s" % processes(context))
    check({f[1] for f in watched(done)} == {str(target.pid), str(other.pid)},
          "told: %s" % watched(done))
    done = context.bpfprof("record", "-d", "1", "--worker", "no_such", "-o", "x.folded").expect(0)
    check("no process matched --worker" in done.text and not watched(done), done.text)
    done = context.bpfprof("top", "--once", "--worker", "idle").expect(0)
    check("workers 'idle'" in done.text and "burn" in done.text, done.text)


@test()
def beside_pid(context):
    """--worker and -p add up."""
    worker(context, 30, "shares")
    calls = context.spawn([context.target("calls_gO2").path, "30"])
    context.bpfprof("record", "-F", HZ, "-d", "2", "--worker", "trainer.fit", "-p", calls.pid,
                    "-o", "x.folded").expect(0)
    check(set(processes(context)) == {"ray::Trainer.fit", "calls_gO2"},
          "recorded: %s" % processes(context))


@test()
def by_process(context):
    """Two workers with the same titles, each under one name of its own; the labels are the tasks."""
    workers = [worker(context, 30, "shares") for _ in range(2)]
    context.bpfprof("record", "-F", HZ, "-d", "3", "-p", "%d,%d" % tuple(w.pid for w in workers),
                    "--by", "process", "-o", "x.folded", "-o", "x.pb.gz").expect(0)
    names = {process.rpartition("-")[2] for process in processes(context)}
    check(names == {str(w.pid) for w in workers} and len(processes(context)) == 2,
          "recorded: %s" % processes(context))
    tasks = {s["labels"].get("ray_task") for s in Pprof(context.read("x.pb.gz")).samples}
    check("ray::Trainer.fit" in tasks and "ray::IDLE" in tasks, "labels: %s" % tasks)


@test()
def file_names(context):
    """%w in the name of a file is the class of a worker, or what a process is called; %p that of -p."""
    one, other = worker(context, 30, "shares"), context.spawn(
        [context.target("calls_gO2").path, "30"])
    context.bpfprof("record", "-d", "2", "-p", "%d,%d" % (one.pid, other.pid), "--split",
                    "process", "-o", context.path("%w-%p.folded")).expect(0)
    for name in ("Trainer-%d.folded" % one.pid, "calls_gO2-%d.folded" % other.pid):
        check(os.path.exists(context.path(name)), "%s is not in %s" % (
            name, os.listdir(context.path("."))))
    context.bpfprof("record", "-d", "1", "-p", one.pid, "-o", context.path("%w.%p.folded")).expect(0)
    check(os.path.exists(context.path("Trainer.%d.folded" % one.pid)), "one process")


@test()
def asleep(context):
    """An idle worker that --worker names is reported; dump has its task."""
    source = context.path("sleeps.py")
    with open(source, "w", encoding="ascii") as file:
        file.write("import time\ntime.sleep(60)\n")
    sleeper = context.spawn(["/usr/bin/env", "bash", "-c",
                             "exec -a ray::Sleeper.wait /usr/bin/python3 %s" % source])
    time.sleep(1)
    text = context.bpfprof("record", "-d", "1", "--worker", "sleeper", "-o", "x.folded").expect(0).text
    check("pid %d (matched 'sleeper')" % sleeper.pid in text and
          "bpfprof dump -p %d shows" % sleeper.pid in text and "no process matched" not in text, text)
    threads = json.loads(context.bpfprof("dump", "-p", sleeper.pid, "--json").expect(0).out)
    check(threads and all(thread["ray_task"].startswith("ray::Sleeper.wait") for thread in threads),
          str(threads)[:500])


@test()
def no_worker(context):
    """A program that calls itself ray without colons, or has such an argument, is none."""
    target = context.spawn([context.helper("titles", "titles.c"), "3", "ray::Fake.argument", "-"])
    context.bpfprof("record", "-F", HZ, "-d", "1", "-p", target.pid, "-o", "x.folded", "--stats",
                    "x.json").expect(0)
    check(set(processes(context)) == {"titles"}, "recorded: %s" % processes(context))
    check("ray_samples" not in context.json("x.json")["walk"], "taken for a worker")
