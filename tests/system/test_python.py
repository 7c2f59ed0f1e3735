# SPDX-License-Identifier: Apache-2.0
"""Python frames: every stack of programs that know their own, on every version; hostile ones."""

import concurrent.futures
import functools
import glob
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import chains
import python_truth as truth
import pythons
from harness import BPFPROF, NOBODY, Failure, Skip, check, test
from pprof import fields, numbers

HZ = 997
SECONDS = 0.45
EXIT_SECONDS = 0.12  # of CPU time that the end of an interpreter takes at most
AT_ONCE = 4
# Of stacks that say that they are whole; of a busy machine's new programs, a few more say that they are cut.
FLOOR, ORDER_FLOOR, UNMERGED_CEILING, TRUNCATED_CEILING = 99.9, 99.8, 0.1, 0.5
EARLY_EACH = 2  # samples of a process until it is known that it is Python, in the mean
CACHE = os.path.join(os.path.dirname(BPFPROF), "pythons")

# Name of the run, program, options of the interpreter, started before the recording.
RUNS = [
    ("plain", "plain", [], True), ("plain-O", "plain", ["-O"], False),
    ("lines", "lines", [], False), ("lines-OO", "lines", ["-OO"], True),
    ("recursion", "recursion", [], True), ("calls", "calls", [], False),
    ("classes", "classes", [], True), ("comprehensions", "comprehensions", [], False),
    ("generators", "generators", [], False), ("coroutines", "coroutines", [], True),
    ("recycled", "recycled", [], False), ("bigfunction", "bigfunction", [], True),
    ("orders", "orders", [], False), ("orders-before", "orders", [], True),
    ("threads", "threads", [], True), ("nativethreads", "nativethreads", [], False),
    ("forks", "forks", [], False), ("execinto", "execinto", [], False),
    ("names", "names", [], False), ("zipped", "zipped", [], False),
    ("subinterpreters", "subinterpreters", [], False), ("short", "short", [], False),
]

HEAD = "%-15s %-8s %8s %9s %9s %9s %9s %9s %10s %6s %9s %8s" % (
    "python", "version", "samples", "exact", "cut", "wrong", "order", "unmerged", "truncated",
    "early", "of due", "took")
KNOWN = {}  # what could be found, once for both modes


def all_pythons():
    """Every interpreter, and why others are missing."""
    if not KNOWN:
        os.makedirs(CACHE, exist_ok=True)
        found, missing = pythons.newer(CACHE)
        KNOWN["found"] = [*pythons.installed(), *found]
        KNOWN["missing"] = missing
    return KNOWN["found"], KNOWN["missing"]


def pick(least, kind=""):
    """Some interpreter of at least that version."""
    for python in all_pythons()[0]:
        if python.version >= least and kind in python.name:
            return python
    raise Skip("no Python %d.%d or later here" % least)


def compiled(context, name, source, *flags):
    """A program of a C file of python/, made again when that is newer. None: see builder.skipped."""
    out = context.builder.out(name)
    source = os.path.join(truth.PROGRAMS, source)
    if os.path.exists(out) and os.path.getmtime(out) < os.path.getmtime(source):
        os.unlink(out)
    return out if context.builder.command(out, ["gcc", "-O2", "-Wall", "-Wextra", source, *flags,
                                                "-o", out]) else None


def busy_library(context):
    path = compiled(context, "libbusy.so", "busy.c", "-shared", "-fPIC", "-lpthread")
    if not path:
        raise Skip("%s: %s" % context.builder.skipped[-1])
    return path


def sources_hash():
    digest = hashlib.sha256()
    for path in sorted(glob.glob(os.path.join(truth.PROGRAMS, "*.py"))):
        with open(path, "rb") as file:
            digest.update(file.read())
    return digest.hexdigest()[:16]


def legal_of(context, python, program):
    """The description of a program, made once for each version; None: it does not apply."""
    folder = os.path.join(CACHE, "legal-" + sources_hash(), python.name + "-" + python.full,
                          program)
    if not os.path.exists(os.path.join(folder, "done")):
        applies = truth.describe(python, program, folder, {"TRUTH_LIBRARY": busy_library(context)})
        with open(os.path.join(folder, "done"), "w", encoding="ascii") as file:
            file.write("yes" if applies else "no")
    with open(os.path.join(folder, "done"), encoding="ascii") as file:
        if file.read() != "yes":
            return None
    return truth.read_legal(folder, python.version)


