# SPDX-License-Identifier: Apache-2.0
"""report on stored profiles: its numbers against those that the files hold, added up by the test."""

import collections
import functools
import gzip
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import zipfile

from dumps import py_spy
from harness import Skip, check, test
from pprof import Pprof
from test_python import CACHE
from test_top import python, script
from test_usage import one_sentence

BESIDE = True
HZ = 499

# A function that calls itself, one that takes most of the time, a second thread.
BUSY = """
import threading, time
def deep(n):
    return burn(20000) if n == 0 else deep(n - 1)
def burn(n):
    total = 0
    for i in range(n):
        total += i * i
    return total
def main():
    while True:
        deep(5)
        burn(1000)
threading.Thread(target=main, name="second", daemon=True).start()
main()
"""
ROW = re.compile(r"^ *([\d.]+)(?: s)? +([\d.]+)%(?: +([\d.]+)(?: s)? +([\d.]+)%)?  (.*)$")


def busy(context):
    return context.spawn([python(context), script(context, "busy.py", BUSY)])


def recorded(context, *arguments, name="x", seconds=2):
    """Files of one recording of the busy program in all formats."""
    target = busy(context)
    files = ["%s.%s" % (name, end) for end in ("pb.gz", "folded", "raw", "html", "svg",
                                               "speedscope.json")]
    context.bpfprof("record", "-F", HZ, "-d", seconds, "-p", target.pid, *arguments,
                    *[word for file in files for word in ("-o", file)]).expect(0)
    target.kill()
    return target.pid


def report(context, *arguments, **more):
    done = context.bpfprof("report", *arguments, timeout=30, **more).expect(0)
    check(not done.err or b"wrote" in done.err, "messages: " + done.text)
    return done.out.decode()


def rows(text):
    """{name: (own, total)} of a table; of groups total is own."""
    found = {}
    for line in text.splitlines():
        match = ROW.match(line)
        if match:
            name = re.sub(r"  \(\d+% of it in .*\)$", "", match[5])
            check(name not in found, "twice: " + line)
            found[name] = (float(match[1]), float(match[3] or match[1]))
    return found


def folded(context, name):
    """[(frames, count)] of a file, its process first."""
    lines = [line.rsplit(" ", 1) for line in context.text(name).splitlines()
             if not line.startswith("#")]
    return [(stack.split(";"), int(count)) for stack, count in lines]


def function_of(frame):
    """The function of a frame's text: without its line; of code without a name its file."""
    return re.sub(r":\d+\)$", ")", re.sub(r"^\[(.*)\]\+0x[0-9a-f]+$", r"[\1]", frame))


def counted(stacks, name_of):
    """Own and total samples by name, from collapsed stacks."""
    own, total = collections.Counter(), collections.Counter()
    for frames, count in stacks:
        names = [name_of(frame) for frame in frames]
        own[names[-1]] += count
        for name in set(names):
            total[name] += count
    return {name: (own[name], total[name]) for name in total}


def packed_functions(profile):
    """Own and total nanoseconds by function's name, of a pprof."""
    own, total = collections.Counter(), collections.Counter()
    for sample in profile.samples:
        names = [name for location in sample["stack"]
                 for name in profile.locations[location]["functions"]]
        own[names[0]] += sample["values"][1]
        for name in set(names):
            total[name] += sample["values"][1]
    return own, total


