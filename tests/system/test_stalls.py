# SPDX-License-Identifier: Apache-2.0
"""dump --waits, watch --stall: can processes go on? python/stalls.py and targets/stalls.c stall, or only wait."""

import glob
import os
import re
import shutil
import signal
import subprocess
import time

import pythons
from gpu_truth import fakes
from harness import ROOT, check, descendants, test
from test_loop import mount, silence

BESIDE = True
SOURCE = os.path.join(ROOT, "tests", "system", "python", "stalls.py")
STALL_S = 2
AGAIN_S = 10
FOLDER = re.compile(r"^(stall|suspect)-\d{8}T\d{6}Z-([A-Za-z0-9._-]+)-(\d+)(-\d+)?$")
# What the sentence says that the thread waits for, in the order of the file.
STALLS = {
    "locks": "a lock", "never_filled": "a lock", "barrier": "a lock", "executor": "a lock",
    "full_pipe": "room in a pipe (file 4)", "child_full_pipe": "a child process", "input_never_closed": "a child process",
    "two_pipes": "data from a pipe (file 3)", "sockets": "data from a Unix socket (file 3)",
    "tcp": "data from a TCP socket (file 4)", "tcp_mapped": "data from a TCP socket (file 4)",
    "full_socket": "a Unix socket (file 3)", "stopped": None, "child_stopped": None,
    "killed_worker": "data from a pipe (file 5)", "shared_lock": "a lock or condition",
    "async_locks": "tasks of asyncio", "async_queue": "tasks of asyncio",
}
# Each waits in another way, or is another kind of process. Standard input, which "coprocess" and others read, stays open.
IDLE = ["server", "epoll_server", "server_in_thread", "sleeps", "parked_pool", "process_pool", "process_executor",
        "busy_pool", "manager", "thread_works", "child_works", "pipeline", "follows", "child_serves", "coprocess",
        "looks_again", "pauses", "polls", "eventfd", "async_sleep", "async_server", "async_thread", "async_child",
        "empty_loop"]


