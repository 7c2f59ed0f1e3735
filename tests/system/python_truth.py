# SPDX-License-Identifier: Apache-2.0
"""Are the stacks of a profile those that a Python program can have?

A program of python/ describes its legal stacks (python/truth.py says how); this judges the stacks
of collapsed profiles by that. `--self-test` proves the judge: by made-up stacks, and by programs
that sample themselves.
"""

import glob
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "python")
sys.path.insert(0, HERE)
sys.path.insert(0, PROGRAMS)

from truth import canonical  # noqa: E402

PYTHON = re.compile(r"(?P<name>.*?) \((?P<file>.+):(?P<line>\d+)\)", re.DOTALL)
EVAL = re.compile(r"_?PyEval_EvalFrame(Default|Ex)?\b|_TAIL_CALL_\w+")
# What the eval loop calls when its last Python frame is gone, or its first one not yet there.
EDGE = re.compile(r"_PyEval_?FrameClearAndPop|_PyThreadState_PopFrame|"
                  r"_Py_CheckFunctionResult|_Py_(Check|Enter|Leave)Recursive|_PyErr_Occurred|"
                  r"PyErr_Occurred|.*\+0x")
TRUNCATED_MARK, UNMERGED_MARK = "[truncated]", "[unmerged]"
KERNEL = "_[k]"
CUT = "\u2026"

# Of each sample of work; outside = before, after, and between.
# Cut = truncated at its root, but all Python frames are there, and right: only C code is missing.
# Early = the process is not known yet to be Python: no Python frame, the eval loop left as it is.
EXACT, WRONG, ORDER, LEFT, TRUNCATED, UNMERGED, OUTSIDE, EARLY, CUT_NATIVE = VERDICTS = (
    "exact", "wrong", "order", "eval left", "truncated", "unmerged", "outside", "early", "cut")

# What the C function between two Python frames must look like, where symbols tell.
SYMBOLS = {
    "sorted": "sort", "list.sort": "sort", "reduce": "reduce", "exec": "exec|[eE]val",
    "eval": "[eE]val",
    "max": "min_max|max", "min": "min_max|min", "any": "any", "Pattern.sub": "sub",
    "accumulate": "accumulate",
    "collect": "gc|collect", "next": "next", "run_string": "run|interp|exec",
}


