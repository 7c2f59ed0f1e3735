# SPDX-License-Identifier: Apache-2.0
"""Programs in real containers: the same stacks and names as on the node, and never another file's."""

import os
import re
import shutil
import subprocess
import time

import chains
import containers
from harness import BPFPROF, ROOT, check, test

BESIDE = True
LOCK = "pods"
HZ = 997
SECONDS = 4
EXPECT = os.path.join(ROOT, "tests", "system", "targets")
STARTED = 99  # percent of exact stacks of a program that starts while recording
UID = "1000:100"
# A file system that only the container has.
SCRATCH = ["--mount", "type=tmpfs,dst=/scratch,options=exec:mode=1777"]
SCRIPT = """\
# A chain of calls.
total = 0
def inner(n):
    global total
    for i in range(n):
        total += i
def middle(n):
    inner(n)
def outer(n):
    middle(n)
class Trainer:
    def fit(self):
        outer(20000)
trainer = Trainer()
if __name__ == "__main__":
    while True:
        trainer.fit()
"""
CHAIN = [("<module>", range(1, 18)), ("Trainer.fit", (12, 13)), ("outer", (9, 10)),
         ("middle", (7, 8)), ("inner", (3, 4, 5, 6))]


class Watched:
    """A target by the name that it has in its container."""

    def __init__(self, name, twin, expect):
        self.name = name
        self.path = "/app/" + name
        self.twin = twin
        self.expect = os.path.join(EXPECT, expect + ".expect")


def environment(context):
    """What makes targets so in this mode, that nothing but the four capabilities helps."""
    return {"TARGET_NONDUMPABLE": "1"} if context.mode == "caps" else {}


def programs(context):
    """Watched programs and the files that they are."""
    symbols, stripped = context.target("calls_gO2"), context.target("stripped")
    clang = context.target("frames_cO3")
    return [(Watched("incontainer", symbols.path, "calls"), symbols.path),
            (Watched("cstripped", symbols.path, "stripped"), stripped.path),
            (Watched("cframes", clang.path, "frames"), clang.path)]


def decoy(context):
    """A program of the same chain of calls under other names; it must never be looked at."""
    return context.helper("decoy", "calls.c", *["-D%s=decoy_%s" % (name, name) for name in
                                                ("spin", "level_one", "level_two", "level_three")])


def check_exact(context, watched, name, least=99.9, samples=50):
    """The stacks of all of them are complete and right."""
    text = context.text(name)
    results = chains.check(watched, text)
    check(";decoy_" not in text, "names of another file:\n" + "\n".join(
        line for line in text.splitlines() if ";decoy_" in line)[:2000])
    for result in results.values():
        check(result.samples >= samples, "%s: only %d samples" % (result.name, result.samples))
        missing = result.missing()
        check(not missing, "\n".join(missing) + "\n" + chains.table(results))
    total = sum(result.samples for result in results.values())
    exact = sum(result.counts["exact"] for result in results.values())
    context.note("%s: %d samples, %.3f%% exact" % (name, total, 100.0 * exact / max(1, total)))
    check(exact >= least / 100.0 * total, "%s\nreasons: %s" % (
        chains.table(results), context.json(name.replace("folded", "json"))["stacks"]["reasons"]))
    check(not any(result.counts["wrong"] for result in results.values()), chains.table(results))


def check_python(context, process, name, script, samples=50, least=99.9):
    """Every stack of the Python process is a beginning of the chain that its program has."""
    seen, right, wrong = 0, 0, {}
    for found, frames, count in chains.read_folded(context.text(name)):
        if found != process:
            continue
        python = [re.fullmatch(r"(.*) \((.*):(\d+)\)", frame) for frame in frames
                  if not frame.endswith(chains.KERNEL)]
        python = [(m.group(1), m.group(2), int(m.group(3))) for m in python if m]
        if not any(frame[1].endswith(script) for frame in python):  # the interpreter starts
            right += count * (chains.TRUNCATED not in frames)
        elif len(python) <= len(CHAIN) and all(
                frame[0] == want[0] and frame[1].endswith(script) and frame[2] in want[1]
                for frame, want in zip(python, CHAIN)):
            right += count
            seen += count
        else:
            wrong[";".join(frames)] = wrong.get(";".join(frames), 0) + count
    total = right + sum(wrong.values())
    report = "%s: %d samples, %.3f%% right, %d with Python frames\n%s" % (
        process, total, 100.0 * right / max(1, total), seen,
        "\n".join("    %d %s" % (n, stack[:300]) for stack, n in
                  sorted(wrong.items(), key=lambda item: -item[1])[:3]))
    context.note(report.strip())
    check(seen >= samples and right >= least / 100.0 * total and seen >= 0.8 * total, report)


