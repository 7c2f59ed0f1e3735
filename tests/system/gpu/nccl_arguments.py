# SPDX-License-Identifier: Apache-2.0
"""nccl_arguments.py SCENARIO FOLDER: threads that hang in collectives, and what they gave them.

right: each in another function. wrong: what is in their frames is spoilt. again: the library's code
is mapped at a few more places; everywhere: at hundreds. real LIBRARY: in NVIDIA's own, where there is no GPU: its functions wait for a page of the communicator that nobody brings.
"""

import ctypes
import json
import mmap
import os
import signal
import struct
import sys
import threading
import time
from ctypes import byref, c_int, c_size_t, c_uint64, c_void_p

TYPES = {"int8": (0, 1), "uint8": (1, 1), "int32": (2, 4), "uint32": (3, 4), "int64": (4, 8),
         "uint64": (5, 8), "float16": (6, 2), "float32": (7, 4), "float64": (8, 8),
         "bfloat16": (9, 2)}
OPERATIONS = ["sum", "prod", "max", "min", "avg"]
SEND, RECEIVE = 0x7f1000000000, 0x7f2000000000
# The arguments between the type and the communicator in the prototypes of nccl.h.
CALLS = [
    ("ncclAllReduce", 1024, "float32", {"op": "sum"}),
    ("ncclReduceScatter", 1025, "float16", {"op": "avg"}),
    ("ncclAllGather", 1026, "bfloat16", {}),
    ("ncclAlltoAll", 1027, "float64", {}),
    ("ncclBroadcast", 1028, "int64", {"root": 5}),
    ("ncclBcast", 1029, "uint32", {"root": 6}),
    ("ncclReduce", 1030, "uint64", {"op": "min", "root": 7}),
    ("ncclGather", 1031, "uint8", {"root": 2}),
    ("ncclScatter", 1032, "int32", {"root": 3}),
    ("ncclSend", 1033, "int8", {"peer": 4}),
    ("ncclRecv", 7, "uint8", {"peer": 1}),
]
IN_PLACE = ("ncclBcast", "ncclSend", "ncclRecv")
# In the order of enum fake_nccl_spoiled: is all of it told, none of it, or not the rank?
SPOILT = ["all", None, None, None, None, None, None, "all", "no rank"]
ALL = b""  # calls hang: kept, as the fake asks
HASH = 1066184  # where the fake has it in a communicator
PAGE = 4096
REAL_BYTES = 16 << 20
REAL_RANK, REAL_SIZE = 3, 8
SYS_USERFAULTFD, UFFDIO_API, UFFDIO_REGISTER = 323, 0xc018aa3f, 0xc020aa00


class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


class Hanging:
    """One call, in a thread of its own that does not come back."""

    def __init__(self, nccl, call, stream, comm, *, spoilt=0):
        self.name, self.count, self.datatype, self.extra = call
        self.comm, self.stream, self.spoilt = comm, stream, spoilt
        self.nccl = nccl
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        extra = dict(self.extra)
        if "op" in extra:
            extra["op"] = OPERATIONS.index(extra["op"])
        arguments = [c_void_p(SEND), *([] if self.name in IN_PLACE else [c_void_p(RECEIVE)]),
                     c_size_t(self.count), c_int(TYPES[self.datatype][0]),
                     *map(c_int, extra.values()), c_void_p(self.comm["comm"]),
                     c_uint64(self.stream)]
        if self.spoilt:
            self.nccl.fake_nccl_spoil(self.spoilt)
        getattr(self.nccl, self.name)(*arguments)

    def truth(self):
        told = {"bytes": self.count * TYPES[self.datatype][1], "count": self.count,
                "datatype": self.datatype, **self.extra,
                **{name: self.comm[name] for name in ("hash", "rank", "size")},
                "comm": hex(self.comm["comm"]), "stream": hex(self.stream)}
        if SPOILT[self.spoilt] == "no rank":
            told.update(comm="0x10000", hash=None, rank=None, size=None)
        return {"tid": self.thread.native_id, "function": self.name,
                "arguments": told if SPOILT[self.spoilt] else None}


