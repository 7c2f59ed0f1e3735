# SPDX-License-Identifier: Apache-2.0
"""Names of native functions: by whatever table of the file has them, one for each function."""

import re
import subprocess

import pprof
from harness import check, test

BESIDE = True
HZ = 499

ENGINE = """
static __attribute__((noinline)) unsigned long grind(unsigned long n)
{ for (int i = 0; i < 40000; i++) n = n * 6364136223846793005UL + 11; return n; }
static __attribute__((noinline)) unsigned long mix(unsigned long n)
{ for (int i = 0; i < 40000; i++) n = n * 2862933555777941757UL + 3; return n; }
unsigned long engine(unsigned long n);
__attribute__((noinline)) unsigned long engine(unsigned long n) { return grind(n) + mix(n) + 1; }
int marker = 1;
"""
USE = """
#include <stdlib.h>
#include <time.h>
unsigned long engine(unsigned long n);
int main(void)
{ time_t end = time(NULL) + 60; unsigned long n = 1; while (time(NULL) < end) n = engine(n) + 1;
  return (int)n & 1; }
"""
SIGNALS = """
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
static volatile unsigned long sink;
__attribute__((noinline)) void spin(int n) { for (int i = 0; i < n; i++) sink += i ^ (sink >> 3); }
__attribute__((noinline)) void on_timer(int sig) { spin(700000 + sig); sink++; }
__attribute__((noinline)) void outer(int n) { spin(n); sink++; }
int main(void)
{ struct sigaction action; struct itimerval timer = { { 0, 500 }, { 0, 500 } };
  time_t end = time(NULL) + 60;
  memset(&action, 0, sizeof(action)); action.sa_handler = on_timer;
  sigaction(SIGPROF, &action, NULL); setitimer(ITIMER_PROF, &timer, NULL);
  while (time(NULL) < end) outer(1000);
  return 0; }
"""


def compile_file(context, name, source, *flags):
    path = context.path(name)
    subprocess.run(["gcc", "-O2", "-x", "c", "-", "-x", "none", "-o", path, *flags],
                   input=source.encode(), check=True, cwd=context.dir)
    return path


def record(context, argv):
    """Collapsed stacks of a program, [(frames, count)], and its pprof file."""
    target = context.spawn(argv)
    context.bpfprof("record", "-F", HZ, "-d", "3", "-p", target.pid, "-o", "x.folded", "-o",
                    "x.pb.gz").expect(0)
    target.kill()
    target.wait()
    stacks = []
    for line in context.text("x.folded").splitlines():
        if not line.startswith("#"):
            stack, _, count = line.rpartition(" ")
            stacks.append(([f for f in stack.split(";")[1:] if not f.endswith("_[k]")],
                           int(count)))
    with open(context.path("x.pb.gz"), "rb") as file:
        return stacks, pprof.Pprof(file.read())


def symbols(path):
    """Name to (start, end) of a file's functions, by nm."""
    listing = subprocess.run(["nm", "-S", path], stdout=subprocess.PIPE, text=True, check=True)
    found = {}
    for line in listing.stdout.splitlines():
        fields = line.split()
        if len(fields) == 4:
            found[fields[3]] = (int(fields[0], 16), int(fields[0], 16) + int(fields[1], 16))
    return found


def expect_leaves(stacks, wanted, caller):
    """Nearly all stacks end in one of these functions, and each of them occurs, under that caller."""
    total = sum(count for _, count in stacks)
    seen = dict.fromkeys(wanted, 0)
    for frames, count in stacks:
        if len(frames) > 1 and frames[-1] in seen and frames[-2] == caller:
            seen[frames[-1]] += count
    check(total > 50 and sum(seen.values()) >= 0.95 * total and all(seen.values()),
          "%s of %d under %s: %s" % (seen, total, caller, stacks[:4]))


@test()
def stripped_library(context):
    """A function without a symbol is one row, named by its start, in every format; addresses stay."""
    engine = compile_file(context, "full.so", ENGINE, "-shared", "-fPIC")
    subprocess.run(["strip", "-o", context.path("libengine.so"), engine], check=True)
    program = compile_file(context, "use", USE, context.path("libengine.so"),
                           "-Wl,-rpath," + context.dir)
    where = symbols(engine)
    stacks, profile = record(context, [program])
    names = ["libengine.so+0x%x" % where[name][0] for name in ("grind", "mix")]
    expect_leaves(stacks, names, "engine")
    for name, function in zip(names, ("grind", "mix")):
        same = profile.nr_functions.get(name)
        check(same == 1, "%s functions of pprof are %s" % (same, name))
        places = [place["address"] for place in profile.locations.values()
                  if name in place["functions"]]
        start, end = where[function]
        check(len(places) > 1 and all(start <= place < end for place in places),
              "%s at %s, not in %x..%x" % (name, [hex(p) for p in places], start, end))


@test()
def symbols_in_another_table(context):
    """A .symtab of one name does not hide what .dynsym has."""
    engine = compile_file(context, "libengine.so", ENGINE, "-shared", "-fPIC")
    start = symbols(engine)["grind"][0]
    subprocess.run(["strip", "-s", "-K", "marker", engine], check=True)
    program = compile_file(context, "use", USE, engine, "-Wl,-rpath," + context.dir)
    stacks, _ = record(context, [program])
    total = sum(count for _, count in stacks)
    right = sum(count for frames, count in stacks
                if frames[-3:-1] == ["main", "engine"] or frames[-2:] == ["main", "engine"])
    check(right >= 0.95 * total > 50, "%d of %d: %s" % (right, total, stacks[:4]))
    check(any(frames[-1] == "libengine.so+0x%x" % start for frames, _ in stacks), str(stacks[:4]))


@test()
def signal_frames_of_a_static_program(context):
    """A handler returns to the first byte of its trampoline: that has its name."""
    program = compile_file(context, "signals", SIGNALS, "-static")
    stacks, _ = record(context, [program])
    total = sum(count for _, count in stacks)
    handled = sum(count for frames, count in stacks
                  if re.search(r";main;(outer;|outer;spin;)?__restore_rt;on_timer(;spin)?$",
                               ";" + ";".join(frames)))
    plain = sum(count for frames, count in stacks if "on_timer" not in frames)
    check(handled > 50 and handled + plain >= 0.95 * total,
          "%d handled, %d not, of %d: %s" % (handled, plain, total, stacks[:6]))
