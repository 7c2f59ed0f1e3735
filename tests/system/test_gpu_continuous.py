# SPDX-License-Identifier: Apache-2.0
"""Calls of CUDA beside the samples: daemon --gpu, top --gpu.

Against programs that count their calls; what is equal must be equal.
"""

import glob
import json
import os
import re
import signal
import subprocess
import time
import urllib.request

from gpu_profiles import (
    ALLOCATE, BUDGET, KINDS, PARTS, TENSORS, ZERO, Calls, Rounds, Steps, check_completions,
    check_parts, completions, launched, launched_of)
from daemons import Daemon, token_file
from dumps import wait_for
from gpu_truth import SECONDS, Caller, Run, fakes
from harness import Skip, check, test
from loaded import private_stacks
from test_containers import mounted
from test_gpu_gc import BEGIN, SPOILED, interpreter

BESIDE = True


@test()
def completions_of_intervals(context):
    """In the interval in which it is known, wherever they were called; of the last ones it never is."""
    daemon = Daemon(context, "--gpu", "--log-level", "debug", interval="3s", listen="127.0.0.1:0")
    hooked(context, daemon)
    caller = Caller(context, "rounds", script="gpu_waits.py")
    time.sleep(1)  # its libnccl is new
    rows = []
    for rounds in (1, 2, 1):
        next_interval(daemon)
        for _ in range(rounds):
            truth = caller.work()
        rows += truth["completions"]
    next_interval(daemon)
    lost = 'bpfprof_gpu_lost_total{reason="collectives_never_known_complete"}'
    never = metrics(daemon)[lost]
    caller.say("exit")
    caller.process.wait(SECONDS)
    next_interval(daemon)
    never = metrics(daemon)[lost] - never
    check(daemon.end() == 0, "ended badly")
    files = [calls for calls in calls_files(daemon.output).values()
             if any(one[0] for one in completions(calls, caller.pid).values())]
    check(len(files) == 3, "%d intervals with collectives" % len(files))
    done, took = 0, [0, 0]
    for calls, called, row in zip(files, (8, 16, 8), rows):
        check_completions(calls, caller.pid, (called, row["count"] - done),
                          [after - before for after, before in zip(row["ns"], took)])
        done, took = row["count"], row["ns"]
    check(done == 24 and never == 8, "%d complete, of %d it is never known" % (done, never))


@test()
def long_wait_of_intervals(context):
    """Each interval has its part of a call that spans several; another one that is killed in it, too."""
    daemon = Daemon(context, "--gpu", "--log-level", "debug", interval="3s", listen="127.0.0.1:0")
    hooked(context, daemon)
    caller = Caller(context, "long", script="gpu_waits.py")
    time.sleep(1)
    caller.say("go\n10")
    begin = json.loads(caller.line())["begin"]
    end = json.loads(caller.line())["end"]
    next_interval(daemon)  # which may have been over before
    next_interval(daemon)
    caller.say("60")
    second = json.loads(caller.line())["begin"]
    next_interval(daemon)
    next_interval(daemon)
    time.sleep(1)
    killed = time.monotonic_ns()
    caller.process.kill()
    caller.process.wait()
    next_interval(daemon)
    check(daemon.end() == 0, "ended badly")
    found = [calls.total("blocked/nanoseconds", pid=caller.pid, frame="long_wait")
             for calls in calls_files(daemon.output).values()]
    shown = ["%.2f" % (ns / 1e9) for ns in found]
    context.note("blocked for %s s of intervals of 3 s" % ", ".join(shown))
    check(max(found) < 3.3e9, "longer than an interval: %s" % shown)
    check(sum(ns > 2.7e9 for ns in found) >= 3, "not in each: %s" % shown)
    first = next(at for at, ns in enumerate(found) if ns)
    last = next(at for at in range(first, len(found)) if found[at] < 2.7e9 and at > first)
    took = sum(found[first:last + 1])
    # Until the end of the thread was noticed, and its first launch, are not in it.
    check(end - begin[1] - 0.2e9 <= took <= end - begin[0], "%s: in all %d ns, not %d" % (
        shown, took, end - begin[0]))
    took = sum(found[last + 1:]) + max(0, found[last] - (end - begin[0] - sum(found[first:last])))
    context.note("the one that was killed: %.2f s of %.2f" % (took / 1e9, (killed - second[1]) / 1e9))
    check(killed - second[1] - 0.2e9 <= took <= killed - second[0] + 0.1e9,
          "%s: of the one that was killed %d ns, not %d" % (shown, took, killed - second[0]))
    others = [calls.total("blocked/nanoseconds", pid=caller.pid, frame="wait_later")
              for calls in calls_files(daemon.output).values()]
    check(max(others) < 1.5e9, "short waits: %s" % others)