@test(modes=("caps",))
def tables(context):
    """The table of each format has exactly the sums of the file; a recursion counts once."""
    recorded(context)
    stacks = [(frames[1:], count) for frames, count in folded(context, "x.folded")]
    want = counted(stacks, function_of)
    context.note(report(context, "x.folded", "--rows", "5"))
    text = report(context, "x.folded", "--rows", "0")
    have = rows(text)
    for name, numbers in want.items():
        if not re.search(r"^\[(truncated|unmerged|no stack)\]$", name):
            check(have.get(name) == numbers, "%s: %s, not %s" % (name, have.get(name), numbers))
    every = sum(count for _, count in stacks)
    check("%d samples" % every in text, text)
    deep = have["deep (busy.py)"]
    check(every * 0.5 < deep[1] <= every, "a recursion is counted %s of %d" % (deep, every))
    # The same from pprof, in time: names there have no file.
    profile = Pprof(context.read("x.pb.gz"))
    own, total = packed_functions(profile)
    have = rows(report(context, "x.pb.gz", "--rows", "0", "--sort", "total"))
    for name in ("deep", "burn", "main", "<module>"):
        shown = have[name + " (busy.py)"]
        check(shown == (round(own[name] / 1e9, 3), round(total[name] / 1e9, 3)),
              "%s: %s, not %d %d ns" % (name, shown, own[name], total[name]))
    # And from py-spy's format, which has Python frames alone.
    have = rows(report(context, "x.raw", "--rows", "0"))
    want = counted(folded(context, "x.raw"), function_of)
    check(have == want, "%s, not %s" % (have, want))
    order = [total for _, total in rows(report(context, "x.folded", "--sort", "total")).values()]
    check(order == sorted(order, reverse=True), "not sorted: %s" % order)


@test(modes=("caps",))
def converted(context):
    """Every format made out of a pprof is the one that record wrote; and each out of itself."""
    recorded(context)
    ends = ["pb.gz", "folded", "raw", "html", "svg", "speedscope.json"]
    report(context, "x.pb.gz", *[word for end in ends for word in ("-o", "y." + end)])
    for end in ends:
        same = context.read("x." + end) == context.read("y." + end) if end != "pb.gz" else \
            gzip.decompress(context.read("x.pb.gz")) == gzip.decompress(context.read("y.pb.gz"))
        check(same, "%s is another" % end)
    for end in ("folded", "raw"):
        report(context, "x." + end, "-o", "z." + end)
        check(context.read("x." + end) == context.read("z." + end), "%s out of itself" % end)
    # Through pipes, with the format by name.
    with open(context.path("x.pb.gz"), "rb") as file:
        text = report(context, "-", "-o", "-", "--format", "folded", stdin=file)
    check(text == context.text("x.folded"), "through pipes it is another")


@test(modes=("caps",))
def merged(context):
    """Two recordings are one: sums of both, two processes, each with its share and hottest function."""
    first = recorded(context, "--threads", name="a")
    second = recorded(context, "--threads", name="b", seconds=1)
    sums = [sum(count for _, count in folded(context, name)) for name in ("a.folded", "b.folded")]
    report(context, "a.pb.gz", "b.pb.gz", "-o", "c.pb.gz", "-o", "c.folded", "--threads")
    check(sum(n for _, n in folded(context, "c.folded")) == sum(sums), "not the sum of both")
    both = Pprof(context.read("c.pb.gz"))
    check(sum(s["values"][0] for s in both.samples) == sum(sums), "pprof: not the sum")
    check(abs(both.scalars[10] / 1e9 - 3) < 1, "duration %d" % both.scalars[10])
    counters = json.loads(context.text("c.folded").split("\n")[0][2:])
    check(counters["samples"]["total"] == sum(sums), "counters: %s" % counters["samples"])
    text = report(context, "a.pb.gz", "b.pb.gz", "--by", "process")
    context.note(text)
    have = rows(text)
    profiles = [Pprof(context.read(name)) for name in ("a.pb.gz", "b.pb.gz")]
    for pid, profile in zip((first, second), profiles):
        names = [name for name in have if name.endswith("-%d" % pid)]
        ns = sum(s["values"][1] for s in profile.samples)
        check(len(names) == 1 and have[names[0]][0] == round(ns / 1e9, 3),
              "%d: %s, not %d ns" % (pid, have, ns))
    check(len(re.findall(r"  \(\d+% of it in \S.*\)$", text, re.M)) == 2, text)
    # By thread: as many rows as there are; by line and library: own adds up to all.
    threads = {(s["labels"]["pid"], s["labels"]["tid"]) for p in profiles for s in p.samples}
    check(len(rows(report(context, "a.pb.gz", "b.pb.gz", "--by", "thread"))) == len(threads),
          "not %d threads" % len(threads))
    for by in ("line", "library"):
        own = sum(own for own, _ in rows(report(context, "c.folded", "--by", by,
                                                "--rows", "0")).values())
        markers = sum(n for f, n in folded(context, "c.folded") if f[-1].startswith("[no "))
        check(own == sum(sums) - markers, "by %s: %d of %d" % (by, own, sum(sums)))
    lines = rows(report(context, "c.folded", "--by", "line", "--rows", "0"))
    check(any(re.fullmatch(r"burn \(busy\.py:[789]\)", name) for name in lines), lines)


