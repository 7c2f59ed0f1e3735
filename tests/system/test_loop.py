# SPDX-License-Identifier: Apache-2.0
"""The loop of the daemon goes on, and knows new programs, whatever the files and processes of tenants do."""

import contextlib
import glob
import json
import os
import re
import signal
import struct
import subprocess
import threading
import time

import chains
from containers import wait_for
from daemons import HZ, Daemon, ask, cpu_of, get, metrics_of
from harness import BPFPROF, CAPS, Skip, check, test
from test_daemon_http_limits import listening
from test_hostile import Watched

BESIDE = True
LOCK = "loop"
INTERVAL = 2
CALM_S = 4  # before the trouble begins
TROUBLE_S = 12
ANSWER_S = 5  # no answer in this time: there is none
TABLE_BYTES = 127 << 20
NR_MOODY = 80
READ_INPUT = ["0", "0x0"]  # read() of its standard input
TENANT = 54321  # a user; neighbours belong to another one


class Neighbour:
    """A program with known stacks, and the CPU time that it used."""

    def __init__(self, context, name="near"):
        target = context.target("calls_gO2")
        self.name = "%s-%s" % (name, context.dir[-8:])
        self.watched = Watched(self.name, target.path, "calls")
        self.process = context.spawn([target.path, "90"], env={"TARGET_COMM": self.name})
        os.setpriority(os.PRIO_PROCESS, self.process.pid, -5)
        self.used = 0

    def end(self):
        self.used = cpu_of(self.process.pid)
        self.process.kill()
        self.process.wait()

    def check(self, context, folded, least=99, hz=None):
        """Its stacks are right and, with hz, as many as its CPU time asks for."""
        result = chains.check([self.watched], folded)[self.name]
        context.note("%s: %d samples for %.2f s of CPU time, %.2f%% exact" %
                     (self.name, result.samples, self.used, result.percent("exact")))
        check(result.samples >= 50, "%s: only %d samples" % (self.name, result.samples))
        check(result.percent("exact") >= least, chains.table({self.name: result}))
        if hz:
            due = self.used * hz
            check(abs(result.samples - due) <= 0.1 * due + 20, "%s: %d samples, %.0f are due" %
                  (self.name, result.samples, due))
        return result


