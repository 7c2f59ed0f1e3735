# SPDX-License-Identifier: Apache-2.0
"""What the tests of standins/ share: the program, an agent that it asks, a process to ask about."""

import os
import re
import shutil
import subprocess
import time

from daemons import Daemon, get, metrics_of, token_file
from harness import ROOT, Skip, check

TOKEN, ALL = "0123456789abcdef-of-pods", "0123456789abcdef-of-all"
PROGRAM = """
import threading, time
def deep():
    time.sleep(600)
def spin():
    while True:
        sum(range(1000))
threading.Thread(target=deep, name="sleeper", daemon=True).start()
spin()
"""


def standin():
    """The static program."""
    path = os.path.join(ROOT, os.environ.get("B", "build"), "standins", "py-spy")
    if not shutil.which("musl-gcc"):
        raise Skip("there is no musl-gcc: tests/install-deps")
    done = subprocess.run(["make", "-s", "-C", ROOT, "standins"], stderr=subprocess.PIPE, text=True, check=False)
    check(done.returncode == 0 and os.path.exists(path), done.stderr)
    return path


class Agent(Daemon):
    """A daemon that answers clients with a token."""

    def __init__(self, context, pods="*", *args, **kwargs):
        token_file(context, "%s %s\n%s" % (TOKEN, pods, ALL))
        super().__init__(context, "--allow-remote-profiling", context.path("token"), *args,
                         listen="127.0.0.1:0", interval="60s", **kwargs)
        self.port = int(self.wait("listening")[-1]["port"])

    def refused(self):
        """How often what was refused, by reason."""
        time.sleep(1.1)  # one picture is good for a second
        found = metrics_of(get(self.port, "/metrics")[2])
        return {re.search('reason="(.*)"', name)[1]: value for name, value in found.items()
                if name.startswith("bpfprof_remote_refused_total")}

    def env(self, token=TOKEN):
        return {"BPFPROF_AGENT": "127.0.0.1:%d" % self.port, "BPFPROF_TOKEN": token}


def run(program, *args, env=None, timeout=60, **kwargs):
    """A stand-in outside of containers: (exit status, standard output, standard error)."""
    done = subprocess.run([program, *map(str, args)], env=env or {}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=timeout, check=False, **kwargs)
    check("permission" not in done.stderr.lower(), "Ray gives wrong advice then: " + done.stderr)
    return done.returncode, done.stdout, done.stderr


def program(context, **kwargs):
    process = context.spawn(["/usr/bin/python3", "-c", PROGRAM], **kwargs)
    time.sleep(0.7)
    return process


def raw_counts(path):
    """{stack: count} of a raw file."""
    with open(path, encoding="utf-8") as file:
        return {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in file.read().splitlines()}


def start_of(pid):
    """When a process was started, as its stat file has it."""
    with open("/proc/%d/stat" % pid, encoding="ascii") as file:
        return file.read().rpartition(")")[2].split()[19]
