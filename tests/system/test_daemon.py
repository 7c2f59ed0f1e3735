# SPDX-License-Identifier: Apache-2.0
"""daemon: a profile per interval, whole and without gaps, whatever happens to it and to its disk."""

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import stat
import statistics
import subprocess
import time

from daemons import (
    HZ, Daemon, ask, busy, check_files, check_seconds, cpu_of, get, metrics_of, profiles, prometheus, query,
    stored)
from harness import BPFPROF, CAPS, MODES, ROOT, Skip, check, test
from pprof import Pprof

LIGHT = True


@test(modes=CAPS)
def intervals(context):
    """Twenty intervals of a second: all there, abutting to the nanosecond, all CPU time in them."""
    program = busy(context)
    daemon = Daemon(context)
    daemon.wait("sampling")
    before = cpu_of(program.pid)
    daemon.wait("profile written", 20, timeout=40)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    used = cpu_of(program.pid) - before
    sets = check_files(daemon.output)
    check(20 <= len(sets) <= 24, "%d sets" % len(sets))
    check(check_seconds(daemon.output), "no seconds")
    found = profiles(daemon.output)
    starts = [profile.scalars[9] for profile in found]
    ends = [profile.scalars[9] + profile.scalars[10] for profile in found]
    check(ends[:-1] == starts[1:], "they do not abut: %s %s" % (starts, ends))
    check(all(end % 10**9 == 0 for end in ends[:-1]), "borders off the wall clock: %s" % ends)
    seen = sum(sample["values"][0] for profile in found for sample in profile.samples
               if sample["labels"].get("pid") == program.pid)
    context.note("%d sets, %d samples for %.2f s of CPU time" % (len(sets), seen, used))
    check(abs(seen / HZ - used) <= 0.1 * used, "%.2f s sampled, %.2f s used" % (seen / HZ, used))
    for base, files in list(sets.items())[:3]:
        done = subprocess.run(["go", "tool", "pprof", "-top", files[".pb.gz"]], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        check(done.returncode == 0 and b"flat%" in done.stdout, "%s: %s" % (base, done.stdout))
    names = [line["file"] for line in daemon.said("profile written")]
    check(names == list(sets), "said %s, there are %s" % (names, list(sets)))
    check(daemon.said("ended"), "no last word")


@test(modes=MODES)
def sigterm(context):
    """The begun part of an interval is written at the end; also at SIGINT, and if the signal comes twice."""
    busy(context)  # an idle machine has no samples
    for how in (signal.SIGTERM, signal.SIGINT):
        daemon = Daemon(context, interval="1h")  # which hardly ends while we look
        count = len(daemon.said("sampling")) + 1
        daemon.wait("sampling", 1 if how == signal.SIGTERM else max(count, 2))
        time.sleep(1.5)
        daemon.process.send_signal(how)
        time.sleep(0.02)
        check(daemon.end(how) == 0, "exit status %s" % daemon.process.returncode)
    found = profiles(daemon.output)
    check(len(found) == 2, "%d profiles" % len(found))
    for profile in found:
        check(profile.samples and profile.scalars[10] >= 1e9, "nothing in it")
    check_files(daemon.output)


@test(modes=CAPS)
def killed(context):
    """kill -9 ten times: what is there is whole, what was being made is gone after the next start."""
    chance = random.Random(7)
    context.scratch("out", 0o755)
    for _ in range(10):
        daemon = Daemon(context)
        count = len(daemon.said("sampling")) + 1
        daemon.wait("sampling", count if daemon.said("sampling") else 1)
        time.sleep(0.8 + 2 * chance.random())
        daemon.end(signal.SIGKILL)
        check_files(daemon.output, complete=False)
    for name in (".bpfprof-daemon-0123456789abcdef.tmp", ".bpfprof-daemon-fedcba9876543210.tmp"):
        with open(context.path("out", name), "w", encoding="ascii") as file:
            file.write("half")
    daemon = Daemon(context)
    count = len(daemon.said("sampling"))
    daemon.wait("sampling", count + 1)
    left = [name for name in os.listdir(daemon.output) if name.endswith(".tmp")]
    check(not left or daemon.said("profile written"), "temporaries are left: %s" % left)
    check(not any("0123456789abcdef" in name for name in left), "stale: %s" % left)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    sets = check_files(daemon.output, complete=False)
    context.note("%d sets after 10 kills" % len(sets))
    # A life has room for up to two intervals; how many end in time is the machine's affair.
    check(len(sets) >= 3, "only %d sets" % len(sets))


@contextlib.contextmanager
def small_disk(context, size):
    """A tmpfs; the caller may remount it."""
    folder = context.scratch("disk", 0o755)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=" + size, "none", folder],
                          stderr=subprocess.PIPE, check=False)
    if done.returncode:
        raise Skip("tmpfs cannot be mounted: " + done.stderr.decode())
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=False)


