# SPDX-License-Identifier: Apache-2.0
"""Every output format, file names, and what --stats holds."""

import glob
import json
import os
import re
import shutil
import socket
import subprocess
import xml.etree.ElementTree as ElementTree

import chains
from harness import MODES, check, test
from pprof import Pprof

LIGHT = True
HZ = 499
STATS = {
    "samples": ["total", "user", "kernel_only", "python"],
    "lost": [],
    "stacks": ["complete", "truncated", "unmerged", "reasons"],
    "agent": ["startup_seconds", "cpu_seconds", "rss_bytes", "peak_rss_bytes", "bpf_map_bytes",
              "memory_bytes", "bpf_runs", "bpf_ns", "bpf_ns_source"],
    "duration_seconds": None,
}


def check_stats(stats):
    for key, inner in STATS.items():
        check(key in stats, "no %s in --stats: %s" % (key, sorted(stats)))
        for name in inner or []:
            check(name in stats[key], "no %s.%s in --stats: %s" % (key, name, stats[key]))


@test(modes=MODES)
def all_at_once(context):
    """Six files of one run agree with each other and with --stats."""
    calls, threads = context.target("calls_gO2"), context.target("threads_gO2")
    one, two = context.spawn([calls.path, "30"]), context.spawn([threads.path, "30"])
    outputs = ["x.pb.gz", "x.folded", "x.html", "x.svg", "x.speedscope.json", "x.raw"]
    arguments = [word for name in outputs for word in ("-o", name)]
    done = context.bpfprof("record", "-F", HZ, "-d", "3", "-p", one.pid, "-p", two.pid, "--native",
                           "--threads", *arguments, "--stats", "x.json").expect(0)
    check(not glob.glob(context.path("*tmp*")), "temporary files are left: %s" %
          os.listdir(context.dir))
    stats = context.json("x.json")
    check_stats(stats)
    total = stats["samples"]["total"]
    check(total > 100, "only %d samples of two busy programs in 3 s" % total)
    check(abs(stats["duration_seconds"] - 3) < 0.5, "duration %s" % stats["duration_seconds"])
    check("spin" in done.text, "the top functions are not printed:\n" + done.text)
    for one_check in (check_folded, check_pprof, check_html, check_svg, check_speedscope,
                      check_raw):
        one_check(context, total, one.pid, two.pid)


def check_folded(context, total, _one, two):
    text = context.text("x.folded")
    first, rest = text.split("\n", 1)
    check(first.startswith("# {"), "no counters in the first line: " + first[:200])
    counters = json.loads(first[2:])
    check(counters["samples"]["total"] == total, "counters in .folded differ: " + first)
    stacks = list(chains.read_folded(rest))
    check(sum(count for _, _, count in stacks) == total, "samples in .folded differ")
    threads = {frames[0] for process, frames, _ in stacks if process == "threads_gO2"}
    check(any(re.fullmatch(r"worker-a-\d+", name) for name in threads),
          "--threads gives no NAME-TID frames: %s" % sorted(threads)[:5])
    check(any("%s-%d" % ("threads_gO2", two) == name or re.fullmatch(r"threads_gO2-\d+", name)
              for name in threads), "no frame for the cloned task: %s" % threads)


