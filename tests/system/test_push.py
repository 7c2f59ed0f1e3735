# SPDX-License-Identifier: Apache-2.0
"""daemon --push: every profile reaches the server once and whole, whatever the server does."""

import base64
import contextlib
import os
import re
import signal
import socket
import ssl
import subprocess
import threading
import time

from daemons import Daemon, busy, get, metrics_of, profiles, stored
from harness import CAPS, check, test
from pprof import Pprof

BESIDE = True
HOST = socket.gethostname()
ENDLESS = 64 << 20  # bytes; who takes them all has no bound
TARGET = re.compile(r"^/ingest\?name=(.*)&from=(\d+)&until=(\d+)&format=pprof&sampleRate=99"
                    r"&spyName=bpfprof$")


class Request:
    """What came: request line, headers as they were sent, body."""

    def __init__(self, head, body, connection):
        self.line, _, rest = head.partition("\r\n")
        self.headers = dict(line.split(": ", 1) for line in rest.split("\r\n") if line)
        self.body = body
        self.connection = connection  # its number
        self.time = time.monotonic()

    @property
    def target(self):
        match = TARGET.match(self.line.split(" ")[1])
        check(match, "asked for " + self.line)
        return match.groups()


class Server:
    """A server of one's own that answers as `answers` says, one after the other, the last for ever.

    An answer is a status, (status, headers), or a function that gets the connection.
    """

    def __init__(self, context, *answers, port=0, tls=None):
        self.answers = list(answers) or [200]
        self.requests = []
        self.sent = 0  # bytes of endless answers
        self.tls = tls
        self.closing = False
        self.connections = 0
        self.listener = socket.create_server(("127.0.0.1", port))
        self.port = self.listener.getsockname()[1]
        self.open = []
        threading.Thread(target=self.accept, daemon=True).start()
        context.stack.callback(self.close)

    @property
    def url(self):
        return "%s://127.0.0.1:%d" % ("https" if self.tls else "http", self.port)

    def close(self):
        self.closing = True
        for one in [self.listener, *self.open]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.connections += 1
                self.open.append(connection)
                threading.Thread(target=self.serve, args=(connection, self.connections),
                                 daemon=True).start()

    def serve(self, connection, number):
        with contextlib.suppress(OSError, ValueError):
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
                self.open.append(connection)
            stream = connection.makefile("rb")
            while True:
                head = b""
                while not head.endswith(b"\r\n\r\n"):
                    line = stream.readline(65537)
                    if not line:
                        return
                    head += line
                head = head.decode("ascii")[:-2]
                size = int(re.search(r"Content-Length: (\d+)", head).group(1))
                body = stream.read(size)
                if len(body) != size:
                    return
                self.requests.append(Request(head, body, number))
                answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
                if callable(answer):
                    answer(self, connection)
                    connection.close()
                    return
                status, headers = answer if isinstance(answer, tuple) else (answer, "")
                connection.sendall(("HTTP/1.1 %d Whatever\r\nContent-Length: 5\r\n%s\r\nhello" %
                                    (status, headers)).encode())

    def wait(self, count, timeout=30):
        end = time.monotonic() + timeout
        while len(self.requests) < count:
            check(time.monotonic() < end, "%d requests, not %d" % (len(self.requests), count))
            time.sleep(0.02)
        return self.requests


def endless(what):
    """An answer that begins with what, and goes on."""
    def answer(server, connection):
        connection.sendall(what)
        while server.sent < ENDLESS and not server.closing:
            connection.sendall(b"x" * 65536)
            server.sent += 65536
    return answer


def trickle(what):
    """A byte now and then, for ever."""
    def answer(server, connection):
        connection.sendall(what)
        while not server.closing:
            connection.sendall(b"x")
            time.sleep(0.05)
    return answer


def silent(server, _):
    while not server.closing:
        time.sleep(0.05)


def bytes_of(data):
    return lambda server, connection: connection.sendall(data)


