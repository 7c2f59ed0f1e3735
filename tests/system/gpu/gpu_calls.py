# SPDX-License-Identifier: Apache-2.0
"""gpu_calls.py SCENARIO FOLDER: the Python twin of gpu_calls.cpp, which says how both are talked to.

Of what a library calls itself GPU_CALLS_LOG has nothing.
"""

import collections
import ctypes
import gc
import json
import mmap
import os
import signal
import sys
import threading
import time
from ctypes import POINTER, byref, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p

STREAM_1, STREAM_2 = 0x7e0000001000, 0x7e0000002000
BUFFER, RECEIVED = 0x7f1000000000, 0x7f2000000000
TRITON, GEMM = b"triton_red_fused_mean_7", b"sm90_xmma_gemm_bf16bf16_f32"
DOZERS = 20
HASH_AT = 1066184


class Config(ctypes.Structure):
    _fields_ = [("grid", c_uint * 3), ("block", c_uint * 3), ("shared", c_uint),
                ("stream", c_uint64), ("attributes", c_void_p), ("count", c_uint)]


class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


LAUNCH = [c_uint64, *[c_uint] * 7, c_uint64, c_void_p, c_void_p]
REDUCE = [c_void_p, c_void_p, c_size_t, c_int, c_int, c_void_p, c_uint64]
PROTOTYPES = {
    "cuLaunchKernel": LAUNCH,
    "cuLaunchKernelEx": [POINTER(Config), c_uint64, c_void_p, c_void_p],
    "cuModuleGetFunction": [POINTER(c_uint64), c_uint64, ctypes.c_char_p],
    "cuLibraryGetKernel": [POINTER(c_uint64), c_uint64, ctypes.c_char_p],
    "cuModuleUnload": [c_uint64],
    "cuMemcpyHtoDAsync_v2": [c_uint64, c_void_p, c_size_t, c_uint64],
    "cuMemcpyDtoH_v2": [c_void_p, c_uint64, c_size_t],
    "cuMemsetD8_v2": [c_uint64, c_ubyte, c_size_t],
    "cuMemAlloc_v2": [POINTER(c_uint64), c_size_t],
    "cuMemAllocAsync": [POINTER(c_uint64), c_size_t, c_uint64],
    "cuMemFree_v2": [c_uint64],
    "cuMemFreeAsync": [c_uint64, c_uint64],
    "cuMemCreate": [POINTER(c_uint64), c_size_t, c_void_p, c_uint64],
    "cuMemRelease": [c_uint64],
    "cuMemMap": [c_uint64, c_size_t, c_size_t, c_uint64, c_uint64],
    "cuMemUnmap": [c_uint64, c_size_t],
    "cuMemRetainAllocationHandle": [POINTER(c_uint64), c_uint64],
    "cuStreamSynchronize": [c_uint64],
    "cuCtxSynchronize": [],
    "ncclGetUniqueId": [POINTER(Id)],
    "ncclCommInitRank": [POINTER(c_void_p), c_int, Id, c_int],
    "ncclAllReduce": REDUCE,
    "ncclReduceScatter": REDUCE,
    "ncclBroadcast": REDUCE,
    "ncclSend": [c_void_p, c_size_t, c_int, c_int, c_void_p, c_uint64],
    "ncclRecv": [c_void_p, c_size_t, c_int, c_int, c_void_p, c_uint64],
    "ncclGroupStart": [],
    "ncclGroupEnd": [],
}


HOST_MEMORY = ("live_bytes", "peak_bytes", "allocations", "frees", "unknown_frees")


class Tensors:
    """Memory allocated by libc10_cuda."""

    def __init__(self):
        self.allocated = collections.Counter()
        self.live = {}
        self.memory = dict.fromkeys(HOST_MEMORY, 0)

    def inuse(self):
        sums = collections.Counter()
        for where, size in self.live.values():
            sums[where] += size
        return sums

    def note(self, where, va, size):
        self.live[va] = (where, size)
        self.allocated[where] += size
        self.memory["live_bytes"] += size
        self.memory["peak_bytes"] = max(self.memory["peak_bytes"], self.memory["live_bytes"])
        self.memory["allocations"] += 1

    def forget(self, va):
        self.memory["frees"] += 1
        if va in self.live:
            self.memory["live_bytes"] -= self.live.pop(va)[1]
        else:
            self.memory["unknown_frees"] += 1


