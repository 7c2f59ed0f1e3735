# SPDX-License-Identifier: Apache-2.0
"""
What a Ray worker looks like from outside, in Python: writes its title over its own arguments and
names its main thread by it, then by something else. argv: seconds, and room for the title.
"""

import ctypes
import os
import sys
import time

PR_SET_NAME = 15
ARG_START = 48  # field of /proc/PID/stat, proc(5)
FIRST_BEHIND_NAME = 3
LIBC = ctypes.CDLL(None)


def argument_area():
    with open("/proc/self/stat", encoding="latin-1") as file:
        fields = file.read().rpartition(")")[2].split()
    start, end = (int(fields[i - FIRST_BEHIND_NAME]) for i in (ARG_START, ARG_START + 1))
    return start, end - start


def title_set(area, title):
    data = title.encode()[:area[1] - 1]
    ctypes.memmove(area[0], data.ljust(area[1], b"\0"), area[1])
    LIBC.prctl(PR_SET_NAME, ctypes.c_char_p(data), 0, 0, 0)


def fit(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))


def evaluate(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        sum(range(1000))


def main():
    area = argument_area()
    end = time.monotonic() + float(sys.argv[1])
    if os.environ.get("TARGET_NONDUMPABLE"):
        LIBC.prctl(4, 0, 0, 0, 0)
    while time.monotonic() < end:
        title_set(area, "ray::Trainer.fit")
        LIBC.prctl(PR_SET_NAME, b"pt_main_thread", 0, 0, 0)
        fit(0.06)
        title_set(area, "ray::Trainer.evaluate")
        LIBC.prctl(PR_SET_NAME, b"pt_main_thread", 0, 0, 0)
        evaluate(0.03)


main()