@test(modes=CAPS)
def full_disk(context):
    with small_disk(context, "4M") as folder:
        daemon = Daemon(context, output=folder)
        daemon.wait("profile written", 2)
        with open(os.path.join(folder, "filler"), "wb", buffering=0) as filler:
            with contextlib.suppress(OSError):
                while filler.write(bytes(4096)):
                    pass
        count = len(daemon.said("profile written"))
        failed = daemon.wait("profile not written", 2)
        check("No space left" in failed[-1]["error"], failed[-1])
        check_files(folder)
        check(not [n for n in os.listdir(folder) if n.endswith(".tmp")], "temporaries are left")
        os.unlink(os.path.join(folder, "filler"))
        daemon.wait("profile written", count + 2)
        works = daemon.said("writing works again")
        check(works and works[0]["profiles_lost"] >= 2, works)
        check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
        check_files(folder)


@test(modes=CAPS)
def unwritable(context):
    """Said at once, not a minute later; and as soon as it can be written, it is."""
    folder = context.scratch("out", 0o755)
    os.chown(folder, 65534, 65534)
    daemon = Daemon(context, output=folder)
    daemon.wait("sampling", 1)
    warned = [line["msg"] for line in daemon.lines() if "cannot be written" in line["msg"]]
    check(warned and folder in warned[0] and "Permission denied" in warned[0], daemon.lines())
    check(not daemon.said("profile not written"), "it came too late")
    os.chown(folder, 0, 0)
    daemon.wait("profile written", 1)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)


@test(modes=CAPS)
def read_only(context):
    with small_disk(context, "16M") as folder:
        daemon = Daemon(context, output=folder)
        daemon.wait("profile written", 2)

        def remount(how):
            # Busy while the writer has a file open for writing.
            for _ in range(50):
                if not subprocess.run(["mount", "-o", "remount," + how, folder], check=False,
                                      stderr=subprocess.DEVNULL).returncode:
                    return
                time.sleep(0.05)
            raise Skip("cannot be remounted")

        remount("ro")
        count = len(daemon.said("profile written"))
        failed = daemon.wait("profile not written", 2)
        check("Read-only" in failed[-1]["error"], failed[-1])
        check_files(folder)
        remount("rw")
        daemon.wait("profile written", count + 2)
        check(daemon.said("writing works again"), "not said that it works again")
        check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)


@test(modes=CAPS)
def retention(context):
    """Never over the limit for a second; what is not ours counts for nothing and stays."""
    folder = context.scratch("out", 0o755)
    outside = context.path("outside")
    with open(outside, "w", encoding="ascii") as file:
        file.write("precious")
    old = os.path.join(folder, "cpu-20200101T000000Z-60s")
    os.mkdir(old + ".html")
    os.symlink(outside, old + ".folded")
    os.mkfifo(old + ".pb.gz")
    os.symlink(outside, os.path.join(folder, "latest.html"))
    with open(os.path.join(folder, "big"), "wb") as file:
        file.write(bytes(3 << 20))
    with open(os.path.join(folder, "cpu-20200102T000000Z-60s.html"), "wb") as file:
        file.write(b"ours, and old")
    daemon = Daemon(context, "--retain-bytes", "1M")
    over = 0
    seen = []
    while len(daemon.said("profile written")) < 12:
        check(daemon.process.poll() is None, "ended: %s" % daemon.lines()[-2:])
        total = 0
        for files in stored(folder).values():
            for path in files.values():
                with contextlib.suppress(OSError):
                    total += os.lstat(path).st_size
        seen.append(total)
        over = over + 1 if total > 1 << 20 else 0
        check(over * 0.1 < 1, "over the limit for a second: %d" % total)
        time.sleep(0.1)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    sets = check_files(folder)
    context.note("%d sets, at most %d bytes" % (len(sets), max(seen)))
    check(os.path.isdir(old + ".html") and os.path.islink(old + ".folded") and
          stat.S_ISFIFO(os.lstat(old + ".pb.gz").st_mode), "what is not ours was touched")
    check(not os.path.exists(os.path.join(folder, "cpu-20200102T000000Z-60s.html")),
          "an old set stayed")
    with open(outside, encoding="ascii") as file:
        check(file.read() == "precious", "a link was followed")


