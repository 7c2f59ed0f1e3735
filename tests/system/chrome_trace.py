# SPDX-License-Identifier: Apache-2.0
"""Reads files in Chrome's trace event format and holds them to its rules; knows nothing of bpfprof.

"Trace Event Format" (Google, 2016): JSON object form, phases X B E i s f b e M. What is stricter here:
events stand in the order of their time, and no phase is used that a test would have to be told of.
"""

import collections
import json
from decimal import Decimal


class Broken(Exception):
    """The rule that does not hold."""


def need(condition, text, event=None):
    if not condition:
        raise Broken(text + (": %s" % event if event is not None else ""))


def ns(value):
    return int((Decimal(value) * 1000).to_integral_exact())


class Slice:
    def __init__(self, event, begin, end):
        self.event = event
        self.name, self.category = event["name"], event.get("cat")
        self.pid, self.tid = event["pid"], event["tid"]
        self.begin, self.end = begin, end
        self.args = event.get("args", {})


class Trace:
    """slices, instants, spans, flows (pairs of events), names of processes and tracks, other."""

    def __init__(self, data):
        try:
            whole = json.loads(data.decode("utf-8"), parse_float=Decimal)
        except ValueError as error:
            raise Broken("no JSON in UTF-8: %s" % error) from None
        need(isinstance(whole, dict), "not the object form")
        need(whole.get("displayTimeUnit", "ms") in ("ms", "ns"), "displayTimeUnit")
        need(isinstance(whole.get("traceEvents"), list), "no traceEvents")
        self.events = whole["traceEvents"]
        self.other = whole.get("otherData", {})
        self.slices, self.instants, self.spans, self.flows = [], [], [], []
        self.processes, self.labels, self.tracks, self.order = {}, {}, {}, {}
        last = 0
        for event in self.events:
            need(isinstance(event, dict), "no object", event)
            need(isinstance(event.get("pid"), int) and isinstance(event.get("tid"), int),
                 "pid and tid are numbers", event)
            need(isinstance(event.get("args", {}), dict), "args is an object", event)
            if event.get("ph") == "M":
                self.meta(event)
                continue
            need(isinstance(event.get("ts"), (int, Decimal)), "ts is a number", event)
            event["ns"] = ns(event["ts"])
            need(event["ns"] >= last, "out of order", event)
            last = event["ns"]
        self.collect()
        self.nesting()
        self.arrows()
        self.named()

    def meta(self, event):
        names = {"process_name": ("name", self.processes, event["pid"]),
                 "process_labels": ("labels", self.labels, event["pid"]),
                 "thread_name": ("name", self.tracks, (event["pid"], event["tid"])),
                 "thread_sort_index": ("sort_index", self.order, (event["pid"], event["tid"]))}
        need(event.get("name") in names, "metadata of an unknown name", event)
        key, table, owner = names[event["name"]]
        value = event["args"].get(key)
        need(isinstance(value, int if key == "sort_index" else str), "no " + key, event)
        need(owner not in table, "named twice", event)
        table[owner] = value

    def collect(self):
        open_slices, open_spans, open_flows = collections.defaultdict(list), {}, {}
        for event in self.events:
            phase = event["ph"]
            if phase == "M":
                continue
            if phase != "E":
                need(isinstance(event.get("name"), str), "no name", event)
            track = (event["pid"], event["tid"])
            if phase == "X":
                need(isinstance(event.get("dur"), (int, Decimal)) and event["dur"] >= 0,
                     "dur is a number", event)
                self.slices.append(Slice(event, event["ns"], event["ns"] + ns(event["dur"])))
            elif phase == "B":
                open_slices[track].append(event)
            elif phase == "E":
                need(open_slices[track], "ends what never began", event)
                begun = open_slices[track].pop()
                self.slices.append(Slice(begun, begun["ns"], event["ns"]))
            elif phase == "i":
                need(event.get("s") in ("t", "p", "g"), "scope of an instant", event)
                self.instants.append(event)
            elif phase in "sf":
                self.pair(event, "s", open_flows, self.flows)
                need(phase == "s" or event.get("bp") == "e", "bp", event)
            elif phase in "be":
                self.pair(event, "b", open_spans, self.spans)
            else:
                raise Broken("phase: %s" % event)
        need(not any(open_slices.values()), "never ended: %s" % dict(open_slices))
        need(not open_spans, "never ended: %s" % open_spans)
        self.flows_without_end = list(open_flows.values())

    @staticmethod
    def pair(event, first, table, pairs):
        need("id" in event, "no id", event)
        key = (event["pid"] if first == "b" else None, event.get("cat"), event["name"], event["id"])
        if event["ph"] == first:
            need(key not in table, "begun twice", event)
            table[key] = event
            return
        need(key in table, "ends what never began", event)
        pairs.append((table.pop(key), event))

    def nesting(self):
        """Slices of one track lie inside or beside each other."""
        stacks = collections.defaultdict(list)
        for one in sorted(self.slices, key=lambda one: (one.begin, -one.end)):
            stack = stacks[one.pid, one.tid]
            while stack and stack[-1].end <= one.begin:
                stack.pop()
            need(not stack or one.end <= stack[-1].end,
                 "lies across %s" % (stack and stack[-1].event), one.event)
            stack.append(one)

    def at(self, event):
        """Is a slice there at that time?"""
        return any(one.begin <= event["ns"] <= one.end
                   for one in self.by_track[event["pid"], event["tid"]])

    def arrows(self):
        self.by_track = collections.defaultdict(list)
        for one in self.slices:
            self.by_track[one.pid, one.tid].append(one)
        for first, last in self.flows:
            need(first["ns"] <= last["ns"], "an arrow back in time", first)
            need(self.at(first) and self.at(last), "an arrow from or to nothing", first)

    def named(self):
        for event in self.events:
            need(event["pid"] in self.processes, "a process without a name", event)
            if event["ph"] not in "Mbe":
                need((event["pid"], event["tid"]) in self.tracks, "a track without a name", event)
