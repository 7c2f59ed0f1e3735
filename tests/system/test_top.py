# SPDX-License-Identifier: Apache-2.0
"""top in a real terminal (tmux), and its one table without one."""

import contextlib
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from harness import BPFPROF, MODES, NOBODY, Skip, check, test

BESIDE = True

# hot and cool share the thread's CPU time 3 to 1 however busy the machine is; deep recurses.
SHARES = """
import threading, time

def hot():
    end = time.thread_time() + 0.03
    while time.thread_time() < end:
        pass

def cool():
    end = time.thread_time() + 0.01
    while time.thread_time() < end:
        pass

def deep(n):
    if n:
        deep(n - 1)
    else:
        end = time.thread_time() + 0.01
        while time.thread_time() < end:
            pass

def main():
    while True:
        hot()
        cool()
        deep(30)

threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
main()
"""

# Names that want to write to the terminal, and such as take two columns for each character.
NAMES = """
import ctypes

def spin():
    x = 0
    for i in range(50000):
        x += i

def loud(name):
    code = spin.__code__.replace(co_name=name)
    if hasattr(code, "co_qualname"):
        code = code.replace(co_qualname=name)
    return type(spin)(code, {"range": range})

ctypes.CDLL(None).prctl(15, b"bad\\x1b[2J\\x07name", 0, 0, 0)
functions = [loud("evil\\x1b[31m\\x1b]0;title\\x07name"), loud("\\u6f22\\u5b57\\u6f22\\u5b57"),
             loud("plain")]
while True:
    for function in functions:
        function()
"""

COLUMNS = "   %Own  %Total  OwnTime  TotalTime  "
ROW = re.compile(r"^ *([\d.]+)% +([\d.]+)% +([\d.]+)s +([\d.]+)s  (.*)$")


def rows(text):
    """[(own %, total %, own s, total s, function)] of a table."""
    found = [ROW.match(line) for line in text.split("\n")]
    return [(*map(float, m.groups()[:4]), m.group(5)) for m in found if m]


def named(table, name):
    """Sums of all rows of one function: its lines never stand on one stack twice here."""
    return [sum(row[i] for row in table if row[4].startswith(name + " ("))
            for i in range(4)]


def python(context):
    """An interpreter that the target's user may run."""
    user = {} if context.mode == "root" else {"user": NOBODY, "group": NOBODY,
                                              "extra_groups": []}
    for path in (sys.executable, "/usr/bin/python3"):
        with contextlib.suppress(OSError):
            if not subprocess.run([path, "-c", ""], check=False, stderr=subprocess.DEVNULL,
                                  **user).returncode:
                return path
    raise Skip("no Python that another user can run")


