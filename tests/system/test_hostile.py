# SPDX-License-Identifier: Apache-2.0
"""Targets that are hostile: correct output for all neighbours, no crash, no hang."""

import json
import os
import re
import shutil
import subprocess
import threading
import time
import xml.etree.ElementTree as ElementTree

import chains
from harness import ROOT, Skip, check, test
from pprof import Pprof
from terminals import CONTROL, check_terminal, evil_names

BESIDE = True
HZ = 499
EXPECT = os.path.join(ROOT, "tests", "system", "targets")


class Watched:
    """A process for chains.check() that is no entry of the table of targets."""

    def __init__(self, name, path, expect):
        self.name = name
        self.path = self.twin = path
        self.expect = os.path.join(EXPECT, expect + ".expect")


def neighbour(context):
    """A well-behaved program beside the hostile one, with a name that programs of no other test have."""
    name, target = "near-" + context.dir[-8:], context.target("calls_gO2")
    process = context.spawn([target.path, "90"], env={"TARGET_COMM": name})
    os.setpriority(os.PRIO_PROCESS, process.pid, -5)  # it has its samples on a busy machine, too
    return Watched(name, target.path, "calls")


def check_exact(context, targets, name="x.folded", least=99, samples=100):
    results = chains.check(targets, context.text(name))
    for result in results.values():
        check(result.samples >= samples, "%s: only %d samples" % (result.name, result.samples))
        check(result.percent("exact") >= least, chains.table(results))
    return results


def code_file(context):
    """A library of pure code, and where in the file it is entered: path, offset, length, entry."""
    path = context.helper("libcode.so", "code.c", "-shared", "-nostdlib", "-fPIC",
                          "-Wl,-z,separate-code")
    text = subprocess.run(["readelf", "-lW", path], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    load = re.search(r"LOAD\s+(0x[0-9a-f]+)\s+(0x[0-9a-f]+)\s+0x[0-9a-f]+\s+(0x[0-9a-f]+)"
                     r"\s+0x[0-9a-f]+\s+R E", text)
    names = subprocess.run(["nm", path], stdout=subprocess.PIPE, text=True, check=True).stdout
    entry = int(re.search(r"([0-9a-f]+) T code_outer", names).group(1), 16)
    off, va, size = (int(load.group(i), 16) for i in (1, 2, 3))
    return path, off, (size + 4095) & ~4095, entry - va + off


@test()
def names(context):
    """Control characters, separators and invalid UTF-8 in process names and arguments."""
    path = context.target("calls_gO2").path
    near = neighbour(context)
    evil = [b"a;b;c", b"new\nline 7", b"\x1b[31mred", b"\xff\xfe\xc3(", b"# {\"x\":1}", b"tab\tbed",
            b"x 12", b"</script>", b"%s%n", b"'\"\\"]
    for name in evil:
        env = dict(os.environb)
        env[b"TARGET_COMM"] = name
        spawn_bytes(context, [os.fsencode(path), b"60", name], env)
    outputs = ["x.folded", "x.pb.gz", "x.html", "x.svg", "x.speedscope.json", "x.raw"]
    done = context.bpfprof("record", "-F", 997, "-d", "5", "--native",
                           *[word for name in outputs for word in ("-o", name)], "--stats",
                           "x.json").expect(0)
    check_terminal("record", done.out, done.err)
    for name in outputs:
        if name == "x.pb.gz":
            continue
        text = context.text(name)  # must be UTF-8
        found = CONTROL.search(text)
        check(not found, "%s: control character %r" % (name, found))
    for line in context.text("x.folded").splitlines()[1:]:
        stack, _, count = line.rpartition(" ")
        check(count.isdigit() and stack, "broken line %r" % line)
    seen = {process for process, _, _ in chains.read_folded(context.text("x.folded"))}
    check("a:b:c" in seen and "new line 7" in seen, "names: %s" % sorted(seen))
    check('? {"x":1}' in seen, "a name that looks like a comment: %s" % sorted(seen))
    check("x 12" in seen, "a name with a blank: %s" % sorted(seen))
    page = context.text("x.html")
    check(page.count("</script>") == page.count("<script"), "a name closes the page's script")
    ElementTree.fromstring(context.text("x.svg"))
    json.loads(context.text("x.speedscope.json"))
    comms = {s["labels"].get("comm") for s in Pprof(context.read("x.pb.gz")).samples}
    check(len(comms) >= len(evil), "comms in pprof: %s" % comms)
    check_exact(context, [near])


def spawn_bytes(context, argv, env):
    kwargs = {}
    if context.mode == "caps":
        env[b"TARGET_NONDUMPABLE"] = b"1"
        kwargs = {"user": 65534, "group": 65534, "extra_groups": []}
    process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, **kwargs)
    context.stack.callback(lambda: (process.kill(), process.wait()))


