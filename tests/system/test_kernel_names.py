# SPDX-License-Identifier: Apache-2.0
"""Kernel frames: named, and honest where the names are not available.

Tests that hide the names hide them from the whole machine: no other test may run meanwhile.
"""

import re
import subprocess

from harness import BPFPROF, check, sysctl, test

BESIDE = True
HZ = 499


@test()
def named(context):
    """System calls of a target show the kernel's functions above its own."""
    target = context.spawn(["dd", "if=/dev/zero", "of=/dev/null", "bs=1M"],
                           stderr=subprocess.DEVNULL)
    context.bpfprof("record", "-F", HZ, "-d", "1", "-p", target.pid, "-o", "x.folded").expect(0)
    text = context.text("x.folded")
    both = r"^dd;.*;__libc_start_main[^;]*;.*;do_syscall_64_\[k\];.*_\[k\]"
    check(re.search(both, text, re.MULTILINE),
          "no kernel frames above the user's:\n" + text[:1500])
    check("[kernel]_[k]" not in text, "frames without a name")


@test(alone=True)
def hidden(context):
    """kptr_restrict=2 hides them even from root: said, and shown as [kernel]_[k]."""
    old = sysctl("kernel.kptr_restrict", 2)
    try:
        target = context.spawn(["dd", "if=/dev/zero", "of=/dev/null", "bs=1M"],
                               stderr=subprocess.DEVNULL)
        done = context.bpfprof("record", "-F", HZ, "-d", "1", "-p", target.pid, "-o",
                               "x.folded").expect(0)
    finally:
        sysctl("kernel.kptr_restrict", old)
    text = context.text("x.folded")
    check("[kernel]_[k]" in text, "no [kernel]_[k]:\n" + text[:1500])
    check("do_syscall_64" not in text, "names that cannot be known")
    check("kptr_restrict" in done.text, "not said:\n" + done.text)


@test(alone=True)
def own_frames(context):
    """The timer's own frames are removed; where they look like others, that is counted."""
    target = context.spawn(["dd", "if=/dev/zero", "of=/dev/null", "bs=1M"],
                           stderr=subprocess.DEVNULL)
    unknown = []
    old = sysctl("kernel.kptr_restrict")
    for restrict in (old, 2):
        try:
            sysctl("kernel.kptr_restrict", restrict)
            done = context.bpfprof("record", "--clock", "timer", "-F", HZ, "-d", "1", "-p",
                                   target.pid, "-o", "x.folded", "--stats", "x.json").expect(0)
        finally:
            sysctl("kernel.kptr_restrict", old)
        stats = context.json("x.json")
        unknown.append(stats["clock"].get("own_frames_unknown", 0) / stats["samples"]["total"])
        if restrict != 2:
            own = re.findall(r".*hrtimer_run_softirq.*", context.text("x.folded"))
            check(not own, "own frames:\n" + "\n".join(own)[:1000])
    context.note("own frames unknown: %.1f%% of samples, without names %.1f%%" % (100 * unknown[0], 100 * unknown[1]))
    check(unknown[0] < 0.02, "own frames are unknown, though kernel names are available")
    check(unknown[1] > 0.9, "own frames are known, though kernel names are hidden")
    check("own frames unknown" in done.text, "not shown:\n" + done.text)


@test(modes=("caps",), alone=True)
def no_syslog(context):
    """Without CAP_SYSLOG: the same, with that capability named."""
    target = context.spawn(["dd", "if=/dev/zero", "of=/dev/null", "bs=1M"],
                           stderr=subprocess.DEVNULL)
    old = sysctl("kernel.kptr_restrict", 1)
    try:
        done = subprocess.run(["setpriv", "--bounding-set",
                               "-all,+bpf,+perfmon,+dac_read_search", "--inh-caps", "-all",
                               BPFPROF, "record", "-F", str(HZ), "-d", "1", "-p", str(target.pid),
                               "-o", "x.folded"], cwd=context.dir, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=30, check=False)
    finally:
        sysctl("kernel.kptr_restrict", old)
    said = done.stdout.decode("utf-8", "replace")
    check(done.returncode == 0, "exit %d:\n%s" % (done.returncode, said))
    check("[kernel]_[k]" in context.text("x.folded"), "no [kernel]_[k]")
    check("CAP_SYSLOG" in said, "not said:\n" + said)