def record(context, name, seconds=SECONDS, start=None, options=()):
    """Records the whole node; start() is called when that has begun."""
    recording = context.start("record", "-F", HZ, "-d", seconds, "-o", name + ".folded", "--stats",
                              name + ".json", *options)
    if start:
        context.sampling(recording)
        start()
    return context.finish(recording, seconds + 30).expect(0)


def runs(container, name):
    """Waits until its first process is a program by that name."""
    def is_it():
        check(container.alive(), "%s ended: %s" % (name, container.log()))
        with open("/proc/%d/comm" % container.pid, encoding="ascii") as file:
            return file.read().strip() == name
    containers.wait_for(name + " does not run", is_it, 10)


def mounted(context, name, kind, *words):
    """A folder of the test with a file system of its own."""
    path = context.path(name)
    os.mkdir(path)
    subprocess.run(["mount", "-t", kind, *(words or ["none"]), path], check=True)
    context.stack.callback(lambda: subprocess.run(["umount", "-l", path], check=False))
    return path


@test()
def layers(context):
    """Four layers, a user of its own: programs of the lowest and of the highest layer, Python."""
    containerd = containers.start(context)
    base = containers.base_layer()
    middle = containers.Layer()
    lowest = containers.Layer()
    for watched, path in programs(context):
        lowest.program(path, watched.path)
    wrong = decoy(context)
    middle.copy(wrong, "/app/cupper", 0o755).copy(wrong, "/app/deleted", 0o755)
    top = containers.Layer().file("/app/train.py", SCRIPT.encode())
    top.copy(context.target("calls_gO2").path, "/app/cupper", 0o755).delete("/app/deleted").link("/usr/bin/pylayers", "python3")
    image = containerd.image("layers", [lowest, base, middle, containers.python_layer(),
                                        top], user=UID)
    watched = [one for one, _ in programs(context)]
    watched.append(Watched("cupper", context.target("calls_gO2").path, "calls"))

    def start(names):
        for name in names:
            containerd.run(image, ["/app/" + name, "60"], env=environment(context))
        containerd.run(image, ["/usr/bin/pylayers", "/app/train.py"], env=environment(context))

    start([one.name for one in watched[:3]])
    time.sleep(0.3)
    record(context, "x", start=lambda: start([one.name for one in watched[3:]]))
    check_exact(context, watched[:3], "x.folded")
    check_exact(context, watched[3:], "x.folded", least=STARTED)
    check_python(context, "pylayers", "x.folded", "train.py")


def spread(context, containerd, start, image):
    """Programs whose files can be had in all the ways there are; their names."""
    copy = ["/bin/sh", "-c"]
    symbols = context.target("calls_gO2").path
    volume = context.scratch("volume")
    shutil.copy(symbols, os.path.join(volume, "cvolume"))
    memory = mounted(context, "memory", "tmpfs")
    shutil.copy(symbols, os.path.join(memory, "cmemory"))
    # The node has another program under this very path.
    same = context.path("same")
    shutil.copy(decoy(context), os.path.join(os.makedirs(same) or same, "csame"))

    start("cvolume", ["/data/cvolume", "60"], volumes=[(volume, "/data", "ro")])
    start("cmemory", ["/data/cmemory", "60"], volumes=[(memory, "/data", "rw")])
    start("csame", [same + "/csame", "60"])
    start("chome", ["/home/ray/bin/chome", "60"])
    start("cprivate", [*copy, "/bin/busybox cp /app/exports /scratch/cprivate && "
                       "exec /scratch/cprivate 60"],
          options=SCRATCH)
    start("cwritten", [*copy, "/bin/busybox cp /app/incontainer /tmp/cwritten && exec /tmp/cwritten 60"])
    gone = start("cgone", [*copy, "/bin/busybox cp /app/incontainer /tmp/cgone && exec /tmp/cgone 60"])
    lower = start("clower", ["/app/clower", "60"])
    replaced = start("creplaced", ["/app/creplaced", "60"])
    os.unlink(gone.path("/tmp/cgone"))
    os.unlink(lower.path("/app/clower"))
    shutil.copy(decoy(context), replaced.path("/app/other"))
    os.rename(replaced.path("/app/other"), replaced.path("/app/creplaced"))
    return ["cvolume", "cmemory", "csame", "chome", "cprivate", "cwritten", "cgone", "clower",
            "creplaced"]