def calls_files(folder, pattern="cuda-*.pb.gz"):
    """{name: profile} by time."""
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, pattern))):
        with open(path, "rb") as file:
            found[os.path.basename(path)] = Calls(file.read())
    return found


def metrics(daemon):
    """{name with labels: value}"""
    port = daemon.wait("listening")[0]["port"]
    with urllib.request.urlopen("http://127.0.0.1:%s/metrics" % port, timeout=10) as reply:
        lines = reply.read().decode().splitlines()
    return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1])
            for line in lines if not line.startswith("#")}


def next_interval(daemon):
    """Waits for the next boundary: later calls are in the interval that has just begun."""
    written = len(daemon.said("profile written"))
    daemon.wait("profile written", written + 1)
    return written + 1


def hooked(context, daemon):
    """Has one program make itself known, so that what others do is seen from its first call on."""
    first = Steps(context)
    end = time.monotonic() + SECONDS
    while not any("libcuda.so.1" in str(line) and "hooked" in line["msg"]
                  for line in daemon.lines()):
        check(time.monotonic() < end, "never hooked: %s" % daemon.lines()[-3:])
        time.sleep(0.05)
    return first


def check_starved(files, pid, truths):
    """The idle time before launches of each interval, without that of earlier intervals."""
    for calls, before, after in zip(files, truths, truths[1:]):
        ns = calls.total("starved/nanoseconds", pid=pid)
        least, most = after[0] - before[0], after[1] - before[1]
        check(least <= ns <= most, "%d: starved for %d ns, not %d to %d" % (pid, ns, least, most))
        by_stack = calls.total("starved/nanoseconds", pid=pid, frame="forward")
        check(by_stack <= ns, "more in forward than at all")


