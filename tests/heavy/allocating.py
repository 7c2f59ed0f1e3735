# SPDX-License-Identifier: Apache-2.0
"""Allocates in ten functions as programs do that parse, join, sort and cache. It says its CPU time at its end."""

import array
import json
import time
import zlib


def blobs(nr):
    kept = []
    for i in range(nr):
        kept.append(bytes([i & 255]) * 4000)
    return kept


def pages(nr):
    kept = []
    for i in range(nr):
        kept.append(bytearray(1 << 20))
        kept[-1][i] = 1
    return kept


def texts(nr):
    kept = []
    for i in range(nr):
        kept.append(("%d " % i) * 3000)
    return kept


def tables(nr):
    kept = []
    for i in range(nr):
        table = {}
        for k in range(1000):
            table[k] = i
        kept.append(table)
    return kept


def columns(nr):
    column = array.array("d")
    for i in range(nr):
        column.append(i)
    return column


def lists(nr):
    kept = []
    for _ in range(nr):
        row = []
        for k in range(500):
            row.append(k & 255)
        kept.append(row)
    return kept


def points(nr):
    kept = []
    for i in range(nr):
        kept.append((i, float(i), str(i)))
    return kept


def parse(text):
    return json.loads(text)


def words(nr):
    found = set()
    for i in range(nr):
        found.add("word %d" % i)
    return found


def packed(data, nr):
    kept = []
    for i in range(nr):
        kept.append(zlib.compress(data + bytes([i & 255]), 1))
    return kept


def passing(nr):
    """Blocks that are given back at once."""
    size = 0
    for i in range(nr):
        size += len(b"x" * (1000 + i % 3000))
    return size


def main():
    begin = time.process_time()
    text = json.dumps([{"id": i, "name": "name %d" % i, "values": [i, i + 0.5]} for i in range(40000)])
    kept = [blobs(8000), pages(30), texts(1500), tables(500), columns(2000000), lists(3000), points(100000),
            parse(text), words(150000), packed(bytes(range(256)) * 400, 600), passing(300000)]
    print("cpu %.3f" % (time.process_time() - begin), flush=True)
    return kept


main()