@functools.lru_cache(maxsize=None)
def reachable(path):
    """May any user read this?"""
    return subprocess.run(["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY),
                           "--clear-groups", "test", "-r", path], stderr=subprocess.DEVNULL,
                          check=False).returncode == 0


def spawn(context, argv, env, needs=(), **kwargs):
    """
    Starts a target as the mode wants it. Where the other user could not even read the
    interpreter (below somebody's home), it may read everything, and no more.
    """
    if context.mode == "caps" and not all(map(reachable, needs)):
        env = dict(env, TARGET_NONDUMPABLE="1")
        prefix = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups",
                  "--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
        return context.spawn([*prefix, *argv], env=env, plain=True, **kwargs)
    return context.spawn(argv, env=env, **kwargs)


class Job:
    """One run of one program."""

    def __init__(self, context, python, name, program, options, before):
        self.name = name
        self.before = before
        self.folder = context.scratch(os.path.join(python.name, name))
        self.argv = [*python.argv, *options, os.path.join(truth.PROGRAMS, program + ".py")]
        self.env = python.environment({
            "TRUTH_MODE": "", "TRUTH_OUT": self.folder, "TRUTH_SECONDS": str(SECONDS),
            "TRUTH_PROGRAM": program, "TRUTH_LIBRARY": busy_library(context),
            "TRUTH_FOLDER": truth.PROGRAMS, "TRUTH_ARGV": json.dumps(python.argv + options)})
        self.legal = legal_of(context, python, program)
        self.needs = [python.stdlib, truth.PROGRAMS, *(a for a in python.argv if "/" in a[:1])]
        self.process = None
        self.log = None

    def start(self, context, go=None):
        self.log = open(os.path.join(self.folder, "log"), "wb")
        env = dict(self.env, TRUTH_GO=go) if go else self.env
        self.process = spawn(context, self.argv, env, self.needs, stdout=self.log,
                             stderr=self.log)

    def wait(self):
        try:
            status = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            raise Failure("%s does not end" % " ".join(self.argv)) from None
        finally:
            self.log.close()
        if status:
            with open(self.log.name, encoding="utf-8", errors="replace") as file:
                raise Failure("%s: exit status %d\n%s" % (" ".join(self.argv), status,
                                                          file.read()[-1000:]))

    def result(self, profiles):
        """Judges what was recorded of all its processes."""
        result = truth.Result(self.name, self.legal)
        pids = set()
        for path in glob.glob(os.path.join(self.folder, "*.done")):
            with open(path, encoding="utf-8") as file:
                result.add_work(json.load(file), HZ)
            pids.add(os.path.basename(path).split(".")[0])
        for pid in pids:
            result.processes += 1
            profile = os.path.join(profiles, pid + ".folded")
            if os.path.exists(profile):
                with open(profile, encoding="utf-8") as file:
                    for frames, count in truth.read_folded(file.read()):
                        result.add(frames, count)
        return result


def jobs_of(context, python, runs):
    programs = sorted({program for _, program, _, _ in runs})
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda program: legal_of(context, python, program), programs))
    jobs = [Job(context, python, *run) for run in runs]
    jobs += embedded(context, python)
    return [job for job in jobs if job.legal]


def embedded(context, python):
    """The interpreter inside a C program, with its library under its own and another name."""
    if "pyenv" not in python.name:
        return []
    prefix = os.path.dirname(os.path.dirname(python.argv[0]))
    minor = "%d.%d" % python.version
    library = os.path.join(prefix, "lib", "libpython%s.so.1.0" % minor)
    header = os.path.join(prefix, "include", "python" + minor)
    if not os.path.exists(library) or not os.path.exists(os.path.join(header, "Python.h")):
        return []
    jobs = []
    folder = context.builder.folder
    other = os.path.join(folder, "libengine%s.so" % minor.replace(".", ""))
    for name, path, program in (("embed", library, "calls"), ("embed-renamed", other, "lines")):
        if path == other and not renamed(library, other):
            continue
        binary = compiled(context, name.replace("-", "") + minor.replace(".", ""), "embed.c", "-I",
                          header, path, "-Wl,-rpath," + os.path.dirname(path))
        if not binary:
            continue
        job = Job(context, python, name, program, [], False)
        job.argv = [binary, job.argv[-1]]
        job.env = dict(job.env, PYTHONHOME=prefix)
        jobs.append(job)
    return jobs


