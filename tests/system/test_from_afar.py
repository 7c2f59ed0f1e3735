# SPDX-License-Identifier: Apache-2.0
"""What runs at the far end of ssh and kubectl exec: clock, --end-with-stdin, report of a bundle."""

import os
import pty
import re
import shutil
import signal
import subprocess
import time

from harness import BPFPROF, ROOT, check, test
from pprof import Pprof

LIGHT = True


@test()
def clock(context):
    """The time at once, and once more for each line."""
    process = context.start("clock", stdin=subprocess.PIPE)
    shown = []
    for _ in range(3):
        before = time.time()
        shown.append(float(process.stdout.readline()))
        check(before - 5 < shown[-1] < time.time(), "%s is not now" % shown[-1])
        process.stdin.write(b"\n")
        process.stdin.flush()
    process.stdout.readline()
    context.finish(process, 10).expect(0)
    check(shown == sorted(shown), str(shown))


@test()
def end_with_stdin(context):
    """Each command ends when its standard input does, writes what it has, and leaves no process."""
    target = context.spawn(["/usr/bin/python3", "-c", "while True: pass"])
    for words in (["record", "-p", target.pid, "-o", "x.folded"],
                  ["memory", "-p", target.pid, "-o", "x.folded"],
                  ["gpu", "--once", "-d", "600", "-p", target.pid]):
        process = context.start(*words, "--end-with-stdin", stdin=subprocess.PIPE)
        context.sampling(process)
        time.sleep(0.5)
        check(process.poll() is None, "%s has ended" % words[0])
        process.stdin.close()
        process.stdin = None
        ended = time.monotonic()
        context.finish(process, 20).expect(0)
        context.note("%s: %.2f s" % (words[0], time.monotonic() - ended))
    check("python3;" in context.text("x.folded"), context.text("x.folded")[-500:])
    run = context.bpfprof("record", "-p", target.pid, "--end-with-stdin", "-o", "y.folded",
                          stdin=subprocess.DEVNULL).expect(0)
    check(run.seconds < 10, "it does not see that its input has ended")


