# SPDX-License-Identifier: Apache-2.0
"""Where the measurements happen: what is built for them, processes that end with them, clocks."""

import contextlib
import ctypes
import os
import platform
import shutil
import signal
import statistics
import subprocess
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HERE = os.path.join(ROOT, "tests", "bench")
BUILD = os.path.join(ROOT, os.environ.get("B", "build"))
OUT = os.path.join(BUILD, "bench")
BPFPROF = os.path.abspath(os.environ.get("BPFPROF") or os.path.join(BUILD, "bpfprof"))
CC = os.environ.get("CC", "cc")
CLANG = os.environ.get("CLANG", "clang")
BPFTOOL = os.environ.get("BPFTOOL", "bpftool")

SYS_BPF = {"x86_64": 321, "aarch64": 280}
BPF_ENABLE_STATS = 32
BPF_PROG_TYPE_PERF_EVENT = 7
CPUCLOCK_SCHED = 2


class Problem(Exception):
    """Why something cannot be measured here, in one sentence."""


def out(*names):
    return os.path.join(OUT, *names)


def command(argv, **more):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **more)
    if done.returncode:
        raise Problem("failed: %s: %s" % (" ".join(argv), done.stderr.decode(errors="replace")[-800:]))
    return done.stdout


def build():
    """The reference program and the workload, into OUT."""
    os.makedirs(OUT, exist_ok=True)
    arch = platform.machine()
    bpf_arch = {"x86_64": "x86", "aarch64": "arm64"}.get(arch, arch)
    command([CLANG, "-g", "-O2", "-target", "bpf", "-mcpu=v3", "-D__TARGET_ARCH_" + bpf_arch, "-Wall",
             "-I" + os.path.join(ROOT, "vmlinux", arch), "-I" + HERE, "-c",
             os.path.join(HERE, "reference.bpf.c"), "-o", out("reference.bpf.o")])
    skeleton = command([BPFTOOL, "gen", "skeleton", out("reference.bpf.o"), "name", "reference_bpf"])
    with open(out("reference.skel.h"), "wb") as file:
        file.write(skeleton)
    flags = ["-D_GNU_SOURCE", "-O2", "-g", "-Wall", "-Wextra"]
    command([CC, *flags, "-I" + OUT, "-I" + HERE, os.path.join(HERE, "reference.c"),
             "-o", out("reference"), "-lbpf", "-lelf", "-lz"])
    # Names of the workload's processes all start with bw-, so that they can be told apart.
    for name, frame_pointer in (("bw-plain", "-fomit-frame-pointer"),
                                ("bw-fp", "-fno-omit-frame-pointer")):
        command([CC, *flags, frame_pointer, "-fno-optimize-sibling-calls",
                 os.path.join(HERE, "chain.c"), "-o", out(name)])
    shutil.copyfile(out("bw-plain"), out("bw-short"))
    os.chmod(out("bw-short"), 0o755)
    command([CC, *flags, os.path.join(HERE, "churn.c"), "-o", out("bw-churn")])
    for name, source in (("bw-chain-static", "chain.c"), ("bw-crowd-static", "crowd.c")):
        command([CC, *flags, "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-static",
                 os.path.join(HERE, source), "-o", out(name)])
    shutil.copyfile(out("bw-chain-static"), out("ray::Bench"))
    os.chmod(out("ray::Bench"), 0o755)
    command([CC, *flags, "-fno-optimize-sibling-calls", os.path.join(HERE, "tree.c"),
             "-o", out("bw-tree")])
    command([CC, *flags, "-fomit-frame-pointer", "-fno-optimize-sibling-calls",
             os.path.join(HERE, "gpu_calls.c"), "-o", out("bw-gpu"), "-pthread", "-ldl"])
    command([CC, *flags, os.path.join(HERE, "ping_pong.c"), "-o", out("bw-ping-pong"), "-pthread"])
    command(["g++", *flags, "-fomit-frame-pointer", os.path.join(HERE, "mixed.cpp"),
             "-o", out("bw-cpp")])


