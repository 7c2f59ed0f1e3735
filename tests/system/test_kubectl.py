# SPDX-License-Identifier: Apache-2.0
"""deploy/k8s/kubectl-bpfprof with the real kubectl, on a cluster of three nodes that the test makes (kube.py)."""

import os
import re
import secrets
import shutil
import signal
import subprocess
import time

import containers
import kube
from gpu_truth import fakes
from harness import BPFPROF, ROOT, check, test
from pprof import Pprof
from test_report import RANK

PAIRED = True
PLUGIN = os.path.join(ROOT, "deploy", "k8s", "kubectl-bpfprof")
NODES = ("node-a", "node-b", "node-c")
# A step of training: all ranks compute for as long, rank 2 has more to do, and all wait for the slowest.
SCRIPT = """\
import mmap, os, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
steps = mmap.mmap(os.open("/shared/steps", os.O_RDWR), 8 * size)
def done(of):
    return int.from_bytes(steps[8 * of:8 * of + 8], "little")
def augment(end):
    while time.thread_time() < end: sum(range(500))
def forward(end):
    while time.thread_time() < end: sum(range(500))
def all_reduce():
    mine = done(rank) + 1
    steps[8 * rank:8 * rank + 8] = mine.to_bytes(8, "little")
    while min(done(of) for of in range(size)) < mine:
        time.sleep(0.002)
def step():
    start = time.thread_time()
    if rank == 2:
        augment(start + 0.006)
    forward(time.thread_time() + 0.003)
    all_reduce()
while True:
    step()
"""


def cluster_of(context):
    """Three nodes with agents, and a rank of one RayCluster on each."""
    cluster = kube.Cluster(context, "ml-" + secrets.token_hex(3))
    cluster.rayjobs["train"] = "train-x7k2"
    image = cluster.containerd.image("train", [
        containers.base_layer(), containers.python_layer(["time", "mmap"]),
        containers.Layer().file("/app/train.py", SCRIPT.encode())], user="1000:100")
    cluster.image = image
    with open(os.path.join(context.scratch("shared"), "steps"), "wb") as file:
        file.write(bytes(8 * len(NODES)))
    os.chmod(file.name, 0o666)
    for rank, node in enumerate(NODES):
        worker(cluster, node, rank)
    for node in NODES:
        cluster.agent(node)
    return cluster


def worker(cluster, node, rank):
    return cluster.worker(node, "worker-%d" % rank, cluster.image,
                          ["/usr/bin/python3", "/app/train.py"],
                          {"RANK": str(rank), "WORLD_SIZE": "3"}, {"ray.io/cluster": "train-x7k2"},
                          [(cluster.context.path("shared"), "/shared", "rw")])


