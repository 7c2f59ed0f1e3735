# SPDX-License-Identifier: Apache-2.0
"""C code that runs without the GIL, a thread that is not Python's, and one that calls Python."""
import _thread
import ctypes
import os
import sys

import truth

LIBRARY = ctypes.CDLL(os.environ["TRUTH_LIBRARY"])
LIBRARY.busy_for.argtypes = [ctypes.c_double]
LIBRARY.busy_for.restype = None
LIBRARY.busy_start.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_double]
N = truth.size(300)


def spin(count):
    x = 1
    for i in range(count):
        x = (x * 3 + i) & 0xffff
    return x


def on_native_thread():
    truth.watch(sys._getframe())
    state = [3]
    while truth.more(state):
        spin(N)
    truth.unwatch()
    FINISHED.append(1)


CALLBACK = ctypes.CFUNCTYPE(None)(on_native_thread)
FINISHED = []


def work():
    LIBRARY.busy_for(0.002)
    spin(N)


truth.root("on_native_thread")
truth.native("busy_spin|busy_for")
truth.begin()
if truth.DESCRIBING:
    _thread.start_new_thread(on_native_thread, ())
    while not FINISHED:  # the callback alone is to be described
        pass
else:
    LIBRARY.busy_start(0, None, truth.SECONDS / 3)
    LIBRARY.busy_start(1, ctypes.cast(CALLBACK, ctypes.c_void_p), 0)
truth.loop(work)
if not truth.DESCRIBING:
    LIBRARY.busy_join(0)
    LIBRARY.busy_join(1)
truth.finish()
