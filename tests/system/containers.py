# SPDX-License-Identifier: Apache-2.0
"""Real containers for the tests: an own containerd, images made of files, pods as a kubelet has them.

start(context) gives a Containerd that lives below the test's folder and goes with the test: its
containers, shims, mounts and cgroups too, also when the test fails. Images are made here from
layers and imported; nothing is fetched. A container gets what the CRI plugin would give it:
annotations, a cgroup path with the pod's uid, an id of 64 hex digits.
"""

import contextlib
import errno
import functools
import hashlib
import io
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import uuid

from harness import Failure, check

NAMESPACE = "k8s.io"
CGROUPS = "/sys/fs/cgroup"
CONFIG = """version = 2
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = [{cri}"io.containerd.internal.v1.opt",
	"io.containerd.snapshotter.v1.aufs",
	"io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
	"io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
  address = "{folder}/c.sock"
[ttrpc]
  address = "{folder}/t.sock"
"""
CRI_PLUGIN = '"io.containerd.grpc.v1.cri", '
NESTED = ["unshare", "--fork", "--kill-child", "--pid", "--mount", "--mount-proc"]
# The environment of every container of KubeRay; its secrets must never be shown.
RAY = {
    "RAY_CLUSTER_NAME": "train-cluster", "RAY_CLUSTER_NAMESPACE": "ml",
    "RAY_NODE_TYPE_NAME": "gpu-group", "RAY_PORT": "6379", "RAY_USAGE_STATS_KUBERAY_IN_USE": "1",
}
SECRETS = {"REDIS_PASSWORD": "s3cret-redis-7f31", "RAY_AUTH_TOKEN": "s3cret-token-91ce"}


def wait_for(what, done, timeout):
    """done() until it is true; the last value."""
    end = time.monotonic() + timeout
    while not done():
        if time.monotonic() > end:
            raise Failure("%s: not within %.0f s" % (what, timeout))
        time.sleep(0.02)


class Layer:
    """One layer of an image: what it adds and what it takes away."""

    def __init__(self):
        self.buffer = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.buffer, mode="w", format=tarfile.PAX_FORMAT)
        self.folders = set()

    def entry(self, path, mode, owner):
        info = tarfile.TarInfo(path.lstrip("/"))
        info.mode, info.mtime = mode, 1700000000
        info.uid, info.gid = owner
        return info

    def parents(self, path):
        """The folders above path, as tar wants them: each before what is in it."""
        parts = path.strip("/").split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            self.folder("/" + "/".join(parts[:depth]))

    def folder(self, path, mode=None, owner=(0, 0)):
        path = "/" + path.strip("/")
        mode = mode or (0o1777 if path == "/tmp" else 0o755)
        if path != "/" and path not in self.folders:
            self.parents(path)
            self.folders.add(path)
            info = self.entry(path, mode, owner)
            info.type = tarfile.DIRTYPE
            self.tar.addfile(info)
        return self

    def file(self, path, content, mode=0o644, owner=(0, 0)):
        """content: bytes."""
        self.parents(path)
        info = self.entry(path, mode, owner)
        info.size = len(content)
        self.tar.addfile(info, io.BytesIO(content))
        return self

    def copy(self, source, path=None, mode=None, owner=(0, 0)):
        """A file of the machine, by default under its own path."""
        with open(source, "rb") as file:
            content = file.read()
        return self.file(path or source, content, mode or os.stat(source).st_mode & 0o777, owner)

    def link(self, path, target):
        self.parents(path)
        info = self.entry(path, 0o777, (0, 0))
        info.type, info.linkname = tarfile.SYMTYPE, target
        self.tar.addfile(info)
        return self

    def delete(self, path):
        """Takes away a file of a lower layer."""
        folder, _, name = path.rpartition("/")
        return self.file(folder + "/.wh." + name, b"")

    def program(self, source, path=None, owner=(0, 0)):
        """A program of the machine, with the libraries and the loader that it needs."""
        for library in libraries(source):
            self.copy(os.path.realpath(library), library)
        return self.copy(source, path, 0o755, owner)

    @functools.cached_property
    def bytes(self):
        self.tar.close()
        return self.buffer.getvalue()


