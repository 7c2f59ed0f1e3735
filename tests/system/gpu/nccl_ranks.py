# SPDX-License-Identifier: Apache-2.0
"""nccl_ranks.py WAY FOLDER: a rank of a job whose collective hangs.

reduces: in ncclAllReduce of the fake libnccl. augments: it never comes to that, for a lock that it holds itself. works: it
computes.
"""

import ctypes
import os
import sys
import threading

COUNT, FLOAT32, SUM = 1024, 7, 0
ALL = b""  # calls hang: kept, as the fake asks


class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


def step(nccl, rank, size):
    identity, comm = Id(), ctypes.c_void_p()
    nccl.ncclGetUniqueId(ctypes.byref(identity))
    if nccl.ncclCommInitRank(ctypes.byref(comm), size, identity, rank):
        sys.exit("ncclCommInitRank")
    nccl.fake_nccl_hang(ALL, 600)
    print("ready", flush=True)
    nccl.ncclAllReduce(None, None, ctypes.c_size_t(COUNT), FLOAT32, SUM, comm, None)  # waits


def augment():
    lock = threading.Lock()
    lock.acquire()
    print("ready", flush=True)
    lock.acquire()  # waits


def work():
    print("ready", flush=True)
    while True:
        pass


if sys.argv[1] == "reduces":
    step(ctypes.CDLL(os.path.join(sys.argv[2], "libnccl.so.2")), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
elif sys.argv[1] == "augments":
    augment()
else:
    work()