class Legal:
    """What one program may look like, from its descriptions (one for each process of it)."""

    def __init__(self, documents, version=(3, 11)):
        self.children = {}
        self.vias = {}
        self.long = {}
        self.count = 1
        self.version = version
        self.facts = {}
        for document in documents:
            self.add(document)
        self.files = {"truth.py", documents[0]["program"] + ".py"} if documents else set()

    def add(self, document):
        for key, value in document.items():
            if key not in ("nodes", "program"):
                known = self.facts.setdefault(key, [])
                known += [item for item in value if item not in known]
        numbers = {0: 0}
        for index, (parent, text, via) in enumerate(document["nodes"]):
            if index == 0:
                continue
            parent = numbers[parent]
            node = self.children.get((parent, text))
            if node is None:
                node = self.children[(parent, text)] = self.count
                self.count += 1
                self.vias[node] = set()
                if len(text) > 100:
                    self.long.setdefault(parent, []).append((text, node))
            self.vias[node].add(via)
            numbers[index] = node

    def step(self, node, text):
        """The node below, or None."""
        below = self.children.get((node, canonical(text, self.facts["numbered"])))
        if below is None and CUT in text:
            pattern = ".*".join(re.escape(part) for part in text.split(CUT))
            for whole, candidate in self.long.get(node, []):
                if len(text) > 100 and re.fullmatch(pattern, whole, re.DOTALL):
                    return candidate
        return below

    def judge(self, frames, python_only=False):
        """(verdict, why, eval frame at the leaf)."""
        user = list(frames)
        while user and user[-1].endswith(KERNEL):
            user.pop()
        if UNMERGED_MARK in user: # calls of the eval loop alone: not known to be Python yet
            return (UNMERGED if any(map(PYTHON.fullmatch, user)) else EARLY), "", False
        if TRUNCATED_MARK in user:
            verdict, why, _ = self.judge(user[1:], True)
            known = user[0] == TRUNCATED_MARK and verdict == EXACT and \
                any(map(PYTHON.fullmatch, user))
            return (CUT_NATIVE if known else TRUNCATED), why, False
        parsed = [PYTHON.fullmatch(frame) for frame in user]
        left = [index for index, frame in enumerate(user)
                if not parsed[index] and EVAL.match(frame)]
        leaf = bool(left)
        if len(left) == 2 and left[1] == left[0] + 1 and user[left[1]].startswith("_TAIL_CALL_"):
            left = left[1:]  # the two are one call of the eval loop
        if left and left != [len(user) - 1] and not any(parsed):
            return EARLY, "", False
        if left and (len(left) > 1 or any(parsed[left[0]:]) or
                     not EDGE.match("".join(user[left[0] + 1:left[0] + 2]) or "+0x")):
            return LEFT, "", False
        python = [(index, found) for index, found in enumerate(parsed) if found]
        if not python:
            known = any(re.search(pattern, frame) for pattern in self.facts["native"]
                        for frame in user)
            return (EXACT if known else OUTSIDE), "", leaf
        if not any(found["name"] in self.facts["roots"] for _, found in python):
            first = python[0][1]
            if first["file"] in self.files and first["name"] != "<module>":
                return WRONG, "%s is no root" % first.group(0), leaf
            return OUTSIDE, "", leaf
        return (*self.walk(user, python, python_only), leaf)

    def walk(self, user, python, python_only):
        """Follows the Python frames of a stack from the root."""
        if not python_only and python[0][0] == 0:
            return WRONG, "nothing below " + user[0]
        start = 0
        names = [found["name"].rpartition(".")[2] for _, found in python]
        if self.facts["outer"] and names[:len(self.facts["outer"])] == self.facts["outer"]:
            start = len(self.facts["outer"])
            if not python_only and start < len(python) and \
                    python[start][0] == python[start - 1][0] + 1:
                return ORDER, "no C code before " + user[python[start][0]]
            # Its own description stands at the root, or it is the outer one itself.
            if start == len(python):
                return OUTSIDE, ""
        node, before = 0, None
        for index, found in python[start:]:
            below = self.step(node, user[index])
            if index == python[-1][0] and node and self.version >= (3, 11) and \
                    canonical(user[index], self.facts["numbered"]) in self.facts["makers"]:
                return EXACT, ""
            if index == python[-1][0] and node and index > before + 1 and \
                    user[index] in self.facts["anywhere"]:
                return EXACT, ""
            if below is None:
                return WRONG, "%s cannot stand here" % user[index]
            if before is not None and not python_only:
                between = user[before + 1:index]
                complaint = self.between(self.vias[below], found["name"], between)
                if complaint:
                    return ORDER, "%s %s" % (complaint, user[index])
            node, before = below, index
        return EXACT, ""

    def between(self, vias, name, native):
        """What is wrong with the C code between a Python frame and its caller."""
        if native and self.version >= (3, 11) and name in self.facts["direct"]:
            return "C code before"
        if "" in vias:
            return ""
        if not native:
            return "no %s before" % "|".join(sorted(vias))
        if any("+0x" in frame for frame in native):
            return ""  # not all of it has names
        if not any(re.search(SYMBOLS.get(via, ""), frame) for via in vias for frame in native):
            return "not %s before" % "|".join(sorted(vias))
        return ""


