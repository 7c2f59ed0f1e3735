# SPDX-License-Identifier: Apache-2.0
"""Code that lies in no ELF file: made at run time, or moved out of one.

The programs have one chain each, and name what they make themselves.
"""

import contextlib
import os
import signal
import subprocess
import time

import chains
from harness import NOBODY, Skip, check, test

BESIDE = True
HZ = 499
SECONDS = 3
LEAST = 10  # samples: a busy machine gives few


def frames_of(context, name, process):
    """Stacks of a process in a collapsed file, [(frames, samples)]."""
    return [(frames, count) for one, frames, count in chains.read_folded(context.text(name))
            if one == process]


def follows(frames, chain):
    return any(frames[i:i + len(chain)] == chain for i in range(len(frames)))


def record(context, pids, name="x", seconds=SECONDS):
    context.bpfprof("record", "-F", HZ, "-d", seconds, "-o", name + ".folded", "--stats",
                    name + ".json", *[word for pid in pids for word in ("-p", pid)]).expect(0)
    return context.json(name + ".json")


def share(context, process, good, name="x"):
    """Samples, and those whose frames are good."""
    stacks = frames_of(context, name + ".folded", process)
    return (sum(count for _, count in stacks),
            sum(count for frames, count in stacks if good(frames)), stacks)


def check_chain(context, process, chain, name="x"):
    total, right, stacks = share(context, process, lambda frames: follows(frames, chain), name)
    worst = max(stacks, key=lambda one: one[1], default=None)
    check(total >= LEAST and right >= 0.98 * total,
          "%s: %d of %d samples have %s, for example %s" % (process, right, total, chain, worst))


class Made:
    """made_code as a process of that name; gone with what it wrote at the end."""

    def __init__(self, context, name, *argv, before=(), **kwargs):
        program = context.helper("made_code", "made_code.c", "-static")
        folder = context.scratch("run-" + name)
        self.path = os.path.join(folder, name)
        if not os.path.exists(self.path):
            copy(program, self.path)
        command = [*before, self.path, *argv]
        self.process = context.spawn(command, stdout=subprocess.PIPE, cwd=folder, **kwargs)
        line = self.process.stdout.readline()
        check(line, "%s does not run" % command)
        self.pid = int(line)  # as it knows itself
        self.map = "/tmp/perf-%d.map" % self.pid
        context.stack.callback(self.clean)

    def clean(self):
        for path in (self.map, "/tmp/perf-%d.map" % self.process.pid,
                     "/dev/shm/made_code.%d" % self.pid):
            with contextlib.suppress(OSError):
                os.rmdir(path) if os.path.isdir(path) else os.unlink(path)


def copy(source, to):
    subprocess.run(["cp", source, to], check=True)


CHAIN = ["main", "run_made", "made_function"]


@test()
def memory(context):
    """In any kind of memory, the code of a JIT compiler has the names of its map."""
    made = {kind: Made(context, "m" + kind, kind)
            for kind in ("private", "shared", "memfd", "tmpfs", "deleted")}
    stats = record(context, [one.pid for one in made.values()], seconds=5)
    for kind in made:
        check_chain(context, "m" + kind, CHAIN)
    check(not any(name.startswith(("perfmap", "file_")) for name in stats["files"]),
          "no file is missing: %s" % stats["files"])
    for kind in ("private", "memfd"):
        text = context.bpfprof("dump", "-p", made[kind].pid, "--native").expect(0).text
        check("made_function" in text and "run_made" in text, text)


@test()
def forked(context):
    """Code inherited by fork has the names of the map of the process that made it."""
    made = [Made(context, "f" + how, "shared" if how == "child" else "private", how)
            for how in ("child", "grandchild")]
    time.sleep(0.2)
    children = [one.pid for one in made]
    record(context, children)
    for name in ("fchild", "fgrandchild"):
        check_chain(context, name, CHAIN)


@test()
def orphaned(context):
    """The same where it is forked while we look, and its parent is gone when the names are asked for."""
    recording = context.start("record", "-F", HZ, "-d", 8, "-o", "x.folded", "--stats", "x.json")
    context.sampling(recording)
    one = Made(context, "forphan", "private", "orphan")
    try:
        context.finish(recording, 60).expect(0)
    finally:
        for pid in pids_of("forphan"):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    check(one.process.wait(10) == 0, "the parent is still there")
    check_chain(context, "forphan", CHAIN)