def logged(context, form, processes):
    """The messages of a daemon about these, with that form of log."""
    path = context.path("log-" + form)
    with open(path, "wb") as file:
        running = context.start("daemon", "--output", context.path("out-" + form), "--interval", "1s", "--log-format",
                                form, "--log-level", "debug", "--listen", "none", stderr=file)
    end = time.monotonic() + 30
    while open(path, "rb").read().count(b"of unknown version") < len(processes) and time.monotonic() < end:
        time.sleep(0.1)
    running.terminate()
    context.finish(running, 30).expect(0)
    return context.read(path)


@test()
def file_names(context):
    """Messages about libraries whose names control a terminal or look like a line of bpfprof."""
    library = context.helper("unknown_python.so", "unknown_python.c", "-shared", "-fPIC")
    folder, processes = context.scratch("libraries", 0o755), []
    for number, name in enumerate(evil_names()):
        shutil.copy(library, os.path.join(os.fsencode(folder), name))
        link = os.path.join(folder, str(number))  # blanks and colons of the name would end it in LD_PRELOAD
        os.symlink(name, os.fsencode(link))
        processes.append(context.spawn([context.target("calls_gO2").path, "90"], env={"LD_PRELOAD": link}))
    chosen = [word for process in processes for word in ("-p", process.pid)]
    commands = {"record": ["record", *chosen, "-d", 2, "--native", "-o", "x.folded"],
            "record, verbose": ["record", *chosen, "-d", 1, "-v", "-v", "-o", "-", "--format", "folded"],
            "dump": ["dump", *chosen, "--native", "-v"], "dump as JSON": ["dump", *chosen, "--native", "--json"],
            "doctor": ["doctor", "--pid", processes[0].pid], "doctor as JSON": ["doctor", "--pid", processes[1].pid, "--json"],
            "top": ["top", *chosen, "--once"]}
    for what, argv in commands.items():
        done = context.bpfprof(*argv)
        check_terminal(what, done.out, done.err)
        if what.startswith(("record", "dump")):
            nr = done.err.count(b"a Python of unknown version")
            check(nr >= len(processes), "%s: %d libraries are named: %r" % (what, nr, done.err))
    for form in ("logfmt", "json"):
        text = logged(context, form, processes)
        nr = text.count(b"a Python of unknown version")
        check(nr >= len(processes), "%s: %d libraries are named: %r" % (form, nr, text[-2000:]))
        check_terminal(form, text)
        for line in text.decode().splitlines():
            check(line.startswith("time=") if form == "logfmt" else json.loads(line)["msg"], line)


