# SPDX-License-Identifier: Apache-2.0
"""daemon --split pod: a folder per pod, each sample in one of them, and no other pod's names in it."""

import contextlib
import glob
import os
import secrets
import signal
import time

import containers
from daemons import Daemon, NAME, busy, check_files, check_seconds, get, metrics_of, profiles, stored
from harness import CAPS, Failure, check, test
from pprof import Pprof
from test_push import Server, TARGET

BESIDE = True
RUN = secrets.token_hex(3)
ML = "ml-" + RUN


def image(containerd, context):
    layer = containers.base_layer()
    layer.program(context.target("calls_gO2").path, "/app/busy")
    return containerd.image("split", [layer])


def folders(output):
    """{"NAMESPACE/POD": path} of those that hold files."""
    found = {}
    for namespace in os.listdir(output):
        path = os.path.join(output, namespace)
        with contextlib.suppress(OSError):  # no folder, or gone meanwhile
            for pod in os.listdir(path):
                if os.listdir(os.path.join(path, pod)):
                    found[namespace + "/" + pod] = os.path.join(path, pod)
    return found


def pods_of(profile):
    return {sample["labels"].get("pod") for sample in profile.samples}


def wait_for_folder(daemon, name, sets=1, timeout=20):
    """The path of a pod's folder, once so many sets are in it."""
    end = time.monotonic() + timeout
    while True:
        path = os.path.join(daemon.output, name)
        if os.path.isdir(path) and len(stored(path)) >= sets:
            return path
        if time.monotonic() > end:
            raise Failure("no %d sets in %s: %s, %s" % (sets, name, folders(daemon.output),
                                                       daemon.lines()[-2:]))
        time.sleep(0.1)


@test(modes=CAPS)
def pods(context):
    """Two containers of one pod in one folder, another pod in its own, the node's beside them."""
    containerd = containers.start(context)
    full = image(containerd, context)
    program = busy(context)
    two = containers.Pod("two-containers", ML)
    for name in ("main", "sidecar"):
        containerd.run(full, ["/app/busy", "60"], name=name, pod=two)
    one = containerd.run(full, ["/app/busy", "60"], pod=containers.Pod("one.example", ML))
    server = Server(context)
    daemon = Daemon(context, "--split", "pod", "--push", server.url, listen="127.0.0.1:0")
    port = int(daemon.wait("listening")[0]["port"])
    paths = {name: wait_for_folder(daemon, ML + "/" + name, 4)
             for name in ("two-containers", "one.example")}
    one.remove()
    text = get(port, "/metrics")[2]
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    for name, path in paths.items():
        check_files(path)
        check(check_seconds(path), "no seconds in " + path)
        for profile in profiles(path):
            check(pods_of(profile) == {name}, "%s holds %s" % (name, pods_of(profile)))
            check("rest_of: node" in profile.comments, profile.comments[:3])
            total = sum(sample["values"][0] for sample in profile.samples)
            check(profile.stats["samples"]["total"] == total, profile.stats)
            names = {label for sample in profile.samples for label in sample["labels"].values()}
            check(program.pid not in names, "the node's process is in a pod's file")
            others = [mapping["path"] for mapping in profile.mappings.values()
                      if mapping["path"] not in ("/app/busy", "[kernel.kallsyms]", "[vdso]") and
                      "/ld-" not in mapping["path"] and "/lib" not in mapping["path"]]
            check(not others, "%s: %s" % (others, path))
    containers_seen = {sample["labels"]["container"] for profile in
                       profiles(paths["two-containers"]) for sample in profile.samples}
    check(containers_seen == {"main", "sidecar"}, containers_seen)
    # The node's: each interval, and nothing of pods.
    check_files(daemon.output)
    node = profiles(daemon.output)
    ends = [profile.scalars[9] + profile.scalars[10] for profile in node]
    check(ends[:-1] == [profile.scalars[9] for profile in node[1:]], "they do not abut")
    check(all(pods_of(profile) <= {None} for profile in node), "a pod's samples are in the node's")
    seen = sum(sample["values"][0] for profile in node for sample in profile.samples
               if sample["labels"].get("pid") == program.pid)
    check(seen > 50, "%d samples of the node's program" % seen)
    figures = metrics_of(text)
    check(figures["bpfprof_pod_profiles_written_total"] >= 8, figures)
    check(figures["bpfprof_pod_profile_write_errors_total"] == 0, figures)
    check(figures["bpfprof_pod_folders_unread"] == 0, figures)
    # report takes the folders of pods, too, and chooses a pod's samples out of all.
    for name, path in paths.items():
        context.bpfprof("report", daemon.output, "--pod", ML + "/" + name, "-o", "pod.pb.gz").expect(0)
        found = Pprof(context.read("pod.pb.gz")).samples
        check(sum(sample["values"][0] for sample in found) == sum(
            sample["values"][0] for profile in profiles(path) for sample in profile.samples), name)
    # The seconds of the pod, one by one, are all of it; the first interval has more than one, or a part.
    first, last = node[0].scalars[9] // 10**9, ends[-1] // 10**9
    nr = 0
    for second in range(first, last + 1):
        context.bpfprof("report", daemon.output, "--pod", ML + "/" + name, "--at", second, "--for", 1, "-o", "pod.pb.gz")
        with contextlib.suppress(FileNotFoundError):  # no sample in that second
            nr += sum(sample["values"][0] for sample in Pprof(context.read("pod.pb.gz")).samples)
            os.unlink(context.path("pod.pb.gz"))
    check(nr == sum(sample["values"][0] for sample in found), "%d of the pod in all seconds" % nr)
    # Each file was pushed once, with the labels of its folder.
    wanted = {}
    for name, path in {**folders(daemon.output), "": daemon.output}.items():
        for files in stored(path).values():
            with open(files[".pb.gz"], "rb") as file:
                wanted[file.read()] = name
    check(len(server.requests) == len(wanted), "%d pushed, %d files" %
          (len(server.requests), len(wanted)))
    for request in server.requests:
        namespace, _, pod = wanted[request.body].partition("/")
        check(TARGET.match(request.line.split(" ")[1]), request.line)
        label = "%%2Cnamespace%%3D%s%%2Cpod%%3D%s%%7D" % (namespace, pod)
        check(label in request.line if pod else "pod" not in request.line, request.line)
        start = Pprof(request.body).scalars[9] // 10**9
        check(int(request.target[1]) == start, "from %s, not %d" % (request.target[1], start))
    context.note("%d files of pods, %d of the node" %
                 (len(wanted) - len(node), len(node)))


