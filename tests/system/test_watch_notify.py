# SPDX-License-Identifier: Apache-2.0
"""daemon --watch --notify: the server gets what the log says about deaths, whatever it does to the daemon."""

import calendar
import json
import os
import resource
import signal
import socket
import ssl
import subprocess
import time

import containers
from daemons import Daemon, get, metrics_of, profiles
from harness import CAPS, check, test
from test_push import HOST, Server, certificate, files_of, secret, silent
from test_watch import dies, folders, go, killer, wait_for

BESIDE = True
FACTS = ["event", "why", "time", "host", "signal", "by", "pid"]
SECRET_PATH = "/services/hidden-path?key=hidden-query"


def notifying(context, server, *args, **kwargs):
    url = server if isinstance(server, str) else server.url
    daemon = Daemon(context, "--watch", "--notify", url, *args, **kwargs)
    daemon.wait("sampling")
    return daemon


def figures(daemon):
    return metrics_of(get(int(daemon.wait("listening")[0]["port"]), "/metrics")[2])


def learned(daemon):
    """Waits until the daemon knows the ranks of the processes that are there, which it learns bit by bit."""
    read, before = 0, -1
    for _ in range(5):
        if read == before:
            return
        time.sleep(1.2)
        read, before = figures(daemon).get('bpfprof_environment_events_total{event="read"}', 0), read


def unused_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def bodies(server):
    return [json.loads(request.body) for request in server.requests]


def summary_of(daemon, folder):
    with open(os.path.join(daemon.output, folder, "summary.txt"), encoding="utf-8") as file:
        return file.read()


def check_death(daemon, body, line):
    """The notification has what the log and the folder have; more than FACTS are facts of this process."""
    check(list(body)[:len(FACTS)] == FACTS and list(body)[-2:] == ["folder", "summary"], list(body))
    check(body["event"] == "death" and body["host"] == HOST, body)
    for key in ("why", "signal", "by", "pid", "folder"):
        check(body[key] == line[key], "%s: %s, %s" % (key, body, line))
    check(body["summary"] == summary_of(daemon, body["folder"]), body["summary"])
    head, _, millis = body["time"].partition(".")
    ended = "ended         %s.%s UTC\n" % (head.replace("T", " "), millis[:3])
    check(millis.endswith("Z") and ended in body["summary"], "%s: %s" % (body["time"], body["summary"]))
    seconds = calendar.timegm(time.strptime(head, "%Y-%m-%dT%H:%M:%S"))
    check(abs(time.time() - seconds) < 60, body["time"])


