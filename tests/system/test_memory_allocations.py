# SPDX-License-Identifier: Apache-2.0
"""Allocations by stack, of programs that know what each of their functions allocates and frees."""

import os
import re
import shutil
import signal
import subprocess
import time

from dumps import wait_for
from harness import ROOT, Skip, check, test
from pprof import Pprof
from test_dump import memory_locked, strange
from test_gpu_scope import hooked_at
from test_memory import DEVIATIONS, MIB, PIPES, UNITS, WITHIN, Holder, Memory, compare
from test_lost import wait_state
from test_python import spawn
from test_wall import some_pythons

LIGHT = True
SAMPLE = 16 << 10
OWN = {"small", "fresh", "big", "before", "zeroed", "aligned", "grown", "churn", "of_thread", "failing", "mapped",
       "spike", "over", "objects", "rows", "wide", "vectors", "maps", "gone", "forms", "extended", "boxes", "zeroes", "jumps", "stays", "handled", "on_signal"}
TYPES = ["alloc_objects/count", "alloc_space/bytes", "inuse_objects/count", "inuse_space/bytes"]
ROW = re.compile(r"^ *([\d.]+) (B|KiB|MiB|GiB) +[\d.]+% +\d+ (?: +[\d.]+ (?:B|KiB|MiB|GiB)){2} +(\w+)",
                 re.M)


class Allocator:
    """allocates.c: runs a function at a time, and says what it allocated, and holds of it."""

    def __init__(self, context, *flags, program=None, **environment):
        name = "allocates" + "".join(flags).replace("-", "_").lower()
        program = program or context.helper(name, "allocates.c", "-pthread", *flags)
        self.process = context.spawn([program, "120"], environment, **PIPES)
        self.pid = int(self.answer()[0])
        self.allocated, self.held = {}, {}

    def answer(self):
        return self.process.stdout.readline().split()

    def run(self, function, mib=0):
        self.process.stdin.write("%s %d\n" % (function, mib))
        self.process.stdin.flush()
        _, _, allocated, held = self.answer()
        name = "of_thread" if function == "threads" else function
        self.allocated[name] = self.allocated.get(name, 0) + int(allocated)
        self.held[name] = self.held.get(name, 0) + int(held)
        if function == "drop":
            self.held = dict.fromkeys(self.held, 0)


class Allocations(Memory):
    """A recording of allocations that goes on until it is ended, and its results."""

    def __init__(self, context, *args, slowdown=0, sample=SAMPLE, env=None):
        super().__init__(context, "--allocations", "--max-slowdown", slowdown, *args,
                         sample=sample, env=env)

    def table(self, pid):
        """The held bytes of the table of one process, by function without its line."""
        text = self.done.out.decode()
        rows = {}
        for number, unit, name in ROW.findall(text[text.index("Process %d: " % pid):]):
            rows[name] = rows.get(name, 0) + float(number) * UNITS[unit]
        return rows

    def values(self, pid, value):
        """One value by the name of the innermost own function, of one process."""
        found = {}
        for sample in self.profile.samples:
            if sample["labels"]["pid"] != pid:
                continue
            names = [name.split("::")[-1] for at in sample["stack"]
                     for name in self.profile.locations[at]["functions"]]
            name = next((name for name in names if name in OWN), names[0])
            found[name] = found.get(name, 0) + sample["values"][TYPES.index(value)]
        return found

    def check(self, program):
        """Are all functions as they say? Functions that were not watched have no value."""
        allocated = self.values(program.pid, "alloc_space/bytes")
        held = self.values(program.pid, "inuse_space/bytes")
        compare(self.context, allocated, program.allocated, self.sample)
        compare(self.context, held, program.held, self.sample)
        counts = self.stats["memory"]
        lost = [name for name in counts if name.endswith(("_no_room", "_busy", "_not_hooked"))]
        check(not any(counts[name] for name in lost), "blocks were lost: %s" % counts)


