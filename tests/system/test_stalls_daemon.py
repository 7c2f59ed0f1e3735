# SPDX-License-Identifier: Apache-2.0
"""daemon --watch: stalls of jobs with ranks, beside jobs that only wait. The programs know where they hang."""

import functools
import glob
import json
import os
import re
import secrets
import signal
import subprocess
import time

from daemons import Daemon, ask, get, metrics_of, token_file
from harness import Skip, check, test
from test_push import Server

BESIDE = True
STALL_S = 2
TOKEN = secrets.token_hex(16)
PYTHON = "/usr/bin/python3"
FOUND_S = STALL_S + 15  # the limit of the time to a report

PROGRAM = """
import ctypes, multiprocessing, os, sys, threading, time
def hang(lock):
    ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG: none outlives its parent
    with lock:
        lock.acquire()  # line 6
def work():
    end = time.monotonic() + 600
    while time.monotonic() < end:
        pass
def sleep():
    time.sleep(600)
def before():
    end = time.thread_time() + 1
    while time.thread_time() < end:
        pass
ctypes.CDLL(None).prctl(1, 9)  # the same
multiprocessing.set_start_method("fork")
rank = int(os.environ["RANK"])
way = sys.argv[1].split(",")[rank]
left, right = (int(word) for word in sys.argv[2:4])
print("ready", flush=True)
if way in ("hang", "wait"):
    before()
if way == "hang":
    hang(threading.Lock())
elif way == "wait":
    os.read(left, 1)
elif way == "beside":
    child = multiprocessing.Process(target=hang, args=(threading.Lock(),), daemon=True)
    child.start()
    child.join()
elif way == "work":
    work()
else:
    sleep()
"""

# One process is the parent of all ranks of a job, as torchrun is.
LAUNCH = """
import os, subprocess, sys
ways = sys.argv[2].split(",")
read, write = os.pipe()
ranks = [subprocess.Popen([sys.executable, sys.argv[1], sys.argv[2], str(read), str(write)], pass_fds=(read, write),
                          env={**os.environ, "RANK": str(rank), "WORLD_SIZE": sys.argv[3] or str(len(ways))})
         for rank in range(len(ways))]
os.close(read), os.close(write)
[one.wait() for one in ranks]
"""


class Job:
    def __init__(self, context, name, ways, world=""):
        self.script = context.path(name + ".py")
        with open(self.script, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        self.process = context.spawn([PYTHON, "-c", LAUNCH, self.script, ways, world],
                                     start_new_session=True)
        self.name = name

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)


def folders(daemon, what):
    return sorted(glob.glob(os.path.join(daemon.output, what + "-*")))


def stalls(daemon, job):
    """The sentences about the ranks of a job, by its script."""
    return [line for line in daemon.said("process stalled") if job.name + ".py:" in line["why"]]


def wait_for(condition, what, timeout):
    end = time.monotonic() + timeout
    while not condition():
        check(time.monotonic() < end, "not within %d s: %s" % (timeout, what()))
        time.sleep(0.1)