def renamed(library, other):
    """A copy of libpython that calls itself by another name."""
    if os.path.exists(other):
        return True
    try:
        tool = pythons.patchelf(CACHE)
    except (pythons.Unavailable, OSError):
        return False
    shutil.copy(library, other)
    os.chmod(other, 0o755)
    return subprocess.run([tool, "--set-soname", os.path.basename(other), other],
                          check=False).returncode == 0


def record_all(context, python, jobs):
    """One recording, in which all programs run; what --stats says."""
    profiles = context.path(python.name + "-profiles")
    go = os.path.join(context.scratch(python.name), "go")
    early = [job for job in jobs if job.before]
    for job in early:
        job.start(context, go)
    end = time.monotonic() + 60
    while sum(len(glob.glob(os.path.join(job.folder, "*.ready"))) for job in early) < len(early):
        check(time.monotonic() < end, "programs do not get ready")
        check(all(job.process.poll() is None for job in early), "a program ended early: %s" % [
            job.name for job in early if job.process.poll() is not None])
        time.sleep(0.05)
    recording = context.start("record", "-F", HZ, "-o", profiles + "/%p.folded", "--split",
                              "process", "--stats", python.name + ".json",
                              stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    context.sampling(recording)
    check(recording.poll() is None, "the recording ended at once")
    with open(go, "w", encoding="ascii"):
        pass
    for job in early:
        job.wait()

    def one(job):
        job.start(context)
        job.wait()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(one, [job for job in jobs if not job.before]))
    time.sleep(0.3)
    recording.send_signal(signal.SIGINT)
    context.finish(recording, 60).expect(0)
    return profiles, context.json(python.name + ".json")


def judge(context, python, lines, runs=None):
    """One version: appends its table to lines; summary, problems."""
    began = time.monotonic()
    jobs = jobs_of(context, python, runs or RUNS)
    profiles, stats = record_all(context, python, jobs)
    results = [job.result(profiles) for job in jobs]
    problems = []
    for result in results:
        problems += result.shares() + result.missing(EXIT_SECONDS, HZ)
        if result.work < 100:
            problems.append("%s: only %d samples" % (result.name, result.work))
    work = sum(result.work for result in results)
    count = {verdict: sum(result.counts[verdict] for result in results)
             for verdict in truth.VERDICTS}
    due = sum(result.due for result in results)

    def percent(*verdicts):
        return 100.0 * sum(count[v] for v in verdicts) / max(1, work)
    summary = "%-15s %-8s %8d %8.3f%% %8.3f%% %8.3f%% %8.3f%% %8.3f%% %9.3f%% %6d %8.1f%% %6.0f s" % (
        python.name, python.full, work, percent(truth.EXACT),
        percent(truth.CUT_NATIVE), percent(truth.WRONG),
        percent(truth.ORDER, truth.LEFT), percent(truth.UNMERGED), percent(truth.TRUNCATED),
        count[truth.EARLY],
        100.0 * work / max(1, due), time.monotonic() - began)
    processes = sum(result.processes for result in results)
    if count[truth.EARLY] > EARLY_EACH * processes:
        problems.append("%d samples before it was known what %d processes are" % (
            count[truth.EARLY], processes))
    good = percent(truth.EXACT, truth.CUT_NATIVE)
    if good + percent(truth.TRUNCATED) < FLOOR or percent(truth.TRUNCATED) > TRUNCATED_CEILING:
        problems.append("%.3f%% exact, %.1f%% expected; %.3f%% truncated, %.1f%% allowed: %s" % (
            good, FLOOR, percent(truth.TRUNCATED), TRUNCATED_CEILING, stats["stacks"]["reasons"]))
    # Up to 3.10 each Python frame stands on several C frames: 400 of them are too many to be kept.
    cut = sum(result.counts[truth.CUT_NATIVE] for result in results
              if result.name != "recursion" or python.version > (3, 10))
    if cut > 0.002 * work:
        problems.append("%d samples have all Python frames, but not all C frames" % cut)
    if 100 - percent(truth.ORDER, truth.LEFT, truth.UNMERGED) < ORDER_FLOOR:
        problems.append("%.3f%% in a wrong order" % percent(truth.ORDER, truth.LEFT,
                                                            truth.UNMERGED))
    if percent(truth.UNMERGED) > UNMERGED_CEILING:
        problems.append("%.3f%% unmerged" % percent(truth.UNMERGED))
    if abs(work - due) > 0.1 * due:
        problems.append("%d samples of work, %.0f expected" % (work, due))
    lines += ["", "%s %s, reasons: %s, lost: %s" % (python.name, python.full,
                                                   stats["stacks"]["reasons"], stats["lost"]),
              truth.table(results)]
    lines += ["    ! " + problem for problem in problems]
    return summary, ["%s: %s" % (python.name, problem) for problem in problems]


