# SPDX-License-Identifier: Apache-2.0
"""The interpreter's own word on a chain of coroutines, for tasks.py and awaiters.py."""

import gc
import inspect


def inner_of(awaitable):
    """What the object awaits, and its frame or None."""
    if inspect.iscoroutine(awaitable):
        return awaitable.cr_await, awaitable.cr_frame
    if inspect.isasyncgen(awaitable):
        return awaitable.ag_await, awaitable.ag_frame
    if inspect.isgenerator(awaitable):
        return awaitable.gi_yieldfrom, awaitable.gi_frame
    if type(awaitable).__name__ in ("coroutine_wrapper", "async_generator_asend",
                                    "async_generator_athrow", "anext_awaitable"):
        return [one for one in gc.get_referents(awaitable)
                if inspect.iscoroutine(one) or inspect.isasyncgen(one) or
                type(one).__name__.startswith("async_generator")][0], None
    return None, None