@test(modes=("root",))
def of_py_spy(context):
    """py-spy's own file: the sums of its lines, and all of them in a flame graph."""
    target = busy(context)
    context.spawn([py_spy(), "record", "-p", target.pid, "-f", "raw", "-o", context.path("p.raw"),
                   "-d", "2", "-r", "100", "-t"], plain=True).wait(timeout=60)
    stacks = folded(context, "p.raw")
    check(sum(count for _, count in stacks) > 10, "py-spy saw nothing")
    threads = {frames[0] for frames, _ in stacks}
    check(all(name.startswith("thread (") for name in threads), threads)
    have = rows(report(context, "p.raw", "--rows", "0"))
    check(have == counted([(f[1:], n) for f, n in stacks if f[1:]], function_of), have)
    check(len(rows(report(context, "p.raw", "--by", "thread"))) == len(threads), threads)
    report(context, "p.raw", "-o", "p.html", "-o", "p.pb.gz")
    check(sum(s["values"][0] for s in Pprof(context.read("p.pb.gz")).samples) ==
          sum(count for _, count in stacks), "pprof: not the sum")


@test(modes=("root",))
def refused(context):
    """A file that cannot be read is refused in one sentence with its name and the place."""
    recorded(context, seconds=1)
    bad = {"cut.pb.gz": context.read("x.pb.gz")[:-100],
           "cut": gzip.decompress(context.read("x.pb.gz"))[:-100],
           "noise": os.urandom(1000) + b"\0", "words.folded": b"a;b 1\nno number\n",
           "zeros": bytes(10000)}
    for name, data in bad.items():
        with open(context.path(name), "wb") as file:
            file.write(data)
    for name, words in (("x.html", "picture"), ("x.svg", "picture"),
                        ("x.speedscope.json", "JSON"), ("cut.pb.gz", "cut off"),
                        ("cut", "damaged"), ("noise", "pprof"), ("zeros", "pprof"),
                        ("words.folded", "line 2"), ("missing", "No such file"), (".", "holds no profile")):
        said = one_sentence(context.bpfprof("report", "x.folded", name).expect(1))
        check(name in said and words in said, said)
    said = one_sentence(context.bpfprof("report", "x.pb.gz", "--sample-type", "wall").expect(1))
    check("samples, cpu" in said, said)
    said = one_sentence(context.bpfprof("report", "x.pb.gz", "--by", "rank").expect(1))
    check("ranks" in said, said)
    check(rows(report(context, "x.pb.gz", "--sample-type", "samples", "--rows", "0")) ==
          rows(report(context, "x.folded", "--rows", "0")), "samples are others")


@test(modes=("root",))
def empty(context):
    """A file of 0 bytes is an error whatever is asked of it; an idle machine is an answer."""
    files = ["x.pb.gz", "x.folded", "x.raw", "x.json", "x.html"]
    for file in files:
        open(context.path(file), "wb").close()
    with gzip.open(context.path("packed.pb.gz"), "wb"):
        pass
    context.bpfprof("record", "-d", "0.5", "--comm", "no-such-name",
                    *(word for end in ("pb.gz", "folded", "json") for word in ("-o", "idle." + end)))
    context.bpfprof("gpu", "--once", "--json", "-d", "0.5", "-p", os.getpid(), stdout=open(
        context.path("idle.gpu.json"), "wb"))
    for file in files + ["packed.pb.gz"]:
        for argv in ([file], [file, "-o", "y.folded"], ["--tasks", file], ["--by", "rank", file],
                     ["--diff", "idle.pb.gz", file], ["idle.pb.gz", file], ["--nccl", file]):
            done = context.bpfprof("report", *argv)
            # A packed file is no JSON to begin with.
            said = "is empty" if argv[0] != "--nccl" or file in files else "not what bpfprof gpu"
            check(said in one_sentence(done.expect(1)) and file in done.text, "%s: %s" % (argv, done.text))
            check(not done.out and not os.path.exists(context.path("y.folded")), "%s: %s" % (argv, done.text))
    with open(os.devnull, encoding="utf-8") as nothing:
        done = context.bpfprof("report", "-", stdin=nothing)
    check(done.status == 1 and "standard input: it is empty" in done.text, done.text)
    for argv, said in ((["idle.pb.gz"], "No samples."), (["idle.folded"], "No samples."),
                       (["--by", "rank", "idle.pb.gz"], "No samples."),
                       (["--diff", "idle.folded", "idle.folded"], "nothing to compare"),
                       (["--tasks", "idle.json"], "No call of a Ray task"), (["--tasks", "idle.pb.gz"], "0 titles"),
                       (["--nccl", "idle.gpu.json"], "No communicator")):
        done = context.bpfprof("report", *argv).expect(0)
        check(said.encode() in done.out, "%s: %s" % (argv, done.text))
    done = context.bpfprof("report", "--diff", "idle.folded", "idle.folded", "-o", "y.html")
    check(done.status == 1 and "no samples" in done.text, "nothing was written: %s" % done.text)