@test(modes=CAPS)
def delivered(context):
    """A death by a signal, one by a killer, one by an exit code: each once, over one connection, with the token."""
    programs = [dies(context, way, env={"RANK": rank, "WORLD_SIZE": "8"})
                for way, rank in (("segv", "3"), ("wait", "4"), ("exit", "5"))]
    token = secret(context, "token", "hidden-token\n")
    server = Server(context)
    pids = [word for one in programs for word in ("-p", one.pid)]
    daemon = notifying(context, server.url + SECRET_PATH, "--notify-token-file", token, *pids, listen="127.0.0.1:0")
    learned(daemon)
    for program in programs:
        go(program)
    time.sleep(0.3)
    by = killer(context, signal.SIGKILL, programs[1].pid)
    server.wait(3, 20)
    time.sleep(1.2)  # of /metrics there is a snapshot a second
    counted = figures(daemon)
    metrics = get(int(daemon.said("listening")[0]["port"]), "/metrics")[2]
    check(daemon.end() == 0, "it failed")
    said = {line["pid"]: line for line in daemon.said("process died")}
    found = {body["pid"]: body for body in bodies(server)}
    check(set(found) == set(said) == {one.pid for one in programs} and len(server.requests) == 3, "%s" % found)
    for pid, body in found.items():
        check_death(daemon, body, said[pid])
    for program, rank, signal_name, why in zip(
            programs, "345", ("SIGSEGV", "SIGKILL", "exit"),
            ("died of SIGSEGV in segv_here (deaths)", "was killed with SIGKILL by ", "exited with code 3")):
        body = found[program.pid]
        check(body["why"].startswith("deaths (pid %d, rank %s) %s" % (program.pid, rank, why)), body["why"])
        check(body["signal"] == signal_name and body["rank"] == rank and body["world_size"] == "8", body)
        check(body["by"] == "self" if rank != "4" else body["by"].startswith("python3") and
              " (pid %d), while in wait_here" % by in body["why"], body)
    for request in server.requests:
        check(request.line == "POST %s HTTP/1.1" % SECRET_PATH, request.line)
        check(request.headers["Content-Type"] == "application/json", request.headers)
        check(request.headers["Authorization"] == "Bearer hidden-token", request.headers)
    check(server.connections == 1, "%d connections" % server.connections)
    check(counted["bpfprof_notifications_sent_total"] == 3 and
          counted["bpfprof_notify_bytes_total"] == sum(len(request.body) for request in server.requests) and
          counted['bpfprof_walk_events_total{event="notifications_sent"}'] == 3, "%s" % counted)
    check(not any(value for key, value in counted.items() if "notify_errors" in key or "notify_dropped" in key), counted)
    check(daemon.said("notifying")[0]["url"] == server.url and "hidden" not in context.text("log") + metrics,
          "a secret is in the log or the metrics")
    check(any("is sent unencrypted" in line["msg"] for line in daemon.lines()), "http with a token is not warned of")


@test(modes=CAPS, lock="pods")
def of_a_pod(context):
    """Namespace, pod and container of a process that dies in one."""
    namespace = "notify-%d" % os.getpid()
    containerd = containers.start(context)
    layer = containers.base_layer()
    layer.program(context.helper("deaths", "deaths.c", "-pthread", "-DTARGET_MAIN"), "/app/deaths")
    server = Server(context)
    daemon = notifying(context, server, "--pod", namespace + "/*", listen="127.0.0.1:0")
    box = containerd.run(containerd.image("deaths", [layer]), ["/app/deaths", "leave"],
                         pod=containers.Pod("dies-0", namespace))
    box.ask("/app/deaths", "segv", env={"DEATHS_DELAY": "1"})
    [body] = [json.loads(request.body) for request in server.wait(1, 20)]
    counted = figures(daemon)
    check(counted['bpfprof_pod_deaths_total{watched_pod="%s/dies-0"}' % namespace] == 1, "%s" % counted)
    check(daemon.end() == 0, "it failed")
    check_death(daemon, body, daemon.said("process died")[0])
    check(body["namespace"] == namespace and body["pod"] == "dies-0" and body["container"] and
          len(body["container_id"]) >= 32, body)


@test(modes=CAPS, lock="pods")
def of_a_pod_that_hangs(context):
    """The same of a process that hangs there: its sentence, its pod, and the count by pod."""
    namespace = "hangs-%d" % os.getpid()
    containerd = containers.start(context)
    layer = containers.base_layer()
    layer.program(context.helper("stalls", "stalls.c", "-pthread"), "/app/stalls")
    server = Server(context)
    daemon = notifying(context, server, "--stall", "2s", "--pod", namespace + "/*", listen="127.0.0.1:0")
    containerd.run(containerd.image("stalls", [layer]), ["/app/stalls", "mutexes"], pod=containers.Pod("hangs-0", namespace))
    [body] = [json.loads(request.body) for request in server.wait(1, 60)]
    counted = figures(daemon)
    check(counted['bpfprof_pod_stalls_total{watched_pod="%s/hangs-0"}' % namespace] == 1, "%s" % counted)
    check(daemon.end() == 0, "it failed")
    [line] = daemon.said("process stalled")
    check(body["event"] == "stall" and body["why"] == line["why"] and "stalls (pid " in line["why"] and
          body["namespace"] == namespace and body["pod"] == "hangs-0" and len(body["container_id"]) >= 32 and
          body["folder"] == line["folder"] and "hangs-0" in line["folder"], "%s %s" % (body, line))