def explained(context, pids):
    """doctor's text about the way of each file."""
    for name, way in (("cvolume", "inode"), ("csame", "inode"), ("chome", "inode"),
                      ("cgone", "inode"), ("cmemory", "mount"), ("cprivate", "memory"),
                      ("pyhome", "inode"), ("pyprivate", "memory")):
        done = context.bpfprof("doctor", "--pid", pids[name])
        said = done.out.decode()
        line = re.search(r"^(ok|warn) +file +/\S*/%s: by (\w+); (.*), unwind tables" %
                         name.replace("pyhome", r"python3\S*"), said, re.MULTILINE)
        check(line and line.group(2) == way, "%s: %s expected\n%s" % (name, way, said))
        check(line.group(1) == ("warn" if way == "memory" else "ok"), said)
        check((line.group(3) == "all symbols") == (name[0] == "c" and way != "memory"), said)
        check("ml/worker-0/ray-worker" in said, "not the container's name:\n" + said)
        check(name[0] == "c" or re.search(r"^ok +python +3\.\d+", said, re.MULTILINE), said)
        check(not any(secret in done.text for secret in containers.SECRETS.values()), said)


@test()
def files(context):
    """Volumes, deleted and replaced files, private mounts, a home that others cannot enter."""
    containerd = containers.start(context)
    symbols = context.target("calls_gO2").path
    lowest = containers.base_layer()
    exports = context.target("calls_gO2rdyn").path  # memory has no .symtab
    app = containers.Layer().program(symbols, "/app/incontainer").copy(exports, "/app/exports")
    app.folder("/home/ray", 0o750, (1000, 100)).copy(symbols, "/home/ray/bin/chome", 0o755)
    # Names that are elsewhere in the container: a separate debug file, a map of generated code.
    link = context.target("debuglink").path
    app.copy(link, "/app/debuglink", 0o755).copy(link + ".debug", "/app/debuglink.debug")
    app.copy(context.target("jit_gO2").path, "/app/cjit", 0o755)
    for path in ("/app/clower", "/app/creplaced", context.path("same") + "/csame"):
        app.copy(symbols, path, 0o755)
    python = containers.python_layer(home="/home/ray/anaconda3", owner=(1000, 100), mode=0o750)
    python.file("/home/ray/train.py", SCRIPT.encode(), owner=(1000, 100))
    python.link("/home/ray/anaconda3/bin/pyhome", "python3")
    image = containerd.image("files", [lowest, app, python], user=UID)

    pids = {}

    def start(name, argv, **kwargs):
        container = containerd.run(image, argv,
                                   env={**environment(context), **kwargs.pop("env", {})},
                                   **kwargs)
        runs(container, name)
        pids[name] = container.pid
        return container

    names = spread(context, containerd, start, image)
    start("debuglink", ["/app/debuglink", "60"])
    start("cjit", ["/app/cjit", "60"])
    start("pyhome", ["/home/ray/anaconda3/bin/pyhome", "/home/ray/train.py"])
    start("pyprivate", ["/bin/sh", "-c", "/bin/busybox cp /home/ray/anaconda3/bin/python3 "
                        "/scratch/pyprivate && exec /scratch/pyprivate /home/ray/train.py"],
          env={"PYTHONHOME": "/home/ray/anaconda3"}, options=SCRATCH)
    record(context, "x", 8, options=[word for pid in pids.values() for word in ("-p", pid)])
    names.append("debuglink")
    check_exact(context, [Watched(name, symbols, "calls") for name in names] +
                [Watched("cjit", context.target("jit_gO2").path, "jit")], "x.folded")
    check_python(context, "pyhome", "x.folded", "train.py")
    check_python(context, "pyprivate", "x.folded", "train.py")
    explained(context, pids)
    check(context.json("x.json")["files"].get("file_from_memory", 0) >= 2,
          "what was read from memory is not told: %s" % context.json("x.json")["files"])