class Truth:
    """What was done; Python's functions are told apart by their names."""

    def __init__(self):
        self.calls = collections.defaultdict(lambda: {"calls": 0, "bytes": 0, "ns": 0,
                                                      "max_ns": 0, "errors": 0})
        self.launches = collections.Counter()
        self.collectives = collections.defaultdict(lambda: [0, 0])
        self.communicators = {}
        self.where = collections.defaultdict(collections.Counter)
        self.moved = collections.Counter()
        self.allocated = collections.Counter()
        self.live = {}
        self.kernels = {}
        self.memory = dict.fromkeys(("live_bytes", "peak_bytes", "allocations", "frees",
                                     "unknown_frees", "device_free", "device_total"), 0)
        self.open = []
        self.tensors = Tensors()
        self.semaphores = []
        self.generations = collections.Counter()
        self.collected_ns = collections.Counter()

    def json(self):
        inuse = collections.Counter()
        for where, size in self.live.values():
            inuse[where] += size
        return json.dumps({
            "pid": os.getpid(), "calls": self.calls,
            "launches": [dict(json.loads(key), calls=calls)
                         for key, calls in self.launches.items()],
            "collectives": [dict(json.loads(key), calls=calls, bytes=size)
                            for key, (calls, size) in self.collectives.items()],
            "communicators": list(self.communicators.values()), "where": self.where,
            "moved": self.moved, "allocated": self.allocated, "inuse": inuse,
            "host_allocated": {}, "host_inuse": {},
            "tensor_allocated": self.tensors.allocated, "tensor_inuse": self.tensors.inuse(),
            "tensor_memory": self.tensors.memory if self.tensors.memory["allocations"] else None,
            "semaphores": self.semaphores, "generations": self.generations,
            "collected_ns": self.collected_ns,
            "memory": self.memory, "host_memory": dict.fromkeys(HOST_MEMORY, 0), "open": self.open, "children": []})


TRUTH = Truth()
LIBRARIES = []
FUNCTIONS = {}
LOG_PATH = os.environ.get("GPU_CALLS_LOG")
MADE = []
MAPPED = []


def logged(name, function):
    def run(*arguments):
        begin = time.monotonic_ns()
        result = function(*arguments)
        MADE.append((threading.get_native_id(), name, begin, time.monotonic_ns(), "caller"))
        return result
    return run


def write_made():
    if LOG_PATH:
        with open(LOG_PATH, "w", encoding="ascii") as file:
            for one in MADE:
                print(*one, file=file)


def load(folder):
    for name in ("libcuda.so.1", "libnccl.so.2"):
        LIBRARIES.append(ctypes.CDLL(os.path.join(folder, name), mode=ctypes.RTLD_GLOBAL))
    for name, prototype in PROTOTYPES.items():
        function = getattr(LIBRARIES[name.startswith("nccl")], name)
        function.argtypes = prototype
        FUNCTIONS[name] = logged(name, function) if LOG_PATH else function


def call(where, name, size, *arguments):
    """Calls one and notes it. The caller of this function is where."""
    function = FUNCTIONS[name]
    begin = time.monotonic_ns()
    result = function(*arguments)
    passed = time.monotonic_ns() - begin
    note = TRUTH.calls[name]
    note["calls"] += 1
    note["bytes"] += size
    note["ns"] += passed
    note["max_ns"] = max(note["max_ns"], passed)
    note["errors"] += result != 0
    TRUTH.where[where][name] += 1
    if size and not name.startswith(("cuMemAlloc", "cuMemCreate")):
        TRUTH.moved[where] += size
    return result


def note_launch(where, kernel, name, grid, block, stream, handle=None):
    key = {"kernel": kernel, "exported": name, "grid": grid, "block": block,
           "stream": hex(stream)}
    if handle is None:
        TRUTH.calls[name]["calls"] += 1
        TRUTH.where[where][name] += 1
    else:
        key["handle"] = hex(handle)
    TRUTH.launches[json.dumps(key)] += 1


def look_up(function, name):
    handle = c_uint64()
    FUNCTIONS[function](byref(handle), 0x1000, name)
    TRUTH.kernels[handle.value] = name.decode()
    return handle.value


def launch(where, handle, grid, block, stream):
    call(where, "cuLaunchKernel", 0, handle, *grid, *block, 0, stream, None, None)
    note_launch(where, TRUTH.kernels[handle], "cuLaunchKernel", grid, block, stream, handle)


