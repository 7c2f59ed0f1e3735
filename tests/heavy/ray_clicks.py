# SPDX-License-Identifier: Apache-2.0
"""Clicks the buttons of Ray's dashboard in Chromium. argv: its address, its token, folders for Chromium and for pictures.

A line of JSON for each button: what was opened, and the text that it shows.
"""

import asyncio
import json
import os
import sys

from chromium import Chromium

# The elements that a user sees with exactly this text, innermost first; blanks on the page may be of another kind.
BY_TEXT = """[...document.querySelectorAll(%s)].filter(e => e.offsetParent &&
    e.textContent.replace(/\\s/g, " ").trim() == %s).reverse()[0]"""
ROW = """[...document.querySelectorAll("tr")].find(e => e.textContent.includes(%s))"""
# A field of the dialog by its label, and one of its options.
FIELD = """[...document.querySelectorAll("[role=dialog] .MuiFormControl-root")].find(e => e.textContent.includes(%s))"""


def by_text(kinds, text):
    return BY_TEXT % (json.dumps(kinds), json.dumps(text))


async def log_in(tab, token):
    field = 'document.querySelector("[role=dialog] input")'
    if not await tab.wait_for("!!" + field, 60):
        raise RuntimeError("the page asks for no token: " + (await tab.run("document.body.innerText"))[:500])
    await tab.click(field)
    await tab.ask("Input.insertText", text=token)
    await asyncio.sleep(0.5)
    await tab.click(by_text("button", "Submit"))
    await tab.wait_for("!document.querySelector('[role=dialog]')", 60)


async def press(tab, row, button, options):
    """Opens the dialog of a button in a row of a table, sets its options, and submits it. The page that opens."""
    there = ROW % json.dumps(row)
    if not await tab.wait_for("!!%s && %s.textContent.replace(/\\s/g, ' ').includes(%s)" % (there, there, json.dumps(button)), 120):
        raise RuntimeError("no row with %s: %s" % (row, (await tab.run("document.body.innerText"))[:3000]))
    inside = "[...%s.querySelectorAll('a,button,div,span')].filter(e => e.textContent.replace(/\\s/g, ' ').trim() == %s).reverse()[0]" % (
        there, json.dumps(button))
    for _ in range(3):  # the page draws its table anew from time to time, and a click in between is lost
        await tab.click(inside)
        if await tab.wait_for("!!document.querySelector('[role=dialog]')", 20):
            break
    else:
        raise RuntimeError("%s opens no dialog" % button)
    await asyncio.sleep(0.5)
    for label, value in options.items():
        if value is True:
            await tab.click("[...document.querySelectorAll('[role=dialog] label')].find(e => e.textContent.startsWith(%s))" %
                            json.dumps(label))
        elif isinstance(value, int):
            await tab.click((FIELD % json.dumps(label)) + ".querySelector('input')")
            await tab.run((FIELD % json.dumps(label)) + ".querySelector('input').select()")
            await tab.ask("Input.insertText", text=str(value))
        else:
            await tab.click("document.querySelector('[role=dialog] [role=combobox], [role=dialog] .MuiSelect-select')")
            await tab.wait_for("!!" + by_text("[role=option]", value), 10)
            await asyncio.sleep(0.5)  # the list moves while it opens
            await tab.click(by_text("[role=option]", value))
            if not await tab.wait_for("document.querySelector('[role=dialog]').innerText.includes(%s)" % json.dumps(value), 10):
                raise RuntimeError("%s cannot be chosen" % value)
        await asyncio.sleep(0.5)
    return await tab.run("document.querySelector('[role=dialog]').innerText")


async def submit(browser, tab, label):
    before = await browser.pages()
    found = by_text("[role=dialog] a,[role=dialog] button", label)
    if not await tab.wait_for("!!" + found, 10):
        raise RuntimeError("no button " + label)
    await tab.click(found)
    return await browser.opened(before)


