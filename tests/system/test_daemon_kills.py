# SPDX-License-Identifier: Apache-2.0
"""daemon: a hundred intervals over many lives that all end by kill -9."""

import concurrent.futures
import contextlib
import json
import os
import random
import signal
import time

from daemons import SUFFIXES, Daemon, check_whole, stored
from harness import CAPS, check, test
from pprof import Pprof

BESIDE = True
LANES = 4  # daemons side by side, each with a folder of its own
INTERVALS = 100
SECONDS = 120  # at most
AIMED_SECONDS = 3  # at most, to meet a set that is being written


class Lane:
    """A folder, the daemons that write into it one after the other, and what is known of it."""

    def __init__(self, context, number, seed, program):
        self.context = context
        self.chance = random.Random("%s/%d" % (seed, number))
        self.folder = context.path("out%d" % number)
        self.program = program
        self.number = number
        self.lives = self.killed_writing = 0
        self.counts = {}  # samples of each file that was read whole, by its path
        self.intervals = {}  # (start, end) in ns, by the name of the set

    def live(self):
        """From a start to a kill -9; then everything that stands there is whole."""
        left = self.temporaries()
        daemon = Daemon(self.context, "--pid", self.program.pid, output=self.folder,
                        log="log%d.%d" % (self.number, self.lives))
        daemon.wait("sampling")
        again = left & self.temporaries()
        check(not again, "temporaries of the last life are left: %s" % again)
        self.watch_links(daemon, time.monotonic() + self.chance.uniform(1.5, 6))
        if self.chance.random() < 0.5:
            self.await_writing()
        # Kills the whole service, as the end of a container does, or its first process only.
        if self.chance.random() < 0.5:
            os.killpg(daemon.process.pid, signal.SIGKILL)
        else:
            daemon.process.kill()
        daemon.process.wait(10)
        self.lives += 1
        self.killed_writing += bool(self.temporaries())
        written = {line["file"] for line in daemon.said("profile written")}
        self.check_files()
        lost = written - set(self.intervals)
        check(not lost, "were said to be written and are not there: %s" % lost)

    def await_writing(self):
        """Files are written in some ms of a second, which chance alone would seldom meet."""
        before = self.temporaries()
        end = time.monotonic() + AIMED_SECONDS
        while not self.temporaries() - before and time.monotonic() < end:
            time.sleep(0.002)
        time.sleep(self.chance.uniform(0, 0.005))

    def temporaries(self):
        with contextlib.suppress(FileNotFoundError):
            return {name for name in os.listdir(self.folder) if name.endswith(".tmp")}
        return set()

    def watch_links(self, daemon, end):
        """A reader that opens latest.* at any moment gets a whole file, once there was one."""
        seen = {}
        while time.monotonic() < end:
            check(daemon.process.poll() is None, "ended: %s" % daemon.lines()[-3:])
            for suffix in SUFFIXES:
                link = os.path.join(self.folder, "latest" + suffix)
                with contextlib.suppress(FileNotFoundError if suffix not in seen else ()):
                    leads_to = os.readlink(link)
                    if seen.get(suffix) != leads_to:
                        check_whole(suffix, link)
                        seen[suffix] = leads_to
            time.sleep(0.05)

    def check_files(self, again=False):
        """Files never change once they have their name, so each is read once; again: all."""
        sets = stored(self.folder)
        for name, files in sets.items():
            for suffix, path in files.items():
                if again or path not in self.counts:
                    self.read(name, suffix, path)
            counts = {self.counts[path] for path in files.values() if path in self.counts}
            check(len(counts - {None}) <= 1, "%s: its files differ: %s" % (name, counts))
        check(all(os.path.exists(path) for path in self.counts), "files have gone")
        spans = sorted((span, name) for name, span in self.intervals.items())
        for (before, name), (after, next_name) in zip(spans, spans[1:]):
            check(before[1] <= after[0], "%s and %s have the same time in them" %
                  (name, next_name))
        for suffix in SUFFIXES:
            link = os.path.join(self.folder, "latest" + suffix)
            if sum(suffix in files for files in sets.values()) > 1:
                check(os.path.islink(link), link + " is not there")
            if os.path.lexists(link):
                check_whole(suffix, link)

    def read(self, name, suffix, path):
        check_whole(suffix, path)
        count = None
        with open(path, "rb") as file:
            data = file.read()
        if suffix == ".pb.gz":
            profile = Pprof(data)
            start, length = profile.scalars[9], profile.scalars[10]
            self.intervals[name] = (start, start + length)
            count = sum(sample["values"][0] for sample in profile.samples)
        elif suffix == ".folded":
            head, *stacks = data.decode("utf-8").splitlines()
            count = sum(int(stack.rsplit(" ", 1)[1]) for stack in stacks)
            total = json.loads(head[2:])["samples"]["total"]
            check(count == total, "%s: %d samples of %d" % (path, count, total))
        self.counts[path] = count


def run(lane, lanes, end):
    while sum(len(other.intervals) for other in lanes) < INTERVALS:
        check(time.monotonic() < end, "only %d intervals in %d s" %
              (sum(len(other.intervals) for other in lanes), SECONDS))
        lane.live()


@test(modes=CAPS, long=True)
def hundred_intervals(context):
    """Intervals of a second, each life ended at random: nothing is half, nothing twice."""
    seed = os.environ.get("TEST_SEED") or str(random.SystemRandom().randrange(10**9))
    context.note("TEST_SEED=" + seed)
    program = context.spawn(["/usr/bin/python3", "-c", """
import time
while True:
    end = time.monotonic() + 0.02
    while time.monotonic() < end:
        sum(range(1000))
    time.sleep(0.1)
"""])
    lanes = [Lane(context, number, seed, program) for number in range(LANES)]
    began = time.monotonic()
    try:
        with concurrent.futures.ThreadPoolExecutor(LANES) as pool:
            for life in [pool.submit(run, lane, lanes, began + SECONDS) for lane in lanes]:
                life.result()
        for lane in lanes:
            lane.check_files(again=True)
            daemon = Daemon(context, output=lane.folder, log="last%d" % lane.number)
            daemon.wait("sampling")
            check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
            check(not lane.temporaries(), "temporaries are left: %s" % lane.temporaries())
            lane.check_files()
    except Exception as failure:
        raise AssertionError("TEST_SEED=%s: %s" % (seed, failure)) from failure
    lives = sum(lane.lives for lane in lanes)
    files = sum(len(lane.counts) for lane in lanes)
    writing = sum(lane.killed_writing for lane in lanes)
    context.note("%d intervals, %d files, %d kills, %d of them while a set was written, %.0f s" % (
        sum(len(lane.intervals) for lane in lanes), files, lives, writing,
        time.monotonic() - began))
    check(writing, "no kill met a set that was being written")
    check(sum(sum(filter(None, lane.counts.values())) for lane in lanes) > 0, "no samples")
