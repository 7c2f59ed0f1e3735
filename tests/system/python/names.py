# SPDX-License-Identifier: Apache-2.0
"""Names in Latin-1, UCS-2 and UCS-4, very long ones, and a file name of 4 KB."""
import truth

N = truth.size(300)
LONG = "l" + "o" * 2990 + "ng"
FILE = "/nowhere/" + "/".join("folder%03d" % i for i in range(400)) + "/end.py"


def spin(count):
    x = 1
    for i in range(count):
        x = (x * 3 + i) & 0xffff
    return x


def make(name, path):
    space = {"spin": spin, "N": N}
    exec(compile("def %s():\n    return spin(N)\n" % name, path, "exec"), space)
    return space[name]


FUNCTIONS = [
    make("caf\u00e9_cr\u00e8me", "caf\u00e9.py"),
    make("\u6570\u3048\u308b", "\u6570\u3048\u308b.py"),
    make("\U00010400\U00010429", "\U00010400.py"),
    make("\u0431\u044b\u0441\u0442\u0440\u043e", "a b.py"),
    make(LONG, "long.py"),
    make("far_away", FILE),
    make("\U00010400" * 900, "x" * 200 + ".py"),
    make("semicolon", "semi;colon\nline.py"),
]


class Élève:
    def étudier(self):
        return spin(N)


def work():
    for function in FUNCTIONS:
        function()
    Élève().étudier()


truth.direct("spin", "work")
for known in FUNCTIONS:
    if len(known.__name__) < 100:
        truth.share(known.__name__, 100 / (len(FUNCTIONS) + 1), 4)
truth.run(work)