@test(modes=CAPS)
def retention_by_age(context):
    busy(context)
    config = context.path("config")
    with open(config, "w", encoding="ascii") as file:
        file.write("# a comment\nBPFPROF_RETAIN_AGE=3s\nBPFPROF_HOST=node-of-the-file\n")
    daemon = Daemon(context, "--config", config)
    daemon.wait("profile written", 8)
    sets = stored(daemon.output)
    check(3 <= len(sets) <= 5, "%d sets" % len(sets))
    hosts = {sample["labels"]["host"] for profile in profiles(daemon.output)
             for sample in profile.samples}
    check(hosts == {"node-of-the-file"}, "the file's BPFPROF_HOST is not taken: %s" % hosts)
    with open(config, "w", encoding="ascii") as file:
        file.write("BPFPROF_RETAIN_AGE=1h\nBPFPROF_LOG_LEVEL=debug\n")
    daemon.process.send_signal(signal.SIGHUP)
    daemon.wait("reloaded")
    count = len(daemon.said("profile written"))
    daemon.wait("profile written", count + 4)
    check(len(stored(daemon.output)) >= len(sets) + 3, "%d sets" % len(stored(daemon.output)))
    with open(config, "w", encoding="ascii") as file:
        file.write("BPFPROF_RETAIN_AGE=nonsense\n")
    daemon.process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    check(any("nothing is changed" in line["msg"] for line in daemon.lines()), "no complaint")
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)


@test(modes=CAPS)
def one_folder_one_daemon(context):
    first = Daemon(context)
    first.wait("sampling")
    done = context.bpfprof("daemon", "--output", first.output, timeout=40).expect(1)
    check("another daemon" in done.text, done.text)
    check(first.end() == 0, "exit status %s" % first.process.returncode)


@test(modes=CAPS)
def stopped_for_a_while(context):
    """A daemon that sleeps across boundaries makes one longer interval, and no gap."""
    daemon = Daemon(context)
    daemon.wait("profile written", 2)
    daemon.process.send_signal(signal.SIGSTOP)
    time.sleep(3.5)
    daemon.process.send_signal(signal.SIGCONT)
    count = len(daemon.said("profile written"))
    daemon.wait("profile written", count + 3)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    found = profiles(daemon.output)
    ends = [profile.scalars[9] + profile.scalars[10] for profile in found]
    check(ends[:-1] == [profile.scalars[9] for profile in found[1:]], "they do not abut")
    check(max(profile.scalars[10] for profile in found) >= 3 * 10**9, "no longer interval")


@test(modes=CAPS)
def wrong_flags(context):
    for args, words in ((["daemon"], "--output"),
                        (["daemon", "--output", "x", "--interval", "0.5"], "interval"),
                        (["daemon", "--output", "x", "--retain-bytes", "many"], "bytes"),
                        (["daemon", "--output", "x", "--max-memory", "1M"], "48M"),
                        (["daemon", "--output", "x", "--log-format", "xml"], "logfmt"),
                        (["daemon", "--output", "x", "--config", "missing"], "missing")):
        done = context.bpfprof(*args).expect(2)
        check(words in done.text, done.text)
    done = context.bpfprof("daemon", "--output", "/proc/version/x").expect(1)
    check("Not a directory" in done.text, done.text)


