# SPDX-License-Identifier: Apache-2.0
"""The container of each sample: labels and stacks, --pod and --container, short processes."""

import os
import re
import secrets
import shutil
import subprocess
import time

import chains
import containers
from harness import BPFPROF, CAPS, check, test
from pprof import Pprof

BESIDE = True
LOCK = "pods"
HZ = 499
LABELS = ("container", "container_id", "pod", "namespace", "image", "ray_cluster", "ray_group",
          "ray_node_type", "pod_pid")
# A name of this run: another run may go on at the same time.
RUN = secrets.token_hex(3)
ML, WEB = "ml-" + RUN, "web-" + RUN  # namespaces
A, B = "train-0-" + RUN, "train-1-" + RUN  # pods
SLEEPER = "import time\ndef deep():\n    time.sleep(100)\ndeep()\n"


def image(containerd, context):
    """One with a program that is always busy, one of 20 ms, and Python."""
    layer = containers.base_layer()
    layer.program(context.target("calls_gO2").path, "/app/busy")
    layer.program(context.helper("churn_child", "churn_child.c"), "/app/churn")
    layer.file("/app/sleeper.py", SLEEPER.encode())
    return containerd.image("tags", [layer, containers.python_layer(["time"])])


def record(context, *args, name="x", seconds=2):
    return context.bpfprof("record", "-F", HZ, "-d", seconds, "-o", name + ".pb.gz", "-o",
                           name + ".folded", "--stats", name + ".json", *args).expect(0)


def labels_of(context, comm, name="x.pb.gz"):
    """Samples of programs with this name, by their labels of containers."""
    found = {}
    for sample in Pprof(context.read(name)).samples:
        if sample["labels"]["comm"] == comm and sample["labels"].get("namespace") in (None, ML, WEB):
            key = tuple(sample["labels"].get(label) for label in LABELS)
            found[key] = found.get(key, 0) + sample["values"][0]
    return found


def places(context, name="x.folded"):
    """Samples by (NAMESPACE/POD/CONTAINER, PROCESS)."""
    found = {}
    for place, process, _, count in chains.read_places(context.text(name)):
        if place and place.split("/")[0] not in (ML, WEB):
            continue
        found[place, process] = found.get((place, process), 0) + count
    return found


def expect_labels(context, comm, least=4, **want):
    found = labels_of(context, comm)
    key = tuple(want.get(label) for label in LABELS)
    check(set(found) == {key} and found[key] >= least,
          "%s: %s wanted, found:\n%s" % (comm, dict(zip(LABELS, key)), "\n".join(
              "%d %s" % (n, dict(zip(LABELS, k))) for k, n in found.items())))


@test(modes=CAPS)
def labels(context):
    """Every label of a KubeRay worker and of a head; none of the node itself; no secret anywhere."""
    containerd = containers.start(context)
    full = image(containerd, context)
    worker = containerd.run(full, ["/bin/sh", "-c", "exec /app/busy 60"], name="ray-worker",
                            pod=containers.Pod("worker-0", ML),
                            env={"KUBERAY_GEN_RAY_START_CMD": "ray start --address=head:6379"})
    head = containerd.run(full, ["/bin/sh", "-c", "exec -a heads /app/busy 60 || /app/busy 60"],
                          name="ray-head", pod=containers.Pod("head-0", ML),
                          env={"KUBERAY_GEN_RAY_START_CMD": "ray start --head --port=6379"})
    ours = context.spawn([context.target("tiny_gO2").path, "60"])
    run = record(context)
    found = labels_of(context, "busy")
    check({key[2] for key in found} == {"worker-0", "head-0"}, "pods of busy: %s" % found)
    for pod, container, kind in (("worker-0", worker, "worker"), ("head-0", head, "head")):
        key = ("ray-" + kind, container.id, pod, ML, full, "train-cluster", "gpu-group", kind)
        numbers = {k[8]: n for k, n in found.items() if k[:8] == key}
        check(sum(numbers.values()) > 0, "%s: %s not among\n%s" % (pod, key, found))
        check(len(numbers) == 1 and 0 < min(numbers) < 10, "%s: pod_pid %s" % (pod, numbers))
    expect_labels(context, "tiny_gO2")
    seen = places(context)
    for place in (ML + "/worker-0/ray-worker", ML + "/head-0/ray-head"):
        check(seen.get((place, "busy"), 0) > 0, "no %s: %s" % (place, seen))
    check(seen.get(("", "tiny_gO2"), 0) > 0, "%d: %s" % (ours.pid, seen))
    stats = context.json("x.json")["containers"]
    check(stats.get("from_bundle", 0) >= 2 and stats.get("samples_tagged", 0) > 8, str(stats))
    outputs = run.text + context.text("x.folded") + context.text("x.json") + " ".join(
        Pprof(context.read("x.pb.gz")).strings)
    for secret in containers.SECRETS.values():
        check(secret not in outputs, "a secret was told")
    check("in %s/worker-0/ray-worker, pid " % ML in run.text, run.text)


