# SPDX-License-Identifier: Apache-2.0
"""async_many.py FILE NUMBER: NUMBER tasks that sleep, one that computes, and a consumer that has nothing to do.

FILE gets the rounds that were computed so far, again and again.
"""

import asyncio
import os
import sys


async def sleeps():
    await naps()


async def naps():
    await asyncio.sleep(100000)


async def consumes(queue):
    while True:
        await queue.get()


async def main(path, number):
    tasks = [asyncio.get_running_loop().create_task(sleeps()) for _ in range(number)]
    tasks.append(asyncio.get_running_loop().create_task(consumes(asyncio.Queue())))
    rounds = 0
    while tasks:
        sum(range(100000))
        rounds += 1
        with open(path + ".part", "w", encoding="ascii") as file:
            file.write(str(rounds))
        os.rename(path + ".part", path)
        await asyncio.sleep(0)


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
