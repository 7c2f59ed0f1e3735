# SPDX-License-Identifier: Apache-2.0
"""The choice of processes: -p, --comm, -- CMD, children, threads; and the end of a recording."""

import os
import re
import signal
import subprocess
import time

import chains
from dumps import wait_for
from harness import MODES, check, descendants, test

LIGHT = True
HZ = 499


def processes(context, name="x.folded"):
    seen = {}
    for process, _, count in chains.read_folded(context.text(name)):
        seen[process] = seen.get(process, 0) + count
    return seen


def comm_of(pid):
    try:
        with open("/proc/%d/comm" % pid, "rb") as file:
            return file.read().strip()
    except OSError:
        return None


@test(modes=MODES)
def by_pid(context):
    """-p twice: exactly these two processes, threads included."""
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
                           "echo hello; %s 2; times; exit 0" % calls).expect(0)
    check(1.5 < time.monotonic() - began < 15, "took %.1f s" % (time.monotonic() - began))
    check(b"hello" in done.out, "the command's output is gone:\n" + done.text)
    seen = processes(context)
    # Other tests may have the processors: what counts is the CPU time that the shell's child says it had.
    times = [60 * int(minutes) + float(seconds)
             for minutes, seconds in re.findall(r"(\d+)m([\d.]+)s", done.out.decode())]
    took = sum(times[2:])
    check(took > 0.05 and seen.get("calls_gO2", 0) > 0.7 * HZ * took,
          "recorded in %.2f s of CPU time: %s" % (took, seen))
    check(set(seen) <= {"calls_gO2", "sh"}, "recorded: %s" % seen)
    # Before it executes the command our child is nothing but a copy of us.
    for _ in range(5):
        context.bpfprof("record", "-F", 4999, "-o", "x.folded", "--", "true")
        check(set(processes(context)) <= {"true"}, "recorded: %s" % processes(context))


@test()
def command_status(context):
    """-- CMD: its own status, also when it was killed; ours until it runs, and if it ended well."""
    with open(context.path("not-to-be-run"), "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n")
    for number, (argv, status, said) in enumerate((
            (["true"], 0, ""),
            (["sh", "-c", "exit 7"], 7, "exited with status 7"),
            (["sh", "-c", "exit 255"], 255, "exited with status 255"),
            (["sh", "-c", "kill -KILL $$"], 128 + signal.SIGKILL, "killed by signal 9"),
            (["sh", "-c", "kill -TERM $$"], 128 + signal.SIGTERM, "killed by signal 15"),
            (["./no-such-command"], 127, "no-such-command"),
            (["no-such-command"], 127, "no-such-command"),
            (["./not-to-be-run"], 126, "Permission denied"),
            (["/"], 126, "cannot be run"))):
        name = "x%d.folded" % number
        done = context.bpfprof("record", "-o", name, "--", *argv)
        check(done.status == status and said in done.text,
              "%s: exit %d, not %d:\n%s" % (argv, done.status, status, done.text))
        check(os.path.exists(context.path(name)) == (status not in (126, 127)), "%s: %s" % (argv, name))
    # Before it runs, and where it ended well, the status is ours.
    refused = context.bpfprof("record", "--no-such-flag", "--", "sh", "-c", "exit 7")
    check(refused.status == 2, "exit %d:\n%s" % (refused.status, refused.text))
    refused = context.bpfprof("record", "-p", "4194304", "--", "sh", "-c", "exit 7")
    check(refused.status == 4, "exit %d:\n%s" % (refused.status, refused.text))
    folder = context.scratch("folder")
    for status in (0, 7):
        done = context.bpfprof("record", "-o", os.path.join(folder, "x.folded"), "--", "sh", "-c",
                               "rm -r %s; echo > %s; exit %d" % (folder, folder, status))
        check(done.status == (status or 1) and "x.folded" in done.text, "exit %d, not %d:\n%s" % (
            done.status, status or 1, done.text))
        os.unlink(folder)
        folder = context.scratch("folder")


@test()
def command_interrupted(context):
    """Ctrl-C reaches the command, too: everything is written, and the status says it."""
    for argv, number, status in ((["sleep", "60"], signal.SIGINT, 128 + signal.SIGINT),
                                 (["sh", "-c", "trap 'exit 9' INT; sleep 60"],
                                  signal.SIGINT, 9)):
        recording = context.start("record", "-F", HZ, "-o", "x.folded", "-o", "x.pb.gz", "--stats",
                                  "x.json", "--", *argv, start_new_session=True)
        context.sampling(recording)
        # Both commands end in a sleep: once that runs, the shell has set its trap.
        wait_for(lambda: b"sleep" in map(comm_of, descendants(recording.pid)), "the command")
        time.sleep(1)
        os.killpg(recording.pid, number)
        done = context.finish(recording, 20)
        check(done.status == status, "%s: exit %d, not %d:\n%s" % (argv, done.status, status, done.text))
        for name in ("x.folded", "x.pb.gz", "x.json"):
            check(os.path.getsize(context.path(name)) > 50, "%s is missing" % name)
            os.unlink(context.path(name))
    # One that outlives the recording, however long that takes to be written, runs on.
    done = context.bpfprof("record", "-d", "0.5", "-o", "x.folded", "--", "sh", "-c",
                           "trap 'exit 0' TERM; exec >x.out 2>&1; for i in $(seq 600); do "
                           "sleep 0.1; [ -e go ] && break; done; touch later; exit 7").expect(0)
    check(not os.path.exists(context.path("later")), "it did not outlive the recording")
    open(context.path("go"), "wb").close()
    end = time.monotonic() + 20
    while not os.path.exists(context.path("later")) and time.monotonic() < end:
        time.sleep(0.05)
    check(os.path.exists(context.path("later")), "it was ended, too")


@test()
def command_of_who_ignores_children(context):
    """A parent that ignores SIGCHLD hands that on: the end of the command is seen all the same."""
    done = context.bpfprof("record", "-o", "x.folded", "--", "sh", "-c", "exit 7",
                           preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    check(done.status == 7, "exit %d:\n%s" % (done.status, done.text))


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