def script(context, name, text):
    path = context.path(name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def shares(context):
    return context.spawn([python(context), script(context, "shares.py", SHARES)])


class Terminal:
    """A terminal of tmux in which a shell runs bpfprof, and then notes what it left."""

    def __init__(self, context, arguments, columns=80, lines=24, command="top", program=None, env=None):
        if not shutil.which("tmux"):
            raise Skip("no tmux")
        self.context = context
        # Not that of a server that is just ending.
        self.socket = os.path.join(tempfile.mkdtemp(dir=context.dir), "tmux")
        command = shlex.join([program, *arguments] if program else context.as_bpfprof([BPFPROF, command, *arguments]))
        shell = context.path("shell")
        with open(shell, "w", encoding="utf-8") as file:
            file.write("trap : INT\ncd %s\nstty -g >before\n%s\necho $? >status\nstty -g >after\n"
                       "touch done\nexec sleep 1000\n" % (shlex.quote(context.dir), command))
        for name in ("before", "after", "status", "done"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(context.path(name))
        env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm-256color",
               "HOME": context.dir, **(env or {})}
        self.tmux("-u", "-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y",
                  str(lines), "sh " + shlex.quote(shell), env=env)
        context.stack.callback(self.close)

    def tmux(self, *arguments, env=None):
        done = subprocess.run(["tmux", "-S", self.socket, *arguments], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=env, timeout=20, check=False)
        return done.stdout.decode("utf-8", "replace")

    def close(self):
        self.tmux("kill-server")

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def flag(self, name):
        return self.tmux("display-message", "-p", "#{%s}" % name).strip()

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def resize(self, columns, lines):
        self.tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def wait(self, condition, what, seconds=15):
        """Until condition(screen) holds; the screen."""
        end = time.monotonic() + seconds
        while True:
            screen = self.screen()
            if condition(screen):
                return screen
            check(time.monotonic() < end, "never seen: %s\n%s" % (what, screen))
            time.sleep(0.05)

    def wait_for(self, text, seconds=15):
        return self.wait(lambda screen: text in screen, text, seconds)

    def pid(self):
        """The pid of bpfprof itself."""
        shell = int(self.flag("pane_pid"))
        for _ in range(100):
            with open("/proc/%d/task/%d/children" % (shell, shell), encoding="ascii") as file:
                for child in file.read().split():
                    with open("/proc/%s/comm" % child, encoding="ascii") as comm:
                        if comm.read().strip() == "bpfprof":
                            return int(child)
            time.sleep(0.05)
        check(False, "bpfprof is not running:\n" + self.screen())
        return 0

    def ended(self, status):
        """bpfprof has ended with status, and the terminal is what it was. The screen."""
        end = time.monotonic() + 15
        while not os.path.exists(self.context.path("done")):
            check(time.monotonic() < end, "still running:\n" + self.screen())
            time.sleep(0.05)
        found = self.context.text("status").strip()
        check(found == str(status), "status %s, not %s:\n%s" % (found, status, self.screen()))
        check(self.context.text("before") == self.context.text("after"), "stty differs")
        check(self.flag("alternate_on") == "0", "the other screen is still on")
        check(self.flag("cursor_flag") == "1", "the cursor is hidden")
        return self.screen()


@test(modes=MODES)
def once_shares(context):
    target = shares(context)
    time.sleep(0.5)
    done = context.bpfprof("top", "-p", target.pid, "--once", "--delay", "2", "-F",
                           "499").expect(0)
    text = done.out.decode("utf-8")
    table = rows(text)
    check(COLUMNS + "Function (filename:line)" in text, "other columns:\n" + text)
    check("Threads: 2" in text, "not two threads:\n" + text)
    hot, cool = named(table, "hot"), named(table, "cool")
    share = hot[3] / (hot[3] + cool[3])
    samples = int(re.search(r"Total Samples (\d+)", text).group(1))
    context.note("hot has %.1f %% of hot and cool in %d samples, 75 %% is true" %
                 (100 * share, samples))
    check(samples > 20, "too few samples:\n" + text)
    # Four standard deviations of so many samples, which come in bursts on a busy machine.
    check(abs(share - 0.75) < 0.03 + 4 * math.sqrt(0.75 * 0.25 / samples),
          "hot: %.3f\n%s" % (share, text))
    gil, active = map(float, re.search(r"GIL: ([\d.]+)%, Active: ([\d.]+)%", text).groups())
    check(abs(gil - active) <= 0.15 * active, "one thread computes:\n" + text)
    check(abs(sum(row[0] for row in table) - active) < 1, "own does not add up:\n" + text)
    check(max(row[1] for row in table) < active + 0.1, "a recursion counts twice:\n" + text)
    module = named(table, "<module>")
    check(abs(module[1] - active) < 0.1 * active, "<module> is not on all stacks:\n" + text)


@test()
def once_idle(context):
    target = context.spawn(["sleep", "1000"])
    done = context.bpfprof("top", "-p", target.pid, "--once", "--delay", "1").expect(0)
    text = done.out.decode("utf-8")
    check("0 on-CPU samples in 1.0 s; 1 thread sleeps: bpfprof dump -p %d shows where" %
          target.pid in text, text)
    check(not rows(text), "rows of nothing:\n" + text)


@test()
def batch(context):
    """--batch: a table after each delay; times add up over them, until the duration ends."""
    target = shares(context)
    began = time.monotonic()
    done = context.bpfprof("top", "-p", target.pid, "--batch", "--delay", "1", "-d", "3.5", "-F", "499").expect(0)
    check(time.monotonic() - began >= 3.5, "it ended early")
    tables = [one for one in done.text.split("\n\nbpfprof top: ") if COLUMNS in one]
    check(len(tables) == 4, "%d tables\n%s" % (len(tables), done.text))
    hot = [named(rows(one), "hot") for one in tables]
    check(all(before[3] < after[3] for before, after in zip(hot, hot[1:])), str(hot))
    # %Own is of one table: three seconds of it, and a half, are the time of the last.
    seconds = sum(one[0] / 100 for one in hot[:3]) + hot[3][0] / 200
    check(abs(hot[3][3] - seconds) < 0.1 * seconds, "%.2f s in all, %.2f s by shares" % (hot[3][3], seconds))
    process = context.start("top", "-p", target.pid, "--batch")
    context.sampling(process)
    target.kill()
    check("has exited" in context.finish(process, 20).expect(0).text, "its end is not shown")
    check("choose one" in context.bpfprof("top", "--batch", "--once").expect(2).text, "both")
    check("goes with --batch" in context.bpfprof("top", "-d", "3").expect(2).text, "-d alone")


@test()
def once_exit(context):
    """A target that exits ends it, with what there was."""
    target = context.spawn([python(context), "-c", SHARES])
    process = context.start("top", "-p", str(target.pid), "--once", "--delay", "30")
    context.sampling(process)
    target.kill()  # the target stays a zombie: no process waits for it
    done = context.finish(process, 10).expect(0)
    check(named(rows(done.out.decode("utf-8")), "hot")[3] > 0, "no last picture: " + done.text)
    check("pid %d has exited" % target.pid in done.text, done.text)


@test(modes=("root",))
def wrong(context):
    for arguments, status in ((["-p", "4194305"], 4), (["-p", "4194305", "--once"], 4),
                              ([], 2), (["--delay", "0"], 2), (["--delay", "x", "--once"], 2),
                              (["--rows"], 2), (["stray"], 2), (["-F", "0"], 2)):
        done = context.bpfprof("top", *arguments, timeout=10).expect(status)
        check(len(done.err.decode().strip().splitlines()) == 1 and not done.out, done.text)
    done = context.bpfprof("top", timeout=10).expect(2)
    check("--once" in done.text, "no way out is shown: " + done.text)
    done = context.bpfprof("top", "--help", timeout=10).expect(0)
    check(b"bpfprof top -p 1234" in done.out, "no examples")
    done = context.bpfprof("top", "--once", user=NOBODY, group=NOBODY, extra_groups=[],
                           timeout=10).expect(3)
    check("CAP_BPF" in done.text, "no remedy: " + done.text)


def sorted_by(column):
    """Is the table of a screen sorted by that column, with at least three rows?"""
    def holds(screen):
        values = [row[column] for row in rows(screen)]
        return len(values) >= 3 and values == sorted(values, reverse=True)
    return holds


@test()
def keys(context):
    target = shares(context)
    terminal = Terminal(context, ["-p", str(target.pid), "--delay", "0.5"])
    screen = terminal.wait(lambda text: len(rows(text)) > 3, "rows")
    check(COLUMNS + "Function (filename:line)" in screen, "other columns:\n" + screen)
    check("shares.py:" in screen and "pid %d" % target.pid in screen, screen)
    for key, column, first in (("2", 1, ("<module>",)), ("3", 2, ("hot",)),
                               ("4", 3, ("<module>",)), ("1", 0, ("hot",))):
        terminal.keys(key)
        terminal.wait(lambda text, n=column, names=first: sorted_by(n)(text) and
                      rows(text)[0][4].startswith(names), "sorted by " + key)
    terminal.keys("4")
    terminal.keys("l")
    screen = terminal.wait_for("Function (filename)")
    check("hot (shares.py)" in screen and "shares.py:" not in screen.split("Own", 1)[1], screen)
    terminal.keys("L", "/", "h", "O", "t", "Enter")
    screen = terminal.wait_for("Filter: hOt")
    check({row[4].split(" ")[0] for row in rows(screen)} == {"hot"}, screen)
    terminal.keys("/", "Escape")
    terminal.wait(lambda text: "cool (" in text and "Filter" not in text, "no filter")
    terminal.keys("n", "1")
    terminal.wait(lambda text: ", native" in text and re.search(r"\((lib|python)\S*\)", text),
                  "native frames")
    terminal.keys("n", "k")
    terminal.wait(lambda text: ", kernel" in text and ", native" not in text, "kernel")
    terminal.keys("k", "?")
    screen = terminal.wait_for("sort by %Own")
    check("native frames" in screen and "quit" in screen and not rows(screen), screen)
    terminal.keys("x")
    terminal.wait(lambda text: len(rows(text)) > 3, "rows again")
    time.sleep(1)
    terminal.keys("R", "3")
    terminal.wait(lambda text: rows(text) and max(row[3] for row in rows(text)) < 1, "a reset")
    terminal.keys("q")
    terminal.ended(0)


@test()
def resize(context):
    target = shares(context)
    terminal = Terminal(context, ["-p", str(target.pid), "--delay", "0.5"])
    terminal.wait(lambda text: len(rows(text)) > 3, "rows")
    for columns, lines in ((20, 10), (3, 2), (20, 24), (200, 50), (80, 24)):
        terminal.resize(columns, lines)
        if columns == 20:
            screen = terminal.wait(lambda text: re.search(r"(?m)^   %Own  Func", text) and
                                   re.search(r"(?m)^ *[\d.]+%  \S", text), "20 columns")
            check("TotalTime" not in screen, screen)
        time.sleep(0.3)
    terminal.wait(lambda text: len(rows(text)) > 3 and COLUMNS in text, "rows again")
    terminal.keys("q")
    terminal.ended(0)


@test()
def terminal_restored(context):
    """After signals that end it, and after faults."""
    target = shares(context)
    for number, status in ((signal.SIGTERM, 0), (signal.SIGINT, 0), (signal.SIGHUP, 0),
                           (signal.SIGSEGV, 139), (signal.SIGABRT, 134)):
        terminal = Terminal(context, ["-p", str(target.pid), "--delay", "0.3"])
        terminal.wait_for("bpfprof top: pid")
        check(terminal.flag("alternate_on") == "1", "not on the other screen")
        os.kill(terminal.pid(), number)
        terminal.ended(status)
        terminal.close()


@test()
def target_exits(context):
    target = shares(context)
    terminal = Terminal(context, ["-p", str(target.pid), "--delay", "0.5"])
    terminal.wait(lambda text: len(rows(text)) > 3, "rows")
    target.kill()
    screen = terminal.ended(0)
    check(screen.count("pid %d has exited" % target.pid) >= 1, "no message:\n" + screen)
    check(named(rows(screen), "hot")[3] > 0, "no last picture:\n" + screen)


@test()
def idle(context):
    target = context.spawn(["sleep", "1000"])
    terminal = Terminal(context, ["-p", str(target.pid)])
    screen = terminal.wait_for("0 on-CPU samples in 1.0 s")
    check("1 thread sleeps: bpfprof dump -p %d shows where" % target.pid in screen, screen)
    check(not rows(screen), screen)
    terminal.keys("q")
    terminal.ended(0)


@test()
def loud_names(context):
    target = context.spawn([python(context), script(context, "names.py", NAMES)])
    terminal = Terminal(context, ["-p", str(target.pid), "--delay", "0.5"])
    screen = terminal.wait(lambda text: "\u6f22\u5b57" in text and "evil" in text, "names")
    check("evil?[31m?]0;title?name (names.py" in screen, "not made harmless:\n" + screen)
    check("\u6f22\u5b57\u6f22\u5b57 (names.py" in screen, "no wide characters:\n" + screen)
    check(terminal.flag("pane_title") != "title", "the title was set")
    terminal.resize(58, 24)  # the wide name stands at the edge
    screen = terminal.wait(lambda text: "TotalTime" not in text and "\u6f22" in text, "58")
    lines = screen.split("\n")
    check(all("%" in line for line in lines[5:8]), "a line ran over:\n" + screen)
    terminal.keys("q")
    terminal.ended(0)


@test()
def machine(context):
    """Without -p: a column for the process, and Enter into one."""
    target = context.spawn([python(context), script(context, "names.py", NAMES)])
    shares(context)
    terminal = Terminal(context, ["--delay", "0.5"], columns=110)
    screen = terminal.wait(lambda text: re.search(r"(?m)^ .*s +%d bad\?\[2J\?name +\S" % target.pid,
                                                  text), "the process")
    check("the whole machine" in screen and "PID Process" in screen, screen)
    terminal.keys("/", "b", "a", "d", "?", "[", "Enter")
    # The comm itself has an escape, which no user can type: no row is left.
    terminal.wait(lambda text: "Filter: bad?[" in text and not rows(text), "nothing")
    terminal.keys("/", "Escape", "/", "n", "a", "m", "e", "s", ".", "p", "y", "Enter")
    terminal.wait(lambda text: "Filter: names.py" in text and "names.py" in text.split("TotalT")[1],
                  "one process")
    terminal.keys("Down", "Enter")
    screen = terminal.wait(lambda text: "PID Process" not in text and "Backspace" in text, "a dive")
    check("names.py" in screen and "shares.py" not in screen, screen)
    terminal.keys("/", "Escape", "BSpace")
    terminal.wait_for("PID Process")
    terminal.keys("q")
    terminal.ended(0)


@test()
def children(context):
    """-p takes children along; with them comes the column."""
    path = script(context, "shares.py", SHARES)
    parent = context.spawn([python(context), "-c", "import subprocess, sys; "
                            "subprocess.run([sys.executable, %r])" % path])
    context.stack.callback(lambda: [os.kill(pid, 9) for pid in children_of(parent.pid)])
    time.sleep(0.7)
    done = context.bpfprof("top", "-p", str(parent.pid), "--once").expect(0)
    check(b"hot (shares.py" in done.out, done.text)
    done = context.bpfprof("top", "-p", str(parent.pid), "--no-subprocesses", "--once").expect(0)
    check(b"0 on-CPU samples" in done.out, done.text)


@test()
def nothing_matches(context):
    for flag in ("--comm", "--pod", "--worker"):
        done = context.bpfprof("top", flag, "no-such", "--once", "--delay", "0.2").expect(0)
        check(re.search(rb"\n0 on-CPU samples in 0\.\d s; nothing ran that matches\n", done.out),
              done.text)


def children_of(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []
