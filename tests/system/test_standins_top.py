# SPDX-License-Identifier: Apache-2.0
"""py-spy top of standins/: the table of the agent on a terminal, in a pipe, and how it ends."""

import contextlib
import fcntl
import os
import pty
import random
import re
import signal
import socket
import struct
import subprocess
import termios
import threading

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


def serve_tables(server, answer):
    connection, _ = server.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for begin in range(0, len(answer), 700):
            part = answer[begin:begin + 700]
            connection.sendall(b"%x\r\n%s\r\n" % (len(part), part))
        connection.sendall(b"0\r\n\r\n")


@test(modes=CAPS)
def rubbish(context):
    """Whatever an agent sends, the terminal gets the escapes of a table alone, and no line that is too wide."""
    path, target, chance = standin(), test_top.shares(context), random.Random(17)
    pieces = [b"\x1b]0;title\x07", b"\x9b2J", b"\xc2\x9b2J", b"\xe0\x82\x9b2J", b"\xf0\x80\x82\x9b", b"\r", b"\n", b"\0", b"\x7f",
              "\u6f22\u00e9".encode(), b"\nbpfprof top: x\n", b"x" * 5000, bytes(range(256))]
    answer = b"bpfprof top: " + b"".join(
        chance.choice(pieces) if chance.random() < 0.5 else chance.randbytes(chance.randrange(9)) for _ in range(3000))
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 9, 60, 0, 0))
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve_tables, args=(server, answer), daemon=True).start()
        process = subprocess.Popen([path, "top", "-p", str(target.pid)], stdout=slave, stderr=subprocess.PIPE, env={
            "BPFPROF_AGENT": "127.0.0.1:%d" % server.getsockname()[1]})
        context.stack.callback(process.kill)
        os.close(slave)
        found = b""
        with contextlib.suppress(OSError):  # the other end is closed
            while part := os.read(master, 65536):
                found += part
        check(process.wait(20) == 0, "%s" % process.stderr.read())
    os.close(master)
    text = re.sub("\x1b\\[(H|K|J|2J)", "", found.decode("utf-8", "replace"))
    bad = re.search("[\x00-\x1f\x7f-\x9f]", text.replace("\r\n", ""))
    check(not bad, "a control character: %r" % (bad and text[max(bad.start() - 40, 0):bad.start() + 40]))
    lines = text.split("\r\n")
    check(len(lines) > 100 and max(map(len, lines)) <= 60, "%d lines, the longest of %d" % (len(lines), max(map(len, lines))))


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