class Healthz:
    """Asks the daemon every half second whether it is well."""

    def __init__(self, port):
        self.port, self.times, self.failed = port, [], []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.over.wait(0.5):
            began, answer = time.monotonic(), b""
            with contextlib.suppress(OSError):
                answer = ask(self.port, b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", ANSWER_S)
            (self.times if answer[9:12] == b"200" else self.failed).append(time.monotonic() - began)

    def check(self, context):
        self.over.set()
        self.thread.join()
        context.note("%d answers, the slowest after %.2f s" % (len(self.times), max(self.times, default=0)))
        check(self.times and not self.failed, "/healthz: %d answers, %d times none in %d s" %
              (len(self.times), len(self.failed), ANSWER_S))


class Watch:
    """A daemon, a neighbour, and questions to the daemon; check() says whether all was well meanwhile."""

    def __init__(self, context, *servers):
        self.context, self.servers = context, servers
        self.daemon = Daemon(context, interval="%ds" % INTERVAL, listen="127.0.0.1:0")
        self.port = int(self.daemon.wait("listening")[0]["port"])
        self.daemon.wait("sampling")
        self.near = Neighbour(context)
        self.daemon.wait("profile written")
        self.healthz = Healthz(self.port)
        context.stack.callback(self.healthz.over.set)

    def end(self):
        """Its profiles. The process ends when the kernel has closed its files: their servers are ended before."""
        self.near.end()
        began = time.monotonic()
        self.daemon.process.send_signal(signal.SIGTERM)
        wait_for("SIGTERM does not end it", lambda: self.daemon.said("ended"), 10)
        self.context.note("ended in %.1f s" % (time.monotonic() - began))
        let_go(*self.servers)
        status = self.daemon.process.wait(20)
        check(status == 0, "exit status %s" % status)
        return texts_of(self.daemon)

    def check(self):
        self.healthz.check(self.context)
        texts = self.end()
        heads = [json.loads(text.split("\n", 1)[0][2:]) for text in texts]
        self.context.note("why stacks are cut: %s" % sum_up(head["stacks"]["reasons"] for head in heads))
        walk = sum_up(head["walk"] for head in heads)
        self.context.note("background: %s" % {why: walk[why] for why in walk if "background" in why})
        lengths = [head["duration_seconds"] for head in heads]
        check(len(lengths) > 3 and all(abs(one - INTERVAL) < INTERVAL / 2 for one in lengths[1:-1]),
              "intervals of %s s" % lengths)
        # Ticks that the machine left out are no fault of the loop.
        lost = sum_up(head["lost"] for head in heads)
        lost.pop("tick_skipped", None)
        check(not any(lost.values()), "lost: %s" % lost)
        return self.near.check(self.context, "\n".join(texts), hz=HZ)


def texts_of(daemon):
    """The collapsed profiles of its intervals, oldest first."""
    texts = []
    for path in sorted(glob.glob(os.path.join(daemon.output, "cpu-*.folded"))):
        with open(path, encoding="utf-8") as file:
            texts.append(file.read())
    return texts


def sum_up(reasons):
    """Counts of several intervals."""
    total = {}
    for one in reasons:
        for why, count in one.items():
            total[why] = total.get(why, 0) + count
    return total


def metric(port, *names):
    """The sum of those reasons."""
    found = metrics_of(get(port, "/metrics")[2])
    return sum(value for name, value in found.items() if any('"%s"' % one in name for one in names))


def call_of(pid):
    """The system call that a process is in, and its first argument."""
    with open("/proc/%d/syscall" % pid, encoding="ascii") as file:
        return file.read().split()[:2]


def with_huge_tables(library, path):
    """Writes the library with a .symtab and a .strtab of holes behind it; the last symbol alone has a name."""
    with open(library, "rb") as file:
        data = bytearray(file.read())
    sections, = struct.unpack_from("<Q", data, 40)
    number, = struct.unpack_from("<H", data, 60)
    symbols, at = TABLE_BYTES // 24, (len(data) + 4095) & ~4095
    names = at + TABLE_BYTES
    headers = data[sections:sections + 64 * number]
    # struct Elf64_Shdr, twice
    headers += struct.pack("<IIQQQQIIQQ", 0, 2, 0, 0, at, symbols * 24, number + 1, 0, 8, 24)
    headers += struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, names, TABLE_BYTES, 0, 0, 1, 0)
    struct.pack_into("<Q", data, 40, names + TABLE_BYTES)
    struct.pack_into("<H", data, 60, number + 2)
    with open(path, "wb") as file:
        file.write(data)
        file.seek(at + 24 * (symbols - 1))
        file.write(struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 0x1000, 64))
        file.write(b"\0_PyEval_EvalFrameDefault\0")
        file.seek(names)
        file.write(b"\0_PyEval_EvalFrameDefault\0")
        file.truncate(names + TABLE_BYTES)
        file.seek(names + TABLE_BYTES)
        file.write(headers)


def mount(context, name, file, *mode):
    """A FUSE server, and where its files are."""
    server, place = context.helper("fuse_hang", "fuse_hang.c"), context.path(name)
    os.mkdir(place)
    fuse = subprocess.Popen([server, place, file, *map(str, mode)], stdout=subprocess.PIPE)
    context.stack.callback(lambda: (
        fuse.kill(), fuse.wait(), fuse.stdout.close(),
        subprocess.run(["umount", "-l", place], stderr=subprocess.DEVNULL, check=False)))
    if fuse.stdout.readline() != b"mounted\n":
        raise Skip("no FUSE file system can be mounted (exit %d)" % fuse.wait())
    return fuse, place


def map_files(context, folder, count, *more, user=TENANT, **kwargs):
    """A program of another tenant that maps the files of a folder."""
    return context.spawn([context.helper("map_files", "map_files.c", "-pthread"), 90, folder, count, *more],
                         plain=True, user=user, group=user, extra_groups=[], **kwargs)


