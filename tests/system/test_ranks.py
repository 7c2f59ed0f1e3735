# SPDX-License-Identifier: Apache-2.0
"""Ranks of distributed jobs: labels, --by rank, and that nothing else of an environment is ever kept."""

import os
import re
import secrets
import subprocess
import time

import chains
import containers
from harness import check, descendants, test
from pprof import Pprof

BESIDE = True
HERE = os.path.dirname(os.path.abspath(__file__))
HZ = 499
LABELS = ("rank", "local_rank", "world_size", "slurm_job", "slurm_node")
TICK_NS = 10 ** 9 // os.sysconf("SC_CLK_TCK")


def job(context, seconds, *shares, **env):
    """A launcher as torchrun is one; the pids of its ranks."""
    launcher = context.spawn(["/usr/bin/python3", os.path.join(HERE, "python", "ranks.py"),
                              str(seconds), *map(str, shares)], env=env, stdout=subprocess.PIPE)
    pids = [int(word) for word in launcher.stdout.readline().split()[1:]]
    for pid in pids:
        context.stack.callback(kill, pid)
    check(len(pids) == len(shares), "ranks that were started: %s" % pids)
    containers.wait_for("their children", lambda: all(
        len(descendants(pid)) == 2 for pid in pids), 20)
    return pids


def kill(pid):
    for each in descendants(pid):
        try:
            os.kill(each, 9)
        except OSError:
            pass


def cpu_ns(pid):
    """CPU time of the process and its children."""
    total = 0
    for each in descendants(pid):
        with open("/proc/%d/stat" % each, encoding="utf-8") as file:
            words = file.read().rpartition(")")[2].split()
        total += (int(words[11]) + int(words[12])) * TICK_NS
    return total


def by_labels(context, name="x.pb.gz"):
    """CPU time by the labels of this job's ranks."""
    found = {}
    for sample in Pprof(context.read(name)).samples:
        key = tuple(sample["labels"].get(label) for label in LABELS)
        if any(key):
            found[key] = found.get(key, 0) + sample["values"][1]
    return found


def processes(context, name="x.folded"):
    found = {}
    for process, _, count in chains.read_folded(context.text(name)):
        found[process] = found.get(process, 0) + count
    return found


@test()
def shares(context):
    """Each rank with its children is one, its share that of its own clock; the launcher has none."""
    number = "77" + str(secrets.randbelow(10 ** 6))
    pids = job(context, 60, 70, 30, 15, SLURM_JOB_ID=number, SLURM_NODEID="5")
    before = [cpu_ns(pid) for pid in pids]
    context.bpfprof("record", "-F", HZ, "-d", 6, "--by", "rank", "-o", "x.folded", "-o", "x.pb.gz",
                    "--stats", "x.json").expect(0)
    truth = [cpu_ns(pid) - start for pid, start in zip(pids, before)]
    labels = {key: ns for key, ns in by_labels(context).items() if key[3] == number}
    want = {(str(n), str(n), "3", number, "5") for n in range(3)}
    check(want <= set(labels) and set(labels) - want <= {(None, None, None, number, "5")},
          "labels: %s" % labels)
    seen = [labels[str(n), str(n), "3", number, "5"] for n in range(3)]
    off = max(abs(100 * ns / sum(seen) - 100 * own / sum(truth)) for ns, own in zip(seen, truth))
    context.note("worst of 3 ranks: %.1f points of %.1f s" % (off, sum(seen) / 1e9))
    check(off <= 5, "%.1f points: %s, own clocks %s" % (off, seen, truth))
    folded = processes(context)
    counts = [folded.get("job %s rank %d" % (number, n)) or folded.get("rank %d" % n, 0)
              for n in range(3)]
    off = max(abs(100 * n / sum(counts) - 100 * own / sum(truth))
              for n, own in zip(counts, truth))
    check(off <= 5, "%.1f points in x.folded: %s, own clocks %s" % (off, counts, truth))
    stats = context.json("x.json")["environments"]
    check(stats["with_rank_or_job"] >= 3 and "unreadable" not in stats, str(stats))


@test()
def short_ranks(context):
    """Ranks that live for 50 ms, started while recording goes on; --by rank with -- CMD."""
    program = context.helper("churn_child", "churn_child.c")
    script = ("i=0; while [ $i -lt 60 ]; do RANK=$((i %% 2)) WORLD_SIZE=2 %s; i=$((i + 1)); done" %
              program)
    context.bpfprof("record", "-F", HZ, "--by", "rank", "-o", "x.folded", "-o", "x.pb.gz",
                    "--stats", "x.json", "--", "sh", "-c", script).expect(0)
    found = {}
    for sample in Pprof(context.read("x.pb.gz")).samples:
        if sample["labels"]["comm"] == "churn_child"[:15]:
            rank = sample["labels"].get("rank")
            found[rank] = found.get(rank, 0) + sample["values"][0]
    context.note("samples by rank: %s" % found)
    total = sum(found.values())
    check(total > 100 and found.get("0") and found.get("1"), str(found))
    check(found.get(None, 0) <= 0.05 * total,
          "%s\n%s" % (found, context.json("x.json")["environments"]))


