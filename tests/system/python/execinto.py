# SPDX-License-Identifier: Apache-2.0
"""A process that becomes another one: Python, a shell, Python again."""
import json
import os
import sys

import truth

N = truth.size(300)
STAGE = int(os.environ.get("TRUTH_STAGE", "0"))


def spin(count):
    x = 1
    for i in range(count):
        x = (x * 3 + i) & 0xffff
    return x


def last_stage():
    return spin(N)


if STAGE < 2:
    for _ in range(20):
        spin(1000)
    argv = json.loads(os.environ["TRUTH_ARGV"]) + [os.path.abspath(__file__)]
    os.environ["TRUTH_STAGE"] = str(STAGE + 1)
    if STAGE == 0:
        os.execv(argv[0], argv)
    os.execv("/bin/sh", ["sh", "-c", 'exec "$@"', "sh", *argv])
truth.run(last_stage)
sys.exit(0)
