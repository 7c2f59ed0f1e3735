# SPDX-License-Identifier: Apache-2.0
"""The time line of memory -o FILE.html: what was held when, and the flame graph that follows it in a browser."""

import json
import os
import re
import shutil
import subprocess
import time

from daemons import Daemon
from harness import Skip, check, test
from test_memory import MIB, Memory, in_c, rss_anon

PAIRED = True
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
LEFT, RIGHT = 62, 12  # of the chart in timeline.js

# Clicks, drags and presses keys as a user does, and notes what the page says after each.
DRIVER = """
<script>
const chart = document.getElementById("chart"), box = chart.getBoundingClientRect(), said = [];
const pointer = (name, x) => chart.dispatchEvent(new PointerEvent(name, { clientX: box.left + x, clientY: box.top + 60, bubbles: true }));
const key = (target, key, shiftKey) => target.dispatchEvent(new KeyboardEvent("keydown", { key, shiftKey, bubbles: true }));
const x = part => %d + part * (box.width - %d);
chart.setPointerCapture = () => {};
function note() {
	for (let i = 0; i < 40; i++) // to the root of the flame graph
		key(document, i ? "ArrowUp" : "ArrowDown");
	said.push([document.getElementById("moment").textContent, document.getElementById("detail").textContent, location.hash]);
}
note();
for (const part of %s) {
	pointer("pointerdown", x(part));
	pointer("pointerup", x(part));
	note();
}
pointer("pointerdown", x(%s));
pointer("pointermove", x(%s));
pointer("pointerup", x(%s));
note();
pointer("pointerleave", 0);
key(document, "w");
note();
key(document, "p");
note();
key(chart, "Home");
key(chart, "End", true);
note();
document.getElementById("list").click();
said.push([document.querySelector("#table tbody td").textContent, document.querySelector("#table tbody tr").lastChild.textContent, ""]);
key(chart, "Escape");
document.getElementById("list").click();
note();
const result = document.createElement("pre");
result.id = "result";
result.textContent = JSON.stringify(said);
document.body.append(result);
</script>
"""


class Page:
    """The data of the time line."""

    def __init__(self, text):
        self.text = text
        data = json.loads(re.search(r'id="data">\n(.*?)</script>', text, re.DOTALL)[1])
        self.line = data["timeline"]
        self.seconds = [ms / 1000 for ms in self.line["ms"]]
        self.total = [kib << 10 for kib in self.line["kib"]]
        self.bands = {}
        for _, band, *changes in self.line["series"]:
            values = [0] * len(self.seconds)
            for at, value in zip(changes[::2], changes[1::2]):
                values[at:] = [value << 10] * (len(values) - at)
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
    check(len(page.seconds) >= 12 and page.seconds == sorted(page.seconds), "moments: %s" % page.seconds)
    context.note("%d moments, %d stacks, %d KiB of HTML, peak %.1f MiB of %.1f" % (
        len(page.seconds), len(page.line["series"]), len(page.text) >> 10, page.total[page.line["peak"]] / MIB,
        max(anon) / MIB))


def in_browser(context, page, clicks, drag):
    """[text of the time line, text of the flame graph's root, address] after each action of DRIVER."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not browser:
        raise Skip("no Chromium")
    driver = DRIVER % (LEFT, LEFT + RIGHT, [page.part(at) for at in clicks],
                       *map(page.part, (drag[0], drag[1], drag[1])))
    with open(context.path("driven.html"), "w", encoding="utf-8") as file:
        file.write(page.text.replace("</body>", driver + "</body>"))
    done = subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,800",
                           "--user-data-dir=" + context.path("browser"), "--virtual-time-budget=3000", "--dump-dom",
                           "file://" + context.path("driven.html")], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=60, check=False)
    found = re.search(r'<pre id="result">(.*?)</pre>', done.stdout, re.DOTALL)
    check(found, "the page failed: %s" % done.stderr[-2000:])
    return json.loads(found[1].replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">"))


def mib(text):
    """The first amount in a text."""
    found = re.search(r"([\d.]+) (KiB|MiB|GiB|B)\b", text)
    check(found, text)
    return float(found[1]) * {"B": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}[found[2]]


@test()
def browser(context):
    """A click shows a moment, a drag what grew meanwhile, keys the peak and the whole; the address keeps it."""
    page, middles, anon = two_phases(context)
    first, second = (page.at(middle) for middle in middles)
    whole, one, two, range_, back, peak, all_, row, last = in_browser(context, page, [first, second], (first, second))
    check("held at the end" in whole[0] and whole[2] in ("", "#"), "%s" % whole)
    drift = 0.03 * max(anon) + MIB
    for said, true in ((whole, anon[1]), (one, anon[0]), (two, anon[1]), (back, anon[1]), (peak, max(anon)), (last, anon[1])):
        check(said[1].startswith("all (") and abs(mib(said[1]) - true) <= drift, "%s, not %.1f MiB" % (said, true / MIB))
    check(one[2] == "#m=%d" % first and abs(mib(one[0]) - anon[0]) < MIB, "%s" % one)
    check("what grew" in range_[0] and range_[2] == "#m=%d-%d" % (first, second) and
          abs(mib(range_[1]) - 128 * MIB) <= drift, "%s" % range_)
    check("+128." in all_[0] or "+127." in all_[0] or "+129." in all_[0], "%s" % all_)
    check("the peak" in peak[0] and peak[2] == "#m=%d" % page.line["peak"], "%s" % peak)
    check(row[1] == "zeroed" and "held at the end" in back[0] and "held at the end" in last[0], "%s %s %s" % (row, back, last))
    context.note("%s | %s" % (one[0], range_[0]))


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