@test()
def names_of_code(context):
    """Functions that a map of JIT code names with what controls a terminal."""
    evil = ["\x1b[31mred\x1b]0;title\x07", "\u009b2J\u202eback", "a\rbpfprof: all is well", "c\u2028next", "tab\tbed"]
    program, processes = context.helper("made_code", "made_code.c", "-static"), []
    for name in evil:
        process = context.spawn([program, "private"], stdout=subprocess.PIPE)
        path = "/tmp/perf-%d.map" % int(process.stdout.readline())
        context.stack.callback(os.unlink, path)
        with open(path, "rb+") as file:
            line = file.read().split()
            file.write(b"%s %s %s\xff\x9b\n" % (line[0], line[1], name.encode()))
        processes.append(process)
    chosen = [word for process in processes for word in ("-p", process.pid)]
    for what, argv in {"record": ["record", *chosen, "-d", 2, "-o", "x.folded", "-o", "x.pb.gz"],
                       "record to a pipe": ["record", *chosen, "-d", 2, "--format", "folded", "-o", "-"],
                       "dump": ["dump", *chosen, "--native"], "dump as JSON": ["dump", *chosen, "--native", "--json"],
                       "report": ["report", "x.pb.gz"],
                       "report --diff": ["report", "--diff", "x.pb.gz", "x.folded"], "top": ["top", *chosen, "--once"]}.items():
        done = context.bpfprof(*argv).expect(0)
        check_terminal(what, done.out, done.err)
        if "JSON" not in what:
            check(b"[31mred" in done.out + done.err, "%s: %r" % (what, done.out + done.err))


@test()
def many_mappings(context):
    """60,000 executable mappings."""
    program = context.helper("manymaps", "manymaps.c")
    near = neighbour(context)
    many = context.spawn([program, "90"], stdout=subprocess.PIPE)
    check(many.stdout.readline() == b"mapped\n", "could not make 60,000 mappings")
    done = context.bpfprof("record", "-F", HZ, "-d", "6", "-o", "x.folded", "--stats",
                           "x.json").expect(0)
    check(done.seconds < 20, "took %.1f s" % done.seconds)
    check_exact(context, [near])
    stats = context.json("x.json")
    # More than is kept of one process: walked as far as known, never wrong, and counted.
    many = chains.check([Watched("manymaps", program, "manymaps")], context.text("x.folded"))
    many = many["manymaps"]
    context.note("%.1f%% of its own stacks complete" % many.percent("exact"))
    check(many.samples >= 100 and not many.missing() and many.percent("wrong") < 1,
          chains.table({"manymaps": many}))
    check(many.counts["truncated"] <= sum(stats["stacks"]["reasons"].values()),
          "truncated without a reason: %s" % stats)
    check(stats["agent"]["memory_bytes"] <= 64 << 20,
          "memory_bytes %d" % stats["agent"]["memory_bytes"])


@test()
def sparse(context):
    """A sparse file of 3 GB mapped executable as one piece, busy near its end."""
    program = context.helper("mapped", "mapped.c")
    library, off, length, entry = code_file(context)
    near = neighbour(context)
    folder = context.scratch("files")
    path = os.path.join(folder, "sparse.bin")
    with open(library, "rb") as file:
        file.seek(off)
        code = file.read(length)
    at = 3 << 30
    with open(path, "wb") as file:
        file.truncate(at + (1 << 20))
        file.seek(at)
        file.write(code)
    context.spawn([program, "60", path, 0, at + (1 << 20), at + entry - off])
    done = context.bpfprof("record", "-F", HZ, "-d", "4", "-o", "x.folded", "--stats",
                           "x.json").expect(0)
    check(done.seconds < 15, "took %.1f s" % done.seconds)
    check_exact(context, [near])
    text = context.text("x.folded")
    check(re.search(r"^mapped;.*;run_mapped;sparse\.bin\+0xc[0-9a-f]{7};sparse\.bin\+0xc", text,
                    re.MULTILINE), "no addresses of the file:\n" + "\n".join(
                        line for line in text.splitlines() if line.startswith("mapped"))[:2000])