@test(modes=CAPS)
def pprof_reads_them(context):
    """go tool pprof finds one pod in a file of the node."""
    if not shutil.which("go"):
        check(False, "there is no go: tests/install-deps")
    containerd = containers.start(context)
    full = image(containerd, context)
    for name in ("one", "two"):
        containerd.run(full, ["/app/busy", "60"], pod=containers.Pod(name, ML))
    record(context)
    tool = subprocess.run(["go", "tool", "pprof", "-raw", "-tagfocus=pod=one",
                           context.path("x.pb.gz")], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False,
                          env=dict(os.environ, HOME=context.dir, PPROF_TMPDIR=context.dir))
    check(tool.returncode == 0 and "pod:[one]" in tool.stdout and "pod:[two]" not in tool.stdout,
          tool.stdout[-2000:])


@test(modes=CAPS, paired=True)
def short_processes(context):
    """Programs that live for 20 ms, in a container that was there before and in one that came later."""
    containerd = containers.start(context)
    full = image(containerd, context)
    loop = ["/bin/sh", "-c", "while :; do /app/churn; done"]
    containerd.run(full, loop, pod=containers.Pod("early", ML))
    recording = context.start("record", "-F", HZ, "-d", "5", "-o", "x.folded", "--stats", "x.json")
    context.sampling(recording)
    containerd.run(full, loop, pod=containers.Pod("late", ML))
    context.finish(recording, 40).expect(0)
    found = {place: count for (place, process), count in places(context).items()
             if process == "churn"}
    context.note("samples of processes that lived 20 ms: %s" % found)
    for pod in ("early", "late"):
        check(found.get("%s/%s/ray-worker" % (ML, pod), 0) > 50, "%s: %s" % (pod, found))
    untagged = sum(n for place, n in found.items() if not place)
    check(untagged <= 0.01 * sum(found.values()), "%d without a container: %s\n%s" % (
        untagged, found, context.json("x.json")["containers"]))


@test(modes=CAPS)
def forked_children(context):
    """Children that never execute a program, of a parent that is asleep when recording begins."""
    containerd = containers.start(context)
    layer = containers.base_layer()
    script = ("import os, time\n"
              "while True:\n"
              "    time.sleep(0.01)\n"
              "    if not os.fork():\n"
              "        end = time.process_time() + 0.02\n"
              "        while time.process_time() < end:\n"
              "            pass\n"
              "        os._exit(0)\n"
              "    os.wait()\n")
    layer.file("/app/forks.py", script.encode()).link("/usr/bin/forks", "python3")
    full = containerd.image("forks", [layer, containers.python_layer(["time", "os"])])
    containerd.run(full, ["/usr/bin/forks", "/app/forks.py"], pod=containers.Pod("forks", ML))
    time.sleep(0.3)
    record(context, seconds=3)
    found = {place: count for (place, process), count in places(context).items()
             if process == "forks"}
    context.note("samples of forked children: %s" % found)
    total = sum(found.values())
    check(total > 50 and total - found.get(ML + "/forks/ray-worker", 0) <= max(1, 0.01 * total),
          str(found))


