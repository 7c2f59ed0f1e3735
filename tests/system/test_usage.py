# SPDX-License-Identifier: Apache-2.0
"""Bad input and missing privilege: one sentence and the right exit status."""

import glob
import os
import re
import subprocess
import time

from harness import BPFPROF, MODES, ROOT, Skip, check, test

BESIDE = True
WRONG = [
    ["record", "--no-such-flag"],
    ["record", "-F", "0"],
    ["record", "-F", "10001"],
    ["record", "-F", "-5"],
    ["record", "-F", "99.5"],
    ["record", "-F", "abc"],
    ["record", "-r", ""],
    ["record", "-F"],
    ["record", "-d", "0"],
    ["record", "-d", "-1"],
    ["record", "-d", "5x"],
    ["record", "-d", "1e999"],
    ["record", "-d", ""],
    ["record", "-p", "abc"],
    ["record", "-p", "0"],
    ["record", "-p", "-1"],
    ["record", "-p", "99999999999999999999"],
    ["record", "-p", ""],
    ["record", "--comm", ""],
    ["record", "--clock", "sundial"],
    ["record", "--event", "lunar"],
    ["record", "--split", "hairs"],
    ["record", "--format", "png"],
    ["record", "-o", "x.png"],
    ["record", "-o", ""],
    ["record", "-o", "-"],
    ["record", "-o", "%q.folded"],
    ["record", "-o", "%{.folded"],
    ["record", "-o", "x.folded", "-o", "x.folded"],
    ["record", "stray"],
    ["record", "--"],
    ["record", "--host-root", "/no/such/folder"],
    ["no-such-command"],
    [],
]


def one_sentence(done):
    """The user's view: a single line on standard error, and nothing else."""
    lines = done.err.decode("utf-8").strip().splitlines()
    check(len(lines) == 1, "not one sentence but %d lines:\n%s" % (len(lines), done.text))
    check(not done.out, "output beside the message: %r" % done.out)
    check(len(lines[0]) > 20 and " " in lines[0], "says nothing: " + lines[0])
    return lines[0]


@test()
def wrong_arguments(context):
    problems = []
    for arguments in WRONG:
        done = context.bpfprof(*arguments, timeout=10)
        try:
            done.expect(2)
            if arguments:
                one_sentence(done)
        except Exception as failure:  # pylint: disable=broad-except
            problems.append("%s: %s" % (arguments, failure))
    check(not os.listdir(context.dir), "files were made: %s" % os.listdir(context.dir))
    check(not problems, "\n".join(problems))


@test()
def help_texts(context):
    for arguments in (["--help"], *([command, "--help"] for command in COMMANDS)):
        done = context.bpfprof(*arguments, timeout=10).expect(0)
        check(len(done.out) > 200, "%s says too little" % arguments)
    check(b"bpfprof record" in context.bpfprof("record", "--help").out, "no examples")


COMMANDS = ("record", "top", "dump", "gpu", "memory", "report", "daemon", "doctor")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
# Of bpfprof itself; of the commands that the man page runs it with.
NOT_OF_A_COMMAND = {"--version", "--bounding-set", "--inh-caps"}


def flags_of(context, command):
    text = context.bpfprof(command, "--help").expect(0).out.decode()
    return set(re.findall(r"(?m)^  (?:-\w, ){0,2} *(--[a-z][a-z-]+)", text))


def flags_of_cluster():
    """Those of `bpfprof cluster` itself, from the script that it is."""
    with open(os.path.join(ROOT, "deploy", "k8s", "kubectl-bpfprof"), encoding="utf-8") as file:
        usage = re.search(r"(?s)\nusage_cluster='(.*?)'\n", file.read()).group(1)
    return set(FLAG.findall(usage))


def command_lines(page):
    """Command and arguments of each: after the program's name, and in the text `record --wall` without it."""
    with open(page, encoding="utf-8") as file:
        text = file.read().replace("\\\n", " ")
    names = "(%s)" % "|".join(COMMANDS)
    return (re.findall(r"\b(?:bpfprof|agent) %s\b([^#\n`]*)" % names, text) +
            re.findall(r"(?<!`)`%s( [^`\n]*)`" % names, text))


@test(modes=("root",))
def documented(context):
    """The man page has the flags that there are; the README and the guide use no others."""
    commands = {name: flags_of(context, name) for name in COMMANDS}
    check(all(len(flags) > 3 for flags in commands.values()), commands)
    with open(os.path.join(ROOT, "man", "bpfprof.1"), encoding="utf-8") as file:
        manual = set(FLAG.findall(file.read().replace("\\-", "-")))
    every = set.union(*commands.values())
    every |= flags_of_cluster()
    check(every <= manual, "not in the man page: %s" % (every - manual))
    check(manual <= every | NOT_OF_A_COMMAND, "only there: %s" % (manual - every - NOT_OF_A_COMMAND))
    pages = sorted(glob.glob(os.path.join(ROOT, "docs", "*.md")))
    check(len(pages) > 5, "only %s" % pages)
    lines = [(page, *line) for page in [os.path.join(ROOT, "README.md"), *pages] for line in command_lines(page)]
    check(len(lines) > 90, "only %d command lines found" % len(lines))
    for page, name, arguments in lines:
        wrong = set(FLAG.findall(arguments.split(" -- ")[0])) - commands[name]
        check(not wrong, "%s: bpfprof %s%s: %s" % (os.path.basename(page), name, arguments, wrong))


@test()
def environment_twin(context):
    """A flag's environment variable works, and messages about its mistakes name it."""
    env = dict(os.environ, BPFPROF_RATE="lots")
    sentence = one_sentence(context.bpfprof("record", "-d", "1", "-o", "x.folded",
                                            env=env).expect(2))
    check("BPFPROF_RATE" in sentence or "rate" in sentence.lower(), sentence)


