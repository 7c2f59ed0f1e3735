# SPDX-License-Identifier: Apache-2.0
"""The CPython that a process runs if its mappings show several, and the file that it executes."""

import os
import re
import shutil
import subprocess
import time

import python_truth as truth
from dumps import PROGRAMS, py_spy
from harness import Failure, Skip, check, test
from test_python import all_pythons, spawn

BESIDE = True
HZ = 499
VERSIONS = ((3, 10), (3, 12), (3, 13))
# One function calls another, which works, for ever.
SPIN = """
def inner_%(name)s():
    total = 0
    for i in range(20000):
        total += i
def outer_%(name)s():
    while True:
        inner_%(name)s()
open(%(ready)r, "w").close()
outer_%(name)s()
"""
CALLS = """
import ctypes, os
nested = ctypes.CFUNCTYPE(None)(int(os.environ["NESTED"]))
def outer_%(name)s():
    nested()
outer_%(name)s()
"""


def library_of(python):
    """Its libpython, or None."""
    path = python.ask("import os, sysconfig; print(os.path.join(sysconfig.get_config_var('LIBDIR'),"
                      "sysconfig.get_config_var('INSTSONAME') or ''))")
    return path if ".so" in path and os.path.isfile(path) else None


def with_library():
    """The interpreters of VERSIONS that have one, by version."""
    found = {}
    for python in all_pythons()[0]:
        if python.version in VERSIONS and python.version not in found and not python.free_threaded:
            library = library_of(python)
            if library:
                found[python.version] = (python, library)
    if not found:
        raise Skip("no Python with a libpython here")
    return found


def wait_ready(process, *paths):
    end = time.monotonic() + 60
    while not all(map(os.path.exists, paths)):
        check(process.poll() is None, "the target ended: %s" % process.poll())
        check(time.monotonic() < end, "the target does not get ready")
        time.sleep(0.05)
    time.sleep(0.3)


def names(frames):
    """The functions of its Python frames, and marks."""
    return [frame.split(" (")[0] for frame in frames if " (" in frame or frame.startswith("[")]


def share(context, process, wanted, least=50):
    """Of the samples of a process, in which the Python frames begin as one of wanted does."""
    good, total, bad, end = 0, 0, {}, time.monotonic() + 120
    while total < least and time.monotonic() < end:  # the machine may have little time for it
        context.bpfprof("record", "-p", process.pid, "-F", HZ, "-d", "1", "-o",
                        "which.folded").expect(0)
        for frames, count in truth.read_folded(context.text("which.folded")):
            found = names(frames)
            total += count
            if any(found[:len(one)] == one for one in wanted):
                good += count
            else:
                bad[tuple(found)] = bad.get(tuple(found), 0) + count
    check(total >= least and good >= 0.98 * total, "%d of %d samples: %s" % (
        good, total, sorted(bad.items(), key=lambda one: -one[1])[:3]))
    return good, total


def dumped(context, process):
    return dumped_with(context, process)


def dumped_with(context, process, *flags):
    """(version, executable, {thread: names of its functions, innermost first}, messages)"""
    run = context.bpfprof("dump", "-p", process.pid, *flags).expect(0)
    text = run.out.decode()
    head = re.search(r"^Python v(.*) \((.*)\)$", text, re.M)
    threads = {}
    for line in text.splitlines():
        if line.startswith("Thread "):
            current = threads.setdefault(int(line.split()[1]), [])
        elif line.startswith("    "):
            current.append(line.split(" (")[0].strip())
    return (head.group(1) if head else None, head.group(2) if head else None, threads,
            run.err.decode())


def start_mapped(context, python, how, library, argv=()):
    ready = os.path.join(context.scratch("ready"), "%s-%s" % (how, python.name))
    process = spawn(context, [*argv, *python.argv, os.path.join(PROGRAMS, "mapped_again.py"), how,
                              library], python.environment({"READY": ready}),
                    [python.stdlib, PROGRAMS, python.argv[0], library])
    wait_ready(process, ready)
    return process


