# SPDX-License-Identifier: Apache-2.0
"""Resident memory by stack, of programs that know what each of their functions holds."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time

from daemons import SUFFIXES, Daemon, check_whole
from dumps import wait_for
from harness import ROOT, Skip, check, test
from pprof import Pprof
from test_python import spawn
from test_wall import some_pythons

BESIDE = True
MIB = 1 << 20
SAMPLE = 16 << 10
WITHIN, DEVIATIONS = 0.03, 4
BEFORE, SHARED, LOST, SWAPPED, DRIFT = \
    "[before bpfprof]", "[shared with parent]", "[stack lost]", "[swapped out]", "[drift]"
ROW = re.compile(r"^ *(-?[\d.]+) (B|KiB|MiB|GiB) +-?[\d.]+%(?: +\d+)? +(\S.*)$")
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


class Holder:
    """holds.c or holds.py: runs a function at a time, and says by how much it grew."""

    def __init__(self, context, process):
        self.context = context
        self.process = process
        self.pid, _ = self.answer()
        self.held = {}

    def answer(self):
        pid, _, grown = self.process.stdout.readline().split()
        return int(pid), int(grown)

    def run(self, function, mib=0):
        """The pid that ran it."""
        self.process.stdin.write("%s %d\n" % (function, mib))
        self.process.stdin.flush()
        pid, grown = self.answer()
        self.held[function] = self.held.get(function, 0) + grown
        return pid


PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}


def in_c(context, *flags):
    program = context.helper("holds", "holds.c", *flags)
    return Holder(context, context.spawn([program, "120"], **PIPES))


def status_bytes(pid, name):
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name)) << 10


def rss_anon(pid):
    return status_bytes(pid, "RssAnon")


def of_pid(profile, pid):
    """Bytes by the name of the innermost own function, of one process."""
    found = {}
    for sample in profile.samples:
        if sample["labels"]["pid"] != pid:
            continue
        names = [name for at in sample["stack"] for name in profile.locations[at]["functions"]]
        own = [name for name in names if name in OWN or name.startswith("[")]
        name = own[0] if own else names[0]
        found[name] = found.get(name, 0) + sample["values"][1]
    return found


class Memory:
    """A recording that goes on until it is ended, and its results."""

    def __init__(self, context, *args, sample=SAMPLE, env=None):
        self.context, self.sample = context, sample
        self.process = context.start("memory", "--sample", sample, "-o", "x.pb.gz", "-o",
                                     "x.folded", "--stats", "x.json", "--rows", "0", "-v", *args, env=env)
        self.wait_begun()

    def wait_begun(self):
        """Until pages are sampled: -v says so."""
        for line in self.process.stderr:
            if b"memory: watching" in line:
                return
        check(False, "the recording did not begin: %s" % self.context.finish(self.process, 10).text)

    def end(self, status=0):
        self.process.send_signal(signal.SIGINT)
        return self.read(status)

    def read(self, status=0):
        self.done = self.context.finish(self.process, 60).expect(status)
        self.stats = self.context.json("x.json")
        self.profile = Pprof(self.context.read("x.pb.gz"))
        return self

    def of_pid(self, pid):
        return of_pid(self.profile, pid)

    def table(self, pid):
        """The rows of the table of one process, by function without its line."""
        text = self.done.out.decode()
        part = text[text.index("Process %d: " % pid):]
        rows = {}
        for line in part.split("\n")[4:]:
            row = ROW.match(line)
            if not row:
                break
            name = row.group(3).split(" (")[0].split(".<locals>")[0]
            rows[name] = rows.get(name, 0) + float(row.group(1)) * UNITS[row.group(2)]
        return rows


OWN = {"small", "big", "other", "zeroed", "churn", "drop", "huge", "moved", "shared", "copies",
       "arrays", "strings", "dicts", "gone"}


def compare(context, found, truth, sample=SAMPLE):
    """Each function within 3%, or four standard deviations of the sampling."""
    notes = []
    for name, true in truth.items():
        seen = found.get(name, 0)
        slack = max(WITHIN * true, DEVIATIONS * (max(true, MIB) * sample) ** 0.5)
        notes.append("%s %.1f of %.1f" % (name, seen / MIB, true / MIB))
        check(abs(seen - true) <= slack, "%s: %.2f MiB seen, %.2f MiB true, slack %.2f: %s" % (
            name, seen / MIB, true / MIB, slack / MIB, found))
    context.note(", ".join(notes) + " MiB")


def check_sum(context, memory, pid, anon):
    """All rows of the table give the kernel's count, and what does not add up is little."""
    rows = memory.table(pid)
    drift = rows.get(DRIFT, 0)
    check(abs(sum(rows.values()) - anon) < 0.01 * anon + MIB, "the rows give %.1f MiB of %.1f: %s" %
          (sum(rows.values()) / MIB, anon / MIB, memory.done.out.decode()))
    check(abs(drift) <= WITHIN * anon, "drift %.2f MiB of %.1f" % (drift / MIB, anon / MIB))
    check(memory.stats["memory"]["pages_kernel_no_room"] == 0, "pages were lost: %s" %
          memory.stats["memory"])
    context.note("drift %.2f%%" % (100 * drift / anon))


