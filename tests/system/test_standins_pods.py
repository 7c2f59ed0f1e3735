# SPDX-License-Identifier: Apache-2.0
"""The stand-ins in pods: by a token of pods or a socket of the node, by the pids that the pod sees, and no other pod's."""

import contextlib
import os
import re
import subprocess
import threading

import containers
from daemons import token_file
from harness import CAPS, check, descendants, test
from standins import ALL, PROGRAM, TOKEN, Agent, program, run, standin, start_of

BESIDE = True


def image(containerd, path):
    layer = containers.base_layer().copy(path, "/usr/bin/py-spy", mode=0o755)
    layer.file("/app/program.py", PROGRAM.encode())
    return containerd.image("standins", [layer, containers.python_layer(["time", "threading", "socket"])])


@test(modes=CAPS)
def pods(context):
    """In pods: by the pid that the pod sees, of the right container, and of no pod of others."""
    path, containerd = standin(), containers.start(context)
    full = image(containerd, path)
    space = "ray-" + os.path.basename(context.dir)[-8:].replace("_", "x").lower()
    made = []
    for name in ("train-0", "train-1", "other-0"):
        made.append(containerd.run(full, ["/usr/bin/python3", "/app/program.py"],
                                   pod=containers.Pod(name, space), options=["--net-host"]))
    agent = Agent(context, space + "/train-*")
    for container in made[:2]:
        # Each of them is pid 1 in its container.
        status, out, err = container.ask("/usr/bin/py-spy", "dump", "-p", 1, env=agent.env(), user="1000")
        check(status == 0, err)
        check(out.startswith("Process 1: ") and "Thread 1 (active" in out and "program.py" in out, out)
        numbers = [int(number) for number in re.findall(r"^Thread (\d+)", out, re.MULTILINE)]
        check(max(numbers) < 100, "threads have numbers of the node: %s" % numbers)
    status, out, err = made[2].ask("/usr/bin/py-spy", "dump", "-p", 1, env=agent.env())
    check(status == 1 and not out and "no such process here" in err, out + err)
    check(agent.refused().get("other_pod") == 1, "not counted: %s" % agent.refused())
    # A client may say anything about the start; another pod's process stays refused.
    with open("/proc/%d/stat" % made[2].pid, encoding="ascii") as file:
        start = file.read().rpartition(")")[2].split()[19]
    for query in ("pid=1&start=%s" % start, "pid=%d&start=%s" % (made[2].pid, start), "pid=%d" % made[2].pid,
                  "pid=1&start=%s&pod=%s/other-0" % (start, space)):
        status, out, err = run("/usr/bin/curl", "-sw", "%{http_code}", "-H", "Authorization: Bearer " + TOKEN,
                             "http://127.0.0.1:%d/dump?%s" % (agent.port, query))
        check(out[-3:] == "403", query + ": " + out + err)