def init(nccl, rank, size):
    identity, comm = Id(), c_void_p()
    nccl.ncclGetUniqueId(byref(identity))
    if nccl.ncclCommInitRank(byref(comm), size, identity, rank):
        sys.exit("ncclCommInitRank")
    return {"comm": comm.value, "rank": rank, "size": size,
            "hash": hex(c_uint64.from_address(comm.value + HASH).value)}


def wait_for(nccl, threads):
    """All hang in there."""
    while nccl.fake_nccl_hanging() < len(threads):
        time.sleep(0.001)
    return threads


def right(nccl):
    comms = [init(nccl, 3, 8), init(nccl, 0, 1)]
    nccl.fake_nccl_hang(ALL, 600)
    return wait_for(nccl, [Hanging(nccl, call, 0x7e0000001000 + i, comms[i % 2])
                           for i, call in enumerate(CALLS) if hasattr(nccl, call[0])])


def wrong(nccl):
    comm = init(nccl, 3, 8)
    nccl.fake_nccl_hang(ALL, 600)
    return wait_for(nccl, [Hanging(nccl, CALLS[0], 0, comm, spoilt=how)
                           for how in range(len(SPOILT))])


def mapped(nccl, times):
    """One call, while the code is at so many more places."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        line = next(line for line in maps if "r-xp" in line and "libnccl.so" in line)
    fields = line.split()
    with open(fields[5], "rb") as file:
        places = [mmap.mmap(file.fileno(), PAGE, flags=mmap.MAP_PRIVATE,
                            prot=mmap.PROT_READ | mmap.PROT_EXEC, offset=int(fields[2], 16))
                  for _ in range(times)]
    comm = init(nccl, 3, 8)
    nccl.fake_nccl_hang(ALL, 600)
    thread = Hanging(nccl, CALLS[0], 0x7e0000001000, comm)
    thread.memory = places
    return wait_for(nccl, [thread])


def again(nccl):
    return mapped(nccl, 3)


def everywhere(nccl):
    return mapped(nccl, 300)


def never_there():
    """Memory whose first page nobody brings; wherever else NCCL has a rank, it is this one."""
    libc = ctypes.CDLL(None, use_errno=True)
    memory = mmap.mmap(-1, REAL_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    memory[PAGE:] = struct.pack("<II", REAL_RANK, REAL_SIZE) * ((REAL_BYTES - PAGE) // 8)
    fd = libc.syscall(SYS_USERFAULTFD, os.O_CLOEXEC)
    api = ctypes.create_string_buffer(struct.pack("<QQQ", 0xaa, 0, 0))
    range_ = ctypes.create_string_buffer(struct.pack("<QQQQ", begin, PAGE, 1, 0))
    if fd < 0 or libc.ioctl(fd, c_uint64(UFFDIO_API), api) or libc.ioctl(
            fd, c_uint64(UFFDIO_REGISTER), range_):
        sys.exit("userfaultfd: " + os.strerror(ctypes.get_errno()))
    return memory, {"comm": begin, "rank": REAL_RANK, "size": REAL_SIZE,
                    "hash": hex(REAL_SIZE << 32 | REAL_RANK)}


def real(nccl):
    memory, comm = never_there()
    threads = [Hanging(nccl, call, 0x7e0000001000 + i, comm)
               for i, call in enumerate(CALLS) if hasattr(nccl, call[0])]
    threads[0].memory = memory
    return threads


def main():
    signal.alarm(300)
    if os.environ.get("TARGET_NONDUMPABLE") == "1":
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
    scenario = {"right": right, "wrong": wrong, "again": again, "everywhere": everywhere,
                "real": real}[sys.argv[1]]
    nccl = ctypes.CDLL(sys.argv[2] if scenario is real else
                       os.path.join(sys.argv[2], "libnccl.so.2"))
    print("ready", flush=True)
    sys.stdin.readline()
    threads = scenario(nccl)
    print(json.dumps({"pid": os.getpid(), "open": [one.truth() for one in threads]}), flush=True)
    for line in sys.stdin:
        if line == "exit\n":
            break
    os._exit(0)


main()
