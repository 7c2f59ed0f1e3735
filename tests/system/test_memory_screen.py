# SPDX-License-Identifier: Apache-2.0
"""The live screen of memory in a real terminal (tmux)."""

import os
import re
import signal
import threading
import time

from harness import check, test
from test_memory import MIB, UNITS, cgroup, in_c, swap
from test_top import Terminal

LIGHT = True
ROW = re.compile(r"^ *(-?[\d.]+) (B|KiB|MiB|GiB) +-?[\d.]+% +([+-]?[\d.]+) (B|KiB|MiB|GiB) +(\S.*)$", re.MULTILINE)


def rows(screen):
    """{function: (held, change)}, in the order of the screen."""
    return {name: (float(held) * UNITS[unit], float(change) * UNITS[unit_]) for held, unit, change, unit_, name in ROW.findall(screen)}


def begin(context, holder, *args, **kwargs):
    return Terminal(context, ["-p", str(holder.pid), "--sample", "16K", *args], command="memory", **kwargs)


@test()
def screen(context):
    """What functions hold and how it changes; keys, another size, and the table at the end."""
    holder = in_c(context)
    holder.run("other", 30)
    terminal = begin(context, holder)
    terminal.wait_for("[before bpfprof]")
    check("pid %d, '" % holder.pid in terminal.screen() and "Growth" in terminal.screen(), terminal.screen())
    holder.run("zeroed", 40)
    holder.run("big", 64)
    shown = rows(terminal.wait(lambda text: rows(text).get("big", (0, 0))[0] > 60 * MIB, "big"))
    for name, mib in (("big", 64), ("zeroed", 40)):
        check(all(abs(value - mib * MIB) < 4 * MIB for value in shown[name]), "%s: %s" % (name, shown))
    holder.run("drop")
    holder.run("small", 12)
    terminal.wait(lambda text: "big" not in rows(text) and list(rows(text))[:2] == ["zeroed", "[before bpfprof]"],
                  "big is freed")
    check(abs(rows(terminal.screen())["[before bpfprof]"][1]) < MIB, terminal.screen())
    terminal.keys("g")
    terminal.wait(lambda text: list(rows(text))[:2] == ["zeroed", "small"] and "h sorts" in text, "sorted by change")
    terminal.resize(50, 8)
    terminal.wait(lambda text: text.rstrip("\n").count("\n") == 7 and "h sorts" in text.split("\n")[7], "smaller")
    terminal.keys("q")
    text = terminal.ended(0)
    terminal.resize(80, 24)
    check("Process %d" % holder.pid in terminal.screen() or "Process %d" % holder.pid in text, "no table:\n" + text)


@test(alone=True)
def swapped_out(context):
    """Swapped memory is not anonymous memory that is resident, also where all of it is swapped out."""
    with swap(context):
        holder = in_c(context)
        holder.run("big", 64)
        terminal = begin(context, holder)
        terminal.wait_for("[before bpfprof]")
        holder.run("out", 60)
        text = terminal.wait_for("MiB in swap; 1 process")
        found = re.search(r"^([\d.]+) (B|KiB|MiB) anonymous, .*, ([\d.]+) MiB in swap", text, re.M)
        check(found and float(found[1]) * UNITS[found[2]] < 16 * MIB and float(found[3]) > 50, text)
        terminal.keys("q")
        terminal.ended(0)
        holder.process.kill()
        holder.process.wait()


@test(modes=("root",))
def limit(context):
    """The limit of the cgroup, and when it is reached at this slope."""
    with cgroup(1024 * MIB) as folder:
        holder = in_c(context)
        with open(os.path.join(folder, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(holder.pid))
        terminal = begin(context, holder)
        terminal.wait_for("Limit of the cgroup 1.00 GiB")
        end = threading.Event()

        def grow():
            while not end.wait(0.2):
                holder.run("big", 2)

        grower = threading.Thread(target=grow)
        grower.start()
        try:
            text = terminal.wait_for("At this slope the limit is reached in", 30)
        finally:
            end.set()
            grower.join()
        said = re.search(r"reached in (\d+) (s|minutes)\.", text)
        slope = re.search(r"Growth \+([\d.]+) MiB per minute", text)
        used = re.search(r"used ([\d.]+) (KiB|MiB|GiB)", text)
        check(said and slope and used, text)
        seconds = int(said[1]) * (1 if said[2] == "s" else 60)
        wanted = 60 * (1024 - float(used[1]) * UNITS[used[2]] / MIB) / float(slope[1])
        check(abs(seconds - wanted) <= max(0.03 * wanted, 31 if said[2] == "minutes" else 1), "%s, not %.0f s" % (said[0], wanted))
        context.note(said[0])
        terminal.keys("q")
        terminal.ended(0)
        holder.process.kill()
        holder.process.wait()


@test()
def terminal_restored(context):
    """However it ends: a signal, the end of the target; and no screen with -d or -o."""
    holder = in_c(context)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        terminal = begin(context, holder)
        terminal.wait_for("q quits")
        os.kill(terminal.pid(), number)
        check("Process %d" % holder.pid in terminal.ended(0), "no table")
    terminal = begin(context, holder, "-d", "1")
    time.sleep(0.7)
    check(terminal.flag("alternate_on") == "0", "a screen with -d")
    terminal.ended(0)
    terminal = begin(context, holder)
    terminal.wait_for("q quits")
    holder.process.kill()
    holder.process.wait()
    check("all watched processes have exited" in terminal.ended(0), "it does not say why")
