# SPDX-License-Identifier: Apache-2.0
"""Are the stacks of a profile exactly those that a program can have?

Reads collapsed stacks and the .expect files of targets/ (the language is
explained in targets/common.expect) and counts exact, truncated and wrong ones.
"""

import glob
import os
import re
import shlex
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
COMMON = os.path.join(HERE, "targets", "common.expect")
TRUNCATED = "[truncated]"
KERNEL = "_[k]"


CONTAINER = re.compile(r"[^/;]*/[^/;]+/[^/;]+")


def read_places(text):
    """(NAMESPACE/POD/CONTAINER or "", PROCESS, frames, count) of every line but the counters'."""
    for line in text.splitlines():
        if not line or line.startswith("# "):
            continue
        stack, _, count = line.rpartition(" ")
        place, *rest = stack.split(";")
        if not CONTAINER.fullmatch(place):
            place, rest = "", [place, *rest]
        yield place, rest[0], rest[1:], int(count)


def read_folded(text):
    """(PROCESS, [frames, outermost first], count) of every line but the counters'."""
    for _, process, frames, count in read_places(text):
        yield process, frames, count


def libc_has_symbols():
    """Is there a debug file for the C library that programs load here?"""
    for libc in glob.glob("/lib/*/libc.so.6") + glob.glob("/lib64/libc.so.6"):
        notes = subprocess.run(["readelf", "-nW", libc], stdout=subprocess.PIPE, text=True,
                               check=False).stdout
        found = re.search(r"Build ID: ([0-9a-f]+)", notes)
        if found:
            name = found.group(1)
            return os.path.exists("/usr/lib/debug/.build-id/%s/%s.debug" % (name[:2], name[2:]))
    return False


def text_symbols(path):
    """[(start, end, [names])] of an ELF file's functions, from nm."""
    by_address = {}
    listing = subprocess.run(["nm", "-S", path], stdout=subprocess.PIPE, text=True, check=True)
    for line in listing.stdout.splitlines():
        fields = line.split()
        if len(fields) == 4 and fields[2] in "tTwWiV":
            start, size = int(fields[0], 16), int(fields[1], 16)
            by_address.setdefault((start, start + size), []).append(fields[3])
    return [(start, end, names) for (start, end), names in by_address.items()]


class Expectation:
    """The allowed stacks of one program."""

    def __init__(self, path, exe, libc_symbols, twin=None):
        self.exe = os.path.basename(exe)
        self.libc_symbols = libc_symbols
        self.macros = {}
        self.chains = []
        self.needs = []
        self.kernel_only = []
        self.may_truncate = 0.0
        self.addresses = False
        self.load(COMMON)
        self.load(path)
        self.user = re.compile("|".join("(?:%s)" % chain for chain in self.chains) or "(?!)")
        self.symbols = text_symbols(twin) if self.addresses else []

    def load(self, path):
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                lexer = shlex.shlex(line, posix=True, punctuation_chars=False)
                lexer.whitespace_split, lexer.escape = True, ""
                words = list(lexer)
                if not words:
                    continue
                try:
                    self.statement(path, *words)
                except (ValueError, TypeError, re.error) as error:
                    raise ValueError("%s:%d: %s" % (path, number, error)) from error

    def statement(self, path, verb, *words):
        if verb == "chain":
            if "=>" in words:
                cut = words.index("=>")
                self.chains.append(self.prefixes(words[:cut], True) +
                                   self.prefixes(words[cut + 1:], True))
            else:
                self.chains.append(self.prefixes(words, True))
        elif verb == "let":
            self.macros[words[0]] = list(words[1:])
        elif verb == "need":
            self.needs.append((words[0], float(words[1])))
        elif verb == "kernel-only":
            self.kernel_only += [self.name_pattern(word) for word in words]
        elif verb == "include":
            self.load(os.path.join(os.path.dirname(path), words[0]))
        elif verb == "addresses":
            self.addresses = True
        elif verb == "may-truncate":
            self.may_truncate = float(words[0])
        else:
            raise ValueError("unknown statement " + verb)

    def name_pattern(self, word):
        """Regular expression of one frame's name, without quantifier."""
        if len(word) > 2 and word[0] == "/" and word[-1] == "/":
            return "(?:%s)" % re.sub(r"\.\*", "[^;]*", word[1:-1])
        names = []
        for name in word.split("|"):
            if name in self.macros:
                if len(self.macros[name]) != 1:
                    raise ValueError(name + " is more than one frame")
                names.append(self.name_pattern(self.macros[name][0]))
            elif name == "EXE":
                names.append(re.escape(self.exe) + r"\+0x[0-9a-f]+")
            elif name.startswith("~"):
                names.append(re.escape(name[1:]))
                if not self.libc_symbols:
                    names.append(r"libc\.so\.6\+0x[0-9a-f]+")
            else:
                names.append(re.escape(name))
        return "(?:%s)" % "|".join(names)

    def prefixes(self, words, first=False):
        """Regular expression of every beginning (not empty, if first) of a chain of frames."""
        if not words:
            return ""
        head, rest = words[0], list(words[1:])
        if head in self.macros and len(self.macros[head]) > 1:
            return self.prefixes(self.macros[head] + rest, first)
        bare, low, high = head, 1, 1
        is_regex = head.startswith("/") and head.endswith("/")
        repeat = re.fullmatch(r"(.+)\{(\d+)\}", head)
        if repeat and not is_regex:
            bare, low, high = repeat.group(1), int(repeat.group(2)), int(repeat.group(2))
        elif not is_regex and len(head) > 1 and head[-1] in "?*":
            bare, low, high = head[:-1], 0, 1 if head[-1] == "?" else None
        frame = self.name_pattern(bare) + ";"
        tail = self.prefixes(rest)
        if low == 0:
            pattern = "(?:%s)%s%s" % (frame, "?" if high == 1 else "*", tail)
            return pattern
        if low == 1:
            return "%s%s" % (frame, tail) if first else "(?:%s%s)?" % (frame, tail)
        whole = "(?:%s){%d}%s" % (frame, low, tail)
        part = "(?:%s){%d,%d}" % (frame, 1 if first else 0, low - 1)
        return "(?:%s|%s)" % (whole, part)

    def resolve(self, frame):
        """All names of an address of a stripped program, by its twin."""
        found = re.fullmatch(re.escape(self.exe) + r"\+0x([0-9a-f]+)", frame)
        if found:
            rva = int(found.group(1), 16)
            for start, end, names in self.symbols:
                if start <= rva < end:
                    return names[0]
        return frame

    def judge(self, frames):
        """exact, truncated or wrong."""
        if frames and frames[0] == TRUNCATED:
            return "truncated"
        user = list(frames)
        kernel = []
        while user and user[-1].endswith(KERNEL):
            kernel.append(user.pop()[:-len(KERNEL)])
        if not user:
            pattern = "|".join(self.kernel_only)
            return "exact" if any(re.fullmatch(pattern, name) for name in kernel) else "wrong"
        if self.addresses:
            user = [self.resolve(frame) for frame in user]
        return "exact" if self.user.fullmatch(";".join(user) + ";") else "wrong"


