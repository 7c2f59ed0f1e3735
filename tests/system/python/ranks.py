# SPDX-License-Identifier: Apache-2.0
"""A distributed job as torchrun starts it: a launcher, and one process per rank with variables of its own.

ranks.py SECONDS SHARE... : rank N is busy SHARE percent of the time.
ranks.py SECONDS : one rank. Nobody but root may look into any of them.
"""

import ctypes
import os
import subprocess
import sys
import time

PR_SET_DUMPABLE = 4


def train(seconds, share):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        until = time.monotonic() + 0.05
        while time.monotonic() - until + 0.05 < 0.05 * share:
            pass
        time.sleep(max(0, until - time.monotonic()))


def loader(seconds):
    """A child that only forks: its rank is its parent's."""
    if not os.fork():
        train(seconds, 0.2)
        os._exit(0)


def main():
    ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    seconds, shares = float(sys.argv[1]), sys.argv[2:]
    if "RANK" in os.environ:
        loader(seconds)
        train(seconds, float(os.environ["SHARE"]) / 100)
        return
    ranks = [subprocess.Popen([sys.executable, __file__, sys.argv[1]],
                              env=dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank),
                                       WORLD_SIZE=str(len(shares)), SHARE=share))
             for rank, share in enumerate(shares)]
    print("started", *(rank.pid for rank in ranks), flush=True)
    for rank in ranks:
        rank.wait()


main()
