# SPDX-License-Identifier: Apache-2.0
"""gpu_waits.py SCENARIO FOLDER: work on a device that takes its time, and who waits for it.

Talked to as gpu_calls.cpp is. It knows when it saw each collective to be complete, when the
device had nothing to do, and says so.
"""

import ctypes
import json
import os
import signal
import sys
import threading
import time
from ctypes import POINTER, byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

STREAM_1, STREAM_2, STREAM_3 = 0x7e0000001000, 0x7e0000002000, 0x7e0000003000
EVENT_1, EVENT_2, EVENT_3 = 0x5e0000001000, 0x5e0000002000, 0x5e0000003000
NOT_READY = 600
REDUCE = [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_uint64]
PEER = [c_void_p, c_size_t, c_int, c_int, c_void_p, c_uint64]


class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


PROTOTYPES = {
    "cuModuleGetFunction": [POINTER(c_uint64), c_uint64, ctypes.c_char_p],
    "cuModuleUnload": [c_uint64],
    "cuLaunchKernel": [c_uint64, *[c_uint] * 7, c_uint64, c_void_p, c_void_p],
    "cuLaunchKernel_ptsz": [c_uint64, *[c_uint] * 7, c_uint64, c_void_p, c_void_p],
    "cuGraphLaunch": [c_uint64, c_uint64],
    "cuMemAlloc_v2": [POINTER(c_uint64), c_size_t],
    "cuMemcpyHtoDAsync_v2": [c_uint64, c_void_p, c_size_t, c_uint64],
    "cuMemcpyHtoDAsync_v2_ptsz": [c_uint64, c_void_p, c_size_t, c_uint64],
    "cuMemcpyHtoD_v2": [c_uint64, c_void_p, c_size_t],
    "cuStreamSynchronize": [c_uint64],
    "cuStreamSynchronize_ptsz": [c_uint64],
    "cuStreamQuery": [c_uint64],
    "cuStreamDestroy_v2": [c_uint64],
    "cuStreamBeginCapture_v2": [c_uint64, c_int],
    "cuStreamBeginCapture_v2_ptsz": [c_uint64, c_int],
    "cuStreamEndCapture": [c_uint64, POINTER(c_uint64)],
    "cuStreamEndCapture_ptsz": [c_uint64, POINTER(c_uint64)],
    "cuStreamBeginCaptureToGraph": [c_uint64, c_uint64, c_void_p, c_void_p, c_size_t, c_int],
    "cuGraphInstantiate_v2": [POINTER(c_uint64), c_uint64, c_void_p, c_void_p, c_size_t],
    "cuGraphInstantiateWithFlags": [POINTER(c_uint64), c_uint64, c_uint64],
    "cuGraphInstantiateWithParams": [POINTER(c_uint64), c_uint64, c_void_p],
    "cuGraphClone": [POINTER(c_uint64), c_uint64],
    "cuGraphExecUpdate_v2": [c_uint64, c_uint64, c_void_p],
    "cuGraphExecDestroy": [c_uint64],
    "cuGraphDestroy": [c_uint64],
    "cuGraphNodeSetEnabled": [c_uint64, c_uint64, c_uint],
    "cuGraphAddKernelNode_v2": [c_void_p, c_uint64, c_void_p, c_size_t, c_void_p],
    "cuStreamWaitEvent": [c_uint64, c_uint64, c_uint],
    "cuCtxSynchronize": [],
    "cuEventRecord": [c_uint64, c_uint64],
    "cuEventRecordWithFlags": [c_uint64, c_uint64, c_uint],
    "cuEventQuery": [c_uint64],
    "cuEventSynchronize": [c_uint64],
    "cuEventDestroy_v2": [c_uint64],
    "cuMemsetD8Async": [c_uint64, c_uint, c_size_t, c_uint64],
    "cuProfilerStart": [],
    "cuProfilerStop": [],
    "ncclGetUniqueId": [POINTER(Id)],
    "ncclCommInitRank": [POINTER(c_void_p), c_int, Id, c_int],
    "ncclCommInitAll": [POINTER(c_void_p), c_int, POINTER(c_int)],
    "ncclCommDestroy": [c_void_p],
    "ncclAllReduce": REDUCE,
    "ncclAllToAll": [c_void_p, c_void_p, c_size_t, c_int, c_void_p, c_uint64],
    "ncclSend": PEER,
    "ncclRecv": PEER,
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
}
FUNCTIONS = {}
LIBRARIES = []
ROWS = {}
STARVED = {"ns": [0, 0], "max_ns": [0, 0], "gaps": 0, "copy_ns": [0, 0], "where": {}}
WORK = {"ns": 0}
EARLY = []
TIMES = ("ns", "max_ns", "within_ns", "within_max_ns")


def load(folder):
    for name in ("libcuda.so.1", "libnccl.so.2"):
        LIBRARIES.append(ctypes.CDLL(os.path.join(folder, name), mode=ctypes.RTLD_GLOBAL))
    for name, prototype in PROTOTYPES.items():
        function = getattr(LIBRARIES[name.startswith("nccl")], name)
        function.argtypes = prototype
        FUNCTIONS[name] = function


def cuda(name, *arguments):
    result = FUNCTIONS[name](*arguments)
    if result not in (0, NOT_READY):
        sys.exit("%s: %d" % (name, result))
    return result


def work(milliseconds):
    """How long each launch from now on keeps its stream busy."""
    LIBRARIES[0].fake_cuda_set_work_us(int(milliseconds * 1000))
    WORK["ns"] = int(milliseconds * 1e6)


def init(rank=1, size=4, identity=None):
    comm = c_void_p()
    if identity:  # the same in all ranks
        identity = Id(identity)
    else:
        identity = Id()
        cuda("ncclGetUniqueId", byref(identity))
    cuda("ncclCommInitRank", byref(comm), size, identity, rank)
    return comm.value


