# SPDX-License-Identifier: Apache-2.0
"""Code that was imported from an archive."""
import os
import sys
import zipfile

import truth

N = truth.size(300)
MODULE = '''
def spin(count):
    x = 1
    for i in range(count):
        x = (x * 3 + i) & 0xffff
    return x


def inside(count):
    return spin(
        count)
'''


def archive():
    path = os.path.join(truth.OUT or ".", "%d.zip" % os.getpid())
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("packed/__init__.py", "")
        file.writestr("packed/deep/__init__.py", "")
        file.writestr("packed/deep/code.py", MODULE)
    return path


sys.path.insert(0, archive())
from packed.deep import code  # noqa: E402 pylint: disable=wrong-import-position


def work():
    code.inside(N)


truth.direct("spin", "inside", "work")
truth.run(work)