@test(paired=True, lock="gpu")
def intervals(context):
    """Each interval has the calls made in it; all of them together all that were made."""
    daemon = Daemon(context, "--gpu", "--log-level", "debug", interval="3s", listen="127.0.0.1:0")
    stays = hooked(context, daemon)
    reported = []  # of each interval: {pid: calls made in it}
    before, starved = {}, {}

    def note(*truths):
        reported.append({truth["pid"]: truth["calls"] - before.get(truth["pid"], 0)
                     for truth in truths})
        before.update({truth["pid"]: truth["calls"] for truth in truths})
        for truth in truths:
            starved.setdefault(truth["pid"], [[0, 0]]).append(truth["starved_ns"])

    next_interval(daemon)
    note(stays.run(10))
    next_interval(daemon)
    short = Steps(context)  # begins and ends in one interval
    note(stays.run(3), short.run(20))
    short.end()
    next_interval(daemon)
    reported.append({})  # no process makes a call
    next_interval(daemon)
    other = Steps(context)
    note(other.run(7), stays.run(1))
    next_interval(daemon)
    note(other.run(2))
    next_interval(daemon)
    last = stays.run(0)
    found = metrics(daemon)
    check(daemon.end() == 0, "ended badly")
    found_files = calls_files(daemon.output)
    ours = {stays.pid, short.pid, other.pid}  # other processes of this machine may make calls, too
    seen = [{pid: calls.total("calls/count", pid=pid) for pid in
             {labels["pid"] for _, values, labels in calls.samples
              if values["calls/count"] and labels["pid"] in ours}} for calls in found_files.values()]
    made = [one for one in seen if one]
    check(made == [one for one in reported if one], "%s, not %s" % (seen, reported))
    # In the order in which they were made, with the idle one in between.
    at = seen.index(reported[1])
    check(seen[at + 1] == {} and seen[at + 2] == reported[3], "not in their intervals: %s" % seen)
    # Allocated memory stays under its stack, though no process allocates.
    latest = list(found_files.values())[-1]
    check(latest.total("inuse/bytes", pid=stays.pid, frame="keep") == last["inuse"], "in use: %d" %
          latest.total("inuse/bytes", pid=stays.pid, frame="keep"))
    check(not latest.total("inuse/bytes", pid=short.pid), "in use by what has ended")
    check(any("train_kernel" in frames for calls in found_files.values()
              for frames, _, labels in calls.samples if labels["pid"] == short.pid), "no name")
    for pid, truths in starved.items():
        check_starved([calls for calls, one in zip(found_files.values(), seen) if pid in one], pid, truths)
    kinds = {kind: found['bpfprof_gpu_calls_total{kind="%s"}' % kind] for kind in KINDS}
    everybody = sum(sum(values["calls/count"] for _, values, _ in calls.samples)
                    for calls in found_files.values())
    check(sum(before.values()) <= sum(kinds.values()) <= everybody, "metrics: %s, not from %d to %d" % (
        kinds, sum(before.values()), everybody))
    memory = max(line["memory_bytes"] for line in daemon.said("profile written"))
    check(memory < BUDGET, "%d bytes" % memory)
    context.note("%d intervals, %.1f MiB" % (len(found_files), memory / (1 << 20)))


@test()
def handles_again_in_intervals(context):
    """Each kernel has its launches of an interval, even if its handle had other kernels."""
    reason = 'bpfprof_gpu_lost_total{reason="kernel_names_of_launches"}'
    caller = Caller(context, "modules", with_python=True)
    daemon = Daemon(context, "--gpu", "-p", str(caller.pid), "--log-level", "debug", interval="3s",
                    listen="127.0.0.1:0")
    hooked(context, daemon)
    before = metrics(daemon)[reason]
    reported, rows = [], []
    for word in ("go", "round", "round"):
        next_interval(daemon)
        caller.say(word)
        truth = json.loads(caller.line())
        reported.append(launched(truth, rows))
        rows = truth["launches"]
    next_interval(daemon)
    unknown = metrics(daemon)[reason] - before
    check(daemon.end() == 0, "ended badly")
    found = [launched_of(calls, caller.pid) for calls in calls_files(daemon.output).values()]
    found = [one for one in found if one]
    check(found == reported, "%s, not %s" % (found, reported))
    check(all(len(one) == 3 for one in reported), "two kernels and one without a name: %s" % reported)
    check(unknown == sum(one["kernel@0x4711"] for one in reported), "of unknown kernels: %d" % unknown)


def hooked_files(daemon, *parts):
    """Waits until files whose paths have these in them are hooked."""
    end = time.monotonic() + SECONDS
    while not all(any(line["msg"].startswith("hooked ") and part in line["msg"] for line in daemon.lines())
                  for part in parts):
        check(time.monotonic() < end, "never hooked: %s" % [
            line["msg"] for line in daemon.lines() if "hooked" in line["msg"]])
        time.sleep(0.05)


