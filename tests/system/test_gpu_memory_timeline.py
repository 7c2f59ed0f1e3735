# SPDX-License-Identifier: Apache-2.0
"""The time line of gpu -o FILE.html: the GPU's memory by stack at each moment, beside programs that know it."""

import collections
import random

from gpu_truth import Caller, Run, Watch
from harness import check, test
from pprof import Pprof
from test_memory_timeline import Page

LIGHT = True
LATE_NS = 100000000  # how far a time may be off on a busy machine
MIB = 1 << 20
CACHED = "[cached by PyTorch]"
FUNCTIONS = ("py_grow", "py_buffer", "py_tensor", "py_map", CACHED)


def recorded(context, scenario, *arguments, end=None):
    """What the caller says, the page, and the Unix time of its begin."""
    seed = random.randrange(1 << 30)
    context.note("SEED=%d" % seed)
    caller = Caller(context, scenario, script="gpu_history.py", env={"SEED": str(seed)})
    watch = Watch(context, "-d", "120", "-p", caller.pid, "-o", "x.html", "-o", "x.pb.gz", *arguments)
    truth = caller.work()
    if end:
        end(caller)
    watch.end(interrupt=not end)
    return truth, Page(context.text("x.html")), Pprof(context.read("x.pb.gz")).scalars[9]


def held_at(events, ns, tensors):
    """Bytes by function: of tensors and of memory that is no tensor's; else of all that the driver handed out."""
    held, cached = {}, 0
    for event in events:
        if event["time_ns"] > ns:
            break
        kind, where = event["action"], event["where"]
        if kind in ("segment_alloc", "segment_map", "segment_free", "segment_unmap"):
            sign = 1 if kind in ("segment_alloc", "segment_map") else -1
            cached += sign * event["size"]
            if not tensors or where == "py_map":
                held[event["addr"], "driver"] = (where, event["size"])
                if sign < 0:
                    del held[event["addr"], "driver"]
        elif tensors and kind == "alloc":
            held[event["addr"], "tensor"] = (where, event["size"])
        elif tensors and kind == "free_completed":
            del held[event["addr"], "tensor"]
    found = collections.Counter()
    for where, size in held.values():
        found[where] += size
    if tensors:
        found[CACHED] = cached - sum(found.values())
    return +found, cached


def check_moments(page, start_ns, events, tensors=True):
    """All moments that are apart from changes; how many these are."""
    nr = 0
    for i, seconds in enumerate(page.seconds):
        ns = start_ns + seconds * 1e9
        if any(abs(event["time_ns"] - ns) < LATE_NS for event in events):
            continue
        wanted, total = held_at(events, ns, tensors)
        found = collections.Counter()
        for frames, values in page.stacks:
            found[next((name for frame in reversed(frames) for name in FUNCTIONS if frame.split(" (")[0] == name),
                       frames[-1])] += values[i]
        check(sum(values[i] for values in page.bands.values()) == page.total[i], "bands: %s" % page.bands)
        check(+found == wanted, "at %.3f s: %s, not %s" % (seconds, +found, wanted))
        check(page.total[i] == total, "at %.3f s: %d, not %d" % (seconds, page.total[i], total))
        nr += 1
    return nr


