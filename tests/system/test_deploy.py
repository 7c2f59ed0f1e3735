# SPDX-License-Identifier: Apache-2.0
"""deploy/k8s: what the manifests grant, and the image run by them as a node would do it."""

import contextlib
import json
import os
import pty
import re
import select
import shutil
import subprocess
import time

import containers
from harness import NOBODY, ROOT, check, test
from pprof import Pprof
from test_image import Archive, plain_image, same

K8S = os.path.join(ROOT, "deploy", "k8s")
BESIDE = True
OVERLAYS = ("containerd", "crio", "gpu-before-6.6", "k3s", "kind", "memory", "openshift",
            "podmonitor", "pyroscope", "s3", "watch")
CAPS = ["BPF", "DAC_READ_SEARCH", "PERFMON", "SYSLOG"]
ML = "ml-%d" % os.getpid()  # a namespace that no other run of the tests has
WORKER = ML + "/worker-0"
NARROW = ("containerd", "crio", "k3s", "openshift")  # not the whole node
SCRIPT = """\
import time
def inner(end):
    while time.process_time() < end:
        sum(range(1000))
def middle():
    inner(time.process_time() + 0.05)
class Trainer:
    def fit(self):
        middle()
while True:
    Trainer().fit()
"""


def kustomize(context, name):
    """The documents of base or of an overlay."""
    version = subprocess.run(["kubectl", "version", "--client"], stdout=subprocess.PIPE, check=True,
                             stderr=subprocess.STDOUT, text=True).stdout
    folder = K8S
    if re.search(r'Minor:"(1\d|20)\b', version):
        folder = older(context)
    path = os.path.join(folder, name if name == "base" else "overlays/" + name)
    done = subprocess.run(["kubectl", "kustomize", path], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)
    check(done.returncode == 0 and not done.stderr, "%s: %s" % (name, done.stderr))
    return documents_of(done.stdout)


