# SPDX-License-Identifier: Apache-2.0
"""watch: why processes die. The programs of targets/deaths.c die in known ways, at known places."""

import glob
import os
import re
import resource
import secrets
import shutil
import signal
import subprocess
import sys
import time

import containers
import pythons
from daemons import Daemon, ask, get, metrics_of, profiles, token_file
from harness import CAPS, Skip, check, test
from test_memory import MIB, cgroup

BESIDE = True
FOLDER = re.compile(r"^death-\d{8}T\d{6}Z-([A-Za-z0-9._-]+)-(\d+)(-\d+)?$")
CHAIN = ["middle", "outer", "main"]


class Watch:
    """A running watch; its deaths once it has ended."""

    def __init__(self, context, *args):
        self.context = context
        self.output = context.path("deaths")
        self.log_path = context.path("watch.log")
        with open(self.log_path, "wb") as log:
            self.process = context.start("watch", "-o", self.output, *args, stderr=log)
        self.wait("watching")

    def log(self):
        with open(self.log_path, encoding="utf-8") as file:
            return file.read()

    def wait(self, text, timeout=30):
        end = time.monotonic() + timeout
        while text not in self.log():
            check(self.process.poll() is None and time.monotonic() < end, "no '%s': %s" % (text, self.log()))
            time.sleep(0.02)

    def end(self, stop=True):
        """The lines of standard output, and the summaries by pid."""
        if stop:
            time.sleep(0.5)
            self.process.send_signal(signal.SIGINT)
        done = self.context.finish(self.process, 30).expect(0)
        self.lines = done.out.decode("utf-8").splitlines()
        self.summaries = {}
        for path in glob.glob(os.path.join(self.output, "*")):
            name = FOLDER.match(os.path.basename(path))
            check(name, path)
            with open(os.path.join(path, "summary.txt"), encoding="utf-8") as file:
                self.summaries.setdefault(int(name.group(2)), []).append(file.read())
        check(sorted(line + "." for line in self.lines) ==
              sorted(text.split("\n", 1)[0] for texts in self.summaries.values() for text in texts),
              "printed %s, written %s" % (self.lines, self.summaries))
        return self

    def only(self, pid):
        check(set(self.summaries) == {pid} and len(self.summaries[pid]) == 1, "%s %s" % (self.summaries, self.log()))
        return self.summaries[pid][0]

    def counted(self):
        found = re.search(r"(\d+) deaths, (\d+) ends in order(.*)", self.log())
        check(found and not found.group(3), self.log().rstrip("\n").rpartition("\n")[2])
        return int(found.group(1)), int(found.group(2))


def stacks(text):
    """{head of a stack: its frames} of a summary."""
    found = {}
    for part in text.split("\n\n")[2:]:
        head, *frames = part.rstrip("\n").split("\n")
        found[head] = [frame.strip() for frame in frames]
    return found


def functions(frames):
    return [frame.split(" (")[0] for frame in frames]


def dies(context, way, *args, **kwargs):
    return context.spawn([context.helper("deaths", "deaths.c", "-pthread", "-DTARGET_MAIN"), way, *args],
                         stdin=subprocess.PIPE, **kwargs)


def go(process):
    process.stdin.write(b"\n")
    process.stdin.flush()


def one_death(context, way, **kwargs):
    """Its process and summary."""
    process = dies(context, way, **kwargs)
    watch = Watch(context, "-p", process.pid)
    go(process)
    process.wait(20)
    watch.wait("all watched")
    text = watch.end(stop=False).only(process.pid)
    check(watch.counted() == (1, 0), watch.log())
    return process, text


def known_chain(frames, leaf):
    """The functions of the stack of a death, to the end."""
    names = functions(frames)
    at = names.index(leaf)
    check(names[at:at + 4] == [leaf, *CHAIN] and names[-1] == "_start", "%s" % frames)