def places():
    """{way: (function, line)} of the lines that have the comment "waits"."""
    lines, outer = {}, []
    with open(SOURCE, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            indent = len(line) - len(line.lstrip())
            name = re.match(r" *(?:async )?def (\w+)", line)
            outer = outer if not line.strip() else [pair for pair in outer if pair[0] < indent]
            outer += [(indent, name[1])] if name else []
            if line.rstrip().endswith("# waits"):
                lines[outer[0][1]] = (outer[-1][1], number)
    return lines


def end(process):
    """Its descendants may be stopped, or wait for locks."""
    for pid in descendants(process.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def begin(context, argv, **kwargs):
    process = context.spawn(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **kwargs)
    context.stack.callback(end, process)
    check(process.stdout.readline() == b"ready\n", "%s did not begin" % argv)
    return process


def stalls(context, way, *more, python=None, **kwargs):
    argv, env = (python.argv, python.environment()) if python else (["/usr/bin/python3"], None)
    path = os.path.join(context.dir, os.path.basename(SOURCE))
    if not os.path.exists(path):
        shutil.copyfile(SOURCE, path)
    return begin(context, [*argv, path, way, *more], env=env, **kwargs)


def native(context, way, *more):
    return begin(context, [context.helper("stalls", "stalls.c", "-pthread"), way, *more])


def verdict(context, process, *more, timeout=30, stall="1s"):
    """The sentence of a dump of the process and its descendants."""
    run = context.bpfprof("dump", "--subprocesses", "-p", process.pid, "--waits", "--stall", stall, *more, timeout=timeout)
    run.expect(0)
    return run.out.decode("utf-8").split("\n", 1)[0]


def settled(context, processes):
    time.sleep(1.2)
    return [verdict(context, process) for process in processes]


def begins_right(text, way, pid, python=None):
    """Is it the sentence of that stall?"""
    function, line = places().get(way, (None, None))
    name = r"(\w+\.<locals>\.)*%s \(stalls\.py:%s\)" % (function, line) if function else ""
    if way == "stopped":
        return re.match(r"stalls\.py \(pid %d\) is stopped by a signal in %s$" % (pid, name), text)
    if way == "child_stopped":
        return re.match(r"sh \(pid \d+\) is stopped by a signal.*; stalls\.py \(pid %d\) is in child_stopped " % pid, text)
    if way == "killed_worker" and ".work (" in text.split(";", 1)[0]:  # it may be about the worker that lives
        return re.match(r"stalls\.py \(pid \d+\) has waited .* for a lock .*; stalls\.py \(pid %d\) is in %s and " % (
            pid, name), text)
    return re.match(r"stalls\.py \(pid %d\) has waited \d+(\.\d+)? s for %s in %s(; |$)" % (
        pid, re.escape(STALLS[way]) if not python else ".*", name), text)


@test(long=True)
def found(context):
    """Each stall: the sentence names the process, its wait, the function and the line."""
    processes = {way: stalls(context, way) for way in STALLS}
    for (way, process), text in zip(processes.items(), settled(context, processes.values())):
        check(text.startswith("Stalled: ") and begins_right(text[9:], way, process.pid), "%s: %s" % (way, text))


@test(long=True)
def idle(context):
    """Programs that only wait."""
    processes = {way: stalls(context, way) for way in IDLE}
    for way, text in zip(processes, settled(context, processes.values())):
        check(text == "Alive: each thread runs, or something can end its wait", "%s: %s" % (way, text))


@test()
def suspected(context):
    """The handler of a signal may end a wait: not enough for a stall."""
    process = stalls(context, "asks_to_end")
    [text] = settled(context, [process])
    check(re.match(r"Suspect: stalls\.py \(pid %d\) .* in asks_to_end .*; only the handler of a signal ends this$" % process.pid, text), text)
    process = native(context, "handler")
    [text] = settled(context, [process])
    check(re.match(r"Suspect: stalls \(pid %d\) .*; only the handler of a signal ends this$" % process.pid, text), text)


@test(long=True)
def pythons_found(context):
    """Every Python of this machine: a lock, a loop, and a loop that is idle."""
    every = [(one, way, stalls(context, way, python=one, plain=True)) for one in pythons.installed()
             for way in ("locks", "async_locks", "empty_loop")]
    for (one, way, process), text in zip(every, settled(context, [process for *_, process in every])):
        right = text.startswith("Alive: ") if way == "empty_loop" else \
            text.startswith("Stalled: ") and begins_right(text[9:], way, process.pid, one)
        check(right, "%s, %s: %s" % (one, way, text))
    context.note("%d Pythons" % (len(every) / 3))


@test()
def of_ranks(context):
    """Rank 0 waits for rank 1. The launcher sleeps again and again, which is no life of the job."""
    expected = {
        ("works", 2): "Alive: ", ("child", 2): "Alive: ", ("deadlock", 4): "Alive: ",
        ("sleeps", 2): r"Stalled: rank 1 \(pid \d+\) has slept \S+ s in augment \(stalls\.py:\d+\); rank 0 \(pid \d+\) is in rank ",
        ("stops", 2): r"Stalled: rank 1 \(pid \d+\) is stopped by a signal in augment .*; rank 0 \(pid \d+\) is in rank ",
        ("deadlock", 2): r"Stalled: rank 1 \(pid \d+\) has waited .* for a lock in augment .*; rank 0 \(pid \d+\) is in rank ",
        ("killed", 2): r"Stalled: rank 1 \(pid \d+\) has waited .* for data from a pipe .* in augment .*; rank 0 \(pid \d+\) is in rank ",
    }
    processes = [stalls(context, "launcher", *case) for case in expected]
    for (case, regex), text in zip(expected.items(), settled(context, processes)):
        check(re.match(regex, text), "%s: %s" % (case, text))


@test()
def of_nccl(context):
    """Ranks in ncclAllReduce wait for the one that is elsewhere, if that can go on."""
    where = fakes(context)
    script = os.path.join(where.folder, "nccl_ranks.py")
    waits = {}
    with open(script, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            name = re.match(r"def (\w+)", line)
            waits["last"] = name[1] if name else waits.get("last")
            if line.endswith("# waits\n"):
                waits[waits["last"]] = r"%s \(nccl_ranks\.py:%d\)" % (waits["last"], number)
    reduces = r"ncclAllReduce of 4\.1 kB"
    expected = {
        "augments": r"Stalled: rank 0 \(pid \d+\) has waited \S+ s for %s in %s; rank 1 \(pid \d+\) is in %s and waits for %s, "
                    r"rank 2 \(pid \d+\) is in %s and waits for a lock" % (
                        reduces, waits["step"], waits["step"], reduces, waits["augment"]),
        "reduces": r"Stalled: rank 0 .* for %s in .*; rank 1 .*, rank 2 \(pid \d+\) is in %s and waits for %s" % (
            reduces, waits["step"], reduces),
        "works": "Alive: "}
    for way, regex in expected.items():
        ranks = [begin(context, ["/usr/bin/python3", script, one, where.folder],
                       env={"RANK": str(rank), "WORLD_SIZE": "3"}) for rank, one in enumerate(["reduces", "reduces", way])]
        time.sleep(1.2)
        run = context.bpfprof("dump", "--waits", "--stall", "1s", *(word for one in ranks for word in ("-p", one.pid)))
        text, reason = run.expect(0).out.decode("utf-8").split("\n")[:2]
        check(re.match(regex, text) and reason == ("" if way == "works" else "Reason: collective"), "%s: %s %s" % (way, text, reason))
        context.note(text)
        for one in ranks:
            end(one)


@test()
def without_python(context):
    """C: mutexes, a condition, a pipe; a first thread that has ended; children of vfork."""
    expected = {
        "mutexes": r"Stalled: stalls \(pid {0}\) has waited .* for a mutex in crossed; thread \"stalls\" is in crossed and waits for a mutex$",
        "condition": r"Stalled: stalls \(pid {0}\) has waited .* for a condition in condition; no other thread can end this wait$",
        "pipe": r"Stalled: stalls \(pid {0}\) has waited .* for room in a pipe \(file \d+\) in full_pipe; no other",
        "leader-ends": r"Stalled: stalls \(pid {0}\) has waited .* for a condition in condition; no other",
        "vfork-stuck": r"Stalled: stalls \(pid {0}\) has waited .* for a child of vfork in vfork_like; stalls \(pid \d+\) is in read_one ",
        "leader-ends-well": "Alive: ", "vfork": "Alive: ", "pause": "Alive: ",
    }
    processes = {way: native(context, way) for way in expected}
    for (way, process), text in zip(processes.items(), settled(context, processes.values())):
        check(re.match(expected[way].format(process.pid), text), "%s: %s" % (way, text))


@test()
def silent_file_system(context):
    """A FUSE server that does not answer: a read, a page fault, a stat."""
    helper = context.helper("stalls", "stalls.c", "-pthread")
    for way in ("read", "map", "stat"):
        fuse, place = mount(context, way, "/bin/true", *(("unread",) if way == "stat" else ("slow", 60000)))
        process = begin(context, [helper, way, os.path.join(place, "libhang.so")]) if way != "stat" else None
        if way == "stat":
            silence(fuse)
            process = context.spawn([helper, way, os.path.join(place, "libhang.so")])
        context.stack.callback(fuse.kill)
        [text] = settled(context, [process])
        check(re.match(r"Stalled: stalls \(pid %d\) has waited .* for a FUSE server.* in (file_use|main)$" % process.pid, text), "%s: %s" % (way, text))
        text = verdict(context, process, stall="300s")
        check(text.startswith("Alive: "), "a slow answer is none yet: " + text)


@test()
def pseudo_file(context):
    """A reader of the kernel's log waits for an event, not for a disk."""
    process = begin(context, ["sh", "-c", "echo ready; exec cat /proc/kmsg >/dev/null"], plain=True)
    [text] = settled(context, [process])
    check(text.startswith("Alive: "), text)


@test()
def hostile(context):
    """Thousands of threads and pipes, a pipe with a thousand holders: seconds. Names with control characters: safe."""
    for way, number, begins in (("threads", 2000, "Stalled: "), ("pipes", 500, "Stalled: "), ("held", 600, "Alive: ")):
        process = native(context, way, number)
        time.sleep(0.6)
        started = time.monotonic()
        text = verdict(context, process, timeout=60)
        seconds = time.monotonic() - started
        check(text.startswith(begins) and len(text) < 1000 and seconds < 30, "%s: %.1f s: %s" % (way, seconds, text))
        context.note("%s: %.1f s" % (way, seconds))
        end(process)
    process = native(context, "name")
    [text] = settled(context, [process])
    check(re.match(r"Stalled: [ -~]* \(pid %d\) has waited" % process.pid, text) and text.isprintable(), repr(text))


class Watch:
    """A running watch --stall, and what it wrote."""

    def __init__(self, context, name, *processes, more=()):
        self.context, self.output, self.log = context, context.path(name), context.path(name + ".log")
        with open(self.log, "wb") as log:
            self.process = context.start("watch", "--stall", "%ds" % STALL_S, "-o", self.output, *more,
                                         *(word for one in processes for word in ("-p", one.pid)), stderr=log)
        self.begun = time.monotonic()

    def folders(self):
        return sorted(path for path in glob.glob(os.path.join(self.output, "*")) if FOLDER.match(os.path.basename(path)))

    def end(self):
        """Its lines."""
        self.process.send_signal(signal.SIGINT)
        return self.context.finish(self.process, 30).expect(0).out.decode("utf-8").splitlines()


@test(long=True)
def watched(context):
    """watch finds stalls by itself, within the time-out and 15 seconds; its page begins with the sentence."""
    ways = {"locks": "lock", "two_pipes": "process", "child_full_pipe": "process", "stopped": "stopped", "async_locks": "lock"}
    processes = {way: stalls(context, way) for way in ways}
    watches = {way: Watch(context, way, process) for way, process in processes.items()}
    seconds = {}
    while len(seconds) < len(ways) and time.monotonic() < watches["async_locks"].begun + 60:
        for way, watch in watches.items():
            if way not in seconds and watch.folders():
                seconds[way] = time.monotonic() - watch.begun
        time.sleep(0.1)
    for way, watch in watches.items():
        [line] = watch.end()
        check(begins_right(line, way, processes[way].pid), "%s: %s" % (way, line))
        [folder] = watch.folders()
        name = FOLDER.match(os.path.basename(folder))
        check(name and name[1] == "stall" and name[2] == "stalls.py" and int(name[3]) == processes[way].pid, folder)
        texts = {}
        for name in ("summary.txt", "dump-1.txt", "dump-2.txt"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                texts[name] = file.read()
        check(texts["summary.txt"].startswith(line + ".\n"), texts["summary.txt"])
        check("no page fault" in texts["summary.txt"] and "\n\nWaits:\n" in texts["summary.txt"] and
              re.search(r"^reason +%s$" % ways[way], texts["summary.txt"], re.MULTILINE), texts["summary.txt"])
        for number in (1, 2):
            check(texts["dump-%d.txt" % number].startswith("Stalled: stalls.py (pid %d)" % processes[way].pid) and
                  "\nProcess %d: " % processes[way].pid in texts["dump-%d.txt" % number], texts["dump-%d.txt" % number])
    # The watch itself takes some seconds to begin where several do so at once.
    check(max(seconds.values()) < STALL_S + 15 + 5, "%s" % seconds)
    context.note(", ".join("%s %.1f s" % pair for pair in seconds.items()))


@test(long=True)
def watched_huge(context):
    """A dump is cut after 4 MiB; the verdict and the waits come first."""
    process = stalls(context, "huge")
    watch = Watch(context, "huge", process)
    while not watch.folders():
        check(time.monotonic() < watch.begun + 90, "no folder")
        time.sleep(0.2)
    time.sleep(1)
    [line] = watch.end()
    check(re.match(r"stalls\.py \(pid %d\) has waited .* in huge\." % process.pid, line), line)
    [folder] = watch.folders()
    sizes = {name: os.path.getsize(os.path.join(folder, name)) for name in ("dump-1.txt", "dump-2.txt", "summary.txt")}
    check(sizes["dump-1.txt"] == sizes["dump-2.txt"] == 4 << 20 and 20000 < sizes["summary.txt"] < 1 << 20, "%s" % sizes)


@test(long=True)
def watched_doubtful(context):
    """A suspicion of one process hides no stall of another one."""
    process = stalls(context, "first_doubtful", "20")
    watch = Watch(context, "doubtful", process)

    def kinds():
        return [FOLDER.match(os.path.basename(path))[1] for path in watch.folders()]
    while "stall" not in kinds():
        check(time.monotonic() < watch.begun + 90, "%s" % kinds())
        time.sleep(0.2)
    time.sleep(1)
    [line] = watch.end()
    function, number = places()["first_doubtful"]
    check(re.match(r"stalls\.py \(pid \d+\) has waited .* for a lock.* in \S*%s \(stalls\.py:%d\)" % (function, number), line), line)
    check(sorted(kinds()) == ["stall", "suspect"], "%s" % kinds())


@test(long=True)
def watched_idle(context):
    """No line and no folder for programs that only wait."""
    processes = {way: stalls(context, way) for way in IDLE}
    watch = Watch(context, "all", *processes.values())
    time.sleep(STALL_S + 15 + AGAIN_S)
    lines = watch.end()
    check(not lines and not watch.folders(), "%s %s" % (lines, watch.folders()))


@test(long=True)
def watched_busy(context):
    """--stall-busy: a process that spins in one line is found, one that computes in several is none; else neither."""
    ways = ["spins", "spins_in_child", "spins_beside", "computes", "sleeps", "process_pool", "async_server"]
    processes = {way: stalls(context, way) for way in ways}
    watches = {way: Watch(context, way, process, more=["--stall-busy"]) for way, process in processes.items()}
    plain = Watch(context, "plain", *processes.values())
    busy = ["spins", "spins_in_child", "spins_beside"]
    seconds = {}
    while len(seconds) < len(busy) and time.monotonic() < plain.begun + 60:
        for way in busy:
            if way not in seconds and watches[way].folders():
                seconds[way] = time.monotonic() - watches[way].begun
        time.sleep(0.1)
    time.sleep(AGAIN_S)
    lines = {way: watch.end() for way, watch in watches.items()}
    place = r"stalls\.py \(pid \d+\) is busy in spins \(stalls\.py:(%d|%d)\); nothing else of the process can go on$" % (
        places()["spins"][1], places()["spins"][1] - 1)
    for way, found_lines in lines.items():
        check(len(found_lines) == (way in busy) and all(re.match(place, line) for line in found_lines), "%s" % lines)
    check("(pid %d)" % processes["spins"].pid in lines["spins"][0] and
          "(pid %d)" % processes["spins_in_child"].pid not in lines["spins_in_child"][0], "%s" % lines)
    with open(os.path.join(watches["spins"].folders()[0], "summary.txt"), encoding="utf-8") as file:
        check(re.search(r"^reason +busy$", file.read(), re.MULTILINE), "reason")
    check(not plain.end(), "it found something without --stall-busy")
    context.note(", ".join("%s %.1f s" % pair for pair in seconds.items()))
