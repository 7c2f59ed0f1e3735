# SPDX-License-Identifier: Apache-2.0
"""Clients that hold connections of the daemon, or try tokens: others are answered all the same."""

import contextlib
import os
import socket
import time

from containers import wait_for
from daemons import Daemon, ask, get, metrics_of
from harness import CAPS, check, test
from test_daemon_http import TOKEN, Server, at_once, big_file

BESIDE = True
REFUSED = 'bpfprof_http_refused_total{reason="%s"}'


class Clients:
    """Connections to a port that are open, from addresses in turn; with little room for an answer."""

    def __init__(self, context, port, count, text, sources=("127.0.0.1",)):
        self.all = []
        for number in range(count):
            one = socket.socket()
            context.stack.callback(one.close)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            one.bind((sources[number % len(sources)], 0))
            one.settimeout(30)
            one.connect(("127.0.0.1", port))
            with contextlib.suppress(OSError):
                one.sendall(text)
            self.all.append(one)

    def nr_open(self):
        """The number of connections that the daemon has not closed. Data that has arrived is dropped."""
        count = 0
        for one in self.all:
            one.setblocking(False)
            with contextlib.suppress(ConnectionError):
                try:
                    while one.recv(65536):
                        pass
                except BlockingIOError:
                    count += 1
        return count


def listening(context):
    daemon = Daemon(context, listen="127.0.0.1:0")
    port = int(daemon.wait("listening")[0]["port"])
    daemon.wait("sampling")
    return daemon, port


def nr_sockets(pid):
    count = 0
    for name in os.listdir("/proc/%d/fd" % pid):
        with contextlib.suppress(OSError):
            count += os.readlink("/proc/%d/fd/%s" % (pid, name)).startswith("socket:")
    return count


def refused(port, reason):
    return metrics_of(get(port, "/metrics")[2])[REFUSED % reason]


def check_probes(context, port, count=20):
    """/healthz, /readyz and /metrics are answered, again and again."""
    slowest = 0
    for _ in range(count):
        for path, end in (("/healthz", "ok\n"), ("/readyz", "ok\n"), ("/metrics", "\n")):
            began = time.monotonic()
            status, head, body = get(port, path)
            slowest = max(slowest, time.monotonic() - began)
            check(status == 200 and body.endswith(end) and "Content-Length: %d\r\n" % len(body) in head + "\r\n",
                  "%s: %s and %d bytes" % (path, head, len(body)))
    context.note("slowest answer: %.3f s" % slowest)


@test(modes=CAPS)
def half_requests(context):
    """50 from one address that never end, and a probe from the same address."""
    daemon, port = listening(context)
    for number, text in enumerate((b"", b"GET /heal", b"GET /metrics HTTP/1.1\r\nHost: x\r\n")):
        clients = Clients(context, port, 50, text)
        check_probes(context, port)
        check(clients.nr_open() <= 4, "of 50 there are %d" % clients.nr_open())
        wait_for("refused are %d" % refused(port, "too_many_of_address"),
                 lambda: refused(port, "too_many_of_address") >= 46 * (number + 1), 10)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)


@test(modes=CAPS)
def from_everywhere(context):
    """100 half requests from 50 addresses, two each; a client with one is answered."""
    daemon, port = listening(context)
    clients = Clients(context, port, 100, b"GET /healthz HTTP/1.1\r\n", ["127.0.1.%d" % n for n in range(1, 51)])
    check_probes(context, port)
    check(clients.nr_open() <= 32, "of 100 there are %d" % clients.nr_open())
    check(refused(port, "too_many") >= 68 and not refused(port, "too_many_of_address"), get(port, "/metrics")[2])
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)


@test(modes=CAPS)
def one_request_each(context):
    """Requests behind the first one of a connection have no answer, with or without the wish to go on."""
    daemon, port = listening(context)
    for how in ("keep-alive", "close"):
        text = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: %s\r\n\r\n" % how
        for count in (1, 2, 100):
            reply = ask(port, text.encode() * count)
            check(reply.count(b"HTTP/1.1 200 OK") == 1 and b"Connection: close\r\n" in reply and
                  reply.endswith(b"ok\n"), "%d requests, %s: %s" % (count, how, reply))
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)


