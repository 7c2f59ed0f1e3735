# SPDX-License-Identifier: Apache-2.0
"""watch: the sender of a signal tells an end in order from a death. Programs of targets/orders.c."""

import os
import re
import signal
import subprocess
import sys
import time

from daemons import Daemon
from harness import check, test
from test_watch import Watch, dies, go, killer

BESIDE = True


def orders(context, *args):
    return [context.helper("orders", "orders.c", "-DTARGET_MAIN"), *args]


def line_of(process):
    return int(process.stdout.readline())


def nothing_died(watch, ends):
    watch.wait("all watched")
    watch.end(stop=False)
    check(not watch.summaries and "\nbpfprof: 0 deaths, %d ends in order" % ends in watch.log(),
          "%s %s" % (watch.summaries, watch.log()))


@test()
def by_timeout(context):
    """timeout(1) ends its whole process group: also a process that it has not started itself."""
    process = context.spawn(["timeout", "4", "sh", "-c", "sleep 50 & echo $!; wait"], stdout=subprocess.PIPE,
                            start_new_session=True)
    child = line_of(process)
    watch = Watch(context, "-p", child)
    check(process.wait(20) == 124, "timeout returned %d" % process.returncode)
    nothing_died(watch, 1)


@test()
def two_levels_up(context):
    """A process kills its grandchild first, and then its child, as kill_process_tree() does."""
    script = context.path("tree.py")
    with open(script, "w", encoding="utf-8") as file:
        file.write("import os, subprocess, sys\n"
                   "child = subprocess.Popen(['sh', '-c', 'sleep 50 & echo $!; wait'], stdout=subprocess.PIPE, start_new_session=True)\n"
                   "grandchild = int(child.stdout.readline())\n"
                   "print(child.pid, grandchild, flush=True)\n"
                   "for number in map(int, sys.stdin):\n"
                   "    os.kill(grandchild, number)\n"
                   "    os.kill(child.pid, 9)\n"
                   "    child.wait()\n")
    for number in (signal.SIGKILL, signal.SIGTERM):
        process = context.spawn([sys.executable, script], plain=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        child, grandchild = map(int, process.stdout.readline().split())
        watch = Watch(context, "-p", child, "-p", grandchild)
        process.stdin.write(b"%d\n" % number)
        process.stdin.close()
        process.wait(20)
        nothing_died(watch, 2)


@test()
def parent_ends(context):
    """PR_SET_PDEATHSIG: the child goes with its parent, which ends with code 0."""
    process = context.spawn(orders(context, "orphan"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child = line_of(process)
    watch = Watch(context, "-p", child)
    go(process)
    check(process.wait(20) == 0, "it died")
    nothing_died(watch, 1)


def parent(context, *lines):
    """A parent that runs these lines once its input has a line."""
    script = context.path("ranks.py")
    with open(script, "w", encoding="utf-8") as file:
        file.write("\n".join(["import subprocess, sys", "sys.stdin.readline()", *lines]) + "\n")
    return context.spawn([sys.executable, script], plain=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@test()
def right_after_exec(context):
    """A parent ends its ranks before a daemon has read what they execute: the orders are not forgotten."""
    process = parent(context, "ranks = [subprocess.Popen(%r, stdout=subprocess.PIPE) for _ in range(20)]" % orders(context, "slowly"),
                     "for rank in ranks:", "    rank.stdout.readline()", "    rank.terminate()", "print(flush=True)",
                     "for rank in ranks:", "    rank.wait()", "sys.stdin.readline()", "sys.exit(5)")
    daemon = Daemon(context, "--watch", "-p", process.pid)
    daemon.wait("sampling")
    daemon.process.send_signal(signal.SIGSTOP)  # it then finds the exec and the signal at once
    go(process)
    process.stdout.readline()
    daemon.process.send_signal(signal.SIGCONT)
    time.sleep(4)
    go(process)
    check(process.wait(60) == 5, "not as asked")
    said = daemon.wait("process died")  # of the parent: those of the ranks would come before
    check(daemon.end() == 0, "it failed")
    check([line["pid"] for line in said] == [process.pid], "%s" % said)


@test()
def during_exec(context):
    """A parent goes on, and ends its rank, while the kernel still executes the program of the rank."""
    process = parent(context, "for i in range(300):",
                     "    rank = subprocess.Popen(['sleep', '100'])",
                     "    rank.send_signal(9 if i % 2 else 15)",
                     "    rank.wait()")
    watch = Watch(context, "-p", process.pid)
    go(process)
    check(process.wait(60) == 0, "it died")
    nothing_died(watch, 301)


@test()
def chosen_code(context):
    """A sender cannot pass as the kernel by si_code: SI_TIMER and others."""
    for number, code in ((signal.SIGTERM, -2), (signal.SIGKILL, -2), (signal.SIGTERM, -60), (signal.SIGKILL, -3)):
        process = dies(context, "wait", plain=True)
        watch = Watch(context, "-p", process.pid)
        go(process)
        time.sleep(0.3)
        sender = subprocess.Popen(orders(context, "queue", str(process.pid), str(int(number)), str(code)))
        check(sender.wait(20) == 0, "it was not sent")
        process.wait(20)
        watch.wait("all watched")
        text = watch.end(stop=False).only(process.pid)
        check(re.match(r"deaths \(pid %d\) was killed with %s by orders \(pid %d\)" % (process.pid, number.name, sender.pid), text), text)
        os.rename(watch.output, watch.output + "-%d%d" % (number, code))


@test()
def own_timer(context):
    """A POSIX timer of its own, which fires while any process runs, has no other sender."""
    process = context.spawn(orders(context, "timer"), stdin=subprocess.PIPE)
    watch = Watch(context, "-p", process.pid)
    go(process)
    process.wait(20)
    watch.wait("all watched")
    text = watch.end(stop=False).only(process.pid)
    check(text.startswith("orders (pid %d) died of SIGALRM" % process.pid), text)


@test()
def first_of_namespace(context):
    """The first process of a pid namespace survives SIGABRT again and again: no stack of it explains its end."""
    process = context.spawn(orders(context, "first", "2"), plain=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    first = line_of(process)
    watch = Watch(context, "-p", first)
    go(process)
    process.wait(20)
    watch.wait("all watched")
    text = watch.end(stop=False).only(first)
    check(text.startswith("orders (pid %d) exited with code 3" % first) and "SIGABRT" not in text, text)


def switches(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", file.read(), re.MULTILINE).group(1))


@test()
def many_handled(context):
    """Handled signals of others come at a rate that wakes nothing, and the last one still has its sender."""
    process = context.spawn(orders(context, "handles"), plain=True, stdin=subprocess.PIPE)
    watch = Watch(context, "-p", process.pid)
    go(process)
    time.sleep(1)
    before = switches(watch.process.pid)
    subprocess.run(orders(context, "flood", str(process.pid), "5000"), check=True)
    woken = switches(watch.process.pid) - before
    by = killer(context, signal.SIGTERM, process.pid)
    process.wait(20)
    watch.wait("all watched")
    text = watch.end(stop=False).only(process.pid)
    check(re.match(r"orders \(pid %d\) was killed with SIGTERM by python3\S* \(pid %d\)" % (process.pid, by), text), text)
    check(woken < 500, "%d wake-ups" % woken)
    context.note("%d wake-ups by 5,000 signals" % woken)


@test()
def many_alarms(context):
    """Timers of processes that handle SIGALRM wake nothing."""
    process = context.spawn(orders(context, "alarms", "10", "3"), plain=True, stdin=subprocess.PIPE)
    watch = Watch(context, "-p", process.pid)
    go(process)
    time.sleep(0.5)
    before = switches(watch.process.pid)
    time.sleep(2)
    woken = switches(watch.process.pid) - before
    process.wait(20)
    watch.wait("all watched")
    watch.end(stop=False)
    check(not watch.summaries, watch.log())
    check(woken < 500, "%d wake-ups" % woken)
    context.note("%d wake-ups in 2 s" % woken)