@test()
def functions(context):
    """Every function of the allocator, threads, 1.6 GiB that have gone, and blocks from before."""
    program = Allocator(context)
    program.run("before", 20)
    memory = Allocations(context, "-p", program.pid)
    program.allocated.clear()
    program.held.clear()
    for function, mib in (("small", 40), ("fresh", 40), ("big", 100), ("zeroed", 30), ("aligned", 24),
                          ("grown", 16), ("churn", 1600), ("threads", 32), ("mapped", 80),
                          ("failing", 1000)):
        program.run(function, mib)
    memory.end().check(program)
    check(memory.profile.sample_types == TYPES and
          memory.profile.default_type == "inuse_space", "types: %s" % memory.profile.sample_types)
    blocks = memory.values(program.pid, "inuse_objects/count")
    check(blocks["big"] == 100, "big blocks are counted one by one: %s" % blocks)
    check(memory.values(program.pid, "alloc_objects/count")["churn"] == 1600 * 16,
          "blocks over the size of a sample are counted one by one")
    check(memory.stats["memory"]["blocks_failed"] == 1000, "%s" % memory.stats["memory"])
    folded = sum(int(line.rsplit(" ", 1)[1]) for line in context.text("x.folded").split("\n")[1:]
                 if line)
    check(folded == sum(memory.values(program.pid, "inuse_space/bytes").values()),
          "the collapsed stacks have %d bytes" % folded)
    check(memory.table(program.pid)["big"] == 100 * MIB, memory.done.out.decode())


SIZE_LIMITS = (256, 4 << 10, 64 << 10, 1 << 20)
CLASSES = re.compile(r"^((?: +(?:\.|<1|\d+)){12})  (\w+)", re.M)


@test()
def classes(context):
    """The table has the size of blocks and the time until they were freed, as the program itself measured them."""
    process = context.spawn([context.helper("lives", "lives.c", "-pthread"), "60"], **PIPES)
    pid = int(process.stdout.readline())
    memory = Allocations(context, "-p", pid)
    process.stdin.write("\n")
    process.stdin.flush()
    truth = {}
    for _ in range(6):
        name, *numbers = process.stdout.readline().split()
        truth[name] = list(map(int, numbers))
    memory.end()
    text = memory.done.out.decode()
    found = {name: [0.5 if word == "<1" else float(word.replace(".", "0")) for word in words.split()]
             for words, name in CLASSES.findall(text)}
    check(set(truth) <= set(found), text)
    for name, (size, allocated, *lives) in truth.items():
        sizes = [0] * 5
        sizes[sum(size >= limit for limit in SIZE_LIMITS)] = allocated
        true = [100 * part / allocated for part in sizes + lives + [allocated - sum(lives)]]
        slack = 100 * max(WITHIN, DEVIATIONS * (memory.sample / allocated) ** 0.5 / 2)
        check(all(abs(a - b) <= slack for a, b in zip(found[name], true)),
              "%s: %s, true %s, slack %.1f: %s" % (name, found[name], true, slack, text))
        context.note("%s %s" % (name, " ".join("%.0f" % part for part in true)))
    counts = memory.stats["memory"]
    check(counts["block_lives_estimated"] <= 20, "%s" % counts)


@test()
def frees(context):
    """All freed, by another thread, leaves nothing; unknown blocks are freed, too; 512 KiB per sample."""
    program = Allocator(context)
    program.run("before", 30)
    memory = Allocations(context, "-p", program.pid, sample=512 << 10)
    program.allocated.clear()
    program.held.clear()
    for function, mib in (("small", 60), ("big", 60), ("grown", 8), ("threads", 40)):
        program.run(function, mib)
    program.run("drop")
    memory.end().check(program)
    held = memory.values(program.pid, "inuse_space/bytes")
    check(not any(held.values()), "it holds nothing: %s" % held)
    counts = memory.stats["memory"]
    check(counts["blocks_sampled"] == counts["blocks_freed"], "%s" % counts)


