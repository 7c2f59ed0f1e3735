# SPDX-License-Identifier: Apache-2.0
"""
What every command prints and every format holds, against the files of golden/.

GOLDEN=write tests/system/run golden rewrites these files: the change is then read as a diff of the commit.
GOLDEN=add does the same, but a line that only one of both has becomes optional.

A transcript (help, usage, refused, report) names its commands itself, in lines that begin with "$ ": a new
line and GOLDEN=write add a case. "! " begins a line of standard error, "= " the exit status if it is not 0.
Transcripts are compared byte for byte. The outputs of live commands pass normal() first, and their files may
hold lines that begin with "? ": these may be missing. Counters of docs/counters.md may come beside those that are
there. golden/in holds recordings of small programs.
"""

import difflib
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import time

import test_timeline
from daemons import Daemon
from dumps import still, wait_for
from gpu_truth import Caller, Watch
from harness import ROOT, Skip, check, test
from pprof import Pprof, lines_of
from test_daemon_http import TOKEN, Server
from test_steps import Actor
from test_top import script

BESIDE = True
FOLDER = os.path.join(ROOT, "tests", "system", "golden")
MODE = os.environ.get("GOLDEN")
PYTHON = "/usr/bin/python3"


# Comparison.

def counters():
    """The names of docs/counters.md: a counter that rarely counts may come at any time."""
    with open(os.path.join(ROOT, "docs", "counters.md"), encoding="utf-8") as file:
        return set(re.findall(r"`(\w+)`", file.read()))


COUNTERS = counters()
COUNTER = re.compile(r'(?:[.:] ?|")([a-z][a-z0-9_ ]*)(?:: number|"\} N| N)$')


def is_counter(line):
    found = COUNTER.search(line)
    return bool(found) and found[1].replace(" ", "_") in COUNTERS


def merged(wanted, found, add):
    """The lines of a new golden file. Counters that come only sometimes need none."""
    bare = [line.removeprefix("? ") for line in wanted]
    lines = []
    for kind, a, b, c, d in difflib.SequenceMatcher(None, bare, found, False).get_opcodes():
        if kind == "equal":
            lines += wanted[a:b]
            continue
        lines += ["? " + line for old, line in zip(wanted[a:b], bare[a:b])
                  if old != line or (add and not is_counter(line))]
        lines += [("? " if add else "") + line for line in found[c:d] if not (wanted and is_counter(line))]
    return lines


def compare(name, found, exact=False):
    """Holds lines to a golden file, or writes that."""
    path = os.path.join(FOLDER, name)
    wanted = []
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            wanted = file.read().splitlines()
    if MODE in ("write", "add"):
        lines = found if exact else merged(wanted, found, MODE == "add")
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines))
        return
    if not exact:
        present = set(found)
        wanted = [line.removeprefix("? ") for line in wanted if not line.startswith("? ") or line[2:] in present]
        known = set(wanted)
        found = [line for line in found if line in known or not is_counter(line)]
    diff = list(difflib.unified_diff(wanted, found, "golden/" + name, "this run", lineterm=""))
    check(not diff, "another output; if it is intended: GOLDEN=write tests/system/run golden\n" + "\n".join(diff))


# Normal forms: a placeholder stands for what differs from run to run.

RULES = [(re.compile(pattern, re.MULTILINE), to) for pattern, to in (
    (r"\b%s\b" % re.escape(socket.gethostname()), "HOST"),
    (r"(?:TARGETS)?/[\w/.-]*/(?=lib\w+\.so|python3)", "PATH/"),
    (r"\bv?\d+\.\d+\.\d+[\w.-]*", "VERSION"),
    (r"(?<=python)[23](\.\d+)?", "N"),
    (r"\b0x[0-9a-f]+\b", "0xN"),
    (r"\d{4}-?\d\d-?\d\d[T ]\d\d:?\d\d:?\d\d(\.\d+)?Z?", "TIME"),
    (r"(?<![\w.])-?\d+([.,]\d+)*(?=(ns|us|ms|s)?\b)", "N"),
    (r"\bN ?(ns|us|ms|s)\b", "N T"),
    (r"\bN (B|kB|MB|GB|[KMG]iB)(?![\w/])", "N B"),
    (r"(?<=\S) {2,}", "  "),
    (r"^ *(?=N%)|^ +(?=N)", "  "),
    # The functions at work, and those inside the C library and the kernel, differ from machine to machine.
    (r"^  N% +N% +N T +N T  .*", "  N%  N%  N T  N T  FUNCTION"),
    (r"^    \S+_\[k\]$", "    KERNEL"),
    (r"^    \S+ \((python|lib|ld-)[^:]*\)$", "    NATIVE"),
    (r"\+N( B)?(?=  )", "+N"),
    (r"(?<=Lost N) \([a-z_ N,]+\)", ""),
    (r"(?<=N more function)s?$", "s"),
)]
LIST = re.compile(r"((?:[A-Z][a-z]+|lost|stacks|clock): )(.*[,;] .*)")


