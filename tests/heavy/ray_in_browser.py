# SPDX-License-Identifier: Apache-2.0
"""The buttons of Ray's own page, pressed in Chromium, with the stand-ins on PATH: a test for tests/heavy/browser.

The pictures of all dialogs and answers are in build/heavy/pages.
"""

import json
import os
import re
import secrets
import shutil
import subprocess

import jobs
from harness import CAPS, Skip, check, test
from slurm_cluster import free_ports
from standins import ALL, Agent, standin

PAGES = os.path.join(jobs.BUILD, "pages")
ATTEMPTS = 3  # on a busy machine the raylet does not wait long enough for its own agents
# What the page of each button shows: its type, and texts in it.
WANTED = {
    "stack": ("text/plain", "Process ", "Python v", "    Sleeper.sleep (clicked.py:"),
    "stack-native": ("text/plain", "    Sleeper.sleep (clicked.py:", "(libc.so.6)"),
    "flamegraph": ("image/svg+xml", "Trainer.rest (clicked.py:", "Stacks: "),
    "raw": ("text/plain", ";Trainer.rest (clicked.py:"),
    "speedscope": ("text/plain", "speedscope.app/file-format-schema.json", "Trainer.rest"),
    "memory": ("text/html", "Trainer.hold"),
    "memory-table": ("text/html", "Trainer.hold"),
    "worker-stack": ("text/plain", "Process ", "    Sleeper.sleep (clicked.py:"),
    "worker-flamegraph": ("image/svg+xml", "Trainer.rest (clicked.py:"),
    "worker-memory": ("text/html", "Trainer.hold"),
}


def started(context):
    """A Ray job with a dashboard, in an environment that finds the stand-ins: (its address, its token)."""
    tools, token = context.scratch("tools", 0o755), secrets.token_hex(16)
    folder = os.path.dirname(standin())
    for name in ("py-spy", "memray"):
        shutil.copy(os.path.join(folder, name), tools)
    agent = Agent(context)
    for number in range(ATTEMPTS):
        (port,) = free_ports(1)
        job = jobs.Target("clicked.py", str(port), env={
            **os.environ, **agent.env(ALL), "PATH": tools + ":" + os.environ["PATH"], "RAY_AUTH_TOKEN": token,
            "RAY_TMPDIR": context.path("r%d" % number), "RAY_DASHBOARD_ENABLE_PROFILING": "1", "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_DASHBOARD_STARTUP_TIMEOUT_S": "300", "RAY_raylet_start_wait_time_s": "60"})
        context.stack.callback(job.stop)
        if any(line.startswith("facts {\"") for line in job.process.stdout):
            return "http://127.0.0.1:%d" % port, token
        job.stop()
    raise Skip("Ray does not start here")


@test(modes=CAPS)
def ray_buttons(context):
    """Stack Trace, CPU Flame Graph and Memory Profiling of actors, by their dialogs, in each format; of workers, on the cluster's page."""
    if not jobs.install(["ray", "aiohttp", "grpc"], ["ray[default]"]):
        raise Skip("no ray[default]")
    os.makedirs(PAGES, exist_ok=True)
    done = subprocess.run([jobs.PYTHON, os.path.join(jobs.HERE, "ray_clicks.py"), *started(context), context.scratch("browser"),
                           PAGES], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=700, check=False)
    said = {one["name"]: one for one in map(json.loads, done.stdout.splitlines())}
    check(done.returncode == 0 and set(said) == set(WANTED), "%s: %s" % (list(said), done.stderr[-2000:]))
    for name, (kind, *texts) in WANTED.items():
        page = said[name]
        missing = [text for text in texts if text not in page["text"]]
        check(page["type"] == kind and not missing, "%s: %s without %s: %s" % (name, page["type"], missing, page["text"][:1000]))
    check(all(re.fullmatch(r".+ \d+", line) for line in said["raw"]["text"].splitlines()), said["raw"]["text"][:500])
    context.note("%d pages, pictures in %s" % (len(said), os.path.relpath(PAGES, jobs.TOP)))
