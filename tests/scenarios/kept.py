# SPDX-License-Identifier: Apache-2.0
"""A training loop that keeps each loss, and with it what the backward pass would need, and a DataLoader whose worker
keeps each image that it has decoded. argv: steps.

Prints "ready", waits for a line, works, prints by how much both processes grew, and waits for another one.
"""

import json
import os
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

SIDE, BATCH = 512, 4


class Images(Dataset):
    def __init__(self, count):
        self.count, self.cache = count, {}

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index not in self.cache:
            self.cache[index] = self.decode()
        return self.cache[index]

    def decode(self):
        return torch.rand(3, SIDE, SIDE)


def train_step(scale, images, losses):
    loss = (images * scale).relu().mean()
    losses.append(loss)  # not loss.item()


def anonymous_mib(pid):
    with open("/proc/%d/status" % pid, encoding="ascii") as file:
        return next(int(line.split()[1]) / 1024 for line in file if line.startswith("RssAnon:"))


def main():
    torch.set_num_threads(1)
    steps = int(sys.argv[1])
    loader = DataLoader(Images(steps * BATCH), batch_size=BATCH, num_workers=1, persistent_workers=True)
    scale, losses, batches = torch.ones(1, requires_grad=True), [], iter(loader)
    worker = batches._workers[0].pid
    images = next(batches)
    print("ready", flush=True)
    sys.stdin.readline()
    before = [anonymous_mib(pid) for pid in (os.getpid(), worker)]
    for images in batches:
        train_step(scale, images, losses)
        time.sleep(0.25)
    after = [anonymous_mib(pid) for pid in (os.getpid(), worker)]
    print(json.dumps({"trainer": os.getpid(), "worker": worker, "losses": after[0] - before[0],
                      "images": after[1] - before[1]}), flush=True)
    sys.stdin.readline()


main()
