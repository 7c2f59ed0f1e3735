# SPDX-License-Identifier: Apache-2.0
"""daemon over HTTP: profiles, dumps and files for clients with the token, and for no other client."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import threading
import time

import containers
import test_container_tags
from daemons import Daemon, ask, busy, check_files, cpu_of, metrics_of, profiles, token_file
from harness import BPFPROF, CAPS, check, descendants, stop, test
from pprof import Pprof

BESIDE = True
TOKEN = "correct-horse.battery/staple=="
HZ = 99
SHARES = """
import time
def three():
    end = time.thread_time() + 0.03
    while time.thread_time() < end: pass
def one():
    end = time.thread_time() + 0.01
    while time.thread_time() < end: pass
while True:
    three()
    one()
"""
SLEEPER = "import time\ndef deep():\n    time.sleep(600)\ndeep()\n"


class Server(Daemon):
    """A daemon that answers."""

    def __init__(self, context, *args, **kwargs):
        token_file(context, TOKEN)
        super().__init__(context, "--allow-remote-profiling", context.path("token"), *args,
                         listen="127.0.0.1:0", **kwargs)
        self.port = int(self.wait("listening")[-1]["port"])

    def connect(self, timeout=60, source="127.0.0.1"):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout, source_address=(source, 0))

    def get(self, path, token=TOKEN, method="GET", source="127.0.0.1", **headers):
        """(status, headers, body)"""
        if token:
            headers["Authorization"] = "Bearer " + token
        connection = self.connect(source=source)
        with contextlib.closing(connection):
            connection.request(method, path, headers=headers)
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read()

    def good(self, path):
        status, headers, body = self.get(path)
        check(status == 200, "%s: %d: %s" % (path, status, body[:300]))
        return headers, body

    def metrics(self):
        time.sleep(1.1)  # one picture is good for a second
        return metrics_of(self.good("/metrics")[1].decode())

    def idle(self, timeout=15):
        """Waits until no child of it is left but a writer's, and no connection is held."""
        end = time.monotonic() + timeout
        while children(self.process.pid) > 1:
            check(time.monotonic() < end, "children are left")
            time.sleep(0.05)


def children(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid), encoding="ascii") as file:
        return len(file.read().split())


def check_abut(folder):
    found = profiles(folder)
    ends = [profile.scalars[9] + profile.scalars[10] for profile in found]
    starts = [profile.scalars[9] for profile in found]
    check(ends[:-1] == starts[1:], "they do not abut: %s %s" % (starts, ends))
    return found


def big_file(folder, data):
    """One as if of an hour ago, which retention leaves alone; its name."""
    name = time.strftime("cpu-%Y%m%dT%H%M%SZ-60s.html", time.gmtime(time.time() - 3600))
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)
    return name


def at_once(calls):
    """Results of all of them, run side by side."""
    results = [None] * len(calls)

    def run(number):
        results[number] = calls[number]()
    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def sleeper(context, **kwargs):
    process = context.spawn(["/usr/bin/python3", "-c", SLEEPER], **kwargs)
    time.sleep(0.7)
    return process


