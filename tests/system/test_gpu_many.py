# SPDX-License-Identifier: Apache-2.0
"""gpu where there is much of everything: processes that map a library, and copies of it.

What is counted is exact, what is not hooked is said, and memory stays within the promise.
"""

import json
import os
import re
import shutil
import subprocess
import threading
import time

from containers import wait_for
from gpu_truth import Caller, Seen, Watch, check_all, fakes
from harness import check, test
from test_wall_daemon import maps_bytes, memory_limit, own_bytes

PAIRED = True
LOCK = "gpu"
NR_PROCESSES = 1000
NR_FILES = 192  # that are hooked at once of one user: a quarter of 256 is for others
NO_ROOM = "too many libraries are hooked already"


def crowd(context, count, *paths):
    """So many processes; each maps one of these files."""
    program = context.helper("many_processes", "many_processes.c")
    process = context.spawn([program, count, *paths], stdout=subprocess.PIPE)
    check(process.stdout.readline() == b"ready\n", "not so many processes")
    return process


class Memory:
    """The most that a process has of its own while it runs, by what the kernel says, with its BPF maps."""

    def __init__(self, pid):
        self.pid, self.most, self.over = pid, 0, False
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self):
        while not self.over:
            try:
                self.most = max(self.most, own_bytes(self.pid) + maps_bytes(self.pid))
            except OSError:  # it has ended, or a descriptor of it has
                pass
            time.sleep(0.05)

    def end(self):
        self.over = True
        self.thread.join()
        return self.most


def told_memory(context, name):
    """The memory of the agent, as a folded file reports it."""
    return json.loads(context.text(name).splitlines()[0].lstrip("# "))["agent"]["memory_bytes"]


def check_memory_promise(context, most, name="x.folded"):
    told = told_memory(context, name)
    context.note("%.1f MiB at most by what the kernel says, %.1f told" % (most / 2**20, told / 2**20))
    check(most > 16 << 20, "only %d bytes: it was not looked at" % most)
    check(most <= memory_limit() and told <= memory_limit(), "%d bytes, %d told" % (most, told))


def all_told(messages, paths):
    """Is it said of each that it is hooked, or why not?"""
    return set(paths) <= set(re.findall(r"(/\S+/libcuda\.so\.1): ", messages))


@test()
def processes(context):
    """A thousand processes map libcuda, and one calls it: one library, its calls and no others."""
    where = fakes(context)
    caller = Caller(context, "launches")
    crowd(context, NR_PROCESSES, where.cuda)
    begin = time.monotonic()
    watch = Watch(context, "--json", "-d", "600", "-o", "x.folded")
    context.note("%.1f s until it watches" % (time.monotonic() - begin))
    memory = Memory(watch.process.pid)
    late = Caller(context, "memory")
    truths = [caller.work(), late.work()]
    seen = Seen(watch.end())
    most = memory.end()
    for truth in truths:
        check_all(seen.process(truth["pid"]), truth)
    ours = [one for one in seen.whole["libraries"] if one["path"] == where.cuda]
    check(len(ours) == 1 and ours[0]["problem"] is None, "libraries: %s" % seen.whole["libraries"])
    check(not seen.lost["libraries_no_room"], "lost: %s" % seen.lost)
    check_memory_promise(context, most)


@test()
def libraries(context):
    """More copies of a library than are hooked: those past the limit are listed and counted, each once."""
    where, folder = fakes(context), context.scratch("copies")
    first = Caller(context, "launches", where=where.copy(os.path.join(folder, "first")))
    watch = Watch(context, "-v", "--json", "-d", "600", "-o", "x.folded")
    memory = Memory(watch.process.pid)
    paths = []
    for i in range(NR_FILES + 100):
        os.makedirs(os.path.join(folder, str(i)))
        paths.append(shutil.copy(where.cuda, os.path.join(folder, str(i))))
    crowd(context, len(paths), *paths)
    wait_for("all copies", lambda: all_told(watch.messages(), paths), 60)
    truth = first.work()
    seen = Seen(watch.end())
    most = memory.end()
    check_all(seen.process(truth["pid"]), truth)
    refused = [one for one in seen.whole["libraries"] if one["problem"]]
    hooked = [one for one in seen.whole["libraries"] if not one["problem"]]
    check(len(hooked) == NR_FILES, "%d hooked" % len(hooked))
    check({one["problem"] for one in refused} == {NO_ROOM}, str(refused[:3]))
    listed = [one["path"] for one in hooked + refused]
    check(len(set(listed)) == len(listed) and set(paths) < set(listed), "%d of %d paths" % (
        len(set(listed) & set(paths)), len(paths)))
    check(seen.lost["libraries_no_room"] == len(refused), "lost: %s" % seen.lost)
    check_memory_promise(context, most)
