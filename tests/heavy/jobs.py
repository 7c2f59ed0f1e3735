# SPDX-License-Identifier: Apache-2.0
"""What the tests of real jobs and libraries share: their packages, how a job is started and its GPU calls watched."""

import contextlib
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

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


def package_libraries(pattern):
    """Paths of libraries of the packages that are installed."""
    return sorted(glob.glob(os.path.join(VENV, "lib", "python*", "site-packages", pattern)))


def toolkit():
    """The folder of the CUDA toolkit whose nvcc is on PATH, or None."""
    nvcc = shutil.which("nvcc")
    return nvcc and os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))


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

    def __init__(self, program, *arguments, prefix=(PYTHON,), **kwargs):
        self.process = subprocess.Popen([*prefix, os.path.join(HERE, program), *arguments],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True,
                                        start_new_session=True, **kwargs)

    def ready(self):
        for line in self.process.stdout:
            if line.strip() == "ready":
                return True
        return False

    def ask(self, word):
        """What it answers to a line: JSON, or None at its end."""
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        return next((json.loads(line) for line in self.process.stdout if line.startswith("{")), None)

    def stop(self):
        """With all that it started, Ray's own processes among it, and no others of that kind."""
        for pid in descendants(self.process.pid):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()


class GpuWatch:
    """bpfprof gpu --json of one process, with the four capabilities; it has hooked what there is."""

    def __init__(self, pid, *arguments, wait=30):
        self.wait = wait
        self.file = tempfile.NamedTemporaryFile()
        self.process = subprocess.Popen([*FOUR, BPFPROF, "gpu", "--once", "--json", "-d", "120", "-p", str(pid),
                                         *arguments], stdout=subprocess.PIPE, stderr=self.file)
        end = time.monotonic() + wait
        while time.monotonic() < end and self.process.poll() is None and "watching" not in self.messages():
            time.sleep(0.1)

    def messages(self):
        with open(self.file.name, encoding="utf-8") as file:
            return file.read()

    def end(self):
        """What it has seen."""
        self.process.send_signal(signal.SIGINT)
        out = self.process.communicate(timeout=self.wait)[0]
        if self.process.returncode:
            raise SystemExit("gpu failed: " + self.messages())
        return json.loads(out)


def lost(seen):
    """What was lost of it, by reason."""
    return {reason: count for reason, count in seen["lost"].items() if count}
