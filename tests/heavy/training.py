# SPDX-License-Identifier: Apache-2.0
"""A small torch training loop on CPUs. argv: seconds; or `sleep` and a number: the program imports torch and
forks until there are so many processes, which sleep."""

import os
import sys
import time

import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(256, 512)
        self.second = torch.nn.Linear(512, 10)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def train_step(net, optimizer, x, y):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    return loss


def train(seconds):
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    x, y = torch.randn(256, 256), torch.randint(0, 10, (256,))
    print("ready", flush=True)
    end = time.time() + seconds
    while time.time() < end:
        train_step(net, optimizer, x, y)


def sleep(processes):
    parent = os.getpid()
    for _ in range(processes - 1):
        if os.getpid() == parent:
            os.fork()
    if os.getpid() == parent:
        print("ready", flush=True)
    while True:
        time.sleep(0.05)
        sum(range(20000))


if sys.argv[1] == "sleep":
    sleep(int(sys.argv[2]))
else:
    torch.set_num_threads(2)
    train(float(sys.argv[1]))
