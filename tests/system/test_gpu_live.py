# SPDX-License-Identifier: Apache-2.0
"""gpu on a terminal: what it shows, and keys."""

import os
import re
import signal

from gpu_truth import Caller, equal
from harness import check, test
from test_top import Terminal

PAIRED = True
LOCK = "gpu"
HEAD = 5  # lines that always stand at the top


def live(context, scenario="live", **env):
    """A program that launches each of its kernels 50 times a second."""
    caller = Caller(context, scenario, script="gpu_waits.py", env=env)
    caller.pids = ["-p", str(caller.pid)]
    return caller


def terminal_of(context, *callers, options=()):
    pids = [arg for caller in callers for arg in caller.pids]
    return Terminal(context, [*pids, *options], command="gpu")


def foot(screen):
    """Lines above and below, as the last line tells."""
    found = re.search(r"q quits, s sorts \(now by (\w+)\), arrows scroll: (\d+) lines above, (\d+) below",
                      screen.rstrip().splitlines()[-1])
    check(found, "no last line:\n" + screen)
    return found.group(1), int(found.group(2)), int(found.group(3))


def head(screen):
    lines = screen.splitlines()[:HEAD]
    for line, pattern in zip(lines, (
            r"GPU calls on \S+, [\d.]+ s: \d+ process(es)?, \d+ calls? ha(s|ve) not come back",
            r"Now: \d+ launches/s, blocked \d+% of one thread, \S+ \wB of memory live",
            r"Hooked: \d+ functions of \d+ libraries",
            r"Stacks: \d+ taken, \d+ skipped, over 100 per second and thread", r"Lost: .*")):
        check(re.fullmatch(pattern, line), "%r is not %s in:\n%s" % (line, pattern, screen))
    return lines


def process_row(screen, pid):
    found = re.search(r"(?m)^ +(\d+) +(\d+)%% +(\S+ \wB|-) +%d  (\S+)$" % pid, screen)
    return found and (int(found.group(1)), int(found.group(2)), found.group(3), found.group(4))


def launches_now(screen):
    return int(re.search(r"(?m)^Now: (\d+) launches/s", screen).group(1))


def kernel_row(screen, name):
    found = re.search(r"(?m)^ +(\d+) +(\d+)  %s$" % re.escape(name), screen)
    return found and tuple(map(int, found.groups()))


@test()
def shown(context):
    """The program's present calls, as it knows them; and keys."""
    caller = live(context, KERNELS="3")
    terminal = terminal_of(context, caller)
    terminal.wait_for("GPU calls on", 90)
    check(terminal.flag("alternate_on") == "1", "not on the other screen")
    caller.work()
    # In a second that was all of this: three kernels and one that is waited for for 8 ms, 50 times.
    screen = terminal.wait(lambda text: (process_row(text, caller.pid) or (0,))[0] >= 180, "launches", 60)
    context.note(screen)
    head(screen)
    launches, blocked, memory, name = process_row(screen, caller.pid)
    # Each round waits for 8 ms at least, on a busy machine longer.
    check(launches <= 220 and 0.2 * launches * 0.8 <= blocked <= 101, str((launches, blocked)))
    equal((memory, name), ("64.0 MB", "python3"), "memory and name")
    for kernel, rate in (("0x4711", 100), ("0x4712", 50), ("0x4713", 50)):
        found = kernel_row(screen, "kernel@" + kernel)
        check(found and 0.85 * rate <= found[0] <= 1.15 * rate, "%s: %s in:\n%s" % (kernel, found, screen))
    before = kernel_row(screen, "kernel@0x4711")[1]
    terminal.wait(lambda text: (kernel_row(text, "kernel@0x4711") or (0, 0))[1] >= before + 90, "it goes on", 30)
    sort, above, below = foot(terminal.screen())
    check((sort, above) == ("calls", 0) and below > 10, terminal.screen())
    terminal.keys("s")
    terminal.wait(lambda text: foot(text)[0] == "bytes", "another order", 5)
    terminal.keys("Down")
    terminal.wait(lambda text: foot(text)[1] == 1, "one line down", 5)
    terminal.keys("End")
    screen = terminal.wait(lambda text: foot(text)[2] == 0, "the end", 5)
    head(screen)
    check("libcuda.so.1" in screen and "libnccl.so.2" in screen, screen)
    terminal.keys("Up", "Home", "PageDown")
    terminal.wait(lambda text: foot(text)[1] > 1, "one page down", 5)
    terminal.keys("PageUp")
    terminal.wait(lambda text: foot(text)[1] == 0, "the top", 5)
    terminal.resize(200, 50)
    screen = terminal.wait(lambda text: foot(text)[1:] == (0, 0), "all of it", 10)
    context.note(screen)
    terminal.resize(30, 4)
    terminal.resize(80, 24)
    terminal.wait(lambda text: process_row(text, caller.pid) and foot(text), "80 columns", 10)
    terminal.keys("q")
    screen = terminal.ended(0)
    check("kernel@0x4712" in screen and "Stacks: " in screen, "no last table:\n" + screen)


