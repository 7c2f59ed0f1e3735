# SPDX-License-Identifier: Apache-2.0
"""A small cluster for kubectl: an API server that lists pods and hands exec on to containerd's CRI.

Cluster(context) has one containerd with the CRI plugin; its nodes are names. An agent is a pod of the CRI
as the DaemonSet has it; workers are containers with annotations as the CRI makes them. kubectl speaks SPDY
to the CRI's own streaming server: the API server only passes the connection on. All on loopback.
"""

import http.server
import json
import os
import re
import socket
import subprocess
import threading
import urllib.parse
import uuid

import containers
from harness import check
from test_image import plain_image

HERE = os.path.dirname(os.path.abspath(__file__))
CRI = """[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.test/pause:1"
  disable_apparmor = true
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{folder}/cni"
    conf_dir = "{folder}/cni"
"""
AGENTS = "bpfprof"
NODE = 2  # of the modes of namespaces: the node's own


def message(*fields):
    """A protobuf message of (number, value): numbers, texts, bytes; a dict is a map, None is left out."""
    out = bytearray()

    def number(value):
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        out.append(value)
    for key, value in fields:
        if isinstance(value, dict):
            for item in value.items():
                out += message((key, message((1, item[0]), (2, item[1]))))
        elif isinstance(value, int):
            number(key << 3)
            number(value)
        elif value is not None:
            data = value.encode() if isinstance(value, str) else value
            number(key << 3 | 2)
            number(len(data))
            out.extend(data)
    return bytes(out)


def first_text(data):
    """The text of an answer that has only one, shorter than 16 KiB."""
    length, at = data[1], 2
    if length > 127:
        length, at = length & 127 | data[2] << 7, 3
    return data[at:at + length].decode()


class Cluster:
    """Nodes, agents, workers, and the API server in front of them."""

    def __init__(self, context, namespace):
        self.context = context
        self.namespace = namespace
        self.folder = context.path("cluster")
        self.containerd = containers.start(context, self.folder, extra=CRI)
        self.pods = []  # as the API shows them
        self.ids = {}  # of containers, by (namespace, pod)
        self.rayjobs = {}
        self.before_exec = []  # called with (pod, words): may wait, or raise an OSError
        self.execs = []  # (pod, words) of all
        path = context.path("image.tar")
        with open(path, "wb") as file:
            file.write(plain_image())
        self.containerd.ctr("images", "import", path)
        self.containerd.image("pause", [containers.base_layer()], argv=["/bin/busybox", "sleep", "1000000"])
        self.server = Server(self)
        context.stack.callback(self.server.stop)
        self.kubeconfig = context.path("kubeconfig")
        with open(self.kubeconfig, "w", encoding="utf-8") as file:
            json.dump({"apiVersion": "v1", "kind": "Config", "current-context": "test", "clusters": [
                {"name": "test", "cluster": {"server": "http://127.0.0.1:%d" % self.server.port}}],
                       "contexts": [{"name": "test", "context": {
                           "cluster": "test", "user": "", "namespace": namespace}}]}, file)

    def cri(self, method, data):
        done = subprocess.run(["/usr/bin/python3", os.path.join(HERE, "cri_call.py"),
                               self.containerd.socket, "RuntimeService/" + method], input=data,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        check(done.returncode == 0, done.stderr.decode())
        return done.stdout

    def show(self, node, namespace, name, labels=None, phase="Running"):
        """Adds a pod to what the API lists."""
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {
            "name": name, "namespace": namespace, "uid": str(uuid.uuid4()), "labels": labels or {}},
               "spec": {"nodeName": node, "containers": [{"name": "bpfprof"}]}, "status": {"phase": phase}}
        self.pods.append(pod)
        return pod

    def agent(self, node, name=None):
        """The DaemonSet's pod of this node; it idles, as the daemon would need a folder to write to."""
        name = name or "bpfprof-" + node
        pod = self.show(node, AGENTS, name, {"app.kubernetes.io/name": "bpfprof"})
        uid = pod["metadata"]["uid"]
        spaces = message((1, NODE), (2, NODE))
        cgroup = "/kubepods/burstable/pod" + uid
        sandbox = message((1, message((1, name), (2, uid), (3, AGENTS))),
                          (8, message((1, cgroup), (2, message((1, spaces))))))
        identity = first_text(self.cri("RunPodSandbox", message((1, sandbox))))
        self.containerd.ids[identity] = cgroup + "/" + identity
        self.context.stack.callback(self.remove, identity)
        security = message(
            (1, message(*[(1, one) for one in ("BPF", "PERFMON", "DAC_READ_SEARCH", "SYSLOG")], (2, "ALL"))),
            (3, spaces), (7, 1), (11, 1), (15, message((1, 0))))
        config = message(
            (1, message((1, "bpfprof"))), (2, message((1, "docker.io/library/bpfprof:0.1.0"))),
            (4, "clock"), *[(6, message((1, key), (2, value))) for key, value in (
                ("BPFPROF_HOST_ROOT", "/host"), ("BPFPROF_HOST", node))],
            (7, message((1, "/host"), (2, "/"), (3, 1))), (12, 1), (15, message((2, security))))
        container = first_text(self.cri("CreateContainer", message(
            (1, identity), (2, config), (3, sandbox))))
        self.containerd.ids[container] = cgroup + "/" + container
        self.cri("StartContainer", message((1, container)))
        self.ids[AGENTS, name] = container
        return pod

    def remove(self, sandbox):
        self.cri("StopPodSandbox", message((1, sandbox)))
        self.cri("RemovePodSandbox", message((1, sandbox)))

    def worker(self, node, name, image, argv, env=None, labels=None, volumes=()):
        """A running pod of the cluster's namespace: (its container, what the API shows)."""
        pod = self.show(node, self.namespace, name, labels)
        made = containers.Pod(name, self.namespace)
        made.uid = pod["metadata"]["uid"]
        container = self.containerd.run(image, argv, pod=made, env=env, volumes=volumes)
        return container, pod

    def exec_url(self, pod, query):
        """Where the CRI's streaming server waits for this exec."""
        words = query["command"]
        self.execs.append((pod, words))
        for call in self.before_exec:
            call(pod, words)
        flags = {name: query.get(name) == ["true"] for name in ("stdin", "stdout", "stderr", "tty")}
        return first_text(self.cri("Exec", message(
            (1, self.ids[pod["metadata"]["namespace"], pod["metadata"]["name"]]),
            *[(2, word) for word in words], (3, int(flags["tty"])), (4, int(flags["stdin"])),
            (5, int(flags["stdout"])), (6, int(flags["stderr"])))))

    def kubectl(self):
        """{variable: value} that let the real kubectl find this cluster."""
        return {"KUBECONFIG": self.kubeconfig, "HOME": self.context.dir}