async def one(browser, tab, folder, name, row, button, label, options):
    dialog = await press(tab, row, button, options)
    await tab.picture(os.path.join(folder, name + "-dialog.png"))
    page = await submit(browser, tab, label)
    if page is None:
        raise RuntimeError(button + " opens no page")
    await page.ask("Emulation.setDeviceMetricsOverride", width=1400, height=900, deviceScaleFactor=1, mobile=False)
    await page.wait_for("location.href != 'about:blank' && document.readyState == 'complete'", 150)
    await asyncio.sleep(2)
    await page.picture(os.path.join(folder, name + ".png"))
    text = await page.run("document.documentElement.textContent")
    said = {"name": name, "dialog": dialog, "url": await page.run("location.href"), "type": await page.run("document.contentType"),
            "title": await page.run("document.title"), "text": text[:200000]}
    print(json.dumps(said), flush=True)
    await browser.ask("Target.closeTarget", targetId=page.target)
    await tab.ask("Input.dispatchKeyEvent", type="keyDown", key="Escape", code="Escape", windowsVirtualKeyCode=27)
    await tab.wait_for("!document.querySelector('[role=dialog]')", 20)


# Of the page of the cluster: a row for each worker below that of its node.
WORKERS = (
    ("worker-stack", "ray::Sleeper", "Stack Trace", "Get stack trace", {}),
    ("worker-flamegraph", "ray::Trainer", "CPU Flame Graph", "Generate report", {"Duration": 3, "Idle": True}),
    ("worker-memory", "ray::Trainer", "Memory Profiling", "Generate report", {"Duration": 5}),
)
BUTTONS = (
    ("stack", "Sleeper", "Stack Trace", "Get stack trace", {}),
    ("stack-native", "Sleeper", "Stack Trace", "Get stack trace", {"Native": True}),
    ("flamegraph", "Trainer", "CPU Flame Graph", "Generate report", {"Duration": 3, "Idle": True}),
    ("raw", "Trainer", "CPU Flame Graph", "Generate report", {"Duration": 3, "Format": "Raw", "Idle": True}),
    ("speedscope", "Trainer", "CPU Flame Graph", "Generate report", {"Duration": 3, "Format": "Speedscope", "Idle": True}),
    ("memory", "Trainer", "Memory Profiling", "Generate report", {"Duration": 5}),
    ("memory-table", "Trainer", "Memory Profiling", "Generate report", {"Duration": 5, "Format": "Table", "Leaks": True}),
)


async def all_of(browser, tab, folder, buttons):
    for button in buttons:
        try:
            await one(browser, tab, folder, *button)
        except Exception:
            await tab.picture(os.path.join(folder, button[0] + "-failed.png"))
            raise


async def workers_open(tab):
    """Shows the workers of the first node."""
    arrow = "document.querySelector('tbody tr td button, tbody tr td svg')"
    if not await tab.wait_for("!!" + arrow, 60):
        raise RuntimeError("no node: " + (await tab.run("document.body.innerText"))[:3000])
    for _ in range(3):
        await tab.click(arrow)
        if await tab.wait_for("document.body.innerText.includes('ray::')", 10):
            return
    raise RuntimeError("no workers: " + (await tab.run("document.body.innerText"))[:3000])


async def main():
    address, token, scratch, folder, *names = sys.argv[1:]
    async with Chromium(os.path.join(scratch, "profile")) as browser:
        tab = await browser.open(address + "/#/actors")
        await log_in(tab, token)
        await tab.ask("Emulation.setDeviceMetricsOverride", width=2400, height=900, deviceScaleFactor=1, mobile=False)
        await all_of(browser, tab, folder, [button for button in BUTTONS if not names or button[0] in names])
        await tab.run("location.hash = '#/cluster'")
        await workers_open(tab)
        await all_of(browser, tab, folder, [button for button in WORKERS if not names or button[0] in names])


asyncio.run(main())