@test()
def mapped_again(context):
    """A page of the interpreter's code, all of it, a second copy of it: one runs, and it is shown."""
    for python, library in with_library().values():
        for how in ("page", "whole", "again", "many", "lies"):
            process = start_mapped(context, python, how, library)
            good, total = share(context, process, [["<module>", "outer"]])
            version, _, threads, said = dumped(context, process)
            check(version == python.full, "%s: %r is no version" % (python, version))
            check([one[-2:] for one in threads.values()] == [["outer", "<module>"]],
                  "%s, %s: %s" % (python, how, threads))
            check(("more places where a Python may run" in said) == (how == "many"), said)
            context.note("%s %s %d of %d" % (python.name, how, good, total))
            process.kill()


@test()
def loaded_beside(context):
    """The interpreter that runs is the executable itself, or another than the one that was loaded."""
    libraries = with_library()
    for python in [*all_pythons()[0]]:
        if python.version not in VERSIONS and not python.name.endswith("-usr"):
            continue
        for version, (_, library) in libraries.items():
            if version == python.version or python.free_threaded:
                continue
            process = start_mapped(context, python, "loaded", library)
            good, total = share(context, process, [["<module>", "outer"]])
            found, _, threads, _ = dumped(context, process)
            check(found == python.full and
                  [one[-2:] for one in threads.values()] == [["outer", "<module>"]],
                  "%s beside %s: %s, %s" % (python, library, found, threads))
            context.note("%s+%s %d of %d" % (python.name, "%d.%d" % version, good, total))
            process.kill()


def start_two(context, how, first, second):
    (python, library), (other, other_library) = first, second
    ready = [os.path.join(context.scratch("ready"), "%s-%s-%s-%d" % (how, python.name, other.name,
                                                                    i)) for i in range(2)]
    codes = [SPIN % {"name": "ab"[i], "ready": ready[i]} for i in range(2)]
    if how == "nested":
        codes[0] = CALLS % {"name": "a"}
        ready = ready[1:]
    program = context.helper("two_pythons", "two_pythons.c", "-ldl", "-lpthread")
    process = spawn(context, [program, how, library, codes[0], other_library, codes[1]],
                    {"READY": ready[0], "PYTHONDONTWRITEBYTECODE": "1"},
                    [library, other_library, python.stdlib, other.stdlib])
    if how != "idle":
        wait_ready(process, *ready)
    return process, program


def pairs():
    """Each version with itself and with the next one, the other way round too."""
    found = list(with_library().values())
    for i, one in enumerate(found):
        for other in [one] + found[i + 1:i + 2]:
            yield one, other
            if other is not one:
                yield other, one


def both_versions(one, other):
    return one[0].full if one == other else "%s, %s" % (one[0].full, other[0].full)


@test()
def two_run(context):
    """Two of them, of the same version or of different ones, each in a thread of its own."""
    for one, other in pairs():
        process, program = start_two(context, "threads", one, other)
        good, total = share(context, process, [["<module>", "outer_a"], ["<module>", "outer_b"]])
        version, executable, threads, _ = dumped(context, process)
        check(sorted(found[-2:] for found in threads.values()) == [["outer_a", "<module>"],
                                                                   ["outer_b", "<module>"]],
              "%s, %s: %s" % (one, other, threads))
        check(set(version.split(", ")) == {one[0].full, other[0].full}, version)
        check(executable == program, executable)
        context.note("%s+%s %d of %d" % (one[0].name, other[0].name, good, total))
        process.kill()


@test()
def one_in_another(context):
    """A thread whose Python calls C code that runs another Python: one stack, or a mark."""
    chain = ["<module>", "outer_a", "<module>", "outer_b"]
    for one, other in pairs():
        mixed = (one[0].version < (3, 11)) != (other[0].version < (3, 11))
        process, _ = start_two(context, "nested", one, other)
        if mixed:
            context.bpfprof("record", "-p", process.pid, "-F", HZ, "-d", "1", "-o",
                            "mixed.folded").expect(0)
            stacks = truth.read_folded(context.text("mixed.folded"))
            for frames, _ in stacks:
                check("[unmerged]" in frames or names(frames)[:4] == chain, str(frames))
        else:
            good, total = share(context, process, [chain])
            context.note("%s>%s %d of %d" % (one[0].name, other[0].name, good, total))
        version, _, threads, _ = dumped(context, process)
        check(version == both_versions(one, other), "%s" % version)
        main = [name for name in threads[process.pid] if not name.startswith("[")]
        check(main[-4:] == chain[::-1] and len(threads) == 1, "%s" % threads)
        process.kill()