def py_forward(handle):
    launch("py_forward", handle, [16, 4, 2], [128, 2, 1], STREAM_1)


def py_backward(handle):
    config = Config((c_uint * 3)(3, 2, 1), (c_uint * 3)(96, 1, 1), 0, STREAM_2, None, 0)
    call("py_backward", "cuLaunchKernelEx", 0, byref(config), handle, None, None)
    note_launch("py_backward", TRUTH.kernels[handle], "cuLaunchKernelEx", [3, 2, 1], [96, 1, 1],
                STREAM_2, handle)


class Model:
    def py_step(self, handle):
        launch("Model.py_step", handle, [1, 1, 1], [32, 1, 1], 0)


def launches():
    triton, gemm = look_up("cuModuleGetFunction", TRITON), look_up("cuLibraryGetKernel", GEMM)
    model = Model()
    for i in range(300):
        py_forward(triton)
        if i % 3 == 0:
            py_backward(gemm)
        if i % 5 == 0:
            model.py_step(gemm)


def py_load_batch(size):
    call("py_load_batch", "cuMemcpyHtoDAsync_v2", size, 0x7f0000000000, BUFFER, size, STREAM_1)


def py_read_loss():
    call("py_read_loss", "cuMemcpyDtoH_v2", 4, RECEIVED, 0x7f0000000000, 4)


def py_clear(size):
    call("py_clear", "cuMemsetD8_v2", size, 0x7f0000000000, 1, size)


def copies():
    for i in range(30):
        py_load_batch(5000 + i)
        py_read_loss()
        if i % 3 == 0:
            py_clear(700 + i)


def allocate(where, name, size, *rest):
    va = c_uint64()
    call(where, name, size, byref(va), size, *rest)
    TRUTH.live[va.value] = (where, size)
    TRUTH.allocated[where] += size
    memory = TRUTH.memory
    memory["live_bytes"] += size
    memory["peak_bytes"] = max(memory["peak_bytes"], memory["live_bytes"])
    memory["allocations"] += 1
    return va.value


def release(where, name, va, *rest):
    call(where, name, 0, va, *rest)
    TRUTH.memory["frees"] += 1
    TRUTH.memory["live_bytes"] -= TRUTH.live.pop(va)[1]


def py_weights(size):
    return allocate("py_weights", "cuMemAlloc_v2", size)


def py_activations(size):
    return allocate("py_activations", "cuMemAllocAsync", size, STREAM_1)


def py_drop(va, stream):
    if stream:
        release("py_drop", "cuMemFreeAsync", va, STREAM_1)
    else:
        release("py_drop", "cuMemFree_v2", va)


def memories():
    kept = [py_weights(1000 + i) for i in range(10)]
    for i in range(10):
        py_drop(py_activations(1 << 20), True)
        py_activations(10 + i)
    for va in kept[::2]:
        py_drop(va, False)


def py_segment(size):
    return allocate("py_segment", "cuMemCreate", size, None, 0)


def py_let_go(handle, frees=False):
    if frees:
        release("py_let_go", "cuMemRelease", handle)
    else:
        call("py_let_go", "cuMemRelease", 0, handle)


def mapping(name, *arguments, freed=()):
    """Of memory by handle; allocations that are freed by that."""
    if FUNCTIONS[name](*arguments):
        sys.exit("%s%s failed" % (name, arguments))
    for handle in freed:
        TRUTH.memory["frees"] += 1
        TRUTH.memory["live_bytes"] -= TRUTH.live.pop(handle)[1]


def handles():
    """Mapped memory lives until it is unmapped, with or without other references."""
    size, at, again = 2 << 20, 0x600000000000, c_uint64()
    for i in range(8):
        segment = py_segment(size)
        mapping("cuMemMap", at + i * size, size, 0, segment, 0)
        if i != 5:
            py_let_go(segment)
    mapping("cuMemRetainAllocationHandle", byref(again), at + 1)
    live = list(TRUTH.live)
    mapping("cuMemUnmap", at, 6 * size, freed=live[1:5])
    py_let_go(again.value, frees=True)
    py_let_go(live[5], frees=True)
    py_let_go(py_segment(5 * size), frees=True)
    fake = LIBRARIES[0].fake_cuda_memory_by_handle
    fake.restype = c_uint64
    if fake() != TRUTH.memory["live_bytes"]:
        sys.exit("%d bytes are there, not %d" % (fake(), TRUTH.memory["live_bytes"]))


