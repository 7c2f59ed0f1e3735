# SPDX-License-Identifier: Apache-2.0
"""
Code objects without end: each new one is made where the last one was freed. Name, file and line
of each belong together by their number, so that a stale name or line is seen.
"""
import truth

SOURCE = """
def f%07d(n):
    x = 1
    for i in range(n):
        x = (x * 3 + i) & 0xffff
    return x
f%07d(N)
"""
N = truth.size(400)
STATE = [0]


def fresh(number):
    text = "\n" * (truth.base_line(number) - 2) + SOURCE % (number, number)
    code = compile(text, "g%07d.py" % number, "exec")
    exec(code, {"N": N})


def lambdas(number):
    code = compile("\n" * (truth.base_line(number) - 1) + "lambda n: sum(range(n))",
                   "h%07d.py" % number, "eval")
    eval(code)(N * 5)


def work():
    STATE[0] += 1
    fresh(STATE[0])
    lambdas(STATE[0])


truth.numbered(r"f(?P<i>\d{7}) \(g(?P=i)\.py:(?P<line>\d+)\)")
truth.numbered(r"<module> \(g(?P<i>\d{7})\.py:(?P<line>\d+)\)")
truth.numbered(r"<(?:lambda|module)> \(h(?P<i>\d{7})\.py:(?P<line>\d+)\)")
truth.run(work)
