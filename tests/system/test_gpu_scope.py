# SPDX-License-Identifier: Apache-2.0
"""gpu of chosen processes: no other process is hooked, and no call is missed or counted twice."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import time

from containers import wait_for
from gpu_truth import (OUTPUTS, SECONDS, Caller, Files, Seen, Watch, check_all, check_calls, check_launches,
                       fakes, watched)
from harness import check, test
from test_loop import map_files
from test_top import python

LIGHT = True
CROWD, OF_ONE_TENANT = 200, 192  # libraries
NR_MANY = 36  # processes: more than are hooked one by one


def hooked_at(process, library="libcuda"):
    """Breakpoints in the code of a library as the process has it, copies that are its own; by offset."""
    found = []
    with open("/proc/%d/maps" % process.pid, encoding="ascii") as maps, \
            open("/proc/%d/mem" % process.pid, "rb", buffering=0) as memory:
        for line in maps:
            fields = line.split()
            if len(fields) < 6 or "x" not in fields[1] or library not in fields[5]:
                continue
            start, end = (int(part, 16) for part in fields[0].split("-"))
            memory.seek(start)
            mine = memory.read(end - start)
            with open(fields[5], "rb") as file:
                file.seek(int(fields[2], 16))
                theirs = file.read(end - start)
            found += [int(fields[2], 16) + i for i, (a, b) in enumerate(zip(mine, theirs))
                      if a != b and a == 0xcc]
    return found


def hooks(process):
    return len(hooked_at(process))


@test(paired=True, lock="gpu")
def others_are_not_hooked(context):
    """Not one breakpoint in a process that maps the same file, and all of them in the one asked for."""
    one, other = Caller(context, "launches"), Caller(context, "launches")
    watch = Watch(context, "--json", "-d", "120", "-p", one.pid)
    there, elsewhere = hooks(one), hooks(other)
    other.work()
    truth = one.work()
    seen = Seen(watch.end())
    check(there > 20, "%d hooks in the process that is watched" % there)
    check(not elsewhere, "%d hooks in another process" % elsewhere)
    check(seen.pids() == {one.pid}, "processes: %s" % seen.pids())
    check_all(seen.process(one.pid), truth)
    time.sleep(0.5)
    check(not hooks(one), "hooks are left behind")


@test()
def other_entries(context):
    """A driver without trampolines: a hook is on the first push of each entry, and the report is right."""
    where = fakes(context).with_other_entries(context.path("other"))
    for scenario in ("launches", "copies", "memory", "sync"):
        caller = Caller(context, scenario, where=where)
        watch = Watch(context, "--json", "-d", "120", "-p", caller.pid)
        there = hooked_at(caller)
        truth = caller.work()
        check_all(Seen(watch.end()).process(caller.pid), truth)
        check(len(there) > 20 and {off % 32 for off in there} == {8}, "%s: hooks at %s" % (
            scenario, [hex(off) for off in there]))


@test(paired=True, lock="gpu")
def without_a_pid_all_are_hooked(context):
    one, other = Caller(context, "launches"), Caller(context, "launches")
    watch = Watch(context, "--json", "-d", "120")
    check(hooks(one) > 20 and hooks(other) > 20, "not hooked: %d, %d" % (hooks(one), hooks(other)))
    truths = [one.work(), other.work()]
    seen = Seen(watch.end())
    for truth in truths:
        check_all(seen.process(truth["pid"]), truth)


@test()
def threads_of_one(context):
    """Calls of threads are those of their process, on every kernel."""
    _, truth, seen = watched(context, "threads")
    check_all(seen.process(truth["pid"]), truth)


EXECUTES = """#!%s
import ctypes, os, sys, threading
ctypes.CDLL(%r)
print("ready", flush=True)
sys.stdin.readline()
threading.Thread(target=os.execv, args=(%r, [%r, *sys.argv[1:]])).start()
"""


@test()
def executed_by_thread(context):
    """A thread that is not the first one executes a program: it takes the place of the first one, and is hooked again."""
    where = fakes(context)
    script = context.path("executes")
    with open(script, "w", encoding="utf-8") as file:
        file.write(EXECUTES % (python(context), where.cuda, where.program, where.program))
    os.chmod(script, 0o755)
    caller = Caller(context, "launches", program=script)
    watch = Watch(context, "-v", "--json", "-d", "120", "-p", caller.pid)
    caller.say("go")
    check(caller.line() == "ready", "it did not execute the program")
    watch.wait_for(r"(?s)(hooked \S*libcuda\S*: \d+ functions, in pid %d\n.*){2}" % caller.pid)
    truth = caller.work()
    check_all(Seen(watch.end()).process(caller.pid), truth)


@test()
def late_children_are_told(context):
    """One that calls as soon as it is forked: what is missing of it is said to be."""
    _, truth, seen = watched(context, "fork")
    check_all(seen.process(truth["pid"]), truth)
    child = truth["children"][0]
    wanted = sum(one["calls"] for one in child["calls"].values())
    found = [one for one in seen.whole["processes"] if one["pid"] == child["pid"]]
    calls = sum(row["calls"] for one in found for row in one["calls"])
    check(calls <= wanted, "%d calls of %d" % (calls, wanted))
    context.note("%d of %d calls, children_hooked_late: %d" % (
        calls, wanted, seen.lost["children_hooked_late"]))
    check(calls == wanted or seen.lost["children_hooked_late"], "calls were lost without a word")


@test(paired=True, lock="gpu")
def one_tenant_leaves_room(context):
    """A user with more CUDA libraries than one tenant may have hooked: those of another user are hooked, too."""
    crowd = context.scratch("crowd")
    for number in range(CROWD):
        shutil.copy(fakes(context).cuda, os.path.join(crowd, "lib%d" % number))
    check(map_files(context, crowd, CROWD, stdout=subprocess.PIPE).stdout.readline(), "nothing is mapped")
    watch = Watch(context, "--json", "-d", "120")
    caller = Caller(context, "launches")
    wait_for("the caller is not hooked", lambda: hooks(caller) > 20, 20)
    truth = caller.work()
    seen = Seen(watch.end())
    check_all(seen.process(truth["pid"]), truth)
    problems = [one["problem"] for one in seen.whole["libraries"] if one["path"].startswith(crowd)]
    check(len(problems) == CROWD and sum(map(bool, problems)) == CROWD - OF_ONE_TENANT, str(problems))


@test()
def many_processes(context):
    """Past a number of processes all are hooked, which is said; nothing is lost or counted twice."""
    callers = [Caller(context, "launches") for _ in range(NR_MANY)]
    pids = [argument for caller in callers for argument in ("-p", caller.pid)]
    watch = Watch(context, "--json", "-d", "120", *pids)
    watch.wait_for("the hooks now cover all processes")
    other = Caller(context, "launches")
    time.sleep(0.3)
    check(hooks(other) > 20, "not all are hooked")
    truths = [caller.work() for caller in callers]
    other.work()
    seen = Seen(watch.end())
    check(seen.pids() == {caller.pid for caller in callers}, "processes: %s" % seen.pids())
    for truth in truths:
        check_calls(seen.process(truth["pid"]), truth)


# Makes so many callers on request, all at once or one after the other.
FAMILY = """
read -r go
i=0
while [ $i -lt $3 ]; do
    sleep 1000 | "$1" launches "$2" > /dev/null &
    i=$((i + 1))