def py_wait_for_stream():
    call("py_wait_for_stream", "cuStreamSynchronize", 0, STREAM_1)


def py_wait_for_all():
    call("py_wait_for_all", "cuCtxSynchronize", 0)


def syncs():
    for i in range(40):
        LIBRARIES[0].fake_cuda_set_latency_us(4000)
        py_wait_for_stream()
        LIBRARIES[0].fake_cuda_set_latency_us(6000 if i else 50000)
        py_wait_for_all()
    LIBRARIES[0].fake_cuda_set_latency_us(0)


def tensor(where, name, size):
    va = getattr(LIBRARIES[2], name)(c_uint64(size), c_uint64(STREAM_1))
    TRUTH.calls["pytorch:malloc"]["calls"] += 1
    TRUTH.calls["pytorch:malloc"]["bytes"] += size
    TRUTH.where[where]["pytorch:malloc"] += 1
    TRUTH.tensors.note(where, va, size)
    return va


def py_index(size):
    return tensor("py_index", "fake_c10_malloc", size)


def py_activation(size):
    return tensor("py_activation", "fake_c10_malloc_inlined", size)


def tensor_free(where, va):
    LIBRARIES[2].fake_c10_free(c_uint64(va))
    TRUTH.calls["pytorch:free"]["calls"] += 1
    TRUTH.where[where]["pytorch:free"] += 1
    TRUTH.tensors.forget(va)


def py_release(va):
    tensor_free("py_release", va)


def py_hand_back(va):
    tensor_free("py_hand_back", va)


def tensors():
    """Small ones are fewer than stacks are sent a second, and so are frees; large ones are more."""
    TRUTH.semaphores.append(LIBRARIES[2].fake_c10_watched())
    for i in range(20):
        py_release(py_index(100 + i)) if i % 2 else py_index(1000 + i)
    kept = [py_activation((1 << 20) + i) for i in range(150)]
    for va in kept[:80]:
        py_hand_back(va) if va % 1024 else py_release(va)
    py_release(0x4711)
    py_weights(5000)


def busy_tensors():
    """Very many small ones, so that not each has a stack, and now and then a call of the driver."""
    TRUTH.semaphores.append(LIBRARIES[2].fake_c10_watched())
    for i in range(20):
        for _ in range(200):
            py_release(py_index(500))
        py_weights(5000 + i)


def crowd():
    """PyTorch comes when as many Pythons as may be are hooked already."""
    load_tensors(sys.argv[2])
    end = time.monotonic() + 20
    while LIBRARIES[2].fake_c10_watched() != 3 and time.monotonic() < end:
        time.sleep(0.01)
    TRUTH.semaphores.append(LIBRARIES[2].fake_c10_watched())
    for i in range(20):
        py_release(py_index(100 + i))
    py_activation(1 << 20)
    py_weights(5000)


def load_pythons(folder):
    """Maps what has probes of Python's, each of the files there."""
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            MAPPED.append(mmap.mmap(file.fileno(), 0, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC))


def load_tensors(folder):
    LIBRARIES.append(ctypes.CDLL(os.path.join(folder, "libc10_cuda.so")))
    for name in ("fake_c10_malloc", "fake_c10_malloc_inlined"):
        getattr(LIBRARIES[2], name).restype = c_uint64
    TRUTH.semaphores.append(LIBRARIES[2].fake_c10_watched())


def py_before(handle):
    launch("py_before", handle, [8, 1, 1], [64, 1, 1], STREAM_1)


def py_after(handle):
    launch("py_after", handle, [8, 1, 1], [64, 1, 1], STREAM_1)


def py_nameless(handle):
    launch("py_nameless", handle, [5, 1, 1], [64, 1, 1], STREAM_1)


class Modules:
    """In each round some launches of a kernel, then some of another one that is given its handle."""

    def __init__(self):
        self.number, self.handle = 0, None

    def next_kernel(self):
        FUNCTIONS["cuModuleUnload"](0x1000)
        handle = look_up("cuModuleGetFunction", b"kernel_%d" % self.number)
        if handle != self.handle is not None:
            sys.exit("another handle: %x" % handle)
        self.number, self.handle = self.number + 1, handle

    def __call__(self):
        if self.handle is None:
            self.next_kernel()
            TRUTH.kernels[0x4711] = "kernel@0x4711"
        for _ in range(5 + self.number):
            py_before(self.handle)
        for _ in range(3):
            py_nameless(0x4711)
        self.next_kernel()
        for _ in range(7 + self.number):
            py_after(self.handle)


