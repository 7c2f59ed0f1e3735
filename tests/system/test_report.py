# SPDX-License-Identifier: Apache-2.0
"""report --nccl on files of gpu --once --json, of programs that know which rank hangs."""

import json
import os
import re
import subprocess
import time

import containers
from gpu_truth import Caller, Seen, Watch, fakes
from harness import check, test
from test_top import python
from test_usage import one_sentence

LIGHT = True
# A rank of a communicator through the fake library: as many calls, and one that never returns.
RANK = """
import ctypes, signal, sys, threading
from ctypes import byref, c_char, c_int, c_size_t, c_void_p
folder, rank, size, calls, role = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]
cuda = ctypes.CDLL(folder + "/libcuda.so.1", ctypes.RTLD_GLOBAL)
nccl = ctypes.CDLL(folder + "/libnccl.so.2")
class Id(ctypes.Structure):
    _fields_ = [("bytes", c_char * 128)]
nccl.ncclCommInitRank.argtypes = [c_void_p, c_int, Id, c_int]
nccl.ncclAllReduce.argtypes = [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p]
def all_reduce():
    nccl.ncclAllReduce(4096, 8192, 1000, 7, 0, comm, 7)
def load_batch():
    cuda.fake_cuda_set_latency_us(600000000)
    cuda.cuStreamSynchronize(7)
def next_batch():
    sys.stdin.readline()
signal.alarm(300)
print("ready", flush=True)
sys.stdin.readline()
identity, comm = Id(), c_void_p()
nccl.ncclGetUniqueId(byref(identity))
nccl.ncclCommInitRank(byref(comm), size, identity, rank)
if role == "slow":
    nccl.fake_nccl_hang(b"ncclAllReduce", 1)
for _ in range(calls):
    all_reduce()
print('"done"', flush=True)
if role == "waits":
    nccl.fake_nccl_hang(b"ncclAllReduce", 600)
    all_reduce()
elif role == "receives":
    nccl.fake_nccl_hang(b"ncclRecv", 600)
    nccl.ncclRecv.argtypes = [c_void_p, c_size_t, c_int, c_int, c_void_p, c_void_p]
    nccl.ncclRecv(8192, 100, 7, rank - 1, comm, 7)
elif role == "late":
    load_batch()
elif role == "elsewhere":
    next_batch()
    all_reduce()
    print("called", flush=True)
    next_batch()
elif role == "deep":
    def down(n):
        return down(n - 1) if n else next_batch()
    down(400)
elif role == "computes":
    def tokenize():
        while True:
            pass
    tokenize()
elif role == "backward":
    def hook():
        while True:
            pass
    def engine():
        all_reduce()
        hook()
    thread = threading.Thread(target=engine)
    thread.start()
    def backward():
        thread.join()
    backward()
sys.stdin.readline()
"""


