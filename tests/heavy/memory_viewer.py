# SPDX-License-Identifier: Apache-2.0
"""Shows a file of memory over time (argv) by all that PyTorch's memory viewer can do without a browser and a GPU.

The numbers in its texts must be those of the file; pages hold the file as it is.
"""

import base64
import contextlib
import copy
import io
import json
import pickle
import re
import sys

from torch.cuda import _memory_viz


def same(lines):
    return lines


def page_holds(page, snapshot):
    """The pickle in a page, which is longer by some zeros."""
    text = re.search(r"local_files = (\[.*\])", page).group(1)
    assert pickle.loads(base64.b64decode(json.loads(text)[0]["base64"])) == snapshot


def main():
    with open(sys.argv[1], "rb") as file:
        snapshot = pickle.load(file)
    assert set(snapshot) >= {"segments", "device_traces"}
    events = [event for trace in snapshot["device_traces"] for event in trace]
    page_holds(_memory_viz.trace_plot(snapshot), snapshot)
    page_holds(_memory_viz.trace_plot(snapshot, plot_segments=True), snapshot)
    page_holds(_memory_viz.segment_plot(snapshot), snapshot)
    total = sum(segment["total_size"] for segment in snapshot["segments"])
    for lines in (_memory_viz.memory(snapshot, same), _memory_viz.segments(snapshot, same)):
        assert sum(int(line.rsplit(" ", 1)[1]) for line in lines.splitlines()) == total
        assert "tensors.py:" in lines, lines
    stats = _memory_viz.segsum(snapshot)  # it refuses blocks that do not fill their segment
    assert "segments: %d\n" % len(snapshot["segments"]) in stats
    assert "total_reserved: %s\n" % _memory_viz.Bytes(total) in stats
    trace = _memory_viz.trace(snapshot)
    assert "%d entries\n" % len(events) in trace
    assert trace.count("cudaMalloc(") == sum(event["action"] == "segment_alloc" for event in events)
    assert trace.count("cudaFree(") == sum(event["action"] == "segment_free" for event in events)
    with contextlib.redirect_stdout(io.StringIO()) as said:
        _memory_viz.compare(snapshot["segments"], snapshot["segments"], same)
    assert said.getvalue() == "only_before = []\nonly_after = []\n", said.getvalue()
    kept = _memory_viz.filter_alloc_free_pairs(copy.deepcopy(snapshot))
    pairs = len(events) - sum(len(trace) for trace in kept["device_traces"])
    print("viewer: %d bytes reserved, %d events, %d of them of memory that was freed" % (total, len(events), pairs))


main()
