# SPDX-License-Identifier: Apache-2.0
"""Jobs of a real Slurm: its prolog and epilog record one, and one command records one that runs."""

import json
import os
import pwd
import re
import shutil
import time

import slurm_cluster
from containers import wait_for
from harness import NOBODY, ROOT, check, test
from pprof import Pprof

# Rank 2 does more than the others.
SCRIPT = """\
import os, time
rank = int(os.environ["SLURM_PROCID"])
def augment():
    end = time.thread_time() + 0.02
    while time.thread_time() < end: sum(range(500))
def forward():
    end = time.thread_time() + 0.005
    while time.thread_time() < end: sum(range(500))
end = time.time() + float(os.environ["SECONDS"])
while time.time() < end:
    if rank == 2:
        augment()
    forward()
    time.sleep(0.05)
"""
# As a launcher sets it; a rank is what the program calls one, not the number of a Slurm task.
JOB = "#!/bin/sh\nsrun -n 3 sh -c 'RANK=$SLURM_PROCID exec /usr/bin/python3 %s'\n"


def submit(slurm, seconds, *words, user=None):
    """The number of a job of three ranks on three nodes."""
    script = slurm.write("train.py", SCRIPT)
    job = slurm.write("job", JOB % script)
    return slurm.run("sbatch", "--parsable", "-N", "3", "--ntasks-per-node=1", "--output=/dev/null",
                     "--export=ALL,SECONDS=%d" % seconds, *words, job, user=user).strip()


def state(slurm, job):
    """"R" while it runs, "" when it has ended."""
    found = [line.split() for line in slurm.run("squeue", "--noheader", "-o", "%A %t").splitlines()]
    return dict(found).get(job, "")


FILES = sorted(node + end for node in slurm_cluster.NODES for end in (".folded", ".html", ".json", ".pb.gz"))


def files_of(slurm, job):
    """All files of a recorded job, once they are there: the folder."""
    folder = os.path.join(slurm.shared, job)
    wait_for("job %s has no files: %s" % (job, slurm.log()), lambda: os.path.isdir(folder) and sorted(
        os.listdir(folder)) == FILES, 90)
    return folder


def check_ranks(folder, job):
    """The nodes are one machine, so each file has all ranks that ran for long enough to be sampled."""
    for node in slurm_cluster.NODES:
        with open(os.path.join(folder, node + ".pb.gz"), "rb") as file:
            found = labels(file.read(), job)
        check((node, "2") in found and found <= {(node, str(one)) for one in range(3)}, "%s: %s" % (node, found))


def labels(data, job):
    return {(one["labels"].get("host"), str(one["labels"].get("rank"))) for one in Pprof(data).samples
            if str(one["labels"].get("slurm_job")) == job and one["labels"].get("rank") is not None}


@test(modes=("root",))
def prolog_and_epilog(context):
    """slurmd runs them around a job with the comment, and not around one without."""
    slurm = slurm_cluster.Slurm(context)
    job, other = submit(slurm, 8, "--comment=bpfprof"), submit(slurm, 1)
    folder = files_of(slurm, job)
    wait_for("jobs go on", lambda: not slurm.run("squeue", "--noheader").strip(), 60)
    check(not os.path.exists(os.path.join(slurm.shared, other)), "a job without the comment was recorded")
    check_ranks(folder, job)
    check("idle 3" in slurm.run("sinfo", "--noheader", "-o", "%t %D"), "a node was drained")
    for node in slurm_cluster.NODES:
        left = os.listdir(slurm.folder + "/spool." + node)
        check(left == ["present"] and not os.listdir(slurm.folder + "/spool." + node + "/present"), str(left))