@test()
def written_before_exec(context):
    """The map that a process wrote before it became another program says nothing of that."""
    recording = context.start("record", "-F", HZ, "-d", 10, "-o", "x.folded", "--stats", "x.json")
    context.sampling(recording)
    one = Made(context, "xlater", "private", "later")
    check(os.path.exists(one.map), "there is no map")
    context.finish(recording, 60).expect(0)
    total, wrong, stacks = share(context, "xlater", lambda frames: "made_function" in frames)
    check(total >= LEAST and not wrong, stacks)
    # Tests beside this one have stale maps, too.
    check(context.json("x.json")["files"].get("perfmap_stale", 0) >= 1, context.text("x.json"))


def pids_of(comm):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open("/proc/%s/comm" % pid, encoding="utf-8") as file:
            if file.read().strip() == comm:
                found.append(int(pid))
    return found


@test()
def not_a_fork(context):
    """A parent's map says nothing of a child that called exec, although both run the same address."""
    # Without random addresses the memory of both looks alike, too.
    one = Made(context, "eother", "private", "execs", before=["setarch", "-R"])
    check(os.path.exists("/tmp/perf-%d.map" % one.process.pid), "the parent has no map")
    record(context, [one.pid])
    total, wrong, stacks = share(context, "eother", lambda frames: "made_function" in frames)
    check(total >= LEAST and not wrong, stacks)


def plant_other_user(path):
    os.chown(path, 12345, 12345)


def plant_link(path):
    os.rename(path, path + ".real")
    os.symlink(path + ".real", path)


def plant_second_name(path):
    os.link(path, path + ".real")


def plant_fifo(path):
    os.unlink(path)
    os.mkfifo(path)


def plant_folder(path):
    os.unlink(path)
    os.mkdir(path)


def plant_old(path):
    os.utime(path, (1, time.time() - 3600))


def plant_by_root(path):
    os.chown(path, 0, 0)


@test()
def whose_map(context):
    """A map counts if it is the process's own, or root's, and no trap. What is refused is counted."""
    plans = {"pnone": (os.unlink, None), "puser": (plant_other_user, "perfmap_refused"),
             "plink": (plant_link, "perfmap_refused"),
             "pname": (plant_second_name, "perfmap_refused"),
             "pfifo": (plant_fifo, "perfmap_refused"), "pfolder": (plant_folder, "perfmap_refused"),
             "pold": (plant_old, "perfmap_stale")}
    good = Made(context, "pown", "private")
    root = Made(context, "proot", "private")
    plant_by_root(root.map)
    record(context, [good.pid, root.pid])
    check_chain(context, "pown", CHAIN)
    check_chain(context, "proot", CHAIN)
    made = {}
    for name, (plant, _) in plans.items():
        made[name] = Made(context, name, "private")
        plant(made[name].map)
        context.stack.callback(lambda path=made[name].map + ".real": os.path.exists(path) and
                               os.unlink(path))
    stats = record(context, [one.pid for one in made.values()], "bad", 6)
    expected = {}
    for name, (_, reason) in plans.items():
        total, wrong, stacks = share(context, name, lambda frames: "made_function" in frames, "bad")
        check(total >= LEAST and not wrong, "%s: %s" % (name, stacks))
        if reason:
            expected[reason] = expected.get(reason, 0) + 1
    counted = {name: count for name, count in stats["files"].items() if name.startswith("perfmap")}
    check(counted == expected, "counted %s, not %s" % (counted, expected))


@test()
def own_tmp(context):
    """Its map is in the /tmp that the process sees: its folder of the node's, or below its root."""
    plain = {"env": {}, "plain": True, "user": 0, "group": 0}
    folder = context.scratch("private-tmp")
    script = "mount --bind \"$1\" /tmp && shift && exec \"$@\""
    program = context.helper("made_code", "made_code.c", "-static")
    home = context.scratch("home")
    copy(program, home + "/tbound")
    # The mounts must not hide the program: it lies below none of them.
    bound = context.spawn(["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh",
                           folder, "/proc/self/fd/9", "private"], stdout=subprocess.PIPE,
                          preexec_fn=lambda: os.dup2(os.open(home + "/tbound", os.O_RDONLY), 9),
                          close_fds=False, **plain)
    bound_pid = int(bound.stdout.readline())
    box = context.scratch("box")
    context.scratch("box/tmp")
    copy(program, box + "/tboxed")
    boxed = context.spawn(["chroot", box, "/tboxed", "private"], stdout=subprocess.PIPE, **plain)
    boxed_pid = int(boxed.stdout.readline())
    check(os.path.exists(folder + "/perf-%d.map" % bound_pid) and
          os.path.exists(box + "/tmp/perf-%d.map" % boxed_pid), "the maps are not where they should be")
    record(context, [bound_pid, boxed_pid])
    check_chain(context, "tboxed", CHAIN)
    check_chain(context, "9", CHAIN)


