# SPDX-License-Identifier: Apache-2.0
"""Workers made by fork() that never exec: by multiprocessing, and by hand."""
import multiprocessing
import os

import truth

N = truth.size(300)


def spin(count):
    x = 1
    for i in range(count):
        x = (x * 3 + i) & 0xffff
    return x


def in_worker():
    return spin(
        N)


def by_hand():
    return spin(N) + 1


def parent():
    return spin(N) + 2


def start(work):
    truth.forked()
    truth.begin()
    truth.loop(work)
    truth.finish()


def main():
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=start, args=(in_worker,)) for _ in range(2)]
    truth.begin()
    for worker in workers:
        worker.start()
    child = os.fork()
    if not child:
        start(by_hand)
        os._exit(0)
    truth.loop(parent)
    for worker in workers:
        worker.join()
    os.waitpid(child, 0)
    truth.finish()


truth.direct("spin", "in_worker", "by_hand", "parent")
main()