@test()
def verbose(context):
    """-v is for people: no thousand lines of libbpf's between them and what a thread waits for."""
    sleeper = subprocess.Popen(["sleep", "100"])
    context.stack.callback(sleeper.wait)
    context.stack.callback(sleeper.kill)
    quiet = context.bpfprof("dump", "-p", sleeper.pid, "-v").expect(0)
    check(b"\n  waits for time to pass" in quiet.out, quiet.text)
    check(b"libbpf" not in quiet.err and quiet.err.count(b"\n") < 5, quiet.err[:2000])
    full = context.bpfprof("dump", "-p", sleeper.pid, "-vv").expect(0)
    check(b"libbpf: " in full.err, full.err[:2000])


@test(modes=("root",))
def missing_privilege(context):
    """Without each of the capabilities: which one, and how to get it; exit 3."""
    everything = ["bpf", "perfmon", "dac_read_search", "syslog"]
    for missing in ("bpf", "perfmon"):
        rest = ",".join("+" + cap for cap in everything if cap != missing)
        done = subprocess.run(["setpriv", "--bounding-set", "-all," + rest, "--inh-caps", "-all",
                               BPFPROF, "record", "-d", "1", "-o", "x.folded"], cwd=context.dir,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20,
                              check=False)
        text = done.stderr.decode()
        check(done.returncode == 3, "without %s: exit %d\n%s" % (missing, done.returncode, text))
        check("CAP_" + missing.upper() in text, "without %s: %s" % (missing, text))
    done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                           "--inh-caps=-all", BPFPROF, "record", "-d", "1", "-o",
                           "/tmp/bpfprof-never.folded"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=20, check=False)
    if b"Permission denied" in done.stderr and done.returncode in (126, 127):
        raise Skip("the program's folder cannot be entered by another user")
    check(done.returncode == 3, "as nobody: exit %d\n%s" % (done.returncode, done.stderr.decode()))
    check(b"CAP_BPF" in done.stderr, done.stderr.decode())


@test(modes=MODES)
def no_such_pid(context):
    done = context.bpfprof("record", "-d", "1", "-p", "4194303", "-o", "x.folded",
                           timeout=10).expect(4)
    check("4194303" in one_sentence(done), done.text)
    zombie = subprocess.Popen(["true"])
    time.sleep(0.3)
    done = context.bpfprof("record", "-d", "1", "-p", zombie.pid, "-o", "x.folded", timeout=10)
    zombie.wait()
    done.expect(4)


@test()
def target_exits(context):
    """Why it ended before its time."""
    target = subprocess.Popen(["sleep", "1"])
    context.stack.callback(target.wait)
    done = context.bpfprof("record", "-p", target.pid, "-d", "20", "-o", "x.folded").expect(0)
    check(re.search(rb"bpfprof: pid %d has exited, after \d\.\d s\n" % target.pid, done.err),
          done.text)


@test()
def little_is_allowed(context):
    """Few open files, a full standard output: what is wrong, and what to do."""
    shell = 'ulimit -n 20; exec "$0" %s'
    for script, words in ((shell % "record -d 1 -o x.folded", "ulimit -n"),
                          (shell % "gpu --once -d 1", "ulimit -n"),
                          (shell % "top --once --delay 0.2", "ulimit -n"),
                          ('exec "$0" top --once --delay 0.2 > /dev/full', "standard output: No sp")):
        done = subprocess.run(context.as_bpfprof(["sh", "-c", script, BPFPROF]), cwd=context.dir,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20,
                              check=False)
        check(done.returncode == 1 and words in done.stderr.decode(), "%s: exit %d: %s" % (
            script, done.returncode, done.stderr.decode()))


@test()
def unwritable(context):
    """An output that cannot be written is reported before sampling starts."""
    os.mkdir(context.path("folder.folded"))
    with open(context.path("file"), "w", encoding="ascii"):
        pass
    outputs = [["-o", "/proc/no/x.folded"], ["-o", "file/x.folded"], ["-o", "folder.folded"],
               ["-o", "x.folded", "--stats", "/proc/no/x.json"]]
    for arguments in outputs:
        began = time.monotonic()
        done = context.bpfprof("record", "-d", "8", *arguments, timeout=20).expect(1)
        check(time.monotonic() - began < 4, "%s: said after sampling" % arguments)
        one_sentence(done)
    check(not os.path.exists(context.path("x.folded")), "x.folded was left")


@test()
def disk_full(context):
    """A disk that fills up leaves no half file and no old file harmed."""
    mount = context.path("small")
    os.mkdir(mount)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", mount],
                      check=False).returncode:
        raise Skip("no tmpfs can be mounted")
    context.stack.callback(subprocess.run, ["umount", "-l", mount], check=False)
    with open(os.path.join(mount, "x.html"), "w", encoding="ascii") as file:
        file.write("the old one")
    context.spawn([context.target("recurse_gO2").path, "30"])
    recording = context.start("record", "-F", "997", "-d", "2", "-o", "small/x.html", "-o",
                              "good.folded")
    context.sampling(recording)
    with open(os.path.join(mount, "filler"), "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass
    done = context.finish(recording, 30).expect(1)
    check("x.html" in done.text and "space" in done.text, "not said:\n" + done.text)
    check(sorted(os.listdir(mount)) == ["filler", "x.html"], "left: %s" % os.listdir(mount))
    with open(os.path.join(mount, "x.html"), encoding="ascii") as file:
        check(file.read() == "the old one", "the old file was harmed")
    check("recurse_gO2" in context.text("good.folded"), "the other output was not written")
