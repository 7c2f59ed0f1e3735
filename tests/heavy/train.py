# SPDX-License-Identifier: Apache-2.0
"""A Ray Train job of two workers, which compute in Python. argv: seconds. Prints "ready"."""

import sys
import tempfile
import time

import ray
import ray.train
import ray.train.torch


def train_step():
    return sum(i * i for i in range(2000))


def train_loop(config):
    end = time.time() + config["seconds"]
    while time.time() < end:
        train_step()


def main():
    ray.init(num_cpus=3, include_dashboard=False)
    with tempfile.TemporaryDirectory() as folder:
        trainer = ray.train.torch.TorchTrainer(
            train_loop, train_loop_config={"seconds": float(sys.argv[1])},
            scaling_config=ray.train.ScalingConfig(num_workers=2),
            run_config=ray.train.RunConfig(storage_path=folder))
        print("ready", flush=True)
        trainer.fit()


main()
