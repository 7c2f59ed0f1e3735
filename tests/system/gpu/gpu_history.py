# SPDX-License-Identifier: Apache-2.0
"""Takes memory of the device and gives it back, and says what it did, in the words of PyTorch's memory viewer.

argv: scenario, folder of the fakes. Says "ready", waits for a line, and prints as JSON its events, each with
the function that took or gave, and the segments that are left: address to size, function and blocks.
"""

import ctypes
import json
import os
import random
import sys
import time
from ctypes import byref, c_int, c_uint64

MIB = 1 << 20
STREAM = 0x7e0000001000
RESERVED = 0x600000000000
EVENTS = []
GROWN = {}  # address to the event of a segment, whose stream is that of the first tensor in it
SEGMENTS = {}  # address to [size, where, {address of a block: [size, where, ...]}]
CUDA, TORCH = (ctypes.CDLL(os.path.join(sys.argv[2], name)) for name in ("libcuda.so.1", "libc10_cuda.so"))
TORCH.fake_c10_malloc.restype = TORCH.fake_c10_malloc_inlined.restype = c_uint64
DEVICE = [None]  # that calls name from now on; else they name none
RANDOM = random.Random(int(os.environ.get("SEED", "1")))


def cuda(name, *arguments):
    result = getattr(CUDA, name)(*[c_uint64(one) if isinstance(one, int) else one for one in arguments])
    if result:
        sys.exit("%s%s: %d" % (name, arguments, result))


def note(action, va, size, where, stream=0):
    EVENTS.append({"action": action, "addr": va, "size": size, "stream": stream, "where": where,
                   "time_ns": time.time_ns(), "device": DEVICE[0]})
    return EVENTS[-1]


def note_free(va, size, where, stream=0):
    note("free_requested", va, size, where, stream)
    note("free_completed", va, size, where, stream)


def py_grow(size):
    va = c_uint64()
    cuda("cuMemAlloc_v2", byref(va), size)
    GROWN[va.value] = note("segment_alloc", va.value, size, "py_grow")
    SEGMENTS[va.value] = [size, "py_grow", {}]
    return va.value


def py_shrink(va):
    cuda("cuMemFree_v2", va)
    note("segment_free", va, SEGMENTS.pop(va)[0], "py_shrink", GROWN.pop(va)["stream"])


def py_buffer(size, stream=0):
    """Memory of a program that divides nothing: one block."""
    va = c_uint64()
    if stream:
        cuda("cuMemAllocAsync", byref(va), size, stream)
    else:
        cuda("cuMemAlloc_v2", byref(va), size)
    note("segment_alloc", va.value, size, "py_buffer", stream)
    note("alloc", va.value, size, "py_buffer", stream)
    SEGMENTS[va.value] = [size, "py_buffer", {va.value: [size, "py_buffer"]}]
    return va.value, stream


def py_unbuffer(va, stream):
    if stream:
        cuda("cuMemFreeAsync", va, stream)
    else:
        cuda("cuMemFree_v2", va)
    size = SEGMENTS.pop(va)[0]
    note_free(va, size, "py_unbuffer", stream)
    note("segment_free", va, size, "py_unbuffer", stream)


def blocks_at(va):
    return next(blocks for base, (size, _, blocks) in SEGMENTS.items() if base <= va < base + size)


def py_tensor(va, size):
    TORCH.fake_c10_place(c_uint64(va))
    stream = RANDOM.choice((0, STREAM))
    RANDOM.choice((TORCH.fake_c10_malloc, TORCH.fake_c10_malloc_inlined))(c_uint64(size), c_uint64(stream))
    note("alloc", va, size, "py_tensor", stream)
    for base, event in GROWN.items():
        if base < va + size and va < base + event["size"] and "tensor" not in event:
            event.update(stream=stream, tensor=va)
    blocks_at(va)[va] = [size, "py_tensor", stream]


def py_drop(va):
    TORCH.fake_c10_free(c_uint64(va))
    size, _, stream = blocks_at(va).pop(va)
    note_free(va, size, "py_drop", stream)


def driver():
    """A program without PyTorch. The driver gives each address again to memory with as many pages."""
    CUDA.fake_cuda_reuse(1)
    held = []
    for _ in range(120):
        if held and RANDOM.random() < 0.45:
            py_unbuffer(*held.pop(RANDOM.randrange(len(held))))
        else:
            held.append(py_buffer(RANDOM.randrange(1, 2 * MIB), RANDOM.choice((0, STREAM))))


def fill(base, size):
    """Tensors until the segment is full."""
    at = base
    while at < base + size:
        bytes_ = min(512 * RANDOM.randrange(1, 9000), base + size - at)
        py_tensor(at, bytes_)
        at += bytes_