@test(modes=CAPS)
def service(context):
    """systemd accepts the unit, with the four capabilities; the daemon reports its state."""
    with open(os.path.join(ROOT, "deploy", "systemd", "bpfprof.service"), encoding="ascii") as file:
        unit = file.read()
    check("CapabilityBoundingSet=CAP_BPF CAP_PERFMON CAP_DAC_READ_SEARCH CAP_SYSLOG\n" in unit,
          "other capabilities")
    conf = os.path.join(ROOT, "deploy", "systemd", "bpfprof.conf")
    address = context.path("notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(20)
        daemon = Daemon(context, "--config", conf,
                        env=dict(os.environ, NOTIFY_SOCKET=address))
        check(manager.recv(100) == b"READY=1", "no READY=1")
        check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
        check(manager.recv(100) == b"STOPPING=1", "no STOPPING=1")
    if not shutil.which("systemd-analyze"):
        raise Skip("no systemd-analyze")
    path = context.path("bpfprof.service")
    with open(path, "w", encoding="ascii") as file:
        file.write(unit.replace("/usr/local/bin/bpfprof", BPFPROF))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", path], check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = [line for line in done.stdout.decode().splitlines() if "bpfprof" in line]
    check(done.returncode == 0 and not said, "systemd-analyze: %s" % done.stdout.decode())


@test(modes=CAPS)
def metrics(context):
    """Prometheus' own checker finds nothing; counters never fall, and agree with the log."""
    program = busy(context)
    daemon = Daemon(context, listen="127.0.0.1:0")
    port = int(daemon.wait("listening")[0]["port"])
    daemon.wait("sampling")
    check(get(port, "/readyz")[0] == 200, "not ready")
    pictures = []
    for count in (1, 3, 6):
        daemon.wait("profile written", count)
        status, head, text = get(port, "/metrics")
        check(status == 200 and "text/plain" in head, head)
        pictures.append(metrics_of(text))
        time.sleep(1.1)
    check(get(port, "/healthz")[0] == 200, "not healthy")
    for name in ("bpfprof_samples_total{kind=\"user\"}", "bpfprof_samples_total{kind=\"python\"}",
                 "bpfprof_samples_lost_total{reason=\"ring_full\"}",
                 "bpfprof_profiles_written_total", "bpfprof_profile_write_errors_total",
                 "bpfprof_profile_bytes_total", "bpfprof_last_profile_timestamp_seconds",
                 "bpfprof_flush_duration_seconds", "bpfprof_memory_bytes",
                 "process_resident_memory_bytes", "process_cpu_seconds_total",
                 "process_open_fds", "bpfprof_stored_bytes"):
        check(name in pictures[-1], "no " + name)
    check(any(name.startswith("bpfprof_build_info{version=") for name in pictures[0]), "no version")
    for before, after in zip(pictures, pictures[1:]):
        for name, value in before.items():
            if "_total" in name and "cpus_unarmed" not in name:
                check(after.get(name, -1) >= value, "%s fell from %s to %s" %
                      (name, value, after.get(name)))
    check(pictures[-1]["bpfprof_profiles_written_total"] >= 6, "profiles: %s" % pictures[-1])
    taken = sum(v for name, v in pictures[-1].items() if name.startswith("bpfprof_samples_total"))
    logged = sum(line["samples"] for line in daemon.said("profile written"))
    check(0.5 * logged <= taken <= 1.5 * logged, "%d samples, logged %d" % (taken, logged))
    done = subprocess.run(["promtool", "check", "metrics"], input=text.encode(), check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    check(done.returncode == 0 and not done.stdout.strip(), done.stdout.decode())
    program.kill()
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)


@test(modes=CAPS)
def scraped(context):
    """Prometheus itself scrapes it, and counts as many samples as the machine was busy."""
    program = busy(context)
    daemon = Daemon(context, listen="127.0.0.1:0")
    port = prometheus(context, int(daemon.wait("listening")[0]["port"]))
    end, up, rates, used, own = time.monotonic() + 40, {}, {}, [], 0.0
    # The first rates are of fewer scrapes than their five seconds.
    while time.monotonic() < end and not (up.get("") == 1 and rates.get("python", 0) > max(1, 0.5 * own * HZ)):
        used.append(cpu_of(program.pid))
        time.sleep(1)
        up = query(port, "up")
        rates = query(port, "rate(bpfprof_samples_total[5s])")
        own = (cpu_of(program.pid) - used[-5:][0]) / len(used[-5:])  # CPUs
    check(up == {"": 1.0}, "not scraped: %s\n%s" % (up, context.text("prometheus.log")[-2000:]))
    check(0.5 * own * HZ < rates["python"] < 2.5 * HZ, "%s samples a second; it used %.2f CPUs" % (rates, own))
    check(query(port, "bpfprof_build_info")[""] == 1, "no version")
    context.note("Prometheus: %.0f samples of Python a second, of %.2f CPUs" % (rates["python"], own))
    program.kill()


@test(modes=CAPS)
def hostile_http(context):
    """Rubbish, slow readers, tricks with paths: refused, and sampling does not notice."""
    daemon = Daemon(context, listen="127.0.0.1:0")
    port = int(daemon.wait("listening")[0]["port"])
    daemon.wait("sampling")
    for path, status in (("/", 404), ("/metrics/", 404), ("/metrics?x=/../..", 200),
                         ("/../metrics", 404), ("//metrics", 404), ("/files/", 404),
                         ("/profile?seconds=1", 404), ("/dump?pid=1", 404), ("/%00", 404)):
        check(get(port, path)[0] == status, "%s: %s" % (path, get(port, path)[0]))
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "X" * 50):
        check(get(port, "/metrics", method)[0] == 405, method)
    check(get(port, "/metrics", "HEAD")[2] == "", "a body after HEAD")
    big = b"GET / HTTP/1.1\r\nX: " + b"a" * (1 << 20) + b"\r\n\r\n"
    body = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n" + b"b" * 99999
    for text in (b"\0" * 1000, b"GET\r\n\r\n", big, body, b"\xff\xfe" * 5000,
                 b"GET /" + b"x" * 60000 + b" HTTP/1.1\r\n\r\n"):
        check(b"200 OK" not in ask(port, text), text[:40])
    # More than it takes at once, which say nothing, or half a request, or read nothing.
    slow = []
    for number in range(100):
        connection = socket.create_connection(("127.0.0.1", port), 5)
        slow.append(connection)
        if number % 3:
            with contextlib.suppress(OSError):
                connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n"[:20 * (number % 3)])
    count = len(daemon.said("profile written"))
    lines = daemon.wait("profile written", count + 3, timeout=10)
    check(all(line["seconds"] < "1.6" for line in lines[-2:]), "late: %s" % lines[-2:])
    for connection in slow:
        connection.close()
    time.sleep(0.5)
    check(get(port, "/healthz")[0] == 200, "does not answer any more")
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)