class Collective:
    """One that was put on a stream, and the row that it belongs to."""

    def __init__(self, name, comm, stream, count, *, peer=None, counts=True):
        key = (name, comm, 4 * count)
        extra = {"op": "sum"} if peer is None else {"peer": peer}
        if name == "ncclAllToAll":
            extra = {}
        self.row = ROWS.setdefault(key, {
            "operation": name, "datatype": "float32", **extra, "comm": hex(comm),
            "bytes": 4 * count, "count": 0, "pending": 0, "unknown": 0,
            **{name: [0, 0] for name in TIMES}}) if counts else None
        self.begin = self.put = time.monotonic_ns()
        if not extra:
            cuda(name, 0x7f1000000000, 0x7f2000000000, count, 7, comm, stream)
        elif peer is None:
            cuda(name, 0x7f1000000000, 0x7f2000000000, count, 7, 0, comm, stream)
        else:
            cuda(name, 0x7f1000000000, count, 7, peer, comm, stream)
        self.called = self.issued = time.monotonic_ns()
        if counts:
            self.row["pending"] += 1

    def complete(self, told):
        """It was just seen to be. All that can be known of times is between two bounds."""
        row = self.row
        row["pending"] -= 1
        row["count"] += 1
        ready = max(told.begin, self.begin + told.work_ns)
        within = [0, told.end - max(told.running[0], self.put)]
        if told.waited:
            within[1] = told.work_ns // 2
        elif told.at_once:
            within[0] = told.begin - max(told.running[1], self.issued)
        for name, bounds in (("ns", (ready - self.called, told.end - self.begin)),
                             ("within_ns", within)):
            most = name.replace("ns", "max_ns")
            row[name] = [max(0, ns) + old for ns, old in zip(bounds, row[name])]
            row[most] = [max(ns, old) for ns, old in zip(bounds, row[most])]

    def given_up(self):
        self.row["pending"] -= 1
        self.row["unknown"] += 1


class Told:
    """A call that shows whether work is done: its answer, and the known bounds of the time."""

    def __init__(self, name, *arguments, before=None, work_ns=None):
        self.running = before.running if before else (0, 0)
        self.work_ns = WORK["ns"] if work_ns is None else work_ns
        self.begin = time.monotonic_ns()
        self.done = not cuda(name, *arguments)
        self.end = time.monotonic_ns()
        if not self.done:
            self.running = (self.begin, self.end)
        # A shorter one may have returned at once: that is not known here.
        self.waited = "Synchronize" in name and self.end - self.begin > 1000000
        self.at_once = "Query" in name


def synced():
    """The ranks that wait for each collective."""
    comm = init()
    work(5)
    for i in range(12):
        one = Collective("ncclAllReduce", comm, STREAM_1, 1 << 20)
        one.complete(Told("cuStreamSynchronize", STREAM_1))
        one = Collective("ncclAllReduce", comm, STREAM_1, 5000)
        cuda("cuEventRecord", EVENT_1, STREAM_1)
        cuda("cuLaunchKernel", 0x4711, 1, 1, 1, 32, 1, 1, 0, STREAM_2, None, None)
        one.complete(Told("cuEventSynchronize", EVENT_1))
        two = [Collective("ncclAllReduce", comm, stream, 100) for stream in (STREAM_1, STREAM_2)]
        told = Told("cuCtxSynchronize")
        for one in two:
            one.complete(told)
        if i % 3 == 0:  # the default streams, by all their names
            one = Collective("ncclAllReduce", comm, 1, 77)
            one.complete(Told("cuStreamSynchronize", 0, work_ns=0))  # which the fake does not know
            one = Collective("ncclAllReduce", comm, 2, 78)
            one.complete(Told("cuStreamSynchronize_ptsz", 0, work_ns=0))


def behind(stream, *streams):
    """Later work on the stream waits for earlier work on the others."""
    for i, other in enumerate(streams):
        cuda("cuEventRecord", EVENT_3 + 0x100 * i, other)
        cuda("cuStreamWaitEvent", stream, EVENT_3 + 0x100 * i, 0)


def proves(told, *collectives):
    told.waited = False  # for them: they may have been complete before
    for one in collectives:
        one.complete(told)


def crossed():
    """Streams that wait for each other: who waits for the last one knows of all."""
    comm = init()
    work(3)
    for i in range(6):
        one = Collective("ncclAllReduce", comm, STREAM_1, 100)
        behind(STREAM_2, STREAM_1)
        proves(Told("cuStreamSynchronize", STREAM_2), one)
        # Through a third one, by an event.
        one = Collective("ncclAllReduce", comm, STREAM_1, 200)
        behind(STREAM_2, STREAM_1)
        two = Collective("ncclAllReduce", comm, STREAM_2, 300)
        behind(STREAM_3, STREAM_2)
        launch(STREAM_3)
        cuda("cuEventRecord", EVENT_1, STREAM_3)
        told = Told("cuEventQuery", EVENT_1)
        while not told.done:
            time.sleep(0.002)
            told = Told("cuEventQuery", EVENT_1)
        told.at_once = False  # when it was asked for before says nothing of these
        proves(told, one, two)
        # Several at once, more than there is room for, in both directions.
        one = Collective("ncclAllReduce", comm, STREAM_1, 400)
        two = Collective("ncclAllReduce", comm, STREAM_2, 500)
        for _ in range(10):
            behind(STREAM_3, STREAM_1, STREAM_2)
        proves(Told("cuStreamSynchronize", STREAM_3), one, two)
        # These prove nothing: an event before the wait, a wait for what came before, one that failed.
        launch(STREAM_2)
        cuda("cuEventRecord", EVENT_2, STREAM_2)
        launch(STREAM_1)
        cuda("cuEventRecord", EVENT_1, STREAM_1)
        one = Collective("ncclAllReduce", comm, STREAM_1, 600)
        cuda("cuStreamWaitEvent", STREAM_2, EVENT_1, 0)
        if FUNCTIONS["cuStreamWaitEvent"](STREAM_2, 0, 0) != 1:
            sys.exit("event 0 can be waited for")
        cuda("cuEventSynchronize", EVENT_2)
        cuda("cuStreamSynchronize", STREAM_2)
        if i % 2:
            proves(Told("cuStreamSynchronize", STREAM_1), one)
        else:  # and this is over by then
            cuda("cuStreamDestroy_v2", STREAM_1)
            one.given_up()


def speed():
    """For comparisons: always the same, but for how long the device takes."""
    comm = init()
    work(float(os.environ["WORK_MS"]))
    for _ in range(20):
        one = Collective("ncclAllReduce", comm, STREAM_1, 1000000)
        one.complete(Told("cuStreamSynchronize", STREAM_1))


