# SPDX-License-Identifier: Apache-2.0
"""The wakers of waits: threads of this process and of another one, and interrupts."""

import os

import chains
from dumps import truth_of, wait_for
from harness import check, test
from kernel_events import wait_events
from test_python import spawn
from test_wall import SLACK_NS, WITHIN, record, some_pythons, span, within

LIGHT = True
# The waker in the label, and the function that wakes.
ONE, TWO = ("giver;one", "wake_by_one"), ("two  [1m; x", "wake_by_two")
WAKES = [("take", "1", ONE), ("take", "2", TWO), ("sem", "2", TWO), ("child", "1", ONE)]
UNKNOWN, INTERRUPT = "[waker not known]", "[woken by an interrupt]"


class Sample:
    """One of the profile, cut where the wait ends and its waker begins."""

    def __init__(self, profile, sample):
        names = [name for at in sample["stack"] for name in profile.locations[at]["functions"]]
        at = names.index("--") if "--" in names else 0
        self.waker, self.wait = names[:at], names[at + 1 if at else 0:]
        self.leaf = names[0] if names else ""
        self.label = sample["labels"].get("waker")
        self.pid, self.tid = sample["labels"]["pid"], sample["labels"]["tid"]
        self.count, self.ns = sample["values"][:2]


def time_of(samples, tid, wanted):
    return sum(sample.ns for sample in samples if sample.tid == tid and wanted(sample))


class Program:
    """wakers.c, and what it knows."""

    def __init__(self, context):
        self.path = os.path.join(context.scratch("wakers"), "truth")
        program = context.helper("wakers", "wakers.c", "-pthread")
        self.pid = context.spawn([program, self.path]).pid
        wait_for(lambda: os.path.exists(self.path + ".ready"), "wakers waits")

    def finish(self):
        truth = truth_of(self.path)
        self.tids, self.waits = truth["tids"], truth["waits"]

    def bounds(self, name, by, begin, end):
        """Time of waits that were surely over in time, and of all that may have been."""
        calls = [call for call in self.waits[name] if call[2] == by]
        return within([call for call in calls if call[1] <= end], begin, end), \
            within(calls, begin, end)

    def chance_ns(self, name, period_ns):
        """Of waits shorter than a period some have a sample of one: five times the deviation."""
        short = sum(end - begin for begin, end, _ in self.waits[name] if end - begin < period_ns)
        return 5 * (short * period_ns) ** 0.5


def differs(program, samples, name, by, leaf, around, slack_ns):
    """What is wrong with the time that a thread waited for who wakes it; or None, and a note."""
    tid = program.tids[name]
    low, high = program.bounds(name, by, *around)
    seen = time_of(samples, tid, lambda sample: sample.leaf == leaf)
    late = time_of(samples, tid, lambda sample: sample.leaf == "[runnable]")
    slack = SLACK_NS + slack_ns
    note = "%s by %s %.3f of %.3f to %.3f s (%.3f runnable)" % (
        name, leaf, seen / 1e9, low / 1e9, high / 1e9, late / 1e9)
    return note, not low or not (1 - WITHIN) * low - late - slack <= seen <= high + slack


def compare(program, samples, around, moved_ns, period_ns, events):
    notes, wrong = [], []

    def slack_ns(name):
        return moved_ns + program.chance_ns(name, period_ns) + \
            events.untold_ns(program.tids[name], *around)

    for name, by, (waker, function) in WAKES:
        who = "%s-%d" % (waker, program.tids["one" if by == "1" else "two"])
        if name == "child":
            who += " of wakers-%d" % program.pid
        note, bad = differs(program, samples, name, by, "[woken by %s]" % who, around,
                            slack_ns(name))
        notes.append(note)
        wrong += [note] * bad
        for sample in samples:
            if sample.leaf != "[woken by %s]" % who:
                continue
            if sample.label != who or function not in sample.waker or function in sample.wait:
                wrong.append("%s: label %s, waker %s, wait %s" % (who, sample.label, sample.waker,
                                                                  sample.wait))
    note, bad = differs(program, samples, "nap", "i", INTERRUPT, around, slack_ns("nap"))
    notes.append(note)
    wrong += [note] * bad
    return notes, wrong


