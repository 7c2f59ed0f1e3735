# SPDX-License-Identifier: Apache-2.0
"""deploy/k8s/overlays/podmonitor/alerts.yaml: what it asks for exists, and Prometheus fires it for real deaths."""

import json
import re
import shutil
import subprocess

from daemons import answer_of, get, prometheus
from harness import CAPS, Skip, check, test
from test_deploy import kustomize, of_kind, same
from test_push import Server
from test_watch import dies, go, wait_for
from test_watch_notify import notifying

BESIDE = True
RELABELED = {"node"}  # by the PodMonitor
# No process dies or hangs in a pod here: watch_notify.of_a_pod and of_a_pod_that_hangs.
OF_PODS = {"bpfprof_pod_deaths_total": {"watched_pod"}, "bpfprof_pod_stalls_total": {"watched_pod"}}
OF_PROMETHEUS = {"up"}
FUNCTIONS = {"and", "increase", "offset", "or", "sum", "time", "unless", "without"}


def rules_of(context):
    """The groups of the PrometheusRule, and a file with them that promtool finds right."""
    groups = of_kind(kustomize(context, "podmonitor"), "PrometheusRule")["spec"]
    path = context.path("rules.yml")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(groups, file)  # that is YAML
    if not shutil.which("promtool"):
        raise Skip("no promtool here")
    promtool("check", "rules", path)
    return groups["groups"], path