def hanging():
    """Collectives return, and the device never gets to their end; before them some of the same kind did."""
    comms = [init(), init(2)]
    work(1)
    one = Collective("ncclAllReduce", comms[0], STREAM_1, 1000)
    one.complete(Told("cuStreamSynchronize", STREAM_1))
    work(600000)
    rows = []
    for comm, stream, count, times in ((0, STREAM_1, 1000, 3), (1, STREAM_2, 7, 1), (0, STREAM_3, 50, 2)):
        for i in range(times):
            one = Collective("ncclAllReduce", comms[comm], stream, count)
            if not i:
                rows.append({"comm": hex(comms[comm]), "bytes": 4 * count, "pending": times,
                             "stream": hex(stream), "called": [one.begin, one.called]})
            time.sleep(0.25)
    print(json.dumps({"pid": os.getpid(), "hanging": rows}), flush=True)
    sys.stdin.readline()
    os._exit(0)


def two_groups():
    """Two groups of two ranks, of the same operation and size, one of them much slower than the other."""
    for identity, milliseconds in ((b"tensor", "FAST_MS"), (b"data", "SLOW_MS")):
        comm = init(int(os.environ["RANK"]), 2, identity + os.environ["RUN"].encode())
        work(float(os.environ[milliseconds]))
        for _ in range(12):
            one = Collective("ncclAllReduce", comm, STREAM_1, 1000)
            one.complete(Told("cuStreamSynchronize", STREAM_1))


def watchdog():
    """PyTorch's way: an event behind each collective, and queries of all events from time to time."""
    comm = init()
    work(30)
    for i in range(8):
        first = Collective("ncclAllReduce", comm, STREAM_1, 1 << 18)
        cuda("cuEventRecord", EVENT_1, STREAM_1)
        second = Collective("ncclAllReduce", comm, STREAM_1, 1 << 10)
        cuda("cuEventRecordWithFlags", EVENT_2, STREAM_1, 0)
        # Says nothing: recorded before the work, on a stream without any, and gone.
        cuda("cuEventRecord", EVENT_3, STREAM_2)
        if cuda("cuEventQuery", EVENT_3):
            sys.exit("an event of nothing is not ready")
        waiting, told = {EVENT_1: first, EVENT_2: second}, {EVENT_1: None, EVENT_2: None}
        while waiting:
            time.sleep(0.04)
            for event in list(waiting):
                told[event] = Told("cuEventQuery", event, before=told[event])
                if told[event].done:
                    waiting.pop(event).complete(told[event])
        if i % 2:
            one = Collective("ncclAllReduce", comm, STREAM_3, 4096)
            told = Told("cuStreamQuery", STREAM_3)
            while not told.done:
                time.sleep(0.004)
                told = Told("cuStreamQuery", STREAM_3, before=told)
            one.complete(told)
    cuda("cuEventDestroy_v2", EVENT_1)
    cuda("cuEventDestroy_v2", EVENT_2)


def groups():
    """The end of a group puts its collectives on the stream: an event recorded before proves nothing."""
    comm = init()
    cuda("ncclCommInitAll", byref(c_void_p()), 1, None)  # has a group of its own
    for _ in range(6):
        work(20)
        cuda("ncclGroupStart")
        cuda("ncclGroupStart")
        send = Collective("ncclSend", comm, STREAM_1, 1000, peer=2)
        receive = Collective("ncclRecv", comm, STREAM_1, 2000, peer=3)
        cuda("ncclGroupEnd")
        cuda("cuEventRecord", EVENT_1, STREAM_1)
        cuda("cuEventSynchronize", EVENT_1)
        begin = time.monotonic_ns()
        cuda("ncclGroupEnd")
        for one in (send, receive):
            one.put, one.issued = begin, time.monotonic_ns()
        cuda("cuEventRecord", EVENT_2, STREAM_1)
        time.sleep(0.01)
        told = Told("cuEventSynchronize", EVENT_2)
        send.complete(told)
        receive.complete(told)


def composite():
    """One that is a group of others inside, and after it one that is in no group."""
    comm = init()
    work(5)
    for _ in range(4):
        for name in ("ncclAllToAll", "ncclAllReduce"):
            one = Collective(name, comm, STREAM_1, 3000)
            one.complete(Told("cuStreamSynchronize", STREAM_1))


def long_wait():
    cuda("cuStreamSynchronize", STREAM_1)


def long():
    """A thread waits for as many seconds as each line says; another one meanwhile, again and again, not long."""
    while True:
        before = time.monotonic_ns()
        work(1000 * float(sys.stdin.readline()))
        launch(STREAM_1)
        work(20)
        waiting = threading.Thread(target=long_wait)
        waiting.start()
        while not LIBRARIES[0].fake_cuda_waiting():
            time.sleep(0.001)
        print(json.dumps({"begin": [before, time.monotonic_ns()]}), flush=True)
        while waiting.is_alive():
            launch(STREAM_2)
            wait_later(STREAM_2)
            time.sleep(0.05)
        print(json.dumps({"end": time.monotonic_ns()}), flush=True)


def first_half(comm):
    return [Collective("ncclAllReduce", comm, STREAM_1, 5000) for _ in range(6)]


def second_half(comm):
    return [Collective("ncclAllReduce", comm, STREAM_1, 5000) for _ in range(2)]


def rounds():
    """On each word what is under way is waited for, and the next ones are put on the stream."""
    comm, waiting = init(), []
    work(3)
    while True:
        if waiting:
            told = Told("cuStreamSynchronize", STREAM_1)
            for one in waiting:
                one.complete(told)
        waiting = first_half(comm) + second_half(comm)
        tell()
        if sys.stdin.readline() != "go\n":
            os._exit(0)


