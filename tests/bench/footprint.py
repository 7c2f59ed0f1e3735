# SPDX-License-Identifier: Apache-2.0
"""What bpfprof itself needs: time to start, CPU when steady, memory beside a big C++ program."""

import contextlib
import json
import shutil
import time

from workplace import BPFPROF, CLANG, Child, cpus, load, out, print_table, spread

NR_PROCESSES = 200
MIB = 1 << 20

# Keeps clang, and with it libLLVM, busy for many seconds.
BIG_SOURCE = """\
#include <algorithm>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <string>
#include <unordered_map>
#include <variant>
template <int n> struct layer : layer<n - 1> {
	std::map<std::string, std::function<int(int)>> by_name;
	std::variant<int, std::string, std::vector<layer<n - 1>>> value;
	int run(const std::string &text) {
		std::regex pattern("(a|b)*c{" + std::to_string(n) + "}");
		by_name[text] = [this](int x) { return x + n; };
		return std::regex_search(text, pattern) + this->layer<n - 1>::run(text);
	}
};
template <> struct layer<0> { int run(const std::string &) { return 0; } };
int main() { return layer<60>().run("aabbccc"); }
"""


def crowd(stack):
    """Sleeping processes of several programs, until there are enough of them."""
    python = shutil.which("python3")
    programs = [["sleep", "1000"]] * 16 + [["sh", "-c", "sleep 1000; :"]] * 2 + \
               [["tail", "-f", "/dev/null"]] * 1
    if python:
        programs.append([python, "-c", "import time; time.sleep(1000)"])
    for i in range(NR_PROCESSES):
        stack.enter_context(Child(programs[i % len(programs)], group=True))
    time.sleep(1)


def recorder(*flags):
    return Child([BPFPROF, "record", "-F", "99", "-o", out("footprint.pb.gz"),
                  "--stats", out("footprint.json"), *flags])


def statistics_read():
    with open(out("footprint.json"), encoding="utf-8") as file:
        return json.load(file)


def measure_start(rounds):
    found = []
    for _ in range(rounds):
        with recorder("-d", "0.5") as child:
            child.finish()
        found.append(statistics_read()["agent"]["startup_seconds"])
    return spread(found)


def measure_steady(warm, seconds):
    """Shares of one core, per CPU watched: the agent's own, and what its programs take."""
    with contextlib.ExitStack() as stack:
        for i, cpu in enumerate(cpus()):
            stack.enter_context(Child([out("bw-plain" if i % 2 else "bw-cpp"), 15], cpu=cpu))
        with recorder() as child:
            time.sleep(warm)
            cpu, start = child.cpu_seconds(), time.monotonic()
            ns = (child.program_statistics() or (0, 0))[1]
            time.sleep(seconds)
            cpu, took = child.cpu_seconds() - cpu, time.monotonic() - start
            ns = (child.program_statistics() or (0, 0))[1] - ns
            child.interrupt()
    share = 100 / took / len(cpus())
    stats = statistics_read()
    return {"seconds": took, "agent_percent": cpu * share, "bpf_percent": ns / 1e9 * share,
            "whole_run_cpu_seconds": stats["agent"]["cpu_seconds"],
            "samples": stats["samples"]["total"]}


def measure_memory(seconds):
    """The agent's own count at the end, and the most seen of its own pages plus maps meanwhile."""
    with open(out("big.cpp"), "w", encoding="ascii") as file:
        file.write(BIG_SOURCE)
    again = "while :; do %s -std=c++20 -O2 -c %s -o /dev/null || sleep 1; done" % (
        CLANG, out("big.cpp"))
    peak = 0
    with Child(["sh", "-c", again], group=True), recorder("-d", seconds) as child:
        end = time.monotonic() + seconds + 60
        while child.process.poll() is None and time.monotonic() < end:
            peak = max(peak, child.status_bytes("RssAnon", "RssShmem"))
            time.sleep(0.02)
        child.finish()
    agent = statistics_read()["agent"]
    return {"memory_bytes": agent["memory_bytes"], "bpf_map_bytes": agent["bpf_map_bytes"],
            "rss_bytes": agent["rss_bytes"], "peak_rss_bytes": agent["peak_rss_bytes"],
            "peak_own_and_maps_bytes": peak + agent["bpf_map_bytes"],
            "samples": statistics_read()["samples"]["total"]}


def bench(quick):
    with contextlib.ExitStack() as stack:
        crowd(stack)
        start = measure_start(3 if quick else 9)
        steady = measure_steady(*((1.5, 4) if quick else (5, 20)))
        memory = measure_memory(5 if quick else 20)
    print("Start, CPU and memory with %d sleeping processes more (%s)" % (NR_PROCESSES, load()))
    print("  start: from exec to sampling on all CPUs, as bpfprof says. CPU at 99 Hz: share of one "
          "core per CPU watched,\n  all CPUs busy, %.0f s after warming up; BPF: time in the "
          "sampling program, which the watched processes pay.\n  memory beside clang++: "
          "memory_bytes at the end; the most of own pages + maps on the way (counts no mapped "
          "files)." % steady["seconds"])
    print_table(["what", "measured", "goal"], [
        ["start, s", "%.3f (%.3f-%.3f)" % (start["median"], start["min"], start["max"]), "0.3"],
        ["agent's CPU, % of a core per CPU", "%.3f" % steady["agent_percent"], "0.1"],
        ["BPF, % of a core per CPU", "%.3f" % steady["bpf_percent"], ""],
        ["agent's CPU of that whole run, s", "%.2f" % steady["whole_run_cpu_seconds"], ""],
        ["memory_bytes, MiB", "%.1f" % (memory["memory_bytes"] / MIB), "64"],
        ["of which BPF maps, MiB", "%.1f" % (memory["bpf_map_bytes"] / MIB), ""],
        ["peak of own pages + maps, MiB", "%.1f" % (memory["peak_own_and_maps_bytes"] / MIB), ""],
    ])
    return {"processes": NR_PROCESSES, "start_seconds": start, "steady": steady, "memory": memory}
