# SPDX-License-Identifier: Apache-2.0
"""dump: stacks of threads that sleep, against what the programs, py-spy and gdb say of them."""

import concurrent.futures
import contextlib
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from dumps import (
    HERE, PROGRAMS, Sleeper, Watch, against_py_spy, compare, dump_json, py_spy, python_part,
    state_of, still, wait_for)
from harness import BPFPROF, MODES, Skip, check, stop, test
from test_python import all_pythons, pick, spawn

BESIDE = True
MANY = 500
AT_ONCE = 3


@test()
def frames(context):
    """
    Every way of sleeping, every Python: names, files and lines as the interpreter has them,
    and line by line what py-spy prints.
    """
    pythons, missing = all_pythons()
    sleepers, wrong, ways = [], [], 0
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        def begin(python):
            sleeper = Sleeper(context, python)
            return sleeper, sleeper.wait()
        sleepers = list(pool.map(begin, pythons))
    for sleeper, truth in sleepers:
        with Watch(sleeper.pid):
            threads, run = dump_json(context, sleeper.pid)
        check(len(truth) >= 60, "%s: only %d threads" % (sleeper.python, len(truth)))
        ways = max(ways, len(truth))
        wrong += ["%s %s" % (sleeper.python, text) for text in compare(truth, threads)]
        check(not run.err or sleeper.python.free_threaded, run.text[-1000:])
        both, run = dump_json(context, sleeper.pid, "--native")
        merged, ends = python_part(both)
        wrong += ["%s --native: %s" % (sleeper.python, text) for text in compare(truth, merged)]
        wrong += ["%s --native: ends %s" % (sleeper.python, end) for end in ends]
        if not sleeper.python.free_threaded:
            context.note(against_py_spy(context, sleeper, truth))
        sleeper.end()
    context.note("%d ways of sleeping, %d interpreters: %s" %
                 (ways, len(sleepers), ", ".join(s.python.full for s, _ in sleepers)))
    for name, reason in missing:
        context.note("not had: %s: %s" % (name, reason))
    check(not wrong, "%d threads are wrong, as:\n%s" % (len(wrong), "\n".join(wrong[:3])))


@test()
def gil_holder(context):
    """One sleeps with the GIL, the others wait for it."""
    for python in (pick((3, 8)), pick((3, 12))):
        if python.free_threaded:
            continue
        sleeper = Sleeper(context, python, "gilholder")
        truth = sleeper.wait()
        text = context.bpfprof("dump", "-p", sleeper.pid).expect(0).out.decode()
        check('\nGIL held by Thread %s "the holder"\n' % truth["holder"] in text, text)
        threads, _ = dump_json(context, sleeper.pid)
        owners = [t["os_thread_id"] for t in threads if t["owns_gil"]]
        check(owners == [int(truth["holder"])], "%s: the GIL's owners are %s" % (python, owners))
        waiting = [t for t in threads if t["thread_name"].startswith("waiter")]
        check(len(waiting) == 4, "%d threads wait" % len(waiting))
        for thread in waiting:
            check(thread["waits_for"] == "the GIL", "%s: %s waits for %s" % (
                python, thread["thread_name"], thread["waits_for"]))
        sleeper.end()


@test()
def locals_of(context):
    """Arguments and locals, as the program knows them; terminal escapes are shown as ?."""
    for python in (pick((3, 8)), pick((3, 11)), pick((3, 13))):
        sleeper = Sleeper(context, python, "variables")
        sleeper.wait()
        text = context.bpfprof("dump", "-p", sleeper.pid, "--locals").expect(0).out.decode()
        for line in ("Arguments:\n            number: -17\n            text: \"wörd\"\n",
                     "Locals:\n", "            big: 123456789012345678901234567890\n",
                     "            nothing: None\n", "            yes: True\n",
                     "            half: 0.5\n", "            several: [1, 2, \"three\"]\n",
                     "            pair: (1, None)\n", "            table: {\"a\": 1}\n"):
            check(line in text, "%s: no %r in\n%s" % (python, line, text))
        check("\x1b" not in text and "?[31mred" in text, "%s: an escape got through" % python)
        sleeper.end()


