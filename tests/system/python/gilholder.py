# SPDX-License-Identifier: Apache-2.0
"""A thread that sleeps with the GIL held, others that wait for it. gilholder.py FILE"""

import ctypes
import json
import os
import sys
import threading
import time

LIBC = ctypes.PyDLL(None)


def hold():
    time.sleep(0.5)
    with open(sys.argv[1] + ".part", "w", encoding="ascii") as file:
        json.dump({"holder": threading.get_native_id()}, file)
    os.rename(sys.argv[1] + ".part", sys.argv[1])
    LIBC.sleep(1000)


def wait():
    while True:
        time.sleep(0.01)


for number in range(4):
    threading.Thread(target=wait, name="waiter-%d" % number, daemon=True).start()
threading.Thread(target=hold, name="the holder", daemon=True).start()
time.sleep(1000)
