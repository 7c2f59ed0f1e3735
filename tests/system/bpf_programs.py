# SPDX-License-Identifier: Apache-2.0
"""The kernel's facts about the loaded BPF programs of a process (bpf(2), BPF_OBJ_GET_INFO_BY_FD)."""

import ctypes
import os
import re
import struct

NR_BPF = 321  # x86-64
PROG_GET_FD_BY_ID, OBJ_GET_INFO_BY_FD = 13, 15
ATTR_BYTES, INFO_BYTES = 128, 232
NAME_AT, NAME_BYTES, VERIFIED_AT = 64, 16, 216  # in struct bpf_prog_info

libc = ctypes.CDLL(None, use_errno=True)


def bpf(command, attr):
    result = libc.syscall(NR_BPF, command, ctypes.create_string_buffer(attr, ATTR_BYTES), ATTR_BYTES)
    if result < 0:
        raise OSError(ctypes.get_errno(), "bpf(%d)" % command)
    return result


def program_ids(pid):
    """The set of programs that a process has open."""
    ids = set()
    for name in os.listdir("/proc/%d/fdinfo" % pid):
        try:
            with open("/proc/%d/fdinfo/%s" % (pid, name), encoding="ascii") as file:
                ids.update(map(int, re.findall(r"^prog_id:\s*(\d+)", file.read(), re.M)))
        except OSError:
            continue
    return ids


def verified_instructions(ids):
    """{name of the program: instructions that the verifier went through to load it}."""
    found = {}
    for number in ids:
        fd = bpf(PROG_GET_FD_BY_ID, struct.pack("I", number))
        info = ctypes.create_string_buffer(INFO_BYTES)
        bpf(OBJ_GET_INFO_BY_FD, struct.pack("IIQ", fd, INFO_BYTES, ctypes.addressof(info)))
        os.close(fd)
        name = info.raw[NAME_AT:NAME_AT + NAME_BYTES].split(b"\0")[0].decode()
        found[name] = struct.unpack_from("I", info.raw, VERIFIED_AT)[0]
    return found