@test(modes=CAPS)
def socket_of_the_node(context):
    """By the Unix socket, without a token and a network: a container asks about its own pod, whatever it says."""
    path, containerd = standin(), containers.start(context)
    full = image(containerd, path)
    folder = context.scratch("run", 0o755)
    where = os.path.join(folder, "agent.sock")
    space = "sock-" + os.path.basename(context.dir)[-8:].replace("_", "x").lower()
    mine, other = containers.Pod("train-0", space), containers.Pod("train-1", space)
    volumes = [(folder, "/run/bpfprof", "ro")]
    first = containerd.run(full, ["/usr/bin/python3", "/app/program.py"], pod=mine, volumes=volumes)
    beside = containerd.run(full, ["/bin/sh", "-c", "sleep 1000"], pod=mine, name="sidecar", volumes=volumes)
    third = containerd.run(full, ["/usr/bin/python3", "/app/program.py"], pod=other, volumes=volumes)
    agent = Agent(context, space + "/train-1", "--socket", where)
    env = {"BPFPROF_AGENT": "/run/bpfprof/agent.sock"}
    status, out, err = first.ask("/usr/bin/py-spy", "dump", "-p", 1, env=env, user="1000")
    check(status == 0 and out.startswith("Process 1: ") and "program.py" in out, out + err)
    status, out, err = first.ask("/usr/bin/py-spy", "record", "-p", 1, "-d", 1, "-f", "raw", "-o", "/dev/stdout", env=env, user="1000")
    check(status == 0 and "spin (program.py:" in out, out + err)
    first_start, third_start = (start_of(container.pid) for container in (first, third))

    for query, wanted in (("pid=1&start=%s" % third_start, 200), ("pid=1&start=%s" % first_start, 403), ("pid=1", 200)):
        status, body = by_socket_as(third, "/dump?" + query)
        check(status == wanted, "train-1 asks %s: %d %s" % (query, status, body))
    status, body = by_socket_as(beside, "/dump?pid=1&start=%s" % first_start)
    check(status == 200 and "program.py" in body, "another container of the pod: %d %s" % (status, body))
    for query in ("/files/", "/profile?seconds=1", "/dump?pod=*", "/dump?worker=*"):
        status, body = by_socket_as(third, query)
        check(status == 400, "%s: %d %s" % (query, status, body))
    status, body = by_socket(where, "/dump?pid=%d&start=%s" % (first.pid, first_start))
    check(status == 200 and "program.py" in body, "root of the node: %d %s" % (status, body))
    status, body = by_socket(where, "/dump?pid=%d&start=%s" % (first.pid, first_start), user=65534)
    check(status == 403, "another user of the node: %d %s" % (status, body))
    asker = threading.Thread(target=by_socket, args=(where, "/record?pid=%d&seconds=3&format=raw" % first.pid))
    asker.start()
    containers.wait_for("a command with the start of the process", lambda: any(
        b"--pid-start=%s" % first_start.encode() in words for words in commands_of(agent.process.pid)), 10)
    asker.join()
    who = "?pid=%d&start=%s" % (first.pid, first_start)
    status, body = by_socket(where, "/memory/attach" + who)
    check(status == 200, "attach: %d %s" % (status, body))
    def recorders():
        return [words for words in commands_of(agent.process.pid) if b"memory" in words]
    containers.wait_for("commands that record memory", recorders, 10)
    found = recorders()
    check(all(b"--pid-start=%s" % first_start.encode() in words for words in found), str(found))
    status, body = by_socket(where, "/memory/detach" + who)
    check(status == 200, "detach: %d %s" % (status, body))
    before = agent.refused().get("other_pod", 0)
    for query in ("/dump?pid=%d&start=%s" % (first.pid, first_start), "/memory/detach?pid=1"):
        status, body = by_socket_as(third, query, script=ASK_AS_ZOMBIE)
        check(status == 403 and "root of the node" in body, "a process that has ended: %d %s" % (status, body))
    check(agent.refused().get("other_pod", 0) == before + 2, "these are not counted")
    before = nr_of_clients(agent.process.pid)
    clients = [threading.Thread(target=by_socket, args=(where, "/dump?pid=1")) for _ in range(8)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    containers.wait_for("descriptors of clients that were busy or refused",
                        lambda: nr_of_clients(agent.process.pid) <= before, 20)
    check(agent.end() == 0 and not os.path.exists(where), "the socket is left")


OLD_KERNEL = """
#include <dlfcn.h>
#include <errno.h>
#include <sys/socket.h>
int getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
    int (*real)(int, int, int, void *, socklen_t *) = dlsym(RTLD_NEXT, "getsockopt");
    if (level != SOL_SOCKET || name != 77)
        return real(fd, level, name, value, len);
    errno = ENOPROTOOPT;
    return -1;
}
"""


@test(modes=CAPS)
def sockets_refused(context):
    """No Unix socket where the kernel cannot hold on to the process that asks, or where others can replace it."""
    token_file(context, ALL)

    def refuse(where, says, **kwargs):
        done = context.bpfprof("daemon", "--output", context.path("out"), "--listen", "127.0.0.1:0", "--socket", where,
                               "--allow-remote-profiling", context.path("token"), **kwargs).expect(1)
        check(says in done.text, done.text)

    with open(context.path("old.c"), "w", encoding="ascii") as file:
        file.write(OLD_KERNEL)
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", context.path("old.so"), context.path("old.c"), "-ldl"],
                   check=True)
    folder = context.scratch("run", 0o755)
    where = os.path.join(folder, "agent.sock")
    refuse(where, "needs Linux 6.5", env=dict(os.environ, LD_PRELOAD=context.path("old.so")))
    for mode in (0o775, 0o1777):
        os.chmod(folder, mode)
        refuse(where, "only root or the user of the daemon may own its folder")
    check(not os.path.lexists(where), "there is a socket")
    os.chmod(folder, 0o755)
    first = Agent(context, "*", "--socket", where)
    check(os.stat(where).st_mode & 0o777 == 0o666, "mode %o" % os.stat(where).st_mode)
    second = Agent(context, "*", "--socket", where, output=context.path("second"), log="second.log")
    check(first.end() == 0 and os.path.exists(where), "the socket of the second daemon is gone")
    status, body = by_socket(where, "/dump?pid=%d" % first.process.pid)
    check(status == 404, "the second daemon: %d %s" % (status, body))
    check(second.end() == 0 and not os.path.exists(where), "the socket is left")