done
wait
"""
IN_TURN = """
read -r go
i=0
while [ $i -lt $3 ]; do
    for j in 1 2 3 4 5 6; do
        { sleep 1; echo go; sleep 0.3; } | "$1" launches "$2" > /dev/null &
    done
    wait
    i=$((i + 6))
done
"""


ONE_PER_LINE = """
while read -r go; do
    echo go | "$1" launches "$2" | grep '^{'
done
"""


def family(context, script):
    where = fakes(context)
    return context.spawn(["sh", "-c", script, "sh", where.program, where.folder, NR_MANY],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)


@contextlib.contextmanager
def ended(process):
    """With all that it started."""
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@test()
def widened_on_the_way(context):
    """Calls go on while the hooks of single processes give way to those of all."""
    caller = Caller(context, "paced")
    with ended(family(context, FAMILY)) as others:
        watch = Watch(context, "--json", "-d", "120", "-p", caller.pid, "-p", others.pid)
        caller.say("go")
        time.sleep(0.5)
        others.stdin.write(b"go\n")
        others.stdin.flush()
        watch.wait_for("the hooks now cover all processes")
        time.sleep(0.5)
        caller.say("enough")
        truth = json.loads(caller.line())
        seen = Seen(watch.end())
    process = seen.process(caller.pid)
    check_calls(process, truth)
    check(not seen.lost["returns_of_calls_not_seen"], "lost: %s" % seen.lost)


@test()
def children_come_and_go(context):
    """No call of programs that are started one after the other is missed, however short they live."""
    with ended(family(context, IN_TURN)) as others:
        watch = Watch(context, "--json", "-d", "120", "-p", others.pid)
        others.stdin.write(b"go\n")
        others.stdin.flush()
        check(others.wait(timeout=60) == 0, "the callers failed")
        seen = Seen(watch.end(interrupt=False))
    check("the hooks now cover all processes" in watch.messages(), watch.messages())
    check(len(seen.pids()) == NR_MANY, "%d processes were seen to call, not %d" % (
        len(seen.pids()), NR_MANY))
    calls = {sum(row["calls"] for row in one["calls"]) for one in seen.whole["processes"]}
    check(len(calls) == 1, "the same calls, counted %s times" % calls)


def next_truth(process):
    """The report of a program that the family starts and that calls at once."""
    process.stdin.write(b"run\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


@test()
def programs_that_call_at_once(context):
    """The first ones are over before they are hooked; once it is said that all are, none is missed."""
    with ended(family(context, ONE_PER_LINE)) as shell:
        watch = Watch(context, "-v", "--json", "-d", "120", "-p", shell.pid)
        early, end = 0, time.monotonic() + SECONDS
        while not ("the hooks now cover all processes" in watch.messages() and
                   re.search(r"hooked \S*libcuda.so.1: ", watch.messages())):
            check(time.monotonic() < end, watch.messages())
            next_truth(shell)
            early += 1
        truths = [next_truth(shell) for _ in range(10)]
        seen = Seen(watch.end())
    for truth in truths:
        check_all(seen.process(truth["pid"]), truth)
    calls = {sum(row["calls"] for row in one["calls"]) for one in seen.whole["processes"]}
    context.note("%d before it was said; %d processes seen, calls of each: %s" %
                 (early, len(seen.pids()), sorted(calls)))


@test(lock="workers")
def workers(context):
    """Exactly the Ray workers that a pattern names, including later ones."""
    one = Caller(context, "launches", title="ray::DTensorPolicyWorker.train")
    other = Caller(context, "copies", title="ray::DataLoader.next")
    watch = Watch(context, "--json", "-d", "120", "--worker", "nothing, *policy*")
    watch.wait_for(r"watching worker 'DTensorPolicyWorker.train' pid %d \(matched '\*policy\*'\)" %
                   one.pid)
    late = Caller(context, "memory", title="ray::PolicyWorker")
    watch.wait_for(r"watching worker 'PolicyWorker' pid %d " % late.pid)
    time.sleep(0.5)
    truths = [one.work(), late.work()]
    other.work()
    seen = Seen(watch.end())
    check(seen.pids() == {one.pid, late.pid}, "processes: %s" % seen.pids())
    for truth in truths:
        check_all(seen.process(truth["pid"]), truth)
    check("no GPU call" not in watch.messages(), watch.messages())


@test(paired=True, lock="gpu")
def worker_without_calls(context):
    """A worker without calls is reported, with the processes of its node that do call, watched or not."""
    silent = Caller(context, "launches", title="ray::Engine.run")
    busy = Caller(context, "paced", title="ray::RayWorkerWrapper.execute_method")
    busy.say("go")
    watch = Watch(context, "--json", "-d", "120", "--worker", "engine")
    seen = Seen(watch.end())
    said = r"worker 'Engine.run' pid %d made no GPU call; these of its Ray node did:.* pid %d '" % (
        silent.pid, busy.pid)
    check(not seen.pids(), "processes: %s" % seen.pids())
    check(re.search(said, watch.messages()), watch.messages())
    watch = Watch(context, "--json", "-d", "120", "--worker", "engine,*wrapper*")
    seen = Seen(watch.end())
    check(seen.pids() == {busy.pid}, "processes: %s" % seen.pids())
    check(re.search(said, watch.messages()), watch.messages())
    busy.say("enough")
    busy.line()
    watch = Watch(context, "--json", "-d", "120", "--worker", "engine")
    watch.end()
    check(re.search(r"worker 'Engine.run' pid %d made no GPU call, nor did" % silent.pid,
                    watch.messages()), watch.messages())


# Starts a worker of that title, as Ray's raylet does, which starts a program that calls and waits for it.
RAYLET = """
import subprocess, sys
subprocess.run([sys.argv[1], "-c", sys.argv[2], "sh", *sys.argv[3:]], executable="/bin/sh")
"""
PARENT = '{ echo go; sleep 1000; } | "$1" paced "$2" > /dev/null & echo $$ $!; wait'


def raylet(context, title):
    where = fakes(context)
    return context.spawn([python(context), "-c", RAYLET, title, PARENT, where.program, where.folder],
                         stdout=subprocess.PIPE, start_new_session=True)


@test(paired=True, lock="gpu")
def worker_whose_child_calls(context):
    """The worker's child is named, watched or not, and no process of another Ray node on the machine."""
    with ended(raylet(context, "ray::Engine.run")) as one, \
            ended(raylet(context, "ray::Other.run")) as two:
        worker, child = map(int, one.stdout.readline().split())
        stranger = int(two.stdout.readline().split()[1])
        for arguments, watched_too in (((), True), (("--no-subprocesses",), False)):
            watch = Watch(context, "--json", "-d", "120", "--worker", "engine", *arguments)
            time.sleep(0.5)
            seen = Seen(watch.end())
            check(seen.pids() == ({child} if watched_too else set()), "processes: %s" % seen.pids())
            said = re.search(r"worker 'Engine.run' pid %d made no GPU call; these of its Ray "
                             r"node did:(.*)" % worker, watch.messages())
            check(said and re.findall(r"pid (\d+) '", said.group(1)) == [str(child)],
                  "child %d, of another node %d: %s" % (child, stranger, watch.messages()))


