#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python half of the demo: counts words, checks sums and compresses, for N seconds."""

import hashlib
import json
import sys
import time
import zlib


def count_words(text):
    counts = {}
    for word in text.split():
        counts[word] = counts.get(word, 0) + 1
    return counts


def check_sum(data):
    return hashlib.sha256(data).hexdigest()


def compress(data):
    return len(zlib.compress(data, 6))


def step(text):
    counts = count_words(text)
    data = json.dumps(counts).encode() + text.encode()
    return check_sum(data), compress(data)


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30
    text = " ".join(f"word{i * i % 997}" for i in range(20000))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        step(text)


if __name__ == "__main__":
    main()
