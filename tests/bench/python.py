# SPDX-License-Identifier: Apache-2.0
"""Python: the cost of a merged sample, and what profiling a process of many threads does to it."""

import contextlib
import glob
import json
import os
import re
import shutil
import statistics
import subprocess
import time

from cost import HZ, per_sample, run_bpfprof, share_others
from workplace import BPFPROF, Child, HERE, Problem, command, cpus, load, out, print_table, spread

PYTHON_FRAMES = 20
DETOURS = (2, 0)  # through sorted(): two make about 30 native frames from 3.11 on, none in 3.10
THREADS = 158
WORK_SECONDS = 4.0


def pythons():
    """{version: interpreter} of what there is: pyenv's, else the system's own."""
    roots = [os.environ.get("PYENV_ROOT", ""), os.path.expanduser("~/.pyenv")]
    if shutil.which("pyenv"):
        roots.insert(0, subprocess.run(["pyenv", "root"], stdout=subprocess.PIPE, text=True,
                                       check=False).stdout.strip())
    found = {}
    for root in filter(None, roots):
        for path in glob.glob(os.path.join(root, "versions", "3.*", "bin", "python3.*")):
            match = re.fullmatch(r"python(3\.\d+)", os.path.basename(path))
            if match and int(match.group(1)[2:]) >= 8:
                found.setdefault(match.group(1), path)
    if not found and shutil.which("python3"):
        version = command(["python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"])
        found[version.decode().strip()] = shutil.which("python3")
    return dict(sorted(found.items(), key=lambda item: int(item[0][2:])))


def frames_seen(path):
    """(Python, native) frames per sample of the user part of the stacks."""
    samples = python = native = 0
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            match = re.match(r"([^#].*) (\d+)$", line)
            if not match:
                continue
            count = int(match.group(2))
            for name in match.group(1).split(";")[1:]:
                if name.endswith("_[k]"):
                    continue
                if re.search(r" \([^()]*:\d+\)$", name):
                    python += count
                else:
                    native += count
            samples += count
    return (python / samples, native / samples) if samples else (0.0, 0.0)


def measure_cost(argv, empty_ns, rounds, warm, seconds):
    """(ns per sample of each round, frames seen) of one process per CPU."""
    found, seen = [], None
    for _ in range(rounds):
        with contextlib.ExitStack() as stack:
            pids = [stack.enter_context(Child(argv, cpu=cpu)).pid for cpu in cpus()]
            time.sleep(0.3)
            window, stats, _ = run_bpfprof(pids, warm, seconds)
        found.append(per_sample(window, share_others(stats), empty_ns))
        seen = frames_seen(out("cost.folded"))
    return found, seen


def measure_empty(seconds):
    with contextlib.ExitStack() as stack:
        for cpu in cpus():
            stack.enter_context(Child([out("bw-plain"), 15], cpu=cpu))
        sleeper = stack.enter_context(Child(["sleep", "1000"])).pid
        runs, ns = run_bpfprof([sleeper], 0.2, seconds)[0]
    return ns / runs


def bench_cost(quick):
    rounds, warm, seconds = (1, 0.3, 0.5) if quick else (3, 0.5, 1.5)
    empty_ns = measure_empty(seconds)
    rows, result = [], {}
    for version, interpreter in pythons().items():
        result[version] = {}
        # Up to 3.10 C functions of its own run each Python function: with no detour about 30.
        for detours in DETOURS if int(version[2:]) <= 10 else DETOURS[:1]:
            argv = [interpreter, os.path.join(HERE, "python_stack.py"), PYTHON_FRAMES, detours]
            found, seen = measure_cost(argv, empty_ns, rounds, warm, seconds)
            values = spread(found)
            rows.append([version, "%.1f" % seen[0], "%.1f" % seen[1],
                         "%.0f (%.0f-%.0f)" % (values["median"], values["min"], values["max"])])
            result[version]["%d detours" % detours] = {
                "ns": values, "python_frames": seen[0], "native_frames": seen[1]}
    print("Cost of one merged sample, ns (median, least and greatest of %d runs; %s)" %
          (rounds, load()))
    print("  One Python process per CPU, %d samples a second; frames as they came out, Python ones "
          "in the place of the\n  eval loop's. An empty run (%.0f ns) is taken for those that hit "
          "others." % (HZ, empty_ns))
    print_table(["Python", "Python frames", "native frames", "ns per sample"], rows)
    return result


