# SPDX-License-Identifier: Apache-2.0
"""report on the folder of a daemon: intervals by time, and processes by number."""

import os
import subprocess
import time

from daemons import Daemon, profiles
from harness import check, test
from pprof import Pprof
from test_report_profiles import rows
from test_usage import one_sentence

# early until it is asked, then late: it writes when it changed.
PHASES = """
import select, sys, time
def early():
    while not select.select([sys.stdin], [], [], 0)[0]:
        for _ in range(20000): pass
def late():
    while True: pass
print("running", flush=True)
early()
print(time.time(), flush=True)
late()
"""


def shown(context, folder, *arguments):
    """{function: seconds} of the table, and the messages."""
    done = context.bpfprof("report", folder, "--rows", "0", *arguments, timeout=60).expect(0)
    return {name: own for name, (own, _) in rows(done.out.decode()).items()}, done.err.decode()


@test()
def times(context):
    """--last, --at and --for choose intervals by the time of the day; -p chooses processes; -o and --diff do, too."""
    target, other = (context.spawn(["/usr/bin/python3", "-c", PHASES], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                     for _ in range(2))
    check(target.stdout.readline() == other.stdout.readline() == b"running\n", "the programs")
    daemon = Daemon(context, "-p", "%d,%d" % (target.pid, other.pid), "-F", "199", interval="1s", listen="none")
    daemon.wait("profile written", 4)
    target.stdin.write(b"\n")
    target.stdin.flush()
    changed = float(target.stdout.readline())
    daemon.wait("profile written", 10)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    folder = daemon.output
    sets = profiles(folder)
    begins = [one.scalars[9] / 1e9 for one in sets]
    # Of an interval that holds the change, neither alone is true.
    clock = time.strftime("%H:%M:%S", time.gmtime(begins[1]))
    before, said = shown(context, folder, "--at", clock, "-p", target.pid)
    check(" 1 of %d profiles, from " % len(sets) in said, said)
    check("early (<string>)" in before and "late (<string>)" not in before, str(before))
    after, _ = shown(context, folder, "--at", "%d" % (changed + 2), "--for", "3", "-p", target.pid)
    check("late (<string>)" in after and "early (<string>)" not in after, str(after))
    at = int(changed + 2)
    wanted = sum(sample["values"][1] for one in sets for sample in one.samples if sample["labels"]["pid"] == target.pid and
                 one.scalars[9] // 10**9 < at + 3 and round((one.scalars[9] + one.scalars[10]) / 1e9) > at) / 1e9
    check(wanted and abs(sum(after.values()) - wanted) < 0.001 * len(after), "%.3f s of CPU, not %.3f" % (
        sum(after.values()), wanted))
    last, said = shown(context, folder, "--last", "3s", "-p", target.pid)
    check("late (<string>)" in last and "early (<string>)" not in last, str(last))
    everything, said = shown(context, folder)
    check("%d of %d profiles" % (len(sets), len(sets)) in said, said)
    total = sum(sample["values"][0] for one in sets for sample in one.samples)
    context.bpfprof("report", folder, "-o", "all.pb.gz").expect(0)
    check(sum(sample["values"][0] for sample in Pprof(context.read("all.pb.gz")).samples) == total, "-o: not the sum")
    context.bpfprof("report", folder, "-p", other.pid, "-o", "other.pb.gz").expect(0)
    found = Pprof(context.read("other.pb.gz")).samples
    wanted = sum(sample["values"][0] for one in sets for sample in one.samples if sample["labels"]["pid"] == other.pid)
    check(sum(sample["values"][0] for sample in found) == wanted and
          {sample["labels"]["pid"] for sample in found} == {other.pid}, "-p: not all of it, or more")
    check(set(everything) >= set(before) | set(after), str(everything))
    diff = context.bpfprof("report", "--diff", folder, folder).expect(0).text
    check("late (<string>)" not in diff, "a folder differs from itself: " + diff)
    for arguments, says in (((folder, "--at", "1234567890"), "has no interval of that time"),
                            ((folder, "-p", "1"), "no sample of these files is of a process"),
                            ((context.scratch("none"),), "holds no profile of bpfprof daemon")):
        check(says in context.bpfprof("report", *arguments).expect(1).text, says)
    for arguments, says in (((folder, "--at", "25:00"), "must be a time like 14:03"), ((folder, "--for", "3"), "goes with --at"),
                            ((folder, "--at", "03:00", "--last", "3"), "one of them at a time"),
                            ((folder, "--last", "1.5"), "must be a number of seconds")):
        check(says in one_sentence(context.bpfprof("report", *arguments).expect(2)), says)
    os.unlink(context.path("other.pb.gz"))