@test()
def hard_environments(context):
    """Behind 150 KB of other variables; values that are no rank; none at all; overwritten ones."""
    target = context.target("tiny_gO2").path
    padding = {"PADDING_%04d" % n: "p" * 1000 for n in range(150)}
    padding["LONG"] = "RANK=66" * 5000
    context.spawn([target, "60"], env=dict(padding, RANK="11"))
    context.spawn([target, "60"], env={"RANK": "a b; c", "SLURM_JOB_ID": "\x1b[31m",
                                       "WORLD_SIZE": "9" * 100, "LOCAL_RANK": "12"})
    context.spawn(["/usr/bin/env", "-i", target, "60"])
    gone = context.spawn(["/usr/bin/python3", "-c", OVERWRITE], env={"RANK": "13"})
    time.sleep(0.5)
    check(gone.poll() is None, "the one that overwrites its environment has ended")
    context.bpfprof("record", "-F", HZ, "-d", 2, "-o", "x.pb.gz", "-o", "x.folded", "--by", "rank",
                    "--stats", "x.json").expect(0)
    found = set(by_labels(context))
    check({("11",) + (None,) * 4, (None, "12", None, None, None)} <= found, str(found))
    check(not any("66" in key or "13" in key or "a b; c" in key for key in found), str(found))
    check("rank 11" in processes(context), str(processes(context)))


# Writes over the whole environment, as some that set their title do.
OVERWRITE = """
import ctypes, time
with open("/proc/self/stat") as file:
    words = file.read().rpartition(")")[2].split()
start, end = int(words[47]), int(words[48])
ctypes.memset(start, ord("x"), end - start)
end = time.monotonic() + 60
while time.monotonic() < end:
    pass
"""


