# SPDX-License-Identifier: Apache-2.0
"""A small convolutional network in training, on one CPU. Prints "ready" and trains until it gets a line."""

import select
import sys

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3)
        self.second = nn.Conv2d(8, 16, 3)
        self.last = nn.Linear(16 * 24 * 24, 10)

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = torch.relu(self.second(x))
        return self.last(x.flatten(1))


def batch(nr):
    images = torch.empty(nr, 1, 28, 28)
    for i in range(nr):
        images[i] = augment(torch.rand(1, 28, 28))
    return images, torch.randint(0, 10, (nr,))


def augment(image):
    for _ in range(4):
        image = torch.flip(image, (1,)) * 0.9 + 0.1
    return image


def train_step(net, optimizer):
    images, labels = batch(16)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(images), labels)
    loss.backward()
    optimizer.step()


def main():
    torch.set_num_threads(1)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    train_step(net, optimizer)
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        train_step(net, optimizer)


main()