@test(paired=True, lock="gpu")
def no_such_worker(context):
    done = context.bpfprof("gpu", "--once", "--worker", "nobody*").expect(0)
    check("no process matched --worker" in done.text, done.text)


def check_steps(process, truth):
    """Exactly the calls in the steps; only memory is reported as of the end."""
    check_calls(process, truth)
    check_launches(process, truth)


@test()
def windows(context):
    """Windows of cudaProfilerStart and Stop: exactly the calls in the third and the fourth; it then ends."""
    caller = Caller(context, "windows")
    watch = Watch(context, "--json", "-p", caller.pid, "--steps", "3:5", *OUTPUTS)
    truth = caller.work()
    seen = Seen(watch.end(interrupt=False))
    process = seen.process(caller.pid)
    check_steps(process, truth)
    check(process["memory"]["live_bytes"] == 2000, "live: %s" % process["memory"])
    check("pid %d: 2 of 2 windows" % caller.pid in watch.messages(), watch.messages())
    check(Files(context).total("calls/count") == sum(row["calls"] for row in process["calls"]),
          "the profile does not add up")
    check(not any(seen.lost.values()), "lost: %s" % seen.lost)


@test()
def windows_seen_in_part(context):
    """Fewer windows than were asked for: said, and what there was is counted."""
    caller = Caller(context, "windows")
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid, "--steps", "5:10")
    caller.work()
    seen = Seen(watch.end())
    check("pid %d: 2 of 5 windows of the profiler counted; 6 seen" % caller.pid in
          watch.messages(), watch.messages())
    launched = sum(row["calls"] for row in seen.process(caller.pid)["launches"])
    check(launched == 14, "%d launches, not 14" % launched)


