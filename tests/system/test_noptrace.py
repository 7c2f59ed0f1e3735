# SPDX-License-Identifier: Apache-2.0
"""No ptrace, nothing that needs it: asserted over the system calls of a recording."""

import os
import re
import shutil
import subprocess

from harness import BPFPROF, Skip, check, test

BESIDE = True
FORBIDDEN_CALLS = ("ptrace", "process_vm_readv", "process_vm_writev", "setns", "pidfd_getfd",
                   "process_madvise", "kcmp")
FORBIDDEN_FILES = ("mem", "exe", "root", "cwd", "map_files", "ns", "fd", "fdinfo", "environ")


@test()
def system_calls(context):
    if not shutil.which("strace"):
        raise Skip("no strace")
    target = context.spawn([context.target("calls_gO2").path, "60"])
    context.spawn([context.target("later_gO2").path, "60", *context.target("later_gO2").args])
    log = context.path("trace")
    argv = ["strace", "-f", "-qq", "-o", log, "-s", "200", *context.as_bpfprof([
        BPFPROF, "record", "-F", "199", "-d", "3", "-o", "x.folded", "-o", "x.html", "--stats",
        "x.json"])]
    done = subprocess.run(argv, cwd=context.dir, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=120, check=False)
    check(done.returncode == 0, "exit %d:\n%s" % (done.returncode, done.stdout.decode()[-2000:]))
    check("calls_gO2;_start;" in context.text("x.folded"), "the target was not recorded")
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()
    check(len(lines) > 100, "strace saw nothing")
    own = {line.split()[0] for line in lines}  # pids and tids of the recording itself
    bad = []
    for line in lines:
        call = re.match(r"\d+\s+(\w+)\(", line)
        if call and call.group(1) in FORBIDDEN_CALLS:
            bad.append(line)
        if re.search(r'openat2?\(\d+, "(%s)[/"]' % "|".join(FORBIDDEN_FILES), line):
            bad.append(line)
        for pid, name in re.findall(r"/proc/(\d+)/(?:task/\d+/)?(\w+)", line):
            if pid not in own and name in FORBIDDEN_FILES and " execve(" not in line:
                bad.append(line)
    check(not bad, "%d forbidden system calls, as:\n%s" % (len(bad), "\n".join(bad[:10])))
    check(str(target.pid) not in own, "the target was traced")
    check(os.path.getsize(context.path("x.html")) > 1000, "no output")
