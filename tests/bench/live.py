# SPDX-License-Identifier: Apache-2.0
"""What top costs while it is shown: its own CPU time beside a target of 16 busy threads."""

import contextlib
import fcntl
import os
import pty
import shutil
import struct
import subprocess
import termios
import threading
import time

from workplace import BPFPROF, CC, Child, Problem, command, load, out, print_table

NR_THREADS = 16
NR_FUNCTIONS = 600

# Many functions of about equal weight: names go on being asked for.
FUNCTION = """__attribute__((noinline)) static unsigned f%d(unsigned x)
{ for (int i = 0; i < 400; i++) x = x * 1664525u + %du + (x >> 3); return x; }
"""
PROGRAM = """#include <pthread.h>
#include <stddef.h>
%s
static unsigned (*const all[])(unsigned) = { %s };
static void *work(void *arg)
{
	unsigned x = (unsigned)(unsigned long)arg;

	for (;;)
		x = all[x %% %d](x);
	return NULL;
}
int main(void)
{
	pthread_t thread;

	for (unsigned long i = 1; i < %d; i++)
		pthread_create(&thread, NULL, work, (void *)i);
	work(NULL);
}
"""
PYTHON = """
import json, threading
def work():
    data = [{"a": i, "b": [i] * 3} for i in range(50)]
    while True:
        text = json.dumps(data, indent=1)
        sorted(json.loads(text), key=lambda one: -one["a"])
for _ in range(%d):
    threading.Thread(target=work, daemon=True).start()
work()
"""


def native():
    source = PROGRAM % ("".join(FUNCTION % (i, i) for i in range(NR_FUNCTIONS)),
                        ", ".join("f%d" % i for i in range(NR_FUNCTIONS)), NR_FUNCTIONS,
                        NR_THREADS)
    with open(out("bw-many.c"), "w", encoding="ascii") as file:
        file.write(source)
    command([CC, "-O1", "-o", out("bw-many"), out("bw-many.c"), "-lpthread"])
    return [out("bw-many")]


class Screen(Child):
    """bpfprof top, or the like, in a terminal whose other end is read and thrown away."""

    def __init__(self, arguments, subcommand="top"):  # pylint: disable=super-init-not-called
        self.group, self.usage, self.argv = False, None, [BPFPROF, subcommand, *arguments]
        self.bytes = 0
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        self.process = subprocess.Popen(self.argv, stdin=slave, stdout=slave, stderr=slave,
                                        env=dict(os.environ, TERM="xterm-256color"))
        os.close(slave)
        self.pid, self.master = self.process.pid, master
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        with contextlib.suppress(OSError):
            while data := os.read(self.master, 65536):
                self.bytes += len(data)

    def __exit__(self, *_):
        with contextlib.suppress(OSError):  # it has ended already
            os.write(self.master, b"q")
        try:
            status = self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.reader.join(timeout=5)
        os.close(self.master)
        if status:
            raise Problem("exit status %d: %s" % (status, " ".join(self.argv)))


def measure(arguments, warm, seconds):
    with Screen(arguments) as screen:
        time.sleep(warm)
        cpu, start, before = screen.cpu_seconds(), time.monotonic(), screen.bytes
        time.sleep(seconds)
        cpu, took = screen.cpu_seconds() - cpu, time.monotonic() - start
        return {"percent": 100 * cpu / took, "seconds": took,
                "screen_bytes_per_second": (screen.bytes - before) / took,
                "memory_bytes": screen.status_bytes("RssAnon", "RssShmem")}


def bench(quick):
    python = shutil.which("python3")
    if not python:
        raise Problem("no python3")
    warm, seconds = (4, 5) if quick else (10, 25)
    targets = (("%d native threads, %d functions" % (NR_THREADS, NR_FUNCTIONS), native()),
               ("%d Python threads" % NR_THREADS, [python, "-c", PYTHON % (NR_THREADS - 1)]))
    found = {}
    for name, argv in targets:
        with Child(["nice", "-n", "10", *argv]) as target:
            time.sleep(0.5)
            found[name] = measure(["-p", str(target.pid), "--delay", "1"], warm, seconds)
            found[name + ", --native"] = measure(
                ["-p", str(target.pid), "--delay", "1", "--native"], warm, seconds)
            found["the whole machine with " + name] = measure(["--delay", "1"], warm, seconds)
    print("top --delay 1 on a terminal of 160 x 50, %.0f s after %.0f s of warming up (%s)" %
          (seconds, warm, load()))
    print_table(["target", "its CPU, % of a core", "goal", "own pages, MiB", "screen, B/s"],
                [[name, "%.2f" % one["percent"], "1", "%.1f" % (one["memory_bytes"] / (1 << 20)),
                  "%.0f" % one["screen_bytes_per_second"]] for name, one in found.items()])
    return found