def normal(text, *folders):
    """Lines without numbers and names of this run. Equal lines in a row are one; counters have a line each."""
    for name, folder in zip(("DIR", "TARGETS"), folders):
        text = text.replace(folder, name)
    for pattern, to in RULES:
        text = pattern.sub(to, text)
    lines = []
    for line in text.splitlines():
        found = LIST.fullmatch(line)
        parts = [found[1] + part for part in re.split("[,;] ", found[2])] if found else [line]
        lines += [part for part in parts if not lines or part != lines[-1]]
    return lines


KINDS = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number",
         type(None): "null"}


def tree(value, path=""):
    """Keys and kinds of a JSON value, each once, sorted."""
    found = set() if value or not isinstance(value, (dict, list)) else {"%s: empty %s" % (path, KINDS[type(value)])}
    if isinstance(value, dict):
        for key, inner in value.items():
            found.update(tree(inner, "%s.%s" % (path, key) if path else key))
    elif isinstance(value, list):
        for inner in value:
            found.update(tree(inner, path + "[]"))
    else:
        found.add("%s: %s" % (path, KINDS[type(value)]))
    return sorted(found)


def section(title, lines):
    return ["", "== " + title.strip(), *lines]


# Transcripts.

STATIC = re.compile(r"(<style>\n|<script>(?:<!\[CDATA\[)?\n).*?(\n(?:\]\]>)?</(?:style|script)>)", re.DOTALL)
TYPED = {"{long}": "x" * 5000, "{many}": ",".join(map(str, range(1, 1026)))}
STRANGE = {"empty": b"", "zeros": bytes(10), "two-words": b"a b\n", "noise.pb.gz": b"\x1f\x8b noise",
           "words.folded": b"a;b 1\nno number\n", "config": b"BPFPROF_RATE=9\nno setting\n", "list.json": b"[7]",
           "short-token": b"0123456789abcde\n", "open-token": b"0123456789abcdef\n"}


def shown(path):
    """A file as lines; of a picture without the style and the script that are files of this tree."""
    with open(path, "rb") as file:
        data = file.read()
    if path.endswith(".pb.gz"):
        return lines_of(data)
    return STATIC.sub(r"\1...\2", data.decode("utf-8")).splitlines()


def answer(context, line):
    """What a line of a transcript leads to: "$ show FILE", or "$ [NAME=VALUE]... ARGUMENTS" of bpfprof."""
    words = shlex.split(line.removeprefix("$ "))
    if words[0] == "show":
        return shown(context.path(words[1]))
    env = {"PATH": os.environ["PATH"], "BPFPROF_HOST": "node-g"}
    while words and re.match(r"[A-Z_]+=", words[0]):
        name, _, env[name] = words.pop(0).partition("=")
    words = words[1:]
    for short, text in TYPED.items():
        words = [word.replace(short, text) for word in words]
    done = context.bpfprof(*words, env=env, stdin=subprocess.DEVNULL, timeout=20)
    return [*done.out.decode("utf-8").splitlines(),
            *("! " + line for line in done.err.decode("utf-8").splitlines()),
            *(["= %d" % done.status] if done.status else [])]