@test()
def parts_of_intervals(context):
    """Each interval has its own tensors and collections, and what is in use at its end."""
    stays, other = Rounds(context), Rounds(context)
    daemon = Daemon(context, "--gpu", "--tensors", "--gc", "--log-level", "debug", interval="3s",
                    listen="127.0.0.1:0")
    hooked_files(daemon, "libcuda.so.1", "libc10_cuda.so", os.path.realpath(interpreter()))
    reported, states = [], {stays.pid: [], other.pid: []}  # after each round: in which interval, and what

    def note(caller):
        state = caller.round()
        states[caller.pid].append((len(reported), state))

    for callers in ((stays,), (stays, other), (), (other, stays, stays)):
        next_interval(daemon)
        for caller in callers:
            note(caller)
        reported.append(callers)
    other.end()
    next_interval(daemon)
    reported.append(())
    next_interval(daemon)
    found = metrics(daemon)
    check(daemon.end() == 0, "ended badly")
    profiles = list(calls_files(daemon.output).values())
    first = next(i for i, calls in enumerate(profiles) if calls.total("calls/count", pid=stays.pid))
    for pid, states_of in states.items():
        before = dict(ZERO, pid=pid)
        for i in range(len(reported)):
            now = [state for at, state in states_of if at == i]
            after = now[-1] if now else before
            calls = profiles[first + i]
            if pid == other.pid and i >= len(reported) - 2:  # it ended here: nothing is in use by it
                after = dict(after, tensor_inuse={})
            check_parts(calls, after, before)
            before = after
        last = states_of[-1][1]
        for name in PARTS:
            total = sum(calls.total("calls/count", pid=pid, frame="python:gc" if name == BEGIN else name)
                        for calls in profiles)
            check(total == last["calls"][name]["calls"], "%s: %d in all, not %d" % (
                name, total, last["calls"][name]["calls"]))
        total = sum(calls.total("tensor_allocated/bytes", pid=pid) for calls in profiles)
        check(total == last["calls"][ALLOCATE]["bytes"], "%d bytes in all, not %d" % (
            total, last["calls"][ALLOCATE]["bytes"]))
    for name, kind in PARTS.items():
        least = sum(states_of[-1][1]["calls"][name]["calls"] for states_of in states.values())
        value = found['bpfprof_gpu_calls_total{kind="%s"}' % kind]
        check(value >= least, "metrics: %s %d, not %d" % (kind, value, least))
    memory = max(line["memory_bytes"] for line in daemon.said("profile written"))
    check(memory < BUDGET, "%d bytes" % memory)
    context.note("%d intervals, %.1f MiB" % (len(profiles), memory / (1 << 20)))


@test(paired=True, lock="gpu")
def too_many_tensors(context):
    """Allocations up to the limit are reported, the rest are counted, and the driver's stay known."""
    caller = Rounds(context)
    daemon = Daemon(context, "--gpu", "--tensors", "--log-level", "debug", interval="4s",
                    listen="127.0.0.1:0")
    hooked_files(daemon, "libcuda.so.1", "libc10_cuda.so")
    next_interval(daemon)
    before = caller.round()
    truth = caller.hoard(TENSORS + 500)
    next_interval(daemon)
    next_interval(daemon)
    found = metrics(daemon)
    check(daemon.end() == 0, "ended badly")
    profiles = list(calls_files(daemon.output).values())
    pid, called = caller.pid, truth["calls"][ALLOCATE]
    for kind, frame, wanted in (("calls/count", ALLOCATE, called["calls"]),
                                ("tensor_allocated/bytes", None, called["bytes"])):
        total = sum(calls.total(kind, pid=pid, frame=frame) for calls in profiles)
        check(total == wanted, "%s: %d in all, not %d" % (kind, total, wanted))
    live = sum(before[kind]["allocations"] - before[kind]["frees"] for kind in ("memory", "tensor_memory"))
    over = live + 500
    lost = found['bpfprof_gpu_lost_total{reason="allocations_no_room"}']
    check(lost == over, "%d are counted, not %d" % (lost, over))
    latest = profiles[-1]
    held, wanted = latest.total("tensor_inuse/bytes", pid=pid), (
        before["tensor_memory"]["live_bytes"] + 500 * (TENSORS - live))
    check(held == wanted, "%d bytes in use, not %d" % (held, wanted))
    check(latest.total("inuse/bytes", pid=pid, frame="cuMemAlloc") == sum(truth["inuse"].values()),
          "in use of the driver's: %d, not %s" % (latest.total("inuse/bytes", pid=pid), truth["inuse"]))
    memory = max(line["memory_bytes"] for line in daemon.said("profile written"))
    check(memory < BUDGET, "%d bytes" % memory)
    context.note("%d of %d followed, %.1f MiB" % (TENSORS, live + TENSORS + 500, memory / (1 << 20)))