def stored(context, name, seconds, counts):
    """Collapsed stacks of `python3`, so many samples per function in so long."""
    with open(context.path(name), "w", encoding="utf-8") as file:
        file.write('# {"samples":{"total":%d},"duration_seconds":%d}\n' %
                   (sum(counts.values()), seconds))
        for function, count in counts.items():
            file.write("python3;main (x.py:1);%s (x.py:2) %d\n" % (function, count))


@test(modes=("root",))
def difference(context):
    """Two files of known rates: what changed, by how much, how sure, and a picture of it."""
    stored(context, "a.folded", 10, {"same": 1000, "twice": 400, "less": 300, "gone": 50,
                                     "chance": 100})
    stored(context, "b.folded", 20, {"same": 2000, "twice": 1600, "less": 300, "new": 20,
                                     "chance": 215})
    text = report(context, "--diff", "a.folded", "b.folded")
    context.note(text)
    # name: per second before and after; sqrt(n / 10^2 + m / 20^2), at least of one sample.
    for row in ("40.0000 80.0000 +40.0000 2.8284 ** twice", "0.0000 1.0000 +1.0000 0.2449 ** new",
                "10.0000 10.7500 +0.7500 1.2400 chance", "30.0000 15.0000 -15.0000 1.9365 ** less",
                "5.0000 0.0000 -5.0000 0.7089 ** gone"):
        check(any(" ".join(line.split()) == row + " (x.py)" for line in text.splitlines()),
              "not there: " + row)
    check(text.index("what grew") < text.index("twice") < text.index("new (") <
          text.index("what shrank") < text.index("less") < text.index("gone"), "order")
    check("same (" not in text and "4 of 6 rows are marked" in text, text)
    grown = report(context, "--diff", "a.folded", "b.folded", "--sort", "total", "--rows", "2")
    check(re.search(r"185\.0000 +206\.7500 +\+21\.7500 .* main \(x\.py\)", grown), grown)
    share = report(context, "--diff", "a.folded", "b.folded", "--per", "share")
    check(re.search(r"54\.0541 +48\.3676 .* same", share), share)
    report(context, "--diff", "a.folded", "b.folded", "-o", "d.html", "-o", "d.svg")
    image = context.text("d.svg")
    colours = dict(re.findall(r"<title>(\w+) \(x\.py\)\n[^<]*</title><rect style=\"fill:hsl\((\d+),",
                              image))
    check(colours == {"main": "4", "twice": "4", "less": "214", "gone": "214", "same": "40",
                      "chance": "40", "new": "4"}, "colours %s" % colours)
    check("twice (x.py)\n40.0000 to 80.0000 samples per second: +40.0000, 14.1 times" in image,
          image[:2000])
    check('"diff":{"unit":"samples per second"' in context.text("d.html"), "no numbers in .html")
    for arguments, word in ((["a.folded"], "two"), (["a.folded", "b.folded", "-o", "x.raw"], ".svg"),
                            (["a.folded", "b.folded", "--per", "day"], "--per")):
        said = one_sentence(context.bpfprof("report", "--diff", *arguments).expect(2))
        check(word in said, said)
    said = one_sentence(context.bpfprof("report", "--diff", "a.folded", "b.folded", "--per",
                                        "rank").expect(1))
    check("ranks" in said, said)


