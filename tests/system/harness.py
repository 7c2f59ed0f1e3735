# SPDX-License-Identifier: Apache-2.0
"""What the system tests share: named tests, the two ways of privilege, processes.

A test is a function with @test(); it gets a Context and passes by returning,
raises Skip(reason), or fails by check() or any other exception. Tests of a module
that says LIGHT = True use less than a fourth of a processor each and are run six at
once. Tests of one that says BESIDE = True wait most of their time: three at once, or one
beside four of the first kind. Tests of one that says PAIRED = True measure, but need no
more than one processor: they are run two at once. Of tests with one LOCK, of a module or of their own, only one runs
at a time: each of them would see what the others do.
"""

import concurrent.futures
import contextlib
import functools
import json
import multiprocessing
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BPFPROF = os.path.abspath(os.environ.get("BPFPROF") or
                          os.path.join(ROOT, os.environ.get("B", "build"), "bpfprof"))
NOBODY = 65534
# Exactly the four capabilities that the program is promised to need.
FOUR_CAPS = ["setpriv", "--bounding-set", "-all,+bpf,+perfmon,+dac_read_search,+syslog",
             "--inh-caps", "-all"]
MODES = ("root", "caps")
CAPS = ("caps",)
# Full root can do nothing that four capabilities cannot, so most tests are run with these only;
# EVERY_MODE=1 runs everything both ways.
DEFAULT = MODES if os.environ.get("EVERY_MODE") else CAPS