def names_of(text, process):
    """Functions of a process in a collapsed file: their samples."""
    found = {}
    for name, frames, count in chains.read_folded(text):
        for frame in set(frames) if name == process else ():
            found[frame] = found.get(frame, 0) + count
    return found


@test()
def perf_maps(context):
    """A container's map of generated code is its own, and no link: neither to the node nor inside."""
    containerd = containers.start(context)
    symbols = context.target("jit_gO2").path
    secret = context.path("secret.map")
    with open(secret, "w", encoding="ascii") as file:
        file.write("0 7fffffffffffffff secret_of_the_node\n")
    os.chmod(secret, 0o600)
    inside = "0 7fffffffffffffff behind_a_link\n"
    ways = {"jplain": None, "jinside": "real.map", "jabsolute": secret,
            "jclimbs": "../" * 20 + secret.lstrip("/"), "jbeside": "../secret.map",
            "jwithin": secret, "jthrough": "/proc/1/root" + secret}
    layer = containers.base_layer().program(symbols, "/app/jit")
    for name in ways:
        layer.copy(symbols, "/app/" + name, 0o755)
    image = containerd.image("maps", [layer], user=UID)
    pids = []
    for name, link in ways.items():
        folder = context.scratch(name)
        own = name == "jwithin"  # its /tmp is in the image, the others' is a volume
        container = containerd.run(image, ["/app/" + name, "60"], env=environment(context),
                                   volumes=[] if own else [(folder, "/tmp", "rw")])
        runs(container, name)
        pids.append(container.pid)
        folder = container.path("/tmp") if own else folder
        path = os.path.join(folder, "perf-1.map")
        containers.wait_for(name + " wrote no map", lambda: os.path.exists(path) and
                            os.path.getsize(path), 10)
        if link:
            os.unlink(path)
            os.symlink(link, path)
            with open(os.path.join(folder, "real.map"), "w", encoding="ascii") as file:
                file.write(inside)
    record(context, "x", 3, options=[word for pid in pids for word in ("-p", pid)])
    text = context.text("x.folded")
    check("secret" not in text, "\n".join(line for line in text.splitlines() if "secret" in line))
    wanted = {"jplain": "jit_function"}
    for name in ways:
        found = names_of(text, name)
        total = max(found.values(), default=0)
        name_found = found.get(wanted[name], 0) if name in wanted else sum(
            count for frame, count in found.items() if frame.startswith("[anon]+0x"))
        check(total > 50 and name_found > 0.9 * total, "%s: %s" % (name, found))
    check(context.json("x.json")["files"].get("perfmap_refused") == len(ways) - 1,
          context.json("x.json")["files"])


PACKAGE = {"start.py": "import trainer.loop\ntrainer.loop.work()\n", "trainer/__init__.py": "",
           "trainer/loop.py": "def work():\n    while True:\n        sum(range(1000))\n"}