@functools.lru_cache(maxsize=None)
def libraries(program):
    """Paths of the shared libraries of a program and of its loader; none if it is static."""
    done = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, check=False)
    return tuple(sorted(set(re.findall(r"(/\S+) \(0x", done.stdout))))


def libraries_of_bpfprof(program):
    """Those, and libmicrohttpd with its own, which `bpfprof daemon` loads itself."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], stdout=subprocess.PIPE, text=True, check=True).stdout
    http = re.search(r"libmicrohttpd\.so\.12 \(.*x86-64.*\) => (/\S+)", listed)[1]
    return tuple(sorted({http, *libraries(http), *libraries(program)}))


def base_layer():
    """A shell and the folders that programs expect."""
    layer = Layer().copy("/bin/busybox", mode=0o755).link("/bin/sh", "busybox").link("/bin/env", "busybox")
    layer.file("/etc/passwd", b"root:x:0:0::/:/bin/sh\nray:x:1000:100::/home/ray:/bin/sh\n")
    layer.file("/etc/group", b"root:x:0:\nusers:x:100:\n")
    for folder in ("/proc", "/sys", "/dev", "/run", "/etc"):
        layer.folder(folder)
    return layer.folder("/tmp")


def python_layer(modules=(), home="/usr", owner=(0, 0), mode=0o755):
    """The machine's Python with what it needs to start and to import modules, below home."""
    python = os.path.realpath(shutil.which("python3", path="/usr/bin") or "/usr/bin/python3")
    ask = ("import sys, sysconfig, %s\n"
           "print(sysconfig.get_path('stdlib'))\n"
           "for m in sorted(sys.modules):\n"
           "    print(getattr(sys.modules[m], '__file__', None) or '')" %
           ", ".join(["site", "encodings.utf_8", "encodings.ascii", *modules]))
    done = subprocess.run([python, "-I", "-c", ask], stdout=subprocess.PIPE, text=True, check=True)
    stdlib, *files = done.stdout.splitlines()
    layer = Layer()
    if home != "/usr":
        layer.folder(home, mode, owner)
    layer.program(python, home + "/bin/python3", owner)
    for path in sorted(set(files)):
        if path.startswith(stdlib + "/") and os.path.isfile(path):
            layer.copy(path, home + path.removeprefix("/usr"), owner=owner)
        for library in libraries(path) if path.endswith(".so") else ():
            layer.copy(os.path.realpath(library), library)
    return layer


def image_archive(name, layers, user=None, env=None, argv=None):
    """An image as `ctr images import` takes it: an OCI layout in a tar file."""
    blobs = {}

    def blob(content, kind):
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + digest,
                "size": len(content)}

    stored = [blob(layer.bytes, "layer.v1.tar") for layer in layers]
    config = {"architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine],
              "os": "linux",
              "config": {"Env": ["PATH=/usr/bin:/bin"] + ["%s=%s" % item
                                                         for item in (env or {}).items()],
                         "User": user or "", "WorkingDir": "/", "Cmd": argv},
              "rootfs": {"type": "layers", "diff_ids": [one["digest"] for one in stored]},
              "history": []}
    manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "config": blob(json.dumps(config).encode(), "config.v1+json"), "layers": stored}
    described = blob(json.dumps(manifest).encode(), "manifest.v1+json")
    described["annotations"] = {"io.containerd.image.name": name}
    files = {"oci-layout": json.dumps({"imageLayoutVersion": "1.0.0"}).encode(),
             "index.json": json.dumps({"schemaVersion": 2, "manifests": [described]}).encode()}
    files.update(("blobs/sha256/" + digest, content) for digest, content in blobs.items())
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, content in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


