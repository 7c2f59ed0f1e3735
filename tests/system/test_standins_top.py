# SPDX-License-Identifier: Apache-2.0
"""py-spy top of standins/: the table of the agent on a terminal, in a pipe, and how it ends."""

import os
import signal
import subprocess

import test_top
from containers import wait_for
from harness import BPFPROF, CAPS, check, descendants, test
from standins import ALL, TOKEN, Agent, run, standin


def commands_of(agent):
    """The command lines of processes that the agent has started."""
    lines = []
    for pid in descendants(agent.process.pid):
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as file:
                lines.append(file.read().decode().split("\0"))
        except OSError:
            continue  # it has ended
    return [line for line in lines if "top" in line]


@test(modes=CAPS)
def screen(context):
    """Shares by function on the screen, which is never longer or wider than the terminal; Ctrl-C leaves nothing behind."""
    path, agent = standin(), Agent(context)
    target = test_top.shares(context)
    terminal = test_top.Terminal(context, ["top", "-p", str(target.pid), "-r", "400"], columns=60, lines=9, program=path,
                                 env=agent.env(ALL))
    def owned(text):
        return [test_top.named(test_top.rows(text), name)[2] for name in ("hot", "cool")]
    text = terminal.wait(lambda text: owned(text)[0] > 2, "two seconds of hot", 30)
    hot, cool = owned(text)
    check(abs(hot / (hot + cool) - 0.75) < 0.05, "hot %.2f s, cool %.2f s" % (hot, cool))
    lines = text.split("\n")
    check(lines[0] == "Process %d; press Control-C to quit." % target.pid, text)
    check(text.count(test_top.COLUMNS.strip()) == 1 and all(len(line) <= 60 for line in lines), text)
    terminal.resize(100, 20)
    terminal.wait(lambda text: len(test_top.rows(text)) > 3, "more rows")
    check(len(commands_of(agent)) == 1, str(commands_of(agent)))
    terminal.keys("C-c")
    wait_for("the end of the command", lambda: not commands_of(agent), 20)
    wait_for("the shell", lambda: os.path.exists(context.path("done")), 20)
    check(context.text("status") == "130\n", context.text("status"))


@test(modes=CAPS)
def piped(context):
    """Tables in a pipe, as the agent makes them, until the process ends; another token, and a second table, are refused."""
    path, agent = standin(), Agent(context)
    target = test_top.shares(context)
    process = subprocess.Popen([path, "top", "-p", str(target.pid), "--delay", "0.5"], env=agent.env(ALL),
                               stdout=subprocess.PIPE, text=True)
    context.stack.callback(process.kill)
    found = [process.stdout.readline() for _ in range(40)]
    check(sum(line.startswith("bpfprof top: ") for line in found) > 1 and any(" hot (" in line for line in found), str(found))
    for says, token, flags in (("no such process here that this client may ask", TOKEN, ()), ("busy with other requests", ALL, ()),
                               ("short names", ALL, ("--full-filenames",)), ("combined with --idle", ALL, ("-gi",)), ("from 0.1 to 60", TOKEN, ("--delay", "0")),
                               ("start it, then", ALL, ("--", "true"))):
        status, _, err = run(path, "top", "-p", target.pid, *flags, env=agent.env(token), timeout=90)
        check(status == 1 and says in err and err.count("\n") == 1, "%s: %d %s" % (says, status, err))
    reader = subprocess.Popen([path, "top", "-p", str(target.pid)], env={"PATH": os.path.dirname(BPFPROF) + ":/usr/bin"},
                              stdout=subprocess.PIPE, text=True)
    context.stack.callback(reader.kill)
    check(sum(reader.stdout.readline().startswith("bpfprof top: ") for _ in range(60)) > 1, "without an agent")
    reader.send_signal(signal.SIGINT)
    check(reader.wait(20) == 0, "without an agent: %s" % reader.returncode)
    target.send_signal(signal.SIGKILL)
    target.wait()
    rest = process.stdout.read()
    check(process.wait(20) == 0 and "has exited" in rest, rest[-500:])
    target = test_top.shares(context)
    with subprocess.Popen([path, "top", "-p", str(target.pid)], env=agent.env(ALL), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        process.stdout.close()
        check(process.wait(30) == 1 and "Broken pipe" in process.stderr.read(), "a reader that went away")
    wait_for("the end of the command", lambda: not commands_of(agent), 20)
