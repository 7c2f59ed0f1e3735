# SPDX-License-Identifier: Apache-2.0
"""Builds known stacks in several threads, says what they are, and stays in them.

Standard output, in UTF-8:

    thread IDENT INTERPRETER CALLS
    frame LINE NAME<TAB>FILE
    ...
    ready

IDENT is pthread_self(), INTERPRETER counts from the oldest, CALLS are the C calls of the eval loop
that CPython 3.11 and later make by the way the stack was built; frames follow leaf first. Then
every thread waits: none has the GIL. When a byte comes on standard input the main thread takes the GIL
and keeps it. Runs on Python 3.8 and later.
"""

import _thread
import asyncio
import ctypes
import functools
import os
import sys
import sysconfig

VERSION = sys.version_info[:2]
# Without the GIL 3.13 does not specialize calls.
SPECIALIZES = VERSION != (3, 13) or not sysconfig.get_config_var("Py_GIL_DISABLED")
STARTED = os.pipe()
TOLD = os.pipe()
NOTHING = os.pipe()
GATE = _thread.allocate_lock()
GATE.acquire()
CALLS = {}


def go_on(rest):
    return rest[0](rest[1:])


def nested(rest):
    def inner():
        def innermost():
            return (
                rest[0](
                    rest[1:]
                )
            )
        return innermost()
    return inner()


def recursion(rest, depth=50):
    return recursion(rest, depth - 1) if depth else rest[0](rest[1:])


def deep(rest):
    return recursion(rest, 600)


def many_calls(rest, depth=300):
    if not depth:
        return rest[0](rest[1:])
    return functools.partial(many_calls, rest, depth - 1)()


class Thing:
    def __init__(self, rest):
        if rest:
            rest[0](rest[1:])

    def method(self, rest):
        return self.of_class(
            rest,
        )

    @classmethod
    def of_class(cls, rest):
        return cls.static(rest)

    @staticmethod
    def static(rest):
        return rest[0](rest[1:])

    @property
    def attribute(self):
        return self.rest[0](self.rest[1:])


def methods(rest):
    return object.__new__(Thing).method(rest)


def getter(rest):
    thing = object.__new__(Thing)
    thing.rest = rest
    return getattr(thing, "attribute")


def constructor(rest):
    """From 3.13 on, once it is known to be that of a plain class, it is called without C code."""
    for argument in [None] * 3000 + [rest]:
        Thing(argument)


def anonymous(rest):
    return (lambda one: (lambda two: two[0](two[1:]))(
        one))(rest)


def class_body(rest):
    class Made:
        value = rest[0](rest[1:])
    return Made.value


def sorting(rest):
    return sorted([0], key=lambda _: rest[0](rest[1:]))


def callback(rest):
    def called_by_c():
        rest[0](rest[1:])
        return 0
    return ctypes.CFUNCTYPE(ctypes.c_int)(called_by_c)()


def generator(rest):
    yield 1
    yield rest[0](rest[1:])


def iteration(rest):
    made = generator(rest)
    next(made)
    return next(made)


def delegating(rest):
    yield from generator(rest)


def delegation(rest):
    made = delegating(rest)
    next(made)
    return next(made)


def generator_expression(rest):
    return max(rest[0](rest[1:]) for _ in (0,))


def comprehension(rest):
    return [
        [rest[0](rest[1:])
         for _ in (0,)]
        for _ in (0,)
    ]


async def awaited(rest):
    return rest[0](rest[1:])


async def awaiting(rest):
    return await awaited(
        rest)


def coroutine(rest):
    return awaiting(rest).send(None)


def event_loop(rest):
    return asyncio.new_event_loop().run_until_complete(awaiting(rest))


def partial(rest):
    return functools.partial(rest[0], rest[1:])()


def keywords(rest, *, more, **others):
    return rest[0](rest[1:]) if more and others else None


def with_keywords(rest):
    return keywords(rest, more=1, others=2)


def with_stars(rest):
    return keywords(*[rest], **{"more": 1, "others": 2})


def decorate(function):
    @functools.wraps(function)
    def wrapper(rest):
        return function(rest)
    return wrapper


@decorate
@decorate
def decorated(rest):
    return rest[0](rest[1:])