@test()
def none_runs(context):
    """Libraries that are loaded and not used: no Python is claimed, and that is said."""
    found = list(with_library().values())
    process, _ = start_two(context, "idle", found[0], found[-1])
    end = time.monotonic() + 60
    while time.monotonic() < end:
        version, _, threads, said = dumped(context, process)
        if "is only loaded" in said:
            break
        time.sleep(0.2)
    check(version is None and "no Python runs in it" in said, "%s: %s" % (version, said))
    check(any("pause" in name for name in threads[process.pid]), "%s" % threads)


@test()
def executable(context):
    """The program, with other code below its own; not the loader, where that was executed to start it."""
    loader = "/lib64/ld-linux-x86-64.so.2"
    for python, library in with_library().values():
        for how, argv in (("none", ()), ("below", ()), ("none", (loader,))):
            if argv and not os.path.exists(loader):
                continue
            process = start_mapped(context, python, how, library, argv)
            real = os.readlink("/proc/%d/exe" % process.pid)
            _, found, _, _ = dumped(context, process)
            if argv:
                found, real = os.path.realpath(found), os.path.realpath(python.argv[0])
            check(found == real, "%s for %s" % (found, real))
            process.kill()
    try:  # one that was started as usual and has no Python
        process = context.spawn(["sleep", "60"])
        time.sleep(0.2)
        said = context.bpfprof("dump", "-p", process.pid, "--json").expect(0).out.decode()
    except subprocess.SubprocessError as error:
        raise Failure(str(error)) from error
    check('"active": false' in said, said[:300])


def start_gil_users(context, python, library):
    ready = os.path.join(context.scratch("ready"), "users-" + python.name)
    code = "import time; open(%r, 'w').close(); exec('def rest(): time.sleep(1000)'); rest()" % ready
    program = context.helper("gil_users", "gil_users.c", "-ldl", "-lpthread")
    process = spawn(context, [program, library, code], {"PYTHONDONTWRITEBYTECODE": "1"},
                    [library, python.stdlib])
    wait_ready(process, ready)
    return process


@test()
def header_alone(context):
    """A thread that Python knows and that runs no Python is named, and no more, as in py-spy."""
    for python, library in with_library().values():
        process = start_gil_users(context, python, library)
        run = context.bpfprof("dump", "-p", process.pid).expect(0)
        text = run.out.decode()
        _, _, threads, _ = dumped(context, process)
        check(list(threads.values()) == [[], [], ["rest", "<module>"]], text)
        _, _, native, _ = dumped_with(context, process, "--native")
        check(len(native) == 4 and all(any("pause" in name for name in names_) or
                                       "rest" in names_ for names_ in native.values()), str(native))
        _, _, kernel, _ = dumped_with(context, process, "--kernel")
        check(all(any(name.endswith("_[k]") for name in names_) for names_ in kernel.values()),
              str(kernel))
        if context.mode == "root":
            spy = subprocess.run([py_spy(), "dump", "-p", str(process.pid)],
                                 stdout=subprocess.PIPE, check=False)
            check(spy.returncode or spy.stdout.decode() == text, "%s\nfor\n%s" % (
                text, spy.stdout.decode()))
            context.note("%s: %s" % (python, "all bytes are py-spy's" if not spy.returncode else
                                     "py-spy fails"))
        process.kill()


@test()
def other_pythons(context):
    """Other interpreters are reported by name; a program of another name does not count as one."""
    for name, what in (("pypy3.10", "PyPy"), ("micropython", "MicroPython"), ("pypyrus", None)):
        path = os.path.join(context.scratch("others"), name)
        shutil.copy(shutil.which("sleep"), path)
        os.chmod(path, 0o755)
        process = context.spawn([path, "60"])
        time.sleep(0.3)
        version, _, threads, said = dumped(context, process)
        check(version is None and threads[process.pid], "%s" % threads)
        check(("it runs %s, not CPython" % what in said) if what else "not CPython" not in said,
              "%s: %s" % (name, said))
        doctor = context.bpfprof("doctor", "--pid", process.pid).out.decode()
        check(("%s, not CPython" % what in doctor) if what else "not CPython" not in doctor, doctor)


@test()
def doctor_names_all(context):
    """Each mapped version is reported once."""
    python, library = next(iter(with_library().values()))
    process = start_mapped(context, python, "again", library)
    doctor = context.bpfprof("doctor", "--pid", process.pid).out.decode()
    check(doctor.count("%d.%d: frames are named" % python.version) == 1, doctor)