def map_files_again_and_again(context, folder, count, *more):
    """A shell of another tenant that begins such programs until one fails."""
    argv = [context.helper("map_files", "map_files.c", "-pthread"), 90, folder, count, *more]
    return context.spawn(["sh", "-c", 'while "$@" >/dev/null; do :; done', "sh", *argv], plain=True, user=TENANT,
                         group=TENANT, extra_groups=[])


def silence(*servers):
    for fuse in servers:
        fuse.send_signal(signal.SIGUSR1)
        check(fuse.stdout.readline() == b"silent\n", "the file system still answers")


def fall_silent(context, users):
    """Servers of file systems, each with a program of one of the users on it, that answer no more."""
    servers = []
    for number, user in enumerate(users):
        fuse, place = mount(context, "mount%d" % number, BPFPROF, "unread")
        servers.append(fuse)
        mapped = map_files(context, place, 1, stdout=subprocess.PIPE, user=user)
        check(mapped.stdout.readline(), "the file could not be mapped")
    context.stack.callback(let_go, *servers)
    silence(*servers)
    return servers


def let_go(*servers):
    """Ends silent servers: a process that waits for one cannot end before."""
    for fuse in servers:
        fuse.kill()
        fuse.wait()


@test(modes=CAPS)
def files_with_huge_tables(context):
    """32 files of a user that look like Pythons, with 254 MiB of symbols each, all of it holes."""
    library = context.helper("known_python.so", "unknown_python.c", "-shared", "-fPIC", "-DKNOWN", "-s")
    folder = context.scratch("files")
    for number in range(32):
        with_huge_tables(library, os.path.join(folder, "lib%d" % number))
    watch = Watch(context)
    time.sleep(CALM_S - INTERVAL)
    map_files(context, folder, 32)
    time.sleep(TROUBLE_S)
    watch.check()


LONG_NAMES = 3000, 16000  # functions, bytes of a name


def with_long_names(context):
    """A program with that many functions; it runs each of them."""
    folder, (functions, size) = context.scratch("long"), LONG_NAMES
    with open(os.path.join(folder, "names.s"), "w", encoding="utf-8") as file:
        table = ".section .data.rel,\"aw\"\n.globl table\ntable:\n"
        for number in range(functions):
            name = "_Z%d%sv" % (size, ("f%d_" % number).ljust(size, "x"))
            table += ".quad %s\n" % name
            file.write(".text\n.type {0},@function\n{0}:\n.cfi_startproc\nmov $40000,%ecx\n1: dec %ecx\njnz 1b\n"
                       "ret\n.cfi_endproc\n.size {0},.-{0}\n".format(name))
        file.write(table + ".quad 0\n.section .note.GNU-stack,\"\",@progbits\n")
    with open(os.path.join(folder, "main.c"), "w", encoding="utf-8") as file:
        file.write("extern void (*table[])(void);\n"
                   "int main(void) { for (int i = 0;; i++) { if (!table[i]) i = 0; table[i](); } }\n")
    subprocess.run(["gcc", "-o", "long", "main.c", "names.s"], cwd=folder, check=True)
    return os.path.join(folder, "long")


@test(modes=CAPS)
def long_names(context):
    """A program with 48 MB of names: the names are cut, and the memory keeps to its limit while they are found."""
    program = with_long_names(context)
    daemon = Daemon(context, "-F", 999, interval="7s")
    daemon.wait("sampling")
    context.spawn([program])
    near = Neighbour(context)
    written = daemon.wait("profile written", 2)
    near.end()
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    texts = "\n".join(texts_of(daemon))
    near.check(context, texts)
    most = max(int(line["memory_bytes"]) for line in written)
    names = {len(name) for name in re.findall(r";(f\d+_x+[^ ;]*)", texts)}
    context.note("at most %.1f MiB; names of %d to %d bytes" % (most / (1 << 20), min(names), max(names)))
    check(max(names) < 1024 and len(re.findall(r";f\d+_x+", texts)) > 300, "names of %s bytes" % names)
    check(most <= 64 << 20, "memory of %d bytes" % most)
    files = sum_up(json.loads(text.split("\n", 1)[0][2:])["files"] for text in texts_of(daemon))
    check(files["names_cut"] > 0, "names are cut, and not counted: %s" % files)