@test(modes=CAPS)
def memory(context):
    """daemon --memory: what a pod holds is in its folder, a pod without samples too, and not in the node's files."""
    containerd = containers.start(context)
    full = image(containerd, context)
    program = busy(context)
    pids = {}
    for name, argv in (("one.example", ["/app/busy", "60"]), ("asleep", ["/bin/busybox", "sleep", "60"])):
        pids[name] = containerd.run(full, argv, pod=containers.Pod(name, ML)).pid
    daemon = Daemon(context, "--memory", "--split", "pod", interval="2s")
    paths = {name: wait_for_folder(daemon, ML + "/" + name, 2) for name in pids}
    check(daemon.end() == 0, "exit status of the daemon")

    def held(path):
        """{pod: {pids}} of the last set but one, and the time line of its page."""
        files = sorted(glob.glob(os.path.join(path, "memory-*.pb.gz")))[:-1]
        check(files, "no memory in %s" % os.listdir(path))
        with open(files[-1], "rb") as file:
            profile = Pprof(file.read())
        found = {}
        for sample in profile.samples:
            found.setdefault(sample["labels"].get("pod"), set()).add(sample["labels"]["pid"])
        check(sum(sample["values"][1] for sample in profile.samples) > 0, "nothing held")
        with open(files[-1].replace(".pb.gz", ".html"), encoding="utf-8") as file:
            return found, file.read()

    for name, path in paths.items():
        found, page = held(path)
        # runc's own first process may still be there.
        check(set(found) == {name} and pids[name] in found[name], "%s: %s" % (name, found))
        check('"timeline":{' in page and "peak" in page, "no time line")
    found, _ = held(daemon.output)
    check(set(found) == {None} and program.pid in found[None], "the node: %s" % found)


@test(lock="pods")
def recorded(context):
    """record --split pod: the same folders beside the file of what lives in no pod."""
    containerd = containers.start(context)
    full = image(containerd, context)
    program = busy(context)
    for name in ("one.example", "two"):
        containerd.run(full, ["/app/busy", "60"], pod=containers.Pod(name, ML))
    context.bpfprof("record", "-d", "3", "-F", "299", "--split", "pod", "-o", "out/x.folded", "-o",
                    "out/x.pb.gz").expect(0)
    found = {name: path for name, path in folders(context.path("out")).items()
             if name.startswith(ML)}
    check(set(found) == {ML + "/one.example", ML + "/two"}, found)
    for name, path in found.items():
        pod = name.partition("/")[2]
        profile = Pprof(context.read(os.path.join(path, "x.pb.gz")))
        check(pods_of(profile) == {pod} and len(profile.samples) > 1, "%s: %s" % (name, pods_of(profile)))
        with open(os.path.join(path, "x.folded"), encoding="utf-8") as file:
            lines = file.read().splitlines()[1:]
        check(lines and all(line.startswith(name + "/") for line in lines), lines[:3])
    node = Pprof(context.read("out/x.pb.gz"))
    check(pods_of(node) == {None}, pods_of(node))
    check(any(sample["labels"].get("pid") == program.pid for sample in node.samples),
          "the node's program is missing")
    refused = context.bpfprof("record", "--split", "pod", "-o", "-", "--format", "folded")
    check(refused.status == 2 and "needs a file name" in refused.text, refused.text)