@test(modes=("root",))
def repeated(context):
    """A folder with links to its newest file, as the daemon's: each file counts once, and is named."""
    stored(context, "cpu-1.folded", 10, {"f": 7})
    stored(context, "cpu-2.folded", 10, {"f": 5})
    os.symlink("cpu-2.folded", context.path("latest.folded"))
    os.link(context.path("cpu-1.folded"), context.path("other.folded"))
    done = context.bpfprof("report", "cpu-1.folded", "cpu-2.folded", "latest.folded",
                           "other.folded").expect(0)
    check("\n12 samples\n" in done.out.decode(), done.text)
    said = done.err.decode().splitlines()
    check([line.split(": ", 2)[2] for line in said] ==
          ["latest.folded: the same file as cpu-2.folded, which is taken once",
           "other.folded: the same file as cpu-1.folded, which is taken once"], said)
    for name, word in (("cuda-1.folded", "calls"), ("x.folded", "samples")):
        stored(context, name, 10, {"f": 7})
        check("\n7 %s\n" % word in report(context, name), name)
    said = one_sentence(context.bpfprof("report", "cpu-1.folded", "cuda-1.folded").expect(1))
    check("cuda-1.folded: it counts calls, the files before it samples; give" in said, said)


@test(modes=("root",))
def reader_ends(context):
    """`report FILE | head` ends quietly where head has read enough."""
    stored(context, "x.folded", 10, {"f": 7})
    reads, writes = os.pipe()
    os.close(reads)
    done = context.finish(context.start("report", "x.folded", stdout=writes), 30).expect(0)
    os.close(writes)
    check(not done.err, done.text)


