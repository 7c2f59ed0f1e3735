# SPDX-License-Identifier: Apache-2.0
"""BPF programs that are loaded, and what the kernel has made of them."""

import ctypes
import os
import struct

SYS_BPF = 321
PROG_GET_FD_BY_ID, OBJ_GET_INFO_BY_FD = 13, 15  # enum bpf_cmd
INFO_BYTES = 232
CODE_BYTES = 1 << 20
# add r9, gs:[this_cpu_off]: how a function comes to its part of a stack per CPU (arch/x86/net).
PRIVATE_STACK = bytes.fromhex("654c030c25")
LIBC = ctypes.CDLL(None, use_errno=True)


def bpf(command, attributes):
    """What it returns, and the attributes as the kernel leaves them."""
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    return LIBC.syscall(SYS_BPF, command, buffer, len(attributes)), buffer.raw


def ids(pid):
    """BPF programs that the process has open."""
    folder = "/proc/%d/fdinfo" % pid
    for name in os.listdir(folder):
        try:
            with open(os.path.join(folder, name), encoding="ascii") as file:
                found = [line.split()[1] for line in file if line.startswith("prog_id:")]
        except FileNotFoundError:
            continue
        yield from map(int, found)


def machine_code(number):
    """Name of a program, and all its code."""
    fd, _ = bpf(PROG_GET_FD_BY_ID, struct.pack("<III", number, 0, 0))
    if fd < 0:
        return "", b""
    try:
        code = ctypes.create_string_buffer(CODE_BYTES)
        info = bytearray(INFO_BYTES)
        struct.pack_into("<IIQIIQQ", info, 0, 0, 0, 0, CODE_BYTES, 0, ctypes.addressof(code), 0)
        info = ctypes.create_string_buffer(bytes(info), INFO_BYTES)
        ret, _ = bpf(OBJ_GET_INFO_BY_FD, struct.pack("<IIQ", fd, INFO_BYTES, ctypes.addressof(info)))
        if ret:
            return "", b""
        name = info.raw[64:80].split(b"\0")[0].decode()
        return name, code.raw[:struct.unpack_from("<I", info.raw, 16)[0]]
    finally:
        os.close(fd)


def private_stacks(pid):
    """Functions with a stack per CPU: {name of the program: how many}."""
    return {name: code.count(PRIVATE_STACK) for name, code in map(machine_code, set(ids(pid)))}