def matches(pod, query):
    """Is the pod in a list with these selectors?"""
    for term in filter(None, ",".join(query.get("labelSelector", [])).split(",")):
        key, _, value = term.partition("=")
        if pod["metadata"]["labels"].get(key) != value.lstrip("="):
            return False
    for term in filter(None, ",".join(query.get("fieldSelector", [])).split(",")):
        key, _, value = term.partition("=")
        check(key == "metadata.name", "a selector that the test does not know: " + term)
        if pod["metadata"]["name"] != value:
            return False
    return True


def resources(version, *rows):
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": [
        {"name": name, "singularName": name[:-1], "namespaced": True, "kind": kind, "verbs": ["get", "list"]}
        for name, kind in rows]}


RAY_GROUP = {"name": "ray.io", "versions": [{"groupVersion": "ray.io/v1", "version": "v1"}],
             "preferredVersion": {"groupVersion": "ray.io/v1", "version": "v1"}}
DISCOVERY = {
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": [RAY_GROUP]},
    "/api/v1": resources("v1", ("pods", "Pod")),
    "/apis/ray.io/v1": resources("ray.io/v1", ("rayjobs", "RayJob"), ("rayclusters", "RayCluster")),
}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers list and get, and passes exec on."""

    protocol_version = "HTTP/1.1"
    cluster = None

    def log_message(self, *args):
        pass

    def answer(self, value, status=200):
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def fail(self, status, reason, text):
        self.answer({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": text,
                     "reason": reason, "code": status}, status)

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(url.query)
        found = re.fullmatch(r"/api(?:s/ray.io)?/v1/namespaces/([^/]+)/(\w+)(?:/([^/]+))?(/exec)?", url.path)
        if url.path in DISCOVERY:
            self.answer(DISCOVERY[url.path])
        elif not found:
            self.fail(404, "NotFound", "no such path: " + url.path)
        elif found[4]:
            self.pass_on(found[1], found[3], query)
        elif found[2] == "rayjobs" and found[3] in self.cluster.rayjobs:
            self.answer({"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {
                "name": found[3], "namespace": found[1]}, "status": {
                    "rayClusterName": self.cluster.rayjobs[found[3]]}})
        elif found[2] == "pods":
            self.list_pods(found[1], found[3], query)
        else:
            self.fail(404, "NotFound", '%s "%s" not found' % (found[2], found[3]))

    do_POST = do_GET

    def list_pods(self, namespace, name, query):
        pods = [one for one in self.cluster.pods if one["metadata"]["namespace"] == namespace and
                matches(one, query)]
        if not name:
            self.answer({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods})
            return
        pods = [one for one in pods if one["metadata"]["name"] == name]
        if pods:
            self.answer(pods[0])
        else:
            self.fail(404, "NotFound", 'pods "%s" not found' % name)

    def pass_on(self, namespace, name, query):
        """Sends the request to the CRI's server, and then every byte in both directions."""
        self.close_connection = True
        if self.headers.get("Upgrade", "").lower() == "websocket":
            self.fail(400, "BadRequest", "this server has no WebSockets")  # kubectl then takes SPDY
            return
        try:
            pod = next(one for one in self.cluster.pods if (
                one["metadata"]["namespace"], one["metadata"]["name"]) == (namespace, name))
            url = urllib.parse.urlsplit(self.cluster.exec_url(pod, query))
            other = socket.create_connection((url.hostname, url.port))
        except Exception as error:  # pylint: disable=broad-except
            self.fail(500, "InternalError", str(error))
            return
        with other:
            head = "%s %s HTTP/1.1\r\n" % (self.command, url.path) + "".join(
                "%s: %s\r\n" % item for item in self.headers.items() if item[0].lower() != "host")
            other.sendall((head + "Host: %s\r\n\r\n" % url.netloc).encode())
            self.cluster.server.pipe(self.connection, other)


class Server:
    """The API server, in threads."""

    def __init__(self, cluster):
        handler = type("Handler", (Handler,), {"cluster": cluster})
        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.http.daemon_threads = True
        self.port = self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def stop(self):
        self.http.shutdown()
        self.http.server_close()

    @staticmethod
    def pipe(one, other):
        def copy(source, to):
            try:
                while data := source.recv(65536):
                    to.sendall(data)
            except OSError:
                pass
            for end in (source, to):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        back = threading.Thread(target=copy, args=(other, one), daemon=True)
        back.start()
        copy(one, other)
        back.join()