TMPFS = "mount -t tmpfs none /tmp"


class Apart:
    """made_code where /tmp is as mounts say, for it alone; its name is the number of a descriptor."""

    def __init__(self, context, name, mounts, options=()):
        program = context.helper("made_code", "made_code.c", "-static")
        # The mounts may hide the program.
        script = "exec %s<\"$1\"; %s && exec /proc/self/fd/%s private" % (name, mounts, name)
        self.context = context
        self.process = context.spawn(
            ["unshare", "-m", *options, "--propagation", "private", "bash", "-c", script, "bash",
             program], stdout=subprocess.PIPE, env={"PATH": os.environ["PATH"]}, plain=True, user=0,
            group=0)
        self.pid = int(self.process.stdout.readline())
        self.map = "/tmp/perf-%d.map" % self.pid

    def command(self, script):
        return ["nsenter", "-t", str(self.pid), "-m", "sh", "-c", script, "sh", self.map]

    def run(self, script):
        subprocess.run(self.command(script), check=True)

    def start(self, script):
        self.context.spawn(self.command(script), plain=True, user=0, group=0,
                           env={"PATH": os.environ["PATH"]})


def perfmap_counts(stats):
    return {name: count for name, count in stats["files"].items() if name.startswith("perfmap")}


@test()
def tmp_for_itself(context):
    """A tmpfs that only the process has mounted: its map is read out of the kernel's memory."""
    made = {"11": Apart(context, "11", TMPFS), "12": Apart(context, "12", TMPFS + " && " + TMPFS),
            "13": Apart(context, "13", "mount -t ramfs none /tmp"),
            "14": Apart(context, "14", TMPFS + " -o huge=always"),
            "15": Apart(context, "15", TMPFS + " && mkdir /tmp/a && mount --bind /tmp/a /tmp")}
    # Its line lies far from the beginning, and it is written to all the time.
    filler = "yes 10000000 40 other_function | head -n %d"
    for name in ("11", "14"):
        made[name].run('cp "$1" /tmp/line; %s >"$1"; cat /tmp/line >>"$1"' % (filler % 120000))
        made[name].start('while sleep 0.01; do %s; done >>"$1"' % (filler % 2000))
    stats = record(context, [one.pid for one in made.values()], seconds=5)
    for name in made:
        check_chain(context, name, CHAIN)
    check(not perfmap_counts(stats), perfmap_counts(stats))
    text = context.bpfprof("dump", "-p", made["12"].pid, "--native").expect(0).text
    check("made_function" in text, text)


@test()
def whose_map_in_tmp_for_itself(context):
    """The same rules hold there; other file systems of its own cannot be reached."""
    plans = {"21": ('chown 12345 "$1"', "perfmap_refused"),
             "22": ('mv "$1" "$1".real && ln -s "$1".real "$1"', "perfmap_refused"),
             "23": ('ln "$1" "$1".real', "perfmap_refused"),
             "24": ('rm "$1" && mkfifo "$1"', "perfmap_refused"),
             "25": ('touch -d "1 hour ago" "$1"', "perfmap_stale"), "26": ('rm "$1"', None),
             # An unprivileged process may do this in a user namespace of its own.
             "29": ('cp "$1" /tmp/other && mount --bind /tmp/other "$1"', "perfmap_refused"),
             "27": ('mv "$1" "$1"2', None)}
    made = {name: Apart(context, name, TMPFS) for name in plans}
    for name, (plan, _) in plans.items():
        made[name].run(plan)
    made["28"] = Apart(context, "28", "mount -t mqueue none /tmp", ["-i"])
    plans["28"] = (None, "perfmap_not_visible")
    stats = record(context, [one.pid for one in made.values()], seconds=6)
    expected = {}
    for name, (_, reason) in plans.items():
        total, wrong, stacks = share(context, name, lambda frames: "made_function" in frames)
        check(total >= LEAST and not wrong, "%s: %s" % (name, stacks))
        if reason:
            expected[reason] = expected.get(reason, 0) + 1
    check(perfmap_counts(stats) == expected, "counted %s, not %s" % (perfmap_counts(stats), expected))


