# SPDX-License-Identifier: Apache-2.0
"""dump of processes whose threads come and go while they are read, and of one that lies."""

import json
import re
import subprocess
import time

from dumps import wait_for
from harness import check, test
from test_python import pick, spawn

BESIDE = True
TIMES = 30
KEPT = 40

CHURN = """
import threading, time
stop = threading.Event()
for i in range(%d):
    threading.Thread(target=stop.wait, name="keep%%d" %% i, daemon=True).start()
while len(stop._cond._waiters) < %d:
    time.sleep(0.01)
open(__import__("sys").argv[1], "w").close()
while True:
    short = [threading.Thread(target=time.sleep, args=(0.0005,)) for _ in range(6)]
    for thread in short: thread.start()
    for thread in short: thread.join()
""" % (KEPT, KEPT)

NAPS = """
import sys, threading, time
def work():
    while True:
        time.sleep(0.0003)
        sum(range(300))
for i in range(12):
    threading.Thread(target=work, daemon=True).start()
open(sys.argv[1], "w").close()
time.sleep(600)
"""

# A frame of 3.11 that is its own caller (pycore_frame.h: previous at 48, is_entry at 68).
ENDLESS = """
import ctypes, sys, threading, time
exec("def g():\\n" + "".join(" v%d = None\\n" % i for i in range(1500)) + " time.sleep(600)\\n")
threads = [threading.Thread(target=g, daemon=True) for _ in range(2)]
for thread in threads: thread.start()
time.sleep(0.5)
frames = sys._current_frames()
for thread in threads:
    inner = ctypes.c_uint64.from_address(id(frames[thread.ident]) + 24).value
    ctypes.c_ubyte.from_address(inner + 68).value = 0
    ctypes.c_uint64.from_address(inner + 48).value = inner
open(sys.argv[1], "w").close()
time.sleep(600)
"""


def started(context, python, name, text):
    source, ready = context.path(name + ".py"), context.scratch(name) + "/ready"
    with open(source, "w", encoding="ascii") as file:
        file.write(text)
    process = spawn(context, [*python.argv, source, ready], python.environment(),
                    [python.stdlib, source, *(a for a in python.argv if "/" in a[:1])])
    wait_for(lambda: subprocess.run(["test", "-e", ready], check=False).returncode == 0, name)
    return process


def version(wanted):
    python = pick(wanted)
    check(python.version == wanted, "no Python %d.%d here" % wanted)
    return python


@test()
def threads_come_and_go(context):
    """Those that sleep all the time are in every dump."""
    for wanted in ((3, 10), (3, 11)):
        process = started(context, version(wanted), "churn%d" % wanted[1], CHURN)
        for _ in range(TIMES):
            run = context.bpfprof("dump", "-p", process.pid, "--json").expect(0)
            waiting = [thread for thread in json.loads(run.out) if any(
                frame["name"].endswith("wait") for frame in thread["frames"])]
            check(len(waiting) >= KEPT or "came and went" in run.text,
                  "%d of %d threads\n%s" % (len(waiting), KEPT, run.text[-500:]))
        process.kill()
        process.wait()


@test()
def nobody_sleeps_with_the_gil(context):
    """Threads that sleep and work in turn: none of them is said to hang with it."""
    process = started(context, version((3, 11)), "naps", NAPS)
    for _ in range(TIMES):
        text = context.bpfprof("dump", "-p", process.pid).expect(0).out.decode()
        check("GIL held by" not in text, text)


@test()
def endless_stack(context):
    """Variables of frames without end: bounded, said, and the rest is there."""
    process = started(context, version((3, 11)), "endless", ENDLESS)
    start = time.monotonic()
    run = context.bpfprof("dump", "-p", process.pid, "-l").expect(0)
    took = time.monotonic() - start
    check("were left out: at most" in run.err.decode(), run.err.decode()[-500:])
    check(took < 20 and len(run.out) < 64 << 20, "%.1f s, %d bytes" % (took, len(run.out)))
    check(re.search(rb'Thread %d \(\w+\): "MainThread"\n    <module> \(endless.py:\d+\)'
                    % process.pid, run.out), run.out[-2000:].decode())
    context.note("%.1f s, %.1f MB" % (took, len(run.out) / 1e6))


@test()
def deep_threads(context):
    """More frames than are kept: the first threads whole, what is left out said and marked."""
    process = context.spawn([context.helper("deep_threads", "deep_threads.c"), "600", "1200"],
                            stdout=subprocess.PIPE)
    check(process.stdout.readline() == b"asleep\n", "did not begin")
    run = context.bpfprof("dump", "-p", process.pid, "--native", "--json").expect(0)
    threads = json.loads(run.out)
    check(len(threads) == 601, "%d threads" % len(threads))
    depths = [sum(frame["name"] == "descend" for frame in thread["frames"]) for thread in threads]
    whole = sum(depth == 1200 for depth in depths)
    frames = sum(len(thread["frames"]) for thread in threads)
    check(whole > 400 and frames < (1 << 19) + 40 * 601, "%d whole, %d frames" % (whole, frames))
    check(depths[-1] == 0, "the last has %d" % depths[-1])
    check("were left out: at most %d frames" % (1 << 19) in run.text, run.err.decode()[-500:])
    context.note("%d of 600 threads whole, %d frames" % (whole, frames))
