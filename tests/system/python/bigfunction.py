# SPDX-License-Identifier: Apache-2.0
"""A function of 3,000 lines, and one whose line table is longer than 100 KB."""
import ast
import os

import truth

LINES = 3000
STATEMENTS = 9000
GAP = 1003


def write_module(lines):
    """A module with a function of so many lines, each of which does the same."""
    body = ["def many(r):", "    x = 0"]
    body += ["    x += sum(r)"] * (lines - 3)
    body += ["    return x", ""]
    path = os.path.join(truth.OUT or ".", "many_%d.py" % LINES)
    temporary = "%s.%d" % (path, os.getpid())
    with open(temporary, "w", encoding="utf-8") as file:
        file.write("\n".join(body))
    os.rename(temporary, path)
    with open(path, encoding="utf-8") as file:
        space = {}
        exec(compile(file.read(), path, "exec"), space)
    return space["many"]


def far_apart(statements):
    """
    A function whose lines lie so far from each other that the line table gets long. Tracing
    takes forever in it: what is described has few of its statements.
    """
    tree = ast.parse("def sparse(r):\n" + "    r.count(5)\n" * statements)
    for number, statement in enumerate(tree.body[0].body):
        for node in ast.walk(statement):
            if hasattr(node, "lineno"):
                node.lineno = 10 + number * GAP
                node.end_lineno = node.lineno
                node.end_col_offset = 300
    space = {}
    code = compile(tree, "sparse.py", "exec")
    exec(code, space)
    inner = space["sparse"].__code__
    table = inner.co_linetable if hasattr(inner, "co_linetable") else inner.co_lnotab
    assert truth.DESCRIBING or len(table) > 100 << 10, len(table)
    return space["sparse"]


WHOLE = write_module(LINES)
# From 3.12 on tracing it takes longer than all else that is described.
MANY = write_module(30) if truth.DESCRIBING else WHOLE
truth.expect(MANY, sorted({line for line in truth.code_lines(WHOLE.__code__) if line}))
SPARSE = far_apart(truth.size(STATEMENTS))
truth.expect(SPARSE, [10 + number * GAP for number in range(STATEMENTS)])
R = list(range(20))


def work():
    MANY(R)
    SPARSE(R)


truth.direct("many", "sparse")
truth.run(work)
