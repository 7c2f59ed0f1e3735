# SPDX-License-Identifier: Apache-2.0
"""gpu and calls of NCCL: counted in whatever library they are, of every communicator."""

import os
import struct

from gpu_truth import (
    MIB, Caller, Seen, Watch, both_files, check_all, check_calls, equal, fakes, watched)
from harness import check, test

BESIDE = True


@test()
def collectives(context):
    """A collective and the launch in it are of two layers: both count."""
    truth, _, _, files = both_files(context, "nccl", False)
    comms = {row["hash"]: row for row in truth["communicators"]}
    found = set()
    for frames, _, labels in files.samples:
        if labels.get("communicator") in comms and "rank" in labels:
            found.add((labels["communicator"], str(labels["rank"])))
    wanted = {(comm, str(row["rank"])) for comm, row in comms.items()}
    check(found == wanted, "labels: %s, not %s" % (found, wanted))


# Other libraries that have NCCL's functions; the last one exports none of them.
OTHER_NCCL = ("librccl.so.1", "libtorch_cuda.so", "libtorch_cuda_hidden.so")


@test()
def collectives_elsewhere(context):
    """In AMD's library, and linked into PyTorch's: found by their symbols."""
    callers = {name: Caller(context, "nccl", env={"GPU_CALLS_NCCL": name}) for name in OTHER_NCCL}
    watch = Watch(context, "--json", "-d", "120",
                  *(word for caller in callers.values() for word in ("-p", caller.pid)))
    truths = [caller.work() for caller in callers.values()]
    seen = Seen(watch.end())
    for truth in truths:
        check_all(seen.process(truth["pid"]), truth)
    listed = {os.path.basename(one["path"]): one for one in seen.whole["libraries"]}
    check(set(listed) == {"libcuda.so.1", *callers}, "libraries: %s" % listed)
    for name in callers:
        check(listed[name]["layers"] == ["nccl"] and listed[name]["problem"] is None and
              listed[name]["functions"] > 10, "%s: %s" % (name, listed[name]))


TOO_LARGE = "too many symbols to be searched for NCCL"
UNSEARCHABLE = "its symbols cannot be searched for NCCL"
# The size of the strings of a library with a hidden NCCL, and the message about it.
HIDDEN = {"large": (200 * MIB, 200 * MIB, None), "too_large": (257 * MIB, 257 * MIB, TOO_LARGE),
          "cut": (200 * MIB, 20 * MIB, UNSEARCHABLE)}


def strings_grow(path, size, kept):
    """The strings of its .symtab are its end, so long as it says, of which so many are there."""
    with open(path, "rb") as file:
        data = bytearray(file.read())
    start, entry = struct.unpack_from("<Q", data, 0x28)[0], struct.unpack_from("<H", data, 0x3a)[0]
    headers = range(start, start + entry * struct.unpack_from("<H", data, 0x3c)[0], entry)
    symtab = [at for at in headers if struct.unpack_from("<I", data, at + 4)[0] == 2]
    check(len(symtab) == 1, "%d tables of symbols" % len(symtab))
    strings = headers[struct.unpack_from("<I", data, symtab[0] + 40)[0]]
    old, length = struct.unpack_from("<QQ", data, strings + 24)
    struct.pack_into("<QQ", data, strings + 24, len(data), size)
    os.unlink(path)
    with open(path, "wb") as file:
        file.write(data + data[old:old + length])
        file.truncate(len(data) + kept)


@test()
def collectives_large(context):
    """NCCL that is hidden where many symbols are; where that are too many, it is said and counted."""
    callers = {}
    for name, (size, kept, _) in HIDDEN.items():
        where = fakes(context).copy(context.path(name))
        strings_grow(os.path.join(where.folder, OTHER_NCCL[2]), size, kept)
        callers[name] = Caller(context, "nccl", where=where, env={"GPU_CALLS_NCCL": OTHER_NCCL[2]})
    watch = Watch(context, "--json", "-d", "120",
                  *(word for caller in callers.values() for word in ("-p", caller.pid)))
    truths = {name: caller.work() for name, caller in callers.items()}
    seen = Seen(watch.end())
    check_all(seen.process(truths["large"]["pid"]), truths["large"])
    listed = {os.path.basename(os.path.dirname(one["path"])): one for one in seen.whole["libraries"]
              if os.path.basename(one["path"]) == OTHER_NCCL[2]}
    equal({name: one["problem"] for name, one in listed.items()},
          {name: problem for name, (_, _, problem) in HIDDEN.items()}, "problems")
    check(listed["large"]["functions"] > 10, str(listed))
    equal({"nccl": seen.lost["libraries_not_searched_for_nccl"]}, {"nccl": 2}, "lost")
    for one in listed.values():
        if one["problem"]:
            said = "%s: not watched: %s" % (one["path"], one["problem"])
            check(said in watch.messages(), watch.messages())
    for name in ("too_large", "cut"):
        check(not seen.process(truths[name]["pid"])["collectives"], "collectives of " + name)


@test()
def collectives_python(context):
    both_files(context, "nccl", True)


@test()
def communicators(context):
    """Communicators made in any way (split, shrunk, grown, by several ids) have the right ranks."""
    _, truth, seen = watched(context, "communicators")
    process = seen.process(truth["pid"])
    check_all(process, truth)
    check(len(process["communicators"]) == len(truth["communicators"]) == 6, "communicators: %s" %
          process["communicators"])


@test()
def one_sided(context):
    """Calls with a communicator that are no collectives: counted, not taken for one."""
    _, truth, seen = watched(context, "one_sided")
    process = seen.process(truth["pid"])
    check_all(process, truth)
    check(not process["collectives"], "collectives: %s" % process["collectives"])


@test()
def communicator_again(context):
    """A new communicator where one was destroyed."""
    _, truth, seen = watched(context, "recycled")
    process = seen.process(truth["pid"])
    check_calls(process, truth)
    wanted = truth["communicators"][0]
    found = [row for row in process["communicators"] if row["comm"] == wanted["comm"]]
    check(found, "no communicator: %s" % process["communicators"])
    check(any(all(row[name] == wanted[name] for name in ("hash", "rank", "size", "last"))
              for row in found), "%s, not %s" % (found, wanted))
