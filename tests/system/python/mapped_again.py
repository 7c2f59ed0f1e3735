# SPDX-License-Identifier: Apache-2.0
"""Has more of an interpreter's code than the interpreter that runs it: mapped_again HOW LIBRARY."""
import ctypes
import os
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
PAGE = 4096


def own_code():
    """(path, offset, start, bytes) of the code that runs this."""
    inside = ctypes.cast(ctypes.pythonapi.PyEval_GetBuiltins, ctypes.c_void_p).value
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            words = line.split()
            start, end = (int(word, 16) for word in words[0].split("-"))
            if start <= inside < end:
                return words[5], int(words[2], 16), start, end - start
    return None


def code_map(hint, skip, size):
    path, offset, _, _ = own_code()
    LIBC.mmap.restype = ctypes.c_void_p
    LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                          ctypes.c_int, ctypes.c_long]
    file = os.open(path, os.O_RDONLY)
    at = LIBC.mmap(hint, size, 5, 2, file, offset + skip)  # readable and executable, private
    os.close(file)
    assert at != ctypes.c_void_p(-1).value
    return at


def filled(at, size, words):
    """Anonymous memory with these words again and again; where it is."""
    LIBC.mmap.restype = ctypes.c_void_p
    LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                          ctypes.c_int, ctypes.c_long]
    at = LIBC.mmap(at, size, 3, 0x22, -1, 0)
    text = b"".join((word if word else at).to_bytes(8, "little") for word in words)
    ctypes.memmove(at, text * (size // len(text)), size)
    return at


def lies(start):
    """
    Code where its runtime would be in memory that holds pointers: to an interpreter, whose threads go
    round in a circle, and belong to no interpreter.
    """
    far = -(1 << 30)
    runtime = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    assert code_map(start + far, 0, PAGE) == start + far
    thread = filled(None, 1 << 20, [0, 0, PAGE, 0, 0, 0, 0, 0] + [0] * 24)
    interpreter = filled(None, 1 << 20, [thread])
    base = (runtime + far) & -PAGE
    assert filled(base, 1 << 20, [interpreter]) == base


def make(how, library):
    _, _, start, size = own_code()
    if how == "page":
        code_map(start - (1 << 30), size - PAGE & -PAGE, PAGE)
    elif how == "whole":
        code_map(start - (1 << 30), 0, size)
    elif how == "many":  # each a place of its own: more than are looked at
        for i in range(1, 9):
            code_map(start - (i << 30), 0, 4 * PAGE)
    elif how == "lies":
        lies(start)
    elif how == "again":
        LIBC.dlmopen.restype = ctypes.c_void_p
        assert LIBC.dlmopen(-1, library.encode(), 2)
    elif how == "loaded":
        ctypes.CDLL(library)
    elif how == "below":  # some other library's code, lower than all that the program has
        with open("/proc/self/maps", encoding="utf-8") as maps:
            lowest = int(maps.readline().split("-")[0], 16)
        path = next(line.split()[5] for line in open("/proc/self/maps", encoding="utf-8")
                    if "libc.so" in line or "libc-" in line)
        LIBC.mmap.restype = ctypes.c_void_p
        LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                              ctypes.c_int, ctypes.c_long]
        file = os.open(path, os.O_RDONLY)
        assert LIBC.mmap(lowest // 2 & -PAGE, PAGE, 5, 2, file, 0) < lowest


def inner():
    total = 0
    for i in range(20000):
        total += i
    return total


def outer():
    while True:
        inner()


make(sys.argv[1], sys.argv[2])
with open(os.environ["READY"], "w", encoding="ascii"):
    pass
outer()
