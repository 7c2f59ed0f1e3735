# SPDX-License-Identifier: Apache-2.0
"""Sleeps for ever with a stack that is known: <module>, outer, (sorted), key."""

import time


def key(seconds):
    return time.sleep(seconds)


def outer():
    sorted((100000,), key=key)


outer()