@test(modes=CAPS)
def profile(context):
    """A profile of one process among others: its CPU time, its shares, its own pid; intervals go on."""
    program = context.spawn(["/usr/bin/python3", "-c", SHARES])
    other = busy(context)
    daemon = Server(context)
    daemon.wait("profile written", 2)
    before = cpu_of(program.pid)
    began = time.monotonic()
    headers, body = daemon.good("/profile?seconds=6&pid=%d" % program.pid)
    used, took = cpu_of(program.pid) - before, time.monotonic() - began
    check("octet-stream" in headers["Content-Type"], headers["Content-Type"])
    check(6 <= took < 9, "took %.1f s" % took)
    found = Pprof(body)
    check({sample["labels"].get("pid") for sample in found.samples} == {program.pid},
          "others are in it")
    seen = sum(sample["values"][0] for sample in found.samples)
    check(abs(seen / HZ - used) <= 0.15 * used + 0.1, "%.2f s sampled, %.2f used" %
          (seen / HZ, used))
    parts = {"three": 0, "one": 0}
    for sample in found.samples:
        stack = {name for at in sample["stack"] for name in found.locations[at]["functions"]}
        for name in parts:
            parts[name] += sample["values"][0] if name in stack else 0
    share = parts["three"] / max(1, parts["three"] + parts["one"])
    context.note("%d samples for %.2f s of CPU time, share %.3f of 0.75" % (seen, used, share))
    check(abs(share - 0.75) < 0.06 and sum(parts.values()) > 0.9 * seen, "shares: %s" % parts)
    check(abs(found.scalars[10] - 6e9) < 1e6, "lasted %d ns" % found.scalars[10])
    stats = found.stats
    check(stats["lost"].get("tick_skipped", 0) < seen, "lost: %s" % stats["lost"])
    other.kill()
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    check_abut(daemon.output)
    check_files(daemon.output)


@test(modes=CAPS)
def formats(context):
    """Each format, of the whole machine; two at once, each with its own length."""
    busy(context)
    daemon = Server(context)
    daemon.wait("sampling")
    time.sleep(1)
    for name, kind, begin in (("folded", "text/plain", b"# {"), ("html", "text/html", b"<!"),
                              ("svg", "image/svg", b"<"), ("raw", "text/plain", b""),
                              ("speedscope", "application/json", b"{")):
        headers, body = daemon.good("/profile?duration=0.5s&native=1&format=" + name)
        check(kind in headers["Content-Type"] and body.lstrip().startswith(begin) and
              len(body) > 100, "%s: %s: %s" % (name, headers["Content-Type"], body[:80]))
    short, long = at_once([lambda: daemon.good("/profile?seconds=1")[1],
                           lambda: daemon.good("/profile?seconds=3")[1]])
    counts = [sum(s["values"][0] for s in Pprof(body).samples) for body in (short, long)]
    check(counts[1] > 1.8 * counts[0] > 0, "samples of 1 s and 3 s: %s" % counts)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)


@test(modes=CAPS)
def children_too(context):
    """pid=: what the process starts meanwhile is in it, as with record; and nothing afterwards."""
    program = context.spawn(["/usr/bin/python3", "-c", """
import subprocess, sys, time
time.sleep(1.5)
while True:
    subprocess.run([sys.executable, "-S", "-c", "for i in range(10**7): pass"])
"""])
    busy(context)
    daemon = Server(context)
    daemon.wait("sampling")
    found = Pprof(daemon.good("/profile?seconds=4&pid=%d" % program.pid)[1])
    pids = {sample["labels"].get("pid") for sample in found.samples}
    with open("/proc/%d/task/%d/children" % (program.pid, program.pid), encoding="ascii") as file:
        now = {int(pid) for pid in file.read().split()}
    check(now & pids or len(pids) > 1, "pids in it: %s, children now %s" % (pids, now))
    program.kill()
    program.wait()
    status, _, body = daemon.get("/profile?seconds=1&pid=%d" % program.pid)
    check(status == 404 and b"no such process" in body, body[:200])
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)


@test(modes=CAPS)
def dump(context):
    """A sleeping Python: the same as `bpfprof dump` says; who is not there: 404 and why."""
    target = sleeper(context)
    daemon = Server(context)
    daemon.wait("sampling")
    text = daemon.good("/dump?pid=%d" % target.pid)[1].decode()
    said = context.bpfprof("dump", "-p", target.pid).expect(0).out.decode()
    check(text == said, "%s\nbut dump says\n%s" % (text, said))
    check("    deep (<string>:3)\n    <module> (<string>:4)\n" in text, text)
    native = daemon.good("/dump?native=1&pid=%d" % target.pid)[1].decode()
    check("nanosleep" in native and "nanosleep" not in text, native)
    status, _, body = daemon.get("/dump?pid=%d" % (1 << 22))
    check(status == 404 and b"no such process" in body, body)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)