def no_key_twice(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice: %s" % [key for key, _ in pairs])
    return found


# All JSON that a test reads is checked: of two equal keys a reader sees only one.
json.loads = functools.partial(json.loads, object_pairs_hook=no_key_twice)


class Skip(Exception):
    """The reason why a test could not be run here."""


class Failure(Exception):
    """A failure that a test found."""


def check(condition, text):
    if not condition:
        raise Failure(text)


class Test:
    def __init__(self, name, run, modes, lanes, lock, long):
        self.name = name
        self.run = run
        self.modes = modes
        self.lanes = lanes  # tests that run at once where this is one of them
        self.lock = lock
        self.long = long  # takes half a minute


TESTS = []
AGAIN_AT_MOST = 24  # failed tests; more is no accident
LIGHT, BESIDE, PAIRED, ALONE = 6, 3, 2, 1  # tests at once


def test(modes=DEFAULT, alone=False, paired=False, lock=None, long=False):
    """
    Registers a function; its name in the report is MODULE.FUNCTION. alone, paired: whatever its
    module says. lock: in place of its module's. long: it begins early.
    """
    def register(run):
        module, says = run.__module__.removeprefix("test_"), run.__globals__
        lanes = ALONE if alone else PAIRED if paired or says.get("PAIRED") else \
            LIGHT if says.get("LIGHT") else BESIDE if says.get("BESIDE") else ALONE
        TESTS.append(Test("%s.%s" % (module, run.__name__), run, modes, lanes,
                          lock or says.get("LOCK"), long))
        return run
    return register


class Run:
    """A finished command."""

    def __init__(self, argv, status, out, err, seconds):
        self.argv = argv
        self.status = status
        self.out = out
        self.err = err
        self.seconds = seconds

    @property
    def text(self):
        return self.out.decode("utf-8", "replace") + self.err.decode("utf-8", "replace")

    def expect(self, status):
        check(self.status == status, "exit status %s, %s expected, of: %s\n%s" %
              (self.status, status, " ".join(map(str, self.argv)), self.text[-3000:]))
        return self


class Context:
    """One test in one mode: its folder, its processes, all gone at its end."""

    def __init__(self, mode, builder):
        self.mode = mode
        self.builder = builder  # of the targets
        self.notes = []
        self.stack = contextlib.ExitStack()
        self.dir = tempfile.mkdtemp(prefix="bpfprof-test-")
        os.chmod(self.dir, 0o755)
        self.stack.callback(shutil.rmtree, self.dir, ignore_errors=True)

    def close(self):
        self.stack.close()

    def note(self, text):
        """Figures worth showing beside a pass."""
        self.notes.append(text)

    def path(self, *names):
        return os.path.join(self.dir, *names)

    def target(self, name):
        """A built target by name, or Skip with the reason why it is missing."""
        for target in self.builder.targets:
            if target.name == name:
                return target
        for skipped, reason in self.builder.skipped:
            if skipped.startswith(name):
                raise Skip("%s: %s" % (skipped, reason))
        raise Skip("no target " + name)

    def helper(self, name, source, *flags, cc="gcc"):
        """Compiles a helper program of targets/ into the folder of the targets."""
        out = self.builder.out(name)
        source = os.path.join(ROOT, "tests", "system", "targets", source)
        if not self.builder.command(out, [cc, "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra",
                                          "-fno-optimize-sibling-calls", source, *flags,
                                          "-o", out]):
            raise Skip("%s: %s" % self.builder.skipped[-1])
        return out

    def as_bpfprof(self, argv):
        """The command line that runs argv with the privileges of this mode."""
        return [*(FOUR_CAPS if self.mode == "caps" else []), *map(str, argv)]

    def start(self, *args, **kwargs):
        """Starts bpfprof with these arguments; the caller waits by finish()."""
        kwargs.setdefault("stdout", subprocess.PIPE)
        kwargs.setdefault("stderr", subprocess.PIPE)
        kwargs.setdefault("cwd", self.dir)
        kwargs.setdefault("start_new_session", True)
        process = subprocess.Popen(self.as_bpfprof([BPFPROF, *args]), **kwargs)
        process.started = time.monotonic()
        self.stack.callback(stop, process)
        return process

    def finish(self, process, timeout):
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            out, err = abandon(process)
            raise Failure("still running after %.0f s: %s\n%s" % (
                timeout, " ".join(process.args),
                (out + err).decode("utf-8", "replace")[-1500:])) from None
        return Run(process.args, process.returncode, out or b"", err or b"",
                   time.monotonic() - process.started)

    def bpfprof(self, *args, timeout=60, **kwargs):
        return self.finish(self.start(*args, **kwargs), timeout)

    def sampling(self, process, timeout=10):
        """Waits until a recording has begun: a BPF program of it is loaded, then a moment."""
        end = time.monotonic() + timeout
        while time.monotonic() < end and process.poll() is None:
            for pid in descendants(process.pid):
                try:
                    names = os.listdir("/proc/%d/fd" % pid)
                    links = [os.readlink("/proc/%d/fd/%s" % (pid, name)) for name in names]
                except OSError:
                    continue
                if any("bpf_link" in link or "perf_event" in link for link in links):
                    time.sleep(0.5)
                    return
            time.sleep(0.05)

    def spawn(self, argv, env=None, plain=False, **kwargs):
        """
        Starts a target. In the mode of four capabilities it belongs to another user
        and cannot be dumped (unless plain).
        """
        environment = dict(os.environ, **(env or {}))
        if self.mode == "caps" and not plain:
            environment["TARGET_NONDUMPABLE"] = "1"
            kwargs.update(user=NOBODY, group=NOBODY, extra_groups=[])
        kwargs.setdefault("stdin", subprocess.DEVNULL)
        kwargs.setdefault("stdout", subprocess.DEVNULL)
        process = subprocess.Popen(list(map(str, argv)), env=environment, **kwargs)
        self.stack.callback(stop, process)
        return process

    def scratch(self, name, mode=0o777):
        """A folder that targets of any user can write."""
        path = self.path(name)
        os.makedirs(path, exist_ok=True)
        os.chmod(path, mode)
        return path

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def text(self, name):
        return self.read(name).decode("utf-8")

    def json(self, name):
        return json.loads(self.text(name))


def descendants(pid):
    """pid and the processes below it."""
    found = [pid]
    for parent in found:
        try:
            with open("/proc/%d/task/%d/children" % (parent, parent), encoding="ascii") as file:
                found += map(int, file.read().split())
        except OSError:
            pass
    return found


def abandon(process):
    """Kills a recording that hangs, and all that it started. What it had said."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        out, err = process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        return b"", b"(it cannot even be killed)"
    return out or b"", err or b""


def stop(process):
    if process.poll() is None:
        process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=10)
    for stream in (process.stdout, process.stderr):
        if stream:
            stream.close()


def sysctl(name, value=None):
    """Reads, or writes, one; the old value is returned."""
    path = "/proc/sys/" + name.replace(".", "/")
    with open(path, encoding="ascii") as file:
        old = file.read().strip()
    if value is not None:
        with open(path, "w", encoding="ascii") as file:
            file.write(str(value))
    return old


def children_seconds():
    """Of CPU, that ended processes of a test have used."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def attempt(one, mode, builder, again=False):
    """Runs one test: its verdict and, unless that is ok, why."""
    label = "%s [%s]" % (one.name, mode)
    began, used = time.monotonic(), children_seconds()
    context = Context(mode, builder)
    verdict, why = "ok", ""
    try:
        one.run(context)
    except Skip as reason:
        verdict, why = "SKIP", str(reason)
    except Failure as failure:
        verdict, why = "FAIL", str(failure)
    except Exception as error:  # pylint: disable=broad-except
        verdict, why = "FAIL", "%s: %s\n%s" % (type(error).__name__, error, traceback.format_exc())
    finally:
        context.close()
    text = "%-5s%s (%s%.1f s, %.1f s of CPU)" % (verdict, label, "second try, " if again else "",
                                                time.monotonic() - began, children_seconds() - used)
    # Why comes first, its first line beside the name: of a long output often that line is all that is shown.
    if verdict == "FAIL":
        text += ": " + why.strip().replace("\n", "\n    ")
    for note in context.notes:
        text += "\n       " + note.replace("\n", "\n       ")
    print(text, flush=True)
    return verdict, why


def attempt_listed(number, mode, builder):
    """The same in a process of its own, which has the list, too."""
    return attempt(TESTS[number], mode, builder)


def attempt_beside(wanted, builder):
    """Runs these, as many at once as they say: verdicts and reasons by names and modes."""
    fork = multiprocessing.get_context("fork")
    # Long ones, and a lock's tests, which take long one after the other, begin first: none is left to the end alone.
    waiting = sorted(wanted, key=lambda pair: (not pair[0].long, pair[0].lock is None))
    running, results = {}, {}
    with concurrent.futures.ProcessPoolExecutor(LIGHT, mp_context=fork) as lanes:
        while waiting or running:
            held = {one.lock for one, _ in running.values()} - {None}
            room = LIGHT - sum(LIGHT // one.lanes for one, _ in running.values())
            free = next((pair for pair in waiting if pair[0].lock not in held and LIGHT // pair[0].lanes <= room), None)
            if free:
                one, mode = free
                waiting.remove(free)
                running[lanes.submit(attempt_listed, TESTS.index(one), mode, builder)] = free
                continue
            over, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in over:
                one, mode = running.pop(future)
                results[one.name, mode] = future.result()
    return results


def run_all(names, builder, lanes=(LIGHT, BESIDE, PAIRED, ALONE)):
    """Runs the registered tests that match names in every mode, of those lanes. True if none failed.

    Most of them compare what was sampled with the time that passed, and a machine that
    lends its processors to others loses time in the middle of that. A few that failed
    are therefore run once more at the end; what needed that is named.
    """
    wanted = [(one, mode) for mode in MODES for one in TESTS if mode in one.modes and one.lanes in lanes and
              (not names or any(name in "%s [%s]" % (one.name, mode) for name in names))]
    if not wanted:
        print("system: no test has a name with %s in it" % " or ".join(names))
        return False
    results = {}
    for kinds in ((LIGHT, BESIDE), (PAIRED,)):
        results.update(attempt_beside([(one, mode) for one, mode in wanted if one.lanes in kinds], builder))
    results.update({(one.name, mode): attempt(one, mode, builder)
                    for one, mode in wanted if one.lanes == ALONE})
    failed = [(one, mode) for one, mode in wanted if results[one.name, mode][0] == "FAIL"]
    again = []
    if len(failed) <= AGAIN_AT_MOST:
        for one, mode in failed:
            print("once more: %s [%s]" % (one.name, mode), flush=True)
            first = results[one.name, mode][1].strip().split("\n")[0]
            results[one.name, mode] = attempt(one, mode, builder, again=True)
            if results[one.name, mode][0] != "FAIL":
                again.append("%s [%s]: at first: %s" % (one.name, mode, first))

    def all_that(verdict):
        return ["%s [%s]%s" % (name, mode, ": " + why if verdict == "SKIP" else "")
                for (name, mode), (result, why) in results.items() if result == verdict]
    for title, lines in (("only at the second try", again), ("failed", all_that("FAIL")),
                         ("skipped", all_that("SKIP"))):
        if lines:
            print(title + ":\n    " + "\n    ".join(lines))
    print("system: %d passed, %d failed, %d skipped" % tuple(
        len(all_that(verdict)) for verdict in ("ok", "FAIL", "SKIP")))
    return not all_that("FAIL")