@contextlib.contextmanager
def kernel_statistics():
    """The kernel counts runs and time of BPF programs as long as this lasts."""
    libc = ctypes.CDLL(None, use_errno=True)
    attr = (ctypes.c_uint32 * 32)()  # type 0: run time
    number = SYS_BPF.get(platform.machine())
    fd = libc.syscall(number, BPF_ENABLE_STATS, attr, ctypes.sizeof(attr)) if number else -1
    if fd < 0:
        raise Problem("the kernel's BPF statistics cannot be had: %s" %
                      os.strerror(ctypes.get_errno()))
    try:
        yield
    finally:
        os.close(fd)


def cpus():
    """Online CPUs."""
    with open("/sys/devices/system/cpu/online", encoding="ascii") as file:
        parts = file.read().strip().split(",")
    found = []
    for part in parts:
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


class Child:
    """A process of ours; ended when the with block ends."""

    def __init__(self, argv, cpu=None, quiet=True, group=False):
        argv = [str(arg) for arg in argv]
        if cpu is not None:
            argv = ["taskset", "-c", str(cpu)] + argv
        self.group = group
        self.argv = argv
        self.usage = None
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL if quiet else subprocess.PIPE,
                                        start_new_session=group)
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.returncode is None and self.usage is None:
            if self.group:
                os.killpg(self.pid, signal.SIGKILL)
            else:
                self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        if self.process.stderr:
            self.process.stderr.close()

    def cpu_seconds(self):
        """CPU time used so far by all threads, to the nanosecond."""
        return time.clock_gettime(~self.pid << 3 | CPUCLOCK_SCHED)

    def status_bytes(self, *keys):
        """Sum of fields of /proc/PID/status that are given in kB."""
        total = 0
        try:
            with open("/proc/%d/status" % self.pid, encoding="ascii", errors="replace") as file:
                for line in file:
                    if line.split(":")[0] in keys:
                        total += int(line.split()[1]) * 1024
        except (OSError, ProcessLookupError):
            pass
        return total

    def program_statistics(self):
        """(runs, ns) of the perf_event program that this process holds, or None."""
        folder = "/proc/%d/fdinfo" % self.pid
        try:
            for name in os.listdir(folder):
                with open(os.path.join(folder, name), encoding="ascii") as file:
                    fields = dict(line.split(":", 1) for line in file if ":" in line)
                if "run_cnt" in fields and int(fields["prog_type"]) == BPF_PROG_TYPE_PERF_EVENT:
                    return int(fields["run_cnt"]), int(fields["run_time_ns"])
        except OSError:
            pass
        return None

    def interrupt(self, wait=30):
        """SIGINT, then its standard output."""
        self.process.send_signal(signal.SIGINT)
        return self.finish(wait)

    def finish(self, wait=60):
        try:
            text = self.process.communicate(timeout=wait)[0]
        except subprocess.TimeoutExpired:
            raise Problem("did not end: " + " ".join(self.argv)) from None
        if self.process.returncode not in (0, -signal.SIGINT):
            raise Problem("exit status %d: %s" % (self.process.returncode, " ".join(self.argv)))
        return text

    def measure(self, wait=120, may_crash=False):
        """Waits for the end. CPU seconds with its children, and peak resident bytes of itself."""
        peak, end = 0, time.monotonic() + wait
        while time.monotonic() < end:
            peak = max(peak, self.status_bytes("VmHWM"))
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                self.usage = usage
                self.process.returncode = os.waitstatus_to_exitcode(status)
                if self.process.returncode and not may_crash:
                    raise Problem("exit status %d: %s" %
                                  (self.process.returncode, " ".join(self.argv)))
                return usage.ru_utime + usage.ru_stime, peak
            time.sleep(0.02)
        raise Problem("did not end: " + " ".join(self.argv))


def machine():
    model = ""
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"kernel": platform.release(), "arch": platform.machine(), "cpus": len(cpus()),
            "model": model, "load_average": round(os.getloadavg()[0], 2)}


def load():
    return "load average now %.2f" % os.getloadavg()[0]


def spread(values):
    """Median, least and greatest."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def print_table(header, rows):
    """Plain text, the first column to the left and the others to the right."""
    rows = [[str(cell) for cell in row] for row in [header] + rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row, widths)]
        print("  " + row[0].ljust(widths[0]) + "".join("  " + cell for cell in cells[1:]))
    print(flush=True)