def unknown():
    """Work without a waiter, work only written into a graph, work hidden by the end of its stream."""
    comm, work_ms = init(), 10
    work(work_ms)
    for _ in range(4):
        cuda("cuStreamBeginCapture_v2", STREAM_3, 0)
        Collective("ncclAllReduce", comm, STREAM_3, 640, counts=False)
        cuda("cuStreamEndCapture", STREAM_3, byref(c_uint64()))
        one = Collective("ncclAllReduce", comm, STREAM_2, 641)
        cuda("cuStreamDestroy_v2", STREAM_2)
        one.given_up()
        cuda("cuEventRecord", EVENT_1, STREAM_2)
        time.sleep(2 * work_ms / 1000)
        cuda("cuEventQuery", EVENT_1)
    # An event that is recorded once more, on another stream, says nothing of the first one.
    Collective("ncclAllReduce", comm, STREAM_1, 642)
    cuda("cuEventRecord", EVENT_1, STREAM_1)
    cuda("cuLaunchKernel", 0x4711, 1, 1, 1, 32, 1, 1, 0, STREAM_3, None, None)
    cuda("cuEventRecord", EVENT_1, STREAM_3)
    cuda("cuEventSynchronize", EVENT_1)
    cuda("cuStreamSynchronize", STREAM_3)


class Gap:
    """Begins when it was seen that all work is done, ends with the next launch."""

    def __init__(self, told):
        self.begin, self.copied = (told.begin, told.end), [0, 0]

    def copy(self, milliseconds):
        LIBRARIES[0].fake_cuda_set_latency_us(int(milliseconds * 1000))
        begin = time.monotonic_ns()
        cuda("cuMemcpyHtoD_v2", 0x7f0000000000, 0x7f1000000000, 1 << 20)
        self.copied = [int(milliseconds * 1e6), time.monotonic_ns() - begin]
        LIBRARIES[0].fake_cuda_set_latency_us(0)

    def end(self, where):
        """Between the end of what told it and the begin of the launch, or a little more."""
        before = time.monotonic_ns()
        launch(STREAM_1)
        bounds = (before - self.begin[1] - self.copied[1],
                  time.monotonic_ns() - self.begin[0] - self.copied[0])
        old = STARVED["where"].get(where, (0, 0))
        STARVED["where"][where] = [a + b for a, b in zip(old, bounds)]
        STARVED["ns"] = [a + b for a, b in zip(STARVED["ns"], bounds)]
        STARVED["copy_ns"] = [a + b for a, b in zip(STARVED["copy_ns"], self.copied)]
        STARVED["max_ns"] = [max(a, b) for a, b in zip(STARVED["max_ns"], bounds)]
        STARVED["gaps"] += 1
        return before


def launch(stream):
    cuda("cuLaunchKernel", 0x4711, 1, 1, 1, 32, 1, 1, 0, stream, None, None)


def train_step(gap):
    time.sleep(0.01)
    return gap.end("train_step")


def next_epoch(gap):
    time.sleep(0.04)
    gap.copy(8)
    time.sleep(0.005)
    return gap.end("next_epoch")


def not_starved(stream):
    """The device may still have other work."""
    time.sleep(0.02)
    launch(stream)


def starving():
    """A loader that is too slow, between steps that are waited for."""
    work(3)
    cuda("cuCtxSynchronize")  # nothing was launched before: not a gap
    time.sleep(0.03)
    launched = time.monotonic_ns()
    launch(STREAM_1)
    for i in range(20):
        if i % 3 == 0:
            told = Told("cuCtxSynchronize")
        elif i % 3 == 1:
            behind(STREAM_2, STREAM_1)  # no call waits for this
            told = Told("cuStreamSynchronize", STREAM_1)
        else:
            cuda("cuEventRecord", EVENT_1, STREAM_1)
            told = Told("cuEventQuery", EVENT_1)
            while not told.done:
                time.sleep(0.001)
                told = Told("cuEventQuery", EVENT_1)
        told.begin = max(told.begin, launched + WORK["ns"])  # it was done then at the earliest
        gap = Gap(told)
        cuda("cuStreamSynchronize", STREAM_1)  # nothing new
        launched = (next_epoch if i % 5 == 0 else train_step)(gap)
    cuda("cuEventRecord", EVENT_1, STREAM_1)
    launch(STREAM_1)
    cuda("cuEventSynchronize", EVENT_1)
    not_starved(STREAM_2)
    cuda("cuStreamSynchronize", STREAM_1)
    not_starved(STREAM_1)
    cuda("cuStreamSynchronize", STREAM_1)
    cuda("cuEventSynchronize", EVENT_1)
    not_starved(STREAM_2)
    cuda("cuCtxSynchronize")  # and no launch after that
    STARVED["since_ns"] = time.monotonic_ns()


def wait_in_runtime(runtime, found):
    found.append(threading.get_native_id())
    found.append(time.monotonic_ns())
    runtime.cudaStreamSynchronize(c_uint64(STREAM_1))


def runtime():
    """A thread waits in CUDA's runtime, which waits in the driver."""
    library, found = ctypes.CDLL(os.path.join(sys.argv[2], "libcudart.so.13")), []
    work(600000)
    launch(STREAM_1)
    threading.Thread(target=wait_in_runtime, args=(library, found), daemon=True).start()
    while not LIBRARIES[0].fake_cuda_waiting():
        time.sleep(0.001)
    print(json.dumps({"pid": os.getpid(), "tid": found[0], "begin_ns": found[1]}), flush=True)
    sys.stdin.readline()
    os._exit(0)


def live():
    """For a live table: KERNELS kernels, each launched 50 times a second, and memory; HANG: a thread that waits."""
    comm, address = init(), c_uint64()
    work(0)
    cuda("cuMemAlloc_v2", byref(address), 64000000)
    if os.environ.get("HANG"):
        work(600000)
        launch(STREAM_2)
        threading.Thread(target=cuda, args=("cuStreamSynchronize", STREAM_2), daemon=True).start()
        while not LIBRARIES[0].fake_cuda_waiting():
            time.sleep(0.001)
        Collective("ncclAllReduce", comm, STREAM_2, 1000, counts=False)
        work(0)
    print(json.dumps({"pid": os.getpid()}), flush=True)
    begin, rounds = time.monotonic(), 0
    while True:
        for kernel in range(int(os.environ.get("KERNELS", "2"))):
            cuda("cuLaunchKernel", 0x4711 + kernel, 1, 1, 1, 32, 1, 1, 0, STREAM_1, None, None)
        work(8)
        launch(STREAM_3)
        cuda("cuStreamSynchronize", STREAM_3)
        work(0)
        rounds += 1
        time.sleep(max(0, begin + rounds * 0.02 - time.monotonic()))