def replay(context, name):
    """Runs the commands of a transcript beside copies of golden/in, and compares what they say."""
    for file in os.listdir(os.path.join(FOLDER, "in")):
        shutil.copy(os.path.join(FOLDER, "in", file), context.dir)
        os.utime(context.path(file), (0, 0))
    for file, data in STRANGE.items():
        with open(context.path(file), "wb") as out:
            out.write(data)
        os.chmod(context.path(file), 0o644)
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        lines = file.read().splitlines()
    found = []
    for line in lines:
        if line.startswith("$ "):
            found += [*([""] if found else []), line, *answer(context, line)]
    compare(name, found, exact=True)


@test(modes=("root",))
def help(context):  # pylint: disable=redefined-builtin
    """--help and --version say what they said."""
    replay(context, "help")


@test(modes=("root",))
def usage(context):
    """Each mistake on a command line has its sentence and its exit status."""
    replay(context, "usage")


@test()
def refused(context):
    """A correct command that cannot be carried out says why."""
    replay(context, "refused")


@test(modes=("root",))
def report(context):
    """report makes the same tables, comparisons and files of stored recordings."""
    replay(context, "report")


# Live commands: normal() replaces the numbers and names of the run.

SLEEPS = """
import threading, time
def inner():
    time.sleep(600)
def outer():
    number, text = 7, "seven"
    inner()
threading.Thread(target=outer, name="second", daemon=True).start()
outer()
"""
BUSY = """
def burn():
    while True:
        pass
def work():
    burn()
work()
"""