NOMINAL = 1500  # samples of a program in a recording beside 29 others


class Result:
    """The samples of one program."""

    def __init__(self, name, expectation):
        self.name = name
        self.expectation = expectation
        self.counts = {"exact": 0, "truncated": 0, "wrong": 0}
        self.bad = {}
        self.seen = dict.fromkeys((frame for frame, _ in expectation.needs), 0)

    @property
    def samples(self):
        return sum(self.counts.values())

    def percent(self, what):
        return 100.0 * self.counts[what] / max(1, self.samples)

    def add(self, frames, count):
        verdict = self.expectation.judge(frames)
        self.counts[verdict] += count
        if verdict != "exact":
            key = ";".join(frames)
            self.bad[key] = self.bad.get(key, 0) + count
        if self.expectation.addresses:
            frames = [self.expectation.resolve(frame) for frame in frames]
        for frame in self.seen:
            if frame in frames:
                self.seen[frame] += count

    def missing(self):
        """The needs that were not met, as sentences.

        A need is a share of the samples of one recording. Where in a loop of a few instructions
        interrupts land is the processor's to choose: of one program lib_tiny had 3, 23 and 42% of
        the samples in three runs on one machine. So of more samples than NOMINAL the number that
        the share of NOMINAL is will do: that many stacks were judged.
        """
        nominal = min(max(1, self.samples), NOMINAL)
        return ["%s: %s in %.1f%% of the stacks, %.0f%% expected" %
                (self.name, frame, 100.0 * self.seen[frame] / max(1, self.samples), percent)
                for frame, percent in self.expectation.needs
                if 100.0 * self.seen[frame] < percent * nominal]

    def worst(self, limit=3):
        return sorted(self.bad.items(), key=lambda item: -item[1])[:limit]


def shorten(stack, limit=600):
    return stack if len(stack) <= limit else stack[:limit // 2] + " ... " + stack[-limit // 2:]


def check(targets, folded, results=None):
    """Results by name for the targets (name, path, twin, expect) in a collapsed profile.

    With results of another profile of the same targets, what is new is added to those.
    """
    symbols = libc_has_symbols()
    results = results or {t.name: Result(t.name, Expectation(t.expect, t.path, symbols, t.twin))
                          for t in targets}
    for process, frames, count in read_folded(folded):
        if process in results:
            results[process].add(frames, count)
    return results


def table(results, worst=3):
    """The report, a line per program, the worst stacks under those that have any."""
    lines = ["%-16s %8s %8s %10s %8s" % ("program", "samples", "exact", "truncated", "wrong")]
    total = {"exact": 0, "truncated": 0, "wrong": 0}
    for result in results.values():
        lines.append("%-16s %8d %7.2f%% %9.2f%% %7.2f%%" %
                     (result.name, result.samples, result.percent("exact"),
                      result.percent("truncated"), result.percent("wrong")))
        for stack, count in result.worst(worst):
            lines.append("    %6d %s" % (count, shorten(stack)))
        for what, count in result.counts.items():
            total[what] += count
    everything = max(1, sum(total.values()))
    lines.append("%-16s %8d %7.2f%% %9.2f%% %7.2f%%" %
                 ("all", everything, *(100.0 * total[k] / everything
                                       for k in ("exact", "truncated", "wrong"))))
    return "\n".join(lines)


if __name__ == "__main__":
    import sys
    from targets.build import build

    with open(sys.argv[2], encoding="utf-8", errors="replace") as profile:
        print(table(check(build(sys.argv[1]).targets, profile.read())))