@test(modes=CAPS, lock="workers")
def dump_by_worker(context):
    """A hung Ray worker, found by its title, over HTTP and on the command line."""
    room = "r" * 300
    target = context.spawn(["/usr/bin/python3", "-c", """
import ctypes, sys, time
start = int(open('/proc/self/stat').read().rsplit(')', 1)[1].split()[45])
title = b'ray::Trainer%s.fit' % sys.argv[2].encode()
ctypes.memmove(start, title + bytes(len(sys.argv[1])), len(title) + len(sys.argv[1]))
def fit():
    time.sleep(600)
fit()
""", room, str(os.getpid())], plain=True)
    time.sleep(1)
    pattern = "trainer%d" % os.getpid()
    done = context.bpfprof("dump", "--worker", pattern + "*").expect(0)
    check("Process %d:" % target.pid in done.text and "fit (<string>:" in done.text, done.text)
    done = context.bpfprof("dump", "--worker", "none-of-" + pattern).expect(0)
    check("no process on this node matches" in done.text and not done.out, done.text)
    daemon = Server(context)
    daemon.wait("sampling")
    text = daemon.good("/dump?worker=%%2Aer%d" % os.getpid())[1].decode()
    check("Process %d:" % target.pid in text and "fit (<string>:" in text, text)
    check(daemon.get("/dump?worker=none-of-" + pattern)[0] == 404, "of nobody")
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)


@test(modes=CAPS)
def files(context):
    """The index is what there is; each file byte for byte; nothing else at all."""
    daemon = Server(context)
    daemon.wait("profile written", 3)
    folder = daemon.output
    os.mkdir(os.path.join(folder, "ml"))
    os.mkdir(os.path.join(folder, "ml", "pod-0"))
    secret = context.path("secret")
    with open(secret, "w", encoding="ascii") as file:
        file.write("secret")
    os.symlink(secret, os.path.join(folder, "cpu-20200101T000000Z-60s.html"))
    os.symlink("/etc", os.path.join(folder, "etc"))
    os.mkfifo(os.path.join(folder, "cpu-20200102T000000Z-60s.html"))
    for name in (".bpfprof-daemon-0123456789abcdef.tmp", "other", "ml/pod-0/other"):
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write("secret")
    with open(os.path.join(folder, "ml", "pod-0", "cpu-20200103T000000Z-60s.folded"), "wb") as file:
        file.write(b"of a pod\n")
    names = daemon.good("/files/")[1].decode().split("\n")
    check(names[-1] == "" and names[:-1] == sorted(names[:-1]), names)
    ours = [name for name in names if name.startswith("cpu-")]
    check(any(name.endswith(".seconds.gz") for name in ours), names)
    check(len(ours) >= 9 and "ml/" in names and "latest.pb.gz" in names, names)
    check(not [n for n in names if "tmp" in n or "other" in n or "etc" in n or "2020" in n], names)
    for name in ours:
        headers, body = daemon.good("/files/" + name)
        with open(os.path.join(folder, name), "rb") as file:
            check(body == file.read(), name + " is not what lies there")
        check(headers["Content-Length"] == str(len(body)), str(headers))
    Pprof(daemon.good("/files/latest.pb.gz")[1])
    check(daemon.good("/files/ml/")[1] == b"pod-0/\n", "ml/")
    check(daemon.good("/files/ml/pod-0/")[1] == b"cpu-20200103T000000Z-60s.folded\n", "ml/pod-0/")
    check(daemon.good("/files/ml/pod-0/cpu-20200103T000000Z-60s.folded")[1] == b"of a pod\n", "pod")
    status, headers, body = daemon.get("/files/" + ours[0], method="HEAD")
    check(status == 200 and body == b"" and int(headers["Content-Length"]) > 0, str(headers))
    os.unlink(os.path.join(folder, "latest.html"))
    os.symlink(secret, os.path.join(folder, "latest.html"))
    for path in ("../secret", "%2e%2e/secret", "..%2fsecret", "%2e%2e%2fsecret", "./" + ours[0],
                 "/etc/passwd", "%2fetc/passwd", "etc/passwd", "etc/", "other", "latest.html",
                 ".bpfprof-daemon-0123456789abcdef.tmp", "cpu-20200101T000000Z-60s.html",
                 "cpu-20200102T000000Z-60s.html", ours[0] + "/", ours[0] + "%00", "ml", "ml/../",
                 "ml/pod-0/other", "ml/pod-0/x/", "a" * 300 + "/", "\\..\\secret", "%",
                 "cpu-20991231T235959Z-60s.pb.gz", "none/", "%0a/", ours[0] + "%00.html"):
        head, _, body = ask(daemon.port, ("GET /files/%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                                          "Authorization: Bearer %s\r\n\r\n" %
                                          (path, TOKEN)).encode()).partition(b"\r\n\r\n")
        # Is cut at the NUL, and so a file of ours; a link that the daemon sets anew.
        fine = path.endswith(("%00", "%00.html")) or path == "latest.html"
        check(b"secret" not in body and b"root:" not in body and
              (head.split()[1] == b"404" or fine), "%s: %s %s" % (path, head[:40], body[:60]))
    check(daemon.get("/files")[0] == 404, "without the slash")
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)


