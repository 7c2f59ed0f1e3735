# SPDX-License-Identifier: Apache-2.0
"""bpfprof in a root folder of its own, without the node's files: they are read from memory, and it says so."""

import os
import shutil
import subprocess
import time

import chains
import containers
from harness import BPFPROF, ROOT, check, test

HZ = 499
SECONDS = 3
EXPECT = os.path.join(ROOT, "tests", "system", "targets", "calls.expect")
SCRIPT = """\
def spin(n):
    for i in range(n):
        pass
def run():
    while True:
        spin(20000)
run()
"""


class Watched:
    """A target under another name."""

    twin = None
    expect = EXPECT

    def __init__(self, name, path):
        self.name, self.path = name, path


def copy(source, to):
    os.makedirs(os.path.dirname(to), exist_ok=True)
    shutil.copy(source, to)


def mount(context, path, *words):
    os.makedirs(path, exist_ok=True)
    subprocess.run(["mount", *words, path], check=True)
    context.stack.callback(lambda: subprocess.run(["umount", "-l", path], check=False))


class Box:
    """A root folder with bpfprof and its libraries only; it lies in memory, on no disk of the node."""

    def __init__(self, context):
        self.context = context
        self.path = context.path("box")
        mount(context, self.path, "-t", "tmpfs", "none")
        for program in (BPFPROF, shutil.which("setpriv")):
            for path in (program, *containers.libraries(program)):
                copy(path, self.path + path)
        mount(context, self.path + "/proc", "-t", "proc", "none")
        mount(context, self.path + "/sys", "--rbind", "/sys")
        os.makedirs(self.path + "/out")

    def enter(self):
        os.chroot(self.path)
        os.chdir("/out")

    def run(self, *args, timeout=60):
        return self.context.bpfprof(*args, timeout=timeout, preexec_fn=self.enter)

    def take(self, name):
        shutil.move(self.path + "/out/" + name, self.context.path(name))


def targets(context):
    """A program that exports its functions, and a Python."""
    program = context.path("near/rfar")
    copy(context.target("calls_gO2rdyn").path, program)
    os.chmod(context.path("near"), 0o755)
    context.spawn([program, 60])
    script = context.path("pfar.py")
    with open(script, "w", encoding="ascii") as file:
        file.write(SCRIPT)
    python = context.spawn([os.path.realpath("/usr/bin/python3"), script])
    time.sleep(0.5)
    return Watched("rfar", program), python


def check_whole(context, watched, python):
    results = chains.check([watched], context.text("x.folded"))
    result = results[watched.name]
    check(result.samples >= 50 and not result.missing() and
          result.counts["exact"] >= 0.97 * result.samples, "%s\n%s" % (
              chains.table(results), context.json("x.json")))
    with open("/proc/%d/comm" % python.pid, encoding="ascii") as file:
        name = file.read().strip()
    stacks = [(frames, count) for process, frames, count in chains.read_folded(
        context.text("x.folded")) if process == name]
    total = sum(count for _, count in stacks)
    named = sum(count for frames, count in stacks if any("run (" in frame for frame in frames))
    context.note("%d of %d samples of the Python have its functions" % (named, total))
    check(total >= 50 and named >= 0.9 * total, str(stacks[:5]))


def record(context, run, *options):
    """Records the node; the warning that it gives, or ""."""
    done = run("record", "-F", HZ, "-d", SECONDS, "-o", "x.folded", "--stats", "x.json",
               *options).expect(0)
    lines = [line for line in done.text.splitlines() if "--host-root" in line]
    check(len(lines) < 2, "said more than once: %s" % lines)
    return "".join(lines)


@test()
def nothing(context):
    """Without the node's files, stacks are whole, exported functions have names, and --host-root is advised."""
    box = Box(context)
    watched, python = targets(context)
    warning = record(context, box.run)
    box.take("x.folded")
    box.take("x.json")
    check_whole(context, watched, python)
    check("root folder" in warning, "no advice")
    stats = context.json("x.json")
    check(stats["files"].get("file_from_memory", 0) >= 3, str(stats["files"]))
    # Reading from memory does not hold up the loop.
    check(stats["duration_seconds"] < 2 * SECONDS, str(stats))
    text = box.run("top", "--once", "--delay", 1).expect(0).text
    check(text.count("--host-root") == 1, text)
    text = box.run("doctor").text
    check("host_root" in text and "--host-root /host" in text, text)
    text = box.run("dump", "--native", "-p", python.pid).expect(0).text
    check("spin" in text and "pfar.py" in text, text)


@test()
def host_root(context):
    """With the node's root folder in its own one, all is as on the node, and nothing is advised."""
    box = Box(context)
    mount(context, box.path + "/host", "--rbind", "/")
    watched, python = targets(context)
    check(not record(context, box.run, "--host-root", "/host"), "advice")
    box.take("x.folded")
    box.take("x.json")
    check_whole(context, watched, python)


@test()
def one_container(context):
    """One process has files that no other process has: the message about the root folder does not come."""
    loader = next(one for one in containers.libraries(shutil.which("true")) if "/ld-" in one)
    libc = next(one for one in containers.libraries(shutil.which("true")) if "libc.so" in one)
    folder = context.path("apart")
    os.mkdir(folder)
    script = ("mount -t ramfs none \"$1\" && cp \"$2\" \"$1/xprivate\" && cp \"$3\" \"$1/ld.so\" && "
              "cp \"$4\" \"$1/libc.so.6\" && exec \"$1/ld.so\" --library-path \"$1\" \"$1/xprivate\" 60")
    process = context.spawn(["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh",
                             folder, context.target("calls_gO2rdyn").path, loader, libc],
                            plain=True)
    time.sleep(1)
    check(not record(context, context.bpfprof, "-p", process.pid), "advice")
    check(context.json("x.json")["files"].get("file_from_memory", 0) >= 2,
          str(context.json("x.json")["files"]))