class LostNames(Modules):
    """
    One kernel, then another with its handle that is looked up behind so many others that nobody is told
    its name, and again that one: launches have a name where that can be known.
    """

    def __init__(self):
        super().__init__()
        self.rounds = [self.first, self.unheard, self.heard]

    def __call__(self):
        self.rounds.pop(0)()

    def first(self):
        self.next_kernel()
        TRUTH.kernels[self.handle] = "kernel@0x%x" % self.handle
        for _ in range(5):
            py_before(self.handle)

    def unheard(self):
        for _ in range(100):
            FUNCTIONS["cuModuleGetFunction"](byref(c_uint64()), 0x2000, b"stays")
        self.next_kernel()
        TRUTH.kernels[self.handle] = "kernel@0x%x" % self.handle
        for _ in range(7):
            py_before(self.handle)

    def heard(self):
        self.number -= 1
        self.next_kernel()
        for _ in range(9):
            py_before(self.handle)


class Rounds:
    """Some of what training does, once for each time it is asked; few enough that each has its stack."""

    def __init__(self):
        self.told = Collections()
        self.kept, self.held = [[] for _ in range(200000)], []

    def __call__(self):
        for i in range(10):
            py_release(py_index(100 + i)) if i % 2 else py_index(1000 + i)
        for va in self.held:  # of the round before
            py_hand_back(va)
        self.held = [py_activation((1 << 20) + i) for i in range(6)]
        py_activation(2 << 20)
        py_drop(py_weights(3000), False)
        py_weights(5000)
        py_collect(self.told, 2)
        py_collect(self.told, 0)
        py_tidy(self.told)
        TRUTH.semaphores.append(LIBRARIES[2].fake_c10_watched())

    @staticmethod
    def hoard(count):
        """So many more, all of one size, and none so fast that it could not be told."""
        for i in range(count):
            py_index(500)
            if i % 200 == 199:
                time.sleep(0.02)
        py_weights(7000)


class Garbage:
    """Refers to itself, and alone knows of some memory of the device, which it waits for."""

    def __init__(self, va):
        self.va, self.itself = va, self

    def __del__(self):
        py_wait_for_all()
        py_drop(self.va, False)


class Collections:
    """Python's own report about its collections."""

    def __init__(self):
        self.where, self.begin = "", 0
        gc.disable()
        gc.collect()
        gc.callbacks.append(self.note)

    def note(self, phase, told):
        now = time.monotonic_ns()
        if phase == "start":
            self.begin = now
            return
        row = TRUTH.calls["python:gc__start"]
        row["calls"] += 1
        row["ns"] += now - self.begin
        row["max_ns"] = max(row["max_ns"], now - self.begin)
        TRUTH.where[self.where]["python:gc__start"] += 1
        TRUTH.collected_ns[self.where] += now - self.begin
        TRUTH.generations[told["generation"]] += 1


def py_collect(told, generation):
    told.where = "py_collect"
    gc.collect(generation)


def py_tidy(told):
    """Nothing is to be found."""
    told.where = "py_tidy"
    gc.collect()


def py_train(told):
    """Python decides when."""
    told.where = "py_train"
    gc.enable()
    for _ in range(5000):
        cycle = []
        cycle.append(cycle)
    gc.disable()


def collect_known(where, name, generation):
    begin = time.monotonic_ns()
    getattr(LIBRARIES[2], name)()
    passed = time.monotonic_ns() - begin
    row = TRUTH.calls["python:gc__start"]
    row["calls"] += 1
    row["ns"] += passed
    row["max_ns"] = max(row["max_ns"], passed)
    TRUTH.where[where]["python:gc__start"] += 1
    TRUTH.collected_ns[where] += passed
    TRUTH.generations[generation] += 1


def py_young():
    collect_known("py_young", "fake_python_young", 0)


def py_old():
    collect_known("py_old", "fake_python_old", 2)


def constants():
    """Another's collector, which has a probe for each generation; this Python's own does not run."""
    gc.disable()
    py_weights(1000)
    for i in range(20):
        py_young() if i % 4 else py_old()


def garbage():
    told = Collections()
    kept = [[] for _ in range(400000)]
    LIBRARIES[0].fake_cuda_set_latency_us(2000)
    for i in range(5):
        for k in range(4):
            Garbage(py_weights(1000 + k))
        py_collect(told, 2)
        py_collect(told, i % 2)
        py_tidy(told)
    py_train(told)
    assert len(kept) == 400000