@test()
def pythons_that_come(context):
    """A Python whose collections cannot be seen is reported once, when it comes."""
    with open(os.path.realpath(interpreter()), "rb") as file:
        whole = file.read()
    old, new, problem = SPOILED["other"]
    path = os.path.join(context.scratch("other"), "python3")
    with open(path, "wb") as file:
        file.write(whole.replace(old, new))
    os.chmod(path, 0o755)
    daemon = Daemon(context, "--gpu", "--gc", interval="2s", listen="127.0.0.1:0")
    next_interval(daemon)
    before = metrics(daemon)
    check(before['bpfprof_gpu_calls_total{kind="gc"}'] >= 0, "not there before the first one")
    Rounds(context, path).round()
    said = "%s: not watched: %s" % (path, problem)
    daemon.wait(said)
    os.utime(path, (1, 1))  # the same file, met as if it were another
    Rounds(context, path).round()
    next_interval(daemon)
    next_interval(daemon)
    reason = 'bpfprof_gpu_lost_total{reason="pythons_without_probes"}'
    check(metrics(daemon)[reason] >= before[reason] + 1, "not counted")
    check(daemon.end() == 0, "ended badly")
    check(len(daemon.said(said)) == 1, "said %d times" % len(daemon.said(said)))


@test()
def files(context):
    """A set has the files of both, whole; links, listing and retention hold for them."""
    token = token_file(context, "secret-of-the-test")
    daemon = Daemon(context, "--gpu", "--retain-age", "5s", "--allow-remote-profiling", token,
                    interval="2s", listen="127.0.0.1:0")
    daemon.wait("profile written", 5)
    port = daemon.wait("listening")[0]["port"]
    request = urllib.request.Request("http://127.0.0.1:%s/files/" % port,
                                     headers={"Authorization": "Bearer secret-of-the-test"})
    with urllib.request.urlopen(request, timeout=10) as reply:
        listed = reply.read().decode().split()
    request.full_url += "latest.cuda.pb.gz"
    with urllib.request.urlopen(request, timeout=10) as reply:
        Calls(reply.read())
    check(daemon.end() == 0, "ended badly")
    for suffix in (".pb.gz", ".folded", ".html"):
        cpu = {path[4:] for path in os.listdir(daemon.output)
               if path.startswith("cpu-") and path.endswith(suffix)}
        cuda = {path[5:] for path in os.listdir(daemon.output)
                if path.startswith("cuda-") and path.endswith(suffix)}
        check(cpu == cuda and 2 <= len(cpu) <= 5, "%s beside %s" % (cuda, cpu))
        link = os.readlink(os.path.join(daemon.output, "latest.cuda" + suffix))
        check(link == "cuda-" + max(cpu), "%s leads to %s" % (suffix, link))
        check("latest.cuda" + suffix in listed, "listed: %s" % listed)
    check(any(name.startswith("cuda-") for name in listed), "listed: %s" % listed)
    # Without --gpu nothing leads to what is old, which goes as the rest does.
    daemon = Daemon(context, "--retain-age", "1s", interval="1s", log="second")
    daemon.wait("profile written", 4)
    check(daemon.end() == 0, "ended badly")
    check(not [name for name in os.listdir(daemon.output) if "cuda" in name],
          "still there: %s" % os.listdir(daemon.output))


