# SPDX-License-Identifier: Apache-2.0
"""A parent of two that sleep. family.py [child]"""

import subprocess
import sys
import time


def in_child():
    time.sleep(1000)


def in_parent():
    children = [subprocess.Popen([sys.executable, __file__, "child"]) for _ in range(2)]
    time.sleep(1000)
    return children


if len(sys.argv) > 1:
    in_child()
else:
    in_parent()