# Native stacks against gdb.

GDB_FRAME = re.compile(r"^#\d+ +(?:0x[0-9a-f]+ in )?(.*?) \(", re.M)


def gdb_stacks(pid):
    done = subprocess.run(["gdb", "-batch", "-nx", "-iex", "set debuginfod enabled off", "-iex",
                           "set debug-file-directory /nonexistent", "-ex",
                           "set pagination off", "-ex", "set backtrace past-main on", "-ex",
                           "set backtrace past-entry on", "-ex", "set print frame-arguments none",
                           "-ex", "set backtrace limit 400", "-ex", "thread apply all bt", "-p",
                           str(pid)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          stdin=subprocess.DEVNULL, timeout=60, check=False)
    stacks = {}
    for part in re.split(r"^Thread ", done.stdout.decode("utf-8", "replace"), flags=re.M)[1:]:
        tid = int(re.search(r"LWP (\d+)", part).group(1))
        lines = [line for line in part.splitlines() if line.startswith("#")]
        stacks[tid] = [plain(GDB_FRAME.match(line + " (").group(1)) for line in lines]
    return stacks


def plain(name):
    """A function's name without what gdb and we write differently: parameters, versions."""
    name = re.sub(r"\(anonymous namespace\)", "{anonymous}", name)
    name = re.sub(r"@@?[A-Z].*$", "", name)
    if name.startswith("_R"):
        name = subprocess.run(["c++filt", name], stdout=subprocess.PIPE,
                              check=True).stdout.decode().strip()
    name = re.sub(r"(::h|\[)[0-9a-f]{16}\]?", "", name)
    name = re.sub(r"\(.*$", "", name) if not name.startswith("operator") else name
    return name.strip()


@functools.lru_cache(maxsize=None)
def aliases(path):
    """Names of one file that stand for the same address."""
    same = {}
    files = [path]
    note = subprocess.run(["readelf", "-n", path], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=False).stdout.decode()
    build_id = re.search(r"Build ID: (\w\w)(\w+)", note)
    if build_id:
        files.append("/usr/lib/debug/.build-id/%s/%s.debug" % build_id.groups())
    for file in files:
        for flags in (["-D"], []):
            done = subprocess.run(["nm", *flags, file], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, check=False).stdout.decode()
            for line in done.splitlines():
                parts = line.split()
                if len(parts) == 3:
                    same.setdefault(int(parts[0], 16), set()).add(parts[2].split("@")[0])
    return {name: names for names in same.values() for name in names}


def same_function(ours, theirs, path):
    ours = plain(ours)
    # Only debug files have names for the rest, and with them gdb shows inlined calls too.
    if ours == theirs or theirs in ("??", "<signal handler called>"):
        return True
    return theirs in aliases(path).get(ours, ())


def against_gdb(context, pid, is_python=False):
    """Compares all threads; the number of frames."""
    threads, _ = dump_json(context, pid, "--native")
    stacks, frames, wrong = gdb_stacks(pid), 0, []
    check(len(stacks) == len(threads), "%d threads for gdb's %d" % (len(threads), len(stacks)))
    for thread in threads:
        mine = [f for f in thread["frames"]]
        theirs = stacks[thread["os_thread_id"]]
        if is_python:
            mine, theirs = only_native(mine, theirs)
        bad = len(mine) != len(theirs)
        for frame, name in zip(mine, theirs):
            bad |= not same_function(frame["name"], name, frame["module"])
        frames += len(mine)
        if bad:
            wrong.append("thread %d:\n  %s\nfor gdb's\n  %s" % (
                thread["os_thread_id"], [f["name"] for f in mine], theirs))
    check(not wrong, "%d threads differ, as:\n%s" % (len(wrong), "\n".join(wrong[:2])))
    return frames


def only_native(mine, theirs):
    """Without the eval loop: Python's frames stand in its place."""
    return ([f for f in mine if f["module"]],
            [n for n in theirs if not re.match(r"_?PyEval_EvalFrame(Default|Ex)?\b", n)])


@test(modes=("root",))
def as_gdb(context):
    """C, C++, Rust and Python that sleep: function by function."""
    if not shutil.which("gdb"):
        raise Skip("no gdb")
    c = context.helper("asleep", "asleep.c", "-lpthread")
    cxx = context.helper("asleep-cxx", "asleep.cpp", "-lpthread", cc="g++")
    programs = [(c, 16), (cxx, 7)]
    rust = context.builder.out("asleep-rs")
    if context.builder.command(rust, ["rustc", "-O", "-C", "strip=debuginfo",
                                              "--edition", "2021", "-o", rust, os.path.join(
            HERE, "targets", "asleep.rs")]):
        programs.append((rust, 5))
    else:
        context.note("no Rust: %s" % (context.builder.skipped[-1],))
    for program, nr in programs:
        process = context.spawn([program, "60"])
        wait_for(lambda p=process, n=nr: still(p.pid, n), program)
        frames = against_gdb(context, process.pid)
        context.note("%s: %d threads, %d frames equal" % (os.path.basename(program), nr, frames))
        stop(process)
    # A stripped one: where there is debug information gdb shows inlined calls as well.
    sleeper = Sleeper(context, pick((3, 11), "usr"))
    sleeper.wait()
    context.note("%s: %d native frames equal" % (
        sleeper.python, against_gdb(context, sleeper.pid, True)))


def strange(context, way, *args, **kwargs):
    program = context.helper("strange", "strange.c", "-lpthread")
    process = context.spawn([program, way, *args], **kwargs)
    time.sleep(0.3)
    check(process.poll() is None, "%s ended with %s" % (way, process.returncode))
    return process


@test()
def uninterruptible(context):
    """State D: its frames, and the kernel's."""
    process = strange(context, "vfork")
    check(state_of(process.pid) == "D", "it is in state %s" % state_of(process.pid))
    text = context.bpfprof("dump", "-p", process.pid, "--kernel").expect(0).out.decode()
    check(re.search(r"_\[k\]\n(.*\n)*    wait_for_child \(strange\)\n    main \(strange\)\n", text),
          text)
    check("kernel_clone_[k]" in text, text)
    subprocess.run(["pkill", "-P", str(process.pid)], check=False)


@test()
def zombies(context):
    """One that is dead: a message; a dead leader of living threads: those."""
    child = context.spawn([sys.executable, "-c", "import os, time\nprint(os.fork() or os._exit(0), "
                           "flush=True)\ntime.sleep(60)"], stdout=subprocess.PIPE, plain=True)
    pid = int(child.stdout.readline())
    wait_for(lambda: state_of(pid) == "Z", "a zombie")
    run = context.bpfprof("dump", "-p", pid).expect(4)
    check("waits for its parent (zombie)" in run.text and not run.out, run.text)
    process = strange(context, "leader")
    check(state_of(process.pid) == "Z", "the leader lives")
    text = context.bpfprof("dump", "-p", process.pid).expect(0).out.decode()
    check(text.count("\nThread ") == 1 and "    sleeper (strange)\n" in text, text)


@test()
def others(context):
    """No such process, a thread's number, a kernel thread, wrong words."""
    check("no such process" in context.bpfprof("dump", "-p", 4194000).expect(4).text, "no message")
    context.bpfprof("dump").expect(2)
    context.bpfprof("dump", "-p", "x").expect(2)
    process = strange(context, "spin")
    tids = [int(t) for t in os.listdir("/proc/%d/task" % process.pid) if int(t) != process.pid]
    check("is a thread of" in context.bpfprof("dump", "-p", tids[0]).expect(4).text, "no message")
    text = context.bpfprof("dump", "-p", 2).expect(0).out.decode()
    check("    kthreadd_[k]\n" in text, text)
    # One of several is missing: the others are dumped, and it is said.
    run = context.bpfprof("dump", "-p", 4194000, "-p", process.pid).expect(4)
    check(b"Process %d: " % process.pid in run.out, run.text)


@test()
def stopped(context):
    """By SIGSTOP: it stays so."""
    process = strange(context, "none")
    process.send_signal(signal.SIGSTOP)
    wait_for(lambda: state_of(process.pid) == "T", "stopped")
    threads, _ = dump_json(context, process.pid)
    check(threads[0]["state"] == "T" and "nap" in [f["name"] for f in threads[0]["frames"]],
          str(threads))
    check(state_of(process.pid) == "T", "it was woken")


@test()
def traced(context):
    """While strace holds it."""
    if not shutil.which("strace"):
        raise Skip("no strace")
    process = strange(context, "none")
    tracer = subprocess.Popen(["strace", "-qq", "-o", "/dev/null", "-p", str(process.pid)])
    context.stack.callback(stop, tracer)
    time.sleep(0.5)
    with open("/proc/%d/status" % process.pid, encoding="utf-8") as file:
        check("TracerPid:\t%d\n" % tracer.pid in file.read(), "strace does not hold it")
    threads, _ = dump_json(context, process.pid)
    check("nap" in [f["name"] for f in threads[0]["frames"]], str(threads))
    check(tracer.poll() is None, "strace was thrown out")


@test()
def running(context):
    """A thread that never sleeps, beside one that does."""
    process = strange(context, "spin")
    threads, _ = dump_json(context, process.pid)
    names = {tuple(f["name"] for f in t["frames"])[:1]: t for t in threads}
    check(("spinner",) in names and names[("spinner",)]["active"], str(threads))
    python = pick((3, 11))
    needs = [python.stdlib, PROGRAMS, *(a for a in python.argv if "/" in a[:1])]
    busy = spawn(context, [*python.argv, "-c", "def spin():\n    while True:\n        sum(range(99))"
                           "\n\n\nspin()"], python.environment(), needs)
    time.sleep(0.6)
    for _ in range(3):
        text = context.bpfprof("dump", "-p", busy.pid).expect(0).out.decode()
        if "[ran while it was read]" not in text:  # else no sample of it came in that short time
            break
    check(re.search(r'\nThread %d \(active\+gil\): "MainThread"\n    spin \(<string>:3\)\n    '
                    r'<module> \(<string>:6\)\n' % busy.pid, text), text)


@test()
def flutter(context):
    """Threads that never hold still are marked, and nothing breaks."""
    process = strange(context, "flutter")
    for _ in range(5):
        threads, run = dump_json(context, process.pid)
        check(len(threads) == 5, "%d threads" % len(threads))
        for thread in threads:
            names = [f["name"] for f in thread["frames"]]
            check(not thread["consistent"] or names[-1] in ("_start", "clone3", "__clone3"),
                  "%s\n%s" % (thread, run.text))


@test()
def memory_that_never_comes(context):
    """Stacks on a userfaultfd and on a file system that hangs: everything else is shown, soon."""
    process = strange(context, "missing")
    began = time.monotonic()
    threads, _ = dump_json(context, process.pid)
    check(time.monotonic() - began < 5, "it took %.1f s" % (time.monotonic() - began))
    check(len(threads) == 2 and any("nap" in [f["name"] for f in t["frames"]] for t in threads),
          str(threads))
    check(any(t["frames"][-1]["name"] == "[truncated]" for t in threads), str(threads))
    stop(process)
    hanging_file(context)


def silent_server(context, way):
    """A FUSE server with one file, that stops answering on SIGUSR1; and that file."""
    server, mount = context.helper("fuse_hang", "fuse_hang.c"), context.path("mount")
    os.mkdir(mount)
    fuse = subprocess.Popen([server, mount, BPFPROF, way], stdout=subprocess.PIPE)
    context.stack.callback(lambda: (
        fuse.kill(), fuse.wait(), fuse.stdout.close(),
        subprocess.run(["umount", "-l", mount], stderr=subprocess.DEVNULL, check=False)))
    if fuse.stdout.readline() != b"mounted\n":
        raise Skip("no FUSE file system can be mounted (exit %d)" % fuse.wait())
    return fuse, os.path.join(mount, "libhang.so")


@contextlib.contextmanager
def memory_locked(context):
    """A process whose mmap_lock is held until the end: its pid. The test is to be alone: no probes can be made meanwhile."""
    fuse, file = silent_server(context, "unanswered")
    guard = os.fork() # should a probe be made after all, this machine could not fork for ever
    if not guard:
        time.sleep(30)
        os.kill(fuse.pid, signal.SIGKILL) # not Popen.kill(): the server is no child of this process
        os._exit(0)
    process = strange(context, "locked", file, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    where = int(process.stdout.readline())
    fuse.send_signal(signal.SIGUSR1)
    time.sleep(0.2)
    # A reader that hangs in that file holds the lock, and one that wants to write waits for it.
    reader = subprocess.Popen(["dd", "if=/proc/%d/mem" % process.pid, "of=/dev/null", "bs=4096",
                               "count=1", "skip=%d" % (where // 4096 + 3)],
                              stderr=subprocess.DEVNULL)
    time.sleep(0.3)
    process.stdin.write(b"x")
    process.stdin.flush()
    time.sleep(0.3)
    try:
        yield process.pid
    finally:
        fuse.kill()
        os.kill(guard, signal.SIGKILL)
        os.waitpid(guard, 0)
        reader.kill()
        reader.wait()


@test(modes=("root",), alone=True)
def locked_memory(context):
    """Its mmap_lock is held for ever: kernel frames all the same, soon."""
    with memory_locked(context) as pid:
        began = time.monotonic()
        run = context.bpfprof("dump", "-p", pid).expect(0)
        took = time.monotonic() - began
        # Its command line lies in its memory too.
        context.bpfprof("top", "--once", "-p", pid, timeout=15).expect(0)
        context.bpfprof("record", "-d", 1, "-p", pid, "-o", "locked.folded", timeout=15).expect(0)
    context.note("it took %.2f s: %s" % (took, run.err.decode().strip()))
    check(took < 10, "it took %.1f s" % took)
    check(re.search(rb"waits in \w+\(\): something holds the lock of its memory", run.err), run.text)
    text = run.out.decode()
    check("hrtimer_nanosleep_[k]" in text and re.search(r"mmap\w*_\[k\]", text), text)


def hanging_file(context):
    fuse, file = silent_server(context, "unread")
    process = strange(context, "file", file)
    fuse.send_signal(signal.SIGUSR1)
    time.sleep(0.2)
    began = time.monotonic()
    threads, run = dump_json(context, process.pid)
    took = time.monotonic() - began
    check(took < 6, "it took %.1f s" % took)
    check("hung and were given up" in run.text, run.text)
    check(len(threads) == 2 and any("nap" in [f["name"] for f in t["frames"]] for t in threads),
          str(threads))
    context.note("a read that hangs costs %.2f s" % took)
    fuse.kill()


@test()
def many_threads(context):
    """500 threads, native and Python: all of them, and how long it takes."""
    process = strange(context, "many")
    wait_for(lambda: still(process.pid, MANY + 1), "500 threads")
    threads, _ = dump_json(context, process.pid)
    good = sum("sleeper" in [f["name"] for f in t["frames"]] for t in threads)
    check(good == MANY, "%d threads" % good)
    stop(process)
    sleeper = Sleeper(context, pick((3, 11)), "sleeps", str(MANY))
    truth = sleeper.wait()
    reading, whole = [], []
    for _ in range(5):
        run = context.bpfprof("dump", "-p", sleeper.pid, "--json", "--verbose").expect(0)
        check(not compare(truth, json.loads(run.out)), "frames are wrong")
        began = time.monotonic()
        context.bpfprof("dump", "-p", sleeper.pid).expect(0)
        whole.append(time.monotonic() - began)
        reading.append(float(re.search(r"read in ([0-9.]+) ms", run.text).group(1)))
    context.note("%d threads: read in %.0f ms, whole command %.0f ms (best of 5)" % (
        len(truth), min(reading), 1000 * min(whole)))


@test(modes=MODES)
def subprocesses(context):
    """The tree below a process, parents named."""
    python = pick((3, 11))
    needs = [python.stdlib, *(a for a in python.argv if "/" in a[:1])]
    process = spawn(context, [*python.argv, os.path.join(PROGRAMS, "family.py")],
                    python.environment(), [*needs, PROGRAMS], start_new_session=True)
    context.stack.callback(lambda: os.killpg(process.pid, signal.SIGKILL))
    time.sleep(1)
    text = context.bpfprof("dump", "-p", process.pid, "--subprocesses").expect(0).out.decode()
    check(text.count("\n    in_child (family.py:10)\n") == 2, text)
    check(text.count("\n    in_parent (family.py:15)\n") == 1, text)
    check(text.count("\nParent Process %d: " % process.pid) == 2, text)
    if context.mode == "root":
        spy = subprocess.run([py_spy(), "dump", "-p", str(process.pid), "-s"],
                             stdout=subprocess.PIPE, check=True).stdout.decode()
        rule = "\n" + "-" * 80 + "\n"  # py-spy's children have no order
        check(sorted(text.split(rule)) == sorted(spy.split(rule)), "%s\nfor\n%s" % (text, spy))
    threads, _ = dump_json(context, process.pid, "-s")
    check(len({thread["pid"] for thread in threads}) == 3, str(threads))


@test(modes=("root",))
def other_pid_namespace(context):
    """A process that knows itself by another number."""
    python = pick((3, 11))
    process = context.spawn(["unshare", "--pid", "--fork", "--mount-proc", *python.argv,
                             os.path.join(PROGRAMS, "variables.py"), context.path("truth")],
                            env=python.environment(), start_new_session=True)
    context.stack.callback(lambda: os.killpg(process.pid, signal.SIGKILL))
    wait_for(lambda: os.path.exists(context.path("truth")), "the program")
    with open("/proc/%d/task/%d/children" % (process.pid, process.pid), encoding="ascii") as file:
        pid = int(file.read().split()[0])
    text = context.bpfprof("dump", "-p", pid).expect(0).out.decode()
    check('\nThread %d (idle): "MainThread"\n    function (variables.py:' % pid in text, text)


@test(modes=("root",))
def own_pid_namespace(context):
    """bpfprof itself where processes have other numbers: sleeping ones are shown by those."""
    program = context.helper("strange", "strange.c", "-lpthread")
    done = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c",
                           "%s none & sleep 0.4; %s dump -p $! --native; kill $!" % (
                               program, BPFPROF)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=30, check=False)
    text = done.stdout.decode()
    check(re.match(r"Process 2: .*\n\nThread 2 \(idle\): \"strange\"\n(    .*\n)*    nap \(strange\)"
                   r"\n    main \(strange\)\n", text), text + done.stderr.decode())


SPIN = "def spin():\n    while True:\n        sum(range(99))\n\n\nspin()\n"


def dump_in_own_namespace(argv, env):
    """The threads of a program that runs where bpfprof does, in a pid namespace of their own."""
    script = '"$@" & sleep 0.6; echo $! >&2; %s dump -p $! --native --json; kill $!' % BPFPROF
    # Before others of the machine, so that it is on a CPU whenever it is read.
    done = subprocess.run(["nice", "-n", "-20", "unshare", "--pid", "--fork", "--mount-proc", "sh", "-c",
                           script, "sh", *argv], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          timeout=30, check=False, env=env)
    pid = int(done.stderr.decode().split()[0])
    check(done.returncode == 0, done.stderr.decode())
    threads = json.loads(done.stdout)
    check(pid < 20 and all(thread["pid"] == pid for thread in threads), "pid %d: %s" % (pid, threads))
    return threads


@test(modes=("root",))
def running_in_own_pid_namespace(context):
    """There, threads on a CPU have the stacks that samples of them have: native, and of Python."""
    python = pick((3, 11))
    spin = context.path("spin.py")
    with open(spin, "w", encoding="ascii") as file:
        file.write(SPIN)
    for argv, leaf, wanted in (
            ([context.helper("strange", "strange.c", "-lpthread"), "spin"], "spinner",
             ["spinner", "start_thread"]),
            ([*python.argv, spin], None, ["spin", "<module>"])):
        whole, tries, env = 0, 5, dict(os.environ, **python.environment())
        for _ in range(tries):
            active = [thread for thread in dump_in_own_namespace(argv, env)
                      if thread["active"]]
            check(len(active) == 1, str(active))
            names = [frame["name"] for frame in active[0]["frames"]]
            if active[0]["consistent"]:  # else no sample of it came in that short time
                check(names[0] == (leaf or names[0]) and "[truncated]" not in names and
                      [name for name in names if name in wanted] == wanted, str(names))
                whole += 1
        context.note("%s: %d of %d" % (wanted[0], whole, tries))
        check(whole > tries / 2, "only %d of %d were sampled" % (whole, tries))


@test(modes=("root",))
def not_another_process(context):
    """There, samples are not those of whatever process the node gave the number to."""
    outputs = {}
    for command in ("record -d 1 --format folded -o -", "top --once"):
        done = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "sh", "-c",
                               "yes >/dev/null & %s %s -p $!; s=$?; kill $!; exit $s" % (
                                   BPFPROF, command)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=30, check=False)
        check(done.returncode == 0, "%s: %d %s" % (command, done.returncode, done.stderr.decode()))
        outputs[command.split()[0]] = done.stdout.decode()
    names = {line.split(";")[0] for line in outputs["record"].splitlines()
             if not line.startswith("# ")}
    check(names == {"yes"}, "samples of %s" % names)
    check("yes" in outputs["top"] and "%Own" in outputs["top"], outputs["top"][:500])


@test()
def dies_meanwhile(context):
    """Targets that end while they are read: what was read, or a message; never a crash."""
    statuses, cut = set(), 0
    for delay in range(16):
        process = strange(context, "many")
        dump = context.start("dump", "-p", process.pid, "--native")
        time.sleep(0.015 * delay)
        process.kill()
        run = context.finish(dump, 30)
        check(run.status in (0, 4), "exit status %d: %s" % (run.status, run.text[-500:]))
        check(run.status or run.out.startswith(b"Process "), "no output")
        cut += "the process ended during the dump" in run.text
        statuses.add(run.status)
        process.wait()
    context.note("exit statuses %s, %d cut short" % (sorted(statuses), cut))


@test()
def no_ptrace(context):
    """The system calls of a dump: nothing that needs ptrace rights; only standard output."""
    if not shutil.which("strace"):
        raise Skip("no strace")
    process = strange(context, "none")
    log = context.path("trace")
    done = subprocess.run(["strace", "-f", "-qq", "-o", log, *context.as_bpfprof(
        [BPFPROF, "dump", "-p", process.pid, "--native", "--kernel"])], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60, check=False)
    check(done.returncode == 0, done.stderr.decode()[-1000:])
    with open(log, encoding="utf-8", errors="replace") as file:
        text = file.read()
    for call in ("ptrace(", "process_vm_readv(", "setns(", "pidfd_getfd(", "/mem\"", "/exe\""):
        check(call not in text, "%s was called" % call)
    opened = re.findall(r'openat\([^\n]*O_(?:WRONLY|RDWR|CREAT)[^\n]*', text)
    check(not [line for line in opened if " = -1" not in line], "files were written: %s" % opened)
    check("%d/" % process.pid in text and "SIGSTOP" not in text, "the target was stopped")
