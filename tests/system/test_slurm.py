# SPDX-License-Identifier: Apache-2.0
"""deploy/slurm: prolog and epilog as slurmd would run them, around a job of two ranks."""

import contextlib
import os
import secrets
import subprocess
import time

from harness import BPFPROF, NOBODY, ROOT, check, test
from pprof import Pprof

LIGHT = True
SCRIPTS = os.path.join(ROOT, "deploy", "slurm")
HOST = os.uname().nodename


class Node:
    """A node with its configuration; the shared folder may be written by everybody."""

    def __init__(self, context, **values):
        self.context = context
        self.shared = context.scratch("shared", 0o1777)
        self.spool = context.path("spool")
        self.conf(**values)
        context.stack.callback(self.stop)

    def conf(self, **values):
        values = dict({"SHARED": self.shared, "SPOOL": self.spool, "BPFPROF": BPFPROF,
                       "RATE": "499", "JOBS": "all"}, **values)
        with open(self.context.path("conf"), "w", encoding="utf-8") as file:
            file.writelines("%s='%s'\n" % item for item in values.items())

    def run(self, script, job, **more):
        """The environment that slurmd gives: small, and with root's rights."""
        env = dict({"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "SLURM_JOB_ID": str(job),
                    "SLURM_JOB_UID": str(NOBODY), "SLURM_JOB_GID": str(NOBODY),
                    "SLURMD_NODENAME": HOST, "BPFPROF_SLURM_CONF": self.context.path("conf")},
                   **more)
        done = subprocess.run([os.path.join(SCRIPTS, script)], env=env, timeout=90, check=False,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)
        check(done.returncode == 0, "%s: %d would drain the node\n%s" % (
            script, done.returncode, done.stdout))
        return done.stdout

    def pid(self, job):
        with open(os.path.join(self.spool, str(job), "pid"), encoding="ascii") as file:
            return int(file.read())

    def begun(self, job):
        """Waits until it samples."""
        end = time.monotonic() + 20
        links = []
        while time.monotonic() < end and not any("bpf_link" in link or "perf_event" in link
                                                 for link in links):
            time.sleep(0.1)
            folder = "/proc/%d/fd" % self.pid(job)
            links = []
            for name in os.listdir(folder):
                with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                    links.append(os.readlink(os.path.join(folder, name)))
        time.sleep(0.5)

    def files(self, job):
        path = os.path.join(self.shared, str(job))
        return sorted(os.listdir(path)) if os.path.isdir(path) else None

    def marks(self):
        return os.listdir(os.path.join(self.spool, "present"))

    def stop(self):
        for job in os.listdir(self.spool) if os.path.isdir(self.spool) else []:
            try:
                os.kill(self.pid(job), 9)
            except OSError:
                pass


def number():
    return 10 ** 6 + secrets.randbelow(10 ** 6)


def wanted():
    return sorted(HOST + suffix for suffix in (".folded", ".html", ".json", ".pb.gz"))


@test(modes=("root",))
def a_job(context):
    """One folder per job, a set of files per node in it, the user's own; ranks and job are labels."""
    node, job = Node(context), number()
    began = time.monotonic()
    node.run("prolog", job)
    check(time.monotonic() - began < 5, "the prolog holds up the job")
    node.begun(job)
    status = open("/proc/%d/status" % node.pid(job), encoding="ascii").read()
    check("CapBnd:\t000000c400000004" in status, status)
    ranks = [context.spawn([context.target("tiny_gO2").path, "60"], user=NOBODY, group=NOBODY,
                           env={"RANK": rank, "WORLD_SIZE": "2", "SLURM_JOB_ID": str(job)})
             for rank in "01"]
    time.sleep(2)
    for rank in ranks:
        rank.kill()
        rank.wait()
    node.run("epilog", job)
    check(node.files(job) == wanted(), str(node.files(job)))
    path = os.path.join(node.shared, str(job))
    for name in [".", *node.files(job)]:
        check(os.stat(os.path.join(path, name)).st_uid == NOBODY, name + " is not the user's")
    check(os.listdir(node.spool) == ["present"] and not node.marks(),
          "left over: %s, %s" % (os.listdir(node.spool), node.marks()))
    with open(os.path.join(path, HOST + ".pb.gz"), "rb") as file:
        found = {sample["labels"].get("rank") for sample in Pprof(file.read()).samples
                 if sample["labels"].get("slurm_job") == str(job)}
    check(found - {None} == {"0", "1"}, str(found))  # epilog and bpfprof have no rank
    with open(os.path.join(path, HOST + ".folded"), encoding="utf-8") as file:
        text = file.read()
    check("\nrank 0;" in text or "\njob %d rank 0;" % job in text, text[:1000])


