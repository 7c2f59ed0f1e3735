# SPDX-License-Identifier: Apache-2.0
"""The time line of memory -o FILE.html: what was held when. tests/heavy/browser looks at it in a browser."""

import json
import os
import re
import statistics
import time

from daemons import Daemon
from harness import check, test
from test_memory import MIB, Memory, in_c, rss_anon

LIGHT = True

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def paths_of(data):
    """The frames of each run, outermost first, of the string that html.c describes."""
    digits = map(DIGITS.index, data["stacks"])
    path, paths = [], []

    def number(value=0, scale=1):
        for digit in digits:
            value += (digit & 31) * scale
            scale *= 32
            if digit < 32:
                return value
        return None

    while (shared := number()) is not None:
        path = path[:shared] + [data["names"][number()] for _ in range(number())]
        number()  # the count
        paths.append(path)
    return paths


class Page:
    """The data of the time line."""

    def __init__(self, text):
        self.text = text
        data = json.loads(re.search(r'id="data">\n(.*?)</script>', text, re.DOTALL)[1])
        self.line = data["timeline"]
        self.seconds = [ms / 1000 for ms in self.line["ms"]]
        self.total = [kib << 10 for kib in self.line["kib"]]
        self.bands = {}
        self.stacks = []  # frames, and bytes at each moment
        paths = paths_of(data)
        for run, band, *changes in self.line["series"]:
            values = [0] * len(self.seconds)
            for at, value in zip(changes[::2], changes[1::2]):
                values[at:] = [value << 10] * (len(values) - at)
            self.stacks.append((paths[run], values))
            name = (self.line["bands"] + ["other"])[band]
            self.bands[name] = [a + b for a, b in zip(values, self.bands.get(name, [0] * len(values)))]

    def at(self, seconds):
        """The index of the nearest moment."""
        return min(range(len(self.seconds)), key=lambda i: abs(self.seconds[i] - seconds))

    def part(self, at):
        """Its place in the chart, 0 to 1."""
        return (self.seconds[at] - self.seconds[0]) / (self.seconds[-1] - self.seconds[0])


def near(found, true, what):
    check(abs(found - true) <= 0.05 * true, "%s: %.2f MiB, not %.2f" % (what, found / MIB, true / MIB))


def two_phases(context, *args):
    """64 MiB in big for 2 s, freed again, then 128 MiB in zeroed; the page, and the middles of both."""
    holder = in_c(context)
    memory = Memory(context, "-p", holder.pid, "-o", "x.html", *args)
    begin, middles, anon = time.monotonic(), [], []
    time.sleep(0.8)
    for function, mib in (("big", 64), ("zeroed", 128)):
        holder.run(function, mib)
        time.sleep(1)
        middles.append(time.monotonic() - begin)
        anon.append(rss_anon(holder.pid))
        time.sleep(1)
        if function == "big":
            holder.run("drop")
            time.sleep(0.8)
    memory.end()
    return Page(context.text("x.html")), middles, anon


@test()
def moments(context):
    """The series of the page: each function's bytes when it held them, the sums, and the peak."""
    page, middles, anon = two_phases(context)
    first, second = (page.at(middle) for middle in middles)
    near(page.bands["big"][first], 64 * MIB, "big, held")
    near(page.bands["zeroed"][second], 128 * MIB, "zeroed, held")
    check(page.bands["zeroed"][first] == page.bands["big"][second] == 0, "held at the wrong time: %s" % page.bands)
    near(page.total[first], anon[0], "RssAnon, first")
    near(page.total[page.line["peak"]], max(anon), "the peak")
    check(max(page.total) == page.total[page.line["peak"]], "a larger moment")
    for at, total in enumerate(page.total):
        found = sum(values[at] for values in page.bands.values())
        check(abs(found - total) <= 1024 * (len(page.line["series"]) + 1), "moment %d: %d of %d" % (at, found, total))
        drift = page.bands.get("[drift]", [0] * len(page.total))[at]
        # While a look counts, pages may come.
        check(abs(drift) <= 0.03 * total + MIB or 0 < at < len(page.total) - 1 and
              abs(page.total[at + 1] - page.total[at - 1]) > 8 * MIB, "drift %d of %d" % (drift, total))
    gaps = [after - before for before, after in zip(page.seconds, page.seconds[1:])]
    check(statistics.quantiles(gaps, n=4)[0] <= 0.3, "gaps between moments: %s" % gaps)
    check(len(page.seconds) >= 12 and page.seconds == sorted(page.seconds), "moments: %s" % page.seconds)
    context.note("%d moments, %d stacks, %d KiB of HTML, peak %.1f MiB of %.1f" % (
        len(page.seconds), len(page.line["series"]), len(page.text) >> 10, page.total[page.line["peak"]] / MIB,
        max(anon) / MIB))


@test()
def beside_samples(context):
    """record --memory has it, too; without HTML and in the profile of the CPU there is none."""
    holder = in_c(context)
    recording = context.start("record", "--memory", "-F", 499, "-p", holder.pid, "-d", 3, "-o", "y.html", "-o", "y.pb.gz")
    context.sampling(recording)
    holder.run("big", 96)
    time.sleep(1)
    holder.run("drop")
    context.finish(recording, 60).expect(0)
    page = Page(context.text("y.memory.html"))
    check(max(page.bands["big"]) >= 64 * MIB and page.bands["big"][-1] == 0, "%s" % page.bands)
    check('id="chart"' not in context.text("y.html"), "a time line of memory in the profile of the CPU")


@test()
def intervals(context):
    """daemon --memory: each interval has a time line of its own."""
    holder = in_c(context)
    daemon = Daemon(context, "--memory", interval="2s")
    daemon.wait("sampling")
    holder.run("big", 96)
    done = len(daemon.said("profile written"))
    name = daemon.wait("profile written", done + 2)[done + 1]["file"].replace("cpu-", "memory-") + ".html"
    with open(os.path.join(daemon.output, name), encoding="utf-8") as file:
        page = Page(file.read())
    check(daemon.end() == 0, "it failed")
    check(0 <= page.seconds[0] <= 1 and 1 <= page.seconds[-1] <= 4, "moments: %s" % page.seconds)
    # 512 KiB per sample: 192 samples of 96 MiB.
    check(all(abs(held - 96 * MIB) < 28 * MIB for held in page.bands["big"]), "%s" % page.bands["big"])
