# SPDX-License-Identifier: Apache-2.0
"""What this Python (3.8 or later) says of its own line tables, for test_python_lines.c.

Compiles awkward code and a part of the standard library, and makes up tables that no compiler
writes. First line: "python VERSION". Then one line for each code object: first line, table
in hex (- if empty), and for its instructions in order COUNTxLINE, line 0 for none. Last line:
"end NR_CODES NR_INSTRUCTIONS". The line is that of PyCode_Addr2Line(); that it is asked in the
right units is checked against the dis module.
"""

import ast
import ctypes
import dis
import itertools
import os
import random
import sys
import types
import warnings

STDLIB_BYTES = 2500000
TABLE = "co_linetable" if sys.version_info >= (3, 10) else "co_lnotab"

AWKWARD = """
import os, \\
    sys

def decorator(*a):
    return lambda f: f

@decorator(
    1,
    2,
)
@decorator()
class C(
    object,
):
    '''doc'''
    x = [
        i
        for i in
        range(3)
        if i
    ]

    @property
    def p(
        self,
    ):

        return self.x

    async def a(self):
        async with self as s, \\
                self:
            async for i in self:
                yield await i
        return

def calls(f):
    return f(
        f(1,
          2),
        *f(
            3),
        key=f(
            4
        )
    ).x.y(
    )[
        f
    ]

def handlers():
    try:
        os.x
    except ValueError as e:
        print(e)
    except (TypeError,
            KeyError) as e:
        raise RuntimeError(
            'x'
        ) from e
    else:
        print()
    finally:
        print(
            1)
    for i in (1,
              2): pass
    while True:
        try:
            if handlers(): continue
            elif 1: break
        finally:
            print(2)
    with handlers() as a, handlers() \\
            as b:
        if a: return b
    with a:
        with b:
            pass
    return

def generators():
    x = yield
    y = yield from (
        i * j for i in x
        for j in i
    )
    try:
        yield (x,
               y)
    except GeneratorExit:
        pass
    return {
        k:
            v
        for k, v in
        y
    }

def dead():
    if 0:
        x = 1
    while 1:
        pass
    return 1
    return 2

def asserts(x):
    assert x, (
        'message'
    )
    if __debug__:
        print(x)
    assert x
    return x and (
        x or
        not x
    ) if x else \\
        x

def nested(a, b=lambda x:
           x + 1, *c, d: int
           = 3):
    def inner():
        nonlocal a
        global g
        a = g = (lambda: (
            a,
            b))
        del a
        return f'''{a
        } {b!r:>{
            c}}'''
    return (inner
            ( )
            )
x: int = (
    1
)
""" + "\n" * 400 + """
print(x,

      nested)
"""

SINCE = (
    ((3, 10), """
def match(x):
    match x:
        case [1, 2,
              *rest] if rest:
            return 1
        case {'a': 1,
              **more} | {'b':
                         more}:
            return 2
        case C(p=
               1) as c:
            pass
        case _:
            return (
                3)
    with (open() as a,
          open() as b):
        pass
"""),
    ((3, 11), """
def groups():
    try:
        groups()
    except* ValueError as e:
        print(e)
    except* (TypeError,
             OSError):
        raise
    finally:
        return
"""),
    ((3, 12), """
type X[T:
       int] = list[
    T
]
class G[T]:
    def m[U](self, x: U
             ) -> T:
        return f'{x + f"{
            x}"
        }'
def inlined():
    return [
        [j
         for j in i]
        for i in
        inlined()
    ], {k for k in
        x}
"""),
    ((3, 14), """
def template(x):
    return t'{x} {
        x + 1}'
def groups(x) -> (
        unknown):
    try:
        pass
    except ValueError, TypeError:
        pass
"""),
)


def generated():
    """Functions that are longer, wider or with more jumps than people write."""
    yield "def f(x):\n" + "".join(f"    x = x(\n{i},\n x)\n" for i in range(1000))
    yield "def f(x):\n" + "".join("    x += 1\n" + "\n" * (i % 300) for i in range(500))
    yield "x = [\n" + "".join(f" f({i},\n g),\n" for i in range(1500)) + "]\n"
    yield "x = " + "(" * 50 + "x" + "\n(\n)\n)" * 50 + "\n"
    yield "x(" + " ,".join(f"a{i}.b" for i in range(200)) + ")\n"
    yield "\n" * 70000 + "def f():\n    return (1,\n" + "\n" * 70000 + "x)\n"
    yield "if x:\n" + " y = 1\n" * 3000 + "else:\n" + " y(\n1,\ny)\n" * 200
    yield ""
    yield "x"


def scattered(source):
    """The same program, its parts on lines far away from each other."""
    rng = random.Random(1)
    # One far step takes a table of megabytes in the older formats.
    for reach in (3, 200, 40000, 1 << 29 if sys.version_info >= (3, 11) else 3000):
        tree = ast.parse(source)
        for node in ast.walk(tree):
            if hasattr(node, "lineno"):
                node.lineno = node.end_lineno = rng.randint(1, reach)
                node.col_offset = node.end_col_offset = rng.choice((0, 1, 90, 5000))
        yield compile(tree, "scattered", "exec")


