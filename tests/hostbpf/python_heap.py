# SPDX-License-Identifier: Apache-2.0
"""Holds values of all kinds in the variables of threads with names, and says what they are.

Standard output, in UTF-8, fields separated by tabs:

    name INTERPRETER IDENT NATIVE NAME
    frame IDENT NR FUNCTION LINE    NR from the leaf; its variables follow:
    local FLAGS ADDRESS NAME VALUE  FLAGS: PYTHON_LOCAL_* of user/python/locals.h
    ...
    ready

VALUE is what py-spy would show in 128 characters. Then all threads wait. When a byte comes on standard
input the main thread sleeps and keeps the GIL. Runs on Python 3.8 and later.
"""

import _thread
import collections
import ctypes
import decimal
import enum
import inspect
import math
import os
import sys
import threading
import time

CHARS = 128
STARTED = os.pipe()
NOTHING = os.pipe()
ARGUMENT, NAMED, CELL, FREE = 1, 2, 4, 8
BIG = 10**45


def text_shown(value, room):
    value = "".join("\ufffd" if 0xd800 <= ord(c) < 0xe000 or not ord(c) else c for c in value)
    value = value.replace("'", '\\"').replace("\n", "\\n")
    return '"%s..."' % value[:room - 5] if len(value) > room - 5 else '"%s"' % value


def bytes_shown(value, room):
    text, used = "", 0
    for byte in value:
        one = repr(bytes([byte]))[2:-1] if byte != 39 else "\\'"
        if used + len(one) > room - 5:
            return "b'" + text + "...'"
        text, used = text + one, used + len(one)
    return "b'" + text + "'"


def float_shown(value):
    if math.isnan(value) or math.isinf(value):
        return {"nan": "NaN"}.get(repr(value), repr(value))
    text = format(decimal.Decimal(repr(value)), "f")
    return text[:-2] if text.endswith(".0") else text


def list_shown(parts, room, ends):
    """parts(room) yields what each item looks like in as much room as is left."""
    shown, left = [], [room - 2]
    for part, more in parts(left):
        left[0] -= len(part.encode()) + more
        if left[0] <= 5:
            shown.append("...")
            break
        shown.append(part)
    return ends[0] + ", ".join(shown) + ends[1]


def shown(value, room=CHARS):
    if room <= 5:
        return "..."
    if isinstance(value, int):
        if isinstance(value, bool):
            return str(value)
        digits = (abs(value).bit_length() + 29) // 30
        if abs(value) >= 2**63 and digits * 9 > room:
            return "-bigint" if value < 0 else "+bigint"
        return int.__repr__(value)
    if isinstance(value, str):
        return text_shown(value, room)
    if isinstance(value, bytes):
        return bytes_shown(value, room)
    if isinstance(value, dict):
        return list_shown(lambda left: ((shown(k, left[0]) + ": " + shown(v, left[0]), 2)
                                        for k, v in dict.items(value)), room, "{}")
    if isinstance(value, (list, tuple)):
        return list_shown(lambda left: ((shown(v, left[0]), 2) for v in value), room,
                          "[]" if isinstance(value, list) else "()")
    if type(value) is float:
        return float_shown(value)
    if value is None:
        return "None"
    name = ctypes.c_char_p.from_address(id(type(value)) + object.__basicsize__ + 8).value  # tp_name
    return "<%s at 0x%x>" % (name.decode(), id(value))


class Plain:
    def __init__(self, **others):
        self.first = 1
        self.__dict__.update(others)


class Slots:
    __slots__ = ("one", "two")


class Grüße(Plain):
    pass


class Text(str):
    pass


class Number(int):
    pass


class Real(float):
    pass


class Pairs(dict):
    pass


class Items(list):
    pass


class Color(enum.IntEnum):
    RED = 7


Point = collections.namedtuple("Point", "x y")


def wait():
    lock = _thread.allocate_lock()
    lock.acquire()
    os.write(STARTED[1], b".")
    lock.acquire()


def ints():
    zero, one, minus, small, limit, over = 0, 1, -1, 255, 256, 257
    digit, digit1, digits, digits1 = 2**30 - 1, 2**30, -2**30, -2**60 + 1
    two, three, most, least, more, fewer = 2**60, 2**62 + 3, 2**63 - 1, -2**63 + 1, 2**63, -2**63
    big, negative, huge, low = BIG, -BIG - 9, 2**9000, -2**9000
    round_, nines = 10**36, 10**27 - 1
    yes, no, color, derived = True, False, Color.RED, Number(-77)
    wait()