@test(modes=CAPS)
def tokens(context):
    """None, a wrong one, another scheme: refused before anything is looked at; the header says how."""
    daemon = Server(context)
    daemon.wait("sampling")
    for number, path in enumerate(("/profile?seconds=1", "/dump?pid=1", "/files/", "/files/x",
                                   "/profile?nonsense=1")):
        status, headers, _ = daemon.get(path, token=None)
        check(status == 401 and "Bearer" in headers["WWW-Authenticate"], "%s: %d" % (path, status))
        for wrong in ("x", TOKEN[:-1], TOKEN + "x", TOKEN + TOKEN, TOKEN.upper(), "y" * 4000):
            check(daemon.get(path, token=wrong, source="127.0.0.%d" % (2 + number))[0] == 403,
                  "%s with %s" % (path, wrong[:40]))
        for header in (TOKEN, "Basic " + TOKEN, "Bearer", "Bearer ", "Bearer" + TOKEN, ""):
            status = daemon.get(path, token=None, Authorization=header)[0]
            check(status == 401, "%s: %d" % (header, status))
    for header in ("bearer " + TOKEN, "BEARER   " + TOKEN + " "):
        check(daemon.get("/files/", token=None, Authorization=header)[0] == 200, header)
    check(daemon.get("/files/?token=" + TOKEN, token=None)[0] == 401, "a token in the query")
    for path in ("/metrics", "/healthz", "/readyz"):
        check(daemon.get(path, token=None)[0] == 200, path + " needs no token")
    found = daemon.metrics()
    check(found['bpfprof_remote_refused_total{reason="wrong_token"}'] == 30, "%s" % found)
    check(not any(TOKEN in json.dumps(line) for line in daemon.lines()), "the token is in the log")
    # Another one, from the next SIGHUP on.
    another = "another-token-of-the-daemon"
    token_file(context, another)
    check(daemon.get("/files/")[0] == 200, "read again too early")
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait("reloaded")
    check(daemon.get("/files/")[0] == 403 and daemon.get("/files/", token=another)[0] == 200,
          "not read again")
    # One that all users can read is not taken.
    token_file(context, "known-to-everybody", 0o644)
    daemon.process.send_signal(signal.SIGHUP)
    containers.wait_for("the file is not refused", lambda: any(
        "0644" in line["msg"] and "nothing is changed" in line["msg"] for line in daemon.lines()), 10)
    check(daemon.get("/files/", token=another)[0] == 200, "the old token is not valid any more")
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)