@test(modes=CAPS)
def busy_at_first(context):
    """503, 503, then a redirect and 200: the same text again, later each time. 400 drops it."""
    other = Server(context)
    server = Server(context, 503, 503, (302, "Location: %s/\r\n" % other.url), 200, 400, 200)
    programs = [dies(context, "segv") for _ in range(3)]
    daemon = notifying(context, server, *(word for one in programs for word in ("-p", one.pid)), listen="127.0.0.1:0")
    for program, requests in zip(programs, (4, 5, 6)):
        go(program)
        server.wait(requests, 30)
    time.sleep(1.2)
    counted = figures(daemon)
    check(daemon.end() == 0, "it failed")
    requests, pids = server.requests, [body["pid"] for body in bodies(server)]
    check(pids == [programs[0].pid] * 4 + [programs[1].pid, programs[2].pid], "%s" % pids)
    check(len({request.body for request in requests[:4]}) == 1, "other texts")
    waits = [after.time - before.time for before, after in zip(requests, requests[1:4])]
    check(0.5 <= waits[0] <= 1.5 and 1 <= waits[1] <= 2.5 and 2 <= waits[2] <= 4.5, "%s" % waits)
    for reason, count in (("server", 2), ("redirect", 1), ("refused", 1)):
        check(counted['bpfprof_notify_errors_total{reason="%s"}' % reason] == count, "%s" % counted)
    check(counted['bpfprof_notify_dropped_total{reason="refused"}'] == 1 and
          counted["bpfprof_notifications_sent_total"] == 2 and counted["bpfprof_notify_queued"] == 0 and
          counted['bpfprof_walk_events_total{event="notifications_failed"}'] == 4 and
          counted['bpfprof_walk_events_total{event="notifications_dropped"}'] == 1, "%s" % counted)
    [dropped] = daemon.said("notifications not sent")
    check(dropped["reason"] == "refused" and dropped["notifications"] == 1, "%s" % dropped)
    check(daemon.said("notification failed")[0]["reason"] == "server" and daemon.said("notifying works again") and
          not other.connections, "%s" % daemon.lines())


def check_intervals(daemon):
    """Intervals of a second that abut, none of them longer."""
    found = profiles(daemon.output)
    ends = [profile.scalars[9] + profile.scalars[10] for profile in found]
    check(len(found) > 3 and ends[:-1] == [profile.scalars[9] for profile in found[1:]], "they do not abut")
    check(max(profile.scalars[10] for profile in found) < 1.6e9, "an interval became longer")


@test(modes=CAPS)
def absent(context):
    """No server for five intervals: intervals and folders are as ever; it gets all deaths later."""
    port = unused_port()
    programs = [dies(context, "segv") for _ in range(3)]
    daemon = notifying(context, "http://127.0.0.1:%d/" % port, *(word for one in programs for word in ("-p", one.pid)),
                       listen="127.0.0.1:0")
    for program in programs:
        go(program)
    daemon.wait("process died", 3)
    daemon.wait("profile written", 5)
    counted = figures(daemon)
    check(counted['bpfprof_notify_errors_total{reason="connect"}'] >= 2 and counted["bpfprof_notify_queued"] == 3, counted)
    server = Server(context, port=port)
    server.wait(3)
    check(daemon.end() == 0, "it failed")
    check({body["pid"] for body in bodies(server)} == set(folders(daemon)) == {one.pid for one in programs}, "deaths")
    check_intervals(daemon)
    check(daemon.said("notification failed")[0]["reason"] == "connect", "%s" % daemon.lines())


