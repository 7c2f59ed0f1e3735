# SPDX-License-Identifier: Apache-2.0
"""--start-at and --ready-fd: record, gpu and memory begin at a given moment, and report when they have begun."""

import json
import os
import signal
import subprocess
import time

from gpu_truth import Caller
from harness import check, test

# A program that computes, then touches memory, once its standard input has a line. It writes how much it did.
ON_REQUEST = """\
import sys, time
sys.stdin.readline()
def work():
    began = time.process_time()
    while time.process_time() < began + 1: pass
    return bytearray(64 << 20)
block = work()
print("done", flush=True)
time.sleep(600)
"""
LEAST = 4  # seconds that a loaded machine needs to be ready
LATE = 0.010
# A program that is in another function before the start, while it is recorded, and after the end.
PROGRAM = """\
import sys, time
start, end = float(sys.argv[1]), float(sys.argv[2])
def before():
    while time.time() < start: pass
def during():
    while time.time() < end: pass
def after():
    while True: pass
before(); during(); after()
"""


def moment():
    return round(time.time() + LEAST, 3)


def kept(context, stats, asked):
    """Seconds by which the start was late."""
    check(stats["start_at_seconds"] == asked, "asked for %s: %s" % (asked, stats["start_at_seconds"]))
    late = stats["start_seconds"] - asked
    context.note("%.1f ms late" % (1000 * late))
    check(0 <= late < LATE, "it begins %.4f s late" % late)
    return late


@test(alone=True)
def recorded(context):
    """No sample is from before the moment or from after its end, and those between are all there."""
    asked = moment()
    target = context.spawn(["/usr/bin/python3", "-c", PROGRAM, asked, asked + 2])
    context.bpfprof("record", "-p", target.pid, "-F", 997, "--start-at", "%.3f" % asked, "-d", 2,
                    "-o", "x.folded", "--stats", "x.json").expect(0)
    kept(context, context.json("x.json"), asked)
    samples = dict.fromkeys(("before", "during", "after"), 0)
    for line in context.text("x.folded").splitlines():
        for name in samples:
            if ";%s (" % name in line and not line.startswith("#"):
                samples[name] += int(line.rpartition(" ")[2])
    context.note("samples: %s" % samples)
    check(samples["before"] <= 997 * LATE and samples["after"] <= 997 * LATE, str(samples))
    check(samples["during"] > 500, str(samples))


@test(alone=True)
def waits_and_memory(context):
    """--wall counts no time before the moment, and memory none that was touched before."""
    asked = moment()
    target = context.spawn(["/usr/bin/python3", "-c", "import time; time.sleep(600)"])
    context.bpfprof("record", "--wall", "-p", target.pid, "--start-at", "%.3f" % asked, "-d", 1,
                    "-o", "x.folded", "--stats", "x.json").expect(0)
    kept(context, context.json("x.json"), asked)
    waited = sum(int(line.rpartition(" ")[2]) for line in context.text("x.folded").splitlines()
                 if not line.startswith("#"))
    check(0.98e6 < waited < 1.1e6, "%d us of waiting in 1 s" % waited)
    asked = moment()
    context.bpfprof("memory", "-p", target.pid, "--start-at", "%.3f" % asked, "-d", 1, "--stats",
                    "y.json").expect(0)
    kept(context, context.json("y.json"), asked)


@test()
def gpu_calls(context):
    """Calls are hooked at the moment, not before: calls that were made earlier are not counted."""
    caller = Caller(context, "calls")
    asked = moment()
    process = context.start("gpu", "--once", "--json", "-p", caller.pid, "--start-at",
                            "%.3f" % asked, "-d", 1)
    run = context.finish(process, 60).expect(0)
    late = json.loads(run.out)["start_seconds"] - asked
    context.note("all hooks %.1f ms after the moment" % (1000 * late))
    check(0 <= late < 2, "%.3f s late" % late)


@test()
def a_signal(context):
    """Ctrl-C before the moment ends it at once, in one sentence, without a file."""
    process = context.start("record", "--start-at", "%.3f" % (time.time() + 600), "-o", "x.folded")
    context.sampling(process)
    process.send_signal(signal.SIGINT)
    run = context.finish(process, 10).expect(1)
    check("a signal came before the time of --start-at" in run.text, run.text)
    check(not os.path.exists(context.path("x.folded")), "a file was written")


@test()
def refused(context):
    """Moments of the past, and of another day, are refused."""
    now = time.time()
    for value, why in (("%.3f" % (now - 1), "is in the past of the clock of this machine ("),
                       ("%.0f" % (now + 7200), "is more than an hour ahead of the clock"),
                       ("noon", "must be a number of seconds since 1970"),
                       ("1.", "must be a number of seconds since 1970"),
                       ("-1", "must be a number of seconds since 1970")):
        for command in ("record", "gpu", "memory"):
            run = context.bpfprof(command, "--start-at", value).expect(2)
            check(why in run.text and run.text.count("\n") == 1, run.text)


@test()
def ready(context):
    """All that a program does after the newline of --ready-fd is in the profile."""
    for command, flags in (("record", ("-F", 997, "-o", "x.folded")), ("memory", ("--sample", "64K"))):
        target = context.spawn(["/usr/bin/python3", "-c", ON_REQUEST], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        out, ends = os.pipe()
        process = context.start(command, "-p", target.pid, "--ready-fd", ends, *flags, pass_fds=[ends])
        os.close(ends)
        check(os.read(out, 2) == b"\n", "%s ended before it was ready" % command)
        target.stdin.write(b"\n")
        target.stdin.flush()
        check(target.stdout.readline() == b"done\n", "the program")
        process.send_signal(signal.SIGINT)
        run = context.finish(process, 60).expect(0)
        check(os.read(out, 1) == b"", "more than a newline")
        os.close(out)
        if command == "record":
            samples = sum(int(line.rpartition(" ")[2]) for line in context.text("x.folded").splitlines()
                          if ";work (" in line and not line.startswith("#"))
            check(0.97 * 997 <= samples <= 1.2 * 997, "%d samples of 1 s" % samples)
        else:
            held = [float(line.split()[0]) for line in run.out.decode().splitlines() if " work " in line]
            check(held and 58 <= sum(held) <= 70, run.text)
    process = context.start("gpu", "--once", "-d", 1, "--ready-fd", 1)
    check(context.finish(process, 60).expect(0).out.startswith(b"\n"), "gpu reports nothing")
    for value, why in ((997, "is not open"), (0, "must be the number of an open file descriptor"), ("x", "must be the number")):
        run = context.bpfprof("record", "--ready-fd", value).expect(2)
        check(why in run.text and run.text.count("\n") == 1, run.text)