def floats():
    zero, minus_zero, one, half, third = 0.0, -0.0, 1.0, 0.5, 1 / 3
    large, larger, largest = 1e16, 123456789012345678901234.0, 1.7976931348623157e308
    small, smaller, smallest = 1e-5, 1.5e-7, 5e-324
    infinite, minus, nothing, pi, derived = math.inf, -math.inf, math.nan, math.pi, Real(1.5)
    tenth, hundred, exact = 0.1, 100.0, -12345.6789
    wait()


def texts():
    empty, plain, quotes, lines = "", "plain", "it's \"quoted\"", "a\nb\n"
    latin, bmp, astral, mixed = "größe", "имя ☃", "𐌰𐌱", "aö☃𐌰"
    nul, surrogate, derived, wide = "a\0b", "a\udce4b", Text("derived"), Text("имя")
    fits, cut, long, long_wide = "x" * 123, "x" * 124, "y" * 100000, "я" * 5000
    edge, edge1, edge2 = "x" * 122 + "'", "x" * 121 + "'", "x" * 122 + "\n\n"
    data, some, all_bytes, long_bytes = b"", b"a'b\"c\\\n\0\xff", bytes(range(256)), b"z" * 5000
    bytes_fit, bytes_cut = b"z" * 123, b"z" * 124
    array, nothing = bytearray(b"x"), None
    wait()


def lists():
    empty, one, some, nested = [], [1], [1, "two", 3.0, None], [[[]], [[1], [2, [3]]]]
    long, strings, deep = list(range(1000)), ["abcdefghij"] * 20, []
    for _ in range(100):
        deep = [deep]
    itself = [1]
    itself.append(itself)
    pairs, single, point, derived = (1, 2), (1,), Point(3, (4, 5)), Items([1])
    nothing, long_tuple = (), tuple(range(100))
    umlauts = ["ä" * 20] * 5
    wait()


def dicts():
    empty, one, words = {}, {1: 2}, {"a": 1, "b": [2], "c": {"d": None}}
    mixed, long = {1: "one", "two": 2, (3,): 3.5}, {i: i * i for i in range(1000)}
    deleted = {str(i): i for i in range(20)}
    for i in range(15):
        del deleted[str(i)]
    changed = {"a": 1}
    changed[2] = 3
    large = {"key%d" % i: i for i in range(70000)}
    itself = {}
    itself["me"] = itself
    default, ordered = collections.defaultdict(list, {"x": [1]}), collections.OrderedDict(a=1)
    derived = Pairs(k="v")
    plain = Plain(second="2")
    shared = plain.__dict__
    del ordered["a"]
    wait()


def others():
    plain, slots, type_, function, module = Plain(), Slots(), Slots, others, os
    some, frozen, umlaut, steps, imaginary = {1}, frozenset(), Grüße(), range(3), 1j
    method, builtin, dots, not_done = "".join, len, Ellipsis, NotImplemented
    wait()


def numbers():
    try:
        import numpy
    except ImportError:
        return wait()
    a, b, c, d = numpy.int8(-3), numpy.int16(-300), numpy.int32(-70000), numpy.int64(-2**40)
    e, f, g, h = numpy.uint8(200), numpy.uint16(60000), numpy.uint32(2**31), numpy.uint64(2**63)
    return wait()


def arguments(first, second=2, *rest, keyword, other="o", **more):
    local = 1
    del second
    wait()


def positional(a, b, /, c):
    wait()


def cells(argument, kept, *rest, named=3, **more):
    local, unused = "in a cell", "not"
    later = None
    del later

    def inner():
        nonlocal local
        inside = argument

        def innermost():
            return inside, argument, local, rest, named, more

        def later_use():
            return later
        wait()
    inner()


def generator(start):
    for step in (start,):
        total = step + 1
        yield wait()
        yield total


def generators():
    return next(generator(41))


def comprehension():
    before = 1
    return [wait() for item in (before,) if item]


def handler():
    try:
        raise KeyError("k")
    except KeyError as error:
        kept = str(error)
        wait()


def many(**more):
    exec("\n    ".join(["def f(a%s):" % "".join(", b%d=%d" % (i, i) for i in range(200))] +
                       ["c%d = %d" % (i, i) for i in range(300)] + ["wait()"]), globals(), more)
    more["f"](0)


class Early(threading.Thread):
    """Sets attributes of its own before those of Thread, and more than keys are shared for."""

    def __init__(self, *args, **kwargs):
        for i in range(40):
            setattr(self, "attribute%d" % i, i)
        super().__init__(*args, **kwargs)