@test(modes=CAPS)
def gone_in_between(context):
    """A pod that is made, runs and is removed while recording keeps its name; so do two with one image."""
    containerd = containers.start(context)
    full = image(containerd, context)
    recording = context.start("record", "-F", HZ, "-d", "6", "-o", "x.folded", "--stats", "x.json")
    context.sampling(recording)
    for name in ("first", "second", "third"):
        container = containerd.run(full, ["/app/busy", "60"], pod=containers.Pod(name, ML))
        time.sleep(0.7)
        container.remove()
    context.finish(recording, 40).expect(0)
    found = {place: count for (place, process), count in places(context).items()
             if process == "busy"}
    check(set(found) == {"%s/%s/ray-worker" % (ML, name) for name in ("first", "second", "third")},
          "%s\n%s" % (found, context.json("x.json")["containers"]))


@test(modes=CAPS)
def filters(context):
    """--pod with and without a namespace and a pattern, --container, both, with -p; what matches nothing."""
    containerd = containers.start(context)
    full = image(containerd, context)
    run = {}
    for namespace, name in ((ML, A), (ML, B), (WEB, A)):
        run[namespace, name] = containerd.run(full, ["/bin/sh", "-c", "/app/busy 60; true"],
                                              pod=containers.Pod(name, namespace))
    context.spawn([context.target("tiny_gO2").path, "60"])
    time.sleep(0.3)
    one = run[ML, B]
    inner = pod_pids(one)["busy"]
    cases = [(("--pod", ML + "/train-*"), {(ML, A), (ML, B)}),
             (("--pod", A), {(ML, A), (WEB, A)}),
             (("--pod", "%s/%s" % (ML, B), "--pod", WEB + "/*"), {(ML, B), (WEB, A)}),
             (("--container", one.id[:10]), {(ML, B)}),
             (("--container", "containerd://" + one.id, "--pod", ML + "/*"), {(ML, B)}),
             (("--pod", ML + "/*", "--comm", "bus*"), {(ML, A), (ML, B)}),
             (("--pod", "%s/%s" % (ML, B), "-p", inner), {(ML, B)})]
    for flags, pods in cases:
        record(context, *flags, seconds=1)
        seen = {place: n for (place, _), n in places(context).items()}
        check(set(seen) == {"%s/%s/ray-worker" % pod for pod in pods} and
              min(seen.values()) > 0, "%s: %s" % (flags, seen))
    for flags in (("--pod", ML + "/none"), ("--pod", "none/*"), ("--container", "zz"),
                  ("--pod", WEB + "/*", "--container", one.id)):
        text = record(context, *flags, seconds=1).text
        check("no process on this node lives there" in text and flags[1] in text, text)
        check(not places(context), "%s: %s" % (flags, places(context)))
    missing = context.bpfprof("record", "--pod", "%s/%s" % (ML, B), "-p", "4000000", "-d", "1", "-o",
                              "y.folded").expect(4)
    check("4000000" in missing.text, missing.text)


@test(modes=CAPS)
def environment_twins(context):
    """BPFPROF_POD and BPFPROF_CONTAINER."""
    containerd = containers.start(context)
    full = image(containerd, context)
    for name in ("one", "two"):
        last = containerd.run(full, ["/app/busy", "60"], pod=containers.Pod(name, ML))
    for variable, value in (("BPFPROF_POD", ML + "/two"), ("BPFPROF_CONTAINER", last.id[:12])):
        context.bpfprof("record", "-d", "1", "-o", "x.folded",
                        env=dict(os.environ, **{variable: value})).expect(0)
        check({place for place, _ in places(context)} == {ML + "/two/ray-worker"},
              "%s: %s" % (variable, places(context)))


def pod_pids(container):
    """Names of its processes: the pids inside."""
    found = {}
    for pid in container.pids():
        with open("/proc/%d/status" % pid, encoding="utf-8") as file:
            text = file.read()
        found[re.search(r"Name:\t(.*)", text)[1]] = int(
            re.search(r"NSpid:\t(.*)", text)[1].split("\t")[-1])
    return found


