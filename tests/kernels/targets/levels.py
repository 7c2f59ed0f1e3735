# SPDX-License-Identifier: Apache-2.0
"""Computes for ever with a stack that is known: <module>, outer, (sorted), key, inner."""


def inner(n):
    total = 0
    for i in range(n):
        total += i & 7
    return total


def key(n):
    return inner(n)


def outer():
    while True:
        sorted((20000,), key=key)

print("busy", flush=True)
outer()
