# SPDX-License-Identifier: Apache-2.0
"""record --gpu: calls beside samples of one recording, in files and on standard output."""

import json
import os
import re
import subprocess
import time

import chains
from gpu_profiles import (
    KINDS, PARTS, SHARE, Calls, Rounds, Steps, check_completions, check_parts, folded_total,
    launched, launched_of, shares_of)
from gpu_truth import Caller, Run, equal
from harness import MODES, check, test

BESIDE = True


@test(modes=MODES)
def record(context):
    """Shares of the CPU as the program took it, in hooked calls too; beside it all of its calls."""
    steps = Steps(context, "spin")
    run = Run(context, "record", "--gpu", "-p", steps.pid, "-F", "499", "-d", "120", "-o", "x.pb.gz",
              "-o", "x.folded", "-o", "x.html", "--stats", "s.json")
    run.wait_for(r"watching \d+ functions? in \d+ librar")
    truth = steps.run(300)
    done = run.interrupt()
    shares, samples = shares_of(context.read("x.pb.gz"))
    took = sum(truth["cpu"].values())
    check(samples > 700, "%d samples" % samples)
    for name, ns in truth["cpu"].items():
        check(abs(shares[name] - ns / took) < SHARE, "%s: %.3f of the samples, not %.3f" % (
            name, shares[name], ns / took))
    stats = context.json("s.json")
    stacks = stats["stacks"]
    check(stacks["truncated"] * 50 < stats["samples"]["total"], "cut short: %s" % stacks)
    calls = Calls(context.read("x.cuda.pb.gz"))
    check(calls.total("calls/count") == truth["calls"], "%d calls, not %d" % (
        calls.total("calls/count"), truth["calls"]))
    check(folded_total(context.text("x.cuda.folded")) == truth["calls"], "the folded file")
    for name, wanted in (("forward", 1200), ("backward", 1800), ("wait_step", 300), ("keep", 30),
                         ("scratch", 60)):
        check(calls.total("calls/count", frame=name) == wanted, "%s: %d calls, not %d" % (
            name, calls.total("calls/count", frame=name), wanted))
    check(calls.total("inuse/bytes", frame="keep") == truth["inuse"], "in use")
    check(calls.total("inuse/bytes") == truth["inuse"], "in use, by others")
    check("train_kernel" in context.text("x.cuda.folded"), "no name")
    check(context.text("x.cuda.html").rstrip().endswith("</html>"), "no flame graph")
    gpu = stats["gpu"]
    check(gpu["calls"]["total"] == truth["calls"], "stats: %s" % gpu)
    check({kind: gpu["calls"][kind] for kind in KINDS} == {kind: truth[kind] for kind in KINDS},
          "stats: %s" % gpu)
    check(not any(gpu["lost"].values()), "lost: %s" % gpu["lost"])
    check("CUDA and NCCL calls: %d:" % truth["calls"] in done.text, done.text)
    check(calls.stats["gpu"]["calls"]["launch"] == truth["launch"], "comments: %s" % calls.stats)
    context.note("%d samples, %s; startup %.2f s" % (
        samples, {k: round(v, 3) for k, v in shares.items()}, stats["agent"]["startup_seconds"]))


@test(paired=True, lock="gpu")  # a probe is on in all processes of the file, whichever recording wants it
def record_parts(context):
    """--tensors and --gc beside the samples; neither unless it is asked for."""
    caller = Rounds(context)
    bare = Run(context, "record", "--gpu", "-p", caller.pid, "-d", "120", "-o", "y.folded", "--stats", "t.json")
    bare.wait_for(r"watching \d+ functions? in \d+ librar")
    before = caller.round()
    bare.interrupt()
    check(before["semaphores"][-1] == 0, "PyTorch's probes are on: %s" % before["semaphores"])
    check(not set(PARTS.values()) & set(context.json("t.json")["gpu"]["calls"]), "told, not asked for")
    run = Run(context, "record", "--gpu", "--tensors", "--gc", "-p", caller.pid, "-d", "120", "-o", "x.pb.gz",
              "-o", "x.folded", "-o", "x.html", "--stats", "s.json")
    run.wait_for(r"watching \d+ functions? in \d+ librar")
    truth = caller.round()
    done = run.interrupt()
    check(truth["semaphores"][-1] == 3, "semaphores: %s" % truth["semaphores"])
    calls = Calls(context.read("x.cuda.pb.gz"))
    held = [before["tensor_inuse"], truth["tensor_inuse"]]
    # Memory allocated before is not known, and its frees do not count.
    known = dict(truth, tensor_inuse={where: size - (held[0][where] if where != "py_activation" else 2 << 20)
                                      for where, size in held[1].items()})
    check_parts(calls, known, before)
    gpu = context.json("s.json")["gpu"]
    wanted = {PARTS[name]: truth["calls"][name]["calls"] - before["calls"][name]["calls"] for name in PARTS}
    equal({kind: gpu["calls"].get(kind) for kind in wanted}, wanted, "stats")
    total = sum(one["calls"] - before["calls"][name]["calls"] for name, one in truth["calls"].items())
    check(gpu["calls"]["total"] == calls.total("calls/count") == folded_total(context.text("x.cuda.folded")) ==
          total, "%s: %d in the profile, not %d" % (gpu["calls"], calls.total("calls/count"), total))
    check(not any(gpu["lost"].values()), "lost: %s" % gpu["lost"])
    for kind, count in wanted.items():
        check(re.search(r"CUDA and NCCL calls: .*\b%s %d\b" % (kind.replace("_", " "), count), done.text),
              done.text)
        check(calls.stats["gpu"]["calls"][kind] == count, "comments: %s" % calls.stats)
    check("python:gc" in context.text("x.cuda.html"), "no collection in the flame graph")