@test()
def truncated_while_read(context):
    """A mapped file whose tables and symbols come and go while they are read."""
    program = context.helper("mapped", "mapped.c")
    library, off, length, entry = code_file(context)
    near = neighbour(context)
    path = os.path.join(context.scratch("files"), "libshrink.so")
    with open(library, "rb") as file:
        content = file.read()
    with open(path, "wb") as file:
        file.write(content)
    over = threading.Event()

    def shrink():
        with open(path, "r+b", buffering=0) as file:
            while not over.is_set():
                file.truncate(off + length)
                file.seek(off + length)
                file.write(content[off + length:])

    worker = threading.Thread(target=shrink)
    worker.start()
    try:
        running = []
        recording = context.start("record", "-F", HZ, "-d", "6", "-o", "x.folded", "--stats",
                                  "x.json")
        for _ in range(6):  # each start reads the file anew
            time.sleep(0.5)
            running.append(context.spawn([program, "60", path, off, length, entry]))
            if len(running) > 1:
                running.pop(0).kill()
        context.finish(recording, 20).expect(0)
    finally:
        over.set()
        worker.join()
    check_exact(context, [near])
    for process, frames, _ in chains.read_folded(context.text("x.folded")):
        if process == "mapped" and frames[0] != chains.TRUNCATED:
            user = [frame for frame in frames if not frame.endswith(chains.KERNEL)]
            check(not user or user[0] in ("_start", "ld-linux-x86-64.so.2") or
                  re.match(r"_dl_|ld-linux|libshrink", user[0]), "wrong chain: %s" % frames)
            names = [frame for frame in user if frame.startswith("code_")]
            check(names in ([], ["code_outer"], ["code_outer", "code_spin"], ["code_spin"]),
                  "wrong names: %s" % frames)


@test()
def path_became_something_else(context):
    """A path becomes a FIFO or a loop of links before the recording, or within it."""
    near = neighbour(context)
    base = context.target("calls_gO2").path
    folder = context.scratch("files", 0o755)

    def replace(path, kind):
        os.unlink(path)
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "loop":
            os.symlink(path, path)
        else:
            os.mkdir(path)

    def start(name):
        path = os.path.join(folder, name)
        shutil.copy(base, path)
        context.spawn([path, "60"])
        time.sleep(0.2)
        return path

    for kind in ("fifo", "loop", "dir"):
        replace(start("was_" + kind), kind)
    recording = context.start("record", "-F", HZ, "-d", "5", "-o", "x.folded", "--stats", "x.json")
    context.sampling(recording)
    for kind in ("fifo", "loop"):
        replace(start("now_" + kind), kind)
    done = context.finish(recording, 20).expect(0)
    check(done.seconds < 12, "took %.1f s" % done.seconds)
    check_exact(context, [near])
    # Opened when first mapped: a path that changed within the recording does no harm.
    seen = {}
    for process, frames, count in chains.read_folded(context.text("x.folded")):
        seen.setdefault(process, []).append((count, frames))
    for name in ("was_fifo", "was_loop", "was_dir", "now_fifo", "now_loop"):
        check(name in seen, "%s is not in the profile" % name)
    check_exact(context, [Watched(name, base, "calls") for name in ("now_fifo", "now_loop")],
                samples=50)


@test(alone=True)
def libraries_at_one_address(context):
    """150 rounds of dlclose and dlopen of two libraries at the same address: no wrong name."""
    alpha = context.helper("libalpha.so", "reuse_library.c", "-shared", "-fPIC", "-DTARGET_MAIN")
    beta = context.helper("libbeta.so", "reuse_library.c", "-shared", "-fPIC", "-DBETA",
                          "-DTARGET_MAIN")
    program = context.helper("reuse", "reuse.c")
    neighbour(context)
    same = os.path.join(context.scratch("files"), "same")
    target = context.spawn([program, "60", alpha, beta, "150", same])
    recording = context.start("record", "-F", "997", "-d", "100", "-p", target.pid, "-o",
                              "x.folded", "--stats", "x.json")
    target.wait(timeout=100)
    recording.send_signal(2)
    context.finish(recording, 20).expect(0)
    with open(same, encoding="ascii") as file:
        rounds = int(file.read())
    if rounds < 100:
        raise Skip("the loader reused the address in %d of 299 cases only" % rounds)
    wrong, right, truncated = [], 0, 0
    for process, frames, count in chains.read_folded(context.text("x.folded")):
        other = {"call_alpha": "beta_", "call_beta": "alpha_"}
        if frames and frames[0] == chains.TRUNCATED:
            truncated += count
        for caller, prefix in other.items():
            if caller in frames:
                right += count
                if any(frame.startswith(prefix) for frame in frames):
                    wrong.append("%d %s" % (count, ";".join(frames)))
    check(right > 1000, "only %d samples" % right)
    check(not wrong, "wrong names:\n" + "\n".join(wrong[:10]))
    results = chains.check([Watched("reuse", program, "reuse")], context.text("x.folded"))
    context.note("%d samples, %.2f%% exact, %d truncated, address reused %d times" %
                 (right, results["reuse"].percent("exact"), truncated, rounds))
    check(results["reuse"].percent("exact") >= 97, chains.table(results))


