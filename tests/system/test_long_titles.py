# SPDX-License-Identifier: Apache-2.0
"""Ray's titles as long as Ray writes them: whole up to 1023 bytes, longer ones cut visibly."""

import collections
import signal

import chains
from harness import check, test
from pprof import Pprof
from test_steps import summary
from test_timeline import begin, end, of, rounds_to, until

BESIDE = True
LOCK = "workers"
HZ = 999
ROOM = "r" * 3000
TITLE_MAX = 1023
LENGTHS = (100, 127, 128, 129, 200, 511, 512, 513, 872, 1022, 1023, 1024, 1031, 1032, 2000)

Call = collections.namedtuple("Call", "title begin begun end ended")


def title_of(length, last):
    """The title of the call."""
    whole = "ray::" + "x" * (length - 6) + last
    return whole if length <= TITLE_MAX else whole[:TITLE_MAX - 3] + "..."


class Worker:
    """Two tasks of each length, which differ in their last byte."""

    def __init__(self, context, lengths, ms, times):
        self.log, self.nr = context.path("long_titles.log"), 2 * len(lengths) * times
        with open(self.log, "wb") as out:
            self.process = context.spawn(
                [context.helper("long_titles", "long_titles.c"), ROOM,
                 ",".join(str(n) for n in lengths), str(ms), str(times)], stdout=out)
        self.pid = self.process.pid

    def calls(self):
        with open(self.log, encoding="ascii") as file:
            rows = [line.split() for line in file.read().split("\n")[:-1]]
        return [Call(title_of(int(row[0]), row[1]), *(int(word) for word in row[2:]))
                for row in rows]

    def run(self):
        self.process.send_signal(signal.SIGUSR1)
        until(lambda: len(self.calls()) == self.nr, "%d tasks" % self.nr)


def ray_titles(context, name="x.folded"):
    return {process for process, _, _ in chains.read_folded(context.text(name))
            if process.startswith("ray::")}


@test()
def whole(context):
    """Timeline, stacks, labels and the table of tasks: each title is whole, and none is another's."""
    worker = Worker(context, LENGTHS, 25, 2)
    recorder = begin(context, "-p", worker.pid, "-F", HZ, "-o", "x.folded", "-o", "x.pb.gz")
    worker.run()
    trace, _ = end(context, recorder)
    calls, found = worker.calls(), [one for one in of(trace, worker.pid)]
    check([one.name for one in found] == [call.title for call in calls],
          "timeline: %s" % [(len(one.name), one.name[-4:]) for one in found])
    for one, call in zip(found, calls):
        check(call.begin <= one.begin <= call.begun and call.end <= one.end <= call.ended,
              "%d bytes: %d to %d, not %s" % (len(one.name), one.begin, one.end, call[1:]))
        check(one.category == "task", str(one.event))
    titles = {call.title for call in calls}
    check(len(titles) == 2 * sum(n <= TITLE_MAX for n in LENGTHS) + 1, "%d titles" % len(titles))
    seen = ray_titles(context) - {"ray::IDLE"}
    check(seen == titles, "stacks: %s missing, %s too many, %s" % (
        sorted((len(t), t[-4:]) for t in titles - seen),
        sorted((len(t), t[-4:]) for t in seen - titles), context.json("stats.json")["walk"]))
    labels = {sample["labels"].get("ray_task") for sample in Pprof(context.read("x.pb.gz")).samples}
    check(labels - {None, "ray::IDLE"} == titles,
          "labels: %s" % sorted((len(t), t[-4:]) for t in labels - {None} ^ titles))
    rows = {row["name"]: row for row in trace.other["tasks"]}
    check(titles <= set(rows), "CPU times: %s" % [len(name) for name in rows])
    told = context.bpfprof("report", "--tasks", "x.json").expect(0).text.split("\n")
    for title in titles:
        row = [line.split() for line in told if line.endswith(" " + title[len("ray::"):])]
        took = sorted(one.end - one.begin for one in found if one.name == title)
        check(len(row) == 1 and int(row[0][0]) == len(took) and
              rounds_to(took[-1], row[0][5], row[0][6]),
              "report: %d bytes: %s, not %d of at most %d ns" % (len(title), row, len(took),
                                                                 took[-1]))
    context.note("%d calls, %d titles" % (len(found), len(titles)))


@test()
def steps(context):
    """--worker and --steps tell apart what differs after 127 bytes."""
    worker = Worker(context, (200, 512, 1023), 40, 2)
    recorder = context.start("record", "-F", HZ, "--worker", "*xa", "--steps", "2:4", "-o",
                             "x.folded")
    context.sampling(recorder)
    worker.run()
    done = context.finish(recorder, 60).expect(0)
    wanted = [call for call in worker.calls() if call.title.endswith("a")][1:3]
    nr, asked, seconds = summary(done)[worker.pid]
    least = sum(call.end - call.begun for call in wanted) / 1e9
    most = sum(call.ended - call.begin for call in wanted) / 1e9
    check((nr, asked) == (2, 2) and least - 0.001 <= seconds <= most + 0.001,
          "%d of %d, %.4f s, not %.4f to %.4f" % (nr, asked, seconds, least, most))
    check(ray_titles(context) == {call.title for call in wanted},
          "recorded: %s" % [len(title) for title in ray_titles(context)])


@test()
def worker(context):
    """--worker with a pattern as long as the title: the one task, not the other one."""
    target = Worker(context, (129, 512), 40, 1)
    wanted = title_of(512, "b")
    recorder = context.start("record", "-F", HZ, "--worker", wanted[len("ray::"):], "-o",
                             "x.folded")
    context.sampling(recorder)
    target.run()
    recorder.send_signal(signal.SIGINT)
    done = context.finish(recorder, 60).expect(0)
    check(ray_titles(context) == {wanted}, "recorded: %s" %
          [len(title) for title in ray_titles(context)])
    check("watching worker '%s' pid %d" % (wanted[len("ray::"):], target.pid) in done.text,
          done.text)