def check_pprof(context, total, one, _two):
    profile = Pprof(context.read("x.pb.gz"))
    check(profile.sample_types == ["samples/count", "cpu/nanoseconds"],
          "sample types: %s" % profile.sample_types)
    check(profile.default_type in ("cpu", ""), "default type " + profile.default_type)
    check(sum(s["values"][0] for s in profile.samples) == total, "samples in pprof differ")
    cpu = sum(s["values"][1] for s in profile.samples)
    check(abs(cpu - total * 1e9 / HZ) < 0.1 * cpu, "cpu %d ns for %d samples" % (cpu, total))
    labels = [s["labels"] for s in profile.samples]
    check(all(label.get("host") == socket.gethostname() for label in labels), "no label host")
    for key in ("comm", "thread", "pid", "tid"):
        check(all(key in label for label in labels), "not all samples have the label " + key)
    check(one in {label["pid"] for label in labels}, "no pid %d" % one)
    busy = [m for m in profile.mappings.values() if m["path"].endswith("/calls_gO2")]
    check(busy, "no mapping of the program: %s" % profile.mappings)
    notes = subprocess.run(["readelf", "-n", busy[0]["path"]], stdout=subprocess.PIPE, text=True,
                           check=False).stdout
    build_id = re.search(r"Build ID: ([0-9a-f]+)", notes)
    check(not build_id or busy[0]["build_id"] == build_id.group(1),
          "build id %s" % busy[0]["build_id"])
    leaf = {name for s in profile.samples for name in profile.locations[s["stack"][0]]["functions"]
            if s["labels"]["pid"] == one}
    root = {name for s in profile.samples for name in profile.locations[s["stack"][-1]]["functions"]
            if s["labels"]["pid"] == one}
    check("spin" in leaf and "_start" in root, "leaf first: leaves %s, roots %s" % (leaf, root))
    check(profile.stats["samples"]["total"] == total, "other counters in comments")
    check(len(profile.comments) <= 5, "comments of a good profile: %s" % profile.comments)
    if not shutil.which("go"):
        context.note("no go: pprof read by the tests' own reader only")
        return
    for flag, want in (("-top", "spin"), ("-raw", "level_three")):
        tool = subprocess.run(["go", "tool", "pprof", flag, "x.pb.gz"], cwd=context.dir,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, env=dict(os.environ, HOME=context.dir))
        check(tool.returncode == 0 and want in tool.stdout,
              "go tool pprof %s:\n%s" % (flag, tool.stdout[-2000:]))