class Pod:
    """The sandbox that containers of one pod share; Containerd.run() runs them."""

    def __init__(self, name="worker-0", namespace="ml"):
        self.name = name
        self.namespace = namespace
        self.uid = str(uuid.uuid4())
        self.sandbox = secrets.token_hex(32)

    def annotations(self, container, image):
        prefix = "io.kubernetes.cri."
        values = {"container-type": "container", "container-name": container,
                  "image-name": image, "sandbox-id": self.sandbox, "sandbox-name": self.name,
                  "sandbox-namespace": self.namespace, "sandbox-uid": self.uid}
        return {prefix + key: value for key, value in values.items()}


class Container:
    """A running container."""

    def __init__(self, containerd, identity, pid, cgroup):
        self.containerd = containerd
        self.id = identity
        self.pid = pid  # of its first process, as the node sees it
        self.cgroup = cgroup
        self.bundle = os.path.join(containerd.bundles, identity)
        self.rootfs = os.path.join(self.bundle, "rootfs")

    def path(self, path):
        """Where a file of the container's own file system is on the node."""
        return self.rootfs + path

    def log(self):
        with contextlib.suppress(OSError), \
                open(self.containerd.log_path(self.id), encoding="utf-8", errors="replace") as file:
            return file.read()
        return ""

    def pids(self):
        """All of its processes, the first one included, as the node sees them."""
        for controller in ("unified", "pids", ""):
            try:
                with open(os.path.join(CGROUPS, controller, self.cgroup.strip("/"),
                                       "cgroup.procs"), encoding="ascii") as file:
                    return sorted(map(int, file.read().split()))
            except OSError:
                continue
        return []

    def execute(self, *argv, user=None):
        """Starts another process in it and returns at once."""
        words = ["tasks", "exec", "--detach", "--exec-id", secrets.token_hex(4)]
        if user:
            words += ["--user", user]
        self.containerd.ctr(*words, self.id, *argv)

    def ask(self, *argv, user=None, env=None, timeout=60):
        """Runs another process in it to its end: (exit status, standard output, standard error), as texts."""
        words = ["ctr", "--address", self.containerd.socket, "--namespace", NAMESPACE, "tasks", "exec",
                 "--exec-id", secrets.token_hex(4), *(["--user", user] if user else []), self.id,
                 "/bin/env", *("%s=%s" % item for item in (env or {}).items()), *map(str, argv)]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=timeout, check=False)
        return (done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace"))

    def alive(self):
        """Does its first process run?"""
        try:
            with open("/proc/%d/stat" % self.pid, encoding="utf-8", errors="replace") as file:
                return file.read().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def remove(self):
        """The whole pod is gone: process, bundle, mounts, snapshot, cgroup."""
        self.kill()
        self.containerd.delete(self.id)


class Containerd:
    """One containerd with folders of its own."""

    def __init__(self, folder, nested=False, extra=None):
        self.folder = folder
        self.nested = nested
        self.socket = os.path.join(folder, "c.sock")
        self.bundles = os.path.join(folder, "state", "io.containerd.runtime.v2.task", NAMESPACE)
        self.ids = {}  # of containers: their cgroups
        for program in ("containerd", "ctr", "runc", "containerd-shim-runc-v2"):
            check(shutil.which(program), "containers: there is no %s: tests/install-deps" % program)
        os.makedirs(folder)
        with open(os.path.join(folder, "config.toml"), "w", encoding="utf-8") as file:
            file.write(CONFIG.format(folder=folder, cri="" if extra else CRI_PLUGIN))
            file.write((extra or "").format(folder=folder))
        self.output = os.path.join(folder, "containerd.log")
        with open(self.output, "wb") as log:
            self.process = subprocess.Popen(
                [*(NESTED if nested else []), "containerd", "--config",
                 os.path.join(folder, "config.toml")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def failure(self, text):
        with open(self.output, encoding="utf-8", errors="replace") as file:
            return Failure("%s\ncontainerd said:\n%s" % (text, file.read()[-3000:]))

    def ready(self):
        """Waits until it answers."""
        end = time.monotonic() + 20
        while not os.path.exists(self.socket):
            if self.process.poll() is not None:
                raise self.failure("containerd ended with %d" % self.process.returncode)
            if time.monotonic() > end:
                raise self.failure("containerd made no socket within 20 s")
            time.sleep(0.02)
        self.ctr("version")

    def ctr(self, *args, **kwargs):
        """Runs ctr; its standard output."""
        argv = ["ctr", "--address", self.socket, "--connect-timeout", "5s", "--namespace", NAMESPACE, *map(str, args)]
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                              check=False, **kwargs)
        if done.returncode:
            raise self.failure("%s: exit status %d\n%s" % (
                " ".join(argv), done.returncode, done.stderr.decode("utf-8", "replace")))
        return done.stdout.decode("utf-8", "replace")

    def image(self, name, layers, user=None, env=None, snapshotter="overlayfs", argv=None):
        """Makes an image of layers, the lowest first. Its full name."""
        full = "registry.test/%s:1" % name
        path = os.path.join(self.folder, "image.tar")
        with open(path, "wb") as file:
            file.write(image_archive(full, layers, user, env, argv))
        self.ctr("images", "import", "--snapshotter", snapshotter, path)
        os.unlink(path)
        return full

    def log_path(self, identity):
        return os.path.join(self.folder, identity + ".log")

    def run(self, image, argv, name="ray-worker", pod=None, env=None, volumes=(), options=(),
            cgroup=None, identity=None, annotations=None, snapshotter="overlayfs"):
        """
        Starts a container. volumes: (folder of the node, path in the container, "ro" or "rw").
        annotations: over those of the CRI plugin; a value of None takes one away. options: of
        ctr run. A container without a pod is of one of its own.
        """
        pod = pod or Pod()
        identity = identity or secrets.token_hex(32)
        cgroup = cgroup or "/kubepods/burstable/pod%s/%s" % (pod.uid, identity)
        notes = {**pod.annotations(name, image), **(annotations or {})}
        words = ["run", "--detach", "--snapshotter", snapshotter, "--cgroup", cgroup,
                 "--runc-root", os.path.join(self.folder, "runc"),
                 "--log-uri", "file://" + self.log_path(identity),
                 "--pid-file", os.path.join(self.folder, identity + ".pid"), *options]
        for key, value in notes.items():
            words += ["--annotation", "%s=%s" % (key, value)] if value is not None else []
        for key, value in {**RAY, **SECRETS, **(env or {})}.items():
            words += ["--env", "%s=%s" % (key, value)]
        for source, target, mode in volumes:
            words += ["--mount", "type=bind,src=%s,dst=%s,options=rbind:%s" %
                      (source, target, mode)]
        self.ids[identity] = cgroup
        self.ctr(*words, image, identity, *argv)
        pid = int(_text(os.path.join(self.folder, identity + ".pid")))
        return Container(self, identity, self.node_pid(pid), cgroup)

    def node_pid(self, pid):
        """The number here of a process that has that one in containerd's pid namespace."""
        if not self.nested:
            return pid
        for name in filter(str.isdigit, _listing("/proc")):
            numbers = re.search(r"^NSpid:\s*(.*)$", _text("/proc/%s/status" % name), re.MULTILINE)
            depth = numbers.group(1).split() if numbers else []
            if len(depth) > 1 and depth[1] == str(pid) and self.is_below(int(name)):
                return int(name)
        raise self.failure("no process %d below containerd" % pid)

    def is_below(self, pid):
        """Is the process in the pid namespace of the nested containerd?"""
        while pid > 1 and pid != self.process.pid:
            found = re.search(r"^PPid:\s*(\d+)$", _text("/proc/%d/status" % pid), re.MULTILINE)
            pid = int(found.group(1)) if found else 0
        return pid == self.process.pid

    def enter(self):
        """Words before a command that run it where the nested containerd is."""
        return ["nsenter", "--pid", "--mount", "--target", str(_children(self.process.pid)[0])]

    def delete(self, identity):
        """Removes a container whose first process was killed."""
        def gone():
            try:
                self.ctr("tasks", "delete", "--force", identity)
            except Failure as failure:
                if self.process.poll() is not None:
                    raise
                return "not found" in str(failure)
            return True
        wait_for("deleting container " + identity[:12], gone, 10)
        with contextlib.suppress(Failure):
            self.ctr("containers", "delete", identity)
        remove_cgroups(self.ids.pop(identity))

    def shims(self):
        """Processes that were started with our socket as an argument."""
        wanted, found = os.fsencode(self.socket), []
        for name in _listing("/proc"):
            with contextlib.suppress(OSError), open("/proc/%s/cmdline" % name, "rb") as file:
                if name.isdigit() and wanted in file.read().split(b"\0"):
                    found.append(int(name))
        return found

    def close(self):
        """Nothing of it is left, in whatever state it is."""
        bundles = [os.path.join(self.bundles, one) for one in _listing(self.bundles)]
        sockets = [_text(os.path.join(one, "address")).removeprefix("unix://") for one in bundles]
        for one in bundles:
            _kill(_text(os.path.join(one, "init.pid")))
        for identity in list(self.ids):
            if self.process.poll() is None:
                with contextlib.suppress(Failure, subprocess.TimeoutExpired):
                    self.delete(identity)
        self.process.kill()
        self.process.wait()
        for pid in self.shims():  # of containers that could not be deleted
            _kill(pid)
        for cgroup in self.ids.values():
            remove_cgroups(cgroup)
        for mount in reversed(mounts_below(self.folder)):
            subprocess.run(["umount", "-l", mount], stderr=subprocess.DEVNULL, check=False)
        for path in sockets:
            with contextlib.suppress(OSError):
                os.unlink(path)
        shutil.rmtree(self.folder, ignore_errors=True)


def _listing(folder):
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _text(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _children(pid):
    return list(map(int, _text("/proc/%d/task/%d/children" % (pid, pid)).split()))


def _kill(pid):
    with contextlib.suppress(ProcessLookupError, ValueError):
        os.kill(int(pid), signal.SIGKILL)


def mounts_below(folder):
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        points = [line.split()[4] for line in file]
    return [point for point in points if point.startswith(folder + "/")]


def remove_cgroups(cgroup):
    """The folder of a cgroup path, and those above that are empty then, in every hierarchy."""
    for controller in ["", *_listing(CGROUPS)]:
        path = cgroup.strip("/")
        while path:
            try:
                os.rmdir(os.path.join(CGROUPS, controller, path))
            except OSError as error:
                if error.errno != errno.ENOENT:
                    break
            path = os.path.dirname(path)


def start(context, folder=None, nested=False, extra=None):
    """
    A containerd for one test, gone at its end. folder: where its files are, made here.
    nested: in a pid and a mount namespace of its own, as the node container of kind.
    extra: more of its configuration, for the CRI plugin, which is off without it.
    """
    # A user who ends the tests wants no containers left: contexts are closed then.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    containerd = Containerd(folder or context.path("containerd"), nested, extra)
    context.stack.callback(containerd.close)
    containerd.ready()
    return containerd


# Capabilities that containerd gives by default; bpfprof is promised not to need them.
DEFAULT_CAPS = ("CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP "
                "NET_BIND_SERVICE SYS_CHROOT KILL AUDIT_WRITE").split()
AGENT_CAPS = ["BPF", "PERFMON", "DAC_READ_SEARCH", "SYSLOG"]


def agent_options():
    """Options of ctr run for an agent as a DaemonSet has it: hostPID, RuntimeDefault, four capabilities."""
    words = ["--seccomp", "--with-ns", "pid:/proc/%d/ns/pid" % os.getpid()]
    for name in DEFAULT_CAPS:
        words += ["--cap-drop", "CAP_" + name]
    for name in AGENT_CAPS:
        words += ["--cap-add", "CAP_" + name]
    return words
