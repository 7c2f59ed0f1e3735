# SPDX-License-Identifier: Apache-2.0
"""The flame graph that follows a time line, in Chromium: tests in the form of tests/system, for tests/heavy/browser."""

import json
import re
import subprocess

from harness import check, test
from test_gpu_memory_timeline import recorded
from test_memory import MIB
from test_memory_timeline import two_phases

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
	said.push([document.getElementById("moment").textContent, document.getElementById("detail").textContent, location.hash,
		document.getElementById("legend").textContent]);
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



def in_browser(context, page, clicks, drag):
    """[text of the time line, text of the flame graph's root, address, legend] after each action of DRIVER."""
    driver = DRIVER % (LEFT, LEFT + RIGHT, [page.part(at) for at in clicks],
                       *map(page.part, (drag[0], drag[1], drag[1])))
    with open(context.path("driven.html"), "w", encoding="utf-8") as file:
        file.write(page.text.replace("</body>", driver + "</body>"))
    done = subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,800",
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
def of_memory(context):
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
def of_gpu_memory(context):
    """The whole run is calls; moments and ranges are bytes of the GPU, and the whole is calls again."""
    truth, page, start_ns = recorded(context, "phases", "--tensors")
    first, last = (page.at((event["time_ns"] - start_ns) / 1e9 + 0.3) for event in
                   (truth["events"][0], truth["events"][-1]))
    whole, one, two, range_, back, peak, all_, row, end = in_browser(context, page, [first, last], (first, last))
    for said in (whole, back, end):
        check(said[1].startswith("all (") and "calls)" in said[1] and "GPU memory. The graph: calls" in said[0], str(said))
        check("GPU call" in said[3] and "call or label" not in said[3], str(said))
    for said, true in ((one, 64), (two, 256), (range_, 256), (peak, 256)):
        check(said[1].startswith("all (%d.0 MiB)" % true), "%s, not %d MiB" % (said, true))
        check("call or label" in said[3] and "GPU call" not in said[3], str(said))
    check("what grew" in range_[0] and "+192.0 MiB" in range_[0] and "the peak" in peak[0], "%s %s" % (range_, peak))
    check("+256.0 MiB" in all_[0] and row[1], "%s %s" % (all_, row))
    context.note("%s | %s | %s" % (whole[1], one[1], range_[0]))