def spawn(context, name, text):
    """The system's Python, whose names of functions are those since 3.11."""
    done = subprocess.run([PYTHON, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"], check=False)
    if done.returncode:
        raise Skip("%s is older than 3.11" % PYTHON)
    return context.spawn([PYTHON, script(context, name, text)])


def live(context, *arguments):
    """What a command says, in normal form, under the command itself."""
    done = context.bpfprof(*arguments).expect(0)
    line = " ".join("PID" if isinstance(word, int) else str(word) for word in arguments)
    return ["", "$ bpfprof " + line, *normal(done.out.decode("utf-8"), context.dir, context.builder.folder),
            *("! " + line for line in normal(done.err.decode("utf-8"), context.dir, context.builder.folder))]


def heads(profile):
    """What a pprof holds beside its stacks."""
    labels = {"%s: %s" % (key, KINDS[type(value)]) for sample in profile.samples
              for key, value in sample["labels"].items()}
    found = section("x.pb.gz", [*profile.sample_types, str(profile.default_type), str(profile.period_type)])
    found += section("x.pb.gz, labels", sorted(labels))
    for comment in profile.comments:
        found += section("x.pb.gz, comment", tree(json.loads(comment)) if comment[0] == "{" else normal(comment))
    return found


def asleep(*processes):
    """Waits until all threads of these sleep."""
    wait_for(lambda: all(still(one.pid, 2) for one in processes), "they sleep")
    time.sleep(0.2)


@test()
def dump(context):
    """dump shows the same frames, headings and keys of programs that sleep."""
    python = spawn(context, "sleeps.py", SLEEPS)
    native = context.spawn([context.helper("asleep", "asleep.c", "-pthread")])
    asleep(python, native)
    found = []
    for flags in ([], ["--native"], ["--kernel", "-v"], ["-l"], ["--full-filenames"], ["--json", "-l"]):
        found += live(context, "dump", "-p", python.pid, *flags)
    compare("dump", found + live(context, "dump", "-p", native.pid))


@test(paired=True)
def record(context):
    """record ends with the same tables, and its files have the same keys."""
    target = spawn(context, "busy.py", BUSY)
    found = live(context, "record", "-d", 1.5, "-p", target.pid, "-o", "x.folded", "-o", "x.pb.gz", "-o", "x.raw", "-o",
                 "x.speedscope.json", "--stats", "x.json", "--no-findings")
    found += section("--stats", tree(context.json("x.json")))
    found += section("x.folded, first line", tree(json.loads(context.text("x.folded").split("\n")[0][2:])))
    found += section("x.speedscope.json", tree(context.json("x.speedscope.json")))
    found += section("x.raw", sorted(set(normal(context.text("x.raw")))))
    compare("record", found + heads(Pprof(context.read("x.pb.gz"))))


@test()
def top(context):
    """top has the same heading and columns."""
    target = spawn(context, "busy.py", BUSY)
    compare("top", live(context, "top", "--once", "-p", target.pid) +
            live(context, "top", "--once", "--wall", "-p", target.pid))


def events(trace):
    """Each kind of event of a timeline, once."""
    kinds = {" ".join((event["ph"], event.get("cat", "-"), event["name"], *sorted(set(event) - {"ph", "cat", "name"}),
                       *("args." + key for key in sorted(event.get("args", {})))))
             for event in trace["traceEvents"]}
    rest = {key: value for key, value in trace.items() if key != "traceEvents"}
    return sorted(set(normal("\n".join(sorted(kinds))))) + tree(rest)


@test()
def timeline(context):
    """A timeline of Ray's tasks and actor calls has the same kinds of events."""
    actors = [Actor(context, name, 20, 5, mode, seconds=60, gate=True, calls=10)
              for name, mode in (("Trainer", "plain"), ("sort_numbers", "task"))]
    recorder = test_timeline.begin(context, "-F", "499", "--no-findings", "--worker", "trainer,sort_numbers")
    for actor in actors:
        actor.process.send_signal(signal.SIGUSR1)
    for actor in actors:
        test_timeline.made(actor, 10)
    _, done = test_timeline.end(context, recorder)
    messages = sorted(set(normal(done.err.decode("utf-8"), context.dir)))
    compare("timeline", messages + events(context.json("x.json")))


@test()
def gpu(context):
    """gpu tells the same of a program that calls CUDA and NCCL: table, JSON, trace and pprof."""
    found = []
    for flags in ([], ["--json", "-o", "x.json", "-o", "x.pb.gz"]):
        caller = Caller(context, "nccl", with_python=True, interpreter=PYTHON)
        watch = Watch(context, "-d", "120", "-p", caller.pid, *flags)
        caller.work()
        text = watch.end()
        found += section("gpu --once " + " ".join(flags), tree(json.loads(text)) if flags else
                         normal(text, context.dir, context.builder.folder))
        found += ["! " + line for line in normal(watch.messages(), context.dir)]
    found += section("x.json", events(context.json("x.json")))
    compare("gpu", found + heads(Pprof(context.read("x.pb.gz"))))


REQUESTS = ("/metrics", "/healthz", "/readyz", "/", "/profile?seconds=x", "/profile?format=png", "/profile?day=1",
            "/profile?seconds=1&seconds=2", "/dump", "/dump?pid=x", "/dump?pid=4194303", "/files/missing",
            "/files/a/b/c/d")


@test()
def daemon(context):
    """daemon has the same names of files, answers of its server, and lines of its log in both formats."""
    pid = spawn(context, "busy.py", BUSY).pid
    server = Server(context, "--pid", pid)
    plain = Daemon(context, "--pid", pid, "--log-format", "logfmt", output=context.path("plain"), log="plain.log")
    server.wait("profile written", 2)
    found = []
    for path in REQUESTS:
        status, _, body = server.get(path)
        found += section("GET %s: %d" % (path, status), normal(body.decode("utf-8"), context.dir))
    for token, method in ((None, "GET"), ("wrong", "GET"), (TOKEN, "POST")):
        status, _, body = server.get("/dump?pid=1", token, method)
        found += section("%s with %s: %d" % (method, token, status), normal(body.decode("utf-8")))
    check(server.end() == 0 and plain.end() == 0, "exit status")
    found += section("files", sorted(set(normal("\n".join(sorted(os.listdir(server.output)))))))
    for name, log in (("json", "log"), ("logfmt", "plain.log")):
        lines = re.findall(r'.*level"?[:=]"?info.*', context.text(log))
        found += section("log, " + name, sorted(set(normal("\n".join(lines), context.dir))))
    compare("daemon", found)


@test()
def doctor(context):
    """doctor looks at the same things; what it finds is this machine's."""
    target = context.spawn(["sleep", "100"])
    words = ("doctor", "--pid", target.pid)
    text = context.bpfprof(*words).out.decode("utf-8")
    rows = json.loads(context.bpfprof(*words, "--json").out)
    names = dict.fromkeys(re.sub(r"^\w+ +(\w+) .*", r"STATUS \1 FOUND", line) for line in text.splitlines())
    compare("doctor", [*names, *dict.fromkeys(row["name"] for row in rows), *tree(rows)])