@test()
def silent_file_system(context):
    """A library on a FUSE file system that stops answering: sampling and writing go on."""
    server = context.helper("fuse_hang", "fuse_hang.c")
    program = context.helper("mapped", "mapped.c")
    library, off, length, entry = code_file(context)
    near = neighbour(context)
    for way in ("unread", "unanswered"):
        mount = context.path("mount-" + way)
        os.mkdir(mount)
        fuse = subprocess.Popen([server, mount, library, way], stdout=subprocess.PIPE)
        context.stack.callback(lambda f=fuse, m=mount: (
            f.kill(), f.wait(), f.stdout.close(),
            subprocess.run(["umount", "-l", m], stderr=subprocess.DEVNULL, check=False)))
        if fuse.stdout.readline() != b"mounted\n":
            raise Skip("no FUSE file system can be mounted (exit %d)" % fuse.wait())
        busy = context.spawn([program, "60", os.path.join(mount, "libhang.so"), off, length, entry])
        time.sleep(0.7)
        check(busy.poll() is None, "the mapped program ended with %s" % busy.returncode)
        fuse.send_signal(10)  # SIGUSR1: no more answers
        time.sleep(0.2)
        recording = context.start("record", "-F", HZ, "-d", "4", "-o", way + ".folded",
                                  "--stats", way + ".json")
        end = time.monotonic() + 20
        while time.monotonic() < end and not os.path.exists(context.path(way + ".json")):
            time.sleep(0.1)
        took = time.monotonic() - recording.started
        check(os.path.exists(context.path(way + ".json")), "%s: nothing written after %.0f s" %
              (way, took))
        check(took < 12, "%s: written after %.1f s" % (way, took))
        if way == "unanswered":
            fuse.terminate()  # a thread within a request that was read cannot be killed before
            fuse.wait()
        context.finish(recording, 15).expect(0)
        check_exact(context, [near], name=way + ".folded")
        check("mapped;" in context.text(way + ".folded"), "the program on it is not in the profile")
        busy.kill()
        fuse.terminate()
        fuse.wait()


# Some 100,000 stacks of three processes in ten seconds, hardly one like another.
DIVERSE = """
import random, sys
N = 3000
space = {"N": N}
exec("\\n".join("def a_function_with_a_long_name_%d(depth, random):\\n"
               "    if depth:\\n        ALL[random.randrange(N)](depth - 1, random)\\n"
               "    for _ in range(60): pass\\n" % i for i in range(N)), space)
space["ALL"] = [space["a_function_with_a_long_name_%d" % i] for i in range(N)]
numbers = random.Random(int(sys.argv[1]))
while True:
    space["ALL"][0](numbers.randrange(5, 60), numbers)
"""


@test()
def no_two_stacks_alike(context):
    """The budget holds whatever is sampled: there are no more stacks then, and that is said."""
    for seed in range(3):
        context.spawn(["/usr/bin/python3", "-c", DIVERSE, seed])
    for way in ((), ("--wall",)):
        context.bpfprof("record", "-F", "4999", "-d", "10", *way, "-o", "x.folded", "-o",
                        "x.pb.gz", "--stats", "x.json").expect(0)
        stats = context.json("x.json")
        context.note("%s: %d samples, %.1f MiB, %s" % (
            " ".join(way) or "CPU", stats["samples"]["total"],
            stats["agent"]["memory_bytes"] / (1 << 20), stats["stacks"]["reasons"]))
        check(stats["samples"]["python"] > 5000, str(stats["samples"]))
        check(stats["stacks"]["reasons"].get("stack_table_full", 0) > 0, str(stats["stacks"]))
        check(stats["agent"]["memory_bytes"] <= 64 << 20, str(stats["agent"]))