def reloaded():
    """Many launches of a kernel, then 50 a second; at a signal of another one, which is given its handle."""
    handles, signals = [], []

    def reload(name):
        handle = c_uint64()
        cuda("cuModuleUnload", 0x1000)
        cuda("cuModuleGetFunction", byref(handle), 0x1000, name)
        if handle.value != (handles or [handle.value])[0]:
            sys.exit("another handle: %x" % handle.value)
        handles.append(handle.value)

    signal.signal(signal.SIGUSR1, lambda *_: signals.append(1))
    work(0)
    reload(b"first_kernel")
    for i in range(50000):
        cuda("cuLaunchKernel", handles[0], 1, 1, 1, 32, 1, 1, 0, STREAM_1, None, None)
    print(json.dumps({"pid": os.getpid()}), flush=True)
    while True:
        if len(signals) == len(handles):
            reload(b"second_kernel")
        cuda("cuLaunchKernel", handles[0], 1, 1, 1, 32, 1, 1, 0, STREAM_1, None, None)
        time.sleep(0.02)


def spans():
    """From the first of some launches to when it knows that they are done: one for each round, and one that goes on."""
    comm, told = init(), {"count": 0, "ns": [0, 0], "max_ns": [0, 0]}
    for i in range(12):
        milliseconds = (20, 60, 150)[i % 3]
        work(milliseconds)
        before = time.monotonic_ns()
        launch(STREAM_1)
        begun = time.monotonic_ns()
        launch(STREAM_2)
        Collective("ncclAllReduce", comm, STREAM_2, 10, counts=False)
        cuda("cuStreamSynchronize", STREAM_2)
        begin = time.monotonic_ns()
        if i % 2:
            cuda("cuStreamSynchronize", STREAM_1)
        else:
            cuda("cuCtxSynchronize")
        bounds = (begin - begun, time.monotonic_ns() - before)
        told["count"] += 1
        for name in ("ns", "max_ns"):
            told[name] = [(max if name == "max_ns" else int.__add__)(*pair) for pair in zip(told[name], bounds)]
        time.sleep(0.05)
        if cuda("cuStreamQuery", STREAM_1):  # that says nothing new
            sys.exit("there is work")
    before = time.monotonic_ns()
    launch(STREAM_1)
    told["since_ns"] = [before, time.monotonic_ns()]
    print(json.dumps({"pid": os.getpid(), "spans": told}), flush=True)
    sys.stdin.readline()
    os._exit(0)


def steps():
    """Windows of the profiler; the second and the third are the wanted ones."""
    comm = init()
    for window in range(1, 5):
        counts = window in (2, 3)
        work(3)
        # Outside: work that is still there when the window begins, and a gap that another launch ends.
        Collective("ncclAllReduce", comm, STREAM_1, 100 + window, counts=False)
        cuda("cuStreamSynchronize", STREAM_1)
        time.sleep(0.03)
        launch(STREAM_1)
        cuda("cuProfilerStart")
        time.sleep(0.02)
        launch(STREAM_2)
        one = Collective("ncclAllReduce", comm, STREAM_1, 200, counts=counts)
        told = Told("cuStreamSynchronize", STREAM_1)
        if counts:
            one.complete(told)
        told = Told("cuStreamSynchronize", STREAM_2)
        time.sleep(0.01)
        if counts:
            Gap(told).end("steps")
        else:
            launch(STREAM_1)
        # Begun inside, seen to be complete outside.
        one = Collective("ncclAllReduce", comm, STREAM_1, 300, counts=counts)
        cuda("cuProfilerStop")
        told = Told("cuStreamSynchronize", STREAM_1)
        if counts:
            one.complete(told)
        time.sleep(0.01)


def wait_first():
    cuda("cuStreamSynchronize", STREAM_1)


def wait_later(stream=STREAM_1):
    cuda("cuStreamSynchronize", stream)


def tokens():
    """Many more launches than a thread may send stacks of, and between them some short waits."""
    work(0)
    for i in range(60):
        for _ in range(300):
            launch(STREAM_2)
        (wait_first if i < 10 else wait_later)()


def put(rows, captured, name, stream, count=1, size=0, blocks=1):
    """Calls that put something on a stream, and their row."""
    arguments = {"cuLaunchKernel": (0x4711, blocks, 1, 1, 32, 1, 1, 0, stream, None, None),
                 "cuLaunchKernel_ptsz": (0x4711, blocks, 1, 1, 32, 1, 1, 0, stream, None, None),
                 "cuMemcpyHtoDAsync_v2": (0x7f1000000000, b"x" * size, size, stream),
                 "cuMemcpyHtoDAsync_v2_ptsz": (0x7f1000000000, b"x" * size, size, stream),
                 "cuMemsetD8Async": (0x7f1000000000, 0, size, stream),
                 "cuGraphLaunch": (0x6a, stream)}[name]
    for _ in range(count):
        cuda(name, *arguments)
    row = rows.setdefault((name, stream, captured), [0, 0])
    row[0] += count
    row[1] += count * size


def begin_capture(rows, comm):
    """A graph of three streams, beside which others go on."""
    cuda("cuStreamBeginCapture_v2", STREAM_1, 0)
    for blocks in range(1, 6):
        put(rows, True, "cuLaunchKernel", STREAM_1, blocks=blocks)
    put(rows, False, "cuLaunchKernel", STREAM_2, 2)  # has not joined yet
    cuda("cuEventRecord", EVENT_1, STREAM_1)
    cuda("cuStreamWaitEvent", STREAM_2, EVENT_1, 0)
    put(rows, True, "cuLaunchKernel", STREAM_2, 3)
    cuda("cuEventRecord", EVENT_2, STREAM_2)
    cuda("cuStreamWaitEvent", 2, EVENT_2, 0)  # the thread's own default stream
    put(rows, True, "cuLaunchKernel_ptsz", 0, 4)
    put(rows, True, "cuMemcpyHtoDAsync_v2_ptsz", 0, 1, 70)
    cuda("cuEventRecordWithFlags", EVENT_3, STREAM_1, 1)  # external: recorded when the graph runs
    cuda("cuStreamWaitEvent", STREAM_3, EVENT_3, 0)
    put(rows, False, "cuLaunchKernel", STREAM_3)
    put(rows, True, "cuMemcpyHtoDAsync_v2", STREAM_2, 2, 1000)
    put(rows, True, "cuMemsetD8Async", STREAM_1, 1, 50)
    put(rows, True, "cuGraphLaunch", STREAM_1)  # becomes a part of it
    Collective("ncclAllReduce", comm, STREAM_1, 640, counts=False)
    rows.setdefault(("cuLaunchKernelEx", STREAM_1, True), [0, 0])[0] += 1  # by that
    other = threading.Thread(target=put, args=(rows, False, "cuLaunchKernel", STREAM_3, 6))
    other.start()
    other.join()
    other = threading.Thread(target=put, args=(rows, False, "cuLaunchKernel_ptsz", 0, 7))  # another one
    other.start()
    other.join()
    put(rows, False, "cuMemcpyHtoDAsync_v2", STREAM_3, 1, 300)


