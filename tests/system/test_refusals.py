# SPDX-License-Identifier: Apache-2.0
"""Work that was refused is counted for the tenant that asked for it; /readyz says when reading does not go on."""

import json
import os
import re
import signal
import subprocess
import time

from containers import wait_for
from daemons import get, metrics_of
from harness import BPFPROF, CAPS, check, test
from test_daemon_http_limits import listening
from test_loop import TENANT, Neighbour, map_files, mount, let_go, silence, texts_of

BESIDE = True
LOCK = "loop"
NR_FILES = 8000  # more than one tenant may have: half of 4 MiB are about 5,000
STUCK_S = 10
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