def varint(value):
    out = bytearray()
    while value > 63:
        out.append(value & 63 | 64)
        value >>= 6
    return bytes(out) + bytes([value])


def location(rng, reach):
    form, length = rng.randint(0, 15), rng.randint(0, 7)
    delta = rng.randint(-reach, reach)
    lines = varint(-delta << 1 | 1 if delta < 0 else delta << 1)
    if form < 10:
        rest = bytes([rng.randint(0, 127)])
    elif form < 13:
        rest = bytes([rng.randint(0, 127), rng.randint(0, 127)])
    elif form == 13:
        rest = lines
    elif form == 14:
        rest = lines + b"".join(varint(rng.randint(0, 300)) for _ in range(3))
    else:
        rest = b""
    return bytes([128 | form << 3 | length]) + rest


def pair(rng, first):
    length = rng.choice((0, 2, 2, 4, 30, 254) if first else (0, 1, 2, 2, 4, 30, 254, 255))
    lines = rng.choice((0, 1, 2, 127, 128, 129, 255, rng.randint(0, 255)))
    return bytes([length, lines])


def made_up():
    """Tables of steps that follow no program, some of which end before the code does."""
    code = compile("x = 1\n" * 300, "made_up", "exec")
    rng = random.Random(2)
    for number in range(300):
        steps = rng.randint(0, 200)
        if sys.version_info >= (3, 11):
            reach = rng.choice((10, 100, 3000, 1 << 20))
            table = b"".join(location(rng, reach) for _ in range(steps))
        elif sys.version_info >= (3, 10):
            # It may not end with an empty range.
            table = b"".join(pair(rng, True) for _ in range(steps)) + b"\x02\x01"
        else:
            table = b"".join(pair(rng, False) for _ in range(steps))
        yield code.replace(**{TABLE: table, "co_firstlineno": 500000000 + number})


def stdlib_files():
    """A part of the standard library, the same in every run, of files of all kinds."""
    folder = os.path.dirname(os.__file__)
    names = []
    for where, folders, files in os.walk(folder):
        folders[:] = [f for f in folders if f not in ("site-packages", "dist-packages", "test")]
        names += [os.path.join(where, f) for f in files if f.endswith(".py")]
    names = sorted(filter(os.path.isfile, names))
    random.Random(3).shuffle(names)
    left = STDLIB_BYTES
    for name in names:
        size = os.path.getsize(name)
        if size <= left:
            left -= size
            with open(name, "rb") as file:
                yield name, file.read()


def modules():
    for optimize in (0, 2):
        yield compile(AWKWARD, "awkward", "exec", optimize=optimize)
    for since, source in SINCE:
        if sys.version_info >= since:
            yield compile(source, "since", "exec")
    for source in generated():
        yield compile(source, "generated", "exec")
    yield from scattered(AWKWARD)
    yield from made_up()
    for name, source in stdlib_files():
        try:
            yield compile(source, name, "exec", dont_inherit=True)
        except (SyntaxError, UnicodeDecodeError, ValueError):
            pass  # meant to be so


def nested_codes(code):
    todo = [code]
    while todo:
        code = todo.pop()
        yield code
        todo += [const for const in code.co_consts if isinstance(const, types.CodeType)]


def lines_of_dis(code, nr):
    lines = [0] * nr
    if hasattr(code, "co_lines"):
        for start, end, line in code.co_lines():
            end = min(end, 2 * nr)
            lines[start // 2:end // 2] = [line or 0] * (end // 2 - start // 2)
        return lines
    for start, line in dis.findlinestarts(code):
        # One that starts inside an instruction is that of the next one.
        start = (start + 1) // 2
        lines[start:] = [line] * (nr - start)
    return lines


def main():
    warnings.simplefilter("ignore")
    line_of = ctypes.pythonapi.PyCode_Addr2Line
    line_of.argtypes, line_of.restype = [ctypes.py_object, ctypes.c_int], ctypes.c_int
    nr_codes = nr_instructions = 0
    print("python", sys.version.split()[0])
    for module in modules():
        for code in nested_codes(module):
            nr = len(code.co_code) // 2
            lines = [max(line_of(code, 2 * i), 0) for i in range(nr)]
            if lines != lines_of_dis(code, nr):
                sys.exit(f"{code}: PyCode_Addr2Line() and dis disagree")
            runs = (f"{len(list(group))}x{line}" for line, group in itertools.groupby(lines))
            print(code.co_firstlineno, getattr(code, TABLE).hex() or "-", *runs)
            nr_codes += 1
            nr_instructions += nr
    print("end", nr_codes, nr_instructions)


if __name__ == "__main__":
    main()