@test()
def functions(context):
    """Small and large blocks, zeroed ones, blocks that are freed, and 1.6 GiB that have gone."""
    holder = in_c(context)
    holder.run("other", 30)
    old = rss_anon(holder.pid)
    memory = Memory(context, "-p", holder.pid)
    holder.held.clear()
    holder.run("big", 64)
    holder.run("drop")
    holder.held.clear()
    for function, mib in (("small", 40), ("big", 100), ("other", 20), ("zeroed", 30),
                          ("churn", 1600)):
        holder.run(function, mib)
    anon = rss_anon(holder.pid)
    memory.end()
    found = memory.of_pid(holder.pid)
    compare(context, found, holder.held)
    check(abs(found[BEFORE] - old) < MIB, "before: %s of %s" % (found[BEFORE], old))
    # A page of 4 KiB stands for 18.1 KiB then.
    check(memory.stats["memory"]["pages_sampled"] * 18.1 * 1024 > 1700 * MIB, "pages were not seen")
    check(memory.profile.sample_types == ["inuse_objects/count", "inuse_space/bytes"] and
          memory.profile.default_type == "inuse_space", "types: %s" % memory.profile.sample_types)
    check_sum(context, memory, holder.pid, anon)
    folded = sum(int(line.rsplit(" ", 1)[1]) for line in context.text("x.folded").split("\n")[1:]
                 if line)
    check(folded == sum(sample["values"][1] for sample in memory.profile.samples),
          "the collapsed stacks have %d bytes" % folded)


@test()
def old_memory_is_freed(context):
    """Memory from before the start falls by what is freed of it; --grown leaves it out."""
    holder = in_c(context)
    holder.run("other", 40)
    holder.run("big", 60)
    old = rss_anon(holder.pid)
    memory = Memory(context, "-p", holder.pid)
    holder.run("drop")  # frees the 60
    holder.run("zeroed", 32)
    memory.end()
    found = memory.of_pid(holder.pid)
    compare(context, found, {BEFORE: old - 60 * MIB, "zeroed": 32 * MIB})
    memory = Memory(context, "-p", holder.pid, "--grown")
    holder.run("big", 32)
    memory.end()
    found = memory.of_pid(holder.pid)
    check(BEFORE not in found, "before is in --grown: %s" % found)
    compare(context, found, {"big": 32 * MIB})


