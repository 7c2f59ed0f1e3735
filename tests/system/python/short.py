# SPDX-License-Identifier: Apache-2.0
"""Processes that live for about 100 ms, one after the other."""
import json
import os
import subprocess
import sys

import truth

N = truth.size(300)


def spin(count):
    x = 1
    for i in range(count):
        x = (x * 3 + i) & 0xffff
    return x


def brief():
    return spin(N)


def parent():
    argv = json.loads(os.environ["TRUTH_ARGV"]) + [os.path.abspath(__file__)]
    for _ in range(1 if truth.DESCRIBING else 8):
        subprocess.check_call(argv, env=dict(os.environ, TRUTH_CHILD="1", TRUTH_SECONDS="0.06"))


if os.environ.get("TRUTH_CHILD"):
    truth.run(brief)
else:
    parent()
sys.exit(0)
