# SPDX-License-Identifier: Apache-2.0
"""What tags cost: a sample in a container and of a Ray worker, a node full of containers, a full file."""

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import time

from cost import FRAMES_AROUND, bpfprof_side, per_sample, run_bpfprof
from workplace import BPFPROF, Child, Problem, command, cpus, load, out, print_table, spread

NR_CONTAINERS, PROCESSES_EACH = 200, 10
DEPTH = 20
MIB = 1 << 20
TASKS = "io.containerd.runtime.v2.task/k8s.io"  # below containerd's state folder


class Containers:
    """Containers of runc, with bundles as containerd leaves them and an overlay each."""

    def __init__(self):
        self.folder = out("node")
        self.runc = ["runc", "--root", os.path.join(self.folder, "runc")]
        self.layer = os.path.join(self.folder, "layer")
        self.ids = []

    def __enter__(self):
        if not shutil.which("runc"):
            raise Problem("runc is not installed: tests/install-deps")
        self.clean()
        os.makedirs(os.path.join(self.layer, "app"))
        for name in ("proc", "dev", "sys"):
            os.makedirs(os.path.join(self.layer, name))
        for name in ("crowd", "chain"):
            shutil.copy(out("bw-%s-static" % name), os.path.join(self.layer, "app", name))
        self.template = json.loads(self.spec())
        return self

    def spec(self):
        command([*self.runc, "spec", "--bundle", self.folder])
        with open(os.path.join(self.folder, "config.json"), encoding="utf-8") as file:
            return file.read()

    def run(self, number, argv):
        """Starts one; the pid of its first process."""
        identity = secrets.token_hex(32)
        bundle = os.path.join(self.folder, TASKS, identity)
        for name in ("rootfs", "upper", "work"):
            os.makedirs(os.path.join(bundle, name))
        self.ids.append(identity)
        command(["mount", "-t", "overlay", "overlay", "-o", "lowerdir=%s,upperdir=%s,workdir=%s" % (
            self.layer, os.path.join(bundle, "upper"), os.path.join(bundle, "work")),
            os.path.join(bundle, "rootfs")])
        config = dict(self.template, annotations={
            "io.kubernetes.cri.container-type": "container",
            "io.kubernetes.cri.container-name": "ray-worker",
            "io.kubernetes.cri.image-name": "bench:1",
            "io.kubernetes.cri.sandbox-id": secrets.token_hex(32),
            "io.kubernetes.cri.sandbox-name": "worker-%d" % number,
            "io.kubernetes.cri.sandbox-namespace": "bench"})
        config["process"] = dict(config["process"], args=argv, terminal=False)
        with open(os.path.join(bundle, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        pid_file = os.path.join(bundle, "pid")
        subprocess.run([*self.runc, "run", "--detach", "--bundle", bundle, "--pid-file", pid_file,
                        identity], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=True)
        with open(pid_file, encoding="ascii") as file:
            return int(file.read())

    def clean(self):
        for identity in self.ids:
            subprocess.run([*self.runc, "delete", "--force", identity], check=False,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open("/proc/self/mounts", encoding="utf-8") as file:
            for line in file:
                if line.split()[1].startswith(self.folder + "/"):
                    subprocess.run(["umount", "-l", line.split()[1]], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __exit__(self, *_):
        self.clean()


def sample_ns(pids, empty_ns, warm, seconds):
    window, others, _ = bpfprof_side(pids, warm, seconds)
    return per_sample(window, others, empty_ns)


def spinning(stack, program, name):
    """One process per CPU that calls itself name; their pids."""
    return [stack.enter_context(Child(["bash", "-c", 'exec -a "$0" "$@"', name, out(program),
                                       DEPTH - FRAMES_AROUND], cpu=cpu, group=True)).pid
            for cpu in cpus()]


def measure_tags(quick):
    """ns of a sample of the same program outside, in a container, and as a Ray worker."""
    rounds, warm, seconds = (2, 0.2, 0.4) if quick else (7, 0.5, 1.5)
    ns = {"outside": [], "in a container": [], "Ray worker": []}
    with Containers() as containers, contextlib.ExitStack() as stack:
        plain = spinning(stack, "bw-chain-static", "chain")
        ray = spinning(stack, "ray::Bench", "ray::Bench.step")
        sleeper = stack.enter_context(Child(["sleep", "1000"])).pid
        inside = [containers.run(cpu, ["/app/chain", str(DEPTH - FRAMES_AROUND)])
                  for cpu in range(len(plain))]
        for cpu, pid in enumerate(inside):
            os.sched_setaffinity(pid, {cpu})
        runs, all_ns = run_bpfprof([sleeper], 0.2, seconds)[0]
        empty = all_ns / runs
        for _ in range(rounds):
            for name, pids in zip(ns, (plain, inside, ray)):
                for other in (plain, inside, ray):
                    for pid in other:
                        os.kill(pid, signal.SIGCONT if other is pids else signal.SIGSTOP)
                ns[name].append(sample_ns(pids, empty, warm, seconds))
    return {name: spread(values) for name, values in ns.items()}, \
        {name: spread([a / b for a, b in zip(values, ns["outside"])]) for name, values in ns.items()}


class Daemon:
    def __init__(self, stack, *argv):
        folder = out("node-profiles")
        shutil.rmtree(folder, ignore_errors=True)
        self.log = out("node.log")
        log = stack.enter_context(open(self.log, "wb"))
        self.process = subprocess.Popen([BPFPROF, "daemon", "--output", folder, "--listen", "none",
                                         "--log-format", "json", *argv], stderr=log,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        stack.callback(self.end)

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()

    def written(self):
        with open(self.log, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file.read().splitlines()]
        return [line for line in lines if line["msg"] == "profile written"]

    def writers_cpu(self):
        """CPU seconds of the children that wrote files and have ended."""
        with open("/proc/%d/stat" % self.process.pid, encoding="ascii") as file:
            words = file.read().rpartition(")")[2].split()
        return (int(words[13]) + int(words[14])) / os.sysconf("SC_CLK_TCK")

    def intervals(self, nr, timeout=200):
        end = time.monotonic() + timeout
        while len(self.written()) < nr:
            if self.process.poll() is not None or time.monotonic() > end:
                raise Problem("the daemon wrote %d of %d profiles: %s" % (len(self.written()), nr, self.log))
            time.sleep(0.2)
        return self.written()


def measure_full_node(quick):
    """Memory beside many containers, and how many samples had their container."""
    nr = 40 if quick else NR_CONTAINERS
    with Containers() as containers, contextlib.ExitStack() as stack:
        for i in range(nr):
            containers.run(i, ["/app/crowd", str(PROCESSES_EACH)])
        for i in range(2):
            containers.run(nr + i, ["/app/chain", str(DEPTH - FRAMES_AROUND)])
        daemon = Daemon(stack, "--interval", "5s", "--rate", "99")
        lines = daemon.intervals(3 if quick else 6)
        daemon.end()
        folder = out("node-profiles")
        tagged = every = 0
        for name in os.listdir(folder):
            if not re.fullmatch(r"cpu-.*\.folded", name):
                continue
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                for line in file:
                    match = re.match(r"(\S+?)/.*;.* (\d+)$", line)
                    if " chain;" in line or ";chain;" in line or line.startswith("bench/"):
                        every += int(line.rpartition(" ")[2])
                        tagged += int(match.group(2)) if match and match.group(1) == "bench" else 0
    return {"containers": nr + 2, "processes": nr * PROCESSES_EACH + 2,
            "memory_bytes": max(line["memory_bytes"] for line in lines),
            "samples_in_containers": every, "of_them_tagged": tagged}


def measure_full_file(quick):
    """CPU of writing an interval of some hundred thousand stacks."""
    with contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(Child([out("bw-tree")]))
        daemon = Daemon(stack, "--interval", "5s", "--rate", "9999")
        daemon.intervals(1)
        best = None
        for i in range(1 if quick else 3):
            before = daemon.writers_cpu()
            line = daemon.intervals(2 + i)[1 + i]
            time.sleep(0.5)
            used = daemon.writers_cpu() - before
            found = {"samples": line["samples"], "lost": line["lost"], "write_ms": line["write_ms"],
                     "bytes": line["bytes"], "cpu_seconds": used, "memory_bytes": line["memory_bytes"]}
            best = found if best is None or used < best["cpu_seconds"] else best
    return best


def bench(quick):
    ns, ratios = measure_tags(quick)
    node = measure_full_node(quick)
    file = measure_full_file(quick)
    print("Tags (%s)" % load())
    print("  ns of one whole sample of %d frames, kernel's BPF statistics; ratios: medians over rounds,"
          " each kind once per round." % DEPTH)
    print_table(["program", "ns", "ratio", "goal"], [
        [name, "%.0f (%.0f-%.0f)" % (v["median"], v["min"], v["max"]),
         "%.3f" % ratios[name]["median"], "" if name == "outside" else "1.03"]
        for name, v in ns.items()])
    print("A node of %d containers with %d processes, daemon at 99 Hz; a file of nearly as many stacks "
          "as samples" % (node["containers"], node["processes"]))
    print_table(["what", "measured", "goal"], [
        ["memory at the end of an interval, MiB", "%.1f" % (node["memory_bytes"] / MIB), "64"],
        ["samples in containers that have the container", "%d of %d" % (
            node["of_them_tagged"], node["samples_in_containers"]), "all"],
        ["CPU of writing %d samples, s" % file["samples"], "%.2f" % file["cpu_seconds"],
         "1 for 100000"],
        ["time of writing them, ms", file["write_ms"], ""],
        ["memory meanwhile, MiB", "%.1f" % (file["memory_bytes"] / MIB), "64"],
    ])
    return {"sample_ns": ns, "ratios": ratios, "full_node": node, "full_file": file}
