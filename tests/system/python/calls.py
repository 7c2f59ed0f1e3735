# SPDX-License-Identifier: Apache-2.0
"""Every way of calling: keywords, stars, decorators, lambdas, partial, methods, closures."""
import functools

import truth

N = truth.size(150)


def spin(count=N, *, scale=3):
    x = 1
    for i in range(count):
        x = (x * scale + i) & 0xffff
    return x


def traced(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args,
                        **kwargs)
    return wrapper


def twice(number):
    def decorate(function):
        def inner(
                *args):
            for _ in range(number):
                value = function(*args)
            return value
        return inner
    return decorate


@traced
@twice(2)
@traced
def decorated(count):
    return spin(count)


def closure(base):
    def first():
        def second():
            return base + spin(
                count=N,
                scale=5,
            )
        return second()
    return first()


class Thing:
    @staticmethod
    def static(count):
        return spin(count)

    @classmethod
    def of_class(cls, count):
        return cls.static(count)

    def method(self, count, *, extra):
        return self.of_class(
            count
        ) + extra

    def __call__(self, count):
        return self.method(count, extra=1)


LAMBDA = lambda n: spin(n)  # noqa: E731
NESTED = lambda n: (lambda m: LAMBDA(
    m))(n)  # noqa: E731
PARTIAL = functools.partial(spin, scale=9)


@functools.lru_cache(maxsize=1)
def cached(number):
    return spin(N) + number


def work():
    thing = Thing()
    decorated(N)
    closure(1)
    thing(N)
    thing.method(
        N,
        extra=2,
    )
    NESTED(N)
    PARTIAL(N)
    bound = thing.method
    bound(N, extra=3)
    cached(1)
    cached(2)
    spin(*[N], **{"scale": 7})


truth.direct("closure", "closure.<locals>.first", "closure.<locals>.first.<locals>.second")
truth.run(work)