@test()
def peak(context):
    """What was held when it was the most, also if that was for a fifth of a second."""
    holder = in_c(context)
    holder.run("other", 30)
    memory = Memory(context, "-p", holder.pid, "--peak")
    holder.held.clear()
    for function, mib in (("big", 64), ("zeroed", 100)):
        holder.run(function, mib)
    truth = dict(holder.held)
    anon = rss_anon(holder.pid)
    time.sleep(0.2)
    holder.run("drop")
    holder.run("small", 20)
    memory.end()
    found = memory.of_pid(holder.pid)
    compare(context, found, dict(truth, small=0))
    check(abs(sum(found.values()) - anon) < 0.05 * anon, "%d bytes of %d" % (sum(found.values()), anon))
    check(re.search(r"The most memory was held \d+\.\d s after the start", memory.done.out.decode()),
          memory.done.out.decode())


@test()
def report(context):
    """report on files of memory: rows without a stack too, and a difference in bytes, not per second."""
    holder = in_c(context)
    holder.run("other", 40)
    memory = Memory(context, "-p", holder.pid)
    holder.run("big", 64)
    memory.end()
    os.rename(context.path("x.pb.gz"), context.path("a.pb.gz"))
    memory = Memory(context, "-p", holder.pid, "--grown")
    holder.run("zeroed", 32)
    memory.end()
    text = context.bpfprof("report", "a.pb.gz").expect(0).out.decode()
    check(re.search(r"^ +4\d\.\d MB .*\[before bpfprof\]$", text, re.MULTILINE), text)
    text = context.bpfprof("report", "a.pb.gz", "--diff", "x.pb.gz").expect(0).out.decode()
    check("in MiB\n" in text and "error" not in text, text)
    found = re.search(r"^ +(\d+)\.\d+ +0\.0000 +-(\d+)\.\d+ +\[before bpfprof\]$", text, re.MULTILINE)
    check(found and found.group(1) == found.group(2) and 39 <= int(found.group(1)) <= 42, text)


@test()
def leaks(context):
    """Only memory that was held for half of the time, by stacks that never gave much of it back."""
    holder = in_c(context)
    holder.run("other", 30)
    memory = Memory(context, "-p", holder.pid, "--leaks")
    holder.held.clear()
    for function, mib in (("small", 24), ("big", 48), ("zeroed", 32)):
        holder.run(function, mib)
    truth = {name: holder.held[name] for name in ("small", "big")}
    time.sleep(1)
    holder.run("drop")
    time.sleep(1)
    holder.run("zeroed", 32)  # held, but the same stack gave back as much before
    holder.run("churn", 160)
    time.sleep(2)
    holder.run("moved", 16)  # too late
    memory.end()
    found = memory.of_pid(holder.pid)
    compare(context, found, truth)
    check(set(found) <= {"small", "big"} | {name for name in found if found[name] < MIB},
          "no leaks: %s" % found)


@test()
def growth(context):
    """The function that grows is named, with its share."""
    holder = in_c(context)
    memory = Memory(context, "-p", holder.pid)
    end = time.monotonic() + 5
    while time.monotonic() < end:
        holder.run("big", 6)
        time.sleep(0.2)
    memory.end()
    found = re.search(r"finding: holds pid %d: memory grew by (\d+) MiB in [\d.]+ s, (\d+)%% of it in big"
                      % holder.pid, memory.done.err.decode())
    check(found, memory.done.err.decode())
    check(abs(int(found.group(1)) * MIB - holder.held["big"]) < 0.2 * holder.held["big"] and
          int(found.group(2)) >= 90, found.group(0))


@contextlib.contextmanager
def swap(context):
    """
    Swap space, for as long as it is needed. Tests with it run alone: a process of another test that meets the
    limit of its cgroup would swap, not be killed.
    """
    path = context.path("swap")
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, 256 * MIB)
    os.chmod(path, 0o600)
    for command in (["mkswap", path], ["swapon", path]):
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise Skip("%s: %s" % (command[0], error)) from None
        if done.returncode:
            raise Skip("no swap space can be made here: %s" % done.stderr.strip())
    try:
        yield
    finally:
        subprocess.run(["swapoff", path], check=True)


