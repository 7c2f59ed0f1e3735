# SPDX-License-Identifier: Apache-2.0
"""gpu_gaps.py SCENARIO FOLDER: what a program does while its device has nothing to do, and for how long.

Talked to as gpu_calls.cpp is; each further line but "exit" lets it do the same again. It notes how long
each function took in gaps, and how much of that on a CPU.
"""

import ctypes
import json
import os
import queue
import random
import signal
import sys
import threading
import time

LIBRARIES = []
PARTS = {}
GAPS = {"gaps": 0, "ns": [0, 0], "copy_ns": [0, 0]}
STREAM = 0x7e0000001000


def cuda(name, *arguments):
    result = getattr(LIBRARIES[0], name)(*arguments)
    if result:
        sys.exit("%s: %d" % (name, result))


def note(where, wall, cpu):
    part = PARTS.setdefault(where, {"ns": 0, "cpu_ns": 0})
    part["ns"] += time.monotonic_ns() - wall
    part["cpu_ns"] += time.thread_time_ns() - cpu


def load_batch(milliseconds):
    wall, cpu = time.monotonic_ns(), time.thread_time_ns()
    while time.monotonic_ns() < wall + milliseconds * 1e6:
        pass
    note("load_batch", wall, cpu)


def augment(milliseconds):
    wall, cpu = time.monotonic_ns(), time.thread_time_ns()
    while time.monotonic_ns() < wall + milliseconds * 1e6:
        pass
    note("augment", wall, cpu)


def decode(milliseconds):
    """Of another thread."""
    wall, cpu = time.monotonic_ns(), time.thread_time_ns()
    while time.monotonic_ns() < wall + milliseconds * 1e6:
        pass
    note("decode", wall, cpu)


def next_batch(batches):
    wall, cpu = time.monotonic_ns(), time.thread_time_ns()
    batches.get()
    note("next_batch", wall, cpu)


def copy_batch(milliseconds, polls):
    """While it waits it polls or sleeps, as the driver may."""
    LIBRARIES[0].fake_cuda_set_latency_us(milliseconds * 1000)
    LIBRARIES[0].fake_cuda_spin(polls)
    begin = time.monotonic_ns()
    cuda("cuMemcpyHtoD_v2", ctypes.c_uint64(0x7f0000000000), ctypes.c_void_p(0x7f1000000000),
         ctypes.c_size_t(1 << 20))
    end = time.monotonic_ns()
    LIBRARIES[0].fake_cuda_set_latency_us(0)
    LIBRARIES[0].fake_cuda_spin(0)
    return [milliseconds * 1000000, end - begin]


def train_step():
    cuda("cuLaunchKernel", ctypes.c_uint64(0x4711), 1, 1, 1, 32, 1, 1, 0, ctypes.c_uint64(STREAM),
         None, None)


class Gap:
    """From the end of a synchronization to the next launch."""

    def __enter__(self):
        self.copied = [0, 0]
        self.least = time.monotonic_ns()
        cuda("cuCtxSynchronize")
        self.most = time.monotonic_ns()
        return self

    def __exit__(self, *_):
        end = time.monotonic_ns()
        train_step()
        bounds = (end - self.most - self.copied[1], time.monotonic_ns() - self.least - self.copied[0])
        GAPS["gaps"] += 1
        GAPS["ns"] = [a + b for a, b in zip(GAPS["ns"], bounds)]
        GAPS["copy_ns"] = [a + b for a, b in zip(GAPS["copy_ns"], self.copied)]


def long():
    """60 % in one function, 40 % in another."""
    for _ in range(12):
        with Gap():
            load_batch(150)
            augment(100)


def short():
    """The same, but few of these gaps have a sample at all; not in step with the clock, whose period is 10.1 ms."""
    for _ in range(300):
        with Gap():
            load_batch(random.uniform(2, 10))
            augment(random.uniform(2, 6))


def copies(polls=1):
    for _ in range(6):
        with Gap() as gap:
            load_batch(150)
            gap.copied = copy_batch(150, polls)


def copies_asleep():
    copies(0)


def threads():
    """Another thread loads while the one that launches waits for it."""
    wanted, batches = queue.Queue(), queue.Queue()

    def loader():
        while wanted.get():
            decode(250)
            batches.put(1)

    thread = threading.Thread(target=loader)
    thread.start()
    for _ in range(10):
        with Gap():
            wanted.put(1)
            next_batch(batches)
    wanted.put(0)
    thread.join()


def asleep():
    """Other processes load, and no thread of this process does anything."""
    to_loader, from_trainer = os.pipe()
    from_loader, to_trainer = os.pipe()
    if not os.fork():
        signal.alarm(300)
        os.close(from_trainer)
        while os.read(to_loader, 1):
            time.sleep(0.25)
            os.write(to_trainer, b"x")
        os._exit(0)

    class Batches:
        def get(self):
            os.write(from_trainer, b"x")
            return os.read(from_loader, 1)

    for _ in range(10):
        with Gap():
            next_batch(Batches())
    os.close(from_trainer)


class Nap:
    @staticmethod
    def get():
        time.sleep(0.05)


def deep(depth=1900):
    """Sleeps in stacks that take so long to read that there is no time for all of them."""
    sys.setrecursionlimit(4000)
    if depth:
        return deep(depth - 1)
    for _ in range(60):
        with Gap():
            next_batch(Nap)
    return None


def open_gap():
    """A gap that is not over: a line ends it."""
    with Gap():
        load_batch(1500)
        print(json.dumps({"pid": os.getpid()}), flush=True)
        sys.stdin.readline()
        load_batch(100)


def main():
    signal.alarm(300)
    LIBRARIES.append(ctypes.CDLL(os.path.join(sys.argv[2], "libcuda.so.1")))
    scenario = {"long": long, "short": short, "copies": copies, "copies_asleep": copies_asleep, "threads": threads,
                "asleep": asleep, "deep": deep, "open": open_gap}[sys.argv[1]]
    LIBRARIES[0].fake_cuda_set_work_us(0)
    print("ready", flush=True)
    for line in sys.stdin:
        if line == "exit\n":
            break
        train_step()  # there has been something to wait for
        scenario()
        print(json.dumps({"pid": os.getpid(), "parts": PARTS, **GAPS}), flush=True)
    os._exit(0)


main()