def capture(rows, comm):
    """Work written into a graph, and work that runs."""
    for end in range(3):
        begin_capture(rows, comm)
        if end:  # of another one, which is an error there and nothing here
            cuda("cuStreamEndCapture", STREAM_2, byref(c_uint64()))
            put(rows, True, "cuLaunchKernel", STREAM_1)
        cuda("cuStreamEndCapture", STREAM_1, byref(c_uint64()))
        put(rows, False, "cuLaunchKernel", STREAM_1)
        put(rows, False, "cuLaunchKernel", STREAM_2)
        put(rows, False, "cuLaunchKernel_ptsz", 0)
        put(rows, False, "cuGraphLaunch", STREAM_1, 2)
        cuda("cuStreamWaitEvent", STREAM_3, EVENT_1, 0)  # of a capture that is over
        put(rows, False, "cuLaunchKernel", STREAM_3)
    cuda("cuStreamBeginCapture_v2", STREAM_1, 0)
    cuda("cuEventRecord", EVENT_1, STREAM_1)
    cuda("cuStreamWaitEvent", STREAM_2, EVENT_1, 0)
    put(rows, True, "cuLaunchKernel", STREAM_1)
    put(rows, True, "cuLaunchKernel", STREAM_2)
    cuda("cuStreamDestroy_v2", STREAM_2)  # and another one of the same handle is made
    put(rows, False, "cuLaunchKernel", STREAM_2)
    put(rows, True, "cuLaunchKernel", STREAM_1)
    cuda("cuStreamSynchronize", STREAM_1)  # as if its end had not been seen
    put(rows, False, "cuLaunchKernel", STREAM_1)
    cuda("cuStreamBeginCapture_v2", STREAM_1, 0)  # and goes on
    put(rows, True, "cuLaunchKernel", STREAM_1)
    put(rows, False, "cuLaunchKernel", STREAM_2)


def capture_default(rows):
    cuda("cuStreamBeginCapture_v2_ptsz", 0, 0)
    put(rows, True, "cuLaunchKernel_ptsz", 0, 2)
    put(rows, True, "cuMemcpyHtoDAsync_v2_ptsz", 2, 3, 10)
    cuda("cuStreamEndCapture_ptsz", 0, byref(c_uint64()))
    put(rows, False, "cuLaunchKernel_ptsz", 0)
    put(rows, False, "cuMemcpyHtoDAsync_v2_ptsz", 2, 1, 20)


def captures():
    comm, rows = init(), {}
    work(5)
    capture(rows, comm)
    other = threading.Thread(target=capture_default, args=(rows,))
    other.start()
    other.join()
    cuda("cuStreamSynchronize", STREAM_3)
    print(json.dumps({"pid": os.getpid(), "rows": [[*key, *row] for key, row in rows.items()]}), flush=True)
    for line in sys.stdin:
        if line == "exit\n":
            break
    os._exit(0)


NO_GRAPH = 2**64 - 1
GRAPH_1, GRAPH_2, EXEC_1, EXEC_2 = 0x6a0000001000, 0x6a0000002000, 0x6b0000001000, 0x6b0000002000


def next_graph(handle):
    LIBRARIES[0].fake_cuda_next_graph(c_uint64(handle))
    return byref(c_uint64())


def node(function, count, kernel=None):
    return {"function": function, "count": count, "kernel": kernel and "kernel@0x%x" % kernel}


class Graph:
    """One that is captured, and what its launches should be seen to run."""

    def __init__(self, handle, kernels, others=()):
        self.handle, self.complete, self.launches = handle, True, 0
        self.nodes = [node("cuLaunchKernel", count, kernel) for kernel, count in kernels]
        self.nodes += [node("cuMemsetD8Async", count) for count in others]
        self.capture(kernels, others)
        self.end()

    def capture(self, kernels, others):
        cuda("cuStreamBeginCapture_v2", STREAM_1, 0)
        cuda("cuEventRecord", EVENT_1, STREAM_1)
        cuda("cuStreamWaitEvent", STREAM_2, EVENT_1, 0)
        for kernel, count in kernels:
            for i in range(count):
                cuda("cuLaunchKernel", kernel, 1, 1, 1, 32 + i % 7, 1, 1, 0, (STREAM_1, STREAM_2)[i % 2], None, None)
        for count in others:
            for _ in range(count):
                cuda("cuMemsetD8Async", 0x7f1000000000, 0, 64, STREAM_1)

    def end(self):
        cuda("cuStreamEndCapture", STREAM_1, next_graph(self.handle))

    def again(self, handle, kernels, others=()):
        """The same, in another order: another graph, but one row."""
        self.capture(kernels, others)
        cuda("cuStreamEndCapture", STREAM_1, next_graph(handle))

    def launch(self, exe, count, stream=STREAM_1):
        for _ in range(count):
            cuda("cuGraphLaunch", exe, stream)
        self.launches += count

    def seen(self):
        return {"launches": self.launches, "complete": self.complete, "nodes": self.nodes}


class Part(Graph):
    """The graph has more nodes than BPF saw."""

    def __init__(self, handle, nodes):
        self.handle, self.complete, self.launches, self.nodes = handle, False, 0, nodes


class Unknown(Part):
    """BPF saw no node of the graph."""

    def __init__(self, handle):
        super().__init__(handle, [])


def refused(name, *arguments):
    """A call that fails."""
    next_graph(NO_GRAPH)
    if not FUNCTIONS[name](*arguments):
        raise SystemExit("%s has not failed" % name)


