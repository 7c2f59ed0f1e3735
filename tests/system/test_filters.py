# SPDX-License-Identifier: Apache-2.0
"""What is recorded: -p, --comm, -- CMD, children, threads; how a recording ends."""

import os
import signal
import subprocess
import time

import chains
from harness import MODES, check, test

BESIDE = True
HZ = 499


def processes(context, name="x.folded"):
    seen = {}
    for process, _, count in chains.read_folded(context.text(name)):
        seen[process] = seen.get(process, 0) + count
    return seen


@test(modes=MODES)
def by_pid(context):
    """-p twice: these two and nobody else, threads included."""
    one = context.spawn([context.target("calls_gO2").path, "30"])
    two = context.spawn([context.target("threads_gO2").path, "30"])
    context.spawn([context.target("tiny_gO2").path, "30"])
    context.bpfprof("record", "-F", HZ, "-d", "2", "-p", one.pid, "-p", two.pid, "-o",
                    "x.folded").expect(0)
    seen = processes(context)
    check(set(seen) == {"calls_gO2", "threads_gO2"}, "recorded: %s" % seen)
    text = context.text("x.folded")
    for name in ("work_a", "work_b", "raw_task"):
        check(name in text, "thread with %s is missing" % name)


@test()
def children_later(context):
    """Children started within the recording, and theirs; none with --no-subprocesses."""
    calls, tiny = context.target("calls_gO2").path, context.target("tiny_gO2").path
    script = "sleep 2; (sh -c '%s 4; true') & %s 4; sleep 20" % (calls, tiny)
    for flags, children in (((), {"calls_gO2", "tiny_gO2"}), (("--no-subprocesses",), set())):
        shell = context.spawn(["sh", "-c", script], stderr=subprocess.DEVNULL)
        context.bpfprof("record", "-F", HZ, "-d", "5", "-p", shell.pid, *flags, "-o",
                        "x.folded").expect(0)
        shell.kill()
        seen = processes(context)
        check({n for n in seen if n.startswith(("calls", "tiny"))} == children,
              "%s: recorded %s" % (flags, seen))
        time.sleep(2)


@test()
def by_name(context):
    """--comm takes a pattern, and sees processes that begin to match later."""
    context.spawn([context.target("calls_gO2").path, "30"])
    context.spawn([context.target("tiny_gO2").path, "30"])
    recording = context.start("record", "-F", HZ, "-d", "4", "--comm", "calls_*O[12]", "-o",
                              "x.folded")
    context.sampling(recording)
    context.spawn([context.target("calls_gO1").path, "30"])
    context.finish(recording, 30).expect(0)
    seen = processes(context)
    check(set(seen) == {"calls_gO1", "calls_gO2"}, "recorded: %s" % seen)


@test()
def no_match(context):
    """A pattern that matches nothing is said, and is no failure."""
    done = context.bpfprof("record", "-d", "1", "--comm", "no-such-name*", "-o",
                           "x.folded").expect(0)
    check("no process matched" in done.text, "not said:\n" + done.text)


@test()
def command(context):
    """-- CMD: from its first instruction to its end, output untouched, children included."""
    calls = context.target("calls_gO2").path
    began = time.monotonic()
    done = context.bpfprof("record", "-F", HZ, "-o", "x.folded", "--", "sh", "-c",
                           "echo hello; %s 2; exit 0" % calls).expect(0)
    check(1.5 < time.monotonic() - began < 15, "took %.1f s" % (time.monotonic() - began))
    check(b"hello" in done.out, "the command's output is gone:\n" + done.text)
    seen = processes(context)
    check(seen.get("calls_gO2", 0) > HZ, "recorded: %s" % seen)
    check(set(seen) <= {"calls_gO2", "sh"}, "recorded: %s" % seen)
    # Before it executes the command our child is nothing but a copy of us.
    for _ in range(5):
        context.bpfprof("record", "-F", 4999, "-o", "x.folded", "--", "true")
        check(set(processes(context)) <= {"true"}, "recorded: %s" % processes(context))
    missing = context.bpfprof("record", "-o", "y.folded", "--", "./no-such-command")
    check(missing.status in (1, 2, 4, 127) and "no-such-command" in missing.text,
          "exit %d:\n%s" % (missing.status, missing.text))
    check(not os.path.exists(context.path("y.folded")), "a profile of nothing was written")


@test()
def interrupt(context):
    """Ctrl-C, and SIGTERM, write everything."""
    context.spawn([context.target("calls_gO2").path, "60"])
    for number in (signal.SIGINT, signal.SIGTERM):
        recording = context.start("record", "-F", HZ, "-o", "x.folded", "-o", "x.pb.gz",
                                  "--stats", "x.json")
        context.sampling(recording)
        time.sleep(1)
        recording.send_signal(number)
        context.finish(recording, 20).expect(0)
        for name in ("x.folded", "x.pb.gz", "x.json"):
            check(os.path.getsize(context.path(name)) > 100, "%s is missing" % name)
        check(context.json("x.json")["samples"]["total"] > HZ / 2, "too few samples")
        check("calls_gO2;_start;" in context.text("x.folded"), "the busy program is missing")
        for name in ("x.folded", "x.pb.gz", "x.json"):
            os.unlink(context.path(name))


@test()
def idle(context):
    """A target that slept is an answer, with a hint where to look."""
    target = context.spawn(["sleep", "60"])
    done = context.bpfprof("record", "-d", "2", "-p", target.pid, "-o", "x.folded").expect(0)
    check("on CPU in" in done.text and "dump -p %d shows where it waits" % target.pid in done.text,
          "no hint:\n" + done.text)


@test()
def target_ends(context):
    """The recording of a process that ends is over then, or at its time, and complete."""
    target = context.spawn([context.target("calls_gO2").path, "2"])
    done = context.bpfprof("record", "-F", HZ, "-d", "4", "-p", target.pid, "-o", "x.folded",
                           timeout=20).expect(0)
    check("calls_gO2;_start;" in context.text("x.folded"), "nothing recorded:\n" + done.text)


@test(modes=("root",))
def ending_words(context):
    """The end names the top functions, and CPU seconds, threads and RSS per process."""
    target = context.spawn([context.target("threads_gO2").path, "30"])
    done = context.bpfprof("record", "-F", HZ, "-d", "2", "-p", target.pid, "-o",
                           "x.folded").expect(0)
    for want in ("spin", "threads_gO2", "Threads", "Memory", "CPU"):
        check(want in done.text, "no %r at the end:\n%s" % (want, done.text))