@test()
def unmapped_libraries(context):
    """What no process maps any more is unhooked and let go; the same file is hooked again when it is mapped."""
    daemon = Daemon(context, "--gpu", "--log-level", "debug", interval="1s", listen="127.0.0.1:0")
    disk = mounted(context, "pod", "tmpfs")
    stays, goes = (fakes(context).copy(os.path.join(folder, "lib")) for folder in (context.scratch("stays"), disk))
    made = {}
    for number, libraries in enumerate(((stays, goes), (stays,)), 1):
        for where in libraries:
            one = Steps(context, where=where)
            wait_for(lambda: sum(line["msg"].startswith("hooked " + where.cuda) for line in daemon.lines()) >= number,
                     "never hooked", SECONDS)
            made[one.pid] = one.run(1)["calls"]
            one.end()
        for where in libraries:
            daemon.wait("unhooked " + where.cuda)
    wait_for(lambda: not subprocess.run(["umount", disk], stderr=subprocess.DEVNULL, check=False).returncode,
             "the file system cannot be unmounted", 90)  # other daemons hold it for a while, too
    check(daemon.end() == 0, "ended badly")
    profiles = calls_files(daemon.output).values()
    for pid, calls in made.items():
        total = sum(profile.total("calls/count", pid=pid) for profile in profiles)
        check(total == calls, "pid %d: %d calls, not %d" % (pid, total, calls))


@test(paired=True, lock="gpu")
def many_processes(context):
    """Counts of what has ended do not stay in the kernel."""
    daemon = Daemon(context, "--gpu", "--log-level", "debug", interval="2s", listen="127.0.0.1:0")
    stays = hooked(context, daemon)
    stays.run(1)
    next_interval(daemon)
    before, made = metrics(daemon)["bpfprof_gpu_keys"], {}
    for _ in range(30):
        one = Steps(context)
        made[one.pid] = one.run(1)["calls"]
        one.end()
    made[stays.pid] = stays.run(1)["calls"]
    next_interval(daemon)
    next_interval(daemon)
    after = metrics(daemon)["bpfprof_gpu_keys"]
    check(daemon.end() == 0, "ended badly")
    profiles = calls_files(daemon.output).values()
    for pid, calls in made.items():
        total = sum(profile.total("calls/count", pid=pid) for profile in profiles)
        check(total == calls, "pid %d: %d calls, not %d" % (pid, total, calls))
    # Each of them had five: what else comes and goes on this machine is less.
    check(after < before + 75, "%d keys, %d before" % (after, before))


@test(paired=True, lock="gpu")
def too_many_shapes(context):
    """One process cannot take all the room: its calls stay counted, and others keep their detail."""
    daemon = Daemon(context, "--gpu", "--log-level", "debug", interval="4s", listen="127.0.0.1:0")
    greedy = hooked(context, daemon)
    next_interval(daemon)
    made = {}
    greedy.say("s9000")
    made[greedy.pid] = json.loads(greedy.line())["calls"]
    modest = Steps(context)
    made[modest.pid] = modest.run(5)["calls"]
    next_interval(daemon)
    next_interval(daemon)
    found = metrics(daemon)
    check(daemon.end() == 0, "ended badly")
    profiles = calls_files(daemon.output).values()
    for pid, calls in made.items():
        total = sum(profile.total("calls/count", pid=pid) for profile in profiles)
        check(total == calls, "pid %d: %d calls, not %d" % (pid, total, calls))
    other = {pid: sum(profile.total("calls/count", pid=pid, frame="[other kernels]")
                      for profile in profiles) for pid in made}
    check(other[greedy.pid] == 9000 - 2048 and not other[modest.pid], "others: %s" % other)
    check(found['bpfprof_gpu_lost_total{reason="calls_without_detail"}'] >= other[greedy.pid],
          "not counted: %s" % found)
    memory = max(line["memory_bytes"] for line in daemon.said("profile written"))
    check(memory < BUDGET, "%d bytes" % memory)
    context.note("%.1f MiB" % (memory / (1 << 20)))


