# SPDX-License-Identifier: Apache-2.0
"""Characters of targets that must not reach a terminal or a log, and names that hold them."""

import re

from harness import check

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
WELL = "bpfprof: all is well"


def check_terminal(what, *streams):
    """That is UTF-8 without controls, and no line of it is a target's."""
    for stream in streams:
        found = CONTROL.search(stream.decode("utf-8"))
        check(not found, "%s: a control character on the terminal: %r in %r" % (what, found, stream[-2000:]))
        check(WELL not in [line[:len(WELL)] for line in stream.decode().splitlines()],
              "%s: a line of a target: %r" % (what, stream[-2000:]))


def evil_names():
    return [b"lib\x1b]0;owned\x07\x1b[31mpython.so", b"lib\n%s: python.so" % WELL.encode(), b"lib\x9b31m\x85\xff.so",
            "lib\u009b31m\u202e\u2028.so".encode()]