@test()
def record_completions(context):
    """How long collectives took, by the stacks that called them."""
    caller = Caller(context, "rounds", script="gpu_waits.py")
    run = Run(context, "record", "--gpu", "-p", caller.pid, "-d", "120", "-o", "x.pb.gz", "--stats", "s.json")
    run.wait_for(r"watching \d+ functions? in \d+ librar")
    row, = [caller.work() for _ in range(5)][-1]["completions"]
    run.interrupt()
    check((row["count"], row["pending"]) == (32, 8), str(row))
    check_completions(Calls(context.read("x.cuda.pb.gz")), caller.pid, (40, 32), row["ns"])
    lost = context.json("s.json")["gpu"]["lost"]
    check(not any(lost.values()), "lost: %s" % lost)


@test()
def record_long_wait(context):
    """A call that has not returned at the end has blocked until then, on its stack."""
    caller = Caller(context, "long", script="gpu_waits.py")
    run = Run(context, "record", "--gpu", "-p", caller.pid, "-d", "120", "-o", "x.pb.gz")
    run.wait_for(r"watching \d+ functions? in \d+ librar")
    caller.say("go\n60")
    begin = json.loads(caller.line())["begin"]
    time.sleep(2)
    least = time.monotonic_ns() - begin[1]
    run.interrupt()
    most = time.monotonic_ns() - begin[0]
    calls = Calls(context.read("x.cuda.pb.gz"))
    found = calls.total("blocked/nanoseconds", frame="long_wait")
    check(least <= found <= most, "blocked for %d ns, not %d to %d" % (found, least, most))
    check(calls.total("calls/count", frame="long_wait") == 1, "calls")


@test(paired=True, lock="gpu")
def record_killed_in_it(context):
    """A process that is killed in a call has blocked until then."""
    caller = Caller(context, "long", script="gpu_waits.py")
    run = Run(context, "record", "--gpu", "-d", "120", "-o", "x.pb.gz")
    run.wait_for(r"watching \d+ functions? in \d+ librar")
    caller.say("go\n60")
    begin = json.loads(caller.line())["begin"]
    time.sleep(2)
    least = time.monotonic_ns() - begin[1]
    caller.process.kill()
    caller.process.wait()
    most = time.monotonic_ns() - begin[0]
    time.sleep(1)
    run.interrupt()
    calls = Calls(context.read("x.cuda.pb.gz"))
    found = calls.total("blocked/nanoseconds", pid=caller.pid, frame="long_wait")
    check(least <= found <= most, "blocked for %d ns, not %d to %d" % (found, least, most))


@test(paired=True, lock="gpu")
def parts_alone(context):
    """Both are parts of --gpu."""
    for command in (["record", "-d", "1"], ["daemon", "--output", context.path("o")]):
        for flag in ("--tensors", "--gc"):
            done = context.bpfprof(*command, flag, timeout=20).expect(2)
            check(re.search(r"%s: .*add --gpu" % flag, done.text), done.text)


NR_WITHIN = 9  # programs that call; three have ended after 400 samples on a fast machine