@test(modes=CAPS)
def dripping_http(context):
    """Two clients hold all connections and send a byte now and then: others are answered."""
    daemon = Daemon(context, listen="127.0.0.1:0")
    port = int(daemon.wait("listening")[0]["port"])
    daemon.wait("sampling")
    slow = []
    for number in range(32):
        slow.append(socket.create_connection(
            ("127.0.0.1", port), 5, source_address=("127.0.0.%d" % (2 + number % 2), 0)))
        slow[-1].sendall(b"GET /metrics HTTP/1.1\r\nX: ")
    cut, began, answered = set(), time.monotonic(), 0
    while time.monotonic() - began < 14:
        for connection in slow:
            try:
                connection.setblocking(False)
                connection.send(b"x")
                if connection.recv(1) == b"":
                    cut.add(connection)
            except BlockingIOError:
                pass
            except OSError:
                cut.add(connection)
        asked = time.monotonic()
        check(get(port, "/healthz")[0] == 200, "no answer")
        check(time.monotonic() - asked < 3, "answered after %.1f s" % (time.monotonic() - asked))
        answered += 1
        time.sleep(0.3)
    for connection in slow:
        connection.close()
    check(len(cut) == 32, "%d of 32 are cut after 14 s" % len(cut))
    context.note("%d answers meanwhile" % answered)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)


