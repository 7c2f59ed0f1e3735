# SPDX-License-Identifier: Apache-2.0
"""gpu and real containers: one attachment serves all that map a file of an image's layer."""

import json
import os
import secrets

import containers
from gpu_truth import OUTPUTS, Seen, Watch, check_all, fakes
from harness import CAPS, check, test
from pprof import Pprof

BESIDE = True
LOCK = "images"  # each counts the libraries of all containers
FOLDER = "/opt/cuda"
RUN = secrets.token_hex(3)  # of this run alone: another one may be going on beside it
NAMESPACE = "ml-" + RUN
# Calls once the file /tmp/go is there; what it did is in the log.
SCRIPT = ("(while [ ! -e /tmp/go ]; do /bin/busybox sleep 0.05; done; echo go; /bin/busybox sleep 1000) | "
          "exec %s/gpu_calls %s %s" % (FOLDER, "%s", FOLDER))


def image(context, containerd):
    where, layer = fakes(context), containers.base_layer()
    layer.program(where.program, FOLDER + "/gpu_calls")
    for path in (where.cuda, where.nccl):
        layer.copy(path, os.path.join(FOLDER, os.path.basename(path)))
    return containerd.image("gpu", [layer])


class Pod:
    """A container that makes the calls of a scenario on request."""

    def __init__(self, containerd, full, name, scenario):
        self.name = name
        self.container = containerd.run(full, ["/bin/sh", "-c", SCRIPT % scenario],
                                        pod=containers.Pod(name, NAMESPACE))
        containers.wait_for("ready: " + name, lambda: "ready\n" in self.container.log(), 30)

    def pid(self):
        """The pid of gpu_calls, in the node's view."""
        for pid in self.container.pids():
            with open("/proc/%d/comm" % pid, encoding="utf-8") as file:
                if file.read() == "gpu_calls\n":
                    return pid
        return None

    def work(self):
        """The program's own report, with its pid in the node's view."""
        self.container.execute("/bin/busybox", "touch", "/tmp/go")
        containers.wait_for("calls of " + self.name, lambda: "}\n" in self.container.log(), 30)
        truth = json.loads(self.container.log().splitlines()[-1])
        return dict(truth, pid=self.pid())


@test(modes=CAPS)
def one_pod(context):
    """--pod: the calls of its processes and of no other's; refused where none lives there."""
    containerd = containers.start(context)
    full = image(context, containerd)
    pods = [Pod(containerd, full, name + RUN, "launches") for name in ("one-", "other-")]
    watch = Watch(context, "--json", "-d", "300", "--pod", NAMESPACE + "/one-*")
    truths = [pod.work() for pod in pods]
    seen = Seen(watch.end())
    check_all(seen.process(truths[0]["pid"]), truths[0])
    pids = {one["pid"] for one in seen.whole["processes"]}
    check(truths[1]["pid"] not in pids, "calls of another pod: %s" % pids)
    run = context.bpfprof("gpu", "--once", "--pod", NAMESPACE + "/none").expect(4)
    check("no process on this node lives there" in run.text, run.text)


@test(modes=CAPS)
def one_layer(context):
    """A container from before and one from later: both exact, one library, each pod has its calls."""
    containerd = containers.start(context)
    full = image(context, containerd)
    before = Pod(containerd, full, "before-" + RUN, "launches")
    watch = Watch(context, "-v", "--json", "-d", "300", *OUTPUTS)
    later = Pod(containerd, full, "later-" + RUN, "nccl")
    truths = [pod.work() for pod in (before, later)]
    seen = Seen(watch.end())
    for truth in truths:
        check_all(seen.process(truth["pid"]), truth)
    for name in ("libcuda.so.1", "libnccl.so.2"):
        found = [one for one in seen.whole["libraries"] if one["path"] == os.path.join(FOLDER, name)]
        check(len(found) == 1 and found[0]["problem"] is None, "%d of %s: %s, problem %s" % (
            len(found), name, [one["path"] for one in seen.whole["libraries"]], [one["problem"] for one in found]))
        said = watch.messages().count("hooked %s: " % found[0]["path"])
        check(said == 1, "%s was hooked %d times" % (name, said))
    for pod, truth in zip((before, later), truths):
        samples = [one for one in Pprof(context.read("x.pb.gz")).samples
                   if one["labels"].get("pid") == truth["pid"]]
        labels = {tuple(one["labels"].get(name) for name in (
            "namespace", "pod", "container", "container_id")) for one in samples}
        check(labels == {(NAMESPACE, pod.name, "ray-worker", pod.container.id)},
              "labels of %s: %s" % (pod.name, labels))
        calls = sum(one["values"][0] for one in samples)
        rows = sum(row["calls"] for row in seen.process(truth["pid"])["calls"])
        check(calls == rows, "%d calls in the profile, not %d" % (calls, rows))
