# SPDX-License-Identifier: Apache-2.0
"""Compares dumps of sleeping programs with the programs' own knowledge and with py-spy."""

import functools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

from harness import Failure, Skip, check, stop
from test_python import CACHE, spawn

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "python")


def wait_for(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise Failure("%s: not after %d s" % (what, seconds))


def truth_of(path):
    """What a program writes of itself when it is asked to stop."""
    with open(path + ".stop", "w", encoding="ascii"):
        pass
    wait_for(lambda: os.path.exists(path), path + " is there")
    with open(path, encoding="ascii") as file:
        return json.load(file)


def state_of(pid, tid=None):
    with open("/proc/%d/task/%d/stat" % (pid, tid or pid), encoding="utf-8",
              errors="replace") as file:
        return file.read().rpartition(")")[2].split()[0]


def still(pid, threads=1):
    """All threads are there and sleep."""
    try:
        tids = os.listdir("/proc/%d/task" % pid)
        return len(tids) >= threads and all(state_of(pid, int(tid)) in "SDTZ" for tid in tids)
    except OSError:
        return False


def dump_json(context, pid, *flags):
    run = context.bpfprof("dump", "-p", pid, "--json", *flags).expect(0)
    return json.loads(run.out), run


def frames_of(thread):
    return [[frame["name"], frame["filename"], frame["line"]] for frame in thread["frames"]]


class Sleeper:
    """A run of a Python program that writes what it knows of its own threads."""

    def __init__(self, context, python, program="sleeps", *args):
        self.python = python
        self.truth = os.path.join(context.scratch("%s-%s" % (program, python.name)), "truth")
        self.argv = [*python.argv, os.path.join(PROGRAMS, program + ".py"), self.truth, *args]
        needs = [python.stdlib, PROGRAMS, *(a for a in python.argv if "/" in a[:1])]
        self.process = spawn(context, self.argv,
                             python.environment({"TMPDIR": context.scratch("tmp")}), needs,
                             start_new_session=True)
        context.stack.callback(self.end)
        self.pid = self.process.pid

    def end(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # the children that it waits for too
        except OSError:
            pass
        stop(self.process)

    def wait(self, ended=False):
        wait_for(lambda: os.path.exists(self.truth) or self.process.poll() is not None,
                 "%s sleeps" % self.python)
        check(ended or self.process.poll() is None, "%s ended" % " ".join(self.argv))
        time.sleep(0.3)
        with open(self.truth, encoding="utf-8") as file:
            return json.load(file)


def compare(truth, threads):
    """The faults of the threads of a dump."""
    wrong = []
    found = {str(thread["os_thread_id"]): thread for thread in threads}
    for tid, known in truth.items():
        thread = found.get(tid)
        if not thread:
            wrong.append("%s: thread %s is missing" % (known["name"], tid))
        elif frames_of(thread) != known["frames"]:
            wrong.append("%s:\n  %s\nfor\n  %s" % (known["name"], frames_of(thread),
                                                    known["frames"]))
        elif known["name"] and thread["thread_name"] != known["name"]:
            wrong.append("%r is named %r" % (known["name"], thread["thread_name"]))
        elif thread["active"] or not thread["consistent"]:
            wrong.append("%s: not seen asleep" % known["name"])
    return wrong


class Watch(threading.Thread):
    """Polls a process: was it ever stopped or traced?"""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self.pid, self.bad, self.polls, self.done = pid, set(), 0, threading.Event()

    def run(self):
        while not self.done.is_set():
            try:
                with open("/proc/%d/status" % self.pid, encoding="utf-8") as file:
                    text = file.read()
            except OSError:
                break
            self.polls += 1
            tracer = re.search(r"TracerPid:\t(\d+)", text).group(1)
            state = re.search(r"State:\t(\w)", text).group(1)
            if tracer != "0" or state in "tT":
                self.bad.add((tracer, state))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.join()
        check(not self.bad, "the target was stopped or traced: %s" % self.bad)
        check(self.polls > 10, "polled only %d times" % self.polls)


@functools.lru_cache(maxsize=None)
def py_spy():
    folder = os.path.join(CACHE, "py-spy")
    program = os.path.join(folder, "bin", "py-spy")
    if not os.access(program, os.X_OK):
        done = subprocess.run([sys.executable, "-m", "pip", "install", "-q",
                               "--break-system-packages", "--target", folder, "py-spy"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120,
                              check=False)
        if done.returncode:
            raise Skip("py-spy cannot be had: " + done.stdout.decode()[-300:])
    return program


def blocks_of(text):
    """Header and threads of a dump's text."""
    header, _, rest = text.partition("\n\n")
    return header, re.findall(r"^Thread .*\n(?:    .*\n)*", rest, re.M)


def spy_differs(ours, theirs, truth):
    """Differences to py-spy in which the interpreter is not on our side."""
    bad, explained = [], 0
    if ours[0] != theirs[0]:
        bad.append("%r for %r" % (ours[0], theirs[0]))
    spy = {block.split()[1]: block for block in theirs[1]}
    for block in ours[1]:
        tid = block.split()[1]
        other = spy.get(tid)
        if other == block:
            continue
        # compare() has shown that ours is the interpreter's; py-spy is known to err here.
        if tid in truth and other and block.split("\n")[0] == other.split("\n")[0]:
            explained += 1
        elif tid in truth:
            bad.append("%s\nfor\n%s" % (block, other))
    if [b.split()[1] for b in ours[1]] != [b.split()[1] for b in theirs[1]]:
        bad.append("threads in another order")
    return bad, explained


def against_py_spy(context, sleeper, truth):
    """Text and JSON against py-spy's, line by line; a note."""
    python = sleeper.python
    theirs = subprocess.run([py_spy(), "dump", "-p", str(sleeper.pid)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, check=False)
    if theirs.returncode:
        return "%s: py-spy fails: %s" % (
            python, theirs.stderr.decode("utf-8", "replace").split("\n")[0][:100])
    ours = context.bpfprof("dump", "-p", sleeper.pid).expect(0)
    bad, explained = spy_differs(blocks_of(ours.out.decode()), blocks_of(theirs.stdout.decode()),
                                 truth)
    check(not bad, "%s: %d differences, as:\n%s" % (python, len(bad), "\n".join(bad[:3])))
    json_same(context, py_spy(), sleeper)
    return "%s: %d threads, %d in which only py-spy errs%s" % (
        python, len(truth), explained,
        ", all bytes equal" if ours.out == theirs.stdout else "")


def json_same(context, spy, sleeper):
    theirs = json.loads(subprocess.run([spy, "dump", "-p", str(sleeper.pid), "--json"],
                                       stdout=subprocess.PIPE, check=True).stdout)
    ours, _ = dump_json(context, sleeper.pid)
    check([t["os_thread_id"] for t in ours] == [t["os_thread_id"] for t in theirs],
          "%s: JSON: other threads" % sleeper.python)
    for mine, their in zip(ours, theirs):
        check(set(their) <= set(mine), "keys %s" % (set(their) - set(mine)))
        for key in ("pid", "thread_id", "thread_name", "os_thread_id", "active", "owns_gil"):
            check(mine[key] == their[key], "%s: %s is %r for %r" % (sleeper.python, key, mine[key],
                                                                    their[key]))
        if frames_of(mine) != frames_of(their):
            continue  # judged by the text
        for frame, other in zip(mine["frames"], their["frames"]):
            differ = [key for key in other if frame[key] != other[key]]
            check(not differ, "%s: %s for %s" % (sleeper.python, frame, other))


def python_part(threads):
    """The Python frames of merged stacks, and what is wrong with where these end."""
    merged, ends = [], []
    for thread in threads:
        names = [frame["name"] for frame in thread["frames"]]
        if "[unmerged]" in names or "[truncated]" in names:
            ends.append("%s: %s" % (thread["thread_name"], names))
        elif not re.search(r"^(_start|_?_?clone3?|ld-linux.*|libc.so.6\+0x\w+)$", names[-1]):
            ends.append("%s: %s" % (thread["thread_name"], names[-1]))
        merged.append(dict(thread, frames=[f for f in thread["frames"] if not f["module"]]))
    return merged, ends