class Rank(Caller):
    def __init__(self, context, rank, size, calls, role):
        where = fakes(context)
        self.rest = b""
        self.process = context.spawn(
            [python(context), "-c", RANK, where.folder, rank, size, calls, role],
            env={"RANK": str(rank)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.process.pid
        check(self.line() == "ready", "not ready")


def written(context, name, text):
    path = context.path(name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def watch_over(context, ranks):
    return Watch(context, "--json", "-d", "120", *[x for one in ranks for x in ("-p", one.pid)])


def watched_as_they_are(context, name, ranks):
    return written(context, name, watch_over(context, ranks).end())


def watched(context, name, ranks, seconds):
    """The file of a watch over these, so long after their work."""
    watch = watch_over(context, ranks)
    for one in ranks:
        one.work()
    time.sleep(seconds)
    return written(context, name, watch.end())


def report(context, *arguments, **more):
    done = context.bpfprof("report", "--nccl", *arguments, timeout=30, **more).expect(0)
    check(not done.err, "messages: " + done.text)
    return done.out.decode()


@test(modes=("caps",))
def behind(context):
    """Three of four ranks wait in a collective; one has gone elsewhere. Two nodes' files."""
    ranks = [Rank(context, number, 4, 20, role)
             for number, role in enumerate(("waits", "waits", "late", "waits"))]
    files = [watched(context, "a.json", ranks[:2], 1.5), watched(context, "b.json", ranks[2:], 1.5)]
    text = report(context, *files)
    context.note(text)
    check("BEHIND: rank 2, in no collective of this communicator, while ranks 0-1, 3 wait" in text,
          text)
    check("fewer calls, too: at most 20, those that wait 21" in text, text)
    where = text.split("Rank 2: ")[1]
    check("[2] " in where.splitlines()[0] and "pid %d" % ranks[2].pid in where.splitlines()[0], text)
    check(re.search(r"in cuStreamSynchronize for .*\n(.*\n)*.*load_batch", where), text)
    check("Not in these files" not in text and "not understood" not in text, text)
    # Without the file that has it.
    text = report(context, files[0])
    check("BEHIND" not in text and re.search(r"Not in these files: ranks 2-3 of 4", text), text)
    # Through a pipe.
    with open(files[0], "rb") as file:
        check("All 2 ranks have made 21 calls, and all wait" in report(context, "-", stdin=file), "-")


@test(modes=("root",))
def hang_and_nccl(context):
    """The other programs: two ranks of one communicator, and one of them hangs in its call."""
    callers = [Caller(context, "nccl"), Caller(context, "hang")]
    watch = Watch(context, "--json", "-d", "120",
                  *[x for one in callers for x in ("-p", one.pid)])
    truths = [one.work() for one in callers]
    time.sleep(1.5)
    seen = Seen(watch.end())
    # Both of them are rank 3 of 8 of the same communicator: one becomes its neighbour.
    for row in seen.process(truths[0]["pid"])["communicators"]:
        row["rank"] = 4 if row["rank"] == 3 else row["rank"]
    text = report(context, written(context, "a.json", json.dumps(seen.whole)))
    context.note(text)
    check("BEHIND: rank 4, in no collective of this communicator, while rank 3 waits, in "
          "ncclAllReduce for" in text, text)
    check("Rank 4: " in text and "pid %d" % callers[0].pid in text.split("Rank 4: ")[1], text)
    check("ranks 0-2, 5-7 of 8" in text, text)


@test(modes=("root",))
def slow(context):
    """Calls of the second run take a second each."""
    files = []
    for name, role in (("fast.json", "idle"), ("slow.json", "slow")):
        ranks = [Rank(context, number, 2, 3, role) for number in range(2)]
        files.append(watched(context, name, ranks, 0))
    text = report(context, *files)
    context.note(text)
    ratio = re.search(r"ncclAllReduce float32, 4.0 kB each, 2 ranks: (\d+) times\n", text)
    check(ratio and int(ratio.group(1)) >= 100, "ratio in:\n" + text)
    rows = text[ratio.end():].splitlines()[1:5]
    check([row.split("[")[1][0] for row in rows] == ["2", "2", "1", "1"], "order:\n" + text)
    means = [float(re.search(r"([\d.]+) s ", row).group(1)) for row in rows[:2]]
    check(all(1 <= mean < 1.2 for mean in means), "not a second each:\n" + text)
    check("All 2 ranks have made 3 calls" in text, text)


@test(modes=("root",))
def wrong(context):
    good = written(context, "good.json", '{"host":"n","seconds":1,"processes":[7]}')
    check("1 entry was not understood" in report(context, good), "not counted")
    bad = written(context, "bad.json", '{"host":"n"}')
    for arguments, status, word in (
            ([], 2, "which files"), ([good], 1, "--nccl"), (["--nccl"], 2, "which files"),
            (["--nccl", "--rows", "x", good], 2, "--rows"), (["--bogus"], 2, "--bogus"),
            (["--nccl", good, bad], 1, "bad.json"), (["--nccl", context.dir], 1, context.dir),
            (["--nccl", "/dev/zero"], 1, "64 MiB"), (["--nccl", "/no/such\x1b[31m"], 1, "/no/such?"),
            (["--nccl", "-", "-"], 2, "once")):
        done = context.bpfprof("report", *arguments, timeout=30).expect(status)
        check(word in one_sentence(done), "%s: %s" % (arguments, done.text))
    done = context.bpfprof("report", "--help", timeout=10).expect(0)
    check(b"bpfprof report --nccl" in done.out, "no examples")
    full = context.start("report", "--nccl", good, stdout=os.open("/dev/full", os.O_WRONLY))
    context.finish(full, 10).expect(1)


def hung(context, ranks):
    """All of them are in place before the recording begins."""
    for one in ranks:
        one.work()
    containers.wait_for("them to sleep", lambda: all(asleep(one.pid) for one in ranks), 20)
    time.sleep(1.2)


def asleep(pid):
    with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
        return file.read().rpartition(")")[2].split()[0] == "S"


def check_elsewhere(text, before, pid, known=" that is known", function="next_batch"):
    """After these lines it is said where the main thread is."""
    head = "%s\n      in no CUDA or NCCL call%s: thread %d python3\n" % (before, known, pid)
    check(head in text, "no %s in:\n%s" % (head, text))
    stack = re.match(r"(?:        .*\n)+", text.split(head)[1]).group().split("\n        ")
    check(all(frame.strip() for frame in stack[1:]), "frames without a name: %s" % stack)
    check(any(re.fullmatch(re.escape(function) + r" \(<string>:\d+\)", frame) for frame in stack),
          "no %s in %s" % (function, stack))


def table(text, rank):
    return re.search(r"^ +%d +(\S+)  (\S+) +(.*?)  +\[(\d)\] \S+ pid (\d+) " % rank, text,
                     re.MULTILINE).groups()


@test()
def hung_before(context):
    """The job hangs since before the recording: the waiting ranks are known, and so is the missing one."""
    ranks = [Rank(context, number, 4, 20, role)
             for number, role in enumerate(("waits", "waits", "elsewhere", "waits"))]
    hung(context, ranks)
    files = [watched_as_they_are(context, "a.json", ranks[:2]),
             watched_as_they_are(context, "b.json", ranks[2:])]
    text = report(context, *files)
    context.note(text)
    check(re.search(r"^Communicator 0x[0-9a-f]+, 4 ranks$", text, re.MULTILINE), text)
    for number, file in ((0, "1"), (1, "1"), (3, "2")):
        calls, last, is_open, of, pid = table(text, number)
        check((calls, last, of, pid) == ("-", "ncclAllReduce", file, str(ranks[number].pid)), text)
        check(re.fullmatch(r"ncclAllReduce for > .*", is_open), text)
    check(re.search(r"^  All 3 ranks wait, the longest in ncclAllReduce for more than ", text,
                    re.MULTILINE), text)
    for line in ("In a call since before the hooks: ranks 0-1, 3, whose calls cannot be compared",
                 "Not in these files: rank 2 of 4: without a call while it was watched, or not "
                 "watched.", "Others wait: a missing rank is behind, if it was watched"):
        check("\n  %s\n" % line in text, "no %s in:\n%s" % (line, text))
    place = "[2] %s pid %d python3" % (os.uname().nodename, ranks[2].pid)
    check_elsewhere(text, "    RANK=2, which may be it: " + place, ranks[2].pid)
    check_elsewhere(text, "\nWith NCCL, but without a call while they were watched, and in none before, as "
                    "far as is known:\n  %s, rank 2" % place, ranks[2].pid)
    check("BEHIND" not in text and "not understood" not in text, text)
    # One that makes a call meanwhile, and goes elsewhere again, is known.
    watch = watch_over(context, ranks[2:])
    ranks[2].say("call")
    check(ranks[2].line() == "called", "it did not call")
    time.sleep(0.5)
    text = report(context, files[0], written(context, "c.json", watch.end()))
    context.note(text)
    check(table(text, 2)[:3] == ("1", "ncclAllReduce", "-"), text)
    check(re.search(r"^  BEHIND: rank 2, in no collective of this communicator, while ranks 0-1, 3 "
                    r"wait, the longest in ncclAllReduce for more than ", text, re.MULTILINE), text)
    check("calls, too" not in text and "with more calls" not in text, text)
    check_elsewhere(text, "    Rank 2: [2] %s pid %d python3" % (os.uname().nodename, ranks[2].pid),
                    ranks[2].pid, known="")
    check("Not in these files" not in text and "With NCCL, but" not in text, text)


@test()
def hung_in_the_driver(context):
    """
    As a job of PyTorch's hangs: NCCL's calls have returned, the ranks wait for the device, and nothing
    tells of a communicator. Those at the same place are shown once, beside the one that is not there.
    """
    ranks = [Rank(context, number, 4, 20, role)
             for number, role in enumerate(("late", "late", "elsewhere", "late"))]
    hung(context, ranks)
    text = report(context, watched_as_they_are(context, "a.json", ranks[:2]),
                  watched_as_they_are(context, "b.json", ranks[2:]))
    context.note(text)
    host = os.uname().nodename
    check("\nNo communicator was used while these processes were watched\n"
          "\n3 processes are in calls since before they were watched, 1 with NCCL is in none that is known:\n"
          "  it may be what the others wait for\n" in text, text)
    check("\nCalls that began before they were watched:\n  3 at the same place, ranks 0-1, 3:\n"
          "  [1] %s pid %d python3, rank 0\n  [1] %s pid %d python3, rank 1\n  [2] %s pid %d python3, rank 3\n"
          "      in a function of libcuda, the longest for more than "
          % (host, ranks[0].pid, host, ranks[1].pid, host, ranks[3].pid) in text, text)
    check(text.count("load_batch (<string>:") == 1, text)
    check_elsewhere(text, "\nWith NCCL, but without a call while they were watched, and in none before, as "
                    "far as is known:\n  [2] %s pid %d python3, rank 2" % (host, ranks[2].pid), ranks[2].pid)


@test()
def pipeline(context):
    """Each stage receives from the one before it: the first one is what all of them wait for."""
    ranks = [Rank(context, number, 4, 20, role)
             for number, role in enumerate(("elsewhere", "receives", "receives", "receives"))]
    text = report(context, watched(context, "a.json", ranks, 1.5))
    context.note(text)
    check(re.search(r"^  BEHIND: rank 0, in no call of this communicator, while ranks 1-3 wait, the longest in "
                    r"ncclRecv for \S+ s\n    Rank 0: ", text, re.MULTILINE), text)
    check_elsewhere(text, "    Rank 0: %s pid %d python3" % (os.uname().nodename, ranks[0].pid), ranks[0].pid,
                    known="")
    # A recording begins only now.
    text = report(context, watched_as_they_are(context, "b.json", ranks))
    context.note(text)
    check("BEHIND" not in text and re.search(
        r"^  All 3 ranks wait, the longest in ncclRecv for more than .*\n"
        r"  In a call since before the hooks: ranks 1-3, whose calls cannot be compared\n"
        r"  The awaited ranks wait, too, are not in these files, or are not known\n"
        r"  Not in these files: rank 0 of 4: ", text, re.MULTILINE), text)


@test()
def deep(context):
    """A stack over the limit keeps its inner part, and the cut is counted."""
    ranks = [Rank(context, number, 2, 20, role) for number, role in enumerate(("waits", "deep"))]
    with open(watched(context, "a.json", ranks, 1.5), encoding="utf-8") as file:
        found = json.load(file)
    stack, = [one["where"][0]["stack"] for one in found["processes"] if one["pid"] == ranks[1].pid]
    check(len(stack) == 256 and any(frame.startswith("next_batch (") for frame in stack) and
          sum(frame.startswith("down (") for frame in stack) > 200, str(stack))
    check(found["lost"]["stacks_without_calls_cut"] == 1, str(found["lost"]))


def places_of(path):
    with open(path, encoding="utf-8") as file:
        return {one["pid"]: one["where"] for one in json.load(file)["processes"]}


@test(alone=True)
def computing(context):
    """The rank that the other one waits for is on a CPU: a sample shows its place."""
    ranks = [Rank(context, number, 2, 20, role) for number, role in enumerate(("waits", "computes"))]
    found = watched(context, "a.json", ranks, 1.5)
    where = places_of(found)
    check(where[ranks[0].pid] == [] and len(where[ranks[1].pid]) == 1, str(where))
    thread = where[ranks[1].pid][0]
    check((thread["tid"], thread["thread"], thread["running"], thread["last_in_nccl"]) ==
          (ranks[1].pid, "python3", True, True), str(thread))
    text = report(context, found)
    context.note(text)
    check("BEHIND: rank 1" in text, text)
    check(re.search(r"in no CUDA or NCCL call: thread %d python3, on a CPU\n(        .*\n)*"
                    r"        tokenize \(<string>:\d+\)\n        <module> \(<string>:\d+\)\n"
                    % ranks[1].pid, text), text)


@test()
def computing_without_a_cpu(context):
    """It would run, but others have its CPU: where it is is known, by a read or by a sample."""
    ranks = [Rank(context, number, 2, 20, role) for number, role in enumerate(("waits", "computes"))]
    watch, pid = watch_over(context, ranks), ranks[1].pid
    for one in ranks:
        one.work()
    cpu = max(os.sched_getaffinity(0))
    os.sched_setaffinity(pid, {cpu})
    os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
    for _ in range(3):
        hog = context.spawn(["sh", "-c", "while :; do :; done"])
        os.sched_setaffinity(hog.pid, {cpu})
        os.setpriority(os.PRIO_PROCESS, hog.pid, -20)
    time.sleep(1.5)
    found = written(context, "a.json", watch.end())
    thread, = places_of(found)[pid]
    check(thread["stack"][0].startswith("tokenize ("), str(thread))
    text = report(context, found)
    context.note(text)
    check("in no CUDA or NCCL call: thread %d python3" % pid in text and
          "tokenize (" in text, text)


@test(alone=True)
def in_another_thread(context):
    """A rank that calls NCCL in a thread of its own, as a backward pass does: where both are."""
    ranks = [Rank(context, number, 2, 20, role) for number, role in enumerate(("waits", "backward"))]
    found = watched(context, "a.json", ranks, 1.5)
    threads = places_of(found)[ranks[1].pid]
    check([(one["running"], one["last_in_nccl"]) for one in threads] == [(False, False), (True, True)] and
          threads[0]["tid"] == ranks[1].pid, str(threads))
    text = report(context, found)
    context.note(text)
    check(re.search(r"in no CUDA or NCCL call: thread %d python3\n(        .*\n)*        backward \(.*\n"
                    r"(        .*\n)*      and thread \d+ \S+, the last seen in NCCL, on a CPU\n"
                    r"(        .*\n)*        hook \(.*\n        engine \(" % ranks[1].pid, text), text)