@test(modes=CAPS)
def not_taken(context):
    """The daemon gives up an answer that its client does not take, whether the server or the kernel holds it."""
    daemon, port = listening(context)
    text = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"
    clients = Clients(context, port, 16, text * 10, ("127.0.0.1", "127.0.0.2", "127.0.0.3"))
    check_probes(context, port)
    wait_for("given up are %d" % refused(port, "answer_not_taken"),
             lambda: refused(port, "answer_not_taken") >= 8, 30)
    check(refused(port, "too_many_of_address") >= 4, get(port, "/metrics")[2])
    check(clients.nr_open() == 0, "%d are still open" % clients.nr_open())
    wait_for("sockets are left", lambda: nr_sockets(daemon.process.pid) == 1, 10)  # that it listens on
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)


@test(modes=CAPS)
def with_the_token(context):
    """Downloads and profiles with the token stay, however many half requests their address has."""
    daemon = Server(context)
    daemon.wait("sampling")
    data = os.urandom(12 << 20)
    name = big_file(daemon.output, data)
    text = "GET /files/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n" % (name, TOKEN)
    downloads = Clients(context, daemon.port, 4, text.encode())
    profiles = [daemon.connect() for _ in range(2)]
    for connection in profiles:
        connection.request("GET", "/profile?seconds=3", headers={"Authorization": "Bearer " + TOKEN})
    key = 'bpfprof_remote_requests_total{kind="%s"}'
    wait_for("they have not begun", lambda: [daemon.metrics()[key % kind] for kind in ("files", "profile")] == [4, 2],
             20)
    Clients(context, daemon.port, 30, b"GET /metrics HTTP/1.1\r\n")
    check_probes(context, daemon.port, 3)
    for connection in profiles:
        reply = connection.getresponse()
        check(reply.status == 200 and reply.read()[:2] == b"\x1f\x8b", "a profile: %d" % reply.status)

    def download(one):
        one.setblocking(True)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        found = b""
        while part := one.recv(1 << 20):
            found += part
        return found.partition(b"\r\n\r\n")[2]
    for found in at_once([lambda one=one: download(one) for one in downloads.all]):
        check(found == data, "%d of %d bytes" % (len(found or b""), len(data)))
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)


@test(modes=CAPS)
def wrong_tokens(context):
    """After ten from an address its tokens are not looked at for a while; those of others are."""
    daemon = Server(context)
    daemon.wait("sampling")
    for number in range(10):
        check(daemon.get("/files/", token="wrong-token-of-a-guesser")[0] == 403, "number %d" % number)
    status, headers, body = daemon.get("/files/", token="wrong-token-of-a-guesser")
    check(status == 429 and 1 <= int(headers["Retry-After"]) <= 2 and b"too many" in body,
          "%d %s %s" % (status, headers, body))
    check(daemon.get("/files/")[0] == 429, "an address that waits gets another answer for the right token")
    check(daemon.get("/files/", token=None)[0] == 401, "without a token")
    check(daemon.get("/files/", source="127.0.0.2")[0] == 200, "another address")
    check(daemon.get("/healthz", token=None)[0] == 200, "/healthz")
    wait_for("the right token", lambda: daemon.get("/files/")[0] == 200, 20)
    check(daemon.get("/files/", token="wrong-token-of-a-guesser")[0] == 403, "after the right one")
    check(daemon.get("/files/", token="wrong-token-of-a-guesser")[0] == 429, "the right token has ended the wait")
    found = daemon.metrics()
    check(found['bpfprof_remote_refused_total{reason="too_many_wrong_tokens"}'] >= 2 and
          found['bpfprof_remote_refused_total{reason="wrong_token"}'] == 11, str(found))
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
