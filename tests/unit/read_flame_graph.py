# SPDX-License-Identifier: Apache-2.0
"""Reads the HTML or SVG flame graph on standard input back into text, for test_html.c.

html: collapsed stacks with the kinds of their frames, then what a reader sees besides.
svg: one line per frame: row, x, width, what is written in it, its tooltip; then the other texts.
"""

import html.parser
import json
import sys
import xml.etree.ElementTree as ElementTree

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
SVG = "{http://www.w3.org/2000/svg}"


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.data, self.open, self.scripts, self.words = "", "", 0, []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        for value in attrs.values():
            if str(value).startswith(("http", "//")):
                sys.exit("the page loads " + value)
        self.open = attrs.get("id", tag) if tag == "script" else tag
        self.scripts += tag == "script"

    def handle_data(self, data):
        if self.open == "data":
            self.data += data
        elif self.open not in ("style", "script") and data.strip():
            self.words.append(data.strip())

    def handle_endtag(self, tag):
        self.open = ""


def numbers(text):
    value = shift = 0
    for char in text:
        digit = DIGITS.index(char)
        value |= (digit & 31) << shift
        shift += 5
        if digit < 32:
            yield value
            value = shift = 0


def read_html(text):
    # Stricter than browsers and html.parser, which differ in what ends a script.
    if not text.partition(' id="data">')[2].partition("<")[2].startswith("/script>\n<script>"):
        sys.exit("a < inside the data")
    page = Page()
    page.feed(text)
    data = json.loads(page.data)
    stream, path, nodes = numbers(data["stacks"]), [], 0
    for shared in stream:
        new = next(stream)
        nodes += new
        path = path[:shared] + [next(stream) for _ in range(new)]
        print(";".join(data["names"][i] for i in path), next(stream),
              "".join(data["kinds"][i] for i in path))
    if nodes != data["nodes"] or len(data["names"]) != len(data["kinds"]):
        sys.exit("%d nodes, %d names, %d kinds" % (nodes, len(data["names"]), len(data["kinds"])))
    print("scripts %d, ns %d, lost %s" % (page.scripts, data["ns"],
                                          data.get("stats", {}).get("lost")))
    if "timeline" in data:
        print(json.dumps(data["timeline"], sort_keys=True))
    print("\n".join(page.words))


def read_svg(text):
    root = ElementTree.fromstring(text)
    frames = root.find(SVG + "g")
    for group in frames if frames is not None else []:
        title, rect, label = list(group)
        print(int(rect.get("y")) // 17, rect.get("x"), rect.get("width"), group.get("class"),
              label.text or "-", "|", title.text.replace("\n", " | "))
    print("scripts", len(root.findall(SVG + "script")))
    for element in root.findall(SVG + "text"):
        print(element.text)


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")
    document = sys.stdin.buffer.read().decode("utf-8")
    read_svg(document) if sys.argv[1] == "svg" else read_html(document)
