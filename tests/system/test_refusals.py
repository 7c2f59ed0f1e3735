# SPDX-License-Identifier: Apache-2.0
"""Refused work is counted for its tenant, and /readyz says when reading does not go on."""

import contextlib
import json
import os
import re
import secrets
import subprocess
import time

import containers
from containers import wait_for
from daemons import ask, get, metrics_of
from harness import CAPS, Failure, check, test
from test_daemon_http_limits import listening
from test_loop import TENANT, Neighbour, fall_silent, let_go, map_files, texts_of

BESIDE = True
LOCK = "loop"
NR_FILES = 8000  # more than one tenant may have: half of 4 MiB are about 5,000
OTHER = TENANT + 1  # another user


def refused(port):
    """{(container, reason): count} of /metrics."""
    found = {}
    for name, value in metrics_of(get(port, "/metrics")[2]).items():
        match = re.fullmatch(r'bpfprof_refused_total\{container="(.*)",reason="(.*)"\}', name)
        if match:
            found[match.groups()] = value
    return found


def many_files(context):
    folder = context.scratch("many")
    for number in range(NR_FILES):
        with open(os.path.join(folder, "lib%d" % number), "wb") as file:
            file.write(b"x" * 64)
    return folder


@test(modes=CAPS)
def files_of_a_user(context):
    """A user maps more files than its share: /metrics, the log (once) and the profiles name it, and no other one."""
    folder, name = many_files(context), "uid %d" % TENANT
    daemon, port = listening(context)
    daemon.wait("profile written")
    near = Neighbour(context)
    map_files(context, folder, NR_FILES)
    wait_for("no file was refused", lambda: refused(port).get((name, "files"), 0) > 1000, 30)
    daemon.wait("work refused")
    daemon.wait("profile written", len(daemon.said("profile written")) + 3)
    near.end()
    counts = refused(port)
    context.note("refused: %s" % counts)
    check({who for who, why in counts if why == "files"} == {name}, counts)
    lines = [line for line in daemon.said("work refused") if line["reason"] == "files"]
    check(len(lines) == 1 and lines[0]["container"] == name and lines[0]["count"] > 0, lines)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    heads = [json.loads(text.split("\n", 1)[0][2:]) for text in texts_of(daemon)]
    rows = [row for head in heads for row in head.get("refused", []) if row["reason"] == "files"]
    check(rows and all(row["container"] == name and row["count"] > 0 for row in rows), rows)
    total = sum(row["count"] for row in rows)
    check(total >= counts[name, "files"], "%d in the profiles, %d in /metrics" % (total, counts[name, "files"]))
    near.check(context, "\n".join(texts_of(daemon)))


@test(modes=CAPS)
def files_of_a_user_while_recording(context):
    """record has limits of tenants, too, though it reads in its loop: what is refused has their names."""
    folder = many_files(context)
    near = Neighbour(context)
    recording = context.start("record", "-F", 499, "-d", "6", "-o", "x.folded", "--stats", "x.json")
    context.sampling(recording)
    map_files(context, folder, NR_FILES)
    context.finish(recording, 40).expect(0)
    near.end()
    rows = context.json("x.json")["refused"]
    context.note("refused: %s" % rows)
    check(any(row["container"] == "uid %d" % TENANT and row["reason"] == "files" for row in rows), rows)
    check(not [row for row in rows if row["container"] == "unknown"], rows)
    near.check(context, context.text("x.folded"))


def ready(port):
    """The status of /readyz and what it says; None: no answer."""
    with contextlib.suppress(OSError):
        status, _, text = get(port, "/readyz")
        return status, text.strip()
    return None, ""


@contextlib.contextmanager
def threads_stopped(context, daemon, port):
    """All threads of the daemon but its loop are stopped, at a moment when the loop does not wait for one."""
    for _ in range(60):
        with subprocess.Popen([context.helper("stop_threads", "stop_threads.c"), str(daemon.process.pid)],
                              stdout=subprocess.PIPE) as stopper:
            try:
                check(stopper.stdout.readline() == b"stopped\n", "the threads were not stopped")
                if all(ask_quickly(port) for _ in range(3)):
                    yield
                    return
            finally:
                stopper.kill()
    raise Failure("the loop always waits for the thread")


def ask_quickly(port):
    with contextlib.suppress(OSError):
        return b" 200 " in ask(port, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 0.5)
    return False


@test(modes=CAPS)
def ready_again(context):
    """/readyz says when the thread that reads files and processes does not go on, and when it does again."""
    daemon, port = listening(context)
    check(ready(port) == (200, "ok"), ready(port))
    with threads_stopped(context, daemon, port):
        stopped = time.monotonic()
        wait_for("still ready", lambda: ready(port)[0] == 503, 30)
        after = time.monotonic() - stopped
        said = ready(port)[1]
        context.note("after %.1f s: %s" % (after, said))
        check(re.fullmatch(r"not ready: reading files and processes has not gone on for 1\d s", said), said)
        check(get(port, "/healthz")[0] == 200, "not healthy")
    wait_for("not ready again", lambda: ready(port) == (200, "ok"), 10)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)


@test(modes=CAPS)
def all_calls_hang(context):
    """Two users have more silent file systems than calls may hang: /readyz and the refused calls say so."""
    servers = fall_silent(context, [TENANT] * 20 + [OTHER] * 12)
    daemon, port = listening(context)
    wait_for("still ready", lambda: ready(port)[0] == 503, 60)
    said = ready(port)[1]
    check(said == "not ready: so many calls to file systems hang that no further one is tried", said)
    name = "uid %d" % TENANT
    wait_for("no call was refused", lambda: refused(port).get((name, "calls"), 0) > 0, 60)
    counts = refused(port)
    context.note("refused: %s" % counts)
    ours = (name, "uid %d" % OTHER, "unknown")
    check(not any(why in ("containers", "environments") and who not in ours for who, why in counts),
          "they used up the time of others")
    check(get(port, "/healthz")[0] == 200, "not healthy")
    let_go(*servers)
    wait_for("not ready again", lambda: ready(port) == (200, "ok"), 30)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)


@test(modes=CAPS)
def files_of_a_container(context):
    """The same of a container, which has the name that its stacks have."""
    containerd = containers.start(context)
    layer = containers.base_layer()
    layer.program(context.helper("map_files", "map_files.c", "-pthread"), "/app/map")
    for number in range(NR_FILES):
        layer.file("/many/lib%d" % number, b"x" * 64)
    daemon, port = listening(context)
    pod = "refused-" + secrets.token_hex(3)
    containerd.run(containerd.image("many", [layer]), ["/app/map", "60", "/many", str(NR_FILES)], name="mapper",
                   pod=containers.Pod(pod, "ml"))
    name = "ml/%s/mapper" % pod
    wait_for("no file was refused", lambda: refused(port).get((name, "files"), 0) > 100, 60)
    wait_for("it is not logged", lambda: name in [line["container"] for line in daemon.said("work refused")], 10)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