@test()
def peak(context):
    """What was held when it was the most, also if that was for a twentieth of a second."""
    program = Allocator(context)
    memory = Allocations(context, "-p", program.pid, "--peak")
    program.run("small", 40)
    program.run("big", 60)
    program.run("drop")
    time.sleep(0.5)
    program.run("spike", 120)
    program.run("zeroed", 16)
    memory.end()
    found = memory.values(program.pid, "inuse_space/bytes")
    compare(context, found, {"spike": 120 * MIB, "small": 0, "big": 0, "zeroed": 0})
    compare(context, memory.values(program.pid, "alloc_space/bytes"), program.allocated)
    check(re.search(r"The most memory was held \d+\.\d s after the start.*"
                    r"120\.0 MiB held at the peak, of", memory.done.out.decode(), re.S),
          memory.done.out.decode())


@test()
def leaks(context):
    """Only blocks that were held for half of the time, by stacks that never gave much back."""
    program = Allocator(context)
    program.run("before", 10)
    memory = Allocations(context, "-p", program.pid, "--leaks")
    program.run("zeroed", 30)
    time.sleep(0.6)  # for a look at it
    program.run("drop")
    time.sleep(0.6)
    program.held.clear()
    for function, mib in (("small", 24), ("big", 48)):
        program.run(function, mib)
    truth = dict(program.held)
    time.sleep(1)
    program.run("zeroed", 32)  # held, but the same stack gave back as much before
    program.run("spike", 32)
    time.sleep(3)
    program.run("aligned", 16)  # too late
    memory.end()
    found = memory.values(program.pid, "inuse_space/bytes")
    compare(context, found, dict(truth, zeroed=0, spike=0, aligned=0))
    check(memory.table(program.pid)["big"] == 48 * MIB, memory.done.out.decode())


@test()
def answers_in_windows(context):
    """The peak of a process that is watched in windows is not known."""
    loop = context.spawn([loop_build(context)])
    memory = Allocations(context, "-p", loop.pid, "--peak", slowdown=10, sample=4096)
    time.sleep(2)
    memory.end()
    check("what it held is not known" in memory.done.out.decode() and
          not any(memory.values(loop.pid, "inuse_space/bytes").values()), memory.done.text)


@test()
def preloaded(context):
    """A preloaded library is the allocator in force; the one of the C library is not watched."""
    library = context.helper("liballocates.so", "allocates.c", "-DOWN_MALLOC", "-Dmain=unused",
                             "-shared", "-fPIC", "-pthread")
    program = Allocator(context, LD_PRELOAD=library)
    memory = Allocations(context, "-p", program.pid)
    for function, mib in (("small", 16), ("zeroed", 16), ("grown", 4), ("threads", 16)):
        program.run(function, mib)
    memory.end().check(program)


@test()
def replaced(context):
    """The file of the allocator is replaced while it is hooked: what runs keeps the old one, what begins has the new one."""
    library = os.path.join(context.scratch("lib"), "liballocates.so")
    built = context.helper("liballocates.so", "allocates.c", "-DOWN_MALLOC", "-Dmain=unused", "-shared", "-fPIC",
                           "-pthread")
    shutil.copy(built, library)
    program = Allocator(context, LD_PRELOAD=library)
    memory = Allocations(context, "-p", program.pid)
    program.run("small", 16)
    shutil.copy(built, library + ".new")
    os.replace(library + ".new", library)
    program.run("small", 16)
    program.run("big", 24)
    before = dict(program.allocated)
    program.process.stdin.write("exec 0\n")
    program.process.stdin.flush()
    program.answer()
    time.sleep(0.5)  # until the program is hooked again
    program.held = dict.fromkeys(before, 0)
    program.run("zeroed", 16)
    memory.end().check(program)


