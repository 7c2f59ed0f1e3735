# SPDX-License-Identifier: Apache-2.0
"""The stand-ins and the programs whose names they have, on the same process in turn: tests for tests/heavy/originals.

Both run in turn, for py-spy stops the process for each of its samples.
"""

import contextlib
import json
import os
import re
import subprocess
import time
import xml.etree.ElementTree

from containers import wait_for
from daemons import cpu_of
from harness import CAPS, check, descendants, test
from jobs import PYTHON, VENV
from standins import ALL, Agent, raw_counts, run, standin

SPY = os.path.join(VENV, "bin", "py-spy")
SECONDS, RATE = 3, 100
# main spends 50% of its CPU time in half, 30% in third and 20% in fifth.
PROGRAM = """\
import hashlib, os, subprocess, sys, threading, time
def burn(nr):
    total = 0
    for i in range(nr):
        total += i & 7
    return total
def half():
    burn(100000)
def third():
    burn(60000)
def fifth():
    burn(40000)
def asleep():
    time.sleep(3600)
def in_c():
    data = bytes(8 << 20)
    while True:
        hashlib.sha256(data).digest()
        time.sleep(0.1)
def child(parent):
    while os.getppid() == parent:
        half()
        time.sleep(0.05)
def main():
    while True:
        half()
        third()
        fifth()
        time.sleep(0.01)
if len(sys.argv) > 1:
    sys.exit(child(int(sys.argv[1])))
threading.Thread(target=asleep, name="asleep", daemon=True).start()
threading.Thread(target=in_c, name="in_c", daemon=True).start()
subprocess.Popen([sys.executable, __file__, str(os.getpid())])
main()
"""
SHARES = {"half": 0.5, "third": 0.3, "fifth": 0.2}
PYTHON_FRAME = re.compile(r"\S+ \([^()]*\.py(:\d+)?\)$")


class Pair:
    """A process, and what both programs say about it."""

    def __init__(self, context):
        self.context = context
        self.ours, self.agent = standin(), Agent(context)
        with open(context.path("shares.py"), "w", encoding="ascii") as file:
            file.write(PROGRAM)
        self.pid = context.spawn(["/usr/bin/python3", context.path("shares.py")]).pid
        time.sleep(1)

    def ask(self, program, *flags, form="raw", seconds=SECONDS):
        """The file, and what the program prints."""
        path = self.context.path("%s.%s" % (os.path.dirname(program)[-3:], form))
        status, out, err = run(program, "record", "-p", self.pid, "-d", seconds, "-f", form, "-o", path, *flags,
                               env=self.agent.env(ALL))
        check(status == 0, "%s %s: %s%s" % (program, flags, out, err))
        return path, out + err

    def both(self, *flags, **kwargs):
        """{stack: samples} of ours and of py-spy, without native frames."""
        return [of_python(raw_counts(self.ask(program, *flags, **kwargs)[0])) for program in (self.ours, SPY)]


def of_python(counts):
    """The same by the frames of Python, of processes and of threads, whose names differ, alone."""
    found = {}
    for stack, count in counts.items():
        frames = [re.sub(r"^(thread \(\d+\)): .*", r"\1", frame) for frame in stack.split(";") if PYTHON_FRAME.match(frame) or frame.startswith(("process ", "thread "))]
        found[";".join(frames)] = found.get(";".join(frames), 0) + count
    return found


def functions(counts):
    """{function of SHARES: samples below main}"""
    return {name: sum(count for stack, count in counts.items() if re.search(r";main \(.*;%s \(" % name, stack))
            for name in SHARES}


