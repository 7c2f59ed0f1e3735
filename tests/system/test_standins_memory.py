# SPDX-License-Identifier: Apache-2.0
"""memray of standins/: recordings that the agent keeps, and whose they are."""

import os
import signal
import subprocess
import time

import containers
from harness import CAPS, check, test
from standins import ALL, TOKEN, Agent, run, standin, start_of

BESIDE = True
MEMORY = """
import sys, time
keep = []
def grow():
    keep.append(bytearray(4 << 20))
def briefly():
    block = bytearray(96 << 20)
    time.sleep(0.7)
sys.stdin.readline()
for _ in range(16):
    grow()
    time.sleep(0.05)
briefly()
print("done", flush=True)
def churn():
    return bytearray(1 << 20)
while True:
    churn()
    time.sleep(0.01)
"""


@test(modes=CAPS)
def memory(context):
    """memray: attach, detach, and the four results; two clicks at once; a file of the folder's owner."""
    path, agent = standin(), Agent(context)
    memray = os.path.join(os.path.dirname(path), "memray")
    target = context.spawn(["/usr/bin/python3", "-c", MEMORY], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    folder = context.scratch("theirs")
    os.chown(folder, 1000, 1000)
    file = os.path.join(folder, "x.bin")

    def good(*args):
        status, out, err = run(memray, *args, env=agent.env(ALL))
        check(status == 0 and not err, "%s: %s" % (args, err))
        return out

    def refuse(says, *args, status=1, token=ALL):
        got, out, err = run(memray, *args, env=agent.env(token))
        check(got == status and says in err and err.count("\n") == 1, "%s: %d: %s%s" % (args, got, out, err))
    good("attach", target.pid, "-o", file, "--native")
    # What the program allocates from here on is recorded: attach answers when both recordings run.
    target.stdin.write(b"\n")
    target.stdin.flush()
    state = os.stat(file)
    check((state.st_uid, state.st_gid, state.st_mode & 0o777) == (1000, 1000, 0o644), str(state))
    refuse("is being recorded already", "attach", target.pid, "-o", file + "2")
    refuse("still runs", "flamegraph", "-f", file)
    refuse("no recording of the memory of that process runs", "detach", target.pid, token=TOKEN)
    check(target.stdout.readline() == b"done\n", "the program")
    good("detach", "--verbose", target.pid)
    good("detach", target.pid)  # its result is there
    pages = {}
    for kind in ("flamegraph", "table"):
        for leaks in ("", "--leaks"):
            out = file + kind + leaks + ".html"
            good(kind, "-o", out, "-f", *([leaks] if leaks else []), file)
            with open(out, encoding="utf-8") as page:
                pages[kind + leaks] = page.read()
    for name, page in pages.items():
        check("grow" in page and page.rstrip().endswith("</html>"), name + ": " + page[-500:])
    rows = {name: {line.split()[-2]: float(line.split()[0]) for line in page.splitlines() if "<string>:" in line or
                   "&lt;string>:" in line} for name, page in pages.items() if name.startswith("table")}
    check(abs(rows["table"]["briefly"] - 96) <= 10 and abs(rows["table"]["grow"] - 64) <= 8, str(rows))
    check("briefly" not in rows["table--leaks"] and abs(rows["table--leaks"]["grow"] - 64) <= 8, str(rows))
    status, _, err = run(memray, "attach", target.pid, "-o", file + "4", "--trace-python-allocators", env=agent.env(ALL))
    if status == 0:
        time.sleep(1)
        good("detach", target.pid)
        good("table", "-fo", file + "5", file + "4")
        with open(file + "5", encoding="utf-8") as page:
            text = page.read()
            check("allocated since the start" in text and "churn (" in text, text)
    else:
        check("--allocations" in err, err)
        context.note(err.strip())
    refuse("exists already", "flamegraph", "-o", file + "table.html", file)
    refuse("is no file of this memray attach", "flamegraph", "-fo", file, os.devnull)
    refuse("is not answered by bpfprof", "tree", file)
    refuse("not there any more", "flamegraph", "-fo", file + "3", other_id(file))


@test(modes=CAPS)
def memory_of_owners(context):
    """Each token has one recording and two results. No other token can end or replace them."""
    first, second, third = ("0123456789abcdef-number-%d" % number for number in range(3))
    agent = Agent(context, "*\n%s\n%s\n%s" % (first, second, third))
    target, other = (context.spawn(["/usr/bin/python3", "-c", MEMORY], stdout=subprocess.DEVNULL) for _ in range(2))

    def ask(wanted, query, token=first):
        out = run("/usr/bin/curl", "-sw", "\n%{http_code}", "-H", "Authorization: Bearer " + token,
                  "http://127.0.0.1:%d/memory/%s" % (agent.port, query))[1]
        body, _, status = out.rpartition("\n")
        check(wanted in (None, int(status)), "%s: %s %s" % (query, status, body[:300]))
        return body.strip()

    def attach(wanted, process, token=first):
        return ask(wanted, "attach?pid=%d&start=%s" % (process.pid, start_of(process.pid)), token)
    for query in ("attach?pid=%d&seconds=901", "attach?pid=%d&native=1", "attach?pid=%d&format=html", "detach?pid=%d&pod=a/b",
                  "detach?pid=%d&native=1"):
        ask(400, query % target.pid)
    check("no such process" in ask(404, "attach?pid=4194303"), "a process that is not there")
    ask(404, "attach?pid=%d&pod=a/b" % target.pid)
    results = [attach(200, target)]
    check("recorded already" in attach(409, target), "the same")
    check("pid %d: its memory is being recorded already" % target.pid in attach(409, other), "a second one")
    theirs = attach(200, target, second)  # another owner may record the same process
    attach(409, other, third)  # two on the node
    time.sleep(4)
    check(ask(200, "detach?pid=%d" % target.pid) == results[0], "that of another token ended")
    for _ in range(2):
        results.append(attach(200, other))
        time.sleep(4)
        check(ask(200, "detach?pid=%d" % other.pid) == results[-1], "the newest")
    check("still runs" in ask(400, "report?id=" + theirs), "it was ended")
    target.kill()
    target.wait()
    containers.wait_for("the result of a target that has ended", lambda: ask(200, "detach?pid=%d" % target.pid, second) == theirs, 20)
    check(ask(200, "report?id=" + theirs, second).endswith("</html>"), "its page")
    ended = context.spawn(["/bin/true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    check("no such process" in ask(404, "attach?pid=%d" % ended.pid, third), "a process without memory")
    failed = attach(200, other, third)
    for child in children_of(agent.process.pid):
        os.kill(child, signal.SIGKILL)
    containers.wait_for("the failure", lambda: "still runs" not in ask(None, "report?id=" + failed, third), 20)
    check(ask(500, "report?id=" + failed, third) == "the recording failed", "an empty page")
    check(ask(500, "detach?pid=%d" % other.pid, third) == "the recording failed", "an empty result")
    ask(404, "report?id=" + results[0])
    for one in results[1:]:
        page = ask(200, "report?id=" + one)
        check(page.endswith("</html>"), "%d bytes: %s" % (len(page), page[-300:]))


@test(modes=CAPS)
def detached_at_once(context):
    """A recording that is ended while it still starts ends; under a daemon of a script's background, too, which ignores SIGINT."""
    memray = os.path.join(os.path.dirname(standin()), "memray")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        agent = Agent(context)
    finally:
        signal.signal(signal.SIGINT, before)
    target = context.spawn(["/usr/bin/python3", "-c", MEMORY], stdout=subprocess.DEVNULL)
    time.sleep(1)
    for name in ("first", "second"):
        file = context.path(name)
        attach = subprocess.Popen([memray, "attach", str(target.pid), "-o", file], env=agent.env(ALL))
        while attach.poll() is None:
            run(memray, "detach", target.pid, env=agent.env(ALL), timeout=100)
        check(attach.returncode == 0, "attach of a recording that was ended meanwhile")
        for words in (("detach", target.pid), ("table", "-fo", file + ".html", file)):
            status, out, err = run(memray, *words, env=agent.env(ALL), timeout=100)
            check(status == 0, "%s: %s%s" % (words, out, err))
        check(context.text(name + ".html").rstrip().endswith("</html>"), "the page")


def children_of(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def other_id(file):
    """A file like that one, of a recording that is not there."""
    with open(file + ".other", "w", encoding="utf-8") as out:
        out.write("bpfprof recording " + "0" * 32 + "\n")
    return file + ".other"
