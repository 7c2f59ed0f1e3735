# SPDX-License-Identifier: Apache-2.0
"""The small programs py-spy and memray ask the agent: their command lines, and what they write."""

import json
import os
import re
import shutil
import socket
import subprocess
import threading
import time

from daemons import cpu_of
from harness import BPFPROF, CAPS, ROOT, Skip, check, test
from standins import ALL, PROGRAM, TOKEN, Agent, program, raw_counts, run, standin
from test_deploy import documents_of

LIGHT = True


@test(modes=CAPS)
def small(context):
    """One static program of less than 300 kB, that says its version in py-spy's form."""
    path = standin()
    size = os.path.getsize(path)
    check(size < 300000, "it has %d bytes" % size)
    context.note("%d bytes" % size)
    done = subprocess.run(["ldd", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    check("not a dynamic" in done.stdout or "statically" in done.stdout, done.stdout)
    status, out, _ = run(path, "--version")
    check(status == 0 and re.fullmatch(r"py-spy \d+\.\d+\.\d+ \(bpfprof [\d.]+\)\n", out), out)


@test(modes=CAPS)
def dump(context):
    """A dump of a process of this machine, with its flags."""
    path, agent = standin(), Agent(context)
    target = program(context)
    status, out, err = run(path, "dump", "--pid", target.pid, env=agent.env(ALL))
    check(status == 0 and not err, err)
    check(re.match(r"Process %d: .*\nPython v[\d.]+ \(.*\)\n\nThread %d \(active" % (target.pid, target.pid), out), out)
    check('(idle): "sleeper"\n    deep (<string>:4)\n' in out, out)
    check("clock_nanosleep" not in out, out)
    out = run(path, "dump", "-np%d" % target.pid, env=agent.env(ALL))[1]
    check("clock_nanosleep (libc" in out, out)
    out = run(path, "dump", "-jl", "-p", hex(target.pid), env=agent.env(ALL))[1]
    check('"pid": %d' % target.pid in out or '"pid":%d' % target.pid in out, out)


@test(modes=CAPS)
def record(context):
    """Each format, and what each flag changes."""
    path, agent = standin(), Agent(context)
    target = program(context)
    before = cpu_of(target.pid)
    spin = "<module> (<string>:9);spin (<string>:7)"
    deep = "Thread._bootstrap (threading.py:"

    def ask(*flags, seconds=2, form="raw"):
        file = context.path("out." + form)
        status, out, err = run(path, "record", "-p", target.pid, "-d", seconds, "-f", form, "-o", file, *flags,
                               env=agent.env(ALL), cwd=context.dir)
        check(status == 0 and not err and out.startswith("py-spy> Sampling process 100 times a second for %s seconds."
                                                         % seconds) and "py-spy> Wrote " in out, out + err)
        return raw_counts(file) if form == "raw" else file

    found = ask(seconds=4)
    used = cpu_of(target.pid) - before
    check(set(found) <= {spin, "<module> (<string>:9);spin (<string>:6)"} and found[spin] > 0.5 * used * 60, str(found))
    idle = ask("--idle")
    asleep = [count for stack, count in idle.items() if stack.startswith(deep) and ";deep (<string>:4)" in stack]
    check(len(asleep) == 1 and abs(asleep[0] - 200) <= 10, "of 200 samples: %s" % idle)
    check(abs(sum(count for stack, count in idle.items() if "spin" in stack) - 200) <= 10, "of 200: %s" % idle)
    check(all("libc" not in stack for stack in idle), str(idle))
    native = ask("-n")
    check(any(";Py_RunMain (" in stack and ";spin (<string>:7)" in stack for stack in native), str(native))
    check("thread (%d): python3;%s" % (target.pid, spin) in ask("--threads"), "threads")
    check("<module> (<string>:1);spin (<string>:5)" in ask("--function"), "function")
    check("<module> (<string>);spin (<string>)" in ask("--nolineno"), "no lines")
    check(set(ask("--gil")) <= set(found), "gil")
    status, out, err = run(path, "record", "-f", "raw", "-o", context.path("command"), "--", "/usr/bin/python3", "-c",
                           "import time\nend = time.time() + 4\nwhile time.time() < end:\n    sum(range(100))",
                           env=agent.env(ALL))
    check(status == 0 and any("<module> (<string>:4)" in stack for stack in raw_counts(context.path("command"))), out + err)
    with open(ask(form="flamegraph"), encoding="utf-8") as file:
        image = file.read()
    check(image.startswith("<?xml") and "<svg " in image and "spin (&lt;string&gt;:7)" in image
          and "python3" not in image and "builtin_sum" not in image, image[-3000:])
    check("Stacks: " in image and "Walks: " not in image and ">Python</text>" in image and ">kernel</text>" not in image,
          "what is below the graph, and its kinds of frames: " + image[-3000:])
    with open(ask("-s", form="speedscope"), encoding="utf-8") as file:
        document = json.load(file)
    names = {frame["name"] for frame in document["shared"]["frames"]}
    check(names == {"<module>", "spin"} and document["$schema"].startswith("https://www.speedscope.app/"), str(names))
    check([one["name"] for one in document["profiles"]] == ['Thread %d "python3"' % target.pid], str(document["profiles"])[:300])


@test(modes=CAPS)
def refusals(context):
    """Whatever is wrong: one sentence on standard error, and py-spy's exit status."""
    path, agent = standin(), Agent(context)
    target = program(context)

    def refuse(says, *args, status=1, **env):
        got, out, err = run(path, *args, env={**agent.env(ALL), **env})
        check(got == status and says in err and err.count("\n") == 1 and "Wrote" not in out,
              "%s: %d: %s%s" % (args, got, out, err))
        check(not os.path.exists(context.path("x")), "a file is left")
    pid = target.pid
    refuse("there is no process with the pid 4194303", "dump", "-p", 4194303)
    refuse("no agent answers at 127.0.0.1:1:", "dump", "-p", pid, BPFPROF_AGENT="127.0.0.1:1")
    refuse("no agent answers at /nowhere:", "dump", "-p", pid, BPFPROF_AGENT="/nowhere")
    refuse("no agent is configured", "dump", "-p", pid, BPFPROF_AGENT="", PATH="/nowhere")
    refuse("wants a token", "dump", "-p", pid, BPFPROF_TOKEN="")
    refuse("no token of this agent", "dump", "-p", pid, BPFPROF_TOKEN="0123456789abcdefg")
    refuse("no such process here that this client may ask", "dump", "-p", pid, BPFPROF_TOKEN=TOKEN)
    refuse("core dumps", "dump", "--core", "x")
    refuse("-d is missing", "record", "-p", pid)
    refuse("keeps no order of samples", "record", "-p", pid, "-d", 1, "-f", "chrometrace")
    refuse("--gil cannot be combined", "record", "-p", pid, "-d", 1, "-gi", "-o", context.path("x"))
    refuse("from 1 to 1000", "record", "-p", pid, "-d", 1, "-r", 0, "-o", context.path("x"))
    refuse("invalid value 'pdf'", "record", "-p", pid, "-d", 1, "-f", "pdf", status=2)
    refuse("--pid <pid>", "dump", status=2)
    refuse("invalid pid 'x'", "dump", "-p", "x", status=2)
    refuse("unexpected argument '--what'", "dump", "--what", status=2)
    refuse("unrecognized subcommand 'frobnicate'", "frobnicate", status=2)
    refuse("unrecognized subcommand '--what'", "--what", status=2)
    refuse("too many arguments", "dump", "-p", pid, *["-n"] * 40, status=2)
    refuse("", "dump", "-p", pid, BPFPROF_TOKEN="x" * 20000)
    counts = agent.refused()
    check(counts == {"no_token": 1, "wrong_token": 1, "other_pod": 1, "bad_request": 1}, str(counts))


@test(modes=CAPS)
def at_once(context):
    """Clicks at the same time wait for each other; a tenant has two records at a time; a target that ends is no failure."""
    path, agent = standin(), Agent(context)
    target = program(context)

    def many(count, *args):
        done = [subprocess.Popen([path, *map(str, args)], env=agent.env(ALL), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True) for _ in range(count)]
        return [(one.communicate(timeout=90), one.returncode) for one in done]
    found = many(4, "dump", "-p", target.pid)
    check(all(status == 0 and "spin (" in out for (out, _), status in found), str(found)[:2000])
    found = many(3, "record", "-p", target.pid, "-d", 20, "-f", "raw", "-o", "/dev/null")
    failed = [err for (_, err), status in found if status]
    check(len(failed) == 1 and "busy with other requests" in failed[0] and failed[0].count("\n") == 1, str(found))
    short = context.spawn(["/usr/bin/python3", "-c", "import time\nend = time.time() + 3\nwhile time.time() < end: pass"])
    began = time.monotonic()
    status, _, err = run(path, "record", "-p", short.pid, "-d", 60, "-f", "raw", "-o", context.path("short"), env=agent.env(ALL))
    check(status == 0 and time.monotonic() - began < 30 and raw_counts(context.path("short")), err)


@test(modes=("root",))
def without_an_agent(context):
    """The program executes bpfprof where that is on PATH; its words become flags of bpfprof."""
    path, target = standin(), program(context)
    env = {"PATH": os.path.dirname(BPFPROF)}
    status, out, err = run(path, "dump", "-np", target.pid, env=env)
    check(status == 0 and '(idle): "sleeper"' in out and "(libc.so.6)" in out, out + err)
    for flags, word in ((("-i",), ";deep (<string>:4)"), (("-t",), "thread (%d): " % target.pid), (("-F",), "spin (<string>:5)")):
        file = context.path("x")
        status, out, err = run(path, "record", "-p", target.pid, "-d", 1, "-f", "raw", "-o", file, *flags, env=env)
        check(status == 0 and any(word in stack for stack in raw_counts(file)), "%s: %s" % (flags, out + err))
    status, out, err = run(path, "record", "-d", 1, "-f", "speedscope", "-o", context.path("y"), "--", "/usr/bin/python3", "-c",
                           PROGRAM.replace("while True", "while time.process_time() < 1"), env=env)
    check(status == 0 and "spin" in context.text("y"), out + err)
    words = ["w"] * 300
    status, out, err = run(path, "record", "-d", 1, "-f", "raw", "-o", context.path("z"), "--", "/usr/bin/python3", "-c",
                           "import sys; open(%r, 'w').write(' '.join(sys.argv[1:]))" % context.path("words"), *words, env=env)
    check(context.text("words").split() == words, out + err)
    # bpfprof's own exit status is another, and the word permission is in some of its messages.
    status, out, err = run(path, "dump", "-p", target.pid, env=env, user=65534)
    check(status == 1 and not out and "CAP_BPF" in err, "%d: %s%s" % (status, out, err))
    fake = context.scratch("fake", 0o755)
    with open(os.path.join(fake, "bpfprof"), "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\ntrap 'echo ended >&2; exit 7' TERM\necho 'Permission denied' >&2\n"
                   "while :; do sleep 0.1; done\n")
    os.chmod(os.path.join(fake, "bpfprof"), 0o755)
    with subprocess.Popen([path, "dump", "-p", str(target.pid)], env={"PATH": fake + ":/usr/bin:/bin"},
                          stderr=subprocess.PIPE, text=True) as asking:
        check(asking.stderr.readline() == "access denied\n", "the first message")
        asking.terminate()
        check(asking.wait(10) == 1 and asking.stderr.read() == "ended\n", "the signal is not passed")


@test(modes=CAPS)
def cut(context):
    """The agent ends while it answers, or is no agent: one sentence, and no file is left."""
    path, target = standin(), program(context)
    for answer, says in ((b"", "ended before its answer was whole"),
                         (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", "ended before its answer was whole"),
                         (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "ended before its answer was whole"),
                         (b"SSH-2.0-x\r\n", "is no agent of bpfprof"),
                         (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "is no agent of bpfprof"),
                         (b"x" * 20000, "is no agent of bpfprof")):
        with socket.create_server(("127.0.0.1", 0)) as server:
            def serve(server=server, answer=answer):
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)
            thread = threading.Thread(target=serve)
            thread.start()
            status, _, err = run(path, "dump", "-p", target.pid, env={
                "BPFPROF_AGENT": "127.0.0.1:%d" % server.getsockname()[1]})
            thread.join()
        check(status == 1 and says in err and err.count("\n") == 1, "%s: %d %s" % (answer[:60], status, err))


@test(modes=CAPS)
def busy(context):
    """An agent that is busy is asked again, each time with the token of the file beside the program."""
    path, target, folder = standin(), program(context), context.scratch("opt")
    tokens = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        def serve():
            for number in range(10):
                connection, _ = server.accept()
                with connection:
                    asked = connection.recv(65536).decode()
                    tokens.append(re.findall(r"Authorization: Bearer (\S+)", asked))
                    connection.sendall(b"HTTP/1.1 503 Busy\r\nRetry-After: 1\r\n\r\n" if number < 9 else
                                       b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhole")
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        status, out, err = run(path, "bpfprof-install", folder, env={
            "BPFPROF_AGENT": "127.0.0.1:%d" % server.getsockname()[1], "BPFPROF_TOKEN": TOKEN})
        check(status == 0, err)
        conf = os.path.join(folder, "bpfprof-agent.conf")
        with open(conf, encoding="ascii") as file:
            lines = file.read().splitlines()
        with open(conf, "w", encoding="ascii") as file:  # as an editor may leave it
            file.write("# of the node\r\n\r\n" + "\n".join(re.sub("=(.*)", '="\\1"\r', line) for line in lines))
        status, out, err = run(os.path.join(folder, "py-spy"), "dump", "-p", target.pid)
        check(status == 0 and out == "whole" and tokens == [[TOKEN]] * 10, "%s%s: %s" % (out, err, tokens))
        thread.join(10)


@test(modes=CAPS)
def installed(context):
    """An init container copies the program and writes the configuration, which holds without an environment."""
    path, agent = standin(), Agent(context)
    folder, target = context.scratch("opt"), program(context)
    status, out, err = run(path, "bpfprof-install", folder, env=agent.env(ALL))
    check(status == 0 and not out and not err, err)
    modes = {name: os.stat(os.path.join(folder, name)).st_mode & 0o777 for name in os.listdir(folder)}
    check(modes == {"py-spy": 0o755, "memray": 0o755, "bpfprof-agent.conf": 0o644}, str(modes))
    status, out, err = run(os.path.join(folder, "py-spy"), "dump", "-p", target.pid)
    check(status == 0 and '(idle): "sleeper"' in out, err)
    check(run(os.path.join(folder, "memray"), "--version")[1].endswith("(bpfprof 0.1.0)\n"), "memray")
    status, _, err = run(path, "bpfprof-install", context.path("nowhere"))
    check(status == 1 and "nowhere" in err, err)


def applied(documents, patch):
    """A JSON patch, of the kind that only adds."""
    for one in patch:
        *parts, last = one["path"].strip("/").split("/")
        at = documents
        for part in parts:
            at = at[int(part) if part.isdigit() else part]
        check(one["op"] == "add", one["op"])
        at[last] = one["value"]
    return documents


@test(modes=("root",))
def manifests(context):
    """deploy/ray: what the agents get, and what the patch makes of a cluster's pods."""
    with open(os.path.join(ROOT, "deploy", "ray", "raycluster-patch.yaml"), encoding="utf-8") as file:
        (patch,) = documents_of(file.read())
    pod = {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray"}]}}
    cluster = applied({"spec": {"headGroupSpec": {"template": json.loads(json.dumps(pod))},
                                "workerGroupSpecs": [{"template": json.loads(json.dumps(pod))}]}}, patch)["spec"]
    for spec in (cluster["headGroupSpec"]["template"]["spec"], cluster["workerGroupSpecs"][0]["template"]["spec"]):
        ray, init = spec["containers"][0], spec["initContainers"][0]
        check(init["command"] == ["/bin/py-spy", "bpfprof-install", "/opt/bpfprof"], str(init))
        security = init["securityContext"]
        check(security["runAsNonRoot"] and security["capabilities"] == {"drop": ["ALL"]} and
              not security["allowPrivilegeEscalation"], str(security))
        check({"name": "RAY_DASHBOARD_ENABLE_PROFILING", "value": "1"} in ray["env"], str(ray["env"]))
        check({mount["name"] for mount in ray["volumeMounts"] + init["volumeMounts"]} ==
              {volume["name"] for volume in spec["volumes"]}, "mounts and volumes differ")
        check({mount.get("subPath") for mount in ray["volumeMounts"]} ==
              {"py-spy", "memray", "bpfprof-agent.conf", None}, str(ray["volumeMounts"]))
        check(not any("hostPath" in volume for volume in spec["volumes"]), "restricted pods have none")
    done = subprocess.run(["kubectl", "kustomize", os.path.join(ROOT, "deploy", "ray", "agent")],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise Skip("this kubectl cannot render it: " + done.stderr.strip()[:200])
    documents = {one["kind"]: one for one in documents_of(done.stdout)}
    check(documents["Service"]["spec"]["internalTrafficPolicy"] == "Local", "another node's agent knows no pid")
    spec = documents["DaemonSet"]["spec"]["template"]["spec"]
    agent = spec["containers"][0]
    check("--allow-remote-profiling=/etc/bpfprof/tokens" in agent["args"], str(agent["args"]))
    check(sorted(agent["securityContext"]["capabilities"]["add"]) == ["BPF", "DAC_READ_SEARCH", "PERFMON", "SYSLOG"], "capabilities")
    secret = next(volume["secret"] for volume in spec["volumes"] if "secret" in volume)
    check(secret == {"secretName": "bpfprof-tokens", "defaultMode": 0o400}, str(secret))
    context.note("%d documents" % len(documents))