@test(modes=CAPS)
def dump_of_a_pod(context):
    """All Python processes of a pod; one by its number there; text and JSON say where."""
    containerd = containers.start(context)
    full = image(containerd, context)
    pod = containers.Pod("train-0", ML)
    container = containerd.run(full, ["/bin/sh", "-c",
                                      "python3 /app/sleeper.py & python3 /app/sleeper.py & "
                                      "exec /app/busy 60"], pod=pod)
    containerd.run(full, ["/usr/bin/python3", "/app/sleeper.py"],
                   pod=containers.Pod("train-1", ML))
    containers.wait_for("both asleep", lambda: context.bpfprof(
        "dump", "--pod", ML + "/train-0").expect(0).text.count("deep (sleeper.py:3)") == 2, 30)
    text = context.bpfprof("dump", "--pod", ML + "/train-0").expect(0).text
    check(text.count("deep (sleeper.py:3)") == 2 and text.count("Process ") == 2 and
          text.count("Pod %s/train-0, container ray-worker, pid " % ML) == 2, text)
    inner = pod_pids(container)
    one = context.bpfprof("dump", "--pod", ML + "/train-0", "-p", inner["python3"]).expect(0).text
    check(one.count("deep (sleeper.py:3)") == 1 and ", pid %d in it" % inner["python3"] in one, one)
    native = context.bpfprof("dump", "--pod", ML + "/train-0", "-p", inner["busy"]).expect(0).text
    check("level_one" in native, native)
    run = context.bpfprof("dump", "--container", container.id[:12], "--json").expect(0)
    with open(context.path("dump.json"), "wb") as file:
        file.write(run.out)
    threads = context.json("dump.json")
    check(len(threads) == 2 and all(
        thread["container"] == "ray-worker" and thread["pod"] == "train-0" and
        thread["namespace"] == ML and thread["container_id"] == container.id and
        0 < thread["pod_pid"] < 20 for thread in threads), str(threads)[:2000])
    nothing = context.bpfprof("dump", "--pod", ML + "/none").expect(0)
    check(not nothing.out and b"no process on this node lives there" in nothing.err, nothing.text)
    context.bpfprof("dump", "--pod", ML + "/train-0", "-p", "4000000").expect(4)
    context.bpfprof("dump", "--pod", ML + "/none", "-p", "1").expect(4)


@test(modes=CAPS)
def top_of_a_pod(context):
    """top --once: the head names the pod, and of the whole node each row does."""
    containerd = containers.start(context)
    full = image(containerd, context)
    containerd.run(full, ["/app/busy", "60"], pod=containers.Pod("train-0", ML))
    context.spawn([context.target("tiny_gO2").path, "60"])
    one = context.bpfprof("top", "--once", "--pod", ML + "/train-*").expect(0).text
    check("everything in pod '%s/train-*'" % ML in one.splitlines()[0] and " busy " in one and
          "tiny" not in one, one)
    rows = context.bpfprof("top", "--once").expect(0).text.splitlines()
    check(any(re.search(r"PID Process +Pod ", row) for row in rows), "\n".join(rows))
    check(all(ML + "/train-0" in row for row in rows if re.search(r"\d busy .*" + RUN, row)) and
          not any(ML + "/train-0" in row for row in rows if "tiny_gO2" in row), "\n".join(rows))


@test(modes=CAPS)
def nested_pid_namespace(context):
    """In kind, bpfprof's pid namespace is not the outermost one, and /proc has other pids."""
    identity, uid = "ab" * 32, "11111111-2222-3333-4444-555555555555"
    tree = next(path for path in (containers.CGROUPS + "/unified", containers.CGROUPS)
                if os.path.exists(path + "/cgroup.procs"))
    cgroup = "/kubepods/burstable/pod%s/%s" % (uid, identity)
    os.makedirs(tree + cgroup)
    context.stack.callback(containers.remove_cgroups, cgroup)
    script = ("unshare -m sh -c 'echo 0 > %s/cgroup.procs; exec %s 30' & sleep 0.5\n"
              "%s record -F %d -d 2 --container abab -o x.pb.gz --stats x.json" %
              (tree + cgroup, context.target("calls_gO2").path,
               " ".join(context.as_bpfprof([BPFPROF])), HZ))
    done = subprocess.run(["unshare", "-fp", "--mount-proc", "--kill-child", "sh", "-c", script],
                          cwd=context.dir, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=60, check=False)
    check(done.returncode == 0, done.stdout[-3000:])
    found = {(sample["labels"]["comm"], sample["labels"].get("container_id"),
              sample["labels"].get("pod_pid"), sample["labels"]["pid"])
             for sample in Pprof(context.read("x.pb.gz")).samples}
    check(found == {("calls_gO2", identity, 2, 2)},
          "%s\n%s" % (found, context.json("x.json")["containers"]))