@test(alone=True)
def swapped_out(context):
    """Swapped memory has a row of its own, also where the kernel still has the pages; it is there again when it comes back."""
    with swap(context):
        holder = in_c(context)
        memory = Memory(context, "-p", holder.pid)
        holder.run("big", 64)
        holder.run("zeroed", 48)
        held = dict(holder.held)
        holder.run("out", 48)
        anon, out = (status_bytes(holder.pid, name) for name in ("RssAnon", "VmSwap"))
        memory.end()
        check(out > 40 * MIB, "only %d bytes were swapped out" % out)
        compare(context, memory.of_pid(holder.pid), {"big": held["big"], "zeroed": held["zeroed"] - out})
        check(abs(memory.of_pid(holder.pid)[SWAPPED] - out) < MIB, "%s, true %d" % (memory.of_pid(holder.pid), out))
        check_sum(context, memory, holder.pid, anon + out)
        memory = Memory(context, "-p", holder.pid)
        holder.run("copies", 48)
        anon, out = (status_bytes(holder.pid, name) for name in ("RssAnon", "VmSwap"))
        memory.end()
        found = memory.of_pid(holder.pid)
        check(out < 8 * MIB and found.get(SWAPPED, 0) == out, "%s, true %d" % (found, out))
        # The kernel may still have had the pages: then they are from before.
        compare(context, {"all": found[BEFORE] + found.get("copies", 0)}, {"all": anon})
        check_sum(context, memory, holder.pid, anon + out)


@test(alone=True)
def old_memory_is_swapped_out(context):
    """Memory from before counts once: swapped out, and again as what it is when it comes back."""
    with swap(context):
        holder = in_c(context)
        holder.run("big", 64)
        for lines in (("out", 60),), (("copies", 60), ("out", 60), ("copies", 60)):
            memory = Memory(context, "-p", holder.pid)
            for function, mib in lines:
                time.sleep(0.5)
                holder.run(function, mib)
            anon, out = (status_bytes(holder.pid, name) for name in ("RssAnon", "VmSwap"))
            time.sleep(0.5)
            memory.end()
            found = memory.of_pid(holder.pid)
            check(len(lines) > 1 or out > 50 * MIB, "only %d bytes were swapped out" % out)
            check(abs(sum(found.values()) - anon - out) < 0.03 * (anon + out) + MIB,
                  "the rows have %d bytes of %d: %s" % (sum(found.values()), anon + out, found))
            check_sum(context, memory, holder.pid, anon + out)


@test(alone=True)
def forked_while_swapped_out(context):
    """Swapped memory counts as such once: children have it from their parent."""
    with swap(context):
        holder = in_c(context)
        holder.run("big", 64)
        holder.run("out", 60)
        memory = Memory(context, "-p", holder.pid)
        child = holder.run("fork")
        time.sleep(1)
        anon, out = (status_bytes(child, name) for name in ("RssAnon", "VmSwap"))
        memory.end()
        check(out > 50 * MIB, "only %d bytes were swapped out" % out)
        check(abs(memory.of_pid(holder.pid)[SWAPPED] - out) < 2 * MIB, "%s" % memory.of_pid(holder.pid))
        found = memory.of_pid(child)
        check(found.get(SWAPPED, 0) < MIB and abs(found[SHARED] - anon - out) < 2 * MIB, "%s of %d" % (found, out))


@test()
def chosen_by_name(context):
    """--comm: only processes with that name, also one that allocates nothing meanwhile."""
    quiet, busy, other = (Holder(context, context.spawn([context.helper(name, "holds.c"), "120"], **PIPES))
                          for name in ("holds-quiet", "holds-busy", "other"))
    quiet.run("big", 24)
    old = rss_anon(quiet.pid)
    memory = Memory(context, "--comm", "holds-*")
    busy.run("big", 48)
    other.run("big", 48)
    memory.end()
    compare(context, memory.of_pid(busy.pid), {"big": 48 * MIB})
    check(abs(memory.of_pid(quiet.pid).get(BEFORE, 0) - old) < MIB, "%s" % memory.of_pid(quiet.pid))
    check(not memory.of_pid(other.pid) and "Process %d" % other.pid not in memory.done.out.decode(),
          memory.done.out.decode())


