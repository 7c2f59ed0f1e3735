# SPDX-License-Identifier: Apache-2.0
"""perf record and bpfprof record on the same workload, one after the other."""

import contextlib
import json
import os
import re
import shutil

from workplace import BPFPROF, Child, cpus, load, out, print_table

MIB = 1 << 20
# What a whole stack of a C or C++ program starts with.
ROOTS = re.compile(r"(_start|__libc_start_(main|call_main)\w*|start_thread|thread_start|"
                   r"(__)?(GI_+)?clone3?|_dl_start_user|ret_from_fork\w*)(@.*)?(_\[k\])?$")
OURS = "bw-"  # names of the workload's processes


@contextlib.contextmanager
def workload():
    """Four kinds of program at once on every CPU."""
    kinds = [[out("bw-plain"), 15], [out("bw-fp"), 15], [out("bw-cpp")],
             [out("bw-churn"), out("bw-short"), 15, 20]]
    with contextlib.ExitStack() as stack:
        for cpu in cpus():
            for argv in kinds:
                stack.enter_context(Child(argv, cpu=cpu))
        yield


def perf_complete(path):
    """(complete, all) stacks of the workload in perf.data, and what reading it cost.

    perf script 6.1 was seen to crash on its way: what it had printed counts, and None is the cost.
    """
    argv = ["perf", "script", "-i", path, "--no-inline", "-F", "comm,pid,ip,sym"]
    whole = total = 0
    with Child(argv) as child:
        comm, root = None, None
        for raw in child.process.stdout:
            line = raw.decode("utf-8", "replace").rstrip("\n")
            if line and not line[0].isspace():
                comm, root = line, None
            elif line.strip() and comm:
                root = line.split(None, 1)[1] if len(line.split(None, 1)) > 1 else ""
            elif not line.strip() and comm:
                if comm.startswith(OURS):
                    total += 1
                    whole += bool(root and ROOTS.match(root))
                comm = None
        cpu, _ = child.measure(may_crash=True)
        crashed = child.process.returncode != 0
    return whole, total, None if crashed else cpu


def folded_complete(path):
    whole = total = 0
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            match = re.match(re.escape(OURS) + r"[^;]*;(.*) (\d+)$", line)
            if match:
                count = int(match.group(2))
                total += count
                whole += count if ROOTS.match(match.group(1).split(";")[0]) else 0
    return whole, total


def run_perf(name, flags, seconds):
    path = out("perf.data")
    with workload(), Child(["perf", "record", "-q", "-e", "cpu-clock", "-F", "99", "-a", *flags,
                            "-o", path, "--", "sleep", seconds]) as child:
        cpu, peak = child.measure(seconds + 60)
    written = os.stat(path).st_size
    whole, total, reading = perf_complete(path)
    os.unlink(path)
    return {"name": name, "cpu_seconds": cpu, "peak_bytes": peak, "bytes_written": written,
            "complete": whole, "samples": total, "reading_cpu_seconds": reading}


def run_bpfprof(seconds):
    files = out("peers.pb.gz"), out("peers.folded")
    with workload(), Child([BPFPROF, "record", "-F", "99", "-d", seconds, "-o", files[0],
                            "-o", files[1], "--stats", out("peers.json")]) as child:
        cpu, peak = child.measure(seconds + 60)
    whole, total = folded_complete(files[1])
    with open(out("peers.json"), encoding="utf-8") as file:
        stats = json.load(file)
    return {"name": "bpfprof record", "cpu_seconds": cpu, "peak_bytes": peak,
            "bytes_written": os.stat(files[0]).st_size, "complete": whole, "samples": total,
            "reading_cpu_seconds": 0, "memory_bytes": stats["agent"]["memory_bytes"],
            "own_count": stats["stacks"], "lost": stats["lost"]}


def row(run):
    reading = run["reading_cpu_seconds"]
    if reading is None:
        reading = "crashed"
    elif reading:
        reading = "%.2f" % reading
    else:
        reading = "not needed"
    return [run["name"], "%.2f" % run["cpu_seconds"], reading, "%.1f" % (run["peak_bytes"] / MIB),
            "%.2f" % (run["bytes_written"] / MIB), run["samples"],
            "%.2f%%" % (100 * run["complete"] / run["samples"]) if run["samples"] else "none"]


def bench(quick):
    seconds = 3 if quick else 15
    runs = [run_bpfprof(seconds)]
    if shutil.which("perf"):
        runs.append(run_perf("perf record -g", ["-g"], seconds))
        runs.append(run_perf("perf record --call-graph dwarf", ["--call-graph", "dwarf"], seconds))
    print("Beside perf: 99 Hz, the whole machine, %d s each, one after the other (%s)" %
          (seconds, load()))
    print("  The same workload for each: C without and with frame pointers, C++, processes of "
          "20 ms, all four on every CPU.\n  CPU: of the profiler, user and system, until its "
          "output is written; reading: perf script, without which\n  perf.data has no names. "
          "memory: peak resident set, bpfprof's with its mapped BPF maps. written: perf.data, or\n"
          "  .pb.gz. complete: of the workload's samples, those whose outermost frame is _start, "
          "__libc_start_*, clone,\n  start_thread or ret_from_fork; counted alike for all, from "
          "perf script and from a .folded file.")
    print_table(["", "CPU, s", "reading, s", "memory, MiB", "written, MiB", "samples", "complete"],
                [row(run) for run in runs])
    own = runs[0]["own_count"]
    print("  bpfprof's own count, all processes: %d complete, %d not (%s); lost: %s\n" %
          (own["complete"], own["truncated"],
           ", ".join("%s %d" % item for item in own["reasons"].items()) or "none",
           ", ".join("%s %d" % item for item in runs[0]["lost"].items() if item[1]) or "none"))
    return {"seconds": seconds, "runs": runs}