@test()
def bundle(context):
    """Two profiles on one standard input are as two files; a bad one is left out; a bundle that is cut off is refused."""
    target = context.spawn(["/usr/bin/python3", "-c", "while True: pass"])
    for name in ("a", "b"):
        context.bpfprof("record", "-p", target.pid, "-d", 1, "-o", name + ".pb.gz").expect(0)
    files = [context.read(name + ".pb.gz") for name in ("a", "b")]
    data = b"bpfprof-files\n" + b"".join(
        b"%d file %d\n" % (len(file), i) + file for i, file in enumerate(files))

    def report(data, *words):
        return subprocess.run([BPFPROF, "report", "-", *words], input=data, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    done = report(data, "--format", "pprof", "-o", "-")
    both = sum(one["values"][0] for file in files for one in Pprof(file).samples)
    merged = sum(one["values"][0] for one in Pprof(done.stdout).samples)
    check(merged == both, "%d samples, not %d: %s" % (merged, both, done.stderr))
    done = report(data[:-10])
    check(done.returncode == 1 and b"the bundle of files is cut off" in done.stderr, str(done))
    done = report(data.replace(b" file 1", b" file 1 is", 1).replace(files[1], b"x" * len(files[1])))
    check(done.returncode == 5 and b"file 1 is: " in done.stderr, str(done))
    done = report(data.replace(files[1], files[1][:-20] + bytes(20)), "--format", "pprof", "-o", "-")
    good = sum(one["values"][0] for one in Pprof(files[0]).samples)
    left = sum(one["values"][0] for one in Pprof(done.stdout).samples)
    check(done.returncode == 5 and left == good and b"file 1: " in done.stderr, "%d of %d: %s" % (left, good, done))
    done = report(b"bpfprof-files\n3 a\nxxx3 b\nyyy")
    check(done.returncode == 1 and b"a: " in done.stderr and b"b: " in done.stderr, str(done))


# As sshd runs a command: by the user's shell, in one line. Each host is this machine by another name.
SSH = """#!/bin/sh
while case $1 in -o) ;; *) false ;; esac; do shift 2; done
[ $1 = -- ] && shift
export BPFPROF_HOST=$1
[ $1 != lost ] || { echo "ssh: connect to host lost port 22: No route to host" >&2; exit 255; }
exec sh -c "$2"
"""


def cluster_with(context, hosts):
    """bpfprof cluster with these hosts, as a function."""
    folder = context.scratch("bin", 0o755)
    for source, name in ((BPFPROF, "bpfprof"), (os.path.join(ROOT, "deploy/k8s/kubectl-bpfprof"),
                                                "bpfprof-cluster")):
        shutil.copy(source, os.path.join(folder, name))
    with open(os.path.join(folder, "ssh"), "w", encoding="ascii") as file:
        file.write(SSH)
    os.chmod(file.name, 0o755)
    with open(context.path("hosts"), "w", encoding="ascii") as file:
        file.write(hosts)

    def cluster(command, *words, status=0, start=None, **env):
        done = (subprocess.Popen if start else subprocess.run)(
            [folder + "/bpfprof", "cluster", command, "--remote=%s/bpfprof" % folder, *map(str, words)],
            cwd=context.dir, env={"PATH": folder + ":/usr/bin:/bin", **env},
            **start or {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": 120, "check": False})
        if start:
            return done
        check(done.returncode == status, "%d\n%s\n%s" % (done.returncode, done.stdout, done.stderr))
        return done
    return cluster


@test(modes=("root",))
def cluster_by_ssh(context):
    """bpfprof cluster --hosts: one profile of all hosts; the one that cannot be reached is named."""
    cluster = cluster_with(context, "# of the test\none\n\ntwo # the second\nlost\n")
    target = context.spawn(["/usr/bin/python3", "-c", "while True: pass"], plain=True)
    done = cluster("record", "--hosts", "hosts", "-p", target.pid, "-d", 2, "-o", "it's all.pb.gz", status=5)
    context.note(done.stderr)
    check("\n  lost: does not answer: ssh: connect to host lost port 22: No route to host" in done.stderr,
          done.stderr)
    hosts = {one["labels"]["host"] for one in Pprof(context.read("it's all.pb.gz")).samples}
    check(hosts == {"one", "two"}, str(hosts))
    check("2 nodes, each beside the mean of the others" in done.stdout, done.stdout)
    with open(context.path("hosts"), "w", encoding="ascii") as file:
        file.write("one\ntwo\n")
    done = cluster("dump", "--hosts", "hosts", "-p", target.pid)
    check("one:\nProcess %d" % target.pid in done.stdout and "two:\n" in done.stdout, done.stdout)
    cluster("record", "-d", 1, status=2)


@test(modes=("root",))
def cluster_words(context):
    """No word becomes a command of root's there, or a flag that the script needs itself; values may stand in the flag."""
    cluster = cluster_with(context, "one\n")
    for words, wanted in ((["-d", 1, "--", "touch", context.path("made")], "--: each word must be a flag of record"),
                          (["-d1", "--stats", context.path("made")], "--stats: not for a run on several machines"),
                          (["-d1", "--start-at=0"], "--start-at=0: not for"), (["--end-with-stdin"], "not for"),
                          (["--duration=x"], "-d x: must be"), (["-ox.png"], "-o x.png: what one file"),
                          (["--output=x.png"], "-o x.png: what one file")):
        done = cluster("record", "--hosts=hosts", *words, status=2)
        check(wanted in done.stderr, done.stderr)
    check(not os.path.exists(context.path("made")), "a word after -- was run")


@test(modes=("root",))
def cluster_outputs(context):
    """-o is opened before the recording begins, and made for good with a result only; parts are kept without a report."""
    cluster = cluster_with(context, "one\n")
    done = cluster("record", "--hosts=hosts", "-d1", "-o", "no/x.html", status=1)
    check("-o no/x.html: cannot be written" in done.stderr and "same moment" not in done.stderr, done.stderr)
    with open(context.path("lost"), "w", encoding="ascii") as file:
        file.write("lost\n")
    cluster("record", "--hosts=lost", "-d1", "-o", "x.html", status=1)
    check(not os.path.exists(context.path("x.html")), "an empty x.html is left")
    with open(context.path("bin", "report"), "w", encoding="ascii") as file:
        file.write("#!/bin/sh\nexit 1\n")
    os.chmod(file.name, 0o755)
    target = context.spawn(["/usr/bin/python3", "-c", "while True: pass"], plain=True)
    done = cluster("record", "--hosts=hosts", "-d1", "-p", target.pid, status=1, BPFPROF=file.name)
    kept = re.search(r"the parts are in (/\S+)", done.stderr).group(1)
    context.stack.callback(shutil.rmtree, kept)
    with open(os.path.join(kept, "one.pb.gz"), "rb") as file:
        check(Pprof(file.read()).samples, "an empty part")


@test(modes=("root",))
def cluster_screen(context):
    """top on a terminal shows one screen after the other, until Ctrl-C."""
    cluster = cluster_with(context, "one\n")
    target = context.spawn(["/usr/bin/python3", "-c", "while True: pass"], plain=True)
    screen, terminal = pty.openpty()
    process = cluster("top", "--hosts=hosts", "-p", target.pid, "--delay=0.5",
                      start={"stdin": subprocess.DEVNULL, "stdout": terminal, "start_new_session": True})
    context.stack.callback(process.kill)
    os.close(terminal)
    shown = b""
    while shown.count(b"\033[H\033[J") < 3:
        shown += os.read(screen, 65536)
    check(shown.count(b"one:\r\n") >= 2, shown[-2000:])
    os.killpg(process.pid, signal.SIGINT)
    check(process.wait(timeout=20) == 130, "exit status %s" % process.returncode)
    os.close(screen)


KUBECTL = """#!/bin/sh
case " $* " in
*" get rayjob "*) [ -e asked ] || printf train; : >asked ;;
*" -n bpfprof get pods "*) printf 'node-a|agent-a|Running\\nnode-b|-i|Running\\n' ;;
*" get pods "*) printf 'node-a|ml|worker-0|u0|Running|\\nnode-a|ml|--x|u1|Running|\\nnode-b|ml|\\033[2J*|u2|Running|\\nnode-b|ml|worker-3|u3|Running|\\n' ;;
*" exec -i agent-a -c bpfprof -- bpfprof dump --pod ml/worker-0 ") printf 'a stack\\033[2J\\n' ;;
*) echo "wrong: $*" >&2; exit 1 ;;
esac
"""


@test()
def kubectl_names(context):
    """Names of the API server are names or refused; a list that cannot be had again is a failure, not a silent end."""
    folder = context.scratch("bin", 0o755)
    with open(os.path.join(folder, "kubectl"), "w", encoding="ascii") as file:
        file.write(KUBECTL)
    os.chmod(file.name, 0o755)
    done = subprocess.run([os.path.join(ROOT, "deploy/k8s/kubectl-bpfprof"), "dump", "rayjob/train"], cwd=context.dir,
                          env={"PATH": folder + ":/usr/bin:/bin"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=60, check=False)
    check(done.returncode == 5 and done.stdout == "node node-a:\na stack[2J\n\n", str(done))
    for wanted in ("pod ml/--x on node-a: not a name\n", "pod ml/[2J* on node-b: not a name\n",
                   "node node-b: its agent is not a name: ml/worker-3",
                   "the pods cannot be listed again: whether one moved is not known\n"):
        check(wanted in done.stderr, done.stderr)
