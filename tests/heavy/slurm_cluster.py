# SPDX-License-Identifier: Apache-2.0
"""A controller and three nodes of Slurm on this machine, for one test: ports of its own, gone at its end."""

import os
import secrets
import socket
import subprocess
import time

from containers import wait_for
from harness import BPFPROF, ROOT, check

PACKAGES = None  # where Debian's packages are unpacked
NODES = ("n1", "n2", "n3")
CONF = """ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
PluginDir={packages}/usr/lib/x86_64-linux-gnu/slurm-wlm
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldPort={port}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
Prolog={folder}/prolog
Epilog={folder}/epilog
PrologFlags=Alloc
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[0]} CPUs=2 RealMemory=1000
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=1000
NodeName=n3 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=1000
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
# As on a node of its own: the three nodes have folders and names of their own.
SCRIPT = """#!/bin/sh
export BPFPROF_HOST=$SLURMD_NODENAME BPFPROF_SLURM_CONF={folder}/conf.$SLURMD_NODENAME PATH=/usr/bin:/bin:/usr/sbin:/sbin
exec {root}/deploy/slurm/{name}
"""
# What a host's own bpfprof is: its name is that of the node.
PROGRAM = """#!/bin/sh
BPFPROF_HOST=$SLURMD_NODENAME exec {program} "$@"
"""


def free_ports(nr):
    sockets = [socket.socket() for _ in range(nr)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Slurm:
    """env finds its commands, its configuration and bpfprof."""

    def __init__(self, context):
        self.context = context
        self.folder = context.path("slurm")
        self.shared = context.scratch("shared", 0o1777)
        port, *ports = free_ports(1 + len(NODES))
        os.makedirs(self.folder + "/state")
        os.chmod(self.folder, 0o755)
        self.write("slurm.conf", CONF.format(folder=self.folder, packages=PACKAGES, port=port, ports=ports))
        for name in ("prolog", "epilog"):
            self.write(name, SCRIPT.format(folder=self.folder, root=ROOT, name=name), 0o755)
        self.program = self.write("bpfprof", PROGRAM.format(program=BPFPROF), 0o755)
        for node in NODES:
            self.write("conf." + node, "SHARED='%s'\nSPOOL='%s/spool.%s'\nBPFPROF='%s'\nRATE=199\nJOBS=comment\n" % (
                self.shared, self.folder, node, BPFPROF))
        self.write("munge.key", secrets.token_hex(64), 0o600)
        libraries = PACKAGES + "/usr/lib/x86_64-linux-gnu"
        self.env = {"PATH": "%s/usr/bin:%s:/usr/bin:/bin:/usr/sbin:/sbin" % (PACKAGES, self.folder),
                    "SLURM_CONF": self.folder + "/slurm.conf",
                    "LD_LIBRARY_PATH": libraries + ":" + libraries + "/slurm-wlm"}
        context.stack.callback(self.stop)
        self.processes = []
        self.start("munged", "--foreground", "--force", *["--%s=%s/munge.%s" % (key, self.folder, end) for key, end in (
            ("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed"))])
        wait_for("munged", lambda: os.path.exists(self.folder + "/munge.socket"), 20)
        self.start("slurmctld-wlm", "-D", "-f", self.folder + "/slurm.conf")
        for node in NODES:
            self.start("slurmd-wlm", "-D", "-f", self.folder + "/slurm.conf", "-N", node, "-d",
                       PACKAGES + "/usr/sbin/slurmstepd-wlm")
        wait_for("the nodes are not idle: " + self.log(), lambda: self.run(
            "sinfo", "--noheader", "-o", "%t %D").strip() == "idle 3", 60)

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def start(self, program, *words):
        with open(self.folder + "/log", "ab") as log:
            self.processes.append(subprocess.Popen(
                [PACKAGES + "/usr/sbin/" + program, *words], env=self.env, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True))

    def log(self):
        with open(self.folder + "/log", encoding="utf-8", errors="replace") as file:
            return file.read()[-3000:]

    def run(self, *words, status=0, user=None):
        rights = {"user": user, "group": user, "extra_groups": []} if user else {}
        done = subprocess.run(words, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              check=False, timeout=120, cwd=self.context.dir, **rights)
        check(done.returncode == status, "%s: %d\n%s\n%s\n%s" % (
            " ".join(words), done.returncode, done.stdout, done.stderr, self.log()))
        self.said = done.stderr
        return done.stdout

    def stop(self):
        for job in self.run("squeue", "--noheader", "-o", "%A").split() if len(self.processes) > 1 else []:
            self.run("scancel", job)
        wait_for("jobs go on", lambda: len(self.processes) < 2 or not self.run("squeue", "--noheader").strip(), 60)
        for process in reversed(self.processes):
            process.terminate()
            time.sleep(0.2)
        for process in self.processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
