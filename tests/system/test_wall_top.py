# SPDX-License-Identifier: Apache-2.0
"""top --wall: where threads wait right now, in percent of one thread's time."""

import re
import time

from harness import MODES, check, test
from test_python import spawn
from test_top import Terminal, named, rows
from test_wall import some_pythons

BESIDE = True
WITHIN = 1.0  # percent of a thread's time

# Six threads: one sleeps for good, one in turns, two hand a lock to each other, two have nothing to do.
CRAWLS = """
import concurrent.futures, threading, time
lock = threading.Lock()
def naps():
    while True:
        time.sleep(0.13)
def takes():
    while True:
        with lock:
            time.sleep(0.05)
        time.sleep(0.01)
def crawls():
    threading.Event().wait()
pool = concurrent.futures.ThreadPoolExecutor(2)
for future in [pool.submit(time.sleep, 0.2) for _ in range(2)]:
    future.result()
for body in (naps, takes, takes):
    threading.Thread(target=body, daemon=True).start()
print("ready", flush=True)
crawls()
"""


def crawling(context):
    python = some_pythons()[-1]
    process = spawn(context, [*python.argv, "-c", CRAWLS], python.environment(), [python.stdlib],
                    stdout=-1)
    process.stdout.readline()
    return process


def is_near(percent, true):
    return abs(percent - true) <= WITHIN * true / 100


@test(modes=MODES)
def once(context):
    """Each thread's time is there once, and those without work are one row."""
    process = crawling(context)
    done = context.bpfprof("top", "--wall", "--once", "--delay", 2, "-p", process.pid).expect(0)
    text = done.out.decode("utf-8", "replace")
    table = rows(text)
    own = sum(row[0] for row in table)
    parked = sum(row[0] for row in table if row[4] == "[parked]")
    found = {name: named(table, name)[1] for name in ("crawls", "naps", "takes")}
    context.note("own times add up to %.2f%%, [parked] %.2f%%, %s" % (own, parked, found))
    # A row is rounded to a hundredth.
    check(abs(own - 600) <= 6 * WITHIN + 0.005 * len(table), context.notes[-1] + text)
    check(is_near(parked, 200), context.notes[-1] + text)
    check(is_near(found["crawls"], 100), context.notes[-1] + text)
    # A wait with an incomplete stack has no known function.
    for name, true in (("naps", 100), ("takes", 200)):
        check(true / 2 < found[name] <= true * 1.01, context.notes[-1] + text)
    check("Waiting: " in text, text)


@test()
def screen(context):
    """Interval by interval: who sleeps for good has all of each of them, in its place."""
    process = crawling(context)
    terminal = Terminal(context, ["--wall", "--parked", "-p", str(process.pid)])

    def waits_long(text):
        table = rows(text)
        total = named(table, "crawls")[1]
        return is_near(total, 100) and named(table, "crawls")[3] >= 3

    found = terminal.wait(waits_long, "crawls() with all of its time", 60)
    check("[parked]" not in found, found)
    context.note([line for line in found.split("\n") if "crawls (" in line][0])
    terminal.keys("q")
    terminal.ended(0)


@test()
def busy(context):
    """A first thread that runs is active: what it does not wait for is not called waiting."""
    python = some_pythons()[-1]
    process = spawn(context, [*python.argv, "-c", "while True: pass"], python.environment(),
                    [python.stdlib])

    def run_ns():
        with open("/proc/%d/schedstat" % process.pid, encoding="ascii") as file:
            return int(file.read().split()[0])

    began, before = time.monotonic_ns(), run_ns()
    done = context.bpfprof("top", "--wall", "--once", "--delay", 2, "-p", process.pid).expect(0)
    true = 100 * (run_ns() - before) / (time.monotonic_ns() - began)
    text = done.out.decode("utf-8", "replace")
    active, waiting = (float(re.search(name + r": ([0-9.]+)%", text).group(1))
                       for name in ("Active", "Waiting"))
    context.note("active %.2f%%, waiting %.2f%%; it ran %.2f%% of the time" % (active, waiting, true))
    check(is_near(active + waiting, 100), context.notes[-1] + text)
    # The interval is a part of that time alone.
    check(active > true / 2, context.notes[-1] + text)