@test(modes=("root",))
def one_command(context):
    """bpfprof cluster --slurm: by srun on the nodes of a job that runs; it finds the rank that is slow."""
    slurm = slurm_cluster.Slurm(context)
    shutil.copy(os.path.join(ROOT, "deploy/k8s/kubectl-bpfprof"), os.path.join(slurm.folder, "bpfprof-cluster"))
    job = submit(slurm, 90)
    wait_for("the job does not run", lambda: slurm.run(
        "squeue", "--noheader", "-o", "%t", "-j", job).strip() == "R", 30)
    time.sleep(2)
    out = slurm.run("bpfprof-cluster", "record", "--slurm", job, "--remote", slurm.program, "--comm", "python*", "-d",
                    "3", "-F", "199", "-o", "all.pb.gz")
    context.note(slurm.said + out)
    found = labels(context.read("all.pb.gz"), job)
    check(found == {(node, str(rank)) for node in slurm_cluster.NODES for rank in range(3)}, str(found))
    check(re.search(r"^rank 2 on n\d differs most:$", out, re.MULTILINE), out)
    more = out[out.index("what is more"):].splitlines()[1]
    check("**" in more and more.endswith("augment (train.py)"), more)
    out = slurm.run("bpfprof-cluster", "dump", "--slurm", job, "--remote", slurm.program, "-p", str(os.getpid()))
    check(all("\n%s:\nProcess %d" % (node, os.getpid()) in "\n" + out for node in slurm_cluster.NODES), out)
    slurm.run("scancel", job)
    wait_for("the job goes on", lambda: not slurm.run("squeue", "--noheader").strip(), 60)
    slurm.run("bpfprof-cluster", "record", "--slurm", job, "-d", "1", status=1)
    check("no such job runs" in slurm.said or "Invalid job id" in slurm.said, slurm.said)


@test(modes=("root",))
def cancelled(context):
    """After scancel, the job's files are whole up to that moment."""
    slurm = slurm_cluster.Slurm(context)
    job = submit(slurm, 600, "--comment=bpfprof")
    wait_for("the job does not run", lambda: state(slurm, job) == "R", 30)
    time.sleep(8)
    slurm.run("scancel", job)
    wait_for("the job goes on", lambda: not state(slurm, job), 60)
    folder = files_of(slurm, job)
    check_ranks(folder, job)
    for node in slurm_cluster.NODES:
        with open(os.path.join(folder, node + ".json"), encoding="utf-8") as file:
            seconds = json.load(file)["duration_seconds"]
        with open(os.path.join(folder, node + ".html"), encoding="utf-8") as file:
            check(file.read().rstrip().endswith("</html>"), node + ".html is cut")
        check(3 < seconds < 120, "%s: %s s" % (node, seconds))
    check("idle 3" in slurm.run("sinfo", "--noheader", "-o", "%t %D"), "a node was drained")


@test(modes=("root",))
def two_users(context):
    """Jobs of two users on the same nodes: no user gets a recording of both, and none can read the other's files."""
    slurm = slurm_cluster.Slurm(context)
    first, second = NOBODY, pwd.getpwnam("daemon").pw_uid
    long = submit(slurm, 25, "--comment=bpfprof", user=first)
    wait_for("the job does not run", lambda: state(slurm, long) == "R", 30)
    beside = submit(slurm, 4, "--comment=bpfprof", user=second)
    wait_for("the second job does not run", lambda: state(slurm, beside) == "R", 30)
    check(state(slurm, long) == "R", "the first job has ended")
    wait_for("the jobs go on", lambda: not slurm.run("squeue", "--noheader").strip(), 90)
    check(not os.listdir(slurm.shared), "a recording of two users was given away: %s" % os.listdir(slurm.shared))
    for node in slurm_cluster.NODES:
        spool = os.path.join(slurm.folder, "spool." + node)
        check(os.stat(spool).st_mode & 0o77 == 0 and node + ".pb.gz" in os.listdir(os.path.join(spool, long)) and
              not os.path.exists(os.path.join(spool, beside)), str(os.listdir(spool)))
    alone = submit(slurm, 6, "--comment=bpfprof", user=second)
    folder = files_of(slurm, alone)
    check(os.stat(folder).st_uid == second, "the folder's owner")
    slurm.run("cat", os.path.join(folder, "n1.json"), user=second)
    slurm.run("cat", os.path.join(folder, "n1.json"), user=first, status=1)
    slurm.run("ls", folder, user=first, status=2)