@test()
def chosen(context):
    """--pid of the daemon: calls of others are not written."""
    first, other = Steps(context), Steps(context)
    daemon = Daemon(context, "--gpu", "-p", str(first.pid), "--log-level", "debug", interval="2s")
    hooked(context, daemon)
    next_interval(daemon)
    truth = first.run(4)
    other.run(6)
    next_interval(daemon)
    check(daemon.end() == 0, "ended badly")
    total = sum(calls.total("calls/count") for calls in calls_files(daemon.output).values())
    check(total == truth["calls"], "%d calls, not %d" % (total, truth["calls"]))


@test()
def chosen_later(context):
    """A process that hangs when SIGHUP chooses it sends nothing more, but is in the intervals."""
    other, later = Steps(context), Steps(context)
    config = context.path("config")

    def configure(*pids):
        with open(config, "w", encoding="ascii") as file:
            file.write("BPFPROF_PID=%s\n" % ",".join(map(str, pids)))

    configure(other.pid)
    daemon = Daemon(context, "--gpu", "--config", config, "--log-level", "debug", interval="2s")
    hooked(context, daemon)
    caller = Caller(context, "long", script="gpu_waits.py")
    time.sleep(1)
    caller.say("go\n60")
    caller.line()
    later.run(2)
    time.sleep(0.5)  # in which it starves
    before = later.run(3)
    next_interval(daemon)
    check(calls_files(daemon.output) and not any(
        calls.total("blocked/nanoseconds") for calls in calls_files(daemon.output).values()), "not chosen")
    configure(caller.pid, later.pid)
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait("reloaded")
    now = later.run(3)
    for _ in range(3):
        next_interval(daemon)
    check(daemon.end() == 0, "ended badly")
    found = [calls.total("blocked/nanoseconds", pid=caller.pid, frame="[no stack]")
             for calls in calls_files(daemon.output).values()]
    shown = ["%.2f" % (ns / 1e9) for ns in found]
    context.note("blocked for %s s of intervals of 2 s" % ", ".join(shown))
    files = calls_files(daemon.output).values()
    total = sum(calls.total("calls/count", pid=later.pid) for calls in files)
    check(total == now["calls"] - before["calls"], "%d calls, not %s after %s" % (total, now, before))
    starved = sum(calls.total("starved/nanoseconds", pid=later.pid) for calls in files)
    least, most = [now["starved_ns"][i] - before["starved_ns"][i] for i in (0, 1)]
    check(least <= starved <= most, "starved for %d ns, not %d to %d" % (starved, least, most))
    check(sum(1.8e9 < ns < 2.2e9 for ns in found) >= 2 and max(found) < 2.2e9, shown)


def wait_for_keys(daemon, what, is_it):
    end = time.monotonic() + SECONDS
    while not is_it(metrics(daemon)["bpfprof_gpu_keys"]):
        check(time.monotonic() < end, "%s: %s" % (what, metrics(daemon)["bpfprof_gpu_keys"]))
        time.sleep(0.2)


def others_end(context, interval):
    """Processes that were not chosen use all keys of the map."""
    first = Steps(context)
    daemon = Daemon(context, "--gpu", "-p", str(first.pid), "--log-level", "debug",
                    interval=interval, listen="127.0.0.1:0", output=context.path(interval),
                    log="log-" + interval)
    hooked(context, daemon).end()
    first.run(1)
    wait_for_keys(daemon, "none of the chosen", lambda keys: 0 < keys < 100)
    for _ in range(3):
        others = [Steps(context) for _ in range(4)]
        for other in others:
            other.say("s3000")
            other.line()
        wait_for_keys(daemon, "the others are not among", lambda keys: keys > 4 * 2048)
        for other in others:
            other.end()
        wait_for_keys(daemon, "still there", lambda keys: keys < 100)
    truth = first.run(50)
    found = metrics(daemon)
    check(daemon.end() == 0, "ended badly")
    lost = found['bpfprof_gpu_lost_total{reason="calls_no_room"}']
    check(not lost, "%d calls without room" % lost)
    profiles = calls_files(daemon.output).values()
    total = sum(calls.total("calls/count") for calls in profiles)
    check(total == truth["calls"], "%d calls, not %d" % (total, truth["calls"]))
    first.end()


