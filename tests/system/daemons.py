# SPDX-License-Identifier: Apache-2.0
"""A running daemon, the files that it stores, and questions to it by HTTP."""

import contextlib
import gzip
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import time
import urllib.parse

from harness import Skip, check
from pprof import Pprof, varint

SUFFIXES = (".pb.gz", ".folded", ".html")
NAME = re.compile(r"^cpu-(\d{8}T\d{6}Z)-(\d+)s(-\d+)?(\.pb\.gz|\.folded|\.html)$")
SECONDS = ".seconds.gz"
HZ = 99


class Daemon:
    """A daemon that runs; its log lines as dictionaries."""

    def __init__(self, context, *args, output=None, interval="1s", listen="none", log="log",
                 **kwargs):
        self.context = context
        self.output = output or context.path("out")
        self.log_path = context.path(log)
        self.log = open(self.log_path, "ab")
        context.stack.callback(self.log.close)
        self.process = context.start("daemon", "--output", self.output, "--interval", interval,
                                     "--log-format", "json", "--listen", listen, *args, stderr=self.log, **kwargs)

    def lines(self):
        with open(self.log_path, encoding="utf-8") as file:
            return [json.loads(line) for line in file.read().splitlines() if line]

    def said(self, message):
        return [line for line in self.lines() if line["msg"] == message]

    def wait(self, message, count=1, timeout=30):
        end = time.monotonic() + timeout
        while len(self.said(message)) < count:
            check(self.process.poll() is None, "ended: %s" % self.lines()[-3:])
            check(time.monotonic() < end, "'%s' not said %d times: %s" %
                  (message, count, self.lines()[-3:]))
            time.sleep(0.05)
        return self.said(message)

    def end(self, how=signal.SIGTERM, timeout=30):
        self.process.send_signal(how)
        return self.process.wait(timeout)


