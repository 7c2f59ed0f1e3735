# SPDX-License-Identifier: Apache-2.0
"""Two ranks of gloo that train, as torchrun starts them; every third epoch rank 0 computes alone. argv: seconds."""

import sys
import time

import torch
import torch.distributed
from torch.utils.data import DataLoader, TensorDataset

EVALUATION_S = 45


def main():
    end = time.time() + float(sys.argv[1])
    torch.distributed.init_process_group("gloo")
    torch.set_num_threads(1)
    rank, epoch, stop = torch.distributed.get_rank(), 0, torch.zeros(1)
    data = TensorDataset(torch.randn(512, 64), torch.randn(512, 8))
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    while not stop.item():
        for inputs, wanted in DataLoader(data, 64, num_workers=1):
            optimizer.zero_grad()
            ((model(inputs) - wanted) ** 2).mean().backward()
            optimizer.step()
            time.sleep(0.05)
        epoch += 1
        started = time.time()
        while rank == 0 and epoch % 3 == 0 and time.time() < started + EVALUATION_S:
            (data[:][0] @ torch.randn(64, 64)).sum().item()
        torch.distributed.barrier()
        stop = torch.tensor([float(time.time() > end)])
        torch.distributed.broadcast(stop, 0)


main()