@test()
def loaded_later(context):
    """A library with a malloc of its own, loaded by the running program, does not replace that of the C library."""
    library = context.helper("liballocates.so", "allocates.c", "-DOWN_MALLOC", "-Dmain=unused", "-shared", "-fPIC",
                             "-pthread")
    program = Allocator(context, program=context.helper("allocates_loads", "allocates.c", "-pthread",
                                                        '-DLOADS="%s"' % library))
    memory = Allocations(context, "-p", program.pid)
    program.run("small", 16)
    program.run("loads")
    time.sleep(0.5)
    program.held.pop("loads"), program.allocated.pop("loads")  # what the loader needs is not known
    program.run("small", 16)
    program.run("big", 24)
    memory.end().check(program)


# Of Debian 12.
ALLOCATORS = ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2")


def allocators_each(context):
    for name in ALLOCATORS:
        library = "/usr/lib/x86_64-linux-gnu/" + name
        if not os.path.exists(library):
            raise Skip("%s is not installed" % name)
        context.note(name)
        yield library


@test()
def allocators(context):
    """jemalloc, tcmalloc and mimalloc, preloaded."""
    for library in allocators_each(context):
        program = Allocator(context, LD_PRELOAD=library)
        memory = Allocations(context, "-p", program.pid)
        for function, mib in (("small", 40), ("fresh", 40), ("big", 60), ("zeroed", 16), ("aligned", 24), ("grown", 4),
                              ("churn", 64), ("threads", 16)):
            program.run(function, mib)
        memory.end().check(program)


def languages_check(context, program, functions, **environment):
    program = Allocator(context, program=program, **environment)
    memory = Allocations(context, "-p", program.pid)
    for function, mib in functions:
        program.run(function, mib)
    memory.end().check(program)


CPP = (("objects", 40), ("rows", 24), ("wide", 24), ("vectors", 16), ("maps", 40), ("gone", 160), ("forms", 160))


def cpp_build(context, name, *flags):
    return context.helper(name, "allocates.cpp", "-std=c++17", *flags, cc="g++")


@test()
def cpp(context):
    """operator new of all kinds, and containers."""
    languages_check(context, cpp_build(context, "allocates-cpp"), CPP)


@test()
def cpp_static(context):
    """The same with the C++ library inside the program: its operator new calls the malloc that is hooked, too."""
    languages_check(context, cpp_build(context, "allocates-cpp-static", "-static"), CPP)


@test()
def cpp_allocators(context):
    """The same where jemalloc, tcmalloc and mimalloc are preloaded: their operator new calls no malloc."""
    for library in allocators_each(context):
        functions = CPP + (("extended", 64),) if "jemalloc" in library else CPP
        languages_check(context, cpp_build(context, "allocates-cpp"), functions, LD_PRELOAD=library)


@test()
def rust(context):
    """Boxes, vectors that grow, and memory that is aligned or zeroed."""
    program = context.builder.out("allocates-rs")
    if not context.builder.command(program, ["rustc", "-O", "--edition", "2021", "-o", program, os.path.join(
            ROOT, "tests", "system", "targets", "allocates.rs")]):
        raise Skip("%s: %s" % context.builder.skipped[-1])
    languages_check(context, program, (("boxes", 40), ("zeroes", 24), ("wide", 24), ("vectors", 16), ("gone", 160)))


@test()
def static_program(context):
    """A program with the C library inside, whose malloc only its own symbols show."""
    program = Allocator(context, "-static")
    memory = Allocations(context, "-p", program.pid)
    for function, mib in (("small", 16), ("big", 24), ("zeroed", 16), ("aligned", 16),
                          ("grown", 4), ("churn", 64)):
        program.run(function, mib)
    memory.end().check(program)