@test(modes=CAPS)
def without_the_flag(context):
    """Nothing of it is there; and the flag wants a file with one word."""
    daemon = Daemon(context, listen="127.0.0.1:0")
    port = int(daemon.wait("listening")[0]["port"])
    for path in ("/profile?seconds=1", "/dump?pid=1", "/files/"):
        reply = ask(port, ("GET %s HTTP/1.1\r\nConnection: close\r\nHost: x\r\nAuthorization: "
                           "Bearer %s\r\n\r\n" % (path, TOKEN)).encode())
        check(reply.startswith(b"HTTP/1.1 404"), "%s: %s" % (path, reply[:60]))
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    for text, words in ((None, "No such file"), ("", "no token"), (" \n\n", "no token"),
                        ("a b c\n", "at least 16"), ("a\nb\n", "at least 16"), ("\u00e9\n", "one word"),
                        ("x" * 70000, "too large"), ("x" * 128, "at most 127"), ("x" * 15, "at least 16")):
        if text is not None:
            token_file(context, text, name="bad")
        done = context.bpfprof("daemon", "--output", "x", "--allow-remote-profiling",
                               context.path("bad")).expect(2)
        check(words in done.text and "--allow-remote-profiling" in done.text, done.text)
    done = context.bpfprof("daemon", "--output", "x", "--allow-remote-profiling").expect(2)
    check("missing" in done.text, done.text)
    os.mkfifo(context.path("fifo"))
    context.bpfprof("daemon", "--output", "x", "--allow-remote-profiling",
                    context.path("fifo"), timeout=10).expect(2)


@test(modes=CAPS)
def wrong_queries(context):
    daemon = Server(context)
    daemon.wait("sampling")
    for path, words in (("/profile?seconds=0", "seconds"), ("/profile?seconds=-1", "seconds"),
                        ("/profile?seconds=99999", "3600"), ("/profile?seconds=x", "seconds"),
                        ("/profile?seconds=1&duration=1", "twice"), ("/profile?second=1", "second"),
                        ("/profile?seconds=1&pid=0", "pid"), ("/profile?seconds=1&pid=1,x", "pid"),
                        ("/profile?seconds=1&pod=a/b/c", "pod"), ("/profile?format=exe", "format"),
                        ("/profile?native=2", "native"), ("/dump", "missing"),
                        ("/dump?pid=1&seconds=1", "seconds"), ("/dump?worker=,", "worker"),
                        ("/dump?pid=1%00", "not understood"), ("/dump?pid=-p", "pid"),
                        ("/dump?worker=" + "*a" * 9, "8 times"), ("/files/?x=1", "x"),
                        ("/dump?pid=%1b[31m", "pid"), ("/dump?--locals", "--locals")):
        status, _, body = daemon.get(path)
        check(status == 400 and words.encode() in body and b"\x1b" not in body,
              "%s: %d %s" % (path, status, body))
    for path in ("/profile?seconds=1", "/dump?pid=1"):
        check(daemon.get(path, method="HEAD")[0] == 405, path)
        check(daemon.get(path, method="POST")[0] == 405, path)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)


@test(modes=CAPS)
def busy_with_others(context):
    """More than it does at once: 503 and when to come again; who goes away frees a place."""
    daemon = Server(context)
    daemon.wait("sampling")
    held = [daemon.connect() for _ in range(2)]
    for connection in held:
        connection.request("GET", "/profile?seconds=60",
                           headers={"Authorization": "Bearer " + TOKEN})
    time.sleep(0.3)
    status, headers, _ = daemon.get("/profile?seconds=1")
    check(status == 503 and 50 <= int(headers["Retry-After"]) <= 61, "%d %s" %
          (status, headers["Retry-After"]))
    target = sleeper(context)
    daemon.good("/dump?pid=%d" % target.pid)
    held[0].close()
    time.sleep(0.3)
    Pprof(daemon.good("/profile?seconds=1")[1])
    dumps = at_once([lambda: daemon.get("/dump?pid=%d" % target.pid)] * 8)
    kinds = {status for status, _, _ in dumps}
    check(kinds == {200, 503}, "8 dumps at once: %s" % kinds)
    check(all(headers["Retry-After"] for status, headers, _ in dumps if status == 503), "when?")
    count = len(daemon.said("profile written"))
    daemon.wait("profile written", count + 2)
    # The other one is still held: the daemon ends all the same.
    check(daemon.end(timeout=10) == 0, "exit status %s" % daemon.process.returncode)
    check_abut(daemon.output)