@test()
def layers_that_the_target_names(context):
    """A process of no rights mounts an overlay of the node's folders by name: the agent does not open them for it."""
    victim = context.scratch("victim", 0o700)
    home = context.scratch("home")
    copy(context.helper("made_code", "made_code.c", "-static"), home + "/tlayers")
    # Under the same name it has a folder of its own: the mount's options say only the name.
    script = ("exec 9<\"$1\" && mount -t tmpfs none /tmp && mkdir -p \"$2\" /tmp/up /tmp/work &&"
              "mount -t overlay overlay -o \"lowerdir=$2,upperdir=/tmp/up,workdir=/tmp/work\" /tmp &&"
              "exec /proc/self/fd/9 private")
    attack = context.spawn(["unshare", "-Urm", "bash", "-c", script, "bash", home + "/tlayers", victim],
                           stdout=subprocess.PIPE, plain=True, env={}, user=NOBODY, group=NOBODY,
                           extra_groups=[])
    line = attack.stdout.readline()
    if not line:
        raise Skip("users may not mount an overlay here")
    with open(victim + "/perf-%d.map" % int(line), "w", encoding="ascii") as file:
        file.write("1000 7fffffff0000 secret_of_the_victim\n")
    stats = record(context, [int(line)])
    total, wrong, stacks = share(context, "9", lambda frames: "secret_of_the_victim" in frames)
    check(total >= LEAST and not wrong, stacks)
    files = {name: count for name, count in stats["files"].items() if name.startswith("perfmap")}
    check(files == {"perfmap_not_visible": 1}, files)


@test()
def map_too_large(context):
    """Head and end of a map over the limit are used; that some of it was not is counted and said."""
    made = {name: Made(context, name, "private") for name in ("lhead", "lmiddle")}
    for name, one in made.items():
        with open(one.map, "rb") as file:
            line = file.read()
        filler = b"10000000 40 other_function_%036d\n" % 0
        half = filler * ((80 << 20) // len(filler))
        with open(one.map, "wb") as file:
            file.write((line if name == "lhead" else b"") + half)
            file.write((line if name == "lmiddle" else b"") + half)
    for name, one in made.items():
        done = context.bpfprof("record", "-F", HZ, "-d", 2, "-p", one.pid, "-o", "x.folded",
                               "--stats", "x.json").expect(0)
        check(context.json("x.json")["files"].get("perfmap_cut") == 1, context.text("x.json"))
        check(os.path.basename(one.map) in done.text, done.text)
        if name == "lhead":
            check_chain(context, name, CHAIN)


KINDS = {"tpie": ["-pie", "-fPIE"], "tfix": ["-no-pie", "-fno-pie"]}


def moved(context, name, kind, what):
    path = context.path(name)
    copy(context.helper(kind, "moved_text.c", *KINDS[kind]), path)
    return context.spawn([path, *what])


@test()
def moved_text(context):
    """Text that a program moved onto other memory, in place, is still the file's."""
    whats = [("inside", "private"), ("inside", "shared"), ("inside", "memfd"), ("inside", "fixed"),
             ("all", "private"), ("all", "memfd"), ("nothing", "private")]
    targets = [(kind + what[0][:3] + what[1][:3], kind, what) for kind in KINDS for what in whats]
    targets = [(name, moved(context, name, kind, what)) for name, kind, what in targets]
    record(context, [process.pid for _, process in targets], seconds=12)
    for name, process in targets:
        check_chain(context, name, ["main", "run_outer", "run_middle", "run_inner"])
    for name, process in targets[:2]:
        text = context.bpfprof("dump", "-p", process.pid, "--native").expect(0).text
        check("run_outer" in text and "[anon]" not in text, text)


@test()
def hole_in_text(context):
    """Other code in the middle of a file's text is not the file's: the bytes decide."""
    process = moved(context, "thole", "tpie", ["hole", "private"])
    record(context, [process.pid])
    total, right, stacks = share(context, "thole", lambda frames: "run_hole" in frames and
                                 frames[-1].startswith(("[anon]+0x", "run_hole", "hole_run")) or
                                 frames[-1].endswith("_[k]"))
    check(total >= LEAST and right >= 0.98 * total, stacks)
    check(not any("filler" in frame for frames, _ in stacks for frame in frames), stacks)