class Result:
    """What was seen of one program, all its processes."""

    def __init__(self, name, legal):
        self.name = name
        self.legal = legal
        self.counts = dict.fromkeys(VERDICTS, 0)
        self.bad = {}
        self.frames = {}
        self.lines = {}
        self.eval_leaf = 0
        self.due = 0.0  # samples that its work must have
        self.due_outside = 0.0
        self.processes = 0

    @property
    def work(self):
        return sum(self.counts.values()) - self.counts[OUTSIDE] - self.counts[EARLY]

    def percent(self, *verdicts):
        return 100.0 * sum(self.counts[v] for v in verdicts) / max(1, self.work)

    def add(self, frames, count, python_only=False):
        verdict, why, leaf = self.legal.judge(frames, python_only)
        self.counts[verdict] += count
        self.eval_leaf += count * leaf
        if verdict not in (EXACT, OUTSIDE, EARLY):
            key = (verdict, why, ";".join(frames))
            self.bad[key] = self.bad.get(key, 0) + count
        if verdict in (OUTSIDE, EARLY):
            return
        python = [found for found in map(PYTHON.fullmatch, frames) if found]
        for name in {found["name"] for found in python}:
            self.frames[name] = self.frames.get(name, 0) + count
        if python:
            place = "%s:%s" % (python[-1]["file"], python[-1]["line"])
            self.lines[place] = self.lines.get(place, 0) + count

    def add_work(self, done, hz):
        self.due += hz * (done["cpu_end"] - done["cpu_begin"])
        self.due_outside += hz * (done["cpu_begin"] - done["cpu_go"])

    def shares(self):
        """Sentences about shares of the time that are not as known."""
        problems = []
        for name, percent, tolerance in self.legal.facts["shares"]:
            seen = 100.0 * self.frames.get(name, 0) / max(1, self.work)
            noise = 5 * (percent * (100 - percent) / max(1, self.work)) ** 0.5
            if abs(seen - percent) > tolerance + noise:
                problems.append("%s: %s has %.1f%%, %.1f%% expected" % (self.name, name, seen,
                                                                       percent))
        lines = self.legal.facts["lines"]
        busy = sum(self.lines.get(line, 0) for line in lines)
        if lines and busy < 0.9 * self.work - 5 * (0.09 * self.work) ** 0.5:
            problems.append("%s: only %d of %d samples are on busy lines, but %s" % (
                self.name, busy, self.work,
                sorted(((n, place) for place, n in self.lines.items() if place not in lines),
                       reverse=True)[:5]))
        for line in lines:
            want = busy / len(lines)
            if abs(self.lines.get(line, 0) - want) > 0.35 * want + 5 * want ** 0.5:
                problems.append("%s: line %s has %d samples, %.0f expected" % (
                    self.name, line, self.lines.get(line, 0), want))
        return problems

    def missing(self, exit_seconds, hz):
        """Sentences about samples that are too few or too many."""
        problems = []
        slack = 5 * self.due ** 0.5 + 5
        if abs(self.work - self.due) > 0.1 * self.due + slack:
            problems.append("%s: %d samples of work, %.0f expected" % (self.name, self.work,
                                                                      self.due))
        most = 1.2 * self.due_outside + self.processes * exit_seconds * hz + slack
        if self.counts[OUTSIDE] > most:
            problems.append("%s: %d samples outside of its work, at most %.0f expected" % (
                self.name, self.counts[OUTSIDE], most))
        return problems

    def worst(self, limit=3):
        return sorted(self.bad.items(), key=lambda item: -item[1])[:limit]


def read_folded(text):
    """([frames, outermost first], count) of every line but the counters'."""
    for line in text.split("\n"):
        if line and not line.startswith("# "):
            stack, _, count = line.rpartition(" ")
            yield stack.split(";")[1:], int(count)


def read_legal(folder, version):
    documents = []
    for path in sorted(glob.glob(os.path.join(folder, "*.legal"))):
        with open(path, encoding="utf-8") as file:
            documents.append(json.load(file))
    return Legal(documents, version)


