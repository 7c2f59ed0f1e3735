# SPDX-License-Identifier: Apache-2.0
"""What CUDA libraries register when they are loaded, by the libraries themselves: without bpfprof.

The function that registers is found by the bytes of the calls, without a disassembler. Then the libraries are loaded,
their constructors run, and register_audit.c, which stands in that function's place, writes down what it is given.
"""

import bisect
import collections
import mmap
import os
import re
import struct
import subprocess

# mov $-1,%r8d ... call, and before it r9d becomes 0, and rcx what rdx is or the other way round
CALL = re.compile(rb"\x41\xb8\xff\xff\xff\xff[^\xe8]{0,60}\xe8(?=(.{4}))", re.DOTALL)
NEAR = 48
NINTH = re.compile(rb"\x45\x31\xc9|\x41\xb9\0\0\0\0")
NAMES = re.compile(rb"\x48\x89\xd1|\x48\x89\xca")
ANY_CALL = re.compile(rb"\xe8(?=(.{4}))", re.DOTALL)
LOADER = """
import ctypes, os, sys
for path in sys.argv[1:]:
    ctypes.CDLL(path)
os._exit(0)
"""


def sections(data):
    """Of an ELF file: name to (address, offset, size)."""
    at, = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQ", data, at + i * size) for i in range(count)]
    found = {}
    for name, _, _, va, off, length in headers:
        begin = headers[names][4] + name
        found[data[begin:data.find(b"\0", begin)].decode()] = (va, off, length)
    return found


def target_of(call):
    return call.end() + 4 + int.from_bytes(call.group(1), "little", signed=True)


def calls_in_code(path):
    """(address of the function that registers kernels, calls of it in the code), or None."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
        found = sections(data)
        if ".nvFatBinSegment" not in found:
            return None
        va, off, size = found[".text"]
        text = data[off:off + size]
    votes = collections.Counter()
    for call in CALL.finditer(text):
        before = text[max(0, call.start() - NEAR):call.end()]
        if NINTH.search(before) and NAMES.search(before):
            votes[target_of(call)] += 1
    if not votes:
        return 0, 0
    target = votes.most_common(1)[0][0]
    return va + target, sum(target_of(call) == target for call in ANY_CALL.finditer(text))


class Registered:
    """Of one library."""

    def __init__(self, calls):
        self.calls_in_code = calls
        self.calls = 0
        self.names = collections.defaultdict(set)  # by host function


def load(python, auditor, places, out):
    """Paths loaded one after the other in one process; places: path to calls_in_code()."""
    at = "".join("%s:%x " % (os.path.basename(path), where) for path, (where, _) in places.items() if where)
    env = dict(os.environ, LD_AUDIT=auditor, REGISTER_AT=at, REGISTER_OUT=out)
    done = subprocess.run([python, "-c", LOADER, *places], env=env, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RuntimeError("libraries cannot be loaded: %d: %s" % (done.returncode, done.stderr[-300:]))
    with open(out, encoding="utf-8") as file:
        rows = [line.split() for line in file]
    objects = sorted((int(base, 16), os.path.realpath(path)) for kind, base, path, *_ in rows if kind == "object")
    bases = [base for base, _ in objects]

    def place(text):
        base, path = objects[bisect.bisect(bases, int(text, 16)) - 1]
        return path, int(text, 16) - base

    found = {os.path.realpath(path): Registered(calls) for path, (_, calls) in places.items()}
    for kind, caller, host, *name in rows:
        if kind != "kernel":
            continue
        library = found[place(caller)[0]]
        library.calls += 1
        library.names[place(host)].add(name[0])
    return found


def scanned(program, paths):
    """What bpfprof reads in them: path to ({host: (name, shown)}, bad, seconds)."""
    done = subprocess.run([program, *paths], stdout=subprocess.PIPE, text=True, check=True)
    found = {}
    for line in done.stdout.splitlines():
        kind, *words = line.split(" ", 3)
        if kind == "file":
            path, kernels = os.path.realpath(line[len("file "):]), {}
        elif kind == "kernel":
            kernels[int(words[0], 16)] = (words[1], words[2])
        elif kind == "end":
            found[path] = (kernels, int(words[1]), float(words[2]))
    return found
