# SPDX-License-Identifier: Apache-2.0
"""A scenario in a container: pids, mounts and a network of its own, a user who is not root, no capability."""

import contextlib
import os
import re
import shlex
import subprocess
import tempfile
import time

import containers
from jobs import PYTHON, VENV

FOLDERS = ("/tmp", "/proc", "/sys", "/dev", "/run")
OWNER = "1000:100"


def read_only():
    """A layer of an image, and what of the machine is mounted into it: its programs, and those of VENV."""
    layer = containers.Layer().file("/etc/passwd", b"ray:x:1000:100::/tmp:/bin/sh\n")
    layer.file("/etc/group", b"users:x:100:\n")
    for folder in FOLDERS:
        layer.folder(folder)
    mounted = ["/usr"]
    for path in ("/bin", "/lib", "/lib64", "/sbin"):
        if os.path.islink(path):
            layer.link(path, os.readlink(path))
        elif os.path.isdir(path):
            mounted.append(path)
    base = subprocess.run([PYTHON, "-c", "import sys; print(sys.base_prefix)"], stdout=subprocess.PIPE,
                          text=True, check=True).stdout.strip()
    mounted += [path for path in (base, VENV) if not path.startswith("/usr/")]
    return layer, mounted


class Boxed:
    """
    PYTHON runs program with arguments in it, until the end of the with statement. folders: more of them to see; pod: a
    namespace and a name; options: of ctr run.
    """

    def __init__(self, program, *arguments, env=None, folders=(), pod=None, options=()):
        self.program = program
        self.arguments = arguments
        self.env = env or {"HOME": "/tmp"}
        self.folders = folders
        self.pod = pod and containers.Pod(pod[1], pod[0])
        self.options = options
        self.stack = contextlib.ExitStack()
        self.container = None

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            os.chmod(folder, 0o755)
            containerd = containers.Containerd(os.path.join(folder, "containerd"))
            stack.callback(containerd.close)
            containerd.ready()
            layer, mounted = read_only()
            image = containerd.image("ray", [layer], user=OWNER)
            # It ends when there is nothing more to read.
            command = "sleep infinity | exec " + shlex.join([PYTHON, self.program, *self.arguments])
            self.container = containerd.run(
                image, ["/bin/sh", "-c", command], env=self.env, pod=self.pod, options=self.options, volumes=[
                    (path, path, "ro") for path in (*mounted, os.path.dirname(self.program), *self.folders)])
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.close()

    def said(self, pattern):
        """The first group of a line, once it is in what it says; None: it ended, and is not."""
        while True:
            alive = self.container.alive()
            found = re.search(r"^%s$" % pattern, self.container.log(), re.MULTILINE)
            if found or not alive:
                return found and found.group(1)
            time.sleep(0.2)

    def pid_of(self, inside):
        """The number that the machine has for its process of that number."""
        for pid in self.container.pids():
            if numbers(pid, pid)[1:] == [str(inside)]:
                return pid
        return None

    @staticmethod
    def threads(pid):
        """Of a process by its number of the machine: number of each thread there, and inside. Text."""
        return {tid: numbers(pid, tid)[-1] for tid in os.listdir("/proc/%d/task" % pid)}

    @staticmethod
    def enter(pid):
        """Words before a command that run it where the process is."""
        return ["nsenter", "--target", str(pid), "--mount", "--pid", "--root", "--wd"]


def numbers(pid, tid):
    """From the outermost namespace to its own. Text."""
    with open("/proc/%s/task/%s/status" % (pid, tid), encoding="utf-8", errors="replace") as file:
        return re.search(r"^NSpid:\s*(.*)$", file.read(), re.MULTILINE).group(1).split()