@test(modes=CAPS, long=True)
def hangs(context):
    """A server that never answers delays neither intervals, nor folders, nor --push; the end takes as long as --push's."""
    server, pyroscope = Server(context, silent), Server(context)
    program = dies(context, "segv")
    daemon = notifying(context, server, "--push", pyroscope.url, "-p", program.pid, listen="127.0.0.1:0")
    go(program)
    server.wait(1, 20)
    daemon.wait("profile written", 5)
    pyroscope.wait(5, 5)
    check(figures(daemon)["bpfprof_notify_queued"] == 1, "%s" % figures(daemon))
    began = time.monotonic()
    check(daemon.end() == 0, "it failed")
    took = time.monotonic() - began
    context.note("ended within %.1f s" % took)
    check(took < 16, "took %.1f s" % took)
    left = daemon.said("ended before all notifications were sent")
    check(left and left[0]["notifications"] == 1 and left[0]["sent"] == 0, "%s" % daemon.lines()[-3:])
    check(set(folders(daemon)) == {program.pid}, "%s" % folders(daemon))
    check_intervals(daemon)
    check([request.body for request in pyroscope.requests] == files_of(daemon), "profiles were not pushed")


@test(modes=CAPS, long=True)
def both_hang(context):
    """--push and --notify have the same ten seconds at the end."""
    program = dies(context, "segv")
    server = Server(context, silent)
    daemon = notifying(context, server, "--push", Server(context, silent).url, "-p", program.pid)
    go(program)
    server.wait(1, 20)
    daemon.wait("profile written", 2)
    began = time.monotonic()
    check(daemon.end() == 0, "it failed")
    took = time.monotonic() - began
    context.note("ended within %.1f s" % took)
    check(10 < took < 16, "took %.1f s" % took)
    check(daemon.said("ended before all notifications were sent") and daemon.said("ended before all was pushed"), "silent")


@test(modes=CAPS)
def no_descriptor(context):
    """A notification that could not be made is counted, and the next death has one again."""
    programs = [dies(context, "segv") for _ in range(2)]
    server = Server(context)
    daemon = notifying(context, server, "-p", programs[0].pid, "-p", programs[1].pid, interval="60s", listen="127.0.0.1:0")
    time.sleep(1)
    pid, limits = daemon.process.pid, resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
    used = set(map(int, os.listdir("/proc/%d/fd" % pid)))
    free = min(set(range(len(used) + 1)) - used)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (free, limits[1]))
    go(programs[0])
    daemon.wait("process died")
    time.sleep(1.2)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
    dropped = figures(daemon)['bpfprof_notify_dropped_total{reason="no_memory"}']
    check(dropped == 1, "%s dropped" % dropped)
    go(programs[1])
    wait_for(lambda: programs[1].pid in [body.get("pid") for body in bodies(server)], "the second death is sent")
    check(daemon.end() == 0, "it failed")
    check(programs[0].pid not in [body.get("pid") for body in bodies(server)], "%s" % bodies(server))


@test(modes=CAPS)
def last_deaths(context):
    """A death at the end of the daemon is sent, too. Where nothing listens, the end does not wait."""
    server = Server(context)
    for url, most in ((server.url, 12), ("http://127.0.0.1:%d" % unused_port(), 6)):
        program = dies(context, "segv")
        daemon = notifying(context, url, "-p", program.pid, interval="60s", log="log-%d" % most,
                           output=context.path("out-%d" % most))
        time.sleep(1)
        go(program)
        program.wait(20)
        began = time.monotonic()
        check(daemon.end() == 0, "it failed")
        took = time.monotonic() - began
        check(took < most, "took %.1f s" % took)
        check(set(folders(daemon)) == {program.pid}, "%s" % folders(daemon))
        if url == server.url:
            check([body["pid"] for body in bodies(server)] == [program.pid], "%s" % bodies(server))
        else:
            check(daemon.said("ended before all notifications were sent")[0]["notifications"] == 1, "it is not logged")