@test(modes=("root",))
def not_asked_for(context):
    """JOBS=comment: only jobs that say so; no configuration, no number: nothing happens."""
    node, job = Node(context, JOBS="comment"), number()
    node.run("prolog", job, SLURM_JOB_COMMENT="my run")
    node.run("epilog", job)
    check(os.listdir(node.spool) == ["present"] and node.files(job) is None, "it was recorded")
    for bad in ("", "../7", "7;true"):
        node.run("prolog", bad, SLURM_JOB_COMMENT="bpfprof")
        node.run("epilog", bad)
    node.run("prolog", job, SLURM_JOB_COMMENT="bpfprof", BPFPROF_SLURM_CONF="/nowhere")
    check(node.marks() == [] and os.listdir(node.spool) == ["present"], "something was made")
    node.run("prolog", job, SLURM_JOB_COMMENT="please bpfprof")
    node.begun(job)
    node.run("epilog", job)
    check(node.files(job) == wanted(), str(node.files(job)))


@test(modes=("root",))
def other_users(context):
    """No other user gets data recorded while a user's job was there, before or after his own job."""
    node, mine, other, later = Node(context), number(), number(), number()
    theirs = {"SLURM_JOB_UID": "4321", "SLURM_JOB_COMMENT": ""}
    node.conf(JOBS="comment")
    node.run("prolog", other, **theirs)
    text = node.run("prolog", mine, SLURM_JOB_COMMENT="bpfprof")
    check("jobs of other users are on this node: %d" % other in text, text)
    check(not os.path.exists(os.path.join(node.spool, str(mine))), "it is recorded")
    node.run("epilog", mine)
    node.run("epilog", other, **theirs)
    old = context.scratch("cgroup/system.slice/slurmstepd.scope/job_%d" % later, 0o755)
    node.conf(JOBS="comment", CGROUPS=context.path("cgroup"))
    text = node.run("prolog", mine, SLURM_JOB_COMMENT="bpfprof")
    check("jobs of other users are on this node: %d" % later in text, text)
    os.rmdir(old)
    node.run("prolog", mine, SLURM_JOB_COMMENT="bpfprof")
    node.begun(mine)
    node.run("prolog", later, **theirs)
    node.run("epilog", later, **theirs)
    text = node.run("epilog", mine)
    check("came onto the node" in text and node.files(mine) is None, text)
    check(set(wanted()) <= set(os.listdir(os.path.join(node.spool, str(mine)))), "files are gone")
    # A folder of another user, under the number that the next job will have.
    node.conf(JOBS="all", CGROUPS=context.path("cgroup"))
    folder, victim = os.path.join(node.shared, str(other)), context.path("victim.txt")
    with open(victim, "w", encoding="ascii") as file:
        file.write("mine\n")
    os.chown(victim, NOBODY, NOBODY)
    os.mkdir(folder)
    os.chmod(folder, 0o777)
    os.chown(folder, 4321, 4321)
    for suffix in (".folded", ".html", ".json", ".pb.gz"):
        os.symlink(victim, os.path.join(folder, "." + HOST + suffix + ".part"))
    node.run("prolog", other)
    node.begun(other)
    text = node.run("epilog", other)
    check("cannot write" in text, text)
    with open(victim, encoding="ascii") as file:
        check(file.read() == "mine\n", "written through another user's link")


@test(modes=("root",))
def shared_nodes_and_folders(context):
    """A second job on the node is not recorded; a user's link leads root nowhere; no right to write."""
    node, one, two, three = Node(context), number(), number(), number()
    victim = context.scratch("victim", 0o755)
    os.symlink(victim, os.path.join(node.shared, str(one)))
    node.run("prolog", one)
    node.begun(one)
    text = node.run("prolog", two)
    check("not recorded, for job %d" % one in text, text)
    check(sorted(os.listdir(node.spool)) == [str(one), "present"], str(os.listdir(node.spool)))
    node.run("epilog", two)
    text = node.run("epilog", one)
    check("cannot write" in text, text)
    check(not os.listdir(victim), "written as root: %s" % os.listdir(victim))
    check(node.files(two) is None, "the second job has files")
    kept = os.listdir(os.path.join(node.spool, str(one)))
    check(set(wanted()) <= set(kept), "what could not be written is gone: %s" % kept)
    os.chmod(node.shared, 0o755)
    node.run("prolog", three)
    node.begun(three)
    os.kill(node.pid(three), 9)  # the recording is lost, the node is not
    node.run("epilog", three)
    check(node.files(three) is None and not os.path.exists(os.path.join(node.spool, str(three))),
          "kill -9: %s" % node.files(three))
