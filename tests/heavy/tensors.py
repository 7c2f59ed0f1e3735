# SPDX-License-Identifier: Apache-2.0
"""A torch process that says what it did. argv: addresses of words in libc10_cuda.so.

Says "ready", then answers each line: "look" by its libraries and the values of these words, "work" by the allocations and
launches that torch and a preloaded fake_device.c have counted, "history" by torch's own history of the memory that the
process then allocates and frees.
"""

import ctypes
import json
import os
import sys

import torch

COUNTS = {"allocations": "allocation.all.allocated", "frees": "allocation.all.freed",
          "live_bytes": "allocated_bytes.all.current"}
SIZES = [512, 4096, 1 << 20, 3 << 20, 40 << 20]
DEVICE = ctypes.CDLL(None)
HELD = []


def words():
    with open("/proc/self/maps", encoding="utf-8") as file:
        base = next(int(line.split("-")[0], 16) for line in file if line.rstrip().endswith("/libc10_cuda.so"))
    return [ctypes.c_ushort.from_address(base + int(va, 0)).value for va in sys.argv[1:]]


def look():
    with open("/proc/self/maps", encoding="utf-8") as file:
        files = {os.path.basename(line.split()[-1]) for line in file if "/" in line}
    return {"pid": os.getpid(), "available": torch.cuda.is_available(), "words": words(),
            "files": sorted(name for name in files if ".so" in name)}


def launches():
    DEVICE.fake_device_name.restype = ctypes.c_char_p
    counts = {}
    for i in range(DEVICE.fake_device_kernels()):
        if DEVICE.fake_device_launches(i):
            counts[DEVICE.fake_device_name(i).decode()] = DEVICE.fake_device_launches(i)
    return counts


def weights():
    HELD.extend(torch.empty(size, dtype=torch.uint8, device="cuda") for size in SIZES)


def activations(times):
    x = torch.empty(64, 128, device="cuda")
    for _ in range(times):
        y = torch.sigmoid(x + x)
        torch.nn.functional.layer_norm(y, (128,))
        torch.softmax(y, 1).sum()
        x.fill_(1)


def grown(after, before):
    return {name: count - before.get(name, 0) for name, count in after.items() if count != before.get(name, 0)}


def memory():
    stats = torch.cuda.memory_stats()
    return {name: stats[key] for name, key in COUNTS.items()}


def work():
    torch.cuda.reset_peak_memory_stats()
    before, launched = memory(), launches()
    weights()
    activations(5)
    peak = torch.cuda.max_memory_allocated() - before["live_bytes"]
    after = memory()
    del HELD[0]  # from before anybody looked
    done = {name: after[name] - before[name] for name in COUNTS}
    done["frees"] += 1
    return {"pid": os.getpid(), "memory": dict(done, peak_bytes=peak, unknown_frees=1), "sizes": sum(SIZES),
            "launches": grown(launches(), launched)}


def forward():
    """Of a net whose layers keep some, while others pass by."""
    kept = []
    for i in range(1, 40):
        kept.append(torch.empty(1000 * i, device="cuda"))
        torch.empty(300000 * i, device="cuda")
        if i % 3 == 0:
            del kept[i % 2]
    return kept


def history():
    torch.cuda.memory._record_memory_history(stacks="python")
    weights()
    kept = forward()
    with torch.cuda.stream(torch.cuda.Stream()):
        HELD.append(torch.empty(5 << 20, dtype=torch.uint8, device="cuda"))
        beside = forward()
    del kept[5:], beside[:9], HELD[-2:-1]
    torch.cuda.empty_cache()
    activations(1)
    snapshot = torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    HELD.append((kept, beside))
    return {name: snapshot[name] for name in ("segments", "device_traces")}


def main():
    if torch.cuda.is_available():
        HELD.append(torch.empty(8192, dtype=torch.uint8, device="cuda"))
        activations(1)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps({"look": look, "work": work, "history": history}[line.strip()]()), flush=True)
    os._exit(0)


main()
