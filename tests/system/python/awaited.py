# SPDX-License-Identifier: Apache-2.0
"""The interpreter's own word on a chain of coroutines, for programs of tests."""

import gc
import inspect

AWAITED = ("cr_await", "ag_await", "gi_yieldfrom")


def without_frame(awaitable):
    """What a dump shows of a coroutine of Cython, its type; None: it is another object."""
    kind = type(awaitable)
    if inspect.iscoroutine(awaitable) or inspect.isasyncgen(awaitable) or \
            inspect.isgenerator(awaitable) or not any(name in vars(kind) for name in AWAITED):
        return None
    # Up to 0.29 the types of Cython have no module.
    return "[%s]" % kind.__name__ if kind.__module__ == "builtins" else \
        "[%s.%s]" % (kind.__module__, kind.__name__)


def inner_of(awaitable):
    """What the object awaits, and its frame or None."""
    if inspect.iscoroutine(awaitable):
        return awaitable.cr_await, awaitable.cr_frame
    if inspect.isasyncgen(awaitable):
        return awaitable.ag_await, awaitable.ag_frame
    if inspect.isgenerator(awaitable):
        return awaitable.gi_yieldfrom, awaitable.gi_frame
    if without_frame(awaitable):
        return next(getattr(awaitable, name) for name in AWAITED if hasattr(awaitable, name)), None
    if type(awaitable).__name__ in ("coroutine_wrapper", "async_generator_asend",
                                    "async_generator_athrow", "anext_awaitable"):
        return [one for one in gc.get_referents(awaitable)
                if any(hasattr(one, name) for name in AWAITED) or
                type(one).__name__.startswith("async_generator")][0], None
    return None, None


def place(frame):
    code = frame.f_code
    return [getattr(code, "co_qualname", code.co_name), code.co_filename, frame.f_lineno]


def chain(coroutine):
    """The frames of a task as a dump shows them, innermost first."""
    frames = []
    while coroutine is not None:
        if without_frame(coroutine):
            frames.insert(0, [without_frame(coroutine), "", 0])
        coroutine, frame = inner_of(coroutine)
        if frame is not None:
            frames.insert(0, place(frame))
    return frames