def graphs_again(found):
    """Handles that were others' before, and graphs that are changed."""
    first = Graph(GRAPH_1, [(0x4711, 5), (0x4712, 3)], (2,))
    found.append(first)
    cuda("cuGraphInstantiateWithFlags", next_graph(EXEC_1), GRAPH_1, 0)
    cuda("cuGraphInstantiate_v2", next_graph(EXEC_2), GRAPH_1, None, None, 0)
    cuda("cuGraphDestroy", GRAPH_1)
    first.launch(EXEC_1, 7)
    first.launch(EXEC_2, 2, STREAM_2)
    second = Graph(GRAPH_1, [(0x4711, 10)])
    found.append(second)
    cuda("cuGraphExecDestroy", EXEC_1)
    cuda("cuGraphInstantiateWithParams", next_graph(EXEC_1), GRAPH_1, None)
    second.launch(EXEC_1, 4)
    first.launch(EXEC_2, 1)
    third = Graph(GRAPH_2, [(0x4713, 1)])
    found.append(third)
    refused("cuGraphExecUpdate_v2", EXEC_1, GRAPH_2, None)
    second.launch(EXEC_1, 1)
    next_graph(EXEC_1)
    cuda("cuGraphExecUpdate_v2", EXEC_1, GRAPH_2, None)
    third.launch(EXEC_1, 3)
    cuda("cuGraphClone", next_graph(GRAPH_1), GRAPH_2)
    cuda("cuGraphInstantiateWithFlags", next_graph(EXEC_2), GRAPH_1, 0)
    third.launch(EXEC_2, 2)
    for i in range(8300):  # more than there is room for at a time
        cuda("cuGraphInstantiateWithFlags", next_graph(EXEC_2 + 0x1000 + i), GRAPH_2, 0)
        cuda("cuGraphExecDestroy", EXEC_2 + 0x1000 + i)
    first.again(GRAPH_1, [(0x4712, 2), (0x4711, 5), (0x4712, 1)], (1, 1))
    cuda("cuGraphInstantiateWithFlags", next_graph(EXEC_1), GRAPH_1, 0)
    first.launch(EXEC_1, 4)
    changed = Unknown(EXEC_1)  # a node is added to it by hand
    found.append(changed)
    cuda("cuGraphAddKernelNode_v2", None, GRAPH_2, None, 0, None)
    cuda("cuGraphInstantiateWithFlags", next_graph(EXEC_1), GRAPH_2, 0)
    changed.launch(EXEC_1, 2)
    third.launch(EXEC_2, 1)
    cuda("cuGraphExecDestroy", EXEC_2)
    cuda("cuGraphDestroy", GRAPH_1)


def wide(found):
    """More streams than can be followed: what is put on the others is not known to be in it."""
    part = Part(GRAPH_2 + 2, [node("cuLaunchKernel", 31, 0x4715)])
    cuda("cuStreamBeginCapture_v2", STREAM_1, 0)
    cuda("cuEventRecord", EVENT_1, STREAM_1)
    for i in range(40):
        cuda("cuStreamWaitEvent", 0x7e0000010000 + i, EVENT_1, 0)
    for i in range(31):
        cuda("cuLaunchKernel", 0x4715, 1, 1, 1, 32, 1, 1, 0, 0x7e0000010000 + i, None, None)
    part.end()
    cuda("cuGraphInstantiateWithFlags", next_graph(EXEC_1 + 0x50), GRAPH_2 + 2, 0)
    part.launch(EXEC_1 + 0x50, 1)
    found.append(part)


def left(found):
    """A stream that has joined is destroyed before the end; a node is switched off after it."""
    graph = Graph.__new__(Graph)
    graph.handle, graph.complete, graph.launches = GRAPH_2 + 3, True, 0
    graph.nodes = [node("cuLaunchKernel", 6, 0x4716)]
    graph.capture([(0x4716, 6)], ())
    cuda("cuStreamDestroy_v2", STREAM_2)
    graph.end()
    cuda("cuGraphInstantiateWithFlags", next_graph(EXEC_1 + 0x60), GRAPH_2 + 3, 0)
    graph.launch(EXEC_1 + 0x60, 2)
    found.append(graph)
    cuda("cuGraphNodeSetEnabled", EXEC_1 + 0x60, 0, 0)
    disabled = Unknown(EXEC_1 + 0x60)
    disabled.launch(EXEC_1 + 0x60, 1)
    found.append(disabled)


def graphs():
    """CUDA graphs, and what their launches run."""
    found = []
    work(1)
    graphs_again(found)
    refused("cuStreamEndCapture", STREAM_1, next_graph(NO_GRAPH))  # nothing was begun
    dropped = Graph.__new__(Graph)
    dropped.capture([(0x4714, 9)], ())
    refused("cuStreamEndCapture", STREAM_1, byref(c_uint64()))
    large = Graph(GRAPH_1, [(0x4711, 4000), (0x4714, 1)])
    found.append(large)
    cuda("cuGraphInstantiateWithFlags", next_graph(EXEC_2), GRAPH_1, 0)
    large.launch(EXEC_2, 6)
    empty = Graph(GRAPH_2, [])
    found.append(empty)
    cuda("cuGraphInstantiateWithFlags", next_graph(EXEC_1 + 0x10), GRAPH_2, 0)
    empty.launch(EXEC_1 + 0x10, 2)
    outer = Part(GRAPH_2, [node("cuLaunchKernel", 2, 0x4711), node("cuGraphLaunch", 1)])
    outer.capture([(0x4711, 2)], ())
    cuda("cuGraphLaunch", EXEC_2, STREAM_1)  # another graph is a part of it
    outer.end()
    found.append(outer)
    cuda("cuGraphInstantiateWithFlags", next_graph(EXEC_1 + 0x20), GRAPH_2, 0)
    outer.launch(EXEC_1 + 0x20, 3)
    partly = Part(GRAPH_2 + 1, [node("cuLaunchKernel", 1, 0x4711)])
    for _ in range(2):  # which are one
        partly.capture([(0x4711, 1)], ())
        cuda("cuGraphAddKernelNode_v2", None, GRAPH_2 + 1, None, 0, None)  # to that
        partly.end()
        cuda("cuGraphInstantiateWithFlags", next_graph(EXEC_1 + 0x30), GRAPH_2 + 1, 0)
        partly.launch(EXEC_1 + 0x30, 1)
    found.append(partly)
    wide(found)
    left(found)
    added = Unknown(EXEC_1 + 0x40)
    cuda("cuStreamBeginCaptureToGraph", STREAM_1, GRAPH_2 + 1, None, None, 0, 0)
    cuda("cuLaunchKernel", 0x4711, 1, 1, 1, 32, 1, 1, 0, STREAM_1, None, None)
    cuda("cuStreamEndCapture", STREAM_1, next_graph(GRAPH_2 + 1))
    cuda("cuGraphInstantiateWithFlags", next_graph(EXEC_1 + 0x40), GRAPH_2 + 1, 0)
    added.launch(EXEC_1 + 0x40, 1)
    found.append(added)
    print(json.dumps({"pid": os.getpid(), "graphs": [one.seen() for one in found]}), flush=True)
    for line in sys.stdin:
        if line == "exit\n":
            break
    os._exit(0)