@test()
def killed(context):
    """A process that is killed while others live is shown as it was, with the sender; an ended one is not."""
    parent, victim, ended = in_c(context), in_c(context), in_c(context)
    memory = Memory(context, *(word for one in (parent, victim, ended) for word in ("-p", one.pid)))
    for one, function in ((parent, "other"), (victim, "big"), (ended, "zeroed")):
        one.run(function, 48)
    time.sleep(0.6)
    os.kill(victim.pid, signal.SIGKILL)
    ended.process.stdin.close()
    ended.process.wait()
    time.sleep(0.6)
    memory.end()
    compare(context, memory.of_pid(victim.pid), {"big": 48 * MIB})
    compare(context, memory.of_pid(parent.pid), {"other": 48 * MIB})
    check(not memory.of_pid(ended.pid), "%s" % memory.of_pid(ended.pid))
    found = [one["text"] for one in memory.stats["findings"] if one["kind"] == "killed"]
    check(len(found) == 1 and re.match(
        r"holds pid %d was killed by python\S* \(pid %d\) after [\d.]+ s: it held \d+ MiB, (9\d|100)%% of it in big$" % (
            victim.pid, os.getpid()), found[0]), "%s" % found)
    context.note(found[0])


@contextlib.contextmanager
def cgroup(limit, inside=False):
    """A memory cgroup with a limit, or one inside of such; v1, where the kernel has it so."""
    v1 = os.path.exists("/sys/fs/cgroup/memory/memory.limit_in_bytes")
    if not v1 and not os.path.exists("/sys/fs/cgroup/memory.stat"):
        raise Skip("no memory cgroup")
    folder = "/sys/fs/cgroup/%sbpfprof-test-%d" % ("memory/" if v1 else "", os.getpid())
    below = os.path.join(folder, "below")
    os.makedirs(below if inside else folder)
    with open(os.path.join(folder, "memory.limit_in_bytes" if v1 else "memory.max"), "w", encoding="ascii") as file:
        file.write(str(limit))
    own = below if inside else folder
    try:
        yield own
    finally:
        wait_for(lambda: not open(os.path.join(own, "cgroup.procs"), encoding="ascii").read(), "the cgroup is empty")
        if inside:
            os.rmdir(below)
        os.rmdir(folder)


def evidence(context, daemon, kind, pid):
    """The files of a process that was killed: (text, profile)."""
    names = [name for name in os.listdir(daemon.output) if "-%d." % pid in name]
    stem = re.match(r"(%s-\d{8}T\d{6}Z-%d)\.txt$" % (kind, pid), "".join(name for name in names if ".txt" in name))
    check(stem and {name[len(stem.group(1)):] for name in names} == {".txt", ".folded", ".html", ".pb.gz"}, "%s" % names)
    for suffix in SUFFIXES:
        check_whole(suffix, os.path.join(daemon.output, stem.group(1) + suffix))
    with open(os.path.join(daemon.output, stem.group(1) + ".pb.gz"), "rb") as file:
        profile = Pprof(file.read())
    check({sample["labels"]["pid"] for sample in profile.samples} == {pid}, "of other processes")
    with open(os.path.join(daemon.output, stem.group(1) + ".txt"), encoding="utf-8") as file:
        text = file.read()
    context.note(text.split("\n", 1)[0])
    check("Process %d: holds\n" % pid in text and "  Held  Share" in text, text)
    return text, profile