def token_file(context, token, mode=0o600, name="token"):
    """The path of a file with a token."""
    path = context.path(name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(token + "\n")
    os.chmod(path, mode)
    return path


def stored(folder):
    """{name without suffix: {suffix: path}} of the sets, by name."""
    found = {}
    for name in sorted(os.listdir(folder)):
        match = NAME.match(name)
        path = os.path.join(folder, name)
        if match and stat.S_ISREG(os.lstat(path).st_mode):
            base = name[:-len(match.group(4))]
            found.setdefault(base, {})[match.group(4)] = path
    return found


def profiles(folder):
    """All pprof files by their start."""
    found = []
    for files in stored(folder).values():
        if ".pb.gz" in files:
            with open(files[".pb.gz"], "rb") as file:
                found.append(Pprof(file.read()))
    return sorted(found, key=lambda profile: profile.scalars[9])


def check_files(folder, complete=True):
    """Every file is whole; latest.* lead to the newest set."""
    sets = stored(folder)
    alone = {name for name in os.listdir(folder) if name.endswith(SECONDS) and name[:-len(SECONDS)] not in sets}
    check(not complete or not alone, "seconds without a profile: %s" % alone)
    for base, files in sets.items():
        check(not complete or len(files) == 3, "%s has only %s" % (base, sorted(files)))
        for suffix, path in files.items():
            check_whole(suffix, path)
    for suffix in SUFFIXES:
        link = os.path.join(folder, "latest" + suffix)
        if sets:
            check(os.path.islink(link), link + " is no link")
            check(NAME.match(os.readlink(link)), link + " leads to " + os.readlink(link))
            check_whole(suffix, link)
    return sets


def seconds_of(path):
    """([{second, Unix time: count} of each sample], the sum of all counts of the pprof) of a file beside a pprof."""
    with open(path, "rb") as file:
        data = gzip.decompress(file.read())
    check(data.startswith(b"bpfprof seconds\x01"), "%s begins with %r" % (path, data[:20]))
    at = 16

    def number():
        nonlocal at
        value, at = varint(data, at)
        return value

    samples = [{} for _ in range(number())]
    total, start, placed = number(), number(), 0
    while (nr := number()):
        second, sample = start + number(), 0
        for _ in range(nr):
            step = number()
            sample += step >> 1
            count = number() if step & 1 else 1
            samples[sample][second] = samples[sample].get(second, 0) + count
            placed += count
    check(number() == placed and at == len(data), "%s: the sum is another one" % path)
    return samples, total


def check_seconds(folder):
    """Each sample of each set has all its seconds, and they are of its interval. Returns the number of samples."""
    found = 0
    for base, files in stored(folder).items():
        with open(files[".pb.gz"], "rb") as file:
            profile = Pprof(file.read())
        samples, total = seconds_of(os.path.join(folder, base + SECONDS))
        counts = [sample["values"][0] for sample in profile.samples]
        check(counts == [sum(sample.values()) for sample in samples] and total == sum(counts), "%s: not all samples" % base)
        begin, length = profile.scalars[9], profile.scalars[10]
        check(all(begin // 10**9 <= second <= (begin + length) // 10**9 for sample in samples for second in sample),
              "%s: a second outside of it" % base)
        found += total
    return found


def check_whole(suffix, path):
    with open(path, "rb") as file:
        data = file.read()
    if suffix == ".pb.gz":
        Pprof(data)
    elif suffix == ".folded":
        check(data.startswith(b"# {") and data.endswith(b"\n"), path + " is cut")
        json.loads(data.split(b"\n", 1)[0][2:])
    else:
        check(data.rstrip().endswith(b"</html>"), path + " is cut")


def busy(context):
    """A program that takes CPU time until a signal ends it; it prints how much that was."""
    return context.spawn(["/usr/bin/python3", "-c", """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print(time.process_time(), flush=True), sys.exit()))
while True:
    sum(range(10000))
"""], stdout=subprocess.PIPE)


def cpu_of(pid):
    """CPU seconds of a process."""
    with open("/proc/%d/stat" % pid, encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask(port, text, timeout=15):
    """What the server answers to these bytes, until it closes."""
    with socket.create_connection(("127.0.0.1", port), timeout) as connection:
        connection.settimeout(timeout)
        data = b""
        with contextlib.suppress(ConnectionError, socket.timeout):
            connection.sendall(text)
            while True:
                part = connection.recv(65536)
                if not part:
                    break
                data += part
    return data


def get(port, path, method="GET"):
    """(status, headers, body)"""
    head, _, body = ask(port, ("%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" %
                               (method, path)).encode()).partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode(), body.decode()


def metrics_of(text):
    """{name with labels: value}"""
    return {name: float(value) for name, value in
            (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))}


def prometheus(context, target, rules=()):
    """A Prometheus that scrapes the daemon at this port each second: its own port. rules: paths of files."""
    if not shutil.which("prometheus"):
        raise Skip("no Prometheus here")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with open(context.path("prometheus.yml"), "w", encoding="ascii") as file:
        json.dump({"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, "rule_files": list(rules),
                   "scrape_configs": [{"job_name": "bpfprof", "static_configs": [
                       {"targets": ["127.0.0.1:%d" % target]}]}]}, file)  # that is YAML
    with open(context.path("prometheus.log"), "wb") as log:
        server = subprocess.Popen(
            ["prometheus", "--config.file=" + context.path("prometheus.yml"),
             "--storage.tsdb.path=" + context.path("tsdb"),
             "--web.listen-address=127.0.0.1:%d" % port], stdout=log, stderr=log,
            stdin=subprocess.DEVNULL)
    context.stack.callback(server.kill)
    end, ready = time.monotonic() + 40, False
    while not ready:
        check(time.monotonic() < end and server.poll() is None, context.text("prometheus.log")[-2000:])
        time.sleep(0.1)
        with contextlib.suppress(OSError):
            ready = get(port, "/-/ready")[0] == 200
    return port


def answer_of(port, path):
    """What the API of Prometheus answers."""
    answer = json.loads(get(port, "/api/v1/" + path)[2])
    check(answer["status"] == "success", str(answer))
    return answer["data"]


def query(port, text):
    """Values that Prometheus has for it, by what tells them apart."""
    return {one["metric"].get("kind", ""): float(one["value"][1])
            for one in answer_of(port, "query?query=" + urllib.parse.quote(text))["result"]}
