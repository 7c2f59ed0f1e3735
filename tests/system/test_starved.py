# SPDX-License-Identifier: Apache-2.0
"""A trainer that waits for those that load its data; and programs that look like it, and are fine."""

import os
import re

from dumps import truth_of, wait_for
from harness import ROOT, check, test
from pprof import Pprof
from test_python import spawn
from test_wakers import Sample
from test_wall import SLACK_NS, some_pythons, span, within

LIGHT = True
PROGRAM = os.path.join(ROOT, "tests", "system", "python", "loader.py")
SECONDS, TRIES = 3, 5
# More than the finding needs: a few of them may have been ended by others.
SHARE, WAITS = 0.35, 14
TOLD = re.compile(r"the main thread of \S+ \(pid (\d+)\) waited (\d+)% of ([\d.]+) s for its (\d+) "
                  r"child process(?:es)? \(pid ([\d, ]+)\), which slept (\d+)% of .*\. The children ended (\d+)")


class Loader:
    """A run of loader.py."""

    def __init__(self, context, python, kind):
        self.kind = kind
        self.path = os.path.join(context.scratch("loader-" + kind), "truth")
        self.pid = spawn(context, [*python.argv, PROGRAM, self.path, kind], python.environment(),
                         [python.stdlib, os.path.dirname(PROGRAM)]).pid
        wait_for(lambda: os.path.exists(self.path + ".ready"), "%s: something has come" % kind)

    def truth(self):
        return truth_of(self.path)


def asleep(profile, pid):
    """Time that a main thread slept until another thread woke it, and the least number of waits."""
    samples = [(Sample(profile, sample), sample["values"][0]) for sample in profile.samples]
    mine = [(sample.ns, count) for sample, count in samples if sample.tid == pid and
            sample.leaf.startswith("[woken by ") and sample.leaf != "[woken by an interrupt]"]
    return sum(ns for ns, _ in mine), sum(count for _, count in mine)


def record(context, loaders):
    """
    Until the trainer has waited often enough: where other programs want the CPUs too, it gets less
    in the same time.
    """
    pids = [arg for loader in loaders for arg in ("-p", loader.pid)]
    for tries in range(1, TRIES + 1):
        context.bpfprof("record", "--wall", "--waker", "--threads", *pids, "-d", SECONDS * tries,
                        "-o", "x.pb.gz", "--stats", "x.json", timeout=90).expect(0)
        profile = Pprof(context.read("x.pb.gz"))
        ns, waits = asleep(profile, loaders[0].pid)
        begin, end = span(profile)
        if ns >= SHARE * (end - begin) and waits >= WAITS:
            return profile
    raise AssertionError("%s: %d waits, %.2f s in %.2f s" %
                         (loaders[0].kind, waits, ns / 1e9, (end - begin) / 1e9))


def starved_texts(context):
    return [(one["text"], one["command"]) for one in context.json("x.json")["findings"]
            if one["kind"] == "starved"]


def compare(context, profile, loader):
    """The one finding, against what the program says."""
    texts, truth = starved_texts(context), loader.truth()
    begin, end = span(profile)
    check(len(texts) == 1, "%s: found %s" % (loader.kind, context.json("x.json")["findings"]))
    text, command = texts[0]
    said = TOLD.search(text)
    check(said and int(said.group(1)) == truth["pid"] and
          [int(pid) for pid in said.group(5).split(", ")] == truth["children"] and
          command == "bpfprof record -d 10 -p %d" % truth["children"][0], "%s: %s" % (text, command))
    told = int(said.group(2)) / 100 * (end - begin)
    waited, seen = within(truth["waits"], begin, end), asleep(profile, truth["pid"])[0]
    slack = SLACK_NS + 0.01 * (end - begin)  # the report has whole percents
    context.note("%s: told %.2f s, its own clock %.2f s; %s" % (loader.kind, told / 1e9,
                                                               waited / 1e9, text))
    # Its own clock has the time in which it waited for a CPU, too; short waits are left to chance.
    period_ns = context.json("x.json")["waits"]["longest_period_us"] * 1e3
    short = sum(end - begin for begin, end in truth["waits"] if end - begin < period_ns)
    chance = 5 * (short * period_ns) ** 0.5
    check(seen - slack <= told <= min(waited + chance, seen) + slack, "%s; seen %.2f s" %
          (context.notes[-1], seen / 1e9))


@test()
def loader(context):
    """One process loads, and cannot keep up; beside it two that can."""
    python = some_pythons()[-1]
    loaders = [Loader(context, python, kind) for kind in ("starved", "fed")]
    compare(context, record(context, loaders), loaders[0])


@test()
def helper(context):
    """The same where a thread hands it on."""
    helped = Loader(context, some_pythons()[-1], "helped")
    compare(context, record(context, [helped]), helped)


@test()
def collector(context):
    """A pool whose results are only collected starves no process."""
    pool = Loader(context, some_pythons()[-1], "collector")
    context.bpfprof("record", "--wall", "--waker", "-p", pool.pid, "-d", 2.5, "-o", "x.folded",
                    "--stats", "x.json").expect(0)
    check(context.json("x.json")["waits"]["woken_by_threads"], "nobody has woken anybody")
    check(not starved_texts(context), "found %s" % starved_texts(context))
