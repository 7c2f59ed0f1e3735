# SPDX-License-Identifier: Apache-2.0
"""Python -> C -> Python, in every way that the standard library offers."""
import bisect
import collections
import ctypes
import functools
import gc
import itertools
import json
import re
import weakref

import truth

gc.disable()
N = truth.size(60)


def spin(count):
    x = 1
    for i in range(count):
        x = (x * 3 + i) & 0xffff
    return x


def key(item):
    return spin(N) * item


def compare(a, b):
    return a - b + 0 * spin(N)


def add(a, b):
    return a + b + 0 * spin(N)


def keep(item):
    return spin(N) >= 0 and item


def replace(match):
    return match.group(0) + str(spin(N))[:0]


def hook(pairs):
    spin(N)
    return pairs


def default(value):
    return spin(N) or value


@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
def for_qsort(a, b):
    return a[0] - b[0] + 0 * spin(N)


class Finalized:
    def __init__(self):
        self.me = self

    def __del__(self):
        spin(N)


class Watched:
    pass


def forgotten(_):
    spin(N)


class Callable:
    def __call__(self, item):
        return sorted([item, 1], key=key)


def use_qsort():
    array = (ctypes.c_int * 6)(3, 1, 2, 9, 7, 5)
    ctypes.CDLL(None).qsort(array, 6, ctypes.sizeof(ctypes.c_int), for_qsort)


def collect():
    Finalized()
    gc.collect(0)


def refer():
    return weakref.ref(Watched(), forgotten)


def convert():
    json.loads('{"a": {"b": 1}}', object_pairs_hook=hook)
    json.loads("[1.5]", parse_float=keep)
    json.dumps({"x": {1, 2}}, default=default)


def deeper(level, _=None):
    """Python and C in turn, several kinds of C."""
    if level == 0:
        return spin(N)
    kind = level % 5
    if kind == 0:
        return max([level - 1], key=deeper)
    if kind == 1:
        return list(map(deeper, [level - 1]))[0]
    if kind == 2:
        return sorted([level - 1], key=deeper)[0]
    if kind == 3:
        return len(re.sub("x", lambda m: str(deeper(level - 1)), "axb"))
    return functools.reduce(deeper, [level - 1, None])


def work():
    sorted([3, 1, 2], key=key)
    [3, 1, 2].sort(key=functools.cmp_to_key(compare))
    functools.reduce(add, [1, 2, 3])
    list(map(key, [1, 2]))
    list(filter(keep, [0, 1]))
    re.sub(r"\d", replace, "a1b2")
    convert()
    use_qsort()
    collect()
    refer()
    min([1, 2], key=lambda item: key(
        item))
    list(map(Callable(), [2]))
    list(itertools.starmap(add, [(1, 2)]))
    list(itertools.accumulate([1, 2, 3], add))
    any(key(i) for i in (0, 0))
    "".join(str(key(i)) for i in (1, 2))
    collections.defaultdict(lambda: spin(N))[1]
    next(iter(functools.partial(key, 3), None))
    exec("spin(N)", {"spin": spin, "N": N})
    eval("key(2)", {"key": key})
    bisect.bisect_left([Keyed(1), Keyed(3)], Keyed(2))
    deeper(20)


class Keyed:
    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return spin(N) >= 0 and self.value < other.value


truth.direct("convert", "collect", "refer", "work")
truth.run(work)