@test(modes=CAPS)
def other_start(context):
    """A pid that is another process's by now is none: nothing of it is shown."""
    target = program(context)
    start = int(start_of(target.pid))
    for words in (("dump",), ("record", "-d", "1", "-o", "-", "--format", "folded"), ("memory", "-d", "1", "--once")):
        done = context.bpfprof(*words, "-p", target.pid, "--pid-start", start).expect(0)
        check("spin" in done.text or words[0] != "dump", done.text)
        done = context.bpfprof(*words, "-p", target.pid, "--pid-start", start + 1).expect(4)
        check("no such process" in done.text and "spin" not in done.text, done.text)
    context.bpfprof("dump", "--pod", "*", "--pid-start", start).expect(2)


def nr_of_clients(pid):
    """The number of sockets and pidfds of a daemon. Its other descriptors change as programs start."""
    count = 0
    for name in os.listdir("/proc/%d/fd" % pid):
        with contextlib.suppress(OSError):
            link = os.readlink("/proc/%d/fd/%s" % (pid, name))
            count += link.startswith("socket:") or "pidfd" in link
    return count


def commands_of(pid):
    """The words of the children of a process."""
    for child in descendants(pid):
        with contextlib.suppress(OSError), open("/proc/%d/cmdline" % child, "rb") as file:
            yield file.read().split(b"\0")


ASK = """
import os, socket, sys
if len(sys.argv) > 3:
    os.setuid(int(sys.argv[3]))
with socket.socket(socket.AF_UNIX) as peer:
    peer.connect(sys.argv[1])
    peer.sendall(("GET %s HTTP/1.0\\r\\n\\r\\n" % sys.argv[2]).encode())
    while True:
        part = peer.recv(65536)
        if not part:
            break
        sys.stdout.buffer.write(part)
"""


# The process that has connected is a zombie, whose cgroup reads as that of the node.
ASK_AS_ZOMBIE = ASK.replace("    peer.connect(sys.argv[1])\n", """
    if not os.fork():
        peer.connect(sys.argv[1])
        os._exit(0)
    os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
""")


def parsed(answer):
    """(status, body)"""
    head, _, body = answer.replace("\r\n", "\n").partition("\n\n")
    return int(head.split()[1]), body


def by_socket(where, query, user=None):
    """(status, body) of a question by the Unix socket, of a process of the node."""
    done = subprocess.run(["/usr/bin/python3", "-c", ASK, where, query, *([str(user)] if user else [])],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    check(done.stdout, "no answer: %s" % done.stderr)
    return parsed(done.stdout)


def by_socket_as(container, query, script=ASK):
    """The same of a process in a container."""
    _, out, err = container.ask("/usr/bin/python3", "-c", script, "/run/bpfprof/agent.sock", query)
    check(out, "no answer: %s" % err)
    return parsed(out)