def caching():
    """As PyTorch does: segments are divided, become free, are divided anew, and are given back."""
    py_buffer(3 * MIB)
    for round_ in range(4):
        for size in (2 * MIB, 20 * MIB, 44 * MIB):
            fill(py_grow(size), size)
        for base, (_, where, blocks) in list(SEGMENTS.items()):
            if where == "py_buffer":
                continue
            for va in [va for va in blocks if RANDOM.random() < 0.6 or round_ == 2]:
                py_drop(va)
            if round_ == 2 and where == "py_grow" and RANDOM.random() < 0.6:
                py_shrink(base)
    for base, (size, _, blocks) in list(SEGMENTS.items()):
        if not blocks:
            fill(base, size // 2)
            break


def earlier(bases):
    """In segments from before the start, far from each other; and then as any other program."""
    for base in bases:
        SEGMENTS[base][1] = ""
        for i in range(0, 20, 2):
            py_tensor(base + i * MIB, 300000 + i)
        for i in range(0, 20, 4):
            py_drop(base + i * MIB)
    caching()


def py_use(device):
    DEVICE[0] = device
    TORCH.fake_c10_device(device)


def py_map(va, size):
    handle = c_uint64()
    properties = (c_int * 8)(1, 0, 1, DEVICE[0]) if DEVICE[0] is not None else None
    cuda("cuMemCreate", byref(handle), size, properties, 0)
    cuda("cuMemMap", va, size, 0, handle.value, 0)
    cuda("cuMemRelease", handle.value)
    GROWN[va] = note("segment_map", va, size, "py_map")


def py_unmap(va, size):
    cuda("cuMemUnmap", va, size)
    note("segment_unmap", va, size, "", GROWN.pop(va)["stream"])


def expandable():
    """A segment that grows and shrinks, with tensors that lie in more than one of its parts."""
    for i in range(6):
        py_map(RESERVED + 20 * i * MIB, 20 * MIB)
    SEGMENTS[RESERVED] = [120 * MIB, "py_map", {}]
    py_tensor(RESERVED, 50 * MIB)
    py_tensor(RESERVED + 50 * MIB, 30 * MIB)
    py_tensor(RESERVED + 90 * MIB, 25 * MIB)
    py_drop(RESERVED + 90 * MIB)
    py_drop(RESERVED + 50 * MIB)
    for i in (4, 5, 3):
        py_unmap(RESERVED + 20 * i * MIB, 20 * MIB)
    SEGMENTS[RESERVED][0] = 60 * MIB


def busy():
    """More than is kept: short lives beside one that stays."""
    base = py_grow(20 * MIB)
    py_tensor(base + MIB, 2 * MIB)
    TORCH.fake_c10_churn(c_uint64(base), c_uint64(512), int(os.environ["ROUNDS"]))
    py_tensor(base + 5 * MIB, 2 * MIB)


def devices():
    """Two devices in one address space, in turn: segments with tensors, memory by handle, and memory of neither."""
    bases = []
    for device in (1, 0):
        py_use(device)
        bases.append(py_grow(20 * MIB))
        py_tensor(bases[-1], 2 * MIB + 512 * device)
    for i, device in enumerate((1, 0, 1)):
        py_use(device)
        py_map(RESERVED + 20 * i * MIB, 20 * MIB)
        SEGMENTS[RESERVED + 20 * i * MIB] = [20 * MIB, "py_map", {}]
    for i in range(10):
        device = RANDOM.choice((0, 1))
        py_use(device)
        py_tensor(bases[1 - device] + (3 + i) * MIB, 300000 + i)
        if i % 2:
            py_drop(bases[1 - device] + (3 + i) * MIB)
    py_use(1)
    py_drop(bases[0])
    py_shrink(bases[0]) if not blocks_at(bases[0]) else None
    DEVICE[0] = None
    py_unbuffer(*py_buffer(4 * MIB))
    py_buffer(3 * MIB)


def phases():
    """Takes memory and gives it back, with pauses: what is held in each is known."""
    time.sleep(0.6)
    first = py_buffer(64 * MIB)
    time.sleep(0.6)
    py_unbuffer(*first)
    base = py_grow(96 * MIB)
    py_tensor(base, 40 * MIB)
    time.sleep(0.6)
    py_map(RESERVED, 32 * MIB)
    SEGMENTS[RESERVED] = [32 * MIB, "py_map", {}]
    py_tensor(base + 40 * MIB, 24 * MIB)
    py_buffer(128 * MIB)
    time.sleep(0.6)
    py_drop(base)
    time.sleep(0.6)


def wild():
    """What no device has."""
    for va, size in ((1 << 63, 1 << 20), ((1 << 64) - 4096, 8192), (0x7f6000000000, (1 << 64) - 1),
                     (0x7f7000000000, 0), ((1 << 53) - 1, 2)):
        TORCH.fake_c10_place(c_uint64(va))
        TORCH.fake_c10_malloc(c_uint64(size), c_uint64(STREAM))
    py_buffer(4096)


def main():
    scenario, arguments = sys.argv[1], ()
    if scenario == "earlier":
        bases = [py_grow(20 * MIB) for _ in range(3)]
        del SEGMENTS[bases[1]]
        arguments = (bases[::2],)
        EVENTS.clear()
    print("ready", flush=True)
    sys.stdin.readline()
    globals()[scenario](*arguments)
    print(json.dumps({"pid": os.getpid(), "events": EVENTS, "segments": SEGMENTS}), flush=True)
    sys.stdin.readline()


main()