def unknown_wrong(samples, around, moved_ns, period_ns, events):
    """
    A very short wait may end before anybody has seen it begin; its sample is of a period, or two. Of
    a longer one the kernel must have told nobody who ended it.
    """
    unknown = [sample for sample in samples if sample.leaf == UNKNOWN]
    ns, count = sum(sample.ns for sample in unknown), sum(sample.count for sample in unknown)
    untold_ns = sum(events.untold_ns(tid, *around) for tid in {sample.tid for sample in unknown})
    text = "of %d waits, %.3f s, nobody knows who ended them; the kernel told nobody of %.3f s" % (
        count, ns / 1e9, untold_ns / 1e9)
    return text, ns > 2.02 * period_ns * count + moved_ns + untold_ns


def strangers(program, samples):
    """False wakers, and waits without a known waker."""
    wrong = []
    names = {tid: name for name, tid in program.tids.items()}
    ours = [sample for sample in samples if sample.tid in names]
    for sample in ours:
        if sample.leaf == INTERRUPT and (names[sample.tid] in ("take", "sem", "child") or
                                         not any("hrtimer" in name for name in sample.waker) or
                                         "doze" in sample.waker or "main" in sample.waker):
            wrong.append("%s: by an interrupt: %s" % (names[sample.tid], sample.waker))
        if names[sample.tid] in ("one", "two", "nap") and sample.leaf.startswith("[woken by ") and \
                sample.leaf != INTERRUPT and "doze" in sample.wait:
            wrong.append("%s: its timer is %s" % (names[sample.tid], sample.leaf))
    return wrong


PRODUCER = """
import queue, sys, threading, time
items = queue.Queue()
def put_one():
    items.put(1)
def produce():
    while True:
        time.sleep(0.03)
        put_one()
def consume():
    items.get()
threading.Thread(target=produce, daemon=True).start()
print("ready", flush=True)
while True:
    consume()
"""


def python_wrong(samples, pid, around, moved_ns):
    """The main thread waits for a queue, and the other one's put_one() ends that."""
    asleep = [sample for sample in samples if sample.tid == pid and "consume" in sample.wait and
              "take_gil" not in sample.wait and sample.leaf not in ("[runnable]", UNKNOWN)]
    by_put = sum(sample.ns for sample in asleep if "put_one" in sample.waker)
    total = sum(sample.ns for sample in asleep)
    if by_put < (1 - WITHIN) * total - SLACK_NS - moved_ns or total < 0.5 * (around[1] - around[0]):
        return ["put_one() ends %.3f of %.3f s" % (by_put / 1e9, total / 1e9)]
    return []


@test()
def wakers(context):
    """Each waker has the time that others waited for it, with its stack; interrupts have theirs."""
    program = Program(context)
    python = some_pythons()[-1]
    producer = spawn(context, [*python.argv, "-c", PRODUCER], python.environment(),
                     [python.stdlib], stdout=-1)
    producer.stdout.readline()
    with wait_events(context) as events:
        profile, moved_ns = record(context, "--wall", "--waker", "--threads", "--no-findings",
                                   "-p", program.pid, "-p", producer.pid, "-d", 2, "-o", "x.raw")
    program.finish()
    around = span(profile)
    samples = [Sample(profile, sample) for sample in profile.samples]
    stats = context.json("x.json")["waits"]
    period_ns = stats["longest_period_us"] * 1e3
    notes, wrong = compare(program, samples, around, moved_ns, period_ns, events)
    note, bad = unknown_wrong(samples, around, moved_ns, period_ns, events)
    notes.append(note)
    wrong += strangers(program, samples) + [note] * bad
    wrong += python_wrong(samples, producer.pid, around, moved_ns)
    context.note("; ".join(notes))
    context.note("%s" % {name: n for name, n in stats.items() if "wake" in name or
                         "woken" in name})
    check(not wrong, "\n".join(wrong))
    check(stats["woken_by_threads"] and stats["woken_by_interrupts"], "waits %s" % stats)
    for line in context.text("x.raw").splitlines():
        check("wake_by" not in line and "put_one (" not in line.split(";produce")[0],
              "x.raw: %s" % line)
    text = context.text("x.folded")
    check("\033" not in text, "control characters in x.folded")
    leaves = {frames[-1] for _, frames, _ in chains.read_folded(text) if frames}
    check(any(leaf.startswith("[woken by giver:one-") for leaf in leaves) and
          any(leaf.startswith("[woken by two  [1m: x-") for leaf in leaves), "leaves %s" % leaves)
