# SPDX-License-Identifier: Apache-2.0
"""The mechanism under pressure: a tiny row arena, a tiny ring buffer, lost ticks counted."""

import os
import re
import signal
import time

import chains
from bpf_programs import program_ids, verified_instructions
from harness import check, descendants, test
from test_hostile import Watched

# The kernel refuses a program of 1,000,000, and takes seconds over half of that.
VERIFIED_AT_MOST = 150000


def start_pages(context):
    program = context.helper("pages", "pages.c", os.path.join(
        os.path.dirname(os.path.abspath(__file__)), "targets", "pages.S"))
    for _ in range(2):
        context.spawn([program, "60"])
    return Watched("pages", program, "pages")


@test(modes=("root",))
def tiny_arena(context):
    """64 hot pages in an arena that holds about 16, then 4: never a wrong chain."""
    pages = start_pages(context)
    for slots in ("4096", "1024"):
        context.bpfprof("record", "-F", "997", "-d", "5", "--comm", "pages", "-o", "x.folded",
                        "--stats", "x.json", timeout=30,
                        env=dict(os.environ, BPFPROF_TEST_ROW_SLOTS=slots)).expect(0)
        result = chains.check([pages], context.text("x.folded"))["pages"]
        context.note("%s rows: %d samples, %.2f%% exact, reasons %s" % (
            slots, result.samples, result.percent("exact"),
            context.json("x.json")["stacks"]["reasons"]))
        check(result.samples > 1000, "only %d samples" % result.samples)
        check(result.counts["wrong"] == 0, chains.table({"pages": result}))
        check(not result.missing(), "\n".join(result.missing()))


@test(modes=("root",))
def overload(context):
    """More misses than can be worked off: the end, and Ctrl-C, come in time all the same."""
    start_pages(context)
    environment = dict(os.environ, BPFPROF_TEST_ROW_SLOTS="1024")
    done = context.bpfprof("record", "-F", "9999", "-d", "3", "-o", "x.folded", timeout=25,
                           env=environment).expect(0)
    check(done.seconds < 12, "3 s took %.1f s" % done.seconds)
    recording = context.start("record", "-F", "9999", "-o", "y.folded", env=environment)
    context.sampling(recording)
    time.sleep(1)
    recording.send_signal(signal.SIGINT)
    began = time.monotonic()
    context.finish(recording, 25).expect(0)
    check(time.monotonic() - began < 10, "Ctrl-C took %.1f s" % (time.monotonic() - began))


@test(modes=("root",))
def tiny_ring(context):
    """A ring buffer that overflows: counted, shown, and what is left is right."""
    target = context.target("recurse_gO2")
    for _ in range(3):
        context.spawn([target.path, "60"])
    done = context.bpfprof("record", "-F", "9999", "-d", "2", "-o", "x.folded", "--stats",
                           "x.json", env=dict(os.environ, BPFPROF_TEST_RING_BYTES="16384"))
    done.expect(0)
    stats = context.json("x.json")
    lost = stats["lost"].get("ring_full", 0)
    context.note("%d samples, %d lost" % (stats["samples"]["total"], lost))
    check(lost > 0, "nothing was lost: %s" % stats["lost"])
    check(re.search(r"Lost:.*ring", done.text), "not shown:\n" + done.text)
    header = context.text("x.folded").split("\n", 1)[0]
    check('"ring_full":%d' % lost in header.replace(" ", ""), "not in the profile: " + header)
    results = chains.check([target], context.text("x.folded"))
    wrong = results[target.name].counts["wrong"]
    check(wrong == 0, chains.table(results))


@test(modes=("root",))
def ticks_accounted(context):
    """Ticks taken and ticks skipped by the kernel are what a busy machine must have had."""
    for _ in range(os.cpu_count() or 1):
        context.spawn([context.target("calls_gO2").path, "60"])
    context.bpfprof("record", "--clock", "perf", "-F", "997", "-d", "3", "-o", "x.folded",
                    "--stats", "x.json").expect(0)
    stats = context.json("x.json")
    ticks = stats["clock"]["ticks"] + stats["lost"]["tick_skipped"]
    due = 997 * stats["duration_seconds"] * (os.cpu_count() or 1)
    check(abs(ticks - due) < 0.12 * due, "%d ticks, %d due: %s" % (ticks, due, stats))
    total = stats["samples"]["total"] + stats["lost"].get("ring_full", 0)
    check(abs(total - stats["clock"]["ticks"] + stats["clock"]["idle"]) < 0.01 * due,
          "samples and ticks do not add up: %s" % stats)


@test(paired=True)
def kernel_workers(context):
    """io_uring's workers are threads of a process that have no user stack: that is no miss."""
    path = context.path("read.me")
    with open(path, "wb") as file:
        file.write(b"x" * (4 << 20))
    os.chmod(path, 0o644)
    target = context.spawn([context.helper("uring", "uring.c"), path, "60"])
    time.sleep(0.5)
    check(target.poll() != 3, "no io_uring here: sysctl kernel.io_uring_disabled")
    for clock in ("perf", "timer"):
        context.bpfprof("record", "-p", target.pid, "--clock", clock, "-F", "499", "-d", "3",
                        "-o", "x.folded", "--stats", "x.json").expect(0)
        walk = context.json("x.json")["walk"]
        lines = [line for line in context.text("x.folded").split("\n") if "io_wq_worker" in line]
        samples = sum(int(line.rpartition(" ")[2]) for line in lines)
        workers = walk.get("kernel_workers", 0)
        context.note("%s: %d samples of workers, %d misses" % (clock, samples, walk["misses"]))
        check(samples > 100, "only %d samples of workers: %s" % (samples, walk))
        check(abs(workers - samples) < 0.05 * samples, "%d counted: %s" % (workers, walk))
        check(walk["misses"] < 0.1 * samples, "%s" % walk)
        check(not any("[truncated]" in line for line in lines), "\n".join(lines)[:2000])


@test(modes=("root",), paired=True, lock="gpu")
def verified_soon(context):
    """No program is one that the verifier takes long over: that is CPU time at each start."""
    for options in (["gpu", "--once", "--gc", "--tensors", "-o", "x.json"],
                    ["record", "--gpu", "-o", "x.folded"],
                    ["record", "--wall", "--waker", "-o", "x.folded"]):
        running = context.start(*options, "-d", "60")
        context.sampling(running, timeout=30)
        ids = set.union(*map(program_ids, descendants(running.pid)))
        found = verified_instructions(ids)
        running.send_signal(signal.SIGINT)
        context.finish(running, 30).expect(0)
        worst = max(found, key=found.get)
        context.note("%s: %d programs, at most %d instructions (%s), %d in all" % (
            " ".join(options), len(found), found[worst], worst, sum(found.values())))
        check(len(found) > 8, "only these programs: %s" % found)
        check(0 < found[worst] <= VERIFIED_AT_MOST, "%s: %d" % (worst, found[worst]))