def finally_clause(rest):
    try:
        raise KeyError
    except KeyError as error:
        kept = str(error)
    finally:
        for _ in range(1):
            kept = rest[0](rest[1:])
    return kept


def größe(rest):
    return rest[0](rest[1:])


def имя(rest):
    return rest[0](rest[1:])


def 𐌰𐌱(rest):
    return rest[0](rest[1:])


def executed(rest):
    """A function of 6,000 lines, and a gap that no single byte of a line table can tell."""
    source = ("def big(rest):\n" + "    rest = rest\n" * 3000 + "    # nothing\n" * 3000 +
              "    return rest[0](rest[1:])\n\n\n" + "\n" * 70000 + "big(rest)\n")
    exec(compile(source, "größe-имя-𐌰.py", "exec"), {"rest": rest})


# What is put together, and how many C calls of the eval loop it costs in 3.11 and later.
PIECES = {
    go_on: 0, nested: 0, recursion: 0, methods: 0, anonymous: 0, comprehension: 0, decorated: 0,
    finally_clause: 0, with_keywords: 0, größe: 0, имя: 0, 𐌰𐌱: 0, deep: 0,
    getter: 1, class_body: 1, sorting: 1, callback: 1, iteration: 1, generator_expression: 1,
    partial: 1, executed: 1, many_calls: 300,
    coroutine: 2 if VERSION < (3, 12) else 1,
    delegation: 2 if VERSION < (3, 12) else 1,
    event_loop: 2 if VERSION < (3, 12) else 1,
    with_stars: 1 if VERSION < (3, 12) else 0,
    constructor: 0 if VERSION >= (3, 13) and SPECIALIZES else 1,
}
EVERY = [piece for piece in PIECES if piece not in (deep, many_calls, executed)]


def wait(_rest):
    return os.write(STARTED[1], b"."), GATE.acquire()


def spin():
    while True:
        pass


def wait_and_tell(_rest):
    return tell(sys._getframe()), os.read(0, 1) and spin(), os._exit(0)


def run(pieces):
    CALLS[_thread.get_ident()] = 1 + sum(PIECES[piece] for piece in pieces)
    return pieces[0](pieces[1:] + [wait])


SUBINTERPRETER = """
import _thread, os, sys
def inner():
    return tell(sys._getframe()), os.write(%d, b"."), os.read(%d, 1)
def tell(frame):
    text = "thread %%d 1 1\\n" %% _thread.get_ident()
    while frame:
        code = frame.f_code
        text += "frame %%d %%s\\t%%s\\n" %% (frame.f_lineno, getattr(code, "co_qualname", code.co_name),
                                     code.co_filename)
        frame = frame.f_back
    os.write(%d, text.encode())
inner()
"""


def subinterpreter(module):
    CALLS[_thread.get_ident()] = 1
    one = module.create()
    source = SUBINTERPRETER % (STARTED[1], NOTHING[0], TOLD[1])
    return (module.exec if hasattr(module, "exec") else module.run_string)(one, source)


def interpreters():
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            return __import__(name)
        except ImportError:
            pass
    return None


def stack_text(ident, frame):
    text = ["thread %d 0 %d" % (ident, CALLS[ident])]
    while frame is not None:
        code = frame.f_code
        text.append("frame %d %s\t%s" % (frame.f_lineno or 0,
                                         getattr(code, "co_qualname", code.co_name),
                                         code.co_filename))
        frame = frame.f_back
    return "\n".join(text) + "\n"


def tell(frame):
    text = ""
    for ident, other in sys._current_frames().items():
        text += stack_text(ident, frame if ident == _thread.get_ident() else other)
    if interpreters():
        text += os.read(TOLD[0], 65536).decode()
    text += "ready\n"
    with open(1, "wb", closefd=False) as out:
        out.write(text.encode())


def main():
    for stack in [EVERY, EVERY[::-1], [executed], [deep], [many_calls], [recursion]]:
        _thread.start_new_thread(run, (stack,))
        os.read(STARTED[0], 1)
    if interpreters():
        _thread.start_new_thread(subinterpreter, (interpreters(),))
        os.read(STARTED[0], 1)
    pieces = EVERY[1:] + [executed]
    CALLS[_thread.get_ident()] = 1 + sum(PIECES[piece] for piece in pieces)
    pieces[0](pieces[1:] + [wait_and_tell])


main()