def timed_work(interpreter, rounds, profiler):
    """(seconds the work took, profiler's CPU seconds, its peak memory); profiler: pid -> argv or None."""
    argv = [interpreter, os.path.join(HERE, "python_threads.py"), str(THREADS), str(rounds)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as target:
        try:
            target.stdout.readline()
            with contextlib.ExitStack() as stack:
                child = None
                if profiler:
                    child = stack.enter_context(Child(profiler(target.pid)))
                    time.sleep(1.0)
                target.stdin.write(b"\n")
                target.stdin.flush()
                seconds = float(target.stdout.readline())
                if not child:
                    return seconds, 0.0, 0
                target.stdin.close()
                target.wait(timeout=30)
                cpu, peak = child.measure(may_crash=True)
                return seconds, cpu, peak
        finally:
            target.kill()


def py_spy():
    """py-spy as pip gives it, in a folder of ours; None where it cannot be had."""
    folder = out("py-spy")
    program = os.path.join(folder, "bin", "py-spy")
    if not os.access(program, os.X_OK):
        try:
            command(["pip3", "install", "-q", "--break-system-packages", "--target", folder,
                     "py-spy"])
        except (Problem, OSError):
            return shutil.which("py-spy")
    return program


def profilers():
    found = {
        "bare": None,
        "bpfprof record -F 99": lambda pid: [BPFPROF, "record", "-F", "99", "-p", pid, "-o",
                                             out("threads.folded"), "--stats",
                                             out("threads.json")],
    }
    spy = py_spy()
    if spy:
        found["py-spy record -r 100"] = lambda pid: [
            spy, "record", "-r", "100", "-p", pid, "-f", "raw", "-o", out("threads.raw"), "-d",
            "600"]
    if shutil.which("perf"):
        found["perf record -F 99 -g"] = lambda pid: [
            "perf", "record", "-q", "-F", "99", "-g", "-p", pid, "-o", out("threads.data")]
    return found


def bench_threads(quick):
    versions = pythons()
    interpreter = versions.get("3.11") or list(versions.values())[-1]
    rounds = 2000
    seconds = timed_work(interpreter, rounds, None)[0]
    rounds = max(1, int(rounds * (1.0 if quick else WORK_SECONDS) / seconds))
    times = {name: [] for name in profilers()}
    cost = {}
    for _ in range(1 if quick else 3):
        for name, profiler in profilers().items():
            took, cpu, peak = timed_work(interpreter, rounds, profiler)
            times[name].append(took)
            cost[name] = (cpu, peak)
    with open(out("threads.json"), encoding="utf-8") as file:
        memory = json.load(file)["agent"]["memory_bytes"]
    bare = times["bare"]
    rows, result = [], {}
    for name, took in times.items():
        ratio = statistics.median(a / b for a, b in zip(took, bare))
        cpu, peak = cost[name]
        if name.startswith("bpfprof"):
            peak = memory
        rows.append([name, "%.2f" % statistics.median(took), "%.3f" % ratio, "%.2f" % cpu,
                     "%.1f" % (peak / (1 << 20))])
        result[name] = {"seconds": took, "ratio": ratio, "cpu_seconds": cpu, "memory_bytes": peak}
    print("A process of %d threads of which one computes (%s)" % (THREADS + 1, load()))
    print("  The same work each time, by %s; ratio: medians over rounds, bare once per round. "
          "Memory: ours as in --stats\n  (maps of the kernel included), the others' peak resident "
          "size." % os.path.basename(interpreter))
    print_table(["", "its seconds", "ratio", "profiler CPU s", "MiB"], rows)
    return result


def bench(quick):
    if not pythons():
        raise Problem("no Python 3.8 or newer")
    return {"cost": bench_cost(quick), "threads": bench_threads(quick)}