@test()
def signals(context):
    """Each deadly signal: its name, the function, the whole stack."""
    ways = {"segv": "SEGV", "bus": "BUS", "abort": "ABRT", "fpe": "FPE", "ill": "ILL", "trap": "TRAP"}
    processes = {name: dies(context, name) for name in ways}
    watch = Watch(context, *(word for one in processes.values() for word in ("-p", one.pid)))
    for process in processes.values():
        go(process)
    for process in processes.values():
        process.wait(20)
    watch.wait("all watched")
    watch.end(stop=False)
    for name, process in processes.items():
        check(process.returncode == -signal.Signals["SIG" + ways[name]], "%s: %s" % (name, process.returncode))
        [text] = watch.summaries[process.pid]
        leaf = name + "_here"
        check(text.startswith("deaths (pid %d) died of SIG%s in %s (deaths).\n" % (process.pid, ways[name], leaf)), text)
        [(head, frames)] = stacks(text).items()
        check(re.match(r'Thread %d "deaths" took SIG%s' % (process.pid, ways[name]), head), head)
        known_chain(frames, leaf)
        if name == "segv":
            check(" at address 0x10," in head, head)
    check(watch.counted() == (len(ways), 0), watch.log())


@test()
def in_a_thread(context):
    """The thread that dies is shown, by its number and name."""
    process, text = one_death(context, "thread-fpe")
    [(head, frames)] = stacks(text).items()
    found = re.match(r'Thread (\d+) "loader" took SIGFPE', head)
    check(found and int(found.group(1)) != process.pid, head)
    check(functions(frames)[:4] == ["fpe_here", "middle", "outer", "thread"], "%s" % frames)


@test()
def overflow(context):
    """A recursion without end: the summary is short, and says how often."""
    process, text = one_death(context, "deep")
    check(text.startswith("deaths (pid %d) died of SIGSEGV in deeper (deaths).\n" % process.pid), text)
    [frames] = stacks(text).values()
    more = re.match(r"\.\.\. (\d+) more of it$", frames[-2])
    check(set(frames[:-2]) == {"deeper (deaths)"} and frames[-1] == "[truncated]" and more and int(more.group(1)) > 400, text)


@test()
def raised_again(context):
    """A handler on its own stack raises the signal again: the first stack names the place, the last one follows."""
    process, text = one_death(context, "raise-segv")
    check(text.startswith("deaths (pid %d) died of SIGSEGV in segv_here (deaths).\n" % process.pid), text)
    first, last = stacks(text).items()
    check("first took SIGSEGV" in first[0] and "has a handler" in first[0], first[0])
    known_chain(first[1], "segv_here")
    check("handler" not in last[0] and "raise_again" in functions(last[1]), "%s %s" % last)
    check(last[1][-1] == "... the first stack, as above", "%s %s" % last)


@test()
def lives_on(context):
    """A program that handles signals ends in order; its stacks are bounded by rate."""
    process = dies(context, "handled")
    watch = Watch(context, "-p", process.pid)
    go(process)
    check(process.wait(20) == 0, "it died")
    watch.wait("all watched")
    watch.end(stop=False)
    check(not watch.summaries and watch.counted() == (0, 1), watch.log())


def killer(context, number, pid):
    """Another process than the parent sends the signal; its pid."""
    process = subprocess.Popen([sys.executable, "-c", "import os, sys; os.kill(%d, %d)" % (pid, number)],
                               stdout=subprocess.DEVNULL)
    process.wait()
    return process.pid


@test()
def killed(context):
    """By another process: the name and pid of the killer, and where the first thread was."""
    for way, number in (("wait", signal.SIGKILL), ("spin", signal.SIGTERM)):
        process = dies(context, way)
        watch = Watch(context, "-p", process.pid)
        go(process)
        time.sleep(0.3)
        by = killer(context, number, process.pid)
        process.wait(20)
        watch.wait("all watched")
        text = watch.end(stop=False).only(process.pid)
        check(re.match(r"deaths \(pid %d\) was killed with %s by python3\S* \(pid %d\), while in %s_here \(deaths\)\.\n" %
                       (process.pid, number.name, by, way), text), text)
        known_chain(*[(frames, way + "_here") for frames in stacks(text).values()][0])
        shutil.rmtree(watch.output)