@test()
def short_files(context):
    """The short form of a Python file is by the folders that its process sees, not by the node's."""
    containerd = containers.start(context)
    # Without this, a file of the node under the path of the volume would give another form of the path.
    shown, real = context.scratch("shown"), context.scratch("real")
    for folder, names in ((real, list(PACKAGE)), (shown, [*PACKAGE, "__init__.py"])):
        for name in names:
            os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
            with open(os.path.join(folder, name), "w", encoding="ascii") as file:
                file.write(PACKAGE.get(name, ""))
    python = containers.python_layer()
    for name, text in PACKAGE.items():
        python.file("/app/" + name, text.encode())
    for name in ("pyimage", "pyvolume"):
        python.link("/usr/bin/" + name, "python3")
    image = containerd.image("short", [containers.base_layer(), python], user=UID)
    pids = []
    for name, script, volumes in (("pyimage", "/app/start.py", []),
                                  ("pyvolume", shown + "/start.py", [(real, shown, "ro")])):
        container = containerd.run(image, ["/usr/bin/" + name, script], env=environment(context),
                                   volumes=volumes)
        runs(container, name)
        pids.append(container.pid)
    time.sleep(0.5)
    chosen = [word for pid in pids for word in ("-p", pid)]
    record(context, "x", 3, options=chosen)
    for name in ("pyimage", "pyvolume"):
        found = names_of(context.text("x.folded"), name)
        total = max(found.values(), default=0)
        right = sum(count for frame, count in found.items()
                    if frame.startswith("work (trainer/loop.py:"))
        check(total >= 10 and right >= 0.95 * total, "%s: %s" % (name, found))
    for argv in (["dump", *chosen], ["top", *chosen, "--delay", "3", "--once"]):
        text = context.bpfprof(*argv).expect(0).text
        lines = [line for line in text.splitlines() if "loop.py" in line]
        check(len(lines) > 1 and all("trainer/loop.py" in line and "shown/" not in line
                                     for line in lines), "%s\n%s" % (argv[0], text))


def status_of(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file)


def record_in(context, containerd, options=(), volumes=(), seconds=SECONDS):
    """bpfprof as an agent in a container, with containerd's RuntimeDefault seccomp profile."""
    out = context.scratch("out")
    agent = containerd.image("agent", [containers.base_layer(),
                                       containers.Layer().program(BPFPROF, "/usr/bin/bpfprof")])
    argv = ["/usr/bin/bpfprof", "record", "-F", str(HZ), "-d", str(seconds), "-o", "/out/x.folded",
            "--stats", "/out/x.json", *options]
    container = containerd.run(agent, argv, name="agent", volumes=[(out, "/out", "rw"), *volumes],
                               options=containers.agent_options())
    status = status_of(container.pid)
    check(status["Seccomp"] == "2", "no seccomp filter: %s" % status)
    check(int(status["CapEff"], 16) == sum(1 << n for n in (2, 34, 38, 39)),
          "capabilities %s" % status["CapEff"])
    containers.wait_for("the agent does not end: " + container.log(),
                        lambda: not container.alive(), seconds + 30)
    check(os.path.exists(os.path.join(out, "x.folded")), "no profile: " + container.log())
    shutil.copy(os.path.join(out, "x.folded"), context.path("x.folded"))
    shutil.copy(os.path.join(out, "x.json"), context.path("x.json"))
    return container.log()


@test(modes=("root",))
def agent_in_container(context):
    """The agent as a DaemonSet has it: RuntimeDefault, four capabilities, the node's files at /host."""
    containerd = containers.start(context)
    symbols = context.target("calls_gO2").path
    image = containerd.image("app", [
        containers.base_layer(), containers.python_layer(),
        containers.Layer().program(symbols, "/app/incontainer").file("/app/train.py",
                                                                     SCRIPT.encode())
        .link("/usr/bin/pyagent", "python3")], user=UID)
    containerd.run(image, ["/app/incontainer", "60"])
    containerd.run(image, ["/usr/bin/pyagent", "/app/train.py"])
    onnode = shutil.copy(symbols, context.path("onnode"))
    context.spawn([onnode, "60"])
    record_in(context, containerd, ["--host-root", "/host"], [("/", "/host", "ro")])
    check_exact(context, [Watched("incontainer", symbols, "calls"),
                          Watched("onnode", symbols, "calls")], "x.folded")
    check_python(context, "pyagent", "x.folded", "train.py")


