# SPDX-License-Identifier: Apache-2.0
"""Three interpreters in one process, each in a thread of its own."""
import os
import sys
import threading
import time

import truth

SOURCE = '''
import sys
sys.path.insert(0, %r)
import truth
N = truth.size(300)
def spin(count):
    x = 1
    for i in range(count):
        x = (x * 3 + i) & 0xffff
    return x
def interpreter_%d():
    return spin(
        N)
truth.direct("spin", "interpreter_%d")
truth.run_inside(%d, interpreter_%d)
'''


def module():
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            return __import__(name)
        except ImportError:
            pass
    return None


def run_one(number):
    interpreters = module()
    one = interpreters.create()
    source = SOURCE % (os.path.dirname(os.path.abspath(__file__)), number, number,
                       number, number)
    (interpreters.exec if hasattr(interpreters, "exec") else interpreters.run_string)(one, source)


def main():
    truth.begin()
    threads = [threading.Thread(target=run_one, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    truth.PROCESS["cpu_begin"] = time.process_time()  # the work was done by the others
    truth.finish()


truth.outer("_bootstrap", "_bootstrap_inner", "run", "run_one")
if module() is None:
    sys.exit(77)
main()