def check_shares(what, ours, theirs, busy):
    """
    Each function's share is the true one, in both, within four standard errors and two points. Time that a thread waits for a
    CPU comes in pieces of many samples, on a busy machine more of it: --idle and py-spy count it. busy: such samples for each one
    of CPU time.
    """
    said = []
    for who, counts in (("ours", functions(ours)), ("py-spy", functions(theirs))):
        total = sum(counts.values())
        check(total > 20, "%s: %s has %d samples of main" % (what, who, total))
        for name, share in SHARES.items():
            waits = who == "py-spy" or "idle" in what
            bound = 4 * (share * (1 - share) / (total / (2 * busy ** 2) if waits else total)) ** 0.5 + 0.02
            check(abs(counts[name] / total - share) <= bound, "%s, %s: %s has %.3f, not %.1f +-%.3f" % (
                what, who, name, counts[name] / total, share, bound))
        said.append("%s %s of %d" % (who, "/".join("%.1f" % (100 * counts[name] / total) for name in SHARES), total))
    return "%s: %s" % (what, ", ".join(said))


def check_stacks(what, ours, theirs, least=0.06):
    """A stack that has some percent of the samples in one has some in the other, by the same lines; idle threads aside."""
    for one, other, whose in ((ours, theirs, "py-spy"), (theirs, ours, "ours")):
        total = sum(one.values())
        for stack, count in one.items():
            waits = re.search(r"(asleep|in_c|main|child) \(\S*shares.py[:\d]*\)$", stack)
            check(count < least * total or waits or stack in other, "%s: %s has not: %d of %d: %s\n%s" % (
                what, whose, count, total, stack, other))


@test(modes=CAPS)
def raw(context):
    """Shares per function and whole stacks of `-f raw`, with each flag."""
    pair = Pair(context)
    busy = None
    for flags in ((), ("--idle",), ("--native",), ("--subprocesses", "--threads"), ("--function", "--full-filenames"),
                  ("--nolineno", "--gil"), ("--rate", 400)):
        ours, theirs = pair.both(*flags)
        what = " ".join(map(str, flags)) or "no flag"
        busy = busy or max(1, sum(functions(theirs).values()) / sum(functions(ours).values()))
        context.note(check_shares(what, ours, theirs, busy))
        check_stacks(what, ours, theirs)


@test(modes=CAPS)
def numbers(context):
    """How many samples: of CPU time without --idle, of all time of each thread with it, at each rate."""
    pair = Pair(context)
    for rate in (50, 100, 500):
        for program in (pair.ours, SPY):
            counts = of_python(raw_counts(pair.ask(program, "--idle", "-r", rate)[0]))
            for thread, mark in (("asleep", ";asleep ("), ("in_c", ";in_c ("), ("main", ";main (")):
                nr = sum(count for stack, count in counts.items() if mark in stack)
                # py-spy skips samples when it is late.
                least = 0.95 if program == pair.ours else 0.5
                check(least * rate * SECONDS <= nr <= 1.05 * rate * SECONDS, "%s, %s, -r %d: %d samples" % (
                    program, thread, rate, nr))
    began, before = time.monotonic(), cpu_of(pair.pid)
    counts = raw_counts(pair.ask(pair.ours)[0])
    used = (cpu_of(pair.pid) - before) / (time.monotonic() - began) * SECONDS
    nr = sum(counts.values())
    check(abs(nr - used * RATE) <= 4 * (used * RATE) ** 0.5 + 0.1 * used * RATE, "%d samples of %.2f s" % (nr, used))
    check(not any(";asleep (" in stack for stack in counts), "a thread that sleeps has no CPU time")
    theirs = raw_counts(pair.ask(SPY)[0])
    context.note("CPU time %.2f s: %d samples; py-spy %d, of them %d of a thread that sleeps" % (
        used, nr, sum(theirs.values()), sum(count for stack, count in theirs.items() if ";asleep (" in stack)))


