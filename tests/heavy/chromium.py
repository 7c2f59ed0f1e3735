# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium that is driven by the DevTools protocol. It runs in the environment that has Ray, for its aiohttp."""

import asyncio
import base64
import contextlib
import json
import os
import subprocess
import time

import aiohttp


class Tab:
    """A page. run() evaluates an expression of JavaScript, which may be a promise."""

    def __init__(self, browser, session, target):
        self.browser, self.session, self.target = browser, session, target

    async def ask(self, method, **parameters):
        return await self.browser.ask(method, session=self.session, **parameters)

    async def run(self, expression):
        done = await self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            raise RuntimeError("%s: %s" % (expression[:200], json.dumps(done["exceptionDetails"])[:500]))
        return done["result"].get("value")

    async def wait_for(self, expression, seconds=60):
        """Its value, once it is true; None: it has not become so."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(RuntimeError):  # while a page is replaced
                value = await self.run(expression)
                if value:
                    return value
            await asyncio.sleep(0.3)
        return None

    async def click(self, expression):
        """Presses the mouse button over an element, as a user does: a click by script opens no window."""
        box = await self.run("(() => { const e = %s; e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
                             "return [b.x + b.width / 2, b.y + b.height / 2]; })()" % expression)
        for kind in ("mousePressed", "mouseReleased"):
            await self.ask("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    async def picture(self, path):
        done = await self.ask("Page.captureScreenshot", format="png")
        with open(path, "wb") as file:
            file.write(base64.b64decode(done["data"]))


class Chromium:
    """async with Chromium(folder) as browser"""

    def __init__(self, folder):
        self.folder = folder
        self.number = 0
        self.answers = {}

    async def __aenter__(self):
        os.makedirs(self.folder)
        self.process = subprocess.Popen(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,900", "--remote-debugging-port=0",
             "--disable-popup-blocking", "--user-data-dir=" + self.folder, "about:blank"], stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        port = os.path.join(self.folder, "DevToolsActivePort")
        while not os.path.exists(port) or os.path.getsize(port) < 10:
            if self.process.poll() is not None:
                raise RuntimeError("chromium ended")
            await asyncio.sleep(0.1)
        with open(port, encoding="ascii") as file:
            number, path = file.read().split()
        self.http = aiohttp.ClientSession()
        self.socket = await self.http.ws_connect("ws://127.0.0.1:%s%s" % (number, path), max_msg_size=0)
        self.reader = asyncio.create_task(self.read())
        return self

    async def __aexit__(self, *_):
        self.reader.cancel()
        await self.socket.close()
        await self.http.close()
        self.process.terminate()
        self.process.wait()

    async def read(self):
        async for message in self.socket:
            document = json.loads(message.data)
            if "id" in document:
                self.answers.pop(document["id"]).set_result(document)

    async def ask(self, method, session=None, **parameters):
        self.number += 1
        answer = self.answers[self.number] = asyncio.get_running_loop().create_future()
        document = {"id": self.number, "method": method, "params": parameters}
        await self.socket.send_json(dict(document, sessionId=session) if session else document)
        document = await asyncio.wait_for(answer, 120)
        if "error" in document:
            raise RuntimeError("%s: %s" % (method, document["error"]))
        return document["result"]

    async def tab(self, target):
        done = await self.ask("Target.attachToTarget", targetId=target, flatten=True)
        return Tab(self, done["sessionId"], target)

    async def open(self, url):
        return await self.tab((await self.ask("Target.createTarget", url=url))["targetId"])

    async def pages(self):
        """{id of a target: its address}"""
        found = (await self.ask("Target.getTargets"))["targetInfos"]
        return {one["targetId"]: one["url"] for one in found if one["type"] == "page"}

    async def opened(self, before, seconds=60):
        """The page that has come since pages() was asked, or None."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            new = set(await self.pages()) - set(before)
            if new:
                return await self.tab(new.pop())
            await asyncio.sleep(0.2)
        return None
