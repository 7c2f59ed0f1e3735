# SPDX-License-Identifier: Apache-2.0
"""What the tests of real Ray and torch jobs share: their packages, and how a job is started."""

import contextlib
import os
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.join(TOP, os.environ.get("B", "build"), "heavy")
BPFPROF = os.environ.get("BPFPROF", os.path.join(TOP, os.environ.get("B", "build"), "bpfprof"))
VENV = os.path.join(BUILD, "venv")
PYTHON = os.path.join(VENV, "bin", "python")
FOUR = ["setpriv", "--bounding-set", "-all,+bpf,+perfmon,+dac_read_search,+syslog", "--inh-caps",
        "-all"]
problems = []


def check(condition, text):
    if not condition:
        problems.append(text)
        print("  FAILED: " + text)


def say(text):
    print("  " + text, flush=True)


def install(modules, packages):
    """False where the packages cannot be had."""
    os.makedirs(BUILD, exist_ok=True)
    if not os.access(PYTHON, os.X_OK):
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    if subprocess.run([PYTHON, "-c", "import " + ", ".join(modules)],
                      stderr=subprocess.DEVNULL, check=False).returncode == 0:
        return True
    return subprocess.run([PYTHON, "-m", "pip", "install", "-q", *packages],
                          check=False).returncode == 0


def install_program(name):
    """Path of a program that is a package, or None."""
    path = os.path.join(VENV, "bin", name)
    if not os.access(path, os.X_OK):
        subprocess.run([PYTHON, "-m", "pip", "install", "-q", name], check=False)
    return path if os.access(path, os.X_OK) else None


def descendants(pid):
    """pid and the processes below it, parents first."""
    children = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open("/proc/%s/stat" % name, encoding="utf-8", errors="replace") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found


class Target:
    """A program of this folder (or one with its path) that says when it is ready."""

    def __init__(self, program, *arguments, prefix=(), **kwargs):
        self.process = subprocess.Popen([*prefix, PYTHON, os.path.join(HERE, program), *arguments],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True,
                                        start_new_session=True, **kwargs)

    def ready(self):
        for line in self.process.stdout:
            if line.strip() == "ready":
                return True
        return False

    def stop(self):
        """With all that it started, Ray's own processes among it, and no others of that kind."""
        for pid in descendants(self.process.pid):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