def py_refused():
    def refuse(result, _, arguments):
        if result:
            raise MemoryError(arguments)

    allocate = FUNCTIONS["cuMemAlloc_v2"]
    LIBRARIES[0].fake_cuda_fail_allocations(1)
    allocate.errcheck = refuse
    try:
        allocate(byref(c_uint64()), 4096)
    except MemoryError:
        note = TRUTH.calls["cuMemAlloc_v2"]
        note["calls"] += 1
        note["errors"] += 1
    del allocate.errcheck


def exceptions():
    kernel = look_up("cuModuleGetFunction", TRITON)
    ignored = []
    sys.unraisablehook = ignored.append
    callback = ctypes.CFUNCTYPE(None)(lambda: 1 // 0)
    for _ in range(10):
        py_refused()
        LIBRARIES[0].fake_cuda_set_callback(callback)
        py_wait_for_stream()
        LIBRARIES[0].fake_cuda_set_callback(None)
        py_wait_for_all()
        py_forward(kernel)
        py_weights(1000)
    assert len(ignored) == 10, ignored


def init(rank, size):
    identity, comm = Id(), c_void_p()
    FUNCTIONS["ncclGetUniqueId"](byref(identity))
    FUNCTIONS["ncclCommInitRank"](byref(comm), size, identity, rank)
    number = c_uint64.from_address(comm.value + HASH_AT).value
    TRUTH.communicators[comm.value] = {"comm": hex(comm.value), "hash": hex(number), "rank": rank,
                                       "size": size, "calls": 0, "last": ""}
    return comm.value


def operate(where, name, width, datatype, extra, comm, stream, kernel, *arguments):
    count = next(a for a in arguments if a not in (BUFFER, RECEIVED))
    call(where, name, count * width, *arguments, comm, stream)
    key = {"operation": name, "datatype": datatype, "comm": hex(comm), "stream": hex(stream)}
    noted = TRUTH.collectives[json.dumps(dict(key, **extra))]
    noted[0] += 1
    noted[1] += count * width
    known = TRUTH.communicators[comm]
    known["calls"] += 1
    known["last"] = name
    if kernel:
        note_launch(where, kernel, "cuLaunchKernelEx", [24, 1, 1], [544, 1, 1], stream)


def py_reduce_gradients(comm):
    operate("py_reduce_gradients", "ncclAllReduce", 2, "bfloat16", {"op": "avg"}, comm, STREAM_1,
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL", BUFFER, RECEIVED, 123456, 9, 4)


def py_share_weights(comm):
    operate("py_share_weights", "ncclBroadcast", 8, "float64", {"root": 5}, comm, STREAM_2,
            "ncclDevKernel_Broadcast_RING_LL", BUFFER, RECEIVED, 77, 8, 5)


def py_exchange(comm):
    FUNCTIONS["ncclGroupStart"]()
    operate("py_exchange", "ncclSend", 1, "uint8", {"peer": 6}, comm, STREAM_1, None,
            BUFFER, 4000, 1, 6)
    operate("py_exchange", "ncclRecv", 4, "float32", {"peer": 6}, comm, STREAM_1, None,
            RECEIVED, 2000, 7, 6)
    FUNCTIONS["ncclGroupEnd"]()
    note_launch("py_exchange", "ncclDevKernel_SendRecv", "cuLaunchKernelEx", [24, 1, 1],
                [544, 1, 1], STREAM_1)


def nccl():
    comm = init(4, 16)
    for i in range(40):
        py_reduce_gradients(comm)
        if i % 4 == 0:
            py_share_weights(comm)
            py_exchange(comm)


def py_wait_for_peers(comm):
    FUNCTIONS["ncclAllReduce"](BUFFER, RECEIVED, 250, 7, 0, comm, STREAM_1)


class Last:
    """Refers to itself, and waits for its peers when it is collected."""

    def __init__(self, comm):
        self.comm, self.itself = comm, self

    def __del__(self):
        py_wait_for_peers(self.comm)


def py_collect_last(comm):
    Last(comm)
    gc.collect()


def collected_hang():
    gc.disable()
    hang(py_collect_last)


def hang(wait=py_wait_for_peers):
    launches()
    comm = init(4, 16)
    LIBRARIES[1].fake_nccl_hang(b"ncclAllReduce", 600)
    begin = time.monotonic_ns()
    thread = threading.Thread(target=wait, args=(comm,), daemon=True)
    thread.start()
    while not LIBRARIES[1].fake_nccl_hanging():
        time.sleep(0.001)
    TRUTH.open = [{"tid": thread.native_id, "function": "ncclAllReduce", "begin_ns": begin,
                   "stream": hex(STREAM_1), "comm": hex(comm), "bytes": 1000,
                   "shown": " (1.0 kB float32 sum, communicator %s: rank 4 of 16, stream %s)" % (
                       hex(comm), hex(STREAM_1)),
                   "where": "py_wait_for_peers"}]


def py_poll_device():
    FUNCTIONS["cuStreamSynchronize"](STREAM_1)


def dozing():
    """Calls that have not returned, of threads that run now and then."""
    LIBRARIES[0].fake_cuda_set_latency_us(600000000)
    LIBRARIES[0].fake_cuda_spin(2)
    for _ in range(DOZERS):
        threading.Thread(target=py_poll_device, daemon=True).start()
    while LIBRARIES[0].fake_cuda_waiting() < DOZERS:
        time.sleep(0.001)


def polling():
    LIBRARIES[0].fake_cuda_set_latency_us(600000000)
    LIBRARIES[0].fake_cuda_spin(1)
    thread = threading.Thread(target=py_poll_device, daemon=True)
    thread.start()
    while not LIBRARIES[0].fake_cuda_waiting():
        time.sleep(0.001)
    TRUTH.open = [{"tid": thread.native_id, "function": "cuStreamSynchronize",
                   "begin_ns": time.monotonic_ns(), "where": "py_poll_device"}]


def polling_native():
    """The same in a thread without Python, beside one that runs some."""
    LIBRARIES[0].fake_cuda_set_latency_us(600000000)
    LIBRARIES[0].fake_cuda_spin(1)
    tid = LIBRARIES[2].fake_c10_poll(ctypes.cast(FUNCTIONS["cuStreamSynchronize"], ctypes.c_void_p),
                                     c_uint64(STREAM_1))
    while not LIBRARIES[0].fake_cuda_waiting():
        time.sleep(0.001)
    threading.Thread(target=py_compute, daemon=True).start()
    TRUTH.open = [{"tid": tid, "thread": "native-0", "function": "cuStreamSynchronize",
                   "begin_ns": time.monotonic_ns(), "where": "native_poll"}]


def py_compute():
    while True:
        sum(range(1000))


def main():
    signal.alarm(300)
    if os.environ.get("TARGET_NONDUMPABLE") == "1":
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
    scenario = {"launches": launches, "copies": copies, "memory": memories, "handles": handles, "sync": syncs,
                "nccl": nccl, "hang": hang, "polling": polling, "polling_native": polling_native, "dozing": dozing,
                "exceptions": exceptions,
                "tensors": tensors, "busy_tensors": busy_tensors, "garbage": garbage,
                "collected_hang": collected_hang, "crowd": crowd, "constants": constants, "rounds": Rounds, "modules": Modules(),
                "lost_names": LostNames()}[sys.argv[1]]
    if scenario is Rounds:  # its first collection is before any call of CUDA
        scenario = Rounds()
    load(sys.argv[2])
    if scenario in (tensors, busy_tensors, polling_native) or isinstance(scenario, Rounds):
        load_tensors(sys.argv[2])
    if scenario is crowd:
        load_pythons(os.environ["GPU_CALLS_PYTHONS"])
    if scenario is constants:
        LIBRARIES.append(ctypes.CDLL(os.path.join(sys.argv[2], "libgc_probes.so")))
    print("ready", flush=True)
    sys.stdin.readline()
    scenario()
    write_made()
    print(TRUTH.json(), flush=True)
    for line in sys.stdin:
        if line == "exit\n":
            break
        if line == "round\n":
            scenario()
            print(TRUTH.json(), flush=True)
        if line.startswith("hoard "):
            scenario.hoard(int(line.split()[1]))
            print(TRUTH.json(), flush=True)
        if line == "watched\n":
            print(LIBRARIES[2].fake_c10_watched(), flush=True)
        if line == "again\n":
            if scenario is garbage:
                told = Collections()
                py_weights(1)
                py_collect(told, 2)
            else:
                py_activation(1 << 20)
            print("done", flush=True)
    os._exit(0)


main()