@test()
def musl(context):
    """The allocator of musl, whose memalign only jumps to another function that is hooked."""
    program = Allocator(context, program=context.helper("allocates-musl", "allocates.c", "-pthread", cc="musl-gcc"))
    memory = Allocations(context, "-p", program.pid)
    for function, mib in (("small", 16), ("fresh", 40), ("big", 24), ("zeroed", 16), ("aligned", 48), ("grown", 4),
                          ("churn", 64), ("threads", 16)):
        program.run(function, mib)
    memory.end().check(program)


@test()
def more_than_fits(context):
    """More blocks than the map has room for: the bytes per sample grow, and the sums stay true."""
    program = Allocator(context)
    memory = Allocations(context, "-p", program.pid, sample=4096)
    for function, mib in (("small", 200), ("big", 40), ("aligned", 100)):
        program.run(function, mib)
    memory.sample = 32 << 10
    memory.end().check(program)
    counts = memory.stats["memory"]
    check(counts["blocks_sampled"] > 32768, "too few: %s" % counts)
    context.note("%d blocks sampled" % counts["blocks_sampled"])


@test()
def children(context):
    """What a child frees stays with its parent; a program that executes another holds nothing."""
    program = Allocator(context)
    memory = Allocations(context, "-p", program.pid)
    program.run("small", 16)
    program.run("big", 32)
    program.run("orphan")
    memory.end().check(program)
    memory = Allocations(context, "-p", program.pid)
    program.run("big", 32)
    program.process.stdin.write("exec 0\n")
    program.process.stdin.flush()
    program.answer()
    time.sleep(0.5)  # until the program is hooked again
    program.held, program.allocated = {"big": 0}, {"big": 32 * MIB}
    program.run("zeroed", 16)
    memory.end().check(program)


@test()
def exec_of_threads(context):
    """Any thread may execute another program, which is then watched as if the first one had."""
    program = Allocator(context)
    memory = Allocations(context, "-p", program.pid)
    program.run("big", 32)
    for _ in range(2):
        program.process.stdin.write("thread-exec 0\n")
        program.process.stdin.flush()
        program.answer()
        time.sleep(0.5)  # until the program is hooked again
        program.held = dict.fromkeys(program.held, 0)
        program.run("zeroed", 16)
        program.run("grown", 4)
    memory.end().check(program)


@test()
def own_allocator(context):
    """The malloc of the program itself: longjmp, a realloc that fails, a signal handler that allocates."""
    program = Allocator(context, "-DOWN_MALLOC")
    memory = Allocations(context, "-p", program.pid)
    for function, mib in (("jumps", 500), ("small", 16), ("stays", 24), ("grown", 4),
                          ("failing", 100), ("handled", 60)):
        program.run(function, mib)
    for sums in program.held, program.allocated:  # 30,000 bytes, and in the handler 40,000
        sums["on_signal"] = sums["handled"] * 4 / 7
        sums["handled"] = sums["handled"] * 3 / 7
    memory.end().check(program)


@test()
def python_functions(context):
    """Large blocks of Python, and the arenas of small ones, by Python function."""
    program = os.path.join(ROOT, "tests", "system", "python", "holds.py")
    for python in some_pythons():
        holder = Holder(context, spawn(context, [*python.argv, program], python.environment(),
                                       [python.stdlib, os.path.dirname(program)], **PIPES))
        memory = Allocations(context, "-p", holder.pid)
        for function, mib in (("arrays", 64), ("strings", 24), ("dicts", 24), ("gone", 320)):
            holder.run(function, mib)
        memory.end()
        context.note(python.name)
        compare(context, memory.table(holder.pid),
                {name: max(0, held) for name, held in holder.held.items()}, 1 << 20)


@test()
def mapped_over(context):
    """More maps over the same place than blocks are kept: none of them fills the sample."""
    program = Allocator(context)
    memory = Allocations(context, "-p", program.pid)
    program.run("over", 40000)
    program.run("small", 8)
    memory.end().check(program)
    check(memory.stats["memory"]["blocks_end_not_seen"] == 39999, "%s" % memory.stats["memory"])


