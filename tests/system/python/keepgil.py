# SPDX-License-Identifier: Apache-2.0
"""Threads and the GIL. keepgil.py MODE SECONDS

keep   the main thread computes without letting it go, two others want it every few milliseconds
alone  the same main thread, and nobody else
share  four threads that all compute in Python
"""

import ctypes
import sys
import threading
import time

LIBC = ctypes.PyDLL(None)  # calls of it keep the GIL
SECONDS = float(sys.argv[2])


def keep(seconds):
    """A C function that knows nothing of threads, for half a second at a time."""
    end = time.monotonic() + seconds
    data = ctypes.create_string_buffer(b"x" * 20_000_000)
    while time.monotonic() < end:
        LIBC.strlen(data)


def want(end):
    while time.monotonic() < end:
        time.sleep(0.001)
        sum(range(10))


def compute(end):
    while time.monotonic() < end:
        sum(range(1000))


def main():
    end = time.monotonic() + SECONDS
    work, nr = {"keep": (want, 2), "alone": (None, 0), "share": (compute, 3)}[sys.argv[1]]
    for _ in range(nr):
        threading.Thread(target=work, args=(end,), daemon=True).start()
    if sys.argv[1] == "share":
        compute(end)
    else:
        keep(SECONDS)


main()