@test(modes=CAPS)
def speedscope(context):
    """The keys of py-spy's file, and as many samples per function."""
    pair = Pair(context)
    documents = []
    for program in (pair.ours, SPY):
        with open(pair.ask(program, "--idle", form="speedscope")[0], encoding="utf-8") as file:
            documents.append(json.load(file))
    ours, theirs = documents
    check(set(ours) >= set(theirs) and ours["$schema"] == theirs["$schema"], "%s %s" % (list(ours), list(theirs)))
    check(set(ours["profiles"][0]) >= set(theirs["profiles"][0]), "%s %s" % (
        list(ours["profiles"][0]), list(theirs["profiles"][0])))
    check(ours["profiles"][0]["type"] == theirs["profiles"][0]["type"] == "sampled", "type")
    keys = [{key for frame in one["shared"]["frames"] for key, value in frame.items() if value is not None} for one in documents]
    check(keys[0] == keys[1] == {"name", "file", "line"}, str(keys))
    files = [{frame["file"] for frame in one["shared"]["frames"]} for one in documents]
    check(files[0] == files[1], str(files))
    tids = [sorted(re.findall(r"^Thread (\d+) ", one["name"])[0] for one in document["profiles"]) for document in documents]
    check(tids[0] == tids[1], str(tids))
    shares = []
    for document in documents:
        frames, counts = document["shared"]["frames"], {}
        for profile in document["profiles"]:
            check(len(profile["samples"]) == len(profile["weights"]), "weights")
            for stack, weight in zip(profile["samples"], profile["weights"]):
                text = ";".join("%s (%s)" % (frames[index]["name"], "shares.py") for index in stack)
                weight *= {"seconds": RATE, "nanoseconds": RATE / 1e9}[profile["unit"]]
                counts[text] = counts.get(text, 0) + weight
        shares.append(counts)
    context.note(check_shares("speedscope --idle", *shares, busy=3))


@test(modes=CAPS)
def flamegraph(context):
    """An SVG document with the frames that py-spy's has, each with its samples and its share."""
    pair = Pair(context)
    roots, names = [], []
    for program in (pair.ours, SPY):
        with open(pair.ask(program, form="flamegraph")[0], encoding="utf-8") as file:
            text = file.read()
        check(text.startswith("<?xml version=\"1.0\"") and "<script" in text, text[:200])
        root = xml.etree.ElementTree.fromstring(text.encode())
        roots.append(root)
        titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
        names.append({re.sub(r"\s*\(?[\d,.]+ samples.*", "", title or "", flags=re.S) for title in titles})
    check(all(root.tag == "{http://www.w3.org/2000/svg}svg" for root in roots), "%s" % roots)
    check(all(set(root.attrib) >= {"width", "height", "viewBox"} for root in roots), "%s" % [root.attrib for root in roots])
    wanted = {"%s (shares.py:%d)" % one for one in (
        ("half", 8), ("third", 10), ("fifth", 12), ("burn", 5), ("<module>", 35))}
    check(all(name >= wanted for name in names), "%s" % [wanted - name for name in names])
    context.note("%s" % [root.attrib for root in roots])


# memray records from inside: its attach needs a debugger, and that of Debian 12 cannot call functions where a CPU has AMX.
HOLDS = """\
import contextlib, os, sys, time
kept = []
def blocks():
    for _ in range(32):
        kept.append(bytearray(1 << 20))
def texts():
    for _ in range(256):
        kept.append("x" * (64 << 10))
def objects():
    for number in range(200000):
        kept.append((number, str(number)))
def briefly():
    block = bytearray(48 << 20)
    time.sleep(1)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.1)
recorder = contextlib.nullcontext()
if len(sys.argv) > 2:
    import memray
    recorder = memray.Tracker(destination=memray.FileDestination(sys.argv[2], overwrite=True), native_traces="--native" in sys.argv)
with recorder:
    blocks()
    texts()
    objects()
    briefly()
open(sys.argv[1] + ".done", "w").close()
time.sleep(600)
"""
READER = """
import json, sys
from memray import FileReader
sums = []
for kind in ("get_high_watermark_allocation_records", "get_leaked_allocation_records"):
    sums.append({})
    for record in getattr(FileReader(sys.argv[1]), kind)(merge_threads=True):
        stack = [frame[0] for frame in record.stack_trace() if frame[1].endswith("holds.py")]
        name = stack[0] if stack else "?"
        sums[-1][name] = sums[-1].get(name, 0) + record.size / 1048576
print(json.dumps(sums))
"""