@test(modes=CAPS)
def hostile(context):
    """Slow readers, many connections, rubbish, huge headers, all at once: intervals still abut."""
    busy(context)
    daemon = Server(context)
    daemon.wait("profile written", 2)
    name = next(n for n in daemon.good("/files/")[1].decode().split("\n") if n.endswith(".html"))
    data = os.urandom(24 << 20)
    big = "files/" + big_file(daemon.output, data)
    header = "Host: x\r\nAuthorization: Bearer %s\r\n" % TOKEN
    slow = []
    for path in (big, big, "profile?seconds=1&format=html", "profile?seconds=600"):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", daemon.port))
        connection.sendall(("GET /%s HTTP/1.1\r\n%s\r\n" % (path, header)).encode())
        slow.append(connection)
    time.sleep(0.5)
    before = cpu_of(daemon.process.pid)
    check(daemon.good("/" + big)[1] == data, "is not what lies there")
    for text in (b"\0" * 1000, b"\xff\xfe" * 5000, b"GET /profile" + b"?" * 60000,
                 b"GET /files/" + b"../" * 5000 + b" HTTP/1.1\r\n\r\n",
                 ("GET /dump?pid=1 HTTP/1.1\r\n%sX: %s\r\n\r\n" % (header, "a" * (1 << 20))).encode(),
                 ("GET /dump?%s HTTP/1.1\r\n%s\r\n" % ("pid=1&" * 4000, header)).encode(),
                 ("POST /profile HTTP/1.1\r\n%sContent-Length: 9999999\r\n\r\n" %
                  header).encode() + b"b" * 99999):
        # The timeout of a connection that says nothing is 10 s; half of that is enough here.
        reply = ask(daemon.port, text, timeout=5)
        check(b"200 OK" not in reply, text[:40])
    many = []
    for _ in range(60):
        with contextlib.suppress(OSError):
            many.append(socket.create_connection(("127.0.0.1", daemon.port), 2))
    daemon.wait("profile written", len(daemon.said("profile written")) + 3)
    for connection in many + slow:
        connection.close()
    time.sleep(1)
    daemon.idle()
    cpu = cpu_of(daemon.process.pid) - before
    context.note("%.2f s of CPU time meanwhile" % cpu)
    check(daemon.good("/files/" + name)[1], "does not answer any more")
    found = daemon.metrics()
    check(found["bpfprof_remote_cut_total"] >= 3, "%s" % found)
    used = cpu_of(daemon.process.pid)
    time.sleep(2)
    idle = cpu_of(daemon.process.pid) - used
    check(idle < 0.6, "%.2f s of CPU time in 2 s with nothing to do" % idle)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    for line in daemon.said("profile written")[1:-1]:
        check(float(line["seconds"]) < 1.6, "one became longer: %s" % line)
    check_abut(daemon.output)


@test(modes=CAPS)
def killed_while_it_answers(context):
    """kill -9: what works for clients ends too."""
    daemon = Server(context)
    daemon.wait("sampling")
    name = big_file(daemon.output, bytes(24 << 20))
    connection = daemon.connect()
    connection.request("GET", "/files/" + name,
                       headers={"Authorization": "Bearer " + TOKEN})
    reply = connection.getresponse()
    time.sleep(0.3)
    with open("/proc/%d/task/%d/children" % ((daemon.process.pid,) * 2), encoding="ascii") as file:
        pids = file.read().split()
    check(pids, "nobody sends it")
    daemon.end(signal.SIGKILL)
    end = time.monotonic() + 10
    while any(os.path.exists("/proc/" + pid) and not zombie(pid) for pid in pids):
        check(time.monotonic() < end, "a child lives on")
        time.sleep(0.1)
    reply.close()