@test()
def programs(context):
    """A program from its start; what it holds when it ends is shown."""
    program = context.helper("allocates", "allocates.c", "-pthread")
    with open(context.path("lines"), "w+", encoding="ascii") as lines:
        lines.write("small 8\nbig 40\nchurn 64\n")
        lines.seek(0)
        done = context.bpfprof("memory", "--allocations", "--max-slowdown", 0, "--sample", SAMPLE,
                               "-o", "x.pb.gz", "--", program, "60", stdin=lines).expect(0)
    found = {}
    for sample in Pprof(context.read("x.pb.gz")).samples:
        name = sample["labels"]["comm"]
        found[name] = found.get(name, 0) + sample["values"][3]
    compare(context, found, {"allocates": 48 * MIB})
    check("big" in done.out.decode(), done.out.decode())


@test()
def more_processes(context):
    """More processes than are watched at a time: the table says how many are not."""
    done = context.bpfprof("memory", "--allocations", "--stats", "x.json", "--", "sh", "-c",
                           "i=0; while [ $i -lt 100 ]; do sleep 3 & i=$((i+1)); done; wait").expect(0)
    over = context.json("x.json")["memory"]["hooked_processes_no_room"]
    found = re.search(r"^Not watched: (\d+) processes; --stats has the reasons", done.out.decode(), re.M)
    check(over >= 30 and found and int(found.group(1)) >= over, "%d over: %s" % (over, done.text))
    context.note("%d of 101 processes are not watched" % over)


LOOP = """
#include <stdlib.h>
static void *volatile kept;
static void *volatile leaked[1 << 24];
static __attribute__((noinline)) void spins(void) {
    for (int i = 0; i < 1000; i++) { kept = malloc(100); free(kept); }
}
static __attribute__((noinline)) void leaks(long i) { leaked[i & 0xffffff] = malloc(1000); }
int main(void) { for (long i = 0;; i++) { spins(); leaks(i); } }
"""


def program_build(context, name, source):
    program = context.path(name)
    with open(program + ".c", "w", encoding="ascii") as file:
        file.write(source)
    subprocess.run(["gcc", "-O1", "-o", program, program + ".c"], check=True)
    return program


def loop_build(context):
    return program_build(context, "loop", LOOP)


@test(paired=True)
def slowdown(context):
    """A loop of malloc and free is watched in windows, and slowed down by little."""
    loop = context.spawn([loop_build(context)])
    memory = Allocations(context, "-p", loop.pid, slowdown=10, sample=4096)
    time.sleep(4)
    loop.send_signal(signal.SIGSTOP)
    memory.end()
    counts, text = memory.stats["memory"], memory.done.out.decode()
    check(counts["allocation_windows"] > 1, "there were no windows: %s" % counts)
    check("watched in windows" in memory.done.err.decode() and "Seen in windows" in text,
          memory.done.text)
    # In a window of some 25,000 pairs, 25 blocks are leaked: a hundredth of what is allocated.
    allocated = sum(memory.values(loop.pid, "alloc_space/bytes").values())
    held = sum(memory.values(loop.pid, "inuse_space/bytes").values())
    check(held < allocated / 20, "%d held of %d: %s" % (held, allocated, text))
    context.note("%d windows" % counts["allocation_windows"])


STACKS = """
#include <stdio.h>
#include <stdlib.h>
#define NR (1L << 17)
static void *kept[NR];
static __attribute__((noinline)) void *zero(long n, int depth);
static __attribute__((noinline)) void *one(long n, int depth) {
    void *p = depth ? (n & 1 ? one : zero)(n >> 1, depth - 1) : malloc(4000);
    __asm__ volatile("" ::: "memory");
    return p;
}
static __attribute__((noinline)) void *zero(long n, int depth) {
    void *p = depth ? (n & 1 ? one : zero)(n >> 1, depth - 1) : malloc(4000);
    __asm__ volatile("" ::: "memory");
    return p;
}
int main(void) {
    setvbuf(stdin, NULL, _IONBF, 0);
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("ready");
    for (int part = getchar(); part != EOF; part = getchar()) {
        for (long i = 0; i < NR; i++) {
            void *p = part == 'f' ? kept[i] : (part == 'o' ? one(0, 0) : zero(i, 17));
            if (part == 'f' || (part == 's' && i % 6)) free(p); else kept[i] = p;
        }
        puts("done");
    }
}
"""


