# SPDX-License-Identifier: Apache-2.0
"""Constructors, properties, operators and descriptors."""
import truth

N = truth.size(100)


def spin(count):
    x = 1
    for i in range(count):
        x = (x * 3 + i) & 0xffff
    return x


class Base:
    def __init__(self, number):
        self.number = number
        self.value = spin(N)


class Derived(Base):
    def __init__(self, number):
        super().__init__(
            number
        )
        self.more = spin(N)

    @property
    def prop(self):
        return spin(N) + self.number

    @prop.setter
    def prop(self, value):
        self.number = value + spin(N)

    def __getitem__(self, key):
        return spin(N) + key

    def __setitem__(self, key, value):
        spin(N)

    def __add__(self, other):
        return spin(N) + other

    def __radd__(self, other):
        return spin(N) + other

    def __eq__(self, other):
        return spin(N) == 0 and self is other

    def __hash__(self):
        return spin(N)

    def __len__(self):
        return spin(N) & 7

    def __bool__(self):
        return spin(N) != -1

    def __contains__(self, key):
        return spin(N) == key

    def __iter__(self):
        self.left = 3
        return self

    def __next__(self):
        self.left -= 1
        spin(N)
        if not self.left:
            raise StopIteration
        return self.left

    def __getattr__(self, name):
        return spin(N), name

    def __str__(self):
        return str(spin(N))


class Made:
    def __new__(cls, *args):
        spin(N)
        return super().__new__(cls)

    def __init__(self, first, second):
        self.both = spin(N), first, second


class Descriptor:
    def __get__(self, instance, owner):
        return spin(N)


class Slots:
    __slots__ = ("a",)
    described = Descriptor()

    def __init__(self):
        self.a = spin(N)


class Meta(type):
    def __call__(cls, *args):
        spin(N)
        return super().__call__(*args)


class WithMeta(metaclass=Meta):
    def __init__(self):
        self.a = spin(N)


def make(count):
    for i in range(count):
        Base(i)


def work():
    make(3)
    one = Derived(
        1
    )
    one.prop += 1
    one[1] = one[2]
    one + 1
    1 + one
    one == 1
    {one: 1}
    len(one)
    if one:
        1 in one
    for _ in one:
        pass
    one.nothing
    str(one)
    "%s" % one
    Made(1, 2)
    Slots().described
    WithMeta()


truth.direct("make", "work")
truth.run(work)