@test()
def no_windows(context):
    caller = Caller(context, "launches")
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid, "--steps", "1:2")
    caller.work()
    seen = Seen(watch.end())
    check(not seen.pids(), "calls outside of all windows: %s" % seen.pids())
    check("no process made a window" in watch.messages(), watch.messages())


@test(lock="workers")
def methods(context):
    """A worker that makes no windows: steps are calls of its method. It ends by itself."""
    caller = Caller(context, "methods", title="ray::PolicyWorker" + "-" * 80)
    watch = Watch(context, "--json", "--worker", "policyworker*", "--steps", "2:4")
    truth = caller.work()
    seen = Seen(watch.end(interrupt=False))
    process = seen.process(caller.pid)
    check_steps(process, truth)
    check(re.search(r"worker 'PolicyWorker[^']*' pid %d: 2 of 2 steps" % caller.pid,
                    watch.messages()), watch.messages())
    check(len(re.findall("watching worker", watch.messages())) == 1, watch.messages())


@test(lock="workers")
def windows_of_a_worker(context):
    """If a worker makes windows, these are the steps, and not its methods."""
    caller = Caller(context, "windows", title="ray::PolicyWorker.train")
    watch = Watch(context, "--json", "--worker", "policyworker.train", "--steps", "3:5")
    truth = caller.work()
    seen = Seen(watch.end(interrupt=False))
    check_steps(seen.process(caller.pid), truth)
    check("worker 'PolicyWorker.train' pid %d: 2 of 2 windows of the profiler counted" % caller.pid in
          watch.messages(), watch.messages())


def one_of_two(context, form):
    """The message about a matching worker that makes no window while another one does."""
    caller = Caller(context, "windows", title="ray::PolicyWorker.train")
    other = Caller(context, "methods", title="ray::ValueWorker" + "-" * 80)
    watch = Watch(context, "--json", "-d", "120", "--worker", "policyworker.train,*worker*",
                  "--steps", form)
    other.work()
    caller.work()
    watch.end()
    told = watch.messages()
    check("worker 'PolicyWorker.train' pid %d: 2 of 2 windows of the profiler counted; 6 seen" %
          caller.pid in told, told)
    check(len(re.findall("worker '[^']*' pid %d: made no window of the profiler" % other.pid,
                         told)) == 1, told)
    check("pid %d made no GPU call" % other.pid not in told, told)
    return other.pid, told


