# SPDX-License-Identifier: Apache-2.0
"""Holds memory in functions that know how much; see holds.c."""
import os
import sys

KEPT = []


def rss_anon():
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("RssAnon")) * 1024


def arrays(mib):
    held = []
    for _ in range(mib):
        held.append(bytearray(b"x") * (1 << 20))
    KEPT.append(held)


def strings(mib):
    held = []
    for i in range(mib * 1800):
        held.append("%0500d" % i)
    KEPT.append(held)


def dicts(mib):
    held = []
    for i in range(mib * 3500):
        held.append({i: i})
    KEPT.append(held)


def gone(mib):
    for _ in range(mib // 32):
        bytearray(b"x") * (32 << 20)


def main():
    print(os.getpid(), "ready", 0, flush=True)
    for line in sys.stdin:
        name, mib = line.split()
        before = rss_anon()
        globals()[name](int(mib))
        print(os.getpid(), name, rss_anon() - before, flush=True)


main()
