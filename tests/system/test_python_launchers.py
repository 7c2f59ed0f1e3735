# SPDX-License-Identifier: Apache-2.0
"""Python however it was started: copied, renamed, from a venv, by a chain of exec, then deleted."""

import glob
import os
import shutil
import signal
import subprocess
import time

import python_truth as truth
from harness import Skip, check, test
from test_python import FLOOR, HZ, Job, all_pythons

BESIDE = True
WORK = "0.4"  # seconds of CPU time


def whole_program():
    """An interpreter that needs no library of its own: Debian's."""
    for python in all_pythons()[0]:
        if python.name.endswith("-usr"):
            return python
    raise Skip("no Python of Debian here")


def wait_ready(job):
    end = time.monotonic() + 30
    while not glob.glob(os.path.join(job.folder, "*.ready")):
        check(time.monotonic() < end and job.process.poll() is None, "%s does not get ready" %
              job.name)
        time.sleep(0.02)


def run(context, jobs, before, action=None):
    """
    The jobs under a recording that begins before or after they are there; then the
    action; then they work. Each stack must be one that the program can have.
    """
    go = context.path("go")
    profiles = context.path("profiles")
    for job in jobs:
        job.env["TRUTH_SECONDS"] = WORK
        if before:
            job.start(context, go)
            wait_ready(job)
    recording = context.start("record", "-F", HZ, "-o", profiles + "/%p.folded", "--split",
                              "process", "--stats", "stats.json", stderr=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL)
    context.sampling(recording)
    for job in jobs:
        if not before:
            job.start(context, go)
            wait_ready(job)
    time.sleep(0.2)
    if action:
        action()
    with open(go, "w", encoding="ascii"):
        pass
    for job in jobs:
        job.wait()
    time.sleep(0.2)
    recording.send_signal(signal.SIGINT)
    context.finish(recording, 30).expect(0)
    results = [job.result(profiles) for job in jobs]
    for result in results:
        wrong = result.work - result.counts[truth.EXACT] - result.counts[truth.CUT_NATIVE]
        # The bound suits a few hundred samples; the machine may be slow with a library that was just mapped.
        check(result.work > 150 and wrong <= 3 + (100 - FLOOR) / 100 * result.work,
              "%s\nreasons: %s" % (truth.table(results), context.json("stats.json")["stacks"]))
    context.note(", ".join("%s %.2f%% of %d" % (
        one.name, one.percent(truth.EXACT, truth.CUT_NATIVE), one.work) for one in results))


def job_of(context, python, name, program, argv):
    job = Job(context, python, name, program, [], True)
    job.argv = [*argv, job.argv[-1]]
    job.needs = [*job.needs, *(word for word in argv if word.startswith("/"))]
    return job


def copy_of(context, python, name):
    path = os.path.join(context.scratch("copies"), name)
    shutil.copy(os.path.realpath(python.argv[0]), path)
    os.chmod(path, 0o755)
    return path


@test()
def started_otherwise(context):
    """A copy under another name, a venv, a copied venv, uv's venv, chains of exec."""
    python = whole_program()
    place = context.scratch("venvs")
    links, copies, uvs = (os.path.join(place, name) for name in ("links", "copies", "uv"))
    for path, option in ((links, "--symlinks"), (copies, "--copies")):
        subprocess.run([*python.argv, "-m", "venv", "--without-pip", option, path], check=True,
                       env=python.environment())
    copy = copy_of(context, python, "worker")
    jobs = [job_of(context, python, "copy", "plain", [copy]),
            job_of(context, python, "venv", "classes", [os.path.join(links, "bin", "python")]),
            job_of(context, python, "venv-copies", "orders",
                   [os.path.join(copies, "bin", "python")]),
            job_of(context, python, "shell", "generators",
                   ["/bin/sh", "-c", 'sh -c \'exec env "$0" "$@"\' "$@"', "sh", *python.argv])]
    jobs[0].env["PYTHONHOME"] = "/usr"
    uv = shutil.which("uv")
    if uv:
        subprocess.run([uv, "venv", "-q", "--offline", "--python", python.argv[0], uvs], check=True,
                       env=python.environment(), stdin=subprocess.DEVNULL)
        jobs.append(job_of(context, python, "uv", "recursion",
                           [os.path.join(uvs, "bin", "python")]))
    run(context, jobs, False)


@test()
def just_beginning(context):
    """C code that calls short Python functions: each of them stands above its own C code."""
    python = whole_program()
    source = context.path("keys.py")
    with open(source, "w", encoding="ascii") as file:
        file.write("import time\ndef key(x): return -x\ndef work():\n"
                   "    end = time.process_time() + 3\n"
                   "    while time.process_time() < end: sorted(range(2000), key=key)\nwork()\n")
    context.spawn([*python.argv, source], env=python.environment())
    context.bpfprof("record", "-F", HZ, "-d", "2.5", "-o", "keys.folded").expect(0)
    wrong = total = 0
    for frames, count in truth.read_folded(context.text("keys.folded")):
        if "key (keys.py:2)" in frames:
            total += count
            at = frames.index("key (keys.py:2)")
            wrong += count * frames[at - 1].startswith("work (")
    check(total > 50 and wrong <= 1 + total // 1000, "%d of %d stand directly above work()" % (
        wrong, total))
    context.note("%d of %d are not above their own C code" % (wrong, total))


@test()
def deleted(context):
    """The interpreter's file is gone, or another one is in its place, while it runs."""
    python = whole_program()
    gone, replaced = (copy_of(context, python, name) for name in ("gone", "replaced"))
    jobs = [job_of(context, python, "gone", "plain", [gone]),
            job_of(context, python, "replaced", "classes", [replaced])]
    for job in jobs:
        job.env["PYTHONHOME"] = "/usr"

    def action():
        os.unlink(gone)
        shutil.copy("/bin/true", replaced + ".new")
        os.rename(replaced + ".new", replaced)
    run(context, jobs, False, action)