def each_once(found):
    """Of the newer builds, which can be started in two ways, each in one way: 3.14 by the loader, 3.15 as a program."""
    names = {python.name for python in found}
    second = {first + "-" + way for first, way, other in (("3.14", "sid", "loader"), ("3.15", "loader", "sid"))
              if first + "-" + other in names}
    return [python for python in found if os.environ.get("EVERY_MODE") or python.name not in second]


@test()
def truth_of_all_versions(context):
    """Every sampled stack of every program on every Python is one that it can have."""
    found, missing = all_pythons()
    found = each_once(found)
    wanted = os.environ.get("PYTHONS", "").split()
    summaries, details, problems = [], [], []
    for python in found:
        if wanted and not any(name in python.name for name in wanted):
            continue
        try:
            summary, wrong = judge(context, python, details)
            summaries.append(summary)
            problems += wrong
        except (Failure, ValueError) as failure:
            problems.append("%s: %s" % (python.name, failure))
    for name, reason in missing:
        summaries.append("%-15s skipped: %s" % (name, reason))
    path = os.path.join(os.path.dirname(BPFPROF), "system-python-%s.txt" % context.mode)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join([HEAD, *summaries, *details, ""]))
    context.note("\n".join([HEAD, *summaries, os.path.relpath(path)]))
    check(found, "no Python 3.8 or later")
    check(not problems, "\n".join(problems[:60]))


@test(modes=("root",), paired=True)
def newer_versions(_context):
    """3.14 and 3.15 could be had: they are part of the truth test."""
    _, missing = all_pythons()
    if missing:
        raise Skip("; ".join("%s: %s" % pair for pair in missing))