@test()
def secrets_stay(context):
    """Outputs, messages and bpfprof's own memory have only the five values of an environment."""
    secret, number = "hunter" + secrets.token_hex(12), "9" + str(secrets.randbelow(10 ** 8))
    target = context.target("tiny_gO2").path
    environment = {"RAY_AUTH_TOKEN": secret, "RANK_TOKEN": secret, "SLURM_JOB_ID": number,
                   "A_" + secret: "1"}
    padding = {"TOKEN_%03d" % n: secret + "p" * 1000 for n in range(100)}
    # Programs and files are known by the time that the last one starts, and nothing else is
    # watched: what was read of its environment would not be overwritten by anything else.
    shell = context.spawn(["sh", "-c", "RANK=21 %s 60 & RANK=22 %s 60 & sleep 5; RANK=24 %s 60 & "
                           "exec %s 60" % (4 * (target,))],
                          env=dict(environment, **padding, RANK="23"))
    context.stack.callback(kill, shell.pid)
    messages = open(context.path("messages"), "wb")
    context.stack.callback(messages.close)
    process = context.start("record", "-v", "-F", HZ, "-d", 30, "-o", "x.pb.gz", "-o", "x.html",
                            "-o", "x.folded", "--stats", "x.json",
                            "-p", shell.pid, stderr=messages)
    context.sampling(process)
    time.sleep(5)
    core = subprocess.run(["gcore", "-a", "-o", context.path("core"), str(process.pid)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    path = context.path("core.%d" % process.pid)
    check(core.returncode == 0 and os.path.exists(path), core.stdout[-2000:])
    with open(path, "rb") as file:
        memory = file.read()
    os.unlink(path)
    check(number.encode() in memory, "what is wanted is not in the core file: is that whole?")
    check(secret.encode() not in memory, "a secret is in our memory, %d times" %
          memory.count(secret.encode()))
    process.send_signal(2)
    context.finish(process, 60).expect(0)
    check({key[0] for key in by_labels(context) if key[3] == number} == {"21", "22", "23", "24"},
          str(by_labels(context)))
    profile = Pprof(context.read("x.pb.gz"))
    told = " ".join(profile.strings) + "".join(
        context.text(name) for name in ("messages", "x.html", "x.folded", "x.json"))
    check(secret not in told, "a secret was told")


@test()
def slurm_cgroup(context):
    """The job of a process that has no such variable, from slurmstepd's group."""
    tree = next(path for path in (containers.CGROUPS + "/unified", containers.CGROUPS)
                if os.path.exists(path + "/cgroup.procs"))
    number = "31" + str(secrets.randbelow(10 ** 6))
    cgroup = "/slurmstepd.scope/job_%s/step_0/user/task_0" % number
    os.makedirs(tree + cgroup)
    context.stack.callback(containers.remove_cgroups, cgroup)
    target = context.spawn([context.target("tiny_gO2").path, "60"])
    with open(tree + cgroup + "/cgroup.procs", "w", encoding="ascii") as file:
        file.write(str(target.pid))
    context.bpfprof("record", "-F", HZ, "-d", 2, "-p", target.pid, "-o", "x.pb.gz").expect(0)
    check(set(by_labels(context)) == {(None, None, None, number, None)}, str(by_labels(context)))
    target.kill()
    target.wait()


@test()
def of_a_container(context):
    """A rank that the pod was given; what the process itself was started with is worth more; --by pod."""
    containerd = containers.start(context)
    layer = containers.base_layer()
    layer.program(context.target("calls_gO2").path, "/app/busy")
    image = containerd.image("ranks", [layer])
    containerd.run(image, ["/bin/sh", "-c", "RANK=5 /app/busy 60 & exec /app/busy 60"],
                   pod=containers.Pod("ranks-0", "ml"), env={"RANK": "4", "WORLD_SIZE": "6"})
    time.sleep(0.5)
    context.bpfprof("record", "-F", HZ, "-d", 2, "--pod", "ml/ranks-0", "-o", "x.pb.gz", "-o",
                    "x.folded", "--by", "pod").expect(0)
    found = set(by_labels(context))
    check(found == {("4", None, "6", None, None), ("5", None, "6", None, None)}, str(found))
    check(set(processes(context)) == {"ml/ranks-0"}, str(processes(context)))


@test()
def compared(context):
    """report --compare names the rank that works more than the others, and the function; a single one it cannot."""
    number = "78" + str(secrets.randbelow(10 ** 6))
    ranks = job(context, 60, 10, 70, 10, SLURM_JOB_ID=number)
    # Other tests have ranks meanwhile.
    words = [word for pid in ranks for each in descendants(pid) for word in ("-p", each)]
    context.bpfprof("record", "-F", HZ, "-d", 4, *words, "-o", "x.pb.gz").expect(0)
    run = context.bpfprof("report", "--compare", "rank", "x.pb.gz").expect(0)
    lines = run.text.splitlines()
    context.note(run.text[:700])
    first = next(line for line in lines[lines.index("") + 1:] if "rank " in line)
    check(" rank 1" in first, "most differs: " + first)
    check(any(line.startswith("rank 1") and line.endswith(" differs most:") for line in lines), run.text)
    more = lines[next(i for i, line in enumerate(lines) if "what is more" in line) + 1]
    check("**" in more and "ranks.py" in more, more)
    run = context.bpfprof("report", "--compare", "node", "x.pb.gz").expect(1)
    check("these files do not have several nodes" in run.text, run.text)
    run = context.bpfprof("report", "--compare", "rank", "--diff", "x.pb.gz", "x.pb.gz").expect(2)
    check("--compare: goes with none of" in run.text, run.text)


@test()
def compared_in_part(context):
    """Ranks without samples are named, two ranks stand beside each other, and ranks of two jobs stay apart."""
    numbers = ["78" + str(secrets.randbelow(10 ** 6)) for _ in range(2)]
    ranks = job(context, 60, 30, 30, 30, SLURM_JOB_ID=numbers[0])
    words = [word for pid in ranks[:2] for word in ("-p", pid)]
    context.bpfprof("record", "-F", HZ, "-d", 2, *words, "-o", "x.pb.gz").expect(0)
    text = context.bpfprof("report", "--compare", "rank", "x.pb.gz").expect(0).out.decode()
    check("\nnot in it: rank 2 of 3 (no samples)\n" in text and "which have no rank" not in text, text)
    check("differs most" not in text and ("\nrank " not in text or " beside rank " in text), text)
    other = job(context, 60, 30, 30, SLURM_JOB_ID=numbers[1])
    words += [word for pid in other for word in ("-p", pid)]
    context.bpfprof("record", "-F", HZ, "-d", 2, *words, "-o", "y.pb.gz").expect(0)
    text = context.bpfprof("report", "--compare", "rank", "y.pb.gz").expect(0).out.decode()
    found = set(re.findall(r"  rank (\d) of job (\d+)", text))
    check(found == {(rank, number) for rank in "01" for number in numbers}, "%s\n%s" % (found, text))
    for files, several in ((["x.pb.gz"], False), (["x.pb.gz", "y.pb.gz"], True)):
        run = context.bpfprof("report", "--compare", "rank", *files).expect(0)
        check((b"not of the same time" in run.err) == several, run.text)