@test()
def sorted_by(context):
    """The key s goes on from the order that was asked for."""
    caller = live(context)
    terminal = terminal_of(context, caller, options=["--sort", "bytes"])
    terminal.wait_for("GPU calls on", 90)
    caller.work()
    terminal.wait(lambda text: process_row(text, caller.pid) and foot(text)[0] == "bytes", "by bytes", 60)
    for wanted in ("blocked", "calls", "bytes"):
        terminal.keys("s")
        terminal.wait(lambda text, wanted=wanted: foot(text)[0] == wanted, "by " + wanted, 10)
    terminal.keys("q")
    terminal.ended(0)


@test()
def reloaded(context):
    """Launches of an earlier kernel with the same handle do not count as launches of the present one."""
    caller = live(context, "reloaded")
    terminal = terminal_of(context, caller)
    terminal.wait_for("GPU calls on", 90)
    caller.work()
    screen = terminal.wait(lambda text: 0 < (kernel_row(text, "first_kernel") or (0,))[0] <= 60 and
                           launches_now(text) <= 60, "the first kernel alone", 60)
    check(kernel_row(screen, "first_kernel")[1] > 50000, "not all launches:\n" + screen)
    os.kill(caller.pid, signal.SIGUSR1)

    def calm(text):
        rows = [kernel_row(text, name) or (0, 0) for name in ("first_kernel", "second_kernel")]
        check(max(launches_now(text), (process_row(text, caller.pid) or (0,))[0], rows[0][0], rows[1][0]) <= 60,
              "more than there are a second:\n" + text)
        return rows[1][1] >= 150

    context.note(terminal.wait(calm, "three seconds of the second one", 60))
    terminal.keys("q")
    terminal.ended(0)


@test(alone=True)
def crowded(context):
    """Of many processes the hanging one comes first, and processes without room are counted."""
    callers = [live(context, KERNELS=str(5 * (i + 1)), HANG="1" if i == 1 else "") for i in range(7)]
    terminal = terminal_of(context, *callers)
    terminal.wait_for("GPU calls on", 120)
    for caller in callers:
        caller.work()
    hung = callers[1].pid
    screen = terminal.wait(lambda text: "has returned, not seen complete" in text and "more kernels" in text,
                           "what hangs", 90)
    context.note(screen)
    lines = screen.rstrip().splitlines()
    check(len(lines) == 24, screen)
    check(re.search(r"7 processes, 2 calls have not come back$", head(screen)[0]), screen)
    row = r" +([\d.]+) s  pid %d: %s"
    first = re.fullmatch(row % (hung, r"cuStreamSynchronize in cuda \(gpu_waits\.py:\d+\)"), lines[7])
    second = re.fullmatch(row % (hung, r"ncclAllReduce 4\.0 kB has returned, not seen complete"), lines[8])
    check(first and second and float(first.group(1)) >= float(second.group(1)), screen)
    table = [line for line in lines if re.search(r" python3$", line)]
    shown_pids = [int(line.split()[-2]) for line in table]
    check(shown_pids[0] == hung, "not the one that hangs first:\n" + screen)
    check("... %d more processes" % (7 - len(table)) in screen, screen)
    kernels = [line for line in lines if "kernel@0x" in line]
    # 35 of the programs, and NCCL's own, which was launched once.
    check(kernels and "... %d more kernels" % (36 - len(kernels)) in screen, screen)
    terminal.keys("C-c")
    terminal.ended(0)


@test()
def waits(context):
    """Without any program it says so, and shows one that comes later."""
    caller = live(context)
    terminal = Terminal(context, ["-p", str(os.getpid())], command="gpu")
    screen = terminal.wait_for("no CUDA or NCCL call in", 90)
    context.note(screen)
    check("0 processes, 0 calls have not come back" in screen, screen)
    check("waiting for one" in screen or "Hooked: " in screen, screen)
    later = live(context)  # a child of ours
    later.work()
    screen = terminal.wait(lambda text: process_row(text, later.pid), "the new one", 90)
    check("kernel@0x4711" in screen, screen)
    check(not process_row(screen, caller.pid), "one that made no call:\n" + screen)
    os.kill(terminal.pid(), signal.SIGTERM)
    terminal.ended(0)