@test(modes=("root",))
def out_of_memory_files(context):
    """The daemon writes what the victim of the OOM killer held, in files of its own; the limit is that of a cgroup above."""
    with cgroup(96 * MIB, inside=True) as folder:
        holder, near = in_c(context), in_c(context)
        with open(os.path.join(folder, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(holder.pid))
        daemon = Daemon(context, "--memory", interval="2s")
        daemon.wait("sampling")
        near.run("big", 32)
        holder.run("other", 20)
        holder.run("big", 60)
        time.sleep(0.6)
        holder.process.stdin.write("zeroed 64\n")
        holder.process.stdin.flush()
        check(holder.process.wait(20) == -signal.SIGKILL, "it lives on")
        daemon.wait("profile written", len(daemon.said("profile written")) + 2)
        check(daemon.end() == 0, "it failed")
    text, profile = evidence(context, daemon, "oom", holder.pid)
    check(re.match(r"holds pid %d was killed by the OOM killer after [\d.]+ s: it held [\d.]+ MiB, \d+%% of it in big; "
                   r"a cgroup above its own used 9[56]( MiB|\.\d+ MiB) of its limit of 96 MiB$" % holder.pid,
                   text.split("\n", 1)[0]), text)
    compare(context, of_pid(profile, holder.pid), {"other": 20 * MIB, "big": 60 * MIB}, 512 << 10)


@test(modes=("root",))
def out_of_memory(context):
    """The OOM killer of a cgroup: what the victim held by function, the limit, and that it was the OOM killer."""
    with cgroup(96 * MIB) as folder:
        holder = in_c(context)
        watched = in_c(context)
        with open(os.path.join(folder, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(holder.pid))
        memory = Memory(context, "-p", holder.pid, "-p", watched.pid)
        holder.run("other", 20)
        holder.run("big", 60)
        time.sleep(0.6)
        holder.process.stdin.write("zeroed 64\n")
        holder.process.stdin.flush()
        check(holder.process.wait(20) == -signal.SIGKILL, "it lives on")
        time.sleep(0.3)
        memory.end()
    found = [one["text"] for one in memory.stats["findings"] if one["kind"] == "killed"]
    check(len(found) == 1 and re.match(
        r"holds pid %d was killed by the OOM killer after [\d.]+ s: it held [\d.]+ MiB, \d+%% of it in big; "
        r"its cgroup used 9[56]( MiB|\.\d+ MiB) of its limit of 96 MiB$" % holder.pid, found[0]), "%s %s" % (found, memory.done.text))
    compare(context, memory.of_pid(holder.pid), {"other": 20 * MIB, "big": 60 * MIB})
    context.note(found[0])


@test()
def beside_samples(context):
    """record --memory: both profiles of one run."""
    holder = in_c(context)
    recording = context.start("record", "--memory", "-F", 499, "-p", holder.pid, "-o", "x.pb.gz", "-o", "x.folded",
                              "--stats", "x.json")
    context.sampling(recording)
    holder.run("big", 96)
    holder.run("churn", 1600)
    time.sleep(0.5)
    recording.send_signal(signal.SIGINT)
    context.finish(recording, 60).expect(0)
    compare(context, of_pid(Pprof(context.read("x.memory.pb.gz")), holder.pid), {"big": 96 * MIB, "churn": 0}, 512 << 10)
    cpu = Pprof(context.read("x.pb.gz"))
    check(cpu.sample_types == ["samples/count", "cpu/nanoseconds"] and
          "churn" in context.text("x.folded") and "big" in context.text("x.memory.folded"), "%s" % cpu.sample_types)
    pages = context.json("x.json")["memory"]["pages_sampled"]
    head = json.loads(context.text("x.memory.folded").split("\n", 1)[0][2:])
    check(pages > 1000 and head["samples"]["total"] == pages, "%d pages: %s" % (pages, head["samples"]))
    for words, says in ((["-o", "x.pb.gz", "-o", "x.memory.pb.gz"], "x.memory.pb.gz"),):
        done = context.bpfprof("record", "--memory", *words).expect(2)
        check(says in done.err.decode(), done.text)


@test()
def intervals(context):
    """daemon --memory: what is held at the end of each interval, beside the samples; a kill is logged, with its function."""
    holder, victim = in_c(context), in_c(context)
    daemon = Daemon(context, "--memory", interval="2s")
    daemon.wait("sampling")

    def profile():
        """Of an interval that begins after now."""
        done = len(daemon.said("profile written"))
        name = daemon.wait("profile written", done + 2)[done + 1]["file"]
        for suffix in SUFFIXES:
            check_whole(suffix, os.path.join(daemon.output, name.replace("cpu-", "memory-") + suffix))
        with open(os.path.join(daemon.output, name.replace("cpu-", "memory-") + ".pb.gz"), "rb") as file:
            return Pprof(file.read())

    holder.run("big", 96)
    victim.run("zeroed", 160)
    first = profile()
    compare(context, of_pid(first, holder.pid), {"big": 96 * MIB}, 512 << 10)
    compare(context, of_pid(first, victim.pid), {"zeroed": 160 * MIB}, 512 << 10)
    os.kill(victim.pid, signal.SIGKILL)
    holder.run("drop")
    holder.run("other", 128)
    last = profile()
    compare(context, of_pid(last, holder.pid), {"other": 128 * MIB, "big": 0}, 512 << 10)
    check(not of_pid(last, victim.pid), "it is killed: %s" % of_pid(last, victim.pid))
    check(daemon.end() == 0, "it failed")
    text, profile = evidence(context, daemon, "kill", victim.pid)
    check(re.match(r"holds pid %d was killed by python" % victim.pid, text), text)
    compare(context, of_pid(profile, victim.pid), {"zeroed": 160 * MIB}, 512 << 10)
    said = [line["msg"] for line in daemon.lines() if "pid %d was killed" % victim.pid in line["msg"]]
    check(len(said) == 1 and re.search(r"holds pid %d was killed by python\S* .* in zeroed;" % victim.pid, said[0]),
          "%s" % said)
    check(max(line["memory_bytes"] for line in daemon.said("profile written")) <= 80 * MIB, "memory")
    check(os.readlink(os.path.join(daemon.output, "latest.memory.html")).startswith("memory-"), "no link")


@test()
def forks(context):
    """Shared pages are a row, what a child writes to is the child's, and the parent keeps its own."""
    holder = in_c(context)
    memory = Memory(context, "-p", holder.pid)
    holder.run("other", 48)
    holder.run("big", 64)
    parent = rss_anon(holder.pid)
    child = holder.run("fork")
    holder.run("copies", 24)
    holder.run("zeroed", 16)
    anon = rss_anon(child)
    memory.end()
    compare(context, memory.of_pid(holder.pid), {"other": 48 * MIB, "big": 64 * MIB, "copies": 0})
    found = memory.of_pid(child)
    compare(context, found, {"copies": 24 * MIB, "zeroed": 16 * MIB, "big": 0,
                             SHARED: parent - 24 * MIB})
    check_sum(context, memory, child, anon)


@test()
def huge_pages(context):
    """Huge pages count whole, also when some were given back; moved and shared memory."""
    holder = in_c(context)
    memory = Memory(context, "-p", holder.pid)
    for function, mib in (("huge", 80), ("moved", 60), ("shared", 50)):
        holder.run(function, mib)
    anon = rss_anon(holder.pid)
    memory.end()
    truth = dict(holder.held)
    truth["shared"] = 0  # no anonymous memory, but
    check("50.0 MiB shared" in memory.done.out.decode(), memory.done.out.decode())
    compare(context, memory.of_pid(holder.pid), truth)
    check_sum(context, memory, holder.pid, anon)


@test()
def python_functions(context):
    """Python functions, in each version, whatever allocates."""
    program = os.path.join(ROOT, "tests", "system", "python", "holds.py")
    for python in some_pythons():
        process = spawn(context, [*python.argv, program], python.environment(),
                        [python.stdlib, os.path.dirname(program)], **PIPES)
        holder = Holder(context, process)
        memory = Memory(context, "-p", holder.pid)
        for function, mib in (("arrays", 64), ("strings", 24), ("dicts", 24), ("gone", 320)):
            holder.run(function, mib)
        anon = rss_anon(holder.pid)
        memory.end()
        rows = memory.table(holder.pid)
        context.note(python.name)
        compare(context, rows, {name: max(0, held) for name, held in holder.held.items()})
        check_sum(context, memory, holder.pid, anon)
        process.kill()


@test()
def more_than_fits(context):
    """More pages than the map has room for: the bytes per sample grow, and the sums stay true."""
    holder = in_c(context)
    memory = Memory(context, "-p", holder.pid, sample=4096)
    for function, mib in (("big", 200), ("other", 100), ("churn", 320)):
        holder.run(function, mib)
    anon = rss_anon(holder.pid)
    memory.end()
    stats = memory.stats["memory"]
    # 24,576 pages of 300 MiB: 12 KiB per sample, at least.
    compare(context, memory.of_pid(holder.pid), holder.held, 32 << 10)
    check_sum(context, memory, holder.pid, anon)
    context.note("%d pages sampled" % stats["pages_sampled"])


@test()
def programs(context):
    """A program from its start; exec drops the old memory; at its end the last look is shown."""
    program = context.helper("holds", "holds.c")
    with open(context.path("lines"), "w+", encoding="ascii") as lines:
        lines.write("big 40\nexec 0\nzeroed 48\nnap 600\n")
        lines.seek(0)
        done = context.bpfprof("memory", "--sample", SAMPLE, "-o", "x.pb.gz", "--", program, "60",
                               stdin=lines).expect(0)
    found = {}
    for sample in Pprof(context.read("x.pb.gz")).samples:
        found[sample["labels"]["comm"]] = found.get(sample["labels"]["comm"], 0) + \
            sample["values"][1]
    check("zeroed" in done.out.decode() and "  big" not in done.out.decode(), done.out.decode())
    compare(context, found, {"holds": 48 * MIB})


@test()
def ends_and_pids(context):
    """Processes that end while they hold pages leave nothing, and no program is left attached."""
    holder = in_c(context)
    memory = Memory(context, "-p", holder.pid)
    for _ in range(3):
        child = in_c(context)
        child.process.kill()
    holder.run("big", 128)
    child = holder.run("fork")
    holder.run("zeroed", 64)
    os.kill(child, signal.SIGTERM)
    wait_for(lambda: not os.path.exists("/proc/%d" % child), "the child has ended")
    anon = rss_anon(holder.pid)
    memory.end()
    found = memory.of_pid(child)
    check(not found, "memory of a process that has ended: %s" % found)
    compare(context, memory.of_pid(holder.pid), {"big": 128 * MIB, "zeroed": 0})
    check_sum(context, memory, holder.pid, anon)


@test()
def process_storm(context):
    """A shell that starts programs without end: nothing is lost, nothing stays, memory is bounded."""
    shell = context.spawn(["sh", "-c", "while :; do /bin/true; /bin/true & wait; done"])
    memory = Memory(context, "-p", shell.pid, "-d", 6, sample=4096).read()
    counts = memory.stats["memory"]
    check(counts["pages_sampled"] > 5000, "few pages: %s" % counts)
    check(counts["pages_sampled"] - counts["pages_freed"] < 1000, "pages stay: %s" % counts)
    check(not any(counts[name] for name in counts if name.endswith("_no_room")), "%s" % counts)
    check(memory.stats["agent"]["memory_bytes"] <= 64 * MIB, "%s" % memory.stats["agent"])
    context.note("%d pages, %d MiB" % (counts["pages_sampled"],
                                       memory.stats["agent"]["memory_bytes"] >> 20))


@test()
def refused(context):
    """Mistakes on the command line, and processes that are not there."""
    for words, status, says in (
            (["--held", "--grown"], 2, "--held"), (["--peak", "--leaks"], 2, "--peak"), (["--sample", "1K"], 2, "--sample"),
            (["-o", "x.json"], 2, "x.json"), (["--format", "trace", "-o", "-"], 2, "trace"),
            (["-p", "2147483646", "-d", "1"], 4, "no such process")):
        done = context.bpfprof("memory", *words).expect(status)
        check(says in done.err.decode(), done.text)