@test(modes=CAPS)
def unhealthy(context):
    """No profile for more than two intervals: /healthz says so, and takes it back."""
    with small_disk(context, "4M") as folder:
        daemon = Daemon(context, output=folder, listen="127.0.0.1:0")
        port = int(daemon.wait("listening")[0]["port"])
        daemon.wait("profile written", 1)
        with open(os.path.join(folder, "filler"), "wb", buffering=0) as filler:
            with contextlib.suppress(OSError):
                while filler.write(bytes(4096)):
                    pass
        end = time.monotonic() + 25
        while get(port, "/healthz")[0] == 200:
            check(time.monotonic() < end, "still healthy")
            time.sleep(0.3)
        check(get(port, "/readyz")[0] == 200, "it samples all the same")
        os.unlink(os.path.join(folder, "filler"))
        daemon.wait("writing works again")
        check(get(port, "/healthz")[0] == 200, "still not healthy")
        check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)


@test(modes=CAPS)
def ports(context):
    """A port that is taken is an error if it was asked for, and none of ours is left open."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        done = context.bpfprof("daemon", "--output", context.path("out"), "--listen", address)
        check("Address already in use" in done.expect(1).text, done.text)
    for address in ("localhost:1", "1.2.3.4", "::1:80", "127.0.0.1:99999", "x", ":"):
        done = context.bpfprof("daemon", "--output", "x", "--listen", address).expect(2)
        check("ADDRESS:PORT" in done.text, done.text)
    # Killed while it writes: the port is free at once.
    first = Daemon(context, listen="127.0.0.1:0")
    port = int(first.wait("listening")[-1]["port"])
    first.wait("profile written", 1)
    first.end(signal.SIGKILL)
    second = Daemon(context, listen="127.0.0.1:%d" % port)
    second.wait("listening", 2)
    check(second.end() == 0, "exit status %s" % second.process.returncode)


# Stands before clock_gettime(): the wall clock is off by what a file says.
CLOCK = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *ret)
{
	int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
	int err = real(clock, ret);
	FILE *file;
	long off;

	if (clock != CLOCK_REALTIME || !(file = fopen(getenv("CLOCK_OFFSET"), "r")))
		return err;
	if (fscanf(file, "%ld", &off) == 1)
		ret->tv_sec += off;
	fclose(file);
	return err;
}
"""


@test(modes=CAPS)
def clock_set(context):
    """A day ahead, then back, and 3 s back onto names that exist: said, and nothing is lost."""
    with open(context.path("clock.c"), "w", encoding="ascii") as file:
        file.write(CLOCK)
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", context.path("clock.so"),
                    context.path("clock.c"), "-ldl"], check=True)

    def clock_off(seconds):
        with open(context.path("new"), "w", encoding="ascii") as file:
            file.write(str(seconds))
        os.rename(context.path("new"), context.path("off"))

    clock_off(0)
    daemon = Daemon(context, "--retain-age", "366h",
                    env=dict(os.environ, LD_PRELOAD=context.path("clock.so"),
                             CLOCK_OFFSET=context.path("off")))
    for number, seconds in enumerate((86400, 0, -3)):
        daemon.wait("profile written", 3 * (number + 1))
        clock_off(seconds)
    daemon.wait("profile written", 14)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    sets = check_files(daemon.output)
    check(len(sets) == len(daemon.said("profile written")), "%d sets" % len(sets))
    check(any(base.endswith("-1") for base in sets), "no name was used twice")
    latest = os.readlink(os.path.join(daemon.output, "latest.pb.gz"))
    last = daemon.said("profile written")[-1]["file"]
    check(latest == last + ".pb.gz", "latest is %s, not %s" % (latest, last))
    found = []
    for line in daemon.said("profile written"):
        with open(sets[line["file"]][".pb.gz"], "rb") as file:
            found.append(Pprof(file.read()))
    steps = 0
    for before, after in zip(found, found[1:]):
        stepped = any("clock_step" in comment for comment in after.comments)
        gap = after.scalars[9] - before.scalars[9] - before.scalars[10]
        check(stepped == (gap != 0), "gap of %d ns, clock_step %s" % (gap, stepped))
        steps += stepped
    check(steps == 3, "%d steps seen" % steps)