@test(paired=True, lock="gpu")
def samples_within_walks(context):
    """A sample that comes while the stack of a call is taken is none the worse for it."""
    callers = [Caller(context, "threads") for _ in range(NR_WITHIN)]
    for caller in callers:
        subprocess.run(["taskset", "-a", "-p", "-c", "0", str(caller.pid)], check=True,
                       stdout=subprocess.DEVNULL)
    run = Run(context, "record", "--gpu", "-F", "9999", "-d", "120", "-o", "x.folded", "--stats", "s.json")
    run.wait_for(r"watching \d+ functions? in \d+ librar")
    for caller in callers:
        caller.say("go")
    calls = [json.loads(caller.line())["calls"] for caller in callers]
    run.interrupt()
    stats = context.json("s.json")
    lost = {name: n for name, n in stats["lost"].items() if n}
    context.note("%s, %d stacks of calls, lost: %s" % (
        stats["samples"], stats["gpu"]["stacks"]["taken"], lost))
    samples = sum(count for process, _, count in chains.read_folded(context.text("x.folded"))
                  if process == "gpu_calls")
    check(samples > 500, "%d samples of callers, %s" % (samples, stats["samples"]))
    check(len(calls) == NR_WITHIN and stats["gpu"]["stacks"]["taken"] > 1000, "%s" % stats["gpu"]["stacks"])
    check("scratch_busy" not in lost, "lost: %s" % lost)
    check(not stats["gpu"]["lost"]["stacks_scratch_busy"], "lost: %s" % stats["gpu"]["lost"])


@test()
def record_timer(context):
    """The other clock walks over hooked returns, too."""
    steps = Steps(context, "spin")
    run = Run(context, "record", "--gpu", "--clock", "timer", "-p", steps.pid, "-F", "499", "-d",
              "120", "-o", "x.pb.gz")
    run.wait_for(r"watching \d+ functions? in \d+ librar")
    truth = steps.run(200)
    run.interrupt()
    shares, samples = shares_of(context.read("x.pb.gz"))
    took = sum(truth["cpu"].values())
    check(samples > 400, "%d samples" % samples)
    for name, ns in truth["cpu"].items():
        check(abs(shares[name] - ns / took) < 1.5 * SHARE, "%s: %.3f of the samples, not %.3f" % (
            name, shares[name], ns / took))
    check(Calls(context.read("x.cuda.pb.gz")).total("calls/count") == truth["calls"], "calls")


@test()
def record_others(context):
    """Processes that a name leaves out have no calls either; one file per process."""
    # Other tests run gpu_steps meanwhile.
    one, other = Steps(context, name="steps_by_name"), Caller(context, "launches")
    run = Run(context, "record", "--gpu", "--comm", "steps_by_name", "-d", "120", "--split", "process",
              "-o", "x.pb.gz", "--stats", "s.json")
    run.wait_for(r"watching \d+ functions? in \d+ librar")
    truth = one.run(5)
    other.work()
    run.interrupt()
    check(context.json("s.json")["gpu"]["calls"]["total"] == truth["calls"], "calls of others")
    calls = Calls(context.read("x.%d.cuda.pb.gz" % one.pid))
    check(calls.total("calls/count") == truth["calls"], "calls of one process")
    check(not os.path.exists(context.path("x.%d.cuda.pb.gz" % other.pid)), "a file of the other")


@test()
def record_standard_output(context):
    """There is one standard output: it is the CPU's."""
    done = context.bpfprof("record", "--gpu", "-d", "0.5", "--format", "folded", "-o", "-").expect(0)
    check(done.out.startswith(b"# {"), "not a collapsed file: %s" % done.out[:200])
    check(done.out.count(b"\n# {") == 0, "two files: %s" % done.out[done.out.find(b"\n# {"):][:300])
    check(b"the profile of calls goes into files alone" in done.err, "not said: %s" % done.err)
    for arguments in (("-o", "x.pb.gz", "-o", "x.cuda.pb.gz"),
                      ("-o", "x.folded", "--stats", "x.cuda.folded")):
        done = context.bpfprof("record", "--gpu", *arguments, timeout=20).expect(2)
        check(b"--gpu" in done.err, "%s: %s" % (arguments, done.text))


@test()
def record_handles_again(context):
    caller = Caller(context, "modules", with_python=True)
    run = Run(context, "record", "--gpu", "-p", str(caller.pid), "-d", "120", "-o", "x.pb.gz",
              "--stats", "s.json")
    run.wait_for(r"watching \d+ functions? in \d+ librar")
    truth = caller.work()
    run.interrupt()
    found = launched_of(Calls(context.read("x.cuda.pb.gz")), caller.pid)
    check(found == launched(truth, []), "%s, not %s" % (found, launched(truth, [])))
    lost = context.json("s.json")["gpu"]["lost"]
    check(lost["kernel_names_of_launches"] == found["kernel@0x4711"] == 3, str(lost))