@test(long=True)
def crash_loop(context):
    """100 deaths at once: a notification for each folder, and for the others one with their number."""
    process = dies(context, "brood", 100, stdout=subprocess.PIPE)
    process.stdout.readline()
    server = Server(context)
    daemon = notifying(context, server, "-p", process.pid)
    time.sleep(2)  # it learns the users of the processes that are there bit by bit
    go(process)
    process.wait(30)
    wait_for(lambda: len(daemon.said("process died")) >= 40, "40 deaths are written")
    check(daemon.end() == 0, "it failed")
    sent = [body for body in bodies(server) if body["event"] == "death"]
    more = [body for body in bodies(server) if body["event"] == "more_deaths"]
    check({body["folder"] for body in sent} == {line["folder"] for line in daemon.said("process died")} and
          len(sent) == 40, "%d notifications" % len(sent))
    check([body["deaths"] for body in more] ==
          [line["deaths"] for line in daemon.said("more processes died, without a folder")], "%s" % more)
    check(sum(body["deaths"] for body in more) == 60 and more[-1]["all_deaths"] == 100 and
          more[-1]["why"] == "%d more processes died, without a folder" % more[-1]["deaths"] and
          more[-1]["host"] == HOST, "%s" % more)


@test()
def without_a_folder(context):
    """A death that the disk has no room for is sent all the same, without a folder."""
    process = dies(context, "segv")
    server = Server(context)
    daemon = notifying(context, server, "-p", process.pid)
    with open(os.path.join(daemon.output, ".death.tmp"), "w", encoding="ascii"):
        pass  # in the place of the folder that the daemon makes
    go(process)
    server.wait(2)
    check(daemon.end() == 0, "it failed")
    death, more = bodies(server)
    check(death["pid"] == process.pid and "folder" not in death and death["summary"].startswith(death["why"] + ".\n"), death)
    check(more["event"] == "more_deaths" and more["deaths"] == 1, more)


@test(modes=CAPS)
def tls(context):
    """A certificate must be one of --notify-ca-file."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(*certificate(context, "good", "127.0.0.1"))
    server = Server(context, tls=made)
    programs = [dies(context, "segv") for _ in range(2)]
    for program, args in zip(programs, ([], ["--notify-ca-file", context.path("good.pem")])):
        daemon = notifying(context, server, "-p", program.pid, *args, output=context.path("out-%d" % len(args)),
                           log="log-%d" % len(args), listen="127.0.0.1:0")
        go(program)
        if args:
            check(json.loads(server.wait(1)[0].body)["pid"] == program.pid, "%s" % bodies(server))
        else:
            check(daemon.wait("notification failed")[0]["reason"] == "tls" and not server.requests, "sent all the same")
        context.note("%.1f MiB" % (figures(daemon)["bpfprof_memory_bytes"] / 2**20))
        check(daemon.end() == 0, "it failed")


@test(modes=("caps",))
def wrong_flags(context):
    """URLs are checked at the start, and no message repeats them; a file that is missing is an error."""
    for args, words in ((["--watch", "--notify", "hooks:80"], "http://"),
                        (["--watch", "--notify", "http://me:hidden@host/"], "--notify-token-file"),
                        (["--watch", "--notify", "http://host/#hidden"], "#"),
                        (["--notify", "http://host/"], "add --watch"),
                        (["--watch", "--notify-token-file", "x"], "--notify is missing")):
        done = context.bpfprof("daemon", "--output", "x", *args).expect(2)
        check(words in done.text and "hidden" not in done.text, done.text)
    secret(context, "empty", "")
    for args, words in ((["--notify-token-file", "none"], "No such file"),
                        (["--notify-token-file", "empty"], "one line"),
                        (["--notify-ca-file", "none"], "No such file")):
        done = context.bpfprof("daemon", "--output", "x", "--watch", "--notify", "http://h", *args).expect(1)
        check(args[0] in done.text and words in done.text, done.text)


@test(modes=CAPS)
def quiet(context):
    """Without --notify, a daemon with --watch has no metric of it, and loads no libcurl."""
    daemon = Daemon(context, "--watch", listen="127.0.0.1:0")
    daemon.wait("listening")
    check(not [name for name in figures(daemon) if "notif" in name], "%s" % figures(daemon))
    with open("/proc/%d/maps" % daemon.process.pid, encoding="utf-8") as file:
        check("libcurl" not in file.read(), "libcurl is loaded")
    check(daemon.end() == 0, "it failed")
