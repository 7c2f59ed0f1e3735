# SPDX-License-Identifier: Apache-2.0
import hashlib
import threading


def burn(n):
    total = 0
    for i in range(n):
        total += i * i
    return total


def descend(n):
    return burn(9000) if n == 0 else descend(n - 1)


class Loader:
    def load(self):
        return hashlib.sha256(bytes(1 << 18)).hexdigest()


def train():
    while True:
        descend(3)
        Loader().load()


threading.Thread(target=train, name="loader", daemon=True).start()
train()