@test()
def asked_and_left(context):
    """A stranger's SIGTERM that a handler turns into an exit code is still the stranger's doing."""
    process = dies(context, "leave")
    watch = Watch(context, "-p", process.pid)
    go(process)
    time.sleep(0.3)
    by = killer(context, signal.SIGTERM, process.pid)
    process.wait(20)
    watch.wait("all watched")
    text = watch.end(stop=False).only(process.pid)
    check(re.match(r"deaths \(pid %d\) exited with code 7 after SIGTERM by python3\S* \(pid %d\)" % (process.pid, by), text), text)


@test()
def in_order(context):
    """Exit code 0, and ends by the parent: no deaths. A tool's exit code is its parent's affair."""
    done, helper, terminated, shot = (dies(context, way) for way in ("done", "helper", "wait", "spin"))
    every = (done, helper, terminated, shot)
    strangers = [context.spawn(["cat"], stdin=subprocess.PIPE) for _ in range(50)]
    watch = Watch(context, *(word for one in every for word in ("-p", one.pid)))
    for process in every:
        go(process)
    for stranger in strangers:
        stranger.communicate()
    time.sleep(2)  # each second the watch looks at which processes still run
    terminated.terminate()
    shot.kill()
    statuses = [process.wait(20) for process in every]
    check(statuses == [0, 0, -signal.SIGTERM, -signal.SIGKILL], "%s" % statuses)
    watch.wait("all watched")
    watch.end(stop=False)
    check(not watch.summaries and watch.counted() == (0, 5), "%s %s" % (watch.summaries, watch.log()))


@test()
def of_subshells(context):
    """A shell that starts a job reads the exit codes of its tools, those of its subshells too."""
    process = context.spawn(["sh", "-c", "read _; for n in 1 2 3 4; do _=$(readlink /nowhere; true); done; exit 3"],
                            stdin=subprocess.PIPE)
    watch = Watch(context, "-p", process.pid)
    go(process)
    check(process.wait(20) == 3, "status")
    watch.wait("all watched")
    text = watch.end(stop=False).only(process.pid)
    check(re.match(r"sh \(pid %d\) exited with code 3" % process.pid, text), text)


@test()
def exit_code(context):
    process, text = one_death(context, "exit")
    check(re.match(r"deaths \(pid %d\) exited with code 3" % process.pid, text), text)


@test()
def of_new_workers(context):
    """A Ray worker that has no title yet ends in order with exit code 1, and with no other one."""
    script = os.path.join(context.dir, "ray", "_private", "workers", "default_worker.py")
    os.makedirs(os.path.dirname(script))
    with open(script, "w", encoding="ascii") as file:
        file.write("import sys\nsys.stdin.readline()\nsys.exit(int(sys.argv[1]))\n")
    workers = {code: context.spawn(["/usr/bin/python3", script, str(code)], stdin=subprocess.PIPE) for code in (1, 3)}
    watch = Watch(context, *(word for worker in workers.values() for word in ("-p", worker.pid)))
    for worker in workers.values():
        go(worker)
    watch.wait("all watched")
    watch.end(stop=False).only(workers[3].pid)
    check(watch.counted() == (1, 1), watch.log())


@test()
def by_name(context):
    """--comm: also a program that starts later, and none of another name."""
    name = shutil.copy(context.helper("deaths", "deaths.c", "-pthread", "-DTARGET_MAIN"),
                       os.path.join(context.scratch("bin"), "dies-%d" % os.getpid()))
    watch = Watch(context, "--comm", "dies-%d" % os.getpid())
    process = context.spawn([name, "segv"], stdin=subprocess.PIPE)
    time.sleep(0.5)
    go(process)
    other = context.spawn(["/usr/bin/python3", "-c", "import os; os.abort()"])
    process.wait(20)
    other.wait(20)
    text = watch.end().only(process.pid)
    check(text.startswith("{0} (pid {1}) died of SIGSEGV in segv_here ({0}).".format(os.path.basename(name), process.pid)), text)
    known_chain(*[(frames, "segv_here") for frames in stacks(text).values()][0])