@test()
def moments(context):
    """Tensors, memory that is cached beside them, and memory of the driver, at each moment; the exact peak."""
    truth, page, start_ns = recorded(context, "phases", "--tensors")
    nr = check_moments(page, start_ns, truth["events"])
    check(nr >= len(page.seconds) // 2, "%d of %d moments" % (nr, len(page.seconds)))
    check(page.total[page.line["peak"]] == max(page.total) == 256 * MIB, "the peak: %d" % max(page.total))
    check(page.line["subject"] == "GPU memory" and page.line["what"] == "calls", str(page.line))
    context.note("%d of %d moments; bands: %s" % (nr, len(page.seconds), sorted(page.bands)))


@test()
def without_tensors(context):
    """Each allocation of the driver, for the function that took it."""
    truth, page, start_ns = recorded(context, "phases")
    check(check_moments(page, start_ns, truth["events"], tensors=False) >= len(page.seconds) // 2, "few moments")


@test()
def ended(context):
    """Memory that a process held when it ended is not held afterwards; in the pickle it stays in use."""
    def kill(caller):
        caller.process.kill()
        caller.process.wait()

    _, page, _ = recorded(context, "phases", "--tensors", end=kill)
    check(page.total[page.line["peak"]] == 256 * MIB, "the peak: %d" % max(page.total))
    check(page.total[-1] == 0 and all(values[-1] == 0 for values in page.bands.values()), "held: %d" % page.total[-1])


@test()
def two_devices(context):
    """Where a process uses several, the innermost frame of each stack is the device."""
    truth, page, _ = recorded(context, "devices", "--tensors")
    found, wanted = collections.Counter(), collections.Counter()
    for frames, values in page.stacks:
        found[frames[-1]] += values[-1]
    for event in truth["events"]:
        if event["action"].startswith("segment"):
            sign = 1 if event["action"] in ("segment_alloc", "segment_map") else -1
            wanted["[GPU %s]" % ("not known" if event["device"] is None else event["device"])] += sign * event["size"]
    check(CACHED in page.bands and not [name for name in page.bands if name.startswith("[GPU")], str(page.bands))
    check(set(found) == set(wanted) and all(abs(found[one] - wanted[one]) <= 8 << 10 for one in wanted),
          "%s, not %s" % (found, wanted))


@test()
def short_peak(context):
    """A peak between two moments is a moment, whatever comes after it."""
    truth, page, _ = recorded(context, "caching", "--tensors")
    most = held = 0
    for event in truth["events"]:
        if event["action"].startswith("segment"):
            held += event["size"] if event["action"].endswith(("alloc", "map")) else -event["size"]
            most = max(most, held)
    check(abs(page.total[page.line["peak"]] - most) < 1024, "%d, not %d" % (page.total[page.line["peak"]], most))


@test()
def beside_samples(context):
    """record --gpu has it in the file of the calls, for the processes that it records alone."""
    caller, other = (Caller(context, scenario, script="gpu_history.py") for scenario in ("phases", "driver"))
    run = Run(context, "record", "--gpu", "--tensors", "-p", caller.pid, "-d", "120", "-o", "y.html", "-o", "y.pb.gz")
    run.wait_for(r"watching \d+ functions? in \d+ librar")
    other.work()
    truth = caller.work()
    run.interrupt()
    page = Page(context.text("y.cuda.html"))
    nr = check_moments(page, Pprof(context.read("y.cuda.pb.gz")).scalars[9], truth["events"])
    check(nr >= len(page.seconds) // 2, "%d of %d moments" % (nr, len(page.seconds)))
    check('id="chart"' not in context.text("y.html"), "a time line of memory in the profile of the CPU")


@test()
def by_name(context):
    """Memory of processes that a name leaves out is not in it."""
    one = Caller(context, "phases", script="gpu_history.py")
    other = Caller(context, "launches")
    with open("/proc/%d/comm" % one.pid, encoding="utf-8") as file:
        name = file.read().strip()
    run = Run(context, "record", "--gpu", "--comm", name + "-other", "-d", "120", "-o", "y.html")
    run.wait_for(r"watching \d+ functions? in \d+ librar")
    other.work()
    one.work()
    run.interrupt()
    check('id="chart"' not in context.text("y.cuda.html"), "a time line of others")


@test()
def none(context):
    """Without memory of the device there is no time line."""
    caller = Caller(context, "launches")
    watch = Watch(context, "-d", "120", "-p", caller.pid, "-o", "x.html")
    caller.work()
    watch.end()
    check('id="chart"' not in context.text("x.html"), "a time line of nothing")