def several_devices():
    """With two devices, a context's synchronization waits for one, and proves nothing for the other."""
    comms = [init(0), init(1)]  # the fake's device is its rank
    work(2)
    for _ in range(5):
        for comm, stream in zip(comms, (STREAM_1, STREAM_2)):
            Collective("ncclAllReduce", comm, stream, 999)
        cuda("cuCtxSynchronize")


def tell():
    print(json.dumps({"pid": os.getpid(), "completions": list(ROWS.values()), "starved": STARVED}), flush=True)


class Group:
    """One whose end never returns, in a thread of its own: what is in it, as gpu should tell it."""

    HANGS = b"ncclGroupEnd"  # by its address

    def __init__(self):
        self.role, self.rank = os.environ["GROUP"], int(os.environ["RANK"])
        self.comms = [init(self.rank, 2) for _ in range(3)]
        self.rows, self.go, self.begun = [], threading.Event(), threading.Event()
        self.tid = None
        threading.Thread(target=self.run, daemon=True).start()
        if self.role == "begun":
            self.begun.wait()

    def add(self, name, comm, stream, count, peer=None, times=1, told=True):
        for _ in range(times):
            Collective(name, self.comms[comm], stream, count, peer=peer, counts=False)
        extra = {"op": "sum"} if peer is None else {"peer": peer}
        if told:
            self.rows.append({"operation": name, "datatype": "float32", **extra,
                              "comm": hex(self.comms[comm]), "stream": hex(stream),
                              "bytes": 4 * count, "count": times})

    def run(self):
        self.tid = threading.get_native_id()
        if self.role == "begun":
            cuda("ncclGroupStart")
            self.add("ncclSend", 0, STREAM_1, 9, peer=1 - self.rank, told=False)
            self.begun.set()
        self.go.wait()
        if self.role != "begun":
            # A communicator of its own, and groups that are over.
            cuda("ncclCommInitAll", byref(c_void_p()), 1, None)
            for comm in range(3):
                cuda("ncclGroupStart")
                Collective("ncclAllReduce", self.comms[comm], STREAM_2, 7, counts=False)
                cuda("ncclGroupEnd")
            Collective("ncclAllReduce", self.comms[2], STREAM_2, 7, counts=False)
            cuda("ncclGroupStart")
        if self.role == "both":
            cuda("ncclGroupStart")
            self.add("ncclSend", 0, STREAM_1, 1000000, peer=1 - self.rank, times=2)
            self.add("ncclRecv", 0, STREAM_1, 1000000, peer=1 - self.rank)
            cuda("ncclGroupEnd")
            self.add("ncclAllReduce", 1, STREAM_2, 1000)
            self.add("ncclAllReduce", 1, 2, 1000)  # the thread's default one
        elif self.role == "captured":
            self.add("ncclAllReduce", 1, STREAM_2, 1000)
            cuda("cuStreamBeginCapture_v2", STREAM_1, 0)
            self.add("ncclAllReduce", 0, STREAM_1, 1000, told=False)
            cuda("cuStreamEndCapture", STREAM_1, byref(c_uint64()))
        elif self.role == "begun":
            self.add("ncclAllReduce", 1, STREAM_2, 1000, told=False)
        elif self.role == "many":  # kinds
            for i in range(600):
                self.add("ncclAllReduce", 0, STREAM_1, 1 + i)
        elif self.role == "late":
            cuda("ncclGroupEnd")
            return
        LIBRARIES[1].fake_nccl_hang(self.HANGS, 600)
        cuda("ncclGroupEnd")


def hung_group():
    group = EARLY[0] if EARLY else Group()
    group.go.set()
    while group.role != "late" and not LIBRARIES[1].fake_nccl_hanging():
        time.sleep(0.01)
    print(json.dumps({"pid": os.getpid(), "tid": group.tid, "group": group.rows,
                      "comms": [hex(comm) for comm in group.comms]}), flush=True)


def children():
    """Processes that do no more than begin a graph, 64 at a time; then a collective that is waited for."""
    for _ in range(4):
        for _ in range(64):
            child = os.fork()
            if not child:
                cuda("cuStreamBeginCapture_v2", STREAM_1, 0)
                os._exit(0)
            if os.waitpid(child, 0)[1]:
                sys.exit("a child did not end well")
        time.sleep(1.5)  # they are forgotten
    work(1)
    one = Collective("ncclAllReduce", init(), STREAM_1, 1 << 20)
    one.complete(Told("cuStreamSynchronize", STREAM_1))


def main():
    signal.alarm(300)
    if os.environ.get("TARGET_NONDUMPABLE") == "1":
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
    scenario = {"synced": synced, "crossed": crossed, "watchdog": watchdog, "groups": groups, "unknown": unknown,
                "several": several_devices, "speed": speed, "hanging": hanging, "runtime": runtime, "live": live, "reloaded": reloaded, "spans": spans, "two_groups": two_groups,
                "hung_group": hung_group, "starving": starving, "steps": steps, "tokens": tokens,
                "rounds": rounds, "composite": composite, "long": long, "captures": captures,
                "graphs": graphs, "children": children}[sys.argv[1]]
    load(sys.argv[2])
    if os.environ.get("GROUP") == "begun":  # before it is watched
        EARLY.append(Group())
    print("ready", flush=True)
    sys.stdin.readline()
    scenario()
    tell()
    for line in sys.stdin:
        if line == "exit\n":
            break
    os._exit(0)


main()