def pushing(context, url, *args, **kwargs):
    return Daemon(context, "--push", url, *args, **kwargs)


def files_of(daemon):
    """Bytes of the pprof files in the order in which they were written."""
    sets = stored(daemon.output)
    found = []
    for line in daemon.said("profile written"):
        with open(sets[line["file"]][".pb.gz"], "rb") as file:
            found.append(file.read())
    return found


def secret(context, name, text):
    path = context.path(name)
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
    os.rename(path + ".new", path)
    return path


def certificate(context, name, address):
    """A new one for a server at this address: the paths of it and of its key."""
    paths = context.path(name + ".pem"), context.path(name + ".key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=x",
                    "-addext", "subjectAltName=IP:" + address, "-keyout", paths[1], "-out", paths[0]],
                   check=True, stderr=subprocess.DEVNULL)
    return paths


@test(modes=CAPS)
def delivered(context):
    """Each file once, in order, byte for byte, over one connection, with its times and labels."""
    program = busy(context)
    server = Server(context)
    daemon = pushing(context, server.url, "--push-label", "cluster=train a", "--push-label",
                     "team=x/y", listen="127.0.0.1:0")
    port = int(daemon.wait("listening")[0]["port"])
    daemon.wait("profile written", 5)
    server.wait(5, 5)
    figures = metrics_of(get(port, "/metrics")[2])
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    requests, files = server.requests, files_of(daemon)
    check([request.body for request in requests] == files, "%d pushed, %d written" %
          (len(requests), len(files)))
    name = ("bpfprof%%7Bhost%%3D%s%%2Ccluster%%3Dtrain%%20a%%2Cteam%%3Dx%%2Fy%%7D" % HOST)
    seen = 0
    for request, profile in zip(requests, profiles(daemon.output)):
        start, length = profile.scalars[9], profile.scalars[10]
        check(request.line == "POST /ingest?name=%s&from=%d&until=%d&format=pprof&sampleRate=99"
              "&spyName=bpfprof HTTP/1.1" %
              (name, start // 10**9, max((start + length) // 10**9, start // 10**9 + 1)),
              request.line)
        wanted = {"Host": "127.0.0.1:%d" % server.port, "User-Agent": "bpfprof/0.1.0",
                  "Accept": "*/*", "Content-Type": "application/octet-stream",
                  "Content-Length": str(len(request.body))}
        check(request.headers == wanted, request.headers)
        decoded = Pprof(request.body)
        check(decoded.sample_types == ["samples/count", "cpu/nanoseconds"], decoded.sample_types)
        seen += sum(sample["values"][0] for sample in decoded.samples
                    if sample["labels"].get("pid") == program.pid)
    check(seen > 50, "%d samples of the program" % seen)
    check(server.connections == 1, "%d connections" % server.connections)
    check(not daemon.said("push failed") and not daemon.said("profiles not pushed"), "failures")
    pushed = figures["bpfprof_profiles_pushed_total"]
    check(5 <= pushed <= len(files), "pushed: %s" % pushed)
    check(figures["bpfprof_push_bytes_total"] == sum(map(len, files[:int(pushed)])), figures)
    check(not any(value for key, value in figures.items() if "push_errors" in key or
                  "push_dropped" in key), figures)
    context.note("%d profiles, %d bytes" % (len(files), sum(map(len, files))))


@test(modes=CAPS)
def down(context):
    """Not there for five intervals: said and counted, nothing waits for it, nothing is lost."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    daemon = pushing(context, "http://127.0.0.1:%d/base/" % port, listen="127.0.0.1:0")
    metrics = int(daemon.wait("listening")[0]["port"])
    daemon.wait("profile written", 6)
    figures = metrics_of(get(metrics, "/metrics")[2])
    check(figures["bpfprof_push_errors_total{reason=\"connect\"}"] >= 2, figures)
    check(figures["bpfprof_push_queued"] >= 5, figures)
    server = Server(context, port=port)
    server.wait(6)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    check([request.body for request in server.requests] == files_of(daemon), "other bytes")
    check(all(request.line.startswith("POST /base/ingest?name=") for request in server.requests),
          server.requests[0].line)
    failed = daemon.said("push failed")
    check(failed[0]["reason"] == "connect" and failed[0]["retry_ms"] <= 1000, failed[0])
    check(failed[-1]["failures"] <= 5, "too many tries: %s" % failed[-1])
    check(len(daemon.said("pushing works again")) == 1, "not said that it works again")
    found = profiles(daemon.output)
    ends = [profile.scalars[9] + profile.scalars[10] for profile in found]
    check(ends[:-1] == [profile.scalars[9] for profile in found[1:]], "they do not abut")
    check(max(profile.scalars[10] for profile in found) < 1.6e9, "an interval became longer")


@test(modes=CAPS, long=True)
def wrong_answers(context):
    """What may pass is tried again with the same bytes, later each time; what never will is dropped."""
    other = Server(context)
    token = secret(context, "token", "hidden-token\n")
    server = Server(context, 500, 503, (429, "Retry-After: 4\r\n"), 400, 401,
                    (302, "Location: %s/ingest\r\n" % other.url), 404, 200, port=0)
    daemon = pushing(context, server.url, "--push-bearer-token-file", token, listen="127.0.0.1:0")
    metrics = int(daemon.wait("listening")[0]["port"])
    requests = server.wait(10, 60)
    time.sleep(0.3)
    figures = metrics_of(get(metrics, "/metrics")[2])
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    files = files_of(daemon)
    check([request.body for request in requests[:4]] == [files[0]] * 4, "other bytes at 5xx, 429")
    check([request.body for request in requests[4:8]] == [files[1]] * 4, "other bytes, or a 400 again")
    check([request.body for request in requests[8:]] == files[2:], "the rest")
    waits = [after.time - before.time for before, after in zip(requests, requests[1:])]
    check(0.5 <= waits[0] <= 1.5 and 1 <= waits[1] <= 2.5 and 4 <= waits[2] <= 5, waits)
    for reason in ("server", "busy", "refused", "denied", "redirect", "not_found"):
        count = figures["bpfprof_push_errors_total{reason=\"%s\"}" % reason]
        check(count == (2 if reason == "server" else 1), "%s: %s" % (reason, count))
    check(figures["bpfprof_push_dropped_total{reason=\"refused\"}"] == 1, figures)
    dropped = daemon.said("profiles not pushed")
    check(len(dropped) == 1 and dropped[0]["reason"] == "refused", dropped)
    check(not other.connections, "followed where the answer led")
    check("hidden" not in context.text("log"), "the token is in the log")


@test(modes=CAPS, long=True)
def ill_servers(context):
    """Silent, slow, endless, rubbish: given up in time, little of it read, sampling goes on."""
    ok = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"
    # A 200 after each: the time between two tries grows with the errors in a row only. It ends the connection:
    # libcurl tries by itself again what gets no answer on one that had been in use.
    ill = [silent, trickle(b""), endless(b"HTTP/1.1 100 Go on\r\n\r\n" * 9999), bytes_of(b"\0" * 99), bytes_of(b""),
           bytes_of(b"HTTP/1.1 999999 X\r\n\r\n"), trickle(b"HTTP/1.1 500 X\r\nX: ")]
    # Who says 200 has taken it, whatever comes then.
    taken = [trickle(b"HTTP/1.1 200 OK\r\nX: "), endless(b"HTTP/1.1 200 OK\r\nX: "), endless(ok), trickle(ok), bytes_of(ok)]
    server = Server(context, *(answer for one in ill for answer in (one, (200, "Connection: close\r\n"))),
                    *taken, 200)
    # Of other tests' programs it would keep names and tables.
    target = context.spawn([context.target("tiny_gO2").path, "300"])
    daemon = pushing(context, server.url, "--push-timeout", "0.7", "-p", str(target.pid))
    requests = server.wait(2 * len(ill) + len(taken) + 1, 60)
    memory = daemon.said("profile written")
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    files = files_of(daemon)
    twice, once = 2 * len(ill), files[len(ill):len(ill) + len(taken)]
    check([request.body for request in requests[:twice]] == [file for file in files[:len(ill)] for _ in range(2)],
          "what was no answer")
    check([request.body for request in requests[twice:twice + len(taken)]] == once, "200 and then rubbish")
    reasons = [line["reason"] for line in daemon.said("push failed")]
    check(reasons == ["timeout"] + ["broken"] * 5 + ["server"], reasons)
    check(server.sent < ENDLESS, "read an endless answer")
    lines = daemon.said("profile written")
    check(all(float(line["seconds"]) < 1.6 for line in lines), "an interval became longer")
    grown = memory[-1]["memory_bytes"] - memory[1]["memory_bytes"]
    context.note("%d answers, memory grew by %d KiB" % (len(requests), grown >> 10))
    check(grown < 8 << 20, "grew by %d bytes" % grown)


@test(modes=CAPS)
def credentials(context):
    """From files, read anew for each try; never in a log, an argument or an answer of ours."""
    tenant = secret(context, "tenant", "team-1\n")
    both = secret(context, "both", "me:hidden:pass word\n")
    server = Server(context)
    daemon = pushing(context, server.url, "--push-tenant-file", tenant, "--push-basic-auth-file",
                     both, listen="127.0.0.1:0")
    metrics = int(daemon.wait("listening")[0]["port"])
    headers = server.wait(2)[1].headers
    check(headers["X-Scope-OrgID"] == "team-1", headers)
    check(headers["Authorization"] == "Basic " +
          base64.b64encode(b"me:hidden:pass word").decode(), headers)
    secret(context, "both", "me:hidden-too")
    time.sleep(1.2)
    count = len(server.requests)
    check(server.wait(count + 1)[-1].headers["Authorization"] == "Basic " +
          base64.b64encode(b"me:hidden-too").decode(), "old password")
    # Gone for a while; then with a line that would become a header of its own.
    os.unlink(both)
    failed = daemon.wait("push failed", 1)
    check(failed[0]["reason"] == "credentials" and "No such file" in failed[0]["error"], failed)
    secret(context, "both", "me:hidden\r\nX-Other: x")
    check("one line" in daemon.wait("push failed", 2)[1]["error"], daemon.said("push failed"))
    secret(context, "both", "me:hidden-three")
    daemon.wait("pushing works again")
    text = get(metrics, "/metrics")[2]
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    check([request.body for request in server.requests] == files_of(daemon), "something is lost")
    check("hidden" not in context.text("log") + text, "a password is in log or metrics")
    check(any("is sent unencrypted" in line["msg"] for line in daemon.lines()),
          "http without TLS is not said")


@test(modes=CAPS)
def tls(context):
    """A certificate must be one of the file's, and for this server."""
    servers = {}
    for name, address in (("good", "127.0.0.1"), ("other", "127.0.0.2")):
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(*certificate(context, name, address))
        servers[name] = Server(context, tls=made)
    token = secret(context, "token", "hidden-token")
    for name, trusted in (("good", None), ("other", "other.pem"), ("good", "good.pem")):
        args = ["--push-ca-file", context.path(trusted)] if trusted else []
        daemon = pushing(context, servers[name].url, "--push-bearer-token-file", token, *args,
                         output=context.path("out-%s-%s" % (name, trusted)))
        if trusted == "good.pem":
            check(servers[name].wait(2)[1].headers["Authorization"] == "Bearer hidden-token",
                  servers[name].requests[1].headers)
        else:
            check(daemon.wait("push failed", 1)[0]["reason"] == "tls", daemon.lines()[-1])
            check(not servers[name].requests, "sent to whoever answered")
        check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
        os.rename(context.path("log"), context.path("log-" + str(trusted) + name))
    for name in os.listdir(context.dir):
        if name.startswith("log-"):
            check("hidden" not in context.text(name), "the token is in the log")


@test(modes=CAPS)
def queue(context):
    """Full: the oldest go, and are counted."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = "http://127.0.0.1:%d" % port
    daemon = pushing(context, url, "--push-queue", "3", listen="127.0.0.1:0")
    metrics = int(daemon.wait("listening")[0]["port"])
    daemon.wait("profile written", 6)
    figures = metrics_of(get(metrics, "/metrics")[2])
    check(2 <= figures["bpfprof_push_queued"] <= 4, figures)
    lost = figures["bpfprof_push_dropped_total{reason=\"queue_full\"}"]
    check(2 <= lost <= 4, figures)
    check(daemon.said("profiles not pushed")[0]["reason"] == "queue_full", daemon.lines()[-1])
    server = Server(context, port=port)
    server.wait(2)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    with open(os.path.join(daemon.output, "latest.pb.gz"), "rb") as file:
        check(server.requests[-1].body == file.read(), "the newest did not come")


@test(modes=CAPS)
def gone(context):
    """What retention removed before the server could take it."""
    def remove(_, connection):
        first = sorted(stored(context.path("out")).values(), key=str)[0]
        os.unlink(first[".pb.gz"])
        connection.sendall(b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n")
    server = Server(context, remove, 200)
    daemon = pushing(context, server.url)
    server.wait(3)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    dropped = daemon.said("profiles not pushed")
    check(len(dropped) == 1 and dropped[0]["reason"] == "gone", dropped)


@test(modes=CAPS)
def ending(context):
    """SIGTERM: the last interval is pushed as well; a dead server does not keep it from ending."""
    server = Server(context)
    daemon = pushing(context, server.url, interval="60s")
    daemon.wait("sampling")
    time.sleep(1.2)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    check([request.body for request in server.requests] == files_of(daemon), "not pushed")
    server.close()
    for answer, most in ((None, 4), (silent, 16)):
        url = Server(context, answer).url if answer else server.url
        daemon = pushing(context, url, interval="60s")
        daemon.wait("sampling", len(daemon.said("sampling")) + 1)
        time.sleep(1.2)
        began = time.monotonic()
        check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
        took = time.monotonic() - began
        context.note("ended within %.1f s" % took)
        check(took < most, "took %.1f s" % took)
        check(daemon.said("ended before all was pushed")[-1]["profiles"] == 1, daemon.lines()[-1])
    # A second SIGTERM is not needed, and kill -9 is fine at any time.
    daemon = pushing(context, Server(context, silent).url)
    daemon.wait("profile written", len(daemon.said("profile written")) + 2)
    daemon.end(signal.SIGKILL)


@test(modes=("caps",))
def wrong_push_flags(context):
    for args, words in ((["--push", "pyroscope:4040"], "http://"),
                        (["--push", "http://me:hidden@host/"], "--push-basic-auth-file"),
                        (["--push", "http://host/?token=hidden"], "?"),
                        (["--push-tenant-file", "x"], "--push is missing"),
                        (["--push", "http://h", "--push-label", "pod=x"], "NAME=VALUE"),
                        (["--push", "http://h", "--push-basic-auth-file", "a",
                          "--push-bearer-token-file", "b"], "only one")):
        done = context.bpfprof("daemon", "--output", "x", *args).expect(2)
        check(words in done.text and "hidden" not in done.text, done.text)
    done = context.bpfprof("daemon", "--output", "x", env=dict(
        os.environ, BPFPROF_PUSH="http://me:hidden@host")).expect(2)
    check("hidden" not in done.text, done.text)
    secret(context, "plain", "hidden")
    for args, words in ((["--push-basic-auth-file", "none"], "No such file"),
                        (["--push-basic-auth-file", "plain"], "USER:PASSWORD"),
                        (["--push-bearer-token-file", "/dev/zero"], "one line"),
                        (["--push-ca-file", "none"], "No such file")):
        done = context.bpfprof("daemon", "--output", "x", "--push", "http://h", *args).expect(1)
        check(words in done.text and "hidden" not in done.text, done.text)