@test()
def many_stacks(context):
    """The program has 131,072 stacks, and one of six holds blocks: bpfprof keeps to its memory."""
    program = program_build(context, "stacks", STACKS)
    for words in (), ("--leaks",):
        process = context.spawn([program], **PIPES)
        process.stdout.readline()
        memory = Allocations(context, "-p", process.pid, *words, sample=4096)
        process.stdin.write("s")
        process.stdin.flush()
        process.stdout.readline()
        time.sleep(1)
        stats = memory.end().stats
        context.note("%.1f MiB, %d stacks, %d blocks have no room" % (
            stats["agent"]["memory_bytes"] / MIB, len(memory.profile.samples), stats["memory"]["blocks_no_room"]))
        check(stats["agent"]["memory_bytes"] <= 64 * MIB, "%s" % stats)
        check(len(memory.profile.samples) > 20000, "%d stacks: %s" % (len(memory.profile.samples), stats))
        process.kill()
        process.wait()


@test()
def freed_after_a_doubling(context):
    """Blocks that outlive a doubling of the bytes per sample: no more than all of them is freed."""
    process = context.spawn([program_build(context, "stacks", STACKS)], **PIPES)
    process.stdout.readline()
    memory = Allocations(context, "-p", process.pid, sample=4096)
    for part in "of":
        process.stdin.write(part)
        process.stdin.flush()
        process.stdout.readline()
        time.sleep(1)
    rows = CLASSES.findall(memory.end().done.out.decode())
    check([name for _, name in rows] == ["one"], memory.done.out.decode())
    figures = [float(part.replace("<1", "0").replace(".", "0") or 0) for part in rows[0][0].split()]
    check(96 <= sum(figures[5:11]) <= 102 and figures[11] <= 4, "%s" % rows)


@test()
def frees_not_reported(context):
    """Frees while bpfprof does not read the ring: no event of a process is lost, and all blocks are found gone."""
    process = context.spawn([program_build(context, "stacks", STACKS)], **PIPES)
    process.stdout.readline()
    memory = Allocations(context, "-p", process.pid, sample=4096,
                         env=dict(os.environ, BPFPROF_TEST_RING_BYTES=str(256 << 10)))
    for part in "of":
        if part == "f":
            memory.process.send_signal(signal.SIGSTOP)
            wait_state(memory.process.pid, "T")
        process.stdin.write(part)
        process.stdin.flush()
        process.stdout.readline()
        time.sleep(1)
    memory.process.send_signal(signal.SIGCONT)
    time.sleep(1)
    stats = memory.end().stats
    counts = stats["memory"]
    check("process_events_lost" not in stats["clock"], "%s" % stats["clock"])
    check(counts["block_ends_not_reported"] > 5000 and
          counts["block_lives_estimated"] > 0, "%s" % counts)
    check(sum(memory.values(process.pid, "inuse_space/bytes").values()) < MIB, memory.done.out.decode())
    context.note("%d of %d not reported" % (counts["block_ends_not_reported"], counts["blocks_freed"]))