def documents_of(text):
    """YAML by Debian's Python, whichever runs the tests."""
    done = subprocess.run(["/usr/bin/python3", "-c", "import json, sys, yaml\n"
                           "json.dump(list(yaml.safe_load_all(sys.stdin)), sys.stdout)"],
                          input=text, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def older(context):
    """A copy for kubectl before 1.21 (Debian 12), which knows the same by other names."""
    folder = context.path("k8s")
    if os.path.exists(folder):
        return folder
    shutil.copytree(K8S, folder)
    for top, _, files in os.walk(folder):
        if "kustomization.yaml" not in files:
            continue
        path = os.path.join(top, "kustomization.yaml")
        with open(path, encoding="utf-8") as file:
            text = documents_of(file.read())[0]
        text["bases"] = [one for one in text["resources"] if not one.endswith(".yaml")]
        text["resources"] = [one for one in text["resources"] if one.endswith(".yaml")]
        patches = text.pop("patches", [])
        text["patchesStrategicMerge"] = [one["path"] for one in patches if "target" not in one]
        text["patchesJson6902"] = [one for one in patches if "target" in one]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(text, file)  # that is YAML
    return folder


def of_kind(documents, kind):
    found = [one for one in documents if one["kind"] == kind]
    check(len(found) == 1, "%d of kind %s" % (len(found), kind))
    return found[0]


def pod_of(documents):
    return of_kind(documents, "DaemonSet")["spec"]["template"]["spec"]


def agent_of(documents):
    return next(one for one in pod_of(documents)["containers"] if one["name"] == "bpfprof")


def host_paths(pod):
    """{name of volume: path on the node}; there are no other kinds of volumes."""
    for volume in pod["volumes"]:
        same("kind of volume " + volume["name"], sorted(volume), ["hostPath", "name"])
    return {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"]}


def check_pod(pod, name):
    """What the whole pod has."""
    for key in ("hostNetwork", "hostIPC", "initContainers", "shareProcessNamespace"):
        check(not pod.get(key), "%s: %s" % (key, pod.get(key)))
    same("hostPID", pod["hostPID"], True)
    check(pod.get("hostUsers", True) is True, "hostUsers is false: no capability of the node then")
    same("token", pod["automountServiceAccountToken"], False)
    same("account", pod["serviceAccountName"], "bpfprof")
    same("services in the environment", pod["enableServiceLinks"], False)
    same("securityContext", pod["securityContext"], {
        "runAsUser": 0, "runAsGroup": 0, "seccompProfile": {"type": "RuntimeDefault"},
        "seLinuxOptions": {"type": "spc_t"}, **({"supplementalGroups": [9464]} if name == "s3" else {})})
    same("nodes", pod["nodeSelector"], {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"})
    same("tolerations", pod["tolerations"], [{"operator": "Exists"}])  # nvidia.com/gpu and all others
    check(pod["terminationGracePeriodSeconds"] >= 30, "no time to write the last interval")


def check_agent(pod, agent, name):
    """What the agent's container has."""
    caps = CAPS + (["SYS_ADMIN"] if name == "gpu-before-6.6" else [])
    security = dict(agent["securityContext"])
    capabilities = security.pop("capabilities")
    same("capabilities", sorted(capabilities), ["add", "drop"])
    same("dropped", capabilities["drop"], ["ALL"])
    same("added", sorted(capabilities["add"]), sorted(caps))
    same("securityContext", security, {
        "privileged": False, "readOnlyRootFilesystem": True,
        "allowPrivilegeEscalation": name == "gpu-before-6.6"})
    paths = host_paths(pod)
    writable = []
    for mount in agent["volumeMounts"]:
        source = paths[mount["name"]]
        if not mount.get("readOnly"):
            writable.append((source, mount["mountPath"]))
            check("mountPropagation" not in mount, str(mount))
            continue
        same("propagation", mount["mountPropagation"], "HostToContainer")
        same("place of " + source, mount["mountPath"].rstrip("/"), ("/host" + source).rstrip("/"))
    same("writable", writable, [("/var/lib/bpfprof", "/out")])
    same("the whole node", "/" in paths.values(), name not in NARROW)
    same("unused volumes", set(paths) - {one["name"] for one in agent["volumeMounts"]}, set())
    resources = agent["resources"]
    same("limits", sorted(resources["limits"]), ["memory"])
    same("requests", sorted(resources["requests"]), ["cpu", "memory"])
    same("ports", agent["ports"], [{"name": "metrics", "containerPort": 9464}])
    for probe, path in (("startupProbe", "/healthz"), ("readinessProbe", "/readyz"),
                        ("livenessProbe", "/healthz")):
        same(probe, agent[probe]["httpGet"], {"path": path, "port": "metrics"})
    slow = agent["livenessProbe"]["periodSeconds"] * agent["livenessProbe"]["failureThreshold"]
    check(slow >= 300, "a full disk must not start it again all the time")
    check("command" not in agent, "the image has no shell")
    same("environment", agent["env"], [
        {"name": "BPFPROF_HOST_ROOT", "value": "/host"},
        {"name": "BPFPROF_HOST", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}])
    same("configuration", agent["envFrom"],
         [{"configMapRef": {"name": "bpfprof", "optional": True}}])


def check_documents(documents, name):
    """All of one rendering: nothing that grants more than is said."""
    namespace = of_kind(documents, "Namespace")["metadata"]
    same("namespace", namespace["name"], "bpfprof")
    for mode in ("enforce", "audit", "warn"):
        same(mode, namespace["labels"]["pod-security.kubernetes.io/" + mode], "privileged")
    same("token", of_kind(documents, "ServiceAccount")["automountServiceAccountToken"], False)
    extra = {"kind": {"ConfigMap"}, "openshift": {"SecurityContextConstraints"},
             "podmonitor": {"PodMonitor", "PrometheusRule"}}.get(name, set())
    same("kinds", {one["kind"] for one in documents},
         {"Namespace", "ServiceAccount", "DaemonSet"} | extra)  # no roles
    for one in documents:
        check(one["kind"] in ("Namespace", "SecurityContextConstraints") or
              one["metadata"]["namespace"] == "bpfprof", "%s elsewhere" % one["kind"])
    spec = of_kind(documents, "DaemonSet")["spec"]
    same("update", spec["updateStrategy"],
         {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}})
    labels = spec["template"]["metadata"]["labels"]
    same("selector", {**labels, **spec["selector"]["matchLabels"]}, labels)
    pod = spec["template"]["spec"]
    check_pod(pod, name)
    check_agent(pod, agent_of(documents), name)
    same("containers", [one["name"] for one in pod["containers"]],
         ["bpfprof"] + (["s3"] if name == "s3" else []))


@test(modes=("root",))
def manifests(context):
    """base and all overlays: four capabilities, no privilege, one writable path, nothing forgotten."""
    same("overlays", tuple(sorted(os.listdir(os.path.join(K8S, "overlays")))), OVERLAYS)
    for name in ("base", *OVERLAYS):
        check_documents(kustomize(context, name), name)


@test(modes=("root",))
def tags(context):
    """The image that is built is the one that is asked for; pyroscope's is that of --push."""
    path = context.path("image.tar")
    with open(path, "wb") as file:
        file.write(plain_image())
    for name in ("base", *OVERLAYS):
        same("image of " + name, agent_of(kustomize(context, name))["image"],
             Archive(path).tag() + ("-push" if name == "pyroscope" else ""))


@test(modes=("root",))
def openshift(context):
    """The SecurityContextConstraints admit the DaemonSet and nothing beyond it."""
    scc = of_kind(kustomize(context, "openshift"), "SecurityContextConstraints")
    check("namespace" not in scc["metadata"], "it is of the cluster")
    same("capabilities", sorted(scc["allowedCapabilities"]), CAPS)
    same("dropped", scc["requiredDropCapabilities"], ["ALL"])
    for key, wanted in (("allowHostPID", True), ("allowHostDirVolumePlugin", True),
                        ("allowHostIPC", False), ("allowHostNetwork", False),
                        ("allowHostPorts", False), ("allowPrivilegedContainer", False),
                        ("allowPrivilegeEscalation", False), ("readOnlyRootFilesystem", True),
                        ("volumes", ["hostPath"]), ("seccompProfiles", ["runtime/default"]),
                        ("users", ["system:serviceaccount:bpfprof:bpfprof"]), ("groups", [])):
        same(key, scc[key], wanted)


@test(modes=("root",))
def monitor(context):
    """PodMonitor finds the pods, by a port that is there."""
    documents = kustomize(context, "podmonitor")
    spec = of_kind(documents, "PodMonitor")["spec"]
    labels = of_kind(documents, "DaemonSet")["spec"]["template"]["metadata"]["labels"]
    same("labels", {**labels, **spec["selector"]["matchLabels"]}, labels)
    ports = [port["name"] for port in agent_of(documents)["ports"]]
    check(all(one["port"] in ports for one in spec["podMetricsEndpoints"]), str(spec))


@test(modes=("root",))
def flags(context):
    """Every flag in args, and every variable of the ConfigMap, is one of `bpfprof daemon --help`."""
    text = context.bpfprof("daemon", "--help").expect(0).text
    known = set(re.findall(r"^ +(?:-\w, )*(--[a-z-]+)", text, re.MULTILINE))
    check("--output" in known and "--listen" in known, text)
    for name in ("base", *OVERLAYS):
        documents = kustomize(context, name)
        command, *args = agent_of(documents)["args"]
        same("command", command, "daemon")
        for arg in args:
            flag = arg.split("=", 1)[0]
            check(flag in known, "%s: %s is no flag of\n%s" % (name, arg, text))
        same("address", [one for one in args if one.startswith("--listen")],
             ["--listen=0.0.0.0:9464"])
        check("--allow-remote-profiling" not in str(args), "anybody could profile")
        same("mode of files", [one for one in args if one.startswith("--file-mode")], ["--file-mode=0640"])
        same("group of files", [one for one in args if one.startswith("--group")],
             ["--group=9464"] if name == "s3" else [])
        same("push", any(one.startswith("--push=") for one in args), name == "pyroscope")
        same("watch", "--watch" in args, name == "watch")
        check("--notify" not in str(args), "the network without being asked")
        variables = [key for one in documents if one["kind"] == "ConfigMap" for key in one["data"]]
        check(all(key.startswith("BPFPROF_DAEMON_") for key in variables),
              "%s: record and dump in the pod would take them, too" % variables)
        for key in variables + ["BPFPROF_HOST_ROOT"]:
            flag = key.replace("BPFPROF_DAEMON_", "--").replace("BPFPROF_", "--").replace(
                "_", "-").lower()
            check(flag in known, "%s: %s is no flag" % (name, key))


class Node:
    """A containerd whose mounts propagate, as a node's do, the image in it, and Ray's workers."""

    def __init__(self, context):
        self.context = context
        self.folder = context.path("node")
        os.mkdir(self.folder)
        for words in (["--bind", self.folder], ["--make-private"], ["--make-shared"]):
            subprocess.run(["mount", *words, self.folder], check=True)
        context.stack.callback(subprocess.run, ["umount", "-l", self.folder], check=False)
        self.containerd = containers.start(context, os.path.join(self.folder, "containerd"))
        path = context.path("image.tar")
        with open(path, "wb") as file:
            file.write(plain_image())
        self.containerd.ctr("images", "import", path)
        self.image = Archive(path)
        self.workers = self.containerd.image("ray", [
            containers.base_layer(), containers.python_layer(["time"]),
            containers.Layer().file("/app/train.py", SCRIPT.encode()).program(
                context.target("calls_gO2").path, "/app/calls")], user="1000:100")

    def worker(self, name, argv=("/usr/bin/python3", "/app/train.py"), volumes=(), env=None):
        return self.containerd.run(self.workers, argv, env={"TARGET_NONDUMPABLE": "1", **(env or {})},
                                   pod=containers.Pod(name, ML), volumes=volumes)

    def memory_volume(self, *files):
        """An emptyDir in memory with these files, mounted now."""
        path = os.path.join(self.place("/var/lib/kubelet/pods"), "memory")
        os.mkdir(path)
        subprocess.run(["mount", "-t", "tmpfs", "none", path], check=True)
        self.context.stack.callback(subprocess.run, ["umount", "-l", path], check=False)
        for file in files:
            shutil.copy(file, path)
        return path

    def place(self, path):
        """Where a folder of a node is here."""
        known = {"/run/containerd": self.folder + "/containerd/state",
                 "/var/lib/containerd": self.folder + "/containerd/root",
                 "/var/lib/kubelet/pods": self.folder + "/kubelet",
                 "/var/lib/bpfprof": self.folder + "/profiles"}
        here = known.get(path, path)
        os.makedirs(here, exist_ok=True)
        return here

    def agent(self, documents, args=None, writable=True):
        """The DaemonSet's container, as a kubelet would have it started; args over its own."""
        pod, agent = pod_of(documents), agent_of(documents)
        words = ["--seccomp"] if pod["securityContext"]["seccompProfile"]["type"] == \
            "RuntimeDefault" else []
        words += ["--with-ns", "pid:/proc/%d/ns/pid" % os.getpid()] if pod["hostPID"] else []
        words += ["--read-only"] if agent["securityContext"]["readOnlyRootFilesystem"] else []
        words += ["--allow-new-privs"] if agent["securityContext"]["allowPrivilegeEscalation"] \
            else []
        words += [word for name in containers.DEFAULT_CAPS for word in ("--cap-drop", "CAP_" + name)]
        words += [word for name in agent["securityContext"]["capabilities"]["add"]
                  for word in ("--cap-add", "CAP_" + name)]
        paths = host_paths(pod)
        for mount in agent["volumeMounts"]:
            source = self.place(paths[mount["name"]])
            target = mount["mountPath"] if source == paths[mount["name"]] or \
                not mount.get("readOnly") else "/host" + source
            if not mount.get("readOnly") and not writable:
                continue
            words += ["--mount", "type=bind,src=%s,dst=%s,options=rbind:%s:%s" % (
                source, target, "ro" if mount.get("readOnly") else "rw",
                "rslave" if mount.get("mountPropagation") == "HostToContainer" else "rprivate")]
        container = self.containerd.run(
            "docker.io/library/" + agent["image"],
            self.image.config["config"]["Entrypoint"] + (args or agent["args"]),
            name="bpfprof", pod=containers.Pod("bpfprof-x7f2p", "bpfprof"), options=words,
            env={"TERM": "xterm",  # as containerd has it for kubectl exec -it
                 **{key: value for one in documents if one["kind"] == "ConfigMap"
                    for key, value in one["data"].items()},
                 **{one["name"]: one.get("value", "node-7") for one in agent["env"]}})
        check_status(container)
        return container

    def exec(self, container, *argv):
        """kubectl exec POD -- ARGV: its standard output; its messages go to the error of a failure."""
        self.context.note("exec: " + " ".join(argv))
        return self.containerd.ctr("tasks", "exec", "--exec-id", "x%d" % time.monotonic_ns(),
                                   container.id, *argv)


    def exec_in_terminal(self, container, *argv, typed=b"", after=b""):
        """kubectl exec -it POD -- ARGV: all that it showed; typed once it has shown after."""
        words = ["ctr", "--address", self.containerd.socket, "--namespace", containers.NAMESPACE,
                 "tasks", "exec", "--tty", "--exec-id", "t%d" % time.monotonic_ns(), container.id]
        pid, fd = pty.fork()
        if pid == 0:
            os.execvp(words[0], words + list(argv))
        self.context.stack.callback(os.close, fd)
        self.context.note("exec: " + " ".join(argv))
        shown, ended, until = b"", False, time.monotonic() + 20
        while not ended and time.monotonic() < until:
            if not select.select([fd], [], [], 0.2)[0]:
                continue
            try:
                shown += os.read(fd, 65536)
            except OSError:
                ended = True
            if typed and after in shown:
                os.write(fd, typed)
                typed = b""
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        text = shown.decode("utf-8", "replace")
        check(ended and not typed, "it goes on, or never showed %s:\n%s" % (after, text))
        return text


def check_status(container):
    """What the kernel says that the container's process may do."""
    with open("/proc/%d/status" % container.pid, encoding="ascii") as file:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file)
    four = sum(1 << number for number in (2, 34, 38, 39))
    for key in ("CapEff", "CapPrm", "CapBnd"):
        same(key, int(status[key], 16), four)
    same("inheritable", int(status["CapInh"], 16) & ~four, 0)
    same("seccomp", status["Seccomp"], "2")
    same("no new privileges", status["NoNewPrivs"], "1")


def ask(container, path):
    """GET in the container's network: (status, body)."""
    script = ("import fcntl, socket, struct, sys, urllib.error, urllib.request\n"
              "with socket.socket() as s:\n"
              "    fcntl.ioctl(s, 0x8914, struct.pack('16sh14x', b'lo', 1))\n"  # SIOCSIFFLAGS, IFF_UP
              "try:\n"
              "    r = urllib.request.urlopen('http://127.0.0.1:9464' + sys.argv[1], timeout=5)\n"
              "    print(r.status); print(r.read().decode())\n"
              "except urllib.error.HTTPError as e:\n"
              "    print(e.code)\n")
    done = subprocess.run(["nsenter", "--net", "--target", str(container.pid), "python3", "-c",
                           script, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False)
    if done.returncode:
        return 0, done.stderr
    status, _, body = done.stdout.partition("\n")
    return int(status), body


@test(modes=("root",))
def daemonset(context):
    """The DaemonSet's container as it is rendered: it samples, answers probes, writes, and ends in time."""
    documents = kustomize(context, "base")
    node = Node(context)
    node.worker("early-0")
    agent = node.agent(documents)
    containers.wait_for("not ready: " + agent.log(), lambda: ask(agent, "/readyz")[0] == 200, 30)
    node.worker("late-0")
    same("/healthz", ask(agent, "/healthz")[0], 200)
    for path in ("/profile?seconds=1", "/dump?pid=1", "/files/", "/"):
        check(ask(agent, path)[0] in (403, 404), "%s: %s" % (path, ask(agent, path)))
    with open("/proc/%d/net/tcp" % agent.pid, encoding="ascii") as file:
        listening = [line.split()[1] for line in file if line.split()[3] == "0A"]
    same("it listens at", listening, ["00000000:24F8"])
    time.sleep(2)
    status, metrics = ask(agent, "/metrics")
    found = re.search(r"^process_resident_memory_bytes (\d+)", metrics, re.MULTILINE)
    check(status == 200 and "bpfprof_samples_total" in metrics and found, metrics)
    context.note("%.1f MB resident" % (int(found[1]) / 1e6))
    os.kill(agent.pid, 15)
    containers.wait_for("it does not end", lambda: not agent.alive(),
                        pod_of(documents)["terminationGracePeriodSeconds"])
    profiles = node.place("/var/lib/bpfprof")
    with open(os.path.join(profiles, "latest.pb.gz"), "rb") as file:
        hosts = {sample["labels"]["host"] for sample in Pprof(file.read()).samples}
    same("host", hosts, {"node-7"})
    with open(os.path.join(profiles, "latest.folded"), encoding="utf-8") as file:
        text = file.read()
    for name in ("early-0", "late-0"):
        check(re.search(r"^%s/%s/ray-worker;.*;Trainer\.fit \(train\.py:9\);" % (ML, name), text,
                        re.MULTILINE), "%s is not in it:\n%s\n%s" % (name, text[:3000], agent.log()))


@test(modes=("root",))
def watched(context):
    """Overlay watch: the container as it is rendered writes why a worker of another pod died, and serves the count."""
    node = Node(context)
    agent = node.agent(kustomize(context, "watch"))
    containers.wait_for("not ready: " + agent.log(), lambda: ask(agent, "/readyz")[0] == 200, 30)
    worker = node.worker("dies-0", env={"RANK": "3"})
    time.sleep(2)
    by = subprocess.Popen(["kill", "-KILL", str(worker.pid)])
    by.wait(10)
    profiles = node.place("/var/lib/bpfprof")

    def found():
        return [name for name in os.listdir(profiles) if re.match(r"death-\d{8}T\d{6}Z-dies-0-%d$" % worker.pid, name)]
    containers.wait_for("no folder: " + agent.log(), found, 30)
    with open(os.path.join(profiles, found()[0], "summary.txt"), encoding="utf-8") as file:
        text = file.read()
    check(re.match(r"train\.py \(pid %d, rank 3, %s/dies-0/ray-worker\) was killed with SIGKILL by kill \(pid %d\)" %
                   (worker.pid, ML, by.pid), text), text)
    status, metrics = ask(agent, "/metrics")
    check(status == 200 and re.search(r'^bpfprof_deaths_total\{signal="SIGKILL",by="kill"\} [1-9]', metrics, re.MULTILINE) and
          'bpfprof_pod_deaths_total{watched_pod="%s/dies-0"} 1\n' % ML in metrics, metrics)


@test(modes=("root",))
def narrow_mounts(context):
    """Overlay containerd: files are found in the runtime's folders and in a volume that was mounted later."""
    node = Node(context)
    agent = node.agent(kustomize(context, "containerd"))
    worker = node.worker("late-0")
    time.sleep(0.5)
    said = node.exec(agent, "bpfprof", "doctor", "--pid", str(worker.pid))
    check(re.search(r"^ok +file +/usr/bin/python3: by \w+; ", said, re.MULTILINE), said)
    check(": by memory" not in said and ML + "/late-0/ray-worker" in said, said)
    volume = node.memory_volume(context.target("calls_gO2").path)
    worker = node.worker("later-0", ["/data/calls_gO2", "60"], [(volume, "/data", "ro")])
    time.sleep(0.5)
    more = node.exec(agent, "bpfprof", "doctor", "--pid", str(worker.pid))
    check(re.search(r"^ok +file +/data/calls_gO2: by mount; all symbols", more, re.MULTILINE), more)
    context.note("%d files, none from memory" % len(re.findall(r"^ok +file ", said, re.MULTILINE)))


@test(modes=("root",))
def at_two_in_the_morning(context):
    """doctor, dump, record and top by kubectl exec, on a worker of another pod, with nothing to write to."""
    node = Node(context)
    worker = node.worker("worker-0")
    # The daemon would need a folder to write to; this one does other work. kind has flags in a ConfigMap: they
    # are in the environment of these commands too.
    agent = node.agent(kustomize(context, "kind"), writable=False,
                       args=["record", "-p", "1", "-d", "600", "--format", "folded", "-o", "-"])
    mounts = containers._text("/proc/%d/mountinfo" % agent.pid)
    root = next(line for line in mounts.splitlines() if line.split()[4] == "/")
    check("ro" in root.split()[5].split(","), root)
    check(" /out " not in mounts, mounts)
    before = [containers._text("/proc/%d/%s" % (worker.pid, name)) for name in ("cmdline", "environ")]

    text = node.exec(agent, "bpfprof", "doctor")
    check(not re.search(r"^(fail|error)", text, re.MULTILINE) and "host_root" in text, text)
    text = node.exec(agent, "bpfprof", "dump", "--pod", WORKER)
    check("Pod %s, container ray-worker, pid " % WORKER in text and "Trainer.fit (train.py:9)" in text, text)
    inner = re.search(r"pid (\d+) in it", text)
    check(inner, text)
    text = node.exec(agent, "bpfprof", "dump", "--pod", WORKER, "-p", inner[1], "--native")
    check("inner (train.py:" in text, text)
    text = node.exec(agent, "bpfprof", "record", "--pod", WORKER, "-d", "2", "--format",
                     "html", "-o", "-")
    check(text.lstrip().startswith("<!") and text.rstrip().endswith("</html>") and
          "train.py" in text, text[:500] + text[-500:])
    with open(context.path("x.html"), "w", encoding="utf-8") as file:
        file.write(text)
    text = node.exec(agent, "bpfprof", "record", "--pod", WORKER, "-p", inner[1], "-d", "2",
                     "--format", "folded", "-o", "-")
    stacks = [line for line in text.splitlines() if not line.startswith("#")]
    total = sum(int(line.rpartition(" ")[2]) for line in stacks)
    right = sum(int(line.rpartition(" ")[2]) for line in stacks if re.match(
        WORKER + r"/ray-worker;python3;.*;?Trainer\.fit \(train\.py:9\);middle \(train\.py:6\);", line))
    context.note("%d of %d samples with the whole chain" % (right, total))
    check(total >= 20 and right >= 0.9 * total, text[:3000])
    text = node.exec(agent, "bpfprof", "top", "--pod", WORKER, "--once", "--delay", "1")
    check("train.py" in text, text)
    text = node.exec_in_terminal(agent, "bpfprof", "top", "--pod", WORKER, typed=b"q",
                                 after=b"train.py")
    check("\x1b[" in text and "train.py" in text, text)
    same("command line and environment of the worker", [
        containers._text("/proc/%d/%s" % (worker.pid, name)) for name in ("cmdline", "environ")], before)
    check(agent.alive(), agent.log())


@test(modes=("root",))
def sidecar(context):
    """Overlay s3: the container's own words, with a folder in place of the bucket, as its user."""
    documents = kustomize(context, "s3")
    pod = pod_of(documents)
    group, = pod["securityContext"]["supplementalGroups"]
    access = [one for one in agent_of(documents)["args"] if one.startswith(("--file-mode", "--group"))]
    sidecar_of = next(one for one in pod["containers"] if one["name"] == "s3")
    same("securityContext", sidecar_of["securityContext"], {
        "runAsUser": NOBODY, "runAsGroup": NOBODY, "runAsNonRoot": True, "privileged": False,
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]}})
    same("mounts", sidecar_of["volumeMounts"],
         [{"name": "profiles", "mountPath": "/profiles", "readOnly": True}])
    same("limits", sorted(sidecar_of["resources"]["limits"]), ["memory"])
    check(shutil.which("rclone"), "there is no rclone: tests/install-deps")
    profiles, bucket = context.path("profiles"), context.scratch("bucket")
    os.mkdir(profiles, 0o755)  # as kubelet does
    daemon = context.start("daemon", "--output", profiles, "--interval", "1s", "--listen", "none", *access,
                           stderr=subprocess.DEVNULL, extra_groups=[group])
    containers.wait_for("no profile", lambda: os.path.exists(profiles + "/latest.html"), 20)
    time.sleep(1.2)
    daemon.terminate()
    daemon.wait(30)
    with open(os.path.join(profiles, ".bpfprof-daemon-0123456789abcdef.tmp"), "wb") as file:
        file.write(b"half")
    shell, option, script = sidecar_of["command"]
    check("/profiles " in script and '"s3:$BUCKET/$NODE"' in script, script)
    copier = context.spawn(
        [shell, option, script.replace("/profiles ", profiles + " ")], user=NOBODY, group=NOBODY,
        extra_groups=[group], plain=True, start_new_session=True,
        env={"BUCKET": "b", "NODE": "n1", "HOME": "/", "RCLONE_CONFIG_S3_TYPE": "alias",
             "RCLONE_CONFIG_S3_REMOTE": bucket})
    wanted = {name for name in os.listdir(profiles) if name.startswith("cpu-")}

    def copied():
        with contextlib.suppress(OSError):
            return set(os.listdir(bucket + "/b/n1")) == wanted
        return False
    containers.wait_for("copied %s of %s" % (os.listdir(bucket), wanted), copied, 30)
    for name in wanted:
        with open(os.path.join(profiles, name), "rb") as one, \
                open(os.path.join(bucket, "b/n1", name), "rb") as other:
            check(one.read() == other.read(), name + " is another file")
    context.note("%d files copied" % len(wanted))
    time.sleep(0.5)
    copier.terminate()
    same("exit status", copier.wait(5), 0)
