# SPDX-License-Identifier: Apache-2.0
"""record --async: the stacks of running tasks, against what the programs say of those that await them."""

import json
import math
import os
import re
import signal

from dumps import Sleeper, wait_for
from harness import check, test
from test_asyncio import each_with_cython, with_uvloop
from test_python import all_pythons, each_once, pick

FRAME = re.compile(r"^(.*) \(([^()]*?):(\d+)\)$")
SECONDS = 1.5
HZ = 997
FLOOR = 99.0
MAX_SHARE_POINTS, DEVIATIONS = 4.0, 5  # whichever is more: beside other work there are few samples


def frames_of(line):
    """[name, base name of the file, line] of each frame, root first, and the number of samples."""
    text, _, count = line.rpartition(" ")
    found = [FRAME.match(frame) for frame in text.split(";")]
    return [[match.group(1), os.path.basename(match.group(2)), int(match.group(3))]
            for match in found if match], int(count)


def kind_of(frames):
    """The kind of the request that a stack belongs to, and where its leaf stands; None: to none."""
    for i, frame in enumerate(frames):
        if frame[0].startswith("leaf_"):
            return frame[0][len("leaf_"):], i
    return None, 0


def judge(text, truth):
    """{kind: [samples, exact ones]} and stacks that are wrong."""
    found, wrong = {kind: [0, 0] for kind in truth["stacks"]}, []
    for line in text.splitlines():
        frames, count = frames_of(line)
        kind, at = kind_of(frames)
        if not kind:
            continue
        found[kind][0] += count
        if frames[:at] == truth["stacks"][kind]:
            found[kind][1] += count
        else:
            wrong.append("%s: %s for %s" % (kind, frames[:at], truth["stacks"][kind]))
    return found, wrong


def shares_differ(found, spent):
    """The kinds whose share of the samples is not that of the time."""
    samples, seconds = sum(nr for nr, _ in found.values()), sum(spent.values())
    shares = {kind: (100 * nr / samples, 100 * spent[kind] / seconds)
              for kind, (nr, _) in found.items()}
    return ["%s: %.1f%% of the samples, %.1f%% of the time" % (kind, has, spends)
            for kind, (has, spends) in shares.items()
            if abs(has - spends) > max(MAX_SHARE_POINTS,
                                       DEVIATIONS * math.sqrt(spends * (100 - spends) / samples))]


def compare_one(context, python, *args):
    """Records one run; the share of exact stacks, and what is wrong."""
    target = Sleeper(context, python, "awaiters", str(SECONDS), *args)
    wait_for(lambda: os.path.exists(target.truth + ".ready"), "%s is ready" % python)
    recording = context.start("record", "--async", "-F", HZ, "-p", target.pid, "-o", "x.raw",
                              "--stats", "x.json")
    context.sampling(recording)
    with open(target.truth + ".go", "w", encoding="ascii"):
        pass
    truth = target.wait(ended=True)
    recording.send_signal(signal.SIGINT)
    run = context.finish(recording, 30)
    run.expect(0)
    check(not truth["faults"], "%s: stacks that change: %s" % (python, truth["faults"][:2]))
    found, wrong = judge(context.text("x.raw"), truth)
    wrong += shares_differ(found, truth["spent"])
    samples, exact = (sum(both[i] for both in found.values()) for i in (0, 1))
    check(samples > SECONDS * HZ / 8, "%s: %d samples" % (python, samples))
    percent = 100 * exact / samples
    walk = json.loads(context.text("x.json"))["walk"]
    counts = {name: nr for name, nr in walk.items() if name.startswith("async_")}
    context.note("%s: %d samples, %.2f%% exact, %s" % (python, samples, percent, counts))
    if found["direct"][0] == found["direct"][1] and percent >= FLOOR and \
            not shares_differ(found, truth["spent"]):
        return []
    return ["%s: %.2f%% exact: %s" % (python, percent, text) for text in wrong]


@test(paired=True, long=True)
def equal(context):
    """Every way to await, every Python: exact stacks, and the shares of the time."""
    wrong = []
    pythons, missing = all_pythons()
    for python in each_once(pythons):
        wrong += compare_one(context, python)
    for name, reason in missing:
        context.note("not had: %s: %s" % (name, reason))
    check(not wrong, "%d faults: %s" % (len(wrong), "\n".join(wrong[:8])))


@test(paired=True)
def uvloop(context):
    """Loops of uvloop."""
    wrong = compare_one(context, with_uvloop(), "uvloop")
    check(not wrong, "%d faults: %s" % (len(wrong), "\n".join(wrong[:8])))


@test(paired=True)
def cython(context):
    """Tasks and coroutines of Cython lead on to those that await them, as in Ray's async actors."""
    wrong = []
    for python in each_with_cython(context):
        wrong += compare_one(context, python, "cython")
    check(not wrong, "%d faults: %s" % (len(wrong), "\n".join(wrong[:8])))


@test(paired=True)
def without(context):
    """Without the flag no stack has awaiting tasks, and nothing is counted."""
    python = pick((3, 11))
    target = Sleeper(context, python, "awaiters", "1")
    wait_for(lambda: os.path.exists(target.truth + ".ready"), "%s is ready" % python)
    with open(target.truth + ".go", "w", encoding="ascii"):
        pass
    context.bpfprof("record", "-F", HZ, "-p", target.pid, "-d", "1", "-o", "x.raw", "--stats",
                    "x.json").expect(0)
    stacks = [frames_of(line)[0] for line in context.text("x.raw").splitlines()]
    leaves = [frames for frames in stacks if kind_of(frames)[0]]
    check(leaves, "no request was seen")
    check(not any(frame[0] == "main" for frames in leaves for frame in frames), leaves[:2])
    check(not any(name.startswith("async_") for name in context.json("x.json")["walk"]),
          context.json("x.json")["walk"])
