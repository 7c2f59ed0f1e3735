# SPDX-License-Identifier: Apache-2.0
"""Events that found the ring buffer full: processes that ended without a word are known to be gone."""

import os
import signal
import subprocess
import time

from harness import check, test

LIGHT = True
CHILDREN = 400  # so many begin and end that a small ring buffer cannot hold their events


def brood(context, *args, children=CHILDREN):
    return context.spawn([context.helper("brood", "brood.c"), children, *args])


def wait_state(pid, states):
    for _ in range(400):
        with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as file:
            state = file.read().rpartition(")")[2].split()[0]
        if state in states:
            return
        time.sleep(0.05)
    check(False, "pid %d: state %s, not one of %s" % (pid, state, states))


def record_deaf(context, *args, ring=16384):
    """Starts a recording that hears nothing from here on."""
    recording = context.start("record", *args, "-o", "x.folded", "--stats", "x.json",
                              env=dict(os.environ, BPFPROF_TEST_RING_BYTES=str(ring)))
    context.sampling(recording)
    recording.send_signal(signal.SIGSTOP)
    wait_state(recording.pid, "T")
    return recording


@test()
def target_ends_unheard(context):
    """The end of the target is lost, and no process waits for it: the recording still ends."""
    target = brood(context)
    recording = record_deaf(context, "-p", target.pid)
    target.send_signal(signal.SIGUSR1)
    wait_state(target.pid, "Z")
    recording.send_signal(signal.SIGCONT)
    done = context.finish(recording, 30).expect(0)
    clock = context.json("x.json")["clock"]
    check(clock.get("process_events_lost", 0) > 0, "no event was lost: %s" % clock)
    check(clock.get("exits_found_late", 0) > 0, "not found: %s" % clock)
    check("exits_found_late" in done.text or "exits found late" in done.text, done.text)


@test(modes=("root",))
def children_end_unheard(context):
    """Targets that were added by the kernel and ended unheard are targets no more."""
    target = brood(context, "stay")
    recording = record_deaf(context, "-p", target.pid, "-d", "12")
    target.send_signal(signal.SIGUSR1)
    for _ in range(400):
        with open("/proc/%d/wchan" % target.pid, encoding="ascii") as file:
            if "pause" in file.read():
                break
        time.sleep(0.05)
    recording.send_signal(signal.SIGCONT)
    context.finish(recording, 40).expect(0)
    clock = context.json("x.json")["clock"]
    context.note(str(clock))
    # The events in the ring buffer, some hundred, were read.
    check(clock.get("exits_found_late", 0) > CHILDREN / 2, "%s" % clock)


@test(modes=("root",))
def pid_given_again(context):
    """Another process gets the pid of a target whose end was lost; it is no target."""
    reborn = context.helper("reborn", "reborn.c")
    target, other = brood(context, children=2000), context.spawn(["sleep", "60"])
    # Room for samples, too.
    recording = record_deaf(context, "-p", target.pid, "-p", other.pid, "-d", "4", ring=65536)
    target.send_signal(signal.SIGUSR1)
    target.wait(timeout=20)
    heir = context.spawn([reborn, target.pid, "30"])
    time.sleep(0.5)
    check(heir.poll() is None, "pid %d was not to be had" % target.pid)
    recording.send_signal(signal.SIGCONT)
    context.finish(recording, 40).expect(0)
    subprocess.run(["kill", "-9", str(target.pid)], check=True)
    check("reborn" not in context.text("x.folded"), context.text("x.folded")[-1000:])
    stats = context.json("x.json")
    check(stats["clock"].get("process_events_lost", 0) > 0, "no event was lost: %s" % stats)
