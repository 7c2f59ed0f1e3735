# SPDX-License-Identifier: Apache-2.0
"""A reader of pprof files (profile.proto of github.com/google/pprof) for the tests."""

import gzip
import json


def fields(data):
    """(number, value) of every field of a protobuf message."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            size, at = varint(data, at)
            if at + size > len(data):
                raise ValueError("field beyond the end")
            value, at = data[at:at + size], at + size
        elif kind == 1:
            value, at = data[at:at + 8], at + 8
        else:
            raise ValueError("wire type %d" % kind)
        yield key >> 3, value


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7f) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def numbers(value):
    """A repeated number: one, or packed."""
    if isinstance(value, int):
        return [value]
    out, at = [], 0
    while at < len(value):
        number, at = varint(value, at)
        out.append(number)
    return out


MESSAGES = {
    "Profile": {1: "sample_type ValueType", 2: "sample Sample", 3: "mapping Mapping", 4: "location Location",
                5: "function Function", 7: "drop_frames text", 8: "keep_frames text", 9: "time_nanos",
                10: "duration_nanos", 11: "period_type ValueType", 12: "period", 13: "comment texts",
                14: "default_sample_type text"},
    "ValueType": {1: "type text", 2: "unit text"},
    "Sample": {1: "location numbers", 2: "value numbers", 3: "label Label"},
    "Label": {1: "key text", 2: "str text", 3: "num", 4: "num_unit text"},
    "Mapping": {1: "id", 2: "start hex", 3: "limit hex", 4: "offset hex", 5: "file text", 6: "build_id text",
                7: "has_functions", 8: "has_filenames", 9: "has_lines", 10: "has_inline_frames"},
    "Location": {1: "id", 2: "mapping", 3: "address hex", 4: "line Line"},
    "Line": {1: "function", 2: "line"},
    "Function": {1: "id", 2: "name text", 3: "system_name text", 4: "file text", 5: "start_line"},
}


def named(kind, data, strings):
    """(name, text) of every field of a message, in its order; strings stand in place of their numbers."""
    for number, value in fields(data):
        name, _, form = MESSAGES[kind].get(number, "field_%d" % number).partition(" ")
        if form in MESSAGES:
            yield name, "{%s}" % " ".join("%s=%s" % one for one in named(form, value, strings))
        elif form == "texts":
            yield name, " ".join(json.dumps(strings[at]) for at in numbers(value))
        else:
            yield name, str({"text": lambda at: json.dumps(strings[at]), "hex": hex,
                             "numbers": numbers}.get(form, str)(value))


def lines_of(packed):
    """The file as text, a line per message."""
    data = gzip.decompress(packed)
    strings = [value.decode("utf-8") for number, value in fields(data) if number == 6]
    return ["%s %s" % one for one in named("Profile", data, strings) if one[0] != "field_6"]


class Pprof:
    """Sample types, samples with their stacks and labels, mappings, comments and the counters in them."""

    def __init__(self, packed):
        raw = list(fields(gzip.decompress(packed)))
        self.strings = [value.decode("utf-8") for number, value in raw if number == 6]
        text = self.strings
        self.sample_types = [self.value_type(value) for number, value in raw if number == 1]
        self.period_type = next((self.value_type(v) for n, v in raw if n == 11), None)
        self.scalars = {n: v for n, v in raw if n in (9, 10, 12, 14)}
        self.default_type = text[self.scalars.get(14, 0)]
        self.comments = [text[i] for n, v in raw if n == 13 for i in numbers(v)]
        self.stats = next((json.loads(c) for c in self.comments if c.startswith("{")), None)
        self.mappings = {}
        for number, value in raw:
            if number == 3:
                m = dict(fields(value))
                self.mappings[m[1]] = {"start": m.get(2, 0), "limit": m.get(3, 0),
                                       "path": text[m.get(5, 0)], "build_id": text[m.get(6, 0)]}
        functions = {}
        self.nr_functions = {}  # of each name
        for number, value in raw:
            if number == 5:
                f = dict(fields(value))
                functions[f[1]] = text[f.get(2, 0)]
                self.nr_functions[functions[f[1]]] = self.nr_functions.get(functions[f[1]], 0) + 1
        self.locations = {}
        for number, value in raw:
            if number == 4:
                parts = list(fields(value))
                m = dict(parts)
                lines = [dict(fields(v)) for n, v in parts if n == 4]
                self.locations[m[1]] = {"mapping": m.get(2, 0), "address": m.get(3, 0),
                                        "functions": [functions[line[1]] for line in lines]}
        self.samples = []
        for number, value in raw:
            if number == 2:
                sample = {"stack": [], "values": [], "labels": {}}
                for n, v in fields(value):
                    if n == 1:
                        sample["stack"] += numbers(v)
                    elif n == 2:
                        sample["values"] += numbers(v)
                    elif n == 3:
                        label = dict(fields(v))
                        if text[label[1]] in sample["labels"]:
                            raise ValueError("label %s twice" % text[label[1]])
                        sample["labels"][text[label[1]]] = (text[label[2]] if 2 in label
                                                            else label.get(3, 0))
                self.samples.append(sample)

    def value_type(self, value):
        m = dict(fields(value))
        return "%s/%s" % (self.strings[m.get(1, 0)], self.strings[m.get(2, 0)])
