# SPDX-License-Identifier: Apache-2.0
"""A rank of two (torchrun, gloo), of which rank 1 has ten times the data to augment.

Rank 0 prints "ready" and works until it gets a line; then it prints for each rank its pid, its CPU seconds in augment(), and the seconds that it waited
in all_reduce() and that it ran in all.
"""

import json
import os
import select
import sys
import time

import torch
import torch.distributed as dist


def augment(seconds):
    begin = time.thread_time()
    while time.thread_time() < begin + seconds:
        sum(i * i for i in range(100))
    return time.thread_time() - begin


def all_reduce(tensor):
    begin = time.monotonic()
    dist.all_reduce(tensor)
    return time.monotonic() - begin


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    tensor, go = torch.ones(1000), torch.zeros(1)
    dist.barrier()
    if rank == 0:
        print("ready", flush=True)
    begin, spent, waited = time.monotonic(), 0.0, 0.0
    while not go.item():
        spent += augment(0.05 if rank == 1 else 0.005)
        waited += all_reduce(tensor)
        go[0] = rank == 0 and bool(select.select([sys.stdin], [], [], 0)[0])
        dist.broadcast(go, 0)
    told = [None, None]
    dist.all_gather_object(told, (os.getpid(), spent, waited, time.monotonic() - begin))
    if rank == 0:
        print(json.dumps(told), flush=True)
    dist.destroy_process_group()


main()