@test(modes=("root",), paired=True)
def judge_of_truth(_context):
    """The judge of stacks is right about made-up stacks, and about a program that samples itself."""
    done = subprocess.run([sys.executable, truth.__file__, "--self-test", pick((3, 11)).name,
                           "orders"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, stdin=subprocess.DEVNULL, timeout=60)
    check(done.returncode == 0, done.stdout[-3000:])


class Functions:
    """pprof's functions and lines."""

    def __init__(self, packed):
        import gzip
        raw = list(fields(gzip.decompress(packed)))
        text = [value.decode("utf-8") for number, value in raw if number == 6]
        self.functions, self.lines = {}, {}
        for number, value in raw:
            if number == 5:
                one = dict(fields(value))
                self.functions[one[1]] = {
                    "name": text[one.get(2, 0)], "system_name": text[one.get(3, 0)],
                    "filename": text[one.get(4, 0)], "start_line": one.get(5, 0)}
            elif number == 4:
                parts = list(fields(value))
                place = [dict(fields(v)) for n, v in parts if n == 4]
                self.lines[dict(parts)[1]] = [(one[1], one.get(2, 0)) for one in place]
        self.stacks = []
        self.labels = []
        for number, value in raw:
            if number == 2:
                stack, labels = [], {}
                for n, v in fields(value):
                    if n == 1:
                        stack += numbers(v)
                    elif n == 3:
                        one = dict(fields(v))
                        labels[text[one[1]]] = text[one[2]] if 2 in one else one.get(3, 0)
                self.stacks.append([line for location in stack for line in self.lines[location]])
                self.labels.append(labels)

    def places(self):
        return {(self.functions[f]["name"], self.functions[f]["filename"],
                 self.functions[f]["start_line"], line)
                for stack in self.stacks for f, line in stack}


def run_program(context, python, program, outputs, *arguments, seconds="2"):
    """One program alone, recorded by -p, with these outputs."""
    job = Job(context, python, program, program, [], True)
    job.env["TRUTH_SECONDS"] = seconds
    go = os.path.join(job.folder, "go")
    job.start(context, go)
    end = time.monotonic() + 20
    while not glob.glob(os.path.join(job.folder, "*.ready")) and time.monotonic() < end:
        time.sleep(0.05)
    recording = context.start("record", "-F", HZ, "-p", job.process.pid, "-d", "20", *arguments,
                              *[word for name in outputs for word in ("-o", name)])
    context.sampling(recording)
    with open(go, "w", encoding="ascii"):
        pass
    job.wait()
    recording.send_signal(signal.SIGINT)
    context.finish(recording, 30).expect(0)
    return job


@test(paired=True)
def formats(context):
    """pprof, .raw, speedscope and the graphs say function, file, line and first line."""
    python = pick((3, 11))
    job = run_program(context, python, "lines", ["x.pb.gz", "x.raw", "x.speedscope.json", "x.folded",
                                                 "x.html"])
    path = os.path.join(truth.PROGRAMS, "lines.py")
    with open(path, encoding="utf-8") as file:
        source = file.read().splitlines()
    first = next(i for i, line in enumerate(source, 1) if line.startswith("def handled"))
    profile = Functions(context.read("x.pb.gz"))
    mine = {place for place in profile.places() if place[0] == "handled"}
    check(mine, "no function `handled` in pprof: %s" % sorted(profile.places())[:30])
    check({place[1] for place in mine} == {path}, "file of `handled`: %s" % mine)
    check({place[2] for place in mine} == {first}, "first line of `handled`: %s, %d expected" %
          (mine, first))
    busy = {i for i, line in enumerate(source, 1) if line.endswith("# BUSY")}
    seen = {place[3] for place in mine}
    check(seen & busy and all(first <= line < first + 30 for line in seen), "lines: %s" % seen)
    guards = {place[0] for place in profile.places()}
    check("Guard.__enter__" in guards, "no qualified name: %s" % sorted(guards))
    raw = context.text("x.raw")
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        check(count.isdigit(), "no count: " + line[:300])
        for frame in stack.split(";"):
            check(re.fullmatch(r'[^ ();]+ \([^():]+:\d+\)|process \d+:".*"', frame),
                  "frame is not NAME (PATH:LINE): %r in %s" % (frame, line[:300]))
    total = sum(int(line.rpartition(" ")[2]) for line in raw.splitlines())
    check(total > 1000 and "handled (lines.py:" in raw, "%d samples in .raw" % total)
    legal = {line: None for line in raw.splitlines()}
    result = truth.Result("lines", job.legal)
    for line in legal:
        stack, _, count = line.rpartition(" ")
        result.add([f for f in stack.split(";") if not f.startswith("process ")], int(count), True)
    check(result.percent(truth.EXACT) >= FLOOR, truth.table([result]))
    shared = context.json("x.speedscope.json")["shared"]["frames"]
    frames = [frame for frame in shared if frame["name"].startswith("handled")]
    check(frames and all(frame.get("file", "").endswith("lines.py") and
                         frame.get("line") in seen | {first} for frame in frames),
          "speedscope: %s" % frames)
    check("handled" in context.text("x.html"), "no Python in the flame graph")
    if shutil.which("go"):
        tool = subprocess.run(["go", "tool", "pprof", "-lines", "-top", "x.pb.gz"], cwd=context.dir,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, env=dict(os.environ, HOME=context.dir))
        check(tool.returncode == 0 and "lines.py:" in tool.stdout, tool.stdout[-2000:])


@test(paired=True, long=True)
def gil(context):
    """Of several threads that want the GIL only one holds it; --gil keeps no other samples."""
    for python in all_pythons()[0]:
        if python.version in ((3, 8), (3, 11), (3, 12), (3, 13)) and "pyenv" in python.name:
            run_program(context, python, "threads", ["x.pb.gz", "x.folded"], seconds="1.5")
            labels = [labels.get("gil") for labels in Functions(context.read("x.pb.gz")).labels]
            check("held" in labels and set(labels) <= {"held", "waiting", "released", None},
                  "%s: labels gil: %s" % (python, set(labels)))
            run_program(context, python, "nativethreads", ["y.pb.gz", "y.folded"], "--gil",
                        seconds="1.5")
            check("spin (nativethreads.py" in context.text("y.folded"), "%s: --gil lost all" %
                  python)
            check("busy_spin" not in context.text("y.folded"),
                  "%s: --gil keeps code that runs without the GIL" % python)


def offsets_of(python):
    """The first bytes of _PyRuntime in a real interpreter (3.13+), as C."""
    prefix = os.path.dirname(os.path.dirname(python.argv[0]))
    library = glob.glob(os.path.join(prefix, "lib", "libpython3.*.so.1.0"))[0]
    symbols = subprocess.run(["readelf", "-sW", library], stdout=subprocess.PIPE, text=True,
                             check=True).stdout
    va = int(re.search(r"(?m)^\s*\d+: ([0-9a-f]+)\s.* _PyRuntime$", symbols).group(1), 16)
    headers = subprocess.run(["readelf", "-SW", library], stdout=subprocess.PIPE, text=True,
                             check=True).stdout
    for found in re.finditer(r"PROGBITS\s+([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+)", headers):
        start, off, size = (int(value, 16) for value in found.groups())
        if start <= va < start + size:
            with open(library, "rb") as file:
                file.seek(off + va - start)
                return ",".join(str(byte) for byte in file.read(1024))
    raise Skip("no data of _PyRuntime")


HOSTILE_KINDS = ["ZERO", "GARBAGE", "CYCLE", "SELF_THREAD", "WILD", "CHAIN", "KERNEL"]
HOSTILE_ALWAYS = ["CYCLE", "SELF_THREAD", "WILD"]  # the others on two versions only
HOSTILE_VERSIONS = ["0", "0x030807f0", "0x030b07f0", "0x030c01f0", "0x030d00f0", "0x036300f0"]


def hostile_programs(context):
    """[(path, what is wrong with it)]"""
    built = []
    header = context.builder.out("hostile_offsets.h")
    real = [p for p in all_pythons()[0] if p.version >= (3, 13) and "pyenv" in p.name]
    if real and not os.path.exists(header):
        with open(header, "w", encoding="ascii") as file:
            file.write("#define OFFSETS %s\n" % offsets_of(real[0]))
    for version in HOSTILE_VERSIONS:
        for kind in HOSTILE_KINDS:
            if version not in ("0x030b07f0", "0x030d00f0") and kind not in HOSTILE_ALWAYS:
                continue
            for lying in ("", "LIE") if version == "0x030d00f0" and kind in HOSTILE_ALWAYS \
                    else ("",):
                name = "hostile_%s_%s%s" % (version[2:6] or "none", kind.lower(), lying.lower())
                flags = ["-D%s" % kind, "-DPYTHON_VERSION=" + version]
                if version == "0x030d00f0" and real:
                    flags += ["-include", header]
                if lying:
                    flags.append("-DLIE")
                out = compiled(context, name, "hostile.c", "-rdynamic", "-fno-stack-protector",
                               *flags)
                if not out:
                    raise Failure("%s: %s" % context.builder.skipped[-1])
                built.append(out)
    return built


@test()
def hostile(context):
    """Programs that pretend to be Python: no hang, native frames shown, neighbours right."""
    near = context.target("calls_gO2")
    python = pick((3, 11))
    context.spawn([near.path, "120"])
    programs = hostile_programs(context)
    for number, first in enumerate(range(0, len(programs), 10)):
        batch = programs[first:first + 10]
        running = [context.spawn([path, "60"]) for path in batch]
        job = Job(context, python, "plain%d" % number, "plain", [], False)
        job.env["TRUTH_SECONDS"] = "0.5"
        recording = context.start("record", "-F", HZ, "-d", "60", "-o", "%d/%%p.folded" % number,
                                  "--split", "process", "--stats", "%d.json" % number)
        context.sampling(recording)
        job.start(context)
        job.wait()
        time.sleep(1)
        recording.send_signal(signal.SIGINT)
        done = context.finish(recording, 20).expect(0)
        check(time.monotonic() - recording.started < 60, "it hung")
        stats = context.json("%d.json" % number)
        check(stats["agent"]["memory_bytes"] <= 64 << 20, "memory: %s" % stats["agent"])
        for process, path in zip(running, batch):
            check(process.poll() is None, "%s has ended" % path)
            text = context.text(os.path.join(str(number), "%d.folded" % process.pid))
            stacks = list(chains.read_folded(text))
            total = sum(count for _, _, count in stacks)
            spin = sum(count for _, frames, count in stacks if "hostile_spin" in frames)
            check(total >= 20 and spin > 0.9 * total, "%s: %d of %d samples have its own function:\n%s"
                  % (os.path.basename(path), spin, total, text[-2000:]))
            process.kill()
            process.wait()
        result = job.result(context.path(str(number)))
        check(result.work > 200 and result.percent(truth.EXACT) >= 99, truth.table([result]))
        beside = "".join(context.text(name) for name in glob.glob(context.path(str(number), "*")))
        results = chains.check([near], beside)
        check(results[near.name].percent("exact") >= 99, chains.table(results))
        if any("6300" in path for path in batch):
            check(re.search(r"Python 3\.99: layout not known", done.text),
                  "the unknown version is not named:\n" + done.text[-2000:])
    context.note("%d programs" % len(programs))
