# SPDX-License-Identifier: Apache-2.0
"""The stacks of all targets are exactly the chains that they can have."""

import os
import shutil
import time

import chains
from harness import BPFPROF, NOBODY, check, test

BATCH = 30
COPIES = 6  # of a program that is recorded once more
SECONDS = 8
HZ = 2999


def start(context, target):
    """Starts one target as its action says."""
    path, env, kwargs = target.path, {}, {}
    if target.action in ("delete", "replace"):
        path = context.path(target.name)
        shutil.copy(target.path, path)
    elif target.action == "memfd":
        fd = os.memfd_create(target.name)
        with open(target.path, "rb") as file:
            os.write(fd, file.read())
        env["TARGET_COMM"] = target.name
        kwargs = {"executable": "/proc/self/fd/%d" % fd, "pass_fds": [fd]}
    elif target.action == "setuid":
        path = context.path(target.name)
        shutil.copy(target.path, path)
        os.chown(path, 0, 0)
        os.chmod(path, 0o4755)
        kwargs = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    elif target.action == "nondumpable":
        env["TARGET_NONDUMPABLE"] = "1"
    process = context.spawn([path, "60", *target.args], env=env, **kwargs)
    if target.action == "memfd":
        os.close(fd)
    elif target.action == "delete":
        time.sleep(0.1)
        os.unlink(path)
    elif target.action == "replace":
        time.sleep(0.1)
        shutil.copy("/bin/true", path + ".new")
        os.rename(path + ".new", path)
    return process


def record(context, batch, number):
    """Half of the batch runs before the recording begins, half begins within it."""
    running = [start(context, target) for target in batch[::2]]
    recording = context.start("record", "-F", HZ, "-d", SECONDS, "-o", "%d.folded" % number,
                              "--stats", "%d.json" % number)
    context.sampling(recording)
    running += [start(context, target) for target in batch[1::2]]
    context.finish(recording, SECONDS + 30).expect(0)
    for process in running:
        process.kill()
    for process in running:
        process.wait()
    return context.text("%d.folded" % number), context.json("%d.json" % number)


def problems_of(result):
    """The faults of one program, as sentences."""
    if result.samples < 50:
        return ["%s: only %d samples" % (result.name, result.samples)]
    problems = result.missing()
    if result.expectation.may_truncate < 100 and result.percent("exact") < 99:
        problems.append("%s: %.2f%% of %d samples exact" % (result.name, result.percent("exact"),
                                                             result.samples))
        problems += ["    %6d %s" % (count, chains.shorten(stack))
                     for stack, count in result.worst()]
    return problems


@test()
def all_variants(context):
    """Every target: at least 99.9% of all stacks exact, no program under 99%.

    Some 1,500 samples of a program whose true share is 99.5% are under 99% once in a few hundred:
    those that fail are recorded once more and judged by all of their samples.
    TARGETS="jit plt" narrows it to those whose names begin so.
    """
    wanted = tuple(os.environ.get("TARGETS", "").split()) or ("",)
    targets = [target for target in context.builder.targets if target.name.startswith(wanted)]
    results, reasons, unmarked = {}, {}, 0
    for number, first in enumerate(range(0, len(targets), BATCH)):
        batch = targets[first:first + BATCH]
        folded, stats = record(context, batch, number)
        results.update(chains.check(batch, folded))
        unmarked += sum(count for _, frames, count in chains.read_folded(folded) if not frames)
        for reason, count in stats["stacks"]["reasons"].items():
            reasons[reason] = reasons.get(reason, 0) + count
    again = [target for target in targets if problems_of(results[target.name])]
    for number, first in enumerate(range(0, len(again), BATCH // COPIES), 100):
        batch = again[first:first + BATCH // COPIES]
        context.note("once more: " + "; ".join(problems_of(results[target.name])[0]
                                               for target in batch))
        # The address of a program in memory changes where interrupts land in it.
        copies = [target for target in batch for _ in range(1 if target.action else COPIES)]
        folded, _ = record(context, copies, number)
        chains.check(batch, folded, results)
    report = chains.table(results) + "\nreasons, of everything on the machine: %s\n" % reasons
    path = os.path.join(os.path.dirname(BPFPROF), "system-chains-%s.txt" % context.mode)
    with open(path, "w", encoding="utf-8") as file:
        file.write(report)
    judged = {name: result for name, result in results.items()
              if result.expectation.may_truncate < 100}
    total = sum(result.samples for result in judged.values())
    exact = sum(result.counts["exact"] for result in judged.values())
    context.note("%d programs, %d samples, %.3f%% exact, load %.0f; %s" % (
        len(judged), total, 100.0 * exact / max(1, total), os.getloadavg()[0],
        os.path.relpath(path)))
    problems = []
    if unmarked:
        problems.append("%d stacks without any frame and without a marker" % unmarked)
    for result in results.values():
        problems += problems_of(result)
    if exact < 0.999 * total:
        problems.append("%.3f%% of all stacks exact, 99.9%% expected" % (100.0 * exact / total))
        bad = [(count, name, stack) for name, result in judged.items()
               for stack, count in result.worst(1)]
        problems += ["    %6d %s: %s" % (count, name, chains.shorten(stack))
                     for count, name, stack in sorted(bad, reverse=True)[:20]]
    if problems:
        problems.append("reasons, of everything on the machine: %s" % reasons)
    check(not problems, "\n".join(problems))


@test()
def ends_that_are_guessed(context):
    """Code that was read in vain, with zeros where a frame pointer leads to: cut short, not complete."""
    target = context.target("jit_vain_gO2")
    context.spawn([target.path, "60"])
    context.bpfprof("record", "-F", HZ, "-d", "4", "-o", "x.folded", "--stats", "x.json").expect(0)
    result = chains.check([target], context.text("x.folded"))[target.name]
    reasons = context.json("x.json")["stacks"]["reasons"]
    context.note("%d samples, %.2f%% truncated, %s" % (result.samples, result.percent("truncated"),
                                                       reasons))
    check(result.samples > HZ and result.percent("truncated") > 99, result.worst())
    check(reasons.get("no_table", 0) > 0.9 * result.samples, reasons)