CHURN = r"""
import os, shutil, subprocess, sys, time
folder, program = sys.argv[1:]
number = 0
while True:
    number += 1
    copy = os.path.join(folder, "program%d" % number)
    shutil.copy(program, copy)
    code = "\n".join("def function_%d_%d(n):\n    for i in range(n): pass\nfunction_%d_%d(9999)" %
                     (number, k, number, k) for k in range(200))
    running = [subprocess.Popen([copy]),
               subprocess.Popen(["/usr/bin/python3", "-c", code])]
    for process in running:
        process.wait()
    os.unlink(copy)
    print(number, flush=True)
"""
BURN = r"""
#include <time.h>
int main(void)
{
	while (clock() < CLOCKS_PER_SEC / 20)
		;
	return 0;
}
"""


@test(modes=CAPS, paired=True)
def memory(context):
    """New programs and new Python code all the time, for 48 intervals: no more memory at the end.

    Of one process and its children: what else runs on the machine has no part in it.
    """
    with open(context.path("burn.c"), "w", encoding="ascii") as file:
        file.write(BURN)
    burn = context.path("burn")
    subprocess.run(["gcc", "-O1", "-o", burn, context.path("burn.c")], check=True)
    folder = context.scratch("programs")
    churn = context.spawn(["/usr/bin/python3", "-c", CHURN, folder, burn], plain=True,
                          stdout=subprocess.PIPE)
    daemon = Daemon(context, "--rate", "499", "-p", churn.pid)
    daemon.wait("profile written", 48, timeout=100)
    churn.kill()
    rounds = churn.stdout.read().split()
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    sizes = [line["memory_bytes"] / (1 << 20) for line in daemon.said("profile written")]
    # What is known of programs and code reaches its limits in the first third.
    early, late = statistics.median(sizes[16:28]), statistics.median(sizes[-12:])
    context.note("%s rounds; MiB: %s" % (rounds[-1].decode(), " ".join("%.1f" % s for s in sizes)))
    # In 130 intervals without a trend, medians of ten were 47.1 to 49.7 MiB.
    check(late <= early + 2.5, "%.1f MiB became %.1f MiB" % (early, late))
    check(max(sizes) <= 64, "%.1f MiB" % max(sizes))


LIVES_ON = r"""
import sys, time
BODY = "def made%06d():\n    end = time.thread_time() + 0.002\n    while time.thread_time() < end:\n" \
       "        x = 1\n" + "        x += 1\n" * 60
def steady():
    end = time.thread_time() + 0.002
    while time.thread_time() < end:
        pass
number = 0
while True:
    number += 1
    names = {"time": time}
    exec(compile(BODY % number, "made.py", "exec"), names)
    names["made%06d" % number]()
    steady()
"""


@test(modes=CAPS, alone=True)
def makes_functions_for_ever(context):
    """A process that lives on and makes one function after the other: each sample has its names."""
    source = context.path("lives_on.py")
    with open(source, "w", encoding="ascii") as file:
        file.write(LIVES_ON)
    context.spawn(["/usr/bin/python3", source])
    daemon = Daemon(context, "-F", "997")
    daemon.wait("profile written", count=14, timeout=60)
    daemon.end()
    nameless, made, named = 0, set(), 0
    for base, files in sorted(stored(daemon.output).items())[2:]:
        with open(files[".folded"], encoding="utf-8") as file:
            for line in file:
                if "lives_on.py" not in line:
                    continue
                stack, count = line.rsplit(" ", 1)
                nameless += int(count) * ("[python]" in stack)
                named += int(count)
                made.update(re.findall(r"made(\d{6}) \(made\.py:", stack))
    context.note("%d samples, %d functions, %d without a name" % (named, len(made), nameless))
    check(len(made) > 1500, "only %d functions were seen" % len(made))
    check(nameless <= named / 1000, "%d of %d samples have frames without names" % (nameless, named))