class Renamed(threading.Thread):
    name_of_class = "nothing"


def threads():
    arguments_ = functools_partial(arguments, 1, 2, 3, 4, keyword="k", extra=[1])
    cells_ = functools_partial(cells, "an argument", 1.5, 2, extra=3)
    made = [threading.Thread(target=t, name=n) for t, n in [
        (ints, "ints"), (floats, ""), (texts, "größe \"q\" 'a'"), (lists, "имя ☃"), (dicts, "𐌰𐌱"),
        (numbers, "x" * 300), (arguments_, "new\nline"), (generators, Text("derived name")),
        (cells_, "cells")]]
    made += [Early(target=others, name="early"), Renamed(target=comprehension)]
    made += [threading.Thread(target=handler), threading.Thread(target=many, daemon=True)]
    made += [threading.Thread(target=lambda: positional(1, "2", c=3))]
    for thread in made:
        thread.start()
        os.read(STARTED[0], 1)
    made[-2].name = "renamed later"
    vars(made[0])["looked"] = "at"  # from here on its attributes are in a dict
    made[1].__dict__ = dict(made[1].__dict__)
    _thread.start_new_thread(foreign, ())
    os.read(STARTED[0], 1)
    _thread.start_new_thread(wait, ())
    os.read(STARTED[0], 1)
    if SUBINTERPRETERS:
        _thread.start_new_thread(subinterpreter, ())
        os.read(STARTED[0], 1)


def functools_partial(function, *args, **kwargs):
    return lambda: function(*args, **kwargs)


def foreign():
    threading.current_thread()
    wait()


SOURCE = """
import _thread, os, threading
threading.current_thread().name = "of another interpreter"
os.write(%d, "".join("name\\t1\\t%%d\\t0\\t%%s\\n" %% (t.ident, t.name)
                      for t in threading.enumerate()).encode())
os.write(%d, b".")
os.read(%d, 1)
"""


def interpreters():
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            return __import__(name)
        except ImportError:
            pass
    return None


SUBINTERPRETERS = interpreters()
TOLD = os.pipe()


def subinterpreter():
    one = SUBINTERPRETERS.create()
    source = SOURCE % (TOLD[1], STARTED[1], NOTHING[0])
    run = getattr(SUBINTERPRETERS, "exec", None) or SUBINTERPRETERS.run_string
    run(one, source)
    os._exit(1)


def flags_of(code, name):
    flags = 0
    named = code.co_argcount + code.co_kwonlyargcount
    named += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    arguments_ = code.co_varnames[:named]
    if name in arguments_:
        flags |= ARGUMENT if name in arguments_[:code.co_argcount] else NAMED
    if name in code.co_cellvars:
        flags |= CELL
    return flags | (FREE if name in code.co_freevars else 0)


def tell_frames(ident, frame, out):
    nr = 0
    while frame is not None:
        code = frame.f_code
        if code.co_flags & inspect.CO_OPTIMIZED and frame.f_code is not tell.__code__:
            out.append("frame\t%d\t%d\t%s\t%d" % (ident, nr,
                                                  getattr(code, "co_qualname", code.co_name),
                                                  frame.f_lineno))
            for name, value in dict(frame.f_locals).items():
                out.append("local\t%d\t%d\t%s\t%s" % (flags_of(code, name), id(value), name,
                                                      shown(value)))
        nr += 1
        frame = frame.f_back


def settle():
    """Until every thread that has said that it waits is on the line where it does."""
    last = wait.__code__.co_firstlineno + 4
    while any(frame.f_code is wait.__code__ and frame.f_lineno != last
              for frame in sys._current_frames().values()):
        time.sleep(0.001)


def tell():
    out = []
    for thread in threading.enumerate():
        out.append("name\t0\t%d\t%d\t%s" % (thread.ident, thread.native_id,
                                            thread.name.replace("\n", "\\n")))
    if SUBINTERPRETERS:
        out.append(os.read(TOLD[0], 4096).decode()[:-1])
    for ident, frame in sys._current_frames().items():
        if ident != _thread.get_ident():
            tell_frames(ident, frame, out)
    out.append("ready\n")
    with open(1, "wb", closefd=False) as file:
        file.write("\n".join(out).encode())


def main():
    threads()
    settle()
    tell()
    os.read(0, 1)
    ctypes.PyDLL(None).sleep(1000)


main()