@test()
def nested(context):
    """kind: containerd and the agent in a pid and a mount namespace of their own."""
    symbols = context.target("calls_gO2").path
    exports = context.target("calls_gO2rdyn").path
    memory = mounted(context, "memory", "tmpfs")
    shutil.copy(symbols, os.path.join(memory, "cmemory"))
    containerd = containers.start(context, nested=True)
    image = containerd.image("app", [
        containers.base_layer(), containers.python_layer(),
        containers.Layer().program(symbols, "/app/incontainer").file("/app/train.py",
                                                                     SCRIPT.encode())
        .copy(exports, "/app/exports").link("/usr/bin/pynested", "python3")], user=UID)
    containerd.run(image, ["/data/cmemory", "60"], env=environment(context),
                   volumes=[(memory, "/data", "ro")])
    containerd.run(image, ["/bin/sh", "-c", "/bin/busybox cp /app/exports /scratch/cprivate && "
                           "exec /scratch/cprivate 60"], env=environment(context), options=SCRATCH)
    inside = containerd.run(image, ["/app/incontainer", "60"], env=environment(context))
    containerd.run(image, ["/usr/bin/pynested", "/app/train.py"], env=environment(context))
    runs(inside, "incontainer")
    done = subprocess.run([*containerd.enter(), *context.as_bpfprof(
        [BPFPROF, "record", "-F", HZ, "-d", SECONDS, "--host-root", "/", "-o",
         context.path("x.folded"), "--stats", context.path("x.json")])],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
    check(done.returncode == 0, done.stdout.decode()[-2000:])
    check_exact(context, [Watched(name, symbols, "calls") for name in
                          ("incontainer", "cmemory", "cprivate")], "x.folded")
    check_python(context, "pynested", "x.folded", "train.py")


@test()
def btrfs(context):
    """A file system without inode handles that we could make: rootfs and layers are found by mounts."""
    disk = context.path("disk")
    with open(disk, "wb") as file:
        file.truncate(400 << 20)
    subprocess.run(["mkfs.btrfs", "--quiet", disk], check=True, stdout=subprocess.DEVNULL)
    folder = mounted(context, "btrfs", "btrfs", "-o", "loop", disk)
    os.chmod(folder, 0o755)
    containerd = containers.start(context, os.path.join(folder, "containerd"))
    symbols = context.target("calls_gO2").path
    layers_of = [containers.base_layer(), containers.python_layer(),
                 containers.Layer().program(symbols, "/app/incontainer")
                 .file("/app/train.py", SCRIPT.encode())]
    watched = []
    for snapshotter in ("overlayfs", "btrfs"):
        name = snapshotter[:5]
        top = containers.Layer().copy(symbols, "/app/c" + name, 0o755)
        top.link("/usr/bin/py" + name, "python3")
        image = containerd.image(name, [*layers_of, top], user=UID, snapshotter=snapshotter)
        for argv in (["/app/c" + name, "60"], ["/usr/bin/py" + name, "/app/train.py"]):
            container = containerd.run(image, argv, env=environment(context),
                                       snapshotter=snapshotter)
            watched += ["-p", container.pid]
    record(context, "x", 6, options=watched)
    check_exact(context, [Watched(name, symbols, "calls") for name in ("coverl", "cbtrfs")],
                "x.folded")
    for name in ("pyoverl", "pybtrfs"):
        check_python(context, name, "x.folded", "train.py")


@test()
def comes_and_goes(context):
    """Pods that are made and wholly removed while recording are walked and named."""
    containerd = containers.start(context)
    symbols = context.target("calls_gO2").path
    names = ["cgoes%d" % number for number in range(3)]
    app = containers.Layer().program(symbols, "/app/incontainer")
    for name in names:
        app.copy(symbols, "/app/" + name, 0o755)
    image = containerd.image("app", [containers.base_layer(), app], user=UID)

    def pods():
        for name in names:
            container = containerd.run(image, ["/app/" + name, "60"], env=environment(context))
            time.sleep(1.2)
            container.remove()
            check(not os.path.exists(container.bundle), "the bundle is still there")
    record(context, "x", 9, start=pods)
    check_exact(context, [Watched(name, symbols, "calls") for name in names], "x.folded",
                least=STARTED)