def nr_recording(pid):
    """How many children of the agent record memory."""
    nr = 0
    for child in descendants(pid):
        with contextlib.suppress(OSError), open("/proc/%d/cmdline" % child, "rb") as file:
            folder = "/proc/%d/fd/" % child
            nr += b"memory" in file.read().split(b"\0") and any("bpf_link" in os.readlink(folder + name) for name in os.listdir(folder))
    return nr


def memory_of(context, name, program, agent, *flags):
    """The two tables of that program, and the two pages: of a process of its own, which allocates while it is recorded."""
    go = os.path.join(context.scratch("go"), name)
    file = context.path(name + ".bin")
    recorded = [file, *flags] if name == "theirs" else []
    process = context.spawn([PYTHON, context.path("holds.py"), go, *recorded], plain=True)
    time.sleep(1)

    def good(*args):
        status, out, err = run(program, *args, env=dict(agent.env(ALL), PATH=os.environ["PATH"]))
        check(status == 0, "%s: %s%s" % (args, out, err))
    if name == "ours":
        good("attach", process.pid, "-o", file, *flags)
        check(nr_recording(agent.process.pid) == 2, "attach answered before the two recordings ran")
    time.sleep(1)
    with open(go, "w", encoding="ascii"):
        pass
    wait_for("the process", lambda: os.path.exists(go + ".done"), 60)
    if name == "ours":
        good("detach", process.pid)
    pages = {}
    for kind in ("flamegraph", "table"):
        for leaks in ((), ("--leaks",)):
            out = context.path("%s-%s%s.html" % (name, kind, "".join(leaks)))
            good(kind, "-f", "-o", out, *leaks, file)
            with open(out, encoding="utf-8") as page:
                pages[kind, bool(leaks)] = page.read()
    for (kind, _), page in pages.items():
        # memray's table has the innermost frame, which is a native one with --native.
        named = "holds.py" in page and "blocks" in page or (name == "theirs" and kind == "table" and "--native" in flags)
        check(named and page.rstrip().endswith("</html>"), "%s %s: %s" % (name, kind, page[-300:]))
    return file, pages


def rows_of(page):
    """{function: MiB} of our table, which has a row for each line."""
    found = {}
    for row in [line.split() for line in page.splitlines() if "holds.py:" in line]:
        found[row[-2]] = found.get(row[-2], 0) + float(row[0])
    return found


@test(modes=CAPS)
def memory(context):
    """
    Bytes per function at the peak, and what was not freed, beside memray: within 1.5 MiB and four standard errors of a sample for
    each 64 KiB, 5.7 MiB of 32.
    """
    ours, agent = os.path.join(os.path.dirname(standin()), "memray"), Agent(context)
    with open(context.path("holds.py"), "w", encoding="ascii") as file:
        file.write(HOLDS)
    for flags in ((), ("--native",)):
        memray = os.path.join(VENV, "bin", "memray")
        text = run(memray, "attach", "--help")[1]
        check(all(flag in text for flag in ("-o", "-f", *flags)), text)
        their_file, _ = memory_of(context, "theirs", memray, agent, "-f", *flags)
        theirs = json.loads(subprocess.run([PYTHON, "-c", READER, their_file], stdout=subprocess.PIPE, check=True).stdout)
        _, pages = memory_of(context, "ours", ours, agent, "-f", *flags)
        for leaks, table in zip((False, True), theirs):
            mine = rows_of(pages["table", leaks])
            for name in ("blocks", "texts", "objects", "briefly"):
                bound = 1.5 + 4 * (table.get(name, 0) / 16) ** 0.5
                check(abs(mine.get(name, 0) - table.get(name, 0)) <= bound, "%s%s: %s %.1f MiB, memray %.1f" % (
                    " ".join(flags), " --leaks" * leaks, name, mine.get(name, 0), table.get(name, 0)))
            context.note("%s%s: %s" % (" ".join(flags), " --leaks" * leaks, ", ".join("%s %.1f (memray %.1f)" % (
                name, mine.get(name, 0), table.get(name, 0)) for name in ("blocks", "texts", "objects", "briefly"))))
        for name in ("go/ours", "go/theirs"):
            for end in ("", ".done"):
                os.unlink(context.path(name + end))
