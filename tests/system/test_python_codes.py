# SPDX-License-Identifier: Apache-2.0
"""Code objects and thread states that come and go, on every version."""

import re
import subprocess

import python_truth as truth
from harness import check, test
from test_python import all_pythons

BESIDE = True
HZ = 997
MODULES, MODULE_SECONDS = 40, 0.015
CALLS, CALL_SECONDS = 60, 0.01

RECYCLED = """
import sys, time
SOURCE = "from time import process_time as t\\n%se=t()+%r\\nwhile t()<e: x=1\\n"
for i in range(int(sys.argv[1])):
    exec(compile(SOURCE % ("\\n" * i, float(sys.argv[2])), "gen%04d.py" % i, "exec"), {})
"""

CALLBACK = """
import ctypes, sys, time
library = ctypes.CDLL(sys.argv[1])
def spin():
    end = time.thread_time() + float(sys.argv[3])
    while time.thread_time() < end: pass
library.run(ctypes.CFUNCTYPE(None)(spin), int(sys.argv[2]), ctypes.c_double(float(sys.argv[3])))
"""

LIBRARY = """
#include <pthread.h>
#include <time.h>
static void (*call)(void);
static int nr;
static double seconds;
static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}
void c_spin(double s)
{
	double end = now() + s;
	while (now() < end)
		;
}
static void *thread(void *arg)
{
	for (int i = 0; i < nr; i++) {
		call();
		c_spin(seconds);
	}
	return arg;
}
void run(void (*function)(void), int calls, double s)
{
	pthread_t id;
	call = function;
	nr = calls;
	seconds = s;
	pthread_create(&id, 0, thread, 0);
	pthread_join(id, 0);
}
"""


def pythons(context):
    """One Python of each version; each runs in a recording of its own."""
    found = {}
    for python in all_pythons()[0]:
        found.setdefault(python.version, python)
    check(found, "no Python here")
    context.note(", ".join("%d.%d" % version[:2] for version in sorted(found)))
    return [found[version] for version in sorted(found)]


def record(context, python, *argv):
    """Stacks of one program from its beginning on."""
    settings = ["%s=%s" % item for item in python.env.items()]
    context.bpfprof("record", "-F", HZ, "-o", "one.folded", "--", "env", *settings, *python.argv,
                    *argv).expect(0)
    return truth.read_folded(context.text("one.folded"))


@test()
def recycled(context):
    """
    Modules made and freed in turn, alike but for their file's name and one line's number.
    A module that has not begun yet is on its first line, 1 (PyFrame_GetLineNumber); from 3.11 on
    its first instruction has line 0.
    """
    source = context.path("recycled.py")
    with open(source, "w", encoding="ascii") as file:
        file.write(RECYCLED)
    for python in pythons(context):
        seen, wrong, total = set(), {}, 0
        beginning = (0, 1) if python.version >= (3, 11) else (1,)
        for frames, count in record(context, python, source, MODULES, MODULE_SECONDS):
            match = re.search(r"<module> \(gen(\d+)\.py:(\d+)\)", ";".join(frames))
            if not match:
                continue
            seen.add(match.group(1))
            total += count
            line, number = int(match.group(2)), int(match.group(1))
            if line - number not in (1, 2, 3) and line not in beginning:
                wrong[match.group()] = count
        check(len(seen) >= MODULES - 2 and sum(wrong.values()) <= 1 + total // 1000,
              "%r: %d of %d files seen, of %d samples on lines that are not there: %s" % (
                  python, len(seen), MODULES, total, wrong))


@test()
def called_by_threads(context):
    """A C thread that calls Python has a new thread state each time, at the same address."""
    library, source = context.path("libcall.so"), context.path("call.py")
    with open(source, "w", encoding="ascii") as file:
        file.write(CALLBACK)
    subprocess.run(["gcc", "-O1", "-g", "-fPIC", "-shared", "-pthread", "-x", "c", "-", "-o",
                    library], input=LIBRARY, text=True, check=True)
    for python in pythons(context):
        named = nameless = spun = 0
        for frames, count in record(context, python, source, library, CALLS, CALL_SECONDS):
            if any(frame.startswith("spin (") for frame in frames):
                named += count
            elif any("closure_fcn" in frame for frame in frames):
                nameless += count
            spun += count * ("c_spin" in frames)
        check(spun > 200 and named > 0.9 * spun and nameless < 0.02 * named,
              "%r: %d samples in spin(), %d without it, %d in C" % (python, named, nameless, spun))