def shorten(stack, limit=900):
    stack = ";".join(frame if len(frame) < 120 else frame[:50] + "..." + frame[-50:]
                     for frame in stack.split(";"))
    return stack if len(stack) <= limit else stack[:limit // 3] + " ... " + stack[-limit * 2 // 3:]


def table(results, worst=3):
    """A line for each program, its worst stacks below."""
    lines = ["%-18s %5s %8s %9s %5s %7s %7s %9s %9s %8s %9s %8s %6s" % (
        "program", "procs", "work", "exact", "cut", "wrong", "order", "eval left", "truncated", "unmerged",
        "eval leaf", "outside", "early")]
    for one in results:
        lines.append("%-18s %5d %8d %8.3f%% %5d %7d %7d %9d %9d %8d %9d %8d %6d" % (
            one.name, one.processes, one.work, one.percent(EXACT), one.counts[CUT_NATIVE],
            one.counts[WRONG],
            one.counts[ORDER], one.counts[LEFT], one.counts[TRUNCATED], one.counts[UNMERGED],
            one.eval_leaf, one.counts[OUTSIDE], one.counts[EARLY]))
        for (verdict, why, stack), count in one.worst(worst):
            lines.append("    %6d %s: %s\n           %s" % (count, verdict, shorten(why),
                                                         shorten(stack)))
    return "\n".join(lines)


# The proof of the judge.

MADE_UP = {
    "program": "made", "roots": ["loop"], "direct": ["leaf"], "shares": [], "lines": [],
    "numbered": [r"f(?P<i>\d+) \(g(?P=i)\.py:(?P<line>\d+)\)"], "native": ["busy"], "outer": [],
    "makers": ["maker (made.py:8)"], "anywhere": ["callback (made.py:6)"],
    "nodes": [[-1, "", ""], [0, "<module> (made.py:9)", ""], [1, "loop (truth.py:5)", ""],
              [2, "caller (made.py:3)", ""], [3, "leaf (made.py:1)", ""],
              [3, "key (made.py:7)", "sorted"], [3, "numbered f# (g#.py:#) +1", ""],
              [3, "n" * 300 + " (made.py:4)", ""]],
}
OUTER = "_start;main;<module> (made.py:9);loop (truth.py:5)"
CASES = [
    (EXACT, OUTER),
    (EXACT, OUTER + ";caller (made.py:3);leaf (made.py:1)"),
    (EXACT, OUTER + ";caller (made.py:3);leaf (made.py:1);list_append;do_syscall_[k]"),
    (EXACT, OUTER + ";caller (made.py:3);_PyEval_EvalFrameDefault"),
    (EXACT, OUTER + ";caller (made.py:3);builtin_sorted;list_sort_impl;key (made.py:7)"),
    (EXACT, OUTER + ";caller (made.py:3);python3.11+0x1f2;key (made.py:7)"),
    (EXACT, OUTER + ";caller (made.py:3);f2 (g2.py:17)"),
    (EXACT, OUTER + ";caller (made.py:3);" + "n" * 200 + CUT + " (made.py:4)"),
    (EXACT, OUTER + ";caller (made.py:3);maker (made.py:8);make_gen"),
    (EXACT, OUTER + ";caller (made.py:3);dealloc;callback (made.py:6)"),
    (WRONG, OUTER + ";caller (made.py:3);callback (made.py:6)"),
    (WRONG, OUTER + ";caller (made.py:3);maker (made.py:8);caller (made.py:3)"),
    (EXACT, "clone3;start_thread;busy_for"),
    (WRONG, OUTER + ";caller (made.py:3);" + "n" * 200 + "m" + CUT + " (made.py:4)"),
    (EARLY, "_start;_PyEval_EvalFrameDefault;call_function;_PyEval_EvalFrameDefault"),
    (WRONG, OUTER + ";caller (made.py:3);f2 (g2.py:18)"),
    (WRONG, OUTER + ";caller (made.py:3);f2 (g3.py:17)"),
    (WRONG, OUTER + ";leaf (made.py:1)"),
    (WRONG, OUTER + ";caller (made.py:4)"),
    (WRONG, OUTER + ";leaf (made.py:1);caller (made.py:3)"),
    (WRONG, "_start;leaf (made.py:1)"),
    (WRONG, "_start;loop (truth.py:5);caller (made.py:3)"),
    (WRONG, "<module> (made.py:9);loop (truth.py:5)"),
    (ORDER, OUTER + ";caller (made.py:3);call_helper;leaf (made.py:1)"),
    (ORDER, OUTER + ";caller (made.py:3);key (made.py:7)"),
    (ORDER, OUTER + ";caller (made.py:3);reduce;key (made.py:7)"),
    (LEFT, OUTER + ";_PyEval_EvalFrameDefault;caller (made.py:3)"),
    (LEFT, "_start;_PyEval_EvalFrameDefault.cold;" + OUTER),
    (LEFT, OUTER + ";_PyEval_EvalFrameDefault;list_append"),
    (EXACT, OUTER + ";_PyEval_EvalFrameDefault;_PyEval_FrameClearAndPop;_PyObject_Free"),
    (EARLY, "_start;_TAIL_CALL_LOAD_FAST;list_append"),
    (EXACT, OUTER + ";call;_PyEval_EvalFrameDefault;_TAIL_CALL_RETURN_VALUE;_PyThreadState_PopFrame"),
    (LEFT, OUTER + ";call;_TAIL_CALL_RETURN_VALUE;_PyEval_EvalFrameDefault;_PyThreadState_PopFrame"),
    (LEFT, OUTER + ";_TAIL_CALL_CALL;caller (made.py:3)"),
    (TRUNCATED, "[truncated];caller (made.py:3)"),
    (TRUNCATED, "[truncated];list_append"),
    (CUT_NATIVE, "[truncated];" + OUTER.split(";", 2)[2] + ";caller (made.py:3);list_append"),
    (UNMERGED, "_start;[unmerged];<module> (made.py:9)"),
    (EARLY, "[unmerged];_start;_PyEval_EvalFrameDefault;list_append"),
    (OUTSIDE, "_start;main;_find_and_load (<frozen importlib._bootstrap>:99)"),
    (OUTSIDE, "_start;Py_FinalizeEx;_PyEval_EvalFrameDefault"),
]


def check_counts():
    """Shares and numbers of samples that are as known, and ones that are not: problems found."""
    facts = dict(MADE_UP, shares=[["leaf", 50, 5]], lines=["made.py:1", "made.py:3"])
    caller = OUTER + ";caller (made.py:3)"
    leaf = caller + ";leaf (made.py:1)"
    begin = "_start;main;_find_and_load (<frozen importlib._bootstrap>:99)"
    failed = 0
    for want, counts in ((0, {leaf: 500, caller: 500, begin: 20}),
                         (2, {leaf: 800, caller: 200, begin: 20}),  # a share, and both lines
                         (1, {leaf: 250, caller: 250, begin: 20}),  # too few
                         (1, {leaf: 500, caller: 500, begin: 400}),  # too many outside
                         (1, {leaf: 500, caller: 500, OUTER: 200})):  # lines, number, share
        result = Result("made", Legal([facts]))
        result.processes = 1
        result.add_work({"cpu_go": 0, "cpu_begin": 0.02, "cpu_end": 1.02}, 1000)
        for stack, count in counts.items():
            result.add(stack.split(";"), count)
        problems = result.shares() + result.missing(0.1, 1000)
        if bool(want) != bool(problems) or len(problems) < want:
            failed += 1
            print("FAIL %d problems expected: %s" % (want, problems))
    return failed


def describe(python, program, folder, more=None):
    """Runs a program of python/ so that it describes itself. False: it does not apply here."""
    os.makedirs(folder, exist_ok=True)
    env = python.environment(dict({"TRUTH_MODE": "describe", "TRUTH_OUT": folder,
                                   "TRUTH_PROGRAM": program, "TRUTH_FOLDER": PROGRAMS,
                                   "TRUTH_ARGV": json.dumps(python.argv)}, **(more or {})))
    done = subprocess.run([*python.argv, os.path.join(PROGRAMS, program + ".py")], env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120,
                          stdin=subprocess.DEVNULL, check=False)
    if done.returncode == 77:
        return False
    if done.returncode or not glob.glob(os.path.join(folder, "*.legal")):
        raise ValueError("%s with %s: exit status %d: %s" % (program, python, done.returncode,
                                                            done.stdout[-600:]))
    return True


def library(folder):
    """The C code that nativethreads.py calls."""
    path = os.path.join(folder, "libbusy.so")
    subprocess.run(["gcc", "-O2", "-g", "-shared", "-fPIC", "-fno-omit-frame-pointer",
                    os.path.join(PROGRAMS, "busy.c"), "-o", path, "-lpthread"], check=True)
    return path


def self_sampled(python, program, folder, busy):
    """A program's own samples of itself must all be exact."""
    environment = {"TRUTH_LIBRARY": busy}
    if not describe(python, program, folder, environment):
        return None
    env = python.environment({"TRUTH_MODE": "sample", "TRUTH_OUT": folder, "TRUTH_SECONDS": "0.6",
                              "TRUTH_PROGRAM": program, "TRUTH_FOLDER": PROGRAMS,
                              "TRUTH_ARGV": json.dumps(python.argv), **environment})
    subprocess.run([*python.argv, os.path.join(PROGRAMS, program + ".py")], env=env, check=True,
                   stdin=subprocess.DEVNULL, timeout=120)
    result = Result("%s %s" % (python.name, program), read_legal(folder, python.version))
    for path in glob.glob(os.path.join(folder, "*.folded")):
        result.processes += 1
        with open(path, encoding="utf-8") as file:
            for frames, count in read_folded(file.read()):
                if not any("(threading.py" in frame for frame in frames[-2:]):
                    result.add(frames, count, True)
    return result


def self_test(names):
    import pythons
    failed = 0
    legal = Legal([MADE_UP])
    for want, stack in CASES:
        verdict, why, _ = legal.judge(stack.split(";"))
        if verdict != want:
            failed += 1
            print("FAIL %s (%s), %s expected: %s" % (verdict, why, want, stack))
    failed += check_counts()
    print("%d made-up stacks" % len(CASES))
    with tempfile.TemporaryDirectory() as folder:
        busy = library(folder)
        results = []
        for python in pythons.installed():
            for path in sorted(glob.glob(os.path.join(PROGRAMS, "*.py"))):
                program = os.path.basename(path)[:-3]
                label = "%s %s" % (python.name, program)
                if program in ("truth", "subinterpreters") or names and not all(name in label for name in names):
                    continue
                result = self_sampled(python, program, os.path.join(folder, label), busy)
                if result:
                    failed += result.percent(EXACT) < 100 and result.work > 0
                    results.append(result)
        print(table(results))
    print("python_truth: %d problems" % failed)
    return not failed


if __name__ == "__main__":
    if sys.argv[1:2] != ["--self-test"]:
        sys.exit("usage: python_truth.py --self-test [PART OF A NAME]...")
    sys.exit(0 if self_test(sys.argv[2:]) else 1)