def in_namespace(context, script, timeout=60):
    """Runs a shell script in a pid namespace of its own, with its own /proc, as in kind's node container."""
    done = subprocess.run(["unshare", "-fp", "--mount-proc", "--kill-child", "sh", "-c", script],
                          cwd=context.dir, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, timeout=timeout, check=False)
    check(done.returncode == 0, done.stdout[-3000:])
    return done.stdout


@test(modes=CAPS)
def nested_record_of_a_pid(context):
    """-p is the number that our pid namespace gives, for its children too; files have the same numbers."""
    target, other = context.target("calls_gO2").path, context.target("tiny_gO2").path
    context.spawn([other, "60"])  # outside
    script = ("{target} 60 & {other} 60 & sh -c '{other} 60; true' & exec 3>&1\n"
              "sleep 0.5; P=$(pgrep -x calls_gO2); Q=$(pgrep -n -x sh)\n"
              "echo numbers $P $(pgrep -P $Q)\n"
              "{bpfprof} record -F {hz} -d 2 -p $P -p $Q -o x.pb.gz -o x.folded --by process "
              "--stats x.json && {bpfprof} top --once -p $P").format(
                  target=target, other=other, hz=HZ,
                  bpfprof=" ".join(context.as_bpfprof([BPFPROF])))
    text = in_namespace(context, script)
    numbers = [int(word) for word in re.search(r"numbers (\d+) (\d+)", text).groups()]
    found = {}
    for sample in Pprof(context.read("x.pb.gz")).samples:
        key = (sample["labels"]["comm"], sample["labels"].get("pid"))
        found[key] = found.get(key, 0) + sample["values"][0]
    check(set(found) == {("calls_gO2", numbers[0]), ("tiny_gO2", numbers[1])} and
          min(found.values()) > HZ / 10, "%s, %s\n%s" % (numbers, found, text[-2000:]))
    check(set(process for _, process in places(context)) ==
          {"calls_gO2-%d" % numbers[0], "tiny_gO2-%d" % numbers[1]}, str(places(context)))
    check("%s 60" % target in text, "its command line is not told:\n" + text)
    check(re.search(r"bpfprof top: pid %d, '.*calls_gO2 60'" % numbers[0], text) and
          "level_one" in text, text)


@test(modes=CAPS)
def nested_command(context):
    """record -- CMD, the exit of a process of -p, pids of no process, and the whole machine."""
    target = context.target("calls_gO2").path
    outside = context.spawn([context.target("tiny_gO2").path, "60"])
    bpfprof = " ".join(context.as_bpfprof([BPFPROF]))
    script = ("{b} record -F {hz} -o x.pb.gz -- {target} 1; test $? = 142 || exit 1\n"
              "{target} 8 & {b} record -d 50 -p $! -o y.pb.gz || exit 2\n"
              "{b} record -d 1 -p 4000000 -o z.pb.gz; test $? = 4 || exit 3\n"
              "{b} record -d 1 -p {outside} -o z.pb.gz; test $? = 4 || exit 4\n"
              "{target} 20 & {b} record -F {hz} -d 1 -o all.pb.gz || exit 5").format(
                  b=bpfprof, hz=HZ, target=target, outside=max(outside.pid, 1000))
    began = time.monotonic()
    in_namespace(context, script)
    check(time.monotonic() - began < 50, "it did not end with its target")
    for name in ("x.pb.gz", "y.pb.gz"):
        found = {(s["labels"]["comm"], 0 < s["labels"].get("pid", 0) < 100)
                 for s in Pprof(context.read(name)).samples}
        check(found == {("calls_gO2", True)}, "%s: %s" % (name, found))
    found = {}
    for sample in Pprof(context.read("all.pb.gz")).samples:
        found.setdefault(sample["labels"]["comm"], set()).add(sample["labels"].get("pid", 0))
    check(found.get("tiny_gO2") == {0} and 0 < max(found.get("calls_gO2", {0})) < 1000, str(found))