@test(paired=True, lock="gpu")
def others_leave_room(context):
    """Counts of processes that were not chosen are deleted with them, between and at boundaries."""
    for interval in ("300s", "2s"):
        others_end(context, interval)


@test()
def top(context):
    """Launches per second and blocked time of a process, in its rows and where it has none."""
    steps = Steps(context)
    run = Run(context, "top", "--gpu", "--once", "--delay", "8", "--verbose", "-p", steps.pid)
    run.wait_for(r"hooked \S*libcuda\S*: \d+ functions")
    truth = steps.run(200)
    done = context.finish(run.process, 2 * SECONDS).expect(0)
    text = done.out.decode()
    found = re.search(r"^GPU: (\d+) gpu_steps: (\d+) launches/s, ([\d.]+)% blocked$", text, re.M)
    check(found and int(found.group(1)) == steps.pid, text)
    wanted = truth["launch"] / 8
    check(abs(int(found.group(2)) - wanted) < 0.05 * wanted, "%s launches/s, not %.0f" % (
        found.group(2), wanted))
    blocked = truth["blocked_ns"] / 8e9 * 100
    check(abs(float(found.group(3)) - blocked) < 0.08 * blocked, "%s%% blocked, not %.2f" % (
        found.group(3), blocked))
    check(re.search(r"TotalTime +Launch/s +%Blocked +", text), text)
    rows = [line.split() for line in text.splitlines() if "forward" in line]
    check(rows and rows[0][4] == found.group(2) and rows[0][5] == found.group(3) + "%", text)
    context.note(text)


@test()
def top_hangs(context):
    """A process that hangs in a call uses no CPU: it is shown all the same."""
    caller = Caller(context, "hang")
    run = Run(context, "top", "--gpu", "--once", "--delay", "5", "--verbose", "-p", caller.pid)
    run.wait_for(r"hooked \S*libnccl\S*: \d+ functions")
    caller.say("go")
    done = context.finish(run.process, 2 * SECONDS).expect(0)
    found = re.search(r"^GPU: %d \S+: \d+ launches/s, ([\d.]+)%% blocked$" % caller.pid,
                      done.out.decode(), re.M)
    check(found and float(found.group(1)) > 30, done.out.decode())


@test()
def top_hangs_in_collective(context):
    """In one of NCCL's, too: it waits for its peers."""
    caller = Caller(context, "hang", with_python=True)
    run = Run(context, "top", "--gpu", "--once", "--delay", "6", "--verbose", "-p", caller.pid)
    run.wait_for(r"hooked \S*libnccl\S*: \d+ functions")
    caller.say("go")
    done = context.finish(run.process, 2 * SECONDS).expect(0)
    found = re.search(r"^GPU: %d \S+: \d+ launches/s, ([\d.]+)%% blocked$" % caller.pid,
                      done.out.decode(), re.M)
    check(found and 30 < float(found.group(1)) < 100, done.out.decode())


@test(modes=("root",))
def stacks_of_programs(context):
    """Programs that can be preempted run on their thread's stack, not on one of the CPU's."""
    runs = [(context.start("record", "--gpu", "--clock", "timer", "-d", "20", "-o", "x.folded"),
             {"gpu_enter", "gpu_return", "gpu_stack", "process_fork"}),
            (context.start("gpu", "--tensors", "--once", "-d", "20"), {"gpu_site"})]
    loaded = {}

    def all_there():
        for running, wanted in runs:
            loaded.update(private_stacks(running.pid))
        return all(wanted <= set(loaded) for _, wanted in runs)
    wait_for(all_there, "the programs are loaded")
    context.note(str({name: nr for name, nr in loaded.items() if nr or name.startswith("gpu")}))
    if not sum(loaded.values()):
        raise Skip("this kernel gives no program a stack of the CPU")
    check(not any(nr for name, nr in loaded.items() if name.startswith("gpu_")), str(loaded))