@test(lock="workers")
def windows_of_one_of_two(context):
    """Calls of methods of the other one are counted, which is said, too."""
    pid, told = one_of_two(context, "2:4")
    check("pid %d: 2 of 2 steps recorded" % pid in told, told)


@test(lock="workers")
def windows_asked_for_of_one_of_two(context):
    """Calls of methods are no steps."""
    _, told = one_of_two(context, "windows:2:4")
    check("steps recorded" not in told, told)


def of_both(context, form):
    caller = Caller(context, "both_" + form, title="ray::PolicyWorker" + "-" * 80)
    watch = Watch(context, "--json", "--worker", "policyworker*", "--steps",
                  {"windows": "windows:1:3", "calls": "calls:2:4"}[form])
    truth = caller.work()
    seen = Seen(watch.end(interrupt=False))
    check_steps(seen.process(caller.pid), truth)
    check(not any(seen.lost.values()), "lost: %s" % seen.lost)
    check(len(re.findall("watching worker", watch.messages())) == 1, watch.messages())
    return caller.pid, watch.messages()


@test(lock="workers")
def windows_asked_for(context):
    """Exactly these windows, though as many calls of the method are over before the first one."""
    pid, told = of_both(context, "windows")
    check(re.search("worker 'PolicyWorker[^']*' pid %d: 2 of 2 windows of the profiler" % pid, told),
          told)


@test(lock="workers")
def calls_asked_for(context):
    """Whole calls of the method, windows or not."""
    pid, told = of_both(context, "calls")
    check(re.search("worker 'PolicyWorker[^']*' pid %d: 2 of 2 steps recorded" % pid, told) and
          "windows of the profiler" not in told, told)


@test(lock="workers")
def no_windows_asked_for(context):
    """Calls of methods are no steps then: nothing is counted, and that is said."""
    caller = Caller(context, "methods", title="ray::PolicyWorker" + "-" * 80)
    watch = Watch(context, "--json", "-d", "120", "--worker", "policyworker*", "--steps",
                  "windows:1:2")
    caller.work()
    seen = Seen(watch.end())
    check(not seen.pids(), "calls outside of all windows: %s" % seen.pids())
    check("--steps: no process made a window with cudaProfilerStart" in watch.messages() and
          re.search("worker 'PolicyWorker[^']*' pid %d made no GPU call in a step" % caller.pid,
                    watch.messages()), watch.messages())


@test(modes=("root",))
def wrong_steps(context):
    for steps in ("0:10", "5:5", "5:4", "x", "1", "", ":", "1:2:3", "windows:", "calls:5:5",
                  "window:3:5"):
        done = context.bpfprof("gpu", "--once", "--steps", steps, timeout=20).expect(2)
        check("START:STOP" in done.text, done.text)
    done = context.bpfprof("gpu", "--once", "--steps", "calls:3:5", timeout=20).expect(2)
    check("--worker must name them" in done.text, done.text)


@test()
def libraries_in_between(context):
    """Each launch has the library that the program called, and its function, not what that is made of."""
    caller = Caller(context, "libraries")
    watch = Watch(context, "--json", "-d", "120", "-p", caller.pid)
    table = Watch(context, "-d", "120", "-p", caller.pid)
    caller.work()
    seen = Seen(watch.end()).process(caller.pid)
    text = table.end()
    found = {(row["grid"][0], row["library"], row["entry"]): row["calls"]
             for row in seen["launches"] if row["kernel"].startswith("sm90")}
    wanted = {(11, "libcublas.so.12", "cublasGemmEx"): 12,
              (22, "libcublasLt.so.12", "cublasLtMatmul"): 8}
    direct = [key for key, calls in found.items() if key[1] is None and calls == 5]
    check(len(direct) == 1 and direct[0][2] is None, "a launch without a library: %s" % found)
    del found[direct[0]]
    check(found == wanted, "%s, not %s" % (found, wanted))
    nccl = {(row["library"], row["entry"]) for row in seen["launches"]
            if row["kernel"].startswith("nccl")}
    check(nccl == {("libnccl.so.2", "ncclAllReduce")}, "of NCCL: %s" % nccl)
    for line in (r"12 .*\bcublasGemmEx\b", r"8 .*\bcublasLtMatmul\b", r"5 .* - +sm90",
                 r"ncclAllReduce +ncclDev"):
        check(re.search(line, text), "no %s in:\n%s" % (line, text))