def check_html(context, total, *_):
    text = context.text("x.html")
    check(not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", text), "loads from the network")
    check("<script" in text and "level_three" in text, "no flame graph")
    check(str(total) in text.replace(",", ""), "no counters in the page")
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    check(json.loads(data[1])["stats"]["samples"]["total"] == total, "other counters in the page")


def check_svg(context, *_):
    root = ElementTree.fromstring(context.text("x.svg"))
    check(root.tag.endswith("svg"), "not an SVG: " + root.tag)
    check("level_three" in context.text("x.svg"), "no frames in the SVG")


def check_speedscope(context, total, *_):
    document = context.json("x.speedscope.json")
    check("speedscope" in document.get("$schema", ""), "no $schema")
    frames = document["shared"]["frames"]
    check(any(frame["name"] == "level_three" for frame in frames), "no frame level_three")
    samples = 0
    for profile in document["profiles"]:
        check(len(profile["samples"]) == len(profile["weights"]), "weights and samples differ")
        check(all(0 <= i < len(frames) for s in profile["samples"] for i in s), "wild index")
        check(abs(sum(profile["weights"]) - profile["endValue"] + profile["startValue"]) <=
              1e-6 * max(1, profile["endValue"]), "endValue is not the sum of the weights")
        samples += 1
    check(samples and total, "no profiles")


def check_raw(context, *_):
    for line in context.text("x.raw").splitlines():
        stack, _, count = line.rpartition(" ")
        check(count.isdigit(), "no count: " + line)
        for frame in stack.split(";"):
            check(re.fullmatch(r'.+ \(.+:\d+\)|process \d+:".*"', frame),
                  "frame is not NAME (PATH:LINE): %r in %s" % (frame, line[:200]))


BUSY_IN_LIBRARY = """
import hashlib, threading, time
def work():
    data = bytes(1 << 20)
    while True:
        hashlib.sha256(data).digest()
threading.Thread(target=work, daemon=True).start()
time.sleep(60)
"""
PARENT = "import subprocess, sys; subprocess.Popen(sys.argv[1:]).wait()"


def loader_of(path):
    """The dynamic loader that the file asks for."""
    headers = subprocess.run(["readelf", "-lW", path], stdout=subprocess.PIPE, text=True,
                             check=True).stdout
    return re.search(r"program interpreter: ([^\]]+)\]", headers)[1]


@test(paired=True)
def program_in_front(context):
    """The first mapping is the program: of -p the target's, else the one with the most samples."""
    python = os.path.realpath("/usr/bin/python3")
    few, many = context.target("calls_gO2").path, context.target("threads_gO2").path
    pids = {name: context.spawn(argv).pid for name, argv in {
        "library": [python, "-c", BUSY_IN_LIBRARY],
        "loader": [loader_of(python), python, "-c", BUSY_IN_LIBRARY],
        "parent": [python, "-c", PARENT, few, "60"],
        "few": [few, "60"],
        "many": [many, "60"],
    }.items()}
    for names, want in ((["library"], python), (["loader"], python), (["parent"], python),
                        (["few", "many"], many), (["many", "few"], many)):
        done = context.bpfprof("record", "-F", HZ, "-d", "1.5", "-o", "x.pb.gz",
                               *(word for name in names for word in ("-p", pids[name])))
        done.expect(0)
        profile = Pprof(context.read("x.pb.gz"))
        first = list(profile.mappings.values())[0]["path"]
        check(first == want, "%s: the first mapping is %s, not %s" % (names, first, want))
        if shutil.which("go"):
            tool = subprocess.run(["go", "tool", "pprof", "-top", "x.pb.gz"], cwd=context.dir,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  check=True, env=dict(os.environ, HOME=context.dir))
            check(tool.stdout.startswith("File: %s\n" % os.path.basename(want)), tool.stdout[:200])


@test()
def names(context):
    """%h %t %{NAME} are expanded, parents made; --split process gives a file each."""
    one = context.spawn([context.target("calls_gO2").path, "30"])
    two = context.spawn([context.target("tiny_gO2").path, "30"])
    context.bpfprof("record", "-F", HZ, "-d", "1", "-p", one.pid, "-o", "a/b/%h-%t-%{NAMED}.folded",
                    env=dict(os.environ, NAMED="x/y")).expect(0)
    found = os.listdir(context.path("a", "b"))
    pattern = re.escape(socket.gethostname()) + r"-\d{8}T\d{6}Z-x_y\.folded"
    check(len(found) == 1 and re.fullmatch(pattern, found[0]), "names: %s" % found)
    context.bpfprof("record", "-F", HZ, "-d", "1", "-p", one.pid, "-p", two.pid, "--split",
                    "process", "-o", "split/%p.folded").expect(0)
    files = sorted(os.listdir(context.path("split")))
    check(files == sorted("%d.folded" % p.pid for p in (one, two)), "files: %s" % files)
    for process, leaf in ((one, "spin"), (two, "tiny_loop")):
        text = context.text(os.path.join("split", "%d.folded" % process.pid))
        check(leaf in text, "%s is not in the file of its process" % leaf)
    others = context.text(os.path.join("split", "%d.folded" % one.pid))
    check("tiny_loop" not in others, "another process is in the file")


@test()
def standard_output(context):
    """-o - writes nothing but the profile there."""
    one = context.spawn([context.target("calls_gO2").path, "30"])
    for form in ("folded", "pprof", "speedscope", "html", "svg", "raw"):
        done = context.bpfprof("record", "-F", HZ, "-d", "1", "-p", one.pid, "--native", "--format",
                               form, "-o", "-").expect(0)
        check(not os.listdir(context.dir), "a file was made: %s" % os.listdir(context.dir))
        if form == "folded":
            text = done.out.decode("utf-8")
            check(text.startswith("# {") and "level_three" in text, text[:500])
            check(all(re.fullmatch(r"# \{.*\}|.* \d+", line) for line in text.splitlines()), text)
        elif form == "pprof":
            check(Pprof(done.out).samples, "no samples")
        elif form == "speedscope":
            check(json.loads(done.out)["profiles"], "no profiles")
        elif form == "svg":
            ElementTree.fromstring(done.out.decode("utf-8"))
        elif form == "html":
            check(done.out.lstrip().lower().startswith(b"<!doctype html"), done.out[:100])


@test(modes=("root",))
def default_file(context):
    """Without -o: bpfprof-<UTC>.html in the working folder, and it is named."""
    context.spawn([context.target("calls_gO2").path, "30"])
    done = context.bpfprof("record", "-d", "1").expect(0)
    made = os.listdir(context.dir)
    check(len(made) == 1 and re.fullmatch(r"bpfprof-\d{8}T\d{6}Z\.html", made[0]),
          "made: %s" % made)
    check(made[0] in done.text, "the file is not named:\n" + done.text)