@test(modes=("root",))
def out_of_memory(context):
    """The OOM killer of a cgroup: its limit and use."""
    with cgroup(64 * MIB) as folder:
        process = context.spawn([sys.executable, "-c", """
import sys
def hoard(kept):
    while True:
        kept.append(bytearray(1 << 20))
sys.stdin.readline()
hoard([])
"""], stdin=subprocess.PIPE)
        with open(os.path.join(folder, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(process.pid))
        watch = Watch(context, "-p", process.pid)
        go(process)
        check(process.wait(20) == -signal.SIGKILL, "it lives on")
        watch.wait("all watched")
    text = watch.end(stop=False).only(process.pid)
    check(re.match(r"python3\S* \(pid %d\) was killed by the kernel: cgroup limit 64 MiB, used 6[34](\.\d+)? MiB" %
                   process.pid, text), text)
    context.note(text.split("\n", 1)[0])


@test(modes=CAPS, lock="pods")
def in_a_pod(context):
    """A death has the names of its pod; the end of the pod, and of all that is left in it, is none."""
    namespace = "ml-" + secrets.token_hex(3)
    containerd = containers.start(context)
    layer = containers.base_layer()
    layer.program(context.helper("deaths", "deaths.c", "-pthread", "-DTARGET_MAIN"), "/app/deaths")
    box = containerd.run(containerd.image("deaths", [layer]), ["/app/deaths", "leave"], pod=containers.Pod("dies-0", namespace))
    box.execute("/app/deaths", "wait")
    watch = Watch(context, "--pod", namespace + "/dies-*")
    box.ask("/app/deaths", "segv", env={"DEATHS_DELAY": "2"})
    containerd.ctr("tasks", "kill", "--signal", "SIGTERM", box.id)
    wait_for(lambda: not box.alive(), "the end of the pod")
    watch.end()
    check(len(watch.summaries) == 1, "%s" % watch.summaries)
    [(pid, [text])] = watch.summaries.items()
    check(text.startswith("deaths (pid %d, %s/dies-0/ray-worker) died of SIGSEGV in segv_here (deaths).\n" % (pid, namespace)), text)
    check(re.search(r"^process .*, pid \d+ in its container$", text, re.MULTILINE), text)
    check(re.search(r"^pod +dies-0$", text, re.MULTILINE), text)
    known_chain(*[(frames, "segv_here") for frames in stacks(text).values()][0])
    deaths, ends = watch.counted()
    check(deaths == 1 and ends >= 2, watch.log())
    context.note(text.split("\n", 1)[0])


PYTHON = """
import ctypes, faulthandler, os, sys
def augment(how):
    if how == "string":
        ctypes.string_at(0)
    os.abort()
def load(how):
    augment(how)
if sys.argv[2] == "on":
    faulthandler.enable()
sys.stdin.readline()
load(sys.argv[1])
"""


@test(long=True)
def python(context):
    """A fault inside of a C function, and abort(), in each version, with faulthandler and without."""
    path = context.path("train.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(PYTHON)
    every, seen = {}, 0
    for one in pythons.installed():
        for how, name, line in (("string", "SEGV", 5), ("abort", "ABRT", 6)):
            for handler in ("on", "off"):
                process = context.spawn([*one.argv, path, how, handler], env=one.environment(), plain=True,
                                        stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
                every[process.pid] = (process, one, how, name, line, handler)
    check(every, "no Python")
    time.sleep(2)
    watch = Watch(context, *(word for pid in every for word in ("-p", pid)))
    for process, *_ in every.values():
        go(process)
        process.wait(30)
    watch.wait("all watched")
    watch.end(stop=False)
    for pid, (process, one, how, name, line, handler) in every.items():
        check(process.returncode == -signal.Signals["SIG" + name], "%s: %s" % (one, process.returncode))
        [text] = watch.summaries[pid]
        check(text.startswith("train.py (pid %d) died of SIG%s in augment (train.py:%d).\n" % (pid, name, line)), "%s %s" % (one, text))
        parts = list(stacks(text).items())
        check(("first took" in parts[0][0]) == (handler == "on"), "%s %s: %s" % (one, handler, text))
        frames = parts[0][1]
        own = [frame for frame in frames if "(train.py:" in frame]
        check(own == ["augment (train.py:%d)" % line, "load (train.py:8)", "<module> (train.py:12)"], "%s: %s" % (one, text))
        if handler == "on":
            check(parts[1][1][-1] == "... the first stack, as above", "%s: %s" % (one, text))
        check(functions(frames)[-1] == "_start", "%s: %s" % (one, text))
        seen += 1
    context.note("%d deaths of %s" % (seen, " ".join(sorted({one.name for _, one, *_ in every.values()}))))


def stack_of_gdb(program, core):
    done = subprocess.run(["gdb", "-batch", "-nx", "-ex", "bt", program, core], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True, check=True)
    return [found.group(1) for found in re.finditer(r"^#\d+\s+(?:0x[0-9a-f]+ in )?([\w.]+) \(", done.stdout, re.MULTILINE)]


@test(modes=CAPS)
def as_gdb(context):
    """The functions are those that gdb shows for the core file of the same death."""
    if not shutil.which("gdb"):
        raise Skip("no gdb")
    with open("/proc/sys/kernel/core_pattern", encoding="ascii") as file:
        if file.read().strip() != "core":
            raise Skip("core files go elsewhere")
    folder = context.scratch("cores")
    process = dies(context, "abort", plain=True, cwd=folder, preexec_fn=lambda: resource.setrlimit(
        resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)))
    watch = Watch(context, "-p", process.pid)
    go(process)
    process.wait(20)
    watch.wait("all watched")
    text = watch.end(stop=False).only(process.pid)
    check("SIGABRT, with a core file" in text, text)
    [core] = glob.glob(os.path.join(folder, "core*"))
    theirs = stack_of_gdb(context.helper("deaths", "deaths.c", "-pthread", "-DTARGET_MAIN"), core)
    ours = functions(list(stacks(text).values())[0])
    at = ours.index("abort_here")
    check(theirs[-4:] == ["abort_here", *CHAIN] and ours[at:at + 4] == theirs[-4:], "%s %s" % (ours, theirs))
    # Of the C library gdb also shows functions that were inlined, and other names of the same functions.
    inner = iter(name.removeprefix("__GI_") for name in theirs[:-4])
    check(at == 3 and all(name in inner for name in ours[:at]), "%s %s" % (ours, theirs))
    context.note("%s" % ours[:at + 4])


@test(long=True)
def brood(context):
    """500 processes die at once: each is counted, and as many as have room are written."""
    process = dies(context, "brood", 500, stdout=subprocess.PIPE)
    process.stdout.readline()
    watch = Watch(context, "-p", process.pid)
    go(process)
    process.wait(30)
    watch.wait("all watched")
    done = watch.process.wait(30)
    check(done == 0, watch.log())
    found = re.search(r"(\d+) deaths, (\d+) ends in order(.*)", watch.log())
    check(found and int(found.group(1)) == 500 and int(found.group(2)) == 1, watch.log())
    context.note(found.group(0))


def summed(daemon):
    """The deaths of a daemon that have no folder."""
    return sum(line["deaths"] for line in daemon.said("more processes died, without a folder"))


def folders(daemon, whole=True):
    """The summaries of a daemon, by pid. whole: none was being written."""
    found = {}
    for name in os.listdir(daemon.output):
        match = FOLDER.match(name)
        if match:
            check(sorted(os.listdir(os.path.join(daemon.output, name))) == ["stacks.folded", "summary.txt"], name)
            with open(os.path.join(daemon.output, name, "summary.txt"), encoding="utf-8") as file:
                found.setdefault(int(match.group(2)), []).append(file.read())
    check(not whole or not os.path.exists(os.path.join(daemon.output, ".death.tmp")), "a temporary folder is left")
    return found


def wait_for(condition, text, timeout=20, pause=0.05):
    end = time.monotonic() + timeout
    while not condition():
        check(time.monotonic() < end, "not in time: " + text)
        time.sleep(pause)


@test()
def daemon_by_itself(context):
    """Without a filter: a process of a job with ranks is watched, one without is not."""
    ranked = dies(context, "segv", env={"RANK": "3", "WORLD_SIZE": "8"})
    plain = dies(context, "segv")
    code = dies(context, "exit", env={"RANK": "4", "WORLD_SIZE": "8"})
    by_parent = dies(context, "wait", env={"RANK": "5", "WORLD_SIZE": "8"})
    daemon = Daemon(context, "--watch", listen="127.0.0.1:0")
    daemon.wait("sampling")
    time.sleep(3)  # it learns the processes that are there bit by bit
    for process in (ranked, plain, code, by_parent):
        go(process)
    time.sleep(0.5)
    by_parent.terminate()
    for process in (ranked, plain, code, by_parent):
        process.wait(20)
    mine = {process.pid for process in (ranked, plain, code, by_parent)}  # other tests die, too
    wait_for(lambda: len(mine & {line["pid"] for line in daemon.said("process died")}) == 2, "two deaths")
    metrics = metrics_of(get(int(daemon.said("listening")[0]["port"]), "/metrics")[2])
    check(daemon.end() == 0, "it failed")
    said = {line["pid"]: line for line in daemon.said("process died") if line["pid"] in mine}
    found = {pid: texts for pid, texts in folders(daemon).items() if pid in mine}
    check(set(found) == set(said) == {ranked.pid, code.pid}, "%s %s" % (found, said))
    [text] = found[ranked.pid]
    check(text.startswith("deaths (pid %d, rank 3) died of SIGSEGV in segv_here (deaths).\n" % ranked.pid), text)
    check(said[ranked.pid]["why"] + "." == text.split("\n", 1)[0] and said[ranked.pid]["signal"] == "SIGSEGV" and
          said[ranked.pid]["by"] == "self", "%s" % said)
    known_chain(*[(frames, "segv_here") for frames in stacks(text).values()][0])
    check(found[code.pid][0].startswith("deaths (pid %d, rank 4) exited with code 3.\n" % code.pid), found[code.pid][0])
    check(metrics['bpfprof_deaths_total{signal="SIGSEGV",by="self"}'] >= 1 and
          metrics['bpfprof_deaths_total{signal="exit",by="self"}'] >= 1 and
          metrics["bpfprof_deaths_not_written_total"] == 0, "%s" % metrics)


@test()
def daemon_subshells(context):
    """Tools of a shell with a rank are no deaths, also those that its subshells start; the shell's own end is one."""
    daemon = Daemon(context, "--watch", listen="none")
    daemon.wait("sampling")
    script = "for n in 1 2 3 4; do _=$(readlink /nowhere; true); done; grep x /dev/null; sleep 0.5; exit 3"
    process = context.spawn(["sh", "-c", script], env={"RANK": "7"})
    check(process.wait(20) == 3, "status")
    wait_for(lambda: daemon.said("process died"), "a death")
    check(daemon.end() == 0, "it failed")
    mine = [line["why"] for line in daemon.said("process died") if "rank 7" in line["why"]]
    check(mine == ["sh (pid %d, rank 7) exited with code 3" % process.pid], "%s" % mine)


MANY = """
import os, subprocess, sys, time
for rank in range(int(sys.argv[1])):
    subprocess.Popen(["sleep", "300"], env={"RANK": str(rank), "ROOM": "x" * 120000, "PATH": os.environ["PATH"]})
print("ready", flush=True)
time.sleep(300)
"""


@test(long=True)
def daemon_of_many(context):
    """At its start the daemon learns the ranks of all processes, though the reading of so many is over its share of the time."""
    nr = 1500
    launcher = context.spawn(["/usr/bin/python3", "-c", MANY, nr], stdout=subprocess.PIPE, start_new_session=True)
    context.stack.callback(os.killpg, launcher.pid, signal.SIGKILL)
    check(launcher.stdout.readline() == b"ready\n", "not ready")
    daemon = Daemon(context, "--watch", "--stall", "0", listen="127.0.0.1:0")
    port = int(daemon.wait("listening")[0]["port"])

    def events(name):
        return metrics_of(get(port, "/metrics")[2]).get('bpfprof_%s_events_total{event="%s"}' % tuple(name.split()), 0)
    wait_for(lambda: events("environment with_rank_or_job") >= nr, "all ranks", 40)
    check(events("walk deaths_processes_unread") == 0, "given up")
    context.note("%d of %d put off at first" % (events("environment look_ups_deferred"), nr))
    check(daemon.end() == 0, "it failed")


@test()
def daemon_of_pid(context):
    """With a filter: only its processes; the killer is in the log and in the metrics."""
    watched, other = dies(context, "wait"), dies(context, "segv", env={"RANK": "1"})
    daemon = Daemon(context, "--watch", "-p", watched.pid, "--allow-remote-profiling", token_file(context, "x" * 20),
                    listen="127.0.0.1:0")
    daemon.wait("sampling")
    go(watched)
    go(other)
    time.sleep(0.5)
    by = killer(context, signal.SIGKILL, watched.pid)
    [line] = daemon.wait("process died")
    port = int(daemon.said("listening")[0]["port"])
    metrics = get(port, "/metrics")[2]

    def fetch(path):
        head, _, body = ask(port, ("GET /files/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"
                                   "Connection: close\r\n\r\n" % (path, "x" * 20)).encode()).partition(b"\r\n\r\n")
        return int(head.split()[1]), body.decode()
    check(line["folder"] + "/" in fetch("")[1].split("\n"), fetch("")[1])
    check(fetch(line["folder"] + "/") == (200, "stacks.folded\nsummary.txt\n"), "%s" % (fetch(line["folder"] + "/"),))
    check(fetch(line["folder"] + "/summary.txt")[1].startswith(line["why"] + ".\n"), "%s" % (fetch(line["folder"] + "/summary.txt"),))
    check(fetch("summary.txt")[0] == fetch(line["folder"] + "/passwd")[0] == 404, "other files")
    check(daemon.end() == 0, "it failed")
    check(set(folders(daemon)) == {watched.pid}, "%s" % folders(daemon))
    check(re.search(r"was killed with SIGKILL by python3\S* \(pid %d\), while in wait_here" % by, line["why"]), "%s" % line)
    check(re.search(r'^bpfprof_deaths_total\{signal="SIGKILL",by="python3[^"]*"\} 1$', metrics, re.MULTILINE), metrics)


@test(long=True)
def daemon_crash_loop(context):
    """500 deaths at once of a user: all are counted, 40 are written. The death of another user's process has its folder."""
    process = dies(context, "brood", 500, stdout=subprocess.PIPE)
    late = context.spawn([context.helper("deaths", "deaths.c", "-pthread", "-DTARGET_MAIN"), "segv"],
                         stdin=subprocess.PIPE, plain=True, user=12345, group=12345, extra_groups=[])
    process.stdout.readline()
    daemon = Daemon(context, "--watch", "-p", process.pid, "-p", late.pid, listen="127.0.0.1:0")
    daemon.wait("sampling")
    time.sleep(3)  # it learns the users of the processes that are there bit by bit
    go(process)
    process.wait(30)
    name = 'bpfprof_deaths_total{signal="SIGSEGV",by="self"}'
    port = int(daemon.said("listening")[0]["port"])
    wait_for(lambda: metrics_of(get(port, "/metrics")[2]).get(name) == 500, "500 deaths are counted")
    go(late)
    late.wait(20)
    wait_for(lambda: late.pid in {line["pid"] for line in daemon.said("process died")}, "the other user's death")
    check(daemon.end() == 0, "it failed")
    found = folders(daemon)
    check(len(found.pop(late.pid)) == 1, "%s" % found)
    written = sum(len(texts) for texts in found.values())
    check(written == 40 and summed(daemon) == 460, "%d written, %d summed up" % (written, summed(daemon)))
    check(len(daemon.said("process died")) == written + 1, "%d lines" % len(daemon.said("process died")))


@test()
def daemon_cannot_write(context):
    """A death that cannot be written still has its sentence in the log, and is counted."""
    process = dies(context, "exit")
    daemon = Daemon(context, "--watch", "-p", process.pid, listen="127.0.0.1:0")
    daemon.wait("sampling")
    with open(os.path.join(daemon.output, ".death.tmp"), "w", encoding="ascii"):
        pass  # in the place of the folder that the daemon makes
    go(process)
    process.wait(20)
    [line] = daemon.wait("process died")
    check("exited with code 3" in line["why"] and "folder" not in line, "%s" % line)
    [summed_up] = daemon.wait("more processes died, without a folder")
    check(summed_up["deaths"] == 1, "%s" % summed_up)
    metrics = metrics_of(get(int(daemon.said("listening")[0]["port"]), "/metrics")[2])
    check(metrics["bpfprof_deaths_not_written_total"] == 1 and
          metrics['bpfprof_deaths_total{signal="exit",by="self"}'] == 1, "%s" % metrics)
    check(daemon.end() == 0, "it failed")


@test()
def daemon_ends(context):
    """A child that hangs does not delay the last profile, and the end only for seconds; its deaths are counted."""
    process = dies(context, "brood", 100, stdout=subprocess.PIPE)
    process.stdout.readline()
    daemon = Daemon(context, "--watch", "-p", process.pid, interval="60s")
    daemon.wait("sampling")
    go(process)
    children = "/proc/{0}/task/{0}/children".format(daemon.process.pid)
    stopped = []

    def stop():
        with open(children, encoding="ascii") as file:
            stopped.extend(map(int, file.read().split()))
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        return stopped
    wait_for(stop, "a child that writes", pause=0.001)
    process.wait(20)
    begin = time.monotonic()
    check(daemon.end() == 0, "it failed")
    seconds = time.monotonic() - begin
    written = sum(len(texts) for texts in folders(daemon, whole=False).values())
    check(seconds < 15 and profiles(daemon.output), "%.1f s" % seconds)
    check(written < 40 and written + summed(daemon) == daemon.said("more processes died, without a folder")[-1]["all_deaths"],
          "%d written, %d summed up" % (written, summed(daemon)))
    context.note("%.1f s, %d written, %d summed up" % (seconds, written, summed(daemon)))


@test()
def daemon_prunes(context):
    """Of more than 256 folders the oldest of the program with the most of them is removed, and none of a quiet one."""
    process = dies(context, "exit")
    output = context.path("out")
    loop = ["death-20261102T0000%02dZ-loop-0-%d" % (i % 60, i) for i in range(200)]
    quiet = ["death-20261101T0000%02dZ-quiet-%d" % (i % 60, i) for i in range(60)]
    for name in loop + quiet:
        os.makedirs(os.path.join(output, name))
    daemon = Daemon(context, "--watch", "-p", process.pid)
    daemon.wait("sampling")
    go(process)
    process.wait(20)
    [line] = daemon.wait("process died")
    check(daemon.end() == 0, "it failed")
    left = {name for name in os.listdir(output) if FOLDER.match(name)}
    check(left == set(quiet + sorted(loop)[5:] + [line["folder"]]), "%s" % sorted(left ^ set(quiet + loop)))
