# SPDX-License-Identifier: Apache-2.0
"""A training loop whose DataLoader cannot keep up. argv: workers, batches.

Prints "ready", waits for a line, trains, prints the seconds that it waited for batches and that it trained, and its
workers' pids; and waits for another line.
"""

import json
import multiprocessing
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    def __init__(self, nr):
        self.nr = nr

    def __len__(self):
        return self.nr

    def __getitem__(self, index):
        return self.decode(index)

    def decode(self, index):
        end = time.thread_time() + 0.03
        while time.thread_time() < end:
            sum(i * i for i in range(100))
        return torch.full((16,), float(index))


def train_step(net, batch):
    end = time.thread_time() + 0.005
    while time.thread_time() < end:
        net(batch)


def main():
    torch.set_num_threads(1)
    workers, batches = int(sys.argv[1]), int(sys.argv[2])
    net = torch.nn.Linear(16, 4)
    loader = DataLoader(Images(batches * 2), batch_size=2, num_workers=workers)
    print("ready", flush=True)
    sys.stdin.readline()
    waited, trained, pids = 0.0, 0.0, []
    began = time.perf_counter()
    for batch in loader:
        pids = pids or [child.pid for child in multiprocessing.active_children()]
        waited += time.perf_counter() - began
        began = time.perf_counter()
        train_step(net, batch)
        trained += time.perf_counter() - began
        began = time.perf_counter()
    print(json.dumps({"waited": waited, "trained": trained, "workers": pids}), flush=True)
    sys.stdin.readline()


main()