@functools.lru_cache(maxsize=None)
def itwinai():
    """itwinai's own module that reads py-spy's files, out of its package, beside pydantic."""
    folder = os.path.join(CACHE, "itwinai")
    module = os.path.join(folder, "py_spy_aggregation.py")
    if not os.access(module, os.R_OK):
        for words in (["install", "--break-system-packages", "--target", folder, "pydantic"],
                      ["download", "--no-deps", "-d", folder, "itwinai"]):
            done = subprocess.run([sys.executable, "-m", "pip", words[0], "-q", *words[1:]],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
                                  check=False)
            if done.returncode:
                raise Skip("itwinai cannot be had: " + done.stdout.decode()[-300:])
        wheel = [name for name in os.listdir(folder) if re.match(r"itwinai.*\.whl$", name)][0]
        with zipfile.ZipFile(os.path.join(folder, wheel)) as archive:
            text = archive.read("itwinai/torch/profiling/py_spy_aggregation.py")
        with open(module, "wb") as file:
            file.write(text)
    sys.path.append(folder)
    spec = importlib.util.spec_from_file_location("py_spy_aggregation", module)
    loaded = sys.modules["py_spy_aggregation"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def their_rows(path, library, aggregate):
    """The numbers of generate-py-spy-report, by its own functions."""
    module = itwinai()
    traces = module.read_stack_traces(pathlib.Path(path))
    module.add_library_information(traces, library)
    leaves = [trace[-1] for trace in traces]
    if aggregate:
        leaves = module.get_aggregated_paths(leaves)
    leaves.sort(reverse=True)
    total = sum(leaf.num_samples for leaf in leaves)
    return [[leaf.name, leaf.path, leaf.line, leaf.library_function_name,
             leaf.library_function_path, leaf.library_function_line,
             "%.2f%% (%d)" % (100 * leaf.num_samples / total, leaf.num_samples)]
            for leaf in leaves]


FRAMES = """process 7:"sh -c python3";process 42:"python3 a.py";<module> (a.py:3);fit (torch/nn/m.py:4);mm (at.cpp:0) 5
process 42:"python3 a.py";<module> (a.py:3);fit (torch/nn/m.py:4);back (torch/autograd.py:9);mm (at.cpp:0) 7
process 42:"python3 a.py";<module> (a.py:3);main (a.py:9);mm (at.cpp:0) 5
process 42:"python3 a.py";<module> (a.py:3) 9
<module> (a.py:3);_find_and_load (<frozen importlib._bootstrap>:1027) 2
<module> (a.py:3);_find_and_load (<frozen importlib._bootstrap>:1030) 1
fit (torch/nn/m.py:5) 11
"""


@test(modes=("root",))
def as_itwinai(context):
    """--library is itwinai's own table, row by row, of our files, py-spy's and a made one."""
    recorded(context)
    target = busy(context)
    context.bpfprof("record", "-F", HZ, "-d", "1", "-p", target.pid, "--native", "-o",
                    "n.raw").expect(0)
    with open(context.path("made.raw"), "w", encoding="utf-8") as file:
        file.write(FRAMES)
    context.spawn([py_spy(), "record", "-p", target.pid, "-f", "raw", "-o", context.path("p.raw"),
                   "-d", "2", "-r", "100"], plain=True).wait(timeout=60)
    most = 0
    for name, library in (("x.raw", "busy"), ("n.raw", "busy.py"), ("n.raw", "libpython"),
                          ("p.raw", "threading"), ("made.raw", "torch"), ("made.raw", "autograd"),
                          ("made.raw", "built"), ("made.raw", "nobody")):
        for more in ([], ["--aggregate-leaf"]):
            text = report(context, name, "--library", library, *more, "--rows", "0")
            ours = [[cell.strip() for cell in line.split(" | ")] for line in text.splitlines()[2:]]
            theirs = their_rows(context.path(name), library, bool(more))
            check(ours == theirs, "%s, %s: %s, not %s" % (name, library, ours, theirs))
            most = max(most, len(ours))
    check(most >= 6, "at most %d rows" % most)
    context.note(report(context, "n.raw", "--library", "busy", "--aggregate-leaf", "--rows", "3"))
    # The same out of a pprof: of Python frames as in the .raw of the same recording. Rows with one count come in
    # the order of the file, which is each format's own.
    pprof, raw = (sorted(report(context, name, "--library", "busy", "--aggregate-leaf").splitlines())
                  for name in ("x.pb.gz", "x.raw"))
    check(pprof == raw, "pprof: %s, .raw: %s" % (pprof, raw))


@test(modes=("root",))
def source_lines(context):
    """--lines puts the samples beside their lines, and says when it is another source."""
    recorded(context)
    stacks = [(frames[1:], count) for frames, count in folded(context, "x.folded")]
    own, total = collections.Counter(), collections.Counter()
    for frames, count in stacks:
        lines = [re.search(r"\((\w+\.py):(\d+)\)$", frame) for frame in frames]
        lines = [(match[1], int(match[2])) for match in lines if match]
        own[lines[-1] if lines else None] += count
        for line in set(lines):
            total[line] += count
    text = report(context, "x.folded", "--lines", context.path("busy.py"))
    source = BUSY.split("\n")
    shown = {}
    for line in text.splitlines()[3:]:
        cells = [line[:11], line[21:32], line[41:48], line[48:]]
        shown[int(cells[2])] = ([int(cell) if cell.strip() else 0 for cell in cells[:2]], cells[3])
    context.note(text)
    for number, (counts, code) in shown.items():
        check(counts == [own["busy.py", number], total["busy.py", number]],
              "line %d: %s, not %d %d" % (number, counts, own["busy.py", number],
                                          total["busy.py", number]))
        check(code.strip() == source[number - 1].strip(), "line %d: %s" % (number, code))
    check(len(shown) == len(BUSY.splitlines()), "not all lines: %s" % text)
    check(sum(counts[0] for counts, _ in shown.values()) > 10, text)
    # By its full name in the pprof, from another folder.
    check("burn(20000)" in report(context, context.path("x.pb.gz"), "--lines", "busy.py", cwd="/"),
          "not found")
    with open(context.path("busy.py"), "w", encoding="utf-8") as file:
        file.write("#\n" * 5)
    done = context.bpfprof("report", "x.pb.gz", "--lines", "busy.py").expect(0)
    said = done.err.decode()
    check("changed after" in said and "not the source" in said, said)
    said = one_sentence(context.bpfprof("report", "x.pb.gz", "--lines", "other.py").expect(1))
    check("other.py" in said, said)
