# SPDX-License-Identifier: Apache-2.0
"""An emulated machine: its initramfs, its boot, and what came out of its second serial port."""

import os
import re
import subprocess
import time

BOOT_SECONDS = 90  # until /init speaks
BOOT_TRIES = 3  # emulation on a loaded host fails now and then before that
APPEND = "console=ttyS0 quiet loglevel=3 panic=-1 no_timer_check"
PROTOCOL = re.compile(r"^@@ (fact|file|end|done)(?: (\S+))?(?: (.*))?$")


class Initramfs:
    """A cpio archive (newc) in memory."""

    def __init__(self):
        self.data = bytearray()
        self.number = 0
        self.names = set()

    def entry(self, name, mode, data):
        fields = [self.number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        self.number += 1
        self.data += b"070701" + b"".join(b"%08x" % field for field in fields)
        self.data += name.encode() + b"\0"
        self.data += b"\0" * (-len(self.data) % 4) + data
        self.data += b"\0" * (-len(self.data) % 4)

    def folder(self, name):
        parts = name.strip("/").split("/")
        for i in range(1, len(parts) + 1):
            path = "/".join(parts[:i])
            if path and path not in self.names:
                self.names.add(path)
                self.entry(path, 0o40755, b"")

    def add(self, name, data, mode=0o644):
        name = name.strip("/")
        if name in self.names:
            return
        self.folder(os.path.dirname(name))
        self.names.add(name)
        self.entry(name, 0o100000 | mode, data)

    def add_file(self, name, path):
        with open(path, "rb") as file:
            self.add(name, file.read(), 0o755)

    def add_link(self, name, target):
        name = name.strip("/")
        self.folder(os.path.dirname(name))
        if name not in self.names:
            self.names.add(name)
            self.entry(name, 0o120777, target.encode())

    def add_program(self, name, path):
        """A program and the shared libraries it names, each where the loader looks for it."""
        self.add_file(name, path)
        done = subprocess.run(["ldd", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True, check=False)
        for line in done.stdout.split("\n"):
            match = re.search(r"(?:=> )?(/\S+) \(0x", line)
            if match:
                self.add_file(match.group(1), os.path.realpath(match.group(1)))

    def bytes(self):
        copy = Initramfs()
        copy.entry("TRAILER!!!", 0, b"")
        return bytes(self.data + copy.data)


class Results:
    """What /init said: facts by name, files by name."""

    def __init__(self, path):
        self.facts = {}
        self.files = {}
        self.done = False
        self.read(path)

    def read(self, path):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                lines = file.read().replace("\r", "").split("\n")
        except FileNotFoundError:
            return
        current = None
        for line in lines:
            match = PROTOCOL.match(line)
            if not match:
                if current is not None:
                    current.append(line)
                continue
            kind, name, value = match.groups()
            if kind == "fact":
                self.facts[name] = value or ""
            elif kind == "file":
                current = self.files.setdefault(name, [])
            elif kind == "end":
                current = None
            else:
                self.done = True


def emulator_fault(path):
    """
    Did a kernel die of flags that no processor has? QEMU 7.2 now and then leaves a register's
    contents behind cmpxchg16b in them. Bits 22 and up are always 0 (Intel SDM volume 1, 3.4.3).
    """
    if not os.path.exists(path):
        return False
    with open(path, encoding="utf-8", errors="replace") as file:
        flags = re.findall(r"Oops: double fault.*?EFLAGS: ([0-9a-f]{8})", file.read(), re.DOTALL)
    if not any(int(found, 16) >> 22 for found in flags):
        return False
    print("the emulated processor broke (EFLAGS %s): run again" % flags[0])
    return True


def boot(image, initramfs, prefix, limit):
    """
    Boots and waits for the end, a second try and a third where the boot itself dies. Results, and
    seconds from start to /init. PREFIX.console and PREFIX.results stay for people.
    """
    for _ in range(BOOT_TRIES):
        for suffix in (".console", ".results"):
            if os.path.exists(prefix + suffix):
                os.unlink(prefix + suffix)
        start = time.monotonic()
        command = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-m", "1536", "-smp", "2",
                   "-nodefaults", "-nographic", "-no-reboot", "-kernel", image, "-initrd", initramfs,
                   "-serial", f"file:{prefix}.console", "-serial", f"file:{prefix}.results",
                   "-append", APPEND]
        machine = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        spoke = None
        try:
            while machine.poll() is None:
                time.sleep(0.2)
                passed = time.monotonic() - start
                if spoke is None and os.path.exists(prefix + ".results") and \
                        os.path.getsize(prefix + ".results"):
                    spoke = passed
                if passed > (limit if spoke else BOOT_SECONDS):
                    break
        finally:
            machine.kill()
            machine.wait()
        if spoke and not emulator_fault(prefix + ".console"):
            break
    return Results(prefix + ".results"), spoke