def promtool(*args):
    done = subprocess.run(["promtool", *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    check(done.returncode == 0, done.stdout.decode())


def names_in(expression):
    """The metrics that it asks for."""
    text = re.sub(r"\{[^}]*\}|\"[^\"]*\"|\((?:node|reason)\)|\b\d+[smhd]?\b", " ", expression)
    return set(re.findall(r"\b[a-z_]\w*", text)) - FUNCTIONS


@test(modes=CAPS)
def metrics(context):
    """Each metric of the alerts is one of `daemon --watch --notify`; its labels are those in the texts."""
    groups, _ = rules_of(context)
    process = dies(context, "segv")
    daemon = notifying(context, Server(context), "-p", process.pid, listen="127.0.0.1:0")
    go(process)
    daemon.wait("process died")
    text = get(int(daemon.said("listening")[0]["port"]), "/metrics")[2]
    check(daemon.end() == 0, "it failed")
    known = set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
    rules = [rule for group in groups for rule in group["rules"]]
    check(len({rule["alert"] for rule in rules}) == len(rules) >= 4, "%s" % rules)
    for rule in rules:
        names = names_in(rule["expr"])
        check(names and names <= known | OF_PROMETHEUS, "%s: %s" % (rule["alert"], names - known))
        series = "\n".join(line for line in text.splitlines() if re.match(r"(%s)\b" % "|".join(names), line))
        labels = set(re.findall(r'[{,](\w+)="', series)).union(RELABELED, *(OF_PODS.get(name, ()) for name in names))
        used = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        check(used and used <= labels, "%s: %s" % (rule["alert"], used - labels))
        same("keys of " + rule["alert"], set(rule) - {"for"}, {"alert", "expr", "labels", "annotations"})
    check({"bpfprof_deaths_total", "bpfprof_deaths_not_written_total"} <=
          {name for rule in rules for name in names_in(rule["expr"])}, "deaths raise no alert")


def alert(name, **labels):
    return {"exp_labels": {"severity": "warning", **labels}}, name


def at(minutes, *alerts):
    """All alerts that fire at that time. Their texts are not compared."""
    return minutes, alerts


@test(modes=("root",))
def over_time(context):
    """promtool: first and later deaths fire for ten minutes, also after a restart; without one nothing fires."""
    groups, path = rules_of(context)
    texts = {rule["alert"]: rule["annotations"] for group in groups for rule in group["rules"]}
    agent = 'container="bpfprof",namespace="bpfprof",node="n1"'
    died = {"signal": "SIGSEGV", "by": "self", "node": "n1"}
    series = {
        # Deaths at 30 and at 60 minutes; an agent that starts at 90 minutes, and counts one again.
        'bpfprof_deaths_total{signal="SIGSEGV",by="self",node="n1"}': "_x30 1x29 2x29 _x20 1x30",
        'bpfprof_pod_deaths_total{watched_pod="ml/a",node="n1"}': "_x30 1x29 2x29 _x20 1x30",
        'bpfprof_deaths_not_written_total{node="n1"}': "0x75 5x75",
        'bpfprof_stalls_total{node="n1",reason="lock"}': "0x64 1x85",
        'bpfprof_stalls_total{node="n1",reason="disk"}': "0x150",
        'bpfprof_pod_stalls_total{watched_pod="ml/b",node="n1"}': "_x64 1x85",
        'bpfprof_notify_dropped_total{node="n1",reason="refused"}': "0x130 1x20",
        'bpfprof_notify_dropped_total{node="n1",reason="gone"}': "0x150",
        "bpfprof_last_profile_timestamp_seconds{%s}" % agent: "0x5 360+60x144",
        "process_start_time_seconds{%s}" % agent: "0x150",
        "up{%s}" % agent: "1x150",
        "up{%s}" % agent.replace("n1", "n2"): "1x134 0x15",
    }
    one = [alert("BpfprofProcessDied", **died), alert("BpfprofPodDeaths", watched_pod="ml/a", node="n1")]
    down = [alert("BpfprofDown", container="bpfprof", namespace="bpfprof", node="n2")]
    more = [alert("BpfprofDeathsNotWritten", node="n1")]
    dropped = [alert("BpfprofNotificationsDropped", node="n1")]
    stalled = [alert("BpfprofProcessStalled", node="n1", reason="lock"), alert("BpfprofPodStalled", watched_pod="ml/b", node="n1")]
    wanted = [at(29), at(31, *one), at(39, *one), at(45), at(59), at(62, *one), at(72, *stalled), at(75), at(78, *more), at(95),
              at(113, *one), at(125), at(133, *dropped), at(149, *down)]
    tests = []
    for minutes, alerts in wanted:
        for name in texts:
            found = [dict(labels) for labels, of in alerts if of == name]
            for labels in found:
                labels["exp_annotations"] = {
                    key: re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda m, one=labels: one["exp_labels"][m.group(1)], text)
                    for key, text in texts[name].items()}
            tests.append({"eval_time": "%dm" % minutes, "alertname": name, "exp_alerts": found})
    with open(context.path("tests.yml"), "w", encoding="utf-8") as file:
        json.dump({"rule_files": [path], "evaluation_interval": "1m", "tests": [
            {"interval": "1m", "input_series": [{"series": key, "values": values} for key, values in series.items()],
             "alert_rule_test": tests}]}, file)
    promtool("test", "rules", context.path("tests.yml"))


@test(modes=CAPS)
def fired(context):
    """Prometheus scrapes a daemon; the first death and a notification that the server refuses fire, and nothing else."""
    _, path = rules_of(context)
    process = dies(context, "segv")
    server = Server(context, 400)
    daemon = notifying(context, server, "-p", process.pid, listen="127.0.0.1:0")
    port = prometheus(context, int(daemon.wait("listening")[0]["port"]), [path])

    def firing():
        return sorted((one["labels"]["alertname"], one["labels"].get("signal"), one["labels"].get("by"))
                      for one in answer_of(port, "alerts")["alerts"] if one["state"] == "firing")
    wait_for(lambda: answer_of(port, "query?query=bpfprof_notify_queued")["result"], "Prometheus scrapes", 40)
    check(firing() == [], "%s" % firing())
    go(process)
    wanted = [("BpfprofNotificationsDropped", None, None), ("BpfprofProcessDied", "SIGSEGV", "self")]
    wait_for(lambda: firing() == wanted, "alerts fire", 40, 0.5)
    check(daemon.end() == 0, "it failed")