@test()
def of_ranks(context):
    """A rank that hangs, with one that waits for it; beside jobs that go on, or wait for ranks that do."""
    server = Server(context)
    daemon = Daemon(context, "--watch", "--stall", "%ds" % STALL_S, "--notify", server.url,
                    "--allow-remote-profiling", token_file(context, TOKEN), interval="2s", listen="127.0.0.1:0")
    port = int(daemon.wait("listening")[0]["port"])
    daemon.wait("sampling")
    stalled = Job(context, "stalled", "wait,hang")
    child = Job(context, "child", "beside")
    fine = [Job(context, "works", "wait,work"), Job(context, "sleeps", "sleep"),
            Job(context, "elsewhere", "hang", world="8")]
    wait_for(lambda: stalls(daemon, stalled) and stalls(daemon, child), lambda: [one for one in daemon.lines() if one["msg"] != "profile written"], 3 * FOUND_S)
    [line] = stalls(daemon, stalled)
    place = "hang (stalled.py:6)"
    check("hang (child.py:6)" in stalls(daemon, child)[0]["why"], stalls(daemon, child))
    check(re.match(r"rank [01] \(pid \d+\) has waited .* (rank [01] \(pid \d+\) is |; )", line["why"]) and
          place in line["why"], line["why"])
    summary = os.path.join(daemon.output, line["folder"], "summary.txt")
    with open(summary, encoding="utf-8") as file:
        text = file.read()
    check(text.startswith(line["why"] + ".\n") and "nothing can end this wait" in text, text)
    for name in ("dump-1.txt", "dump-2.txt"):
        head, _, body = ask(port, ("GET /files/%s/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                                   "Connection: close\r\n\r\n" % (line["folder"], name, TOKEN)).encode()).partition(b"\r\n\r\n")
        check(b" 200 " in head and place.encode() in body, "%s %s" % (head, body))
    metrics = metrics_of(get(port, "/metrics")[2])
    check(metrics['bpfprof_stalls_total{reason="lock"}'] >= 2 and metrics["bpfprof_stalls_active"] >= 2, "%s" % metrics)
    for job in (stalled, child):
        job.kill()
    daemon.wait("stall is over: the process goes on, or has ended", 2, 30)

    def bodies():
        return [json.loads(request.body) for request in server.requests]
    wait_for(lambda: any(body["event"] == "stall_over" and body["pid"] == line["pid"] for body in bodies()), bodies, 20)
    sent = bodies()
    mine = [body for body in sent if body["event"] == "stall" and body.get("folder") == line["folder"]]
    check(len(mine) == 1 and mine[0]["why"] == line["why"] and mine[0]["summary"] == text and mine[0]["rank"] in "01" and
          mine[0]["pid"] == line["pid"], "%s" % sent)
    check([body["pid"] for body in sent if body["event"] == "stall_over" and body["pid"] == line["pid"]] == [line["pid"]],
          "%s" % sent)
    check(not any(stalls(daemon, job) for job in fine), "%s" % daemon.said("process stalled"))
    check(len(stalls(daemon, stalled)) == len(stalls(daemon, child)) == 1, "twice")
    for job in fine:
        job.kill()
    check(daemon.end() == 0, "it failed")
    command = re.search(r"^samples +bpfprof (report %s .*)$" % re.escape(daemon.output), text, re.MULTILINE)
    check(command, text)
    shown = context.bpfprof(*command[1].split()).expect(0).text
    check("before (stalled.py)" in shown and "work (works.py)" not in shown, shown)


def frozen_daemon(context, name):
    """A daemon that finds a stall of a job, while the disk of its folder does not answer: the daemon, its job, what thaws."""
    disk, image = context.scratch("disk"), context.path("image")
    with open(image, "wb") as file:
        file.truncate(64 << 20)
    for argv in (["mkfs.ext4", "-q", image], ["mount", "-o", "loop", image, disk]):
        if subprocess.run(argv, stderr=subprocess.DEVNULL, check=False).returncode:
            raise Skip("no %s here" % " ".join(argv[:3]))
    context.stack.callback(subprocess.run, ["umount", disk], check=False)
    daemon = Daemon(context, "--watch", "--stall", "%ds" % STALL_S, output=os.path.join(disk, "out"), interval="1h",
                    listen="127.0.0.1:0")
    daemon.wait("sampling")
    job = Job(context, name, "hang")
    thaw = functools.partial(subprocess.run, ["fsfreeze", "-u", disk], stderr=subprocess.DEVNULL, check=False)
    context.stack.callback(thaw)
    subprocess.run(["fsfreeze", "-f", disk], check=True)
    return daemon, job, thaw


def stalls_metrics(daemon):
    metrics = metrics_of(get(int(daemon.wait("listening")[0]["port"]), "/metrics")[2])
    return {name: metrics["bpfprof_stalls_" + name] for name in ("not_written_total", "active")}


@test(long=True)
def on_a_frozen_disk(context):
    """The disk of the daemon's folder does not answer: the stall is reported without a folder, and the metrics go on."""
    daemon, stalled, thaw = frozen_daemon(context, "frozen")
    wait_for(lambda: stalls(daemon, stalled), daemon.lines, FOUND_S + 45)
    [line] = stalls(daemon, stalled)
    numbers = stalls_metrics(daemon)
    thaw()
    check("folder" not in line and min(numbers.values()) >= 1, "%s %s" % (line, numbers))
    stalled.kill()
    check(daemon.end() == 0, "it failed")


@test()
def at_the_end(context):
    """The daemon ends while the folder of a stall is being written: the stall is reported all the same."""
    daemon, stalled, thaw = frozen_daemon(context, "ends")
    wait_for(lambda: stalls_metrics(daemon)["active"], daemon.lines, FOUND_S + 15)
    check(not daemon.said("process stalled"), daemon.lines()) # it may also be that of another test
    daemon.process.send_signal(signal.SIGTERM)
    time.sleep(2)
    thaw()
    check(daemon.process.wait(30) == 0, "it failed")
    check(daemon.said("process stalled"), daemon.lines())
    stalled.kill()