@test(modes=("root",), alone=True)
def beside_locked_memory(context):
    """While the kernel waits for another process's lock to make a probe, nothing can fork: none is made, none removed."""
    watched = [context.spawn([program_build(context, "stacks", STACKS)], **PIPES) for i in range(2)]
    for process in watched:
        process.stdout.readline()
    memory = Allocations(context, "-p", watched[0].pid)
    with memory_locked(context) as pid:
        began = time.monotonic()
        run = context.bpfprof("memory", "--allocations", "-d", 1, "-p", watched[1].pid, timeout=15)
        memory.process.send_signal(signal.SIGINT)
        slowest = 0
        while time.monotonic() < began + 6:
            before = time.monotonic()
            child = os.fork()
            if not child:
                os._exit(0)
            os.waitpid(child, 0)
            slowest = max(slowest, time.monotonic() - before)
            time.sleep(0.1)
        check(memory.process.poll() is None, "it did not wait")
    memory.read()
    context.note("the slowest fork took %.3f s" % slowest)
    check(slowest < 2, "a fork took %.1f s" % slowest)
    check(run.status == 3 and b"the lock of the memory of process %d" % pid in run.err, run.text)


@test()
def beside_mappers(context):
    """A process whose threads take the lock of its memory by turns, as busy ones do, keeps no probes from others."""
    mappers = strange(context, "mappers")
    for thread in os.listdir("/proc/%d/task" % mappers.pid):
        os.setpriority(os.PRIO_PROCESS, int(thread), 19)  # those that wait for the lock wait for a CPU, too
    process = context.spawn([program_build(context, "stacks", STACKS)], **PIPES)
    process.stdout.readline()
    for _ in range(5):
        context.bpfprof("memory", "--allocations", "-d", "0.1", "-p", process.pid).expect(0)


FORKS = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static void *volatile kept;
int main(void) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("ready");
    for (int i = getchar(); i != EOF; i = getchar()) {
        pid_t child = fork();
        if (!child)
            for (alarm(60);; usleep(1000)) { kept = malloc(100); free(kept); }
        printf("%d\\n", child);
    }
}
"""


class Forked:
    def __init__(self, pid):
        self.pid = pid


@test(modes=("root",), alone=True)
def after_a_lock(context):
    """A child that begins while another process's memory is locked is watched once the lock is free."""
    process = context.spawn([program_build(context, "forks", FORKS)], **PIPES)
    process.stdout.readline()
    memory = Allocations(context, "-p", process.pid, sample=4096)
    with memory_locked(context):
        process.stdin.write("f")
        process.stdin.flush()
        child = int(process.stdout.readline())
        time.sleep(3)
    time.sleep(8)
    memory.end()
    os.kill(child, signal.SIGKILL)
    seen = sum(memory.values(child, "alloc_space/bytes").values())
    check(seen > 100 << 10, "%d bytes of the child were seen" % seen)


@test()
def not_watched_children(context):
    """The breakpoints that a child has from its parent are taken out of it, if the child is not watched."""
    process = context.spawn([program_build(context, "forks", FORKS)], **PIPES)
    process.stdout.readline()
    memory = Allocations(context, "-p", process.pid, "--no-subprocesses")
    for _ in range(2):
        process.stdin.write("\n")
        process.stdin.flush()
        child = Forked(int(process.stdout.readline()))
        context.stack.callback(os.kill, child.pid, signal.SIGKILL)
        begin = time.monotonic()
        first = len(hooked_at(child, "libc."))
        wait_for(lambda child=child: not hooked_at(child, "libc."), "no breakpoints in the child", 20)
        context.note("%d breakpoints, gone after %.1f s" % (first, time.monotonic() - begin))
    check(len(hooked_at(process, "libc.")) > 5, "the parent has none")
    memory.end()


@test()
def refused(context):
    """Mistakes on the command line, and a program without an allocator of its own."""
    for words, says in ((["--allocations"], "--allocations"),
                        (["--allocations", "--grown", "--peak", "-p", "1"], "--grown"),
                        (["--max-slowdown", "5"], "--max-slowdown"),
                        (["--allocations", "-p", "1", "--max-slowdown", "x"], "--max-slowdown")):
        done = context.bpfprof("memory", *words).expect(2)
        check(says in done.err.decode(), done.text)