class Plugin:
    """A run of `kubectl bpfprof`, as a user starts it."""

    def __init__(self, context, cluster, *words, local=True, **env):
        folder = context.path("path")
        os.makedirs(folder, exist_ok=True)
        shutil.copy(PLUGIN, folder)
        path = folder + ":/usr/bin:/bin"
        if os.environ.get("KUBECTL"):
            path = os.path.dirname(os.environ["KUBECTL"]) + ":" + path
        environment = {"PATH": path, "BPFPROF": BPFPROF if local else "no-bpfprof", **cluster.kubectl(), **env}
        context.note("kubectl bpfprof " + " ".join(map(str, words)))
        self.process = subprocess.Popen(
            ["kubectl", "bpfprof", *map(str, words)], env=environment, cwd=context.dir, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        context.stack.callback(self.kill)

    def kill(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def end(self, status=0, timeout=150):
        out, err = self.process.communicate(timeout=timeout)
        check(self.process.returncode == status, "exit status %d, %d expected\n%s\n%s" % (
            self.process.returncode, status, out[-3000:], err[-3000:]))
        self.out, self.err = out, err
        return self


def left_behind(cluster):
    """Commands on pods of this cluster that still run: bpfprof of the agents, and kubectl's."""
    mark = ("%s/worker-" % cluster.namespace).encode()
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % name, "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if b"--end-with-stdin" in words and any(mark in word for word in words):
            found.append((int(name), b" ".join(words).decode()))
    return found


@test(modes=("root",), alone=True)
def slow_rank(context):
    """
    One command finds the rank that is slow, and the function: one profile of all nodes, with labels. The
    other commands answer for all nodes, too, and an agent merges where there is no bpfprof.
    """
    cluster = cluster_of(context)
    run = Plugin(context, cluster, "record", "rayjob/train", "-F", 499, "-d", 4, "-o", "all.pb.gz").end()
    context.note(run.err + run.out)
    samples = Pprof(context.read("all.pb.gz")).samples
    found = {tuple(one["labels"].get(key) for key in ("host", "namespace", "pod", "rank")) for one in samples}
    wanted = {(node, cluster.namespace, "worker-%d" % rank, str(rank)) for rank, node in enumerate(NODES)}
    check(found == wanted, "labels %s, not %s" % (found, wanted))
    check(re.search(r"clocks differ by [0-9.]+ ms at most", run.err), run.err)
    check(not left_behind(cluster), str(left_behind(cluster)))
    check(re.search(r"^rank 2 in %s/worker-2 on node-c differs most:$" % cluster.namespace, run.out,
                    re.MULTILINE), run.out)
    more = run.out[run.out.index("what is more"):].splitlines()[1]
    check("**" in more and more.endswith("augment (train.py)"), more)
    Plugin(context, cluster, "record", "worker-1", "-d", 1, "-o", "x.folded", local=False).end()
    text = context.text("x.folded")
    check("%s/worker-1/" % cluster.namespace in text and "worker-2" not in text, text[:2000])
    for words, wanted in ((["dump", "-l", "ray.io/cluster=train-x7k2"], "(train.py:"),
                          (["memory", "raycluster/train-x7k2", "-d", 1], "python3"),
                          (["top", "raycluster/train-x7k2"], "augment (train.py")):
        run = Plugin(context, cluster, *words).end()
        for rank, node in enumerate(NODES):
            part = run.out[run.out.index("node %s:" % node):]
            check("worker-%d" % rank in part or words[0] == "memory", run.out)
        check(wanted in run.out, run.out)


@test(modes=("root",))
def failures(context):
    """A node without an agent, one that hangs, a pod that is pending, one that moves: named, the others kept."""
    cluster = cluster_of(context)
    cluster.show("", cluster.namespace, "worker-3", {"ray.io/cluster": "train-x7k2"}, "Pending")
    cluster.show("node-d", cluster.namespace, "worker-4", {"ray.io/cluster": "train-x7k2"})
    moving = next(one for one in cluster.pods if one["metadata"]["name"] == "worker-1")
    hanging = {"bpfprof-node-c"}

    def hang(pod, words):
        if "record" in words and pod["metadata"]["name"] in hanging:
            time.sleep(120)
        if "record" in words:
            moving["spec"]["nodeName"], moving["metadata"]["uid"] = "node-a", "moved"
    cluster.before_exec.append(hang)
    run = Plugin(context, cluster, "record", "raycluster/train-x7k2", "-d", 1, "--timeout", 20, "-o",
                 "x.folded").end(5)
    context.note(run.err)
    for line in ("pod %s/worker-3: is Pending" % cluster.namespace,
                 "node node-d: has no agent: %s/worker-4" % cluster.namespace,
                 "node node-c: no answer within 20 s (%s/worker-2)" % cluster.namespace,
                 "pod %s/worker-1: moved from node-b to node-a" % cluster.namespace):
        check("\n  " + line in run.err, "%s is not in:\n%s" % (line, run.err))
    text = context.text("x.folded")
    check("/worker-0/" in text and "/worker-1/" in text and "/worker-2/" not in text, text[:3000])
    run = Plugin(context, cluster, "record", "worker-4", "-d", 1).end(1)
    check("nothing to ask" in run.err and "has no agent" in run.err, run.err)
    run = Plugin(context, cluster, "record", "no-such", "-d", 1).end(4)
    check("no-such: no such pod" in run.err, run.err)
    run = Plugin(context, cluster, "dump", "worker-0", "-p", 4000).end(1)
    check("no process there has the pid 4000" in run.err, run.err)


@test(modes=("root",))
def interrupted(context):
    """Ctrl-C shows what there is; the second one, a signal and a kill end it: nothing runs on the nodes then."""
    cluster = cluster_of(context)
    for signals, status in (([signal.SIGINT], 0), ([signal.SIGINT, signal.SIGINT], 130),
                            ([signal.SIGTERM], 143), ([signal.SIGKILL], -9)):
        run = Plugin(context, cluster, "record", "raycluster/train-x7k2", "-o", "x.folded")
        containers.wait_for("they do not begin", lambda: len(left_behind(cluster)) >= 6, 60)
        start = float(re.search(r"--start-at ([0-9.]+)", left_behind(cluster)[0][1])[1])
        time.sleep(max(0, start - time.time()) + 2)
        for number in signals:
            os.killpg(run.process.pid, number)
            time.sleep(0.05)
        ended = time.monotonic()
        run.end(status)
        containers.wait_for("left: %s" % left_behind(cluster), lambda: not left_behind(cluster), 20)
        context.note("%s: nothing is left after %.1f s" % (signals, time.monotonic() - ended))
        if status == 0:
            check("differs" in run.out and "/worker-2/" in context.text("x.folded"), run.out + run.err)


@test(modes=("root",))
def refused(context):
    """Wrong command lines, in one sentence and without a cluster."""
    for words, status, why in (
            ([], 2, "which command?"), (["trace"], 2, "trace: no such command"),
            (["dump"], 2, "where?"), (["record", "-d", "1"], 2, "where?"),
            (["record", "-F", "9", "worker-0"], 2, "-F: name the pods first"),
            (["record", "worker-0", "-o"], 2, "-o: its value is missing"),
            (["gpu", "worker-0", "-o", "x.json"], 2, "-o x.json: what one file of all can be is .html"),
            (["record", "worker-0", "--timeout", "soon"], 2, "must be a number of seconds")):
        done = subprocess.run([PLUGIN, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              check=False, env={"PATH": "/usr/bin:/bin"})
        check(done.returncode == status and why in done.stderr and done.stderr.count("\n") == 1,
              "%s: %d %s" % (words, done.returncode, done.stderr))
    done = subprocess.run([PLUGIN, "--help"], stdout=subprocess.PIPE, text=True, check=False)
    check(done.returncode == 0 and "kubectl bpfprof dump|record" in done.stdout, done.stdout)
    if not shutil.which("shellcheck"):
        return
    done = subprocess.run(["shellcheck", "-S", "warning", "-s", "sh", PLUGIN], stdout=subprocess.PIPE, text=True,
                          check=False)
    check(done.returncode == 0, done.stdout)


@test(modes=("root",))
def missing_rank(context):
    """gpu --once names the rank that the others wait for, and where it is, in a job that hung before."""
    cluster = kube.Cluster(context, "ml-" + secrets.token_hex(3))
    cluster.rayjobs["train"] = "train-x7k2"
    where, layer = fakes(context), containers.Layer()
    for path in (where.cuda, where.nccl):
        layer.copy(path, "/opt/" + os.path.basename(path))
    image = cluster.containerd.image("nccl", [
        containers.base_layer(), containers.python_layer(["ctypes", "signal", "threading"]), layer])
    ranks = [cluster.worker(node, "worker-%d" % rank, image,
                            ["/usr/bin/python3", "-c", RANK, "/opt", str(rank), "3", "5", role],
                            {"RANK": str(rank)}, {"ray.io/cluster": "train-x7k2"})[0]
             for rank, (node, role) in enumerate(zip(NODES, ("waits", "waits", "computes")))]
    for node in NODES:
        cluster.agent(node)
    for rank in ranks:
        containers.wait_for("no calls: " + rank.log(), lambda rank=rank: '"done"' in rank.log(), 30)
    for local in (True, False):
        run = Plugin(context, cluster, "gpu", "--once", "rayjob/train", "-d", 2, local=local).end()
        context.note(run.err + run.out)
        check("RANK=2, which may be it" in run.out and "Not in these files: rank 2 of 3" in run.out, run.out)
        check("] node-c pid" in run.out and "tokenize (<string>:" in run.out, run.out)