def zombie(pid):
    try:
        with open("/proc/%s/stat" % pid, encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def pids_in(daemon):
    """Pids in a profile that was begun after now. What is told as written may lag behind."""
    now, have = time.time_ns(), len(daemon.said("profile written"))
    while True:
        have += 1
        name = daemon.wait("profile written", have)[have - 1]["file"] + ".pb.gz"
        with open(os.path.join(daemon.output, name), "rb") as file:
            profile = Pprof(file.read())
        if profile.scalars[9] >= now:
            return {sample["labels"].get("pid") for sample in profile.samples}


@test(modes=CAPS)
def filters(context):
    """The files have the chosen processes; after SIGHUP, others; HTTP still has all."""
    first, second = busy(context), busy(context)
    config = context.path("config")

    def configure(text):
        with open(config, "w", encoding="ascii") as file:
            file.write(text)

    configure("BPFPROF_PID=%d\n" % first.pid)
    daemon = Server(context, "--config", config)
    daemon.wait("sampling")
    check(pids_in(daemon) == {first.pid}, "--pid")
    found = Pprof(daemon.good("/profile?seconds=1.5")[1])
    pids = {sample["labels"].get("pid") for sample in found.samples}
    check({first.pid, second.pid} <= pids, "over HTTP: %s" % pids)
    configure("BPFPROF_PID=%d\n" % second.pid)
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait("reloaded")
    check(pids_in(daemon) == {second.pid}, "another --pid")
    configure("BPFPROF_PID=%d\n" % (1 << 22))
    daemon.process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    check(any("nothing is changed" in line["msg"] for line in daemon.lines()), "no complaint")
    check(pids_in(daemon) == {second.pid}, "a --pid that is nobody's")
    configure("BPFPROF_WORKER=pyth*\n")
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait("reloaded", 2)
    check({first.pid, second.pid} <= pids_in(daemon), "--worker")
    check(any("watching worker 'python3' pid %d" % first.pid in line["msg"]
              for line in daemon.lines()), "not told")
    configure("BPFPROF_POD=none-of-these/*\n")
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait("reloaded", 3)
    check(pids_in(daemon) == set(), "--pod")
    status, _, body = daemon.get("/profile?seconds=1&pod=none-of-these/x")
    check(status == 404 and b"lives there" in body, body)
    configure("")
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait("reloaded", 4)
    check(len(pids_in(daemon)) > 1, "all again")
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    check_abut(daemon.output)
    done = context.bpfprof("daemon", "--output", context.path("y"), "--pid", 1 << 22)
    check("no such process" in done.expect(4).text, done.text)


@test(modes=CAPS)
def pods(context):
    """By pod, and by the pid that the pod sees: profiles, dumps and what is written."""
    containerd = containers.start(context)
    full = test_container_tags.image(containerd, context)
    space = "http-" + test_container_tags.RUN
    container = containerd.run(full, ["/bin/sh", "-c", "python3 /app/sleeper.py & exec /app/busy 90"],
                               pod=containers.Pod("train-0", space))
    containerd.run(full, ["/bin/sh", "-c", "exec /app/busy 90"], pod=containers.Pod("train-1", space))
    busy(context)
    inner = test_container_tags.pod_pids(container)
    daemon = Server(context, "--pod", space + "/train-1")
    daemon.wait("sampling")

    def labels(body):
        return {(s["labels"].get("pod"), s["labels"]["comm"]) for s in Pprof(body).samples}

    found = labels(daemon.good("/profile?seconds=2&pod=%s/train-0" % space)[1])
    check(found == {("train-0", "busy")}, "pod: %s" % found)
    found = labels(daemon.good("/profile?seconds=2&pod=%s/train-*&pid=%d" %
                               (space, inner["busy"]))[1])
    check({("train-0", "busy")} <= found <= {("train-0", "busy"), ("train-1", "busy")},
          "pod and pid: %s" % found)
    status, _, body = daemon.get("/profile?seconds=1&pid=4000000&pod=%s/train-0" % space)
    check(status == 404 and b"lives there and has the pid" in body, body)
    text = daemon.good("/dump?pod=%s/train-0" % space)[1].decode()
    check(text.count("deep (sleeper.py:3)") == 1 and "level_one" not in text, text)
    one = daemon.good("/dump?pod=%s/train-0&pid=%d" % (space, inner["python3"]))[1].decode()
    check("deep (sleeper.py:3)" in one and ", pid %d in it" % inner["python3"] in one, one)
    check(daemon.get("/dump?pod=%s/none" % space)[0] == 404, "of no pod")
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    written = set()
    for profile_ in check_abut(daemon.output):
        written |= {(s["labels"].get("pod"), s["labels"]["comm"]) for s in profile_.samples}
    check(written == {("train-1", "busy")}, "--pod: %s" % written)


class Nested:
    """A context in which bpfprof runs beside what a shell has started, in a pid namespace of its own."""

    def __init__(self, context, script):
        self.context = context
        self.script = script

    def __getattr__(self, name):
        return getattr(self.context, name)

    def start(self, *args, **kwargs):
        process = subprocess.Popen(
            ["unshare", "-fp", "--mount-proc", "--kill-child", "sh", "-c",
             self.script + '\n"$@"\nexit $?', "sh", *self.context.as_bpfprof([BPFPROF, *args])],
            cwd=self.context.dir, start_new_session=True, **kwargs)
        self.context.stack.callback(stop, process)
        return process


def seen(body):
    """Samples by (name, pid)."""
    found = {}
    for sample in Pprof(body).samples:
        key = (sample["labels"]["comm"], sample["labels"].get("pid"))
        found[key] = found.get(key, 0) + sample["values"][0]
    return found


@test(modes=CAPS)
def nested_pids(context):
    """In kind, --pid, and pid= of a profile and of a dump, are pids of the daemon's namespace."""
    target, other = context.target("calls_gO2").path, context.target("tiny_gO2").path
    outside = context.spawn([other, "120"])
    daemon = Server(Nested(context, """
{target} 120 & export BPFPROF_PID=$!
sh -c '{other} 120; true' & sleep 0.5
echo $BPFPROF_PID $! $(pgrep -P $!) > numbers
""".format(target=target, other=other)))
    with open(context.path("numbers"), encoding="ascii") as file:
        calls, shell, tiny = map(int, file.read().split())
    daemon.wait("sampling")
    found = pids_in(daemon)
    check(found == {calls}, "--pid %d: written were %s" % (calls, found))
    for pid, wanted in ((calls, ("calls_gO2", calls)), (shell, ("tiny_gO2", tiny)),
                        (tiny, ("tiny_gO2", tiny))):
        found = seen(daemon.good("/profile?seconds=2&pid=%d" % pid)[1])
        check(set(found) == {wanted} and found[wanted] > HZ / 5, "pid %d: %s" % (pid, found))
    check(pids_in(daemon) == {calls}, "--pid after a profile of another")
    for pid in (4000000, max(outside.pid, 1000)):
        for path in ("/profile?seconds=1&pid=%d" % pid, "/dump?pid=%d" % pid):
            status, _, body = daemon.get(path)
            check(status == 404 and str(pid).encode() in body, "%s: %d %s" % (path, status, body))
    text = daemon.good("/dump?native=1&pid=%d" % calls)[1].decode()
    check("Process %d: %s 120" % (calls, target) in text and "level_one" in text, text)
    ours = [pid for pid in descendants(daemon.process.pid) if comm_of(pid) == "bpfprof"]
    os.kill(ours[0], signal.SIGTERM)
    check(daemon.process.wait(30) == 0, "exit status %s" % daemon.process.returncode)


def comm_of(pid):
    try:
        with open("/proc/%d/comm" % pid, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""