@test(modes=CAPS, lock="pods")
def hostile_names(context):
    """Slashes, dots, control bytes, 10 KB: folders below ours, and no honest pod's."""
    containerd = containers.start(context)
    full = image(containerd, context)
    key = "io.kubernetes.cri.sandbox-"
    hostile = [("..", ".."), ("/etc", "x/../../../up"), (ML, "a\tb\x1b[2J"), (ML, "x" * 10000),
               (ML, ".hidden"), ("latest.html", "x"), (ML, "ok_not")]
    for namespace, name in hostile:
        containerd.run(full, ["/app/busy", "60"], pod=containers.Pod("p", ML),
                       annotations={key + "namespace": namespace, key + "name": name})
    containerd.run(full, ["/app/busy", "60"], pod=containers.Pod("honest", ML))
    before = sorted(os.listdir(context.dir))
    outer = context.scratch("outer", 0o755)
    daemon = Daemon(context, "--split", "pod", output=os.path.join(outer, "out"))
    wait_for_folder(daemon, ML + "/honest", 3)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    found = folders(daemon.output)
    context.note(" ".join(sorted(name if len(name) < 50 else name[:40] + "..." for name in found)))
    check(set(os.listdir(context.dir)) - set(before) <= {"outer", "log"}, os.listdir(context.dir))
    check(os.listdir(outer) == ["out"], os.listdir(outer))
    ours = {name: path for name, path in found.items()
            if pods_of(profiles(path)[0]) - {None} and "busy" in str(
                [sample["labels"]["comm"] for sample in profiles(path)[0].samples])}
    check(len(ours) >= len(hostile) + 1, sorted(ours))
    for name, path in ours.items():
        check_files(path)
        check(name == ML + "/honest" or "_" in name, "%r could be a pod's" % name)
        check(name.isprintable() and name.isascii() and "/." not in "/" + name, repr(name))
        for profile in profiles(path):
            check(len(pods_of(profile)) == 1, "%s holds %s" % (name, pods_of(profile)))
    check_files(daemon.output)
    check(not daemon.said("profiles of pods not written"), "not all were written")


@test(modes=CAPS)
def retention_of_pods(context):
    """The limit holds for all folders together; pods that are gone go with their last set."""
    containerd = containers.start(context)
    full = image(containerd, context)
    gone = containerd.run(full, ["/app/busy", "60"], pod=containers.Pod("gone", ML))
    containerd.run(full, ["/app/busy", "60"], pod=containers.Pod("stays", ML))
    output = context.scratch("out", 0o755)
    saved = os.path.join(output, "saved", "monday")
    os.makedirs(saved)
    with open(os.path.join(saved, "cpu-20200101T000000Z-60s.html"), "wb") as file:
        file.write(bytes(1 << 20))
    daemon = Daemon(context, "--split", "pod", "--retain-bytes", "1M", "--retain-age", "6s",
                    output=output)
    path = wait_for_folder(daemon, ML + "/gone", 2)
    gone.remove()
    over, most = 0, 0
    end = time.monotonic() + 40
    while os.path.exists(path) or len(daemon.said("profile written")) < 12:
        check(time.monotonic() < end, "still there: %s" % sorted(folders(output)))
        total = 0
        for folder in [output, *folders(output).values()]:
            if folder != saved:
                with contextlib.suppress(OSError):
                    for name in filter(NAME.match, os.listdir(folder)):
                        total += os.lstat(os.path.join(folder, name)).st_size
        over = over + 1 if total > 1 << 20 else 0
        most = max(most, total)
        check(over * 0.1 < 1, "over the limit for a second: %d" % total)
        for link in ("latest.html", ML + "/stays/latest.html"):
            link = os.path.join(output, link)
            check(not os.path.islink(link) or os.path.exists(link), link + " leads to nothing")
        time.sleep(0.1)
    # Killed while it writes, again and again: whole files, and no temporary after the next start.
    for _ in range(3):
        daemon.end(signal.SIGKILL)
        check_files(os.path.join(output, ML, "stays"), complete=False)
        check_files(output, complete=False)
        count = len(daemon.said("profile written"))
        daemon = Daemon(context, "--split", "pod", "--retain-age", "6s", output=output)
        daemon.wait("profile written", count + 1)
        time.sleep(0.3)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    left = [name for _, _, names in os.walk(output) for name in names if name.endswith(".tmp")]
    check(not left, "temporaries are left: %s" % left)
    check(os.path.getsize(os.path.join(saved, "cpu-20200101T000000Z-60s.html")) == 1 << 20,
          "somebody else's file was touched")
    context.note("at most %d bytes" % most)


@test(modes=CAPS)
def in_the_way(context):
    """A file or a link where a pod's folder should be: that pod is said to be missing, others are not."""
    containerd = containers.start(context)
    full = image(containerd, context)
    for name in ("linked", "fine"):
        containerd.run(full, ["/app/busy", "60"], pod=containers.Pod(name, ML))
    output = context.scratch("out", 0o755)
    elsewhere = context.scratch("elsewhere", 0o755)
    os.mkdir(os.path.join(output, ML))
    os.symlink(elsewhere, os.path.join(output, ML, "linked"))
    daemon = Daemon(context, "--split", "pod", output=output)
    wait_for_folder(daemon, ML + "/fine", 2)
    failed = daemon.wait("profiles of pods not written")
    check(failed[0]["pods"] == 1 and "directory" in failed[0]["error"], failed[0])
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    check(not os.listdir(elsewhere), "a link was followed")
    check_files(output)