@test(modes=CAPS)
def slow_mount(context):
    """40 libraries on a file system that takes 60 ms for each read."""
    fuse, place = mount(context, "mount", BPFPROF, "slow", 60)
    watch = Watch(context, fuse)
    time.sleep(CALM_S - INTERVAL)
    map_files(context, place, 40)
    time.sleep(TROUBLE_S)
    watch.check()


def named_later(context, daemon, name):
    """A program that begins now, and runs for three intervals."""
    near = Neighbour(context, name)
    daemon.wait("profile written", len(daemon.said("profile written")) + 3)
    near.end()
    return near


@test(modes=CAPS)
def silent_mounts(context):
    """Nine file systems that have fallen silent, and a program on each: one that begins later has its names."""
    servers = fall_silent(context, [TENANT] * 9)
    daemon, port = listening(context)
    wait_for("too few files are blocked", lambda: metric(port, "file_blocked") >= 9, 30)
    near = named_later(context, daemon, "late")
    let_go(*servers)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    near.check(context, "\n".join(texts_of(daemon)), least=95)


@test(modes=CAPS)
def held_mmap_lock(context):
    """Processes whose mmap_lock is held for ever, which hangs each verification: later programs have their names."""
    with open(context.path("pages"), "wb") as file:
        file.truncate(4 << 20)
    fuse, place = mount(context, "mount", context.path("pages"), "unread")
    held = [map_files(context, place, 1, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(5)]
    addresses = [int(one.stdout.readline()) for one in held]
    daemon, port = listening(context)
    daemon.wait("profile written")
    silence(fuse)
    context.stack.callback(let_go, fuse)
    for number, (one, at) in enumerate(zip(held, addresses)):
        # A read of its memory waits for the file system and holds the lock. mmap() waits behind
        # that, and all others behind mmap().
        reader = subprocess.Popen(["dd", "if=/proc/%d/mem" % one.pid, "of=/dev/null", "bs=4096", "count=1",
                                   "skip=%d" % (at // 4096 + 100 * (number + 1))], stderr=subprocess.DEVNULL)
        context.stack.callback(reader.wait)
        wait_for("the reader does not hang", lambda pid=reader.pid: call_of(pid) == READ_INPUT, 10)
        one.stdin.write(b"x")
        one.stdin.flush()
    context.stack.callback(let_go, fuse)  # before the readers are waited for
    wait_for("no mapping read timed out", lambda: metric(port, "mapping_read_timeouts"), 30)
    near = named_later(context, daemon, "first")
    # The mappings of all are read again every ten seconds.
    daemon.wait("profile written", len(daemon.said("profile written")) + 12)
    later = named_later(context, daemon, "second")
    context.note("%d mapping reads timed out" % metric(port, "mapping_read_timeouts"))
    let_go(fuse)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    for one in (near, later):
        one.check(context, "\n".join(texts_of(daemon)), least=95)


@test(modes=CAPS)
def many_hung_calls(context):
    """Eighty file systems that fall silent at random moments, with programs that begin and end on them."""
    places = [mount(context, "mount%d" % number, BPFPROF, "moody") for number in range(NR_MOODY)]
    servers = [fuse for fuse, _ in places]
    watch = Watch(context, *servers)
    context.stack.callback(let_go, *servers)
    for _, place in places:
        map_files_again_and_again(context, place, 20, 50)
    time.sleep(TROUBLE_S / 2)
    near = Neighbour(context, "later")
    time.sleep(TROUBLE_S / 2)
    near.end()
    blocked = metric(watch.port, "file_blocked")
    context.note("%d files blocked" % blocked)
    check(blocked >= 100, "only %d files blocked" % blocked)
    first = watch.check()
    later = near.check(context, "\n".join(texts_of(watch.daemon)), least=95)
    check(not first.counts["wrong"] and not later.counts["wrong"], chains.table({"near": first, "later": later}))
