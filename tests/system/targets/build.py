# SPDX-License-Identifier: Apache-2.0
"""Compiles the targets of the stack tests in every variant, from one table.

build(folder) returns the targets and what had to be skipped, with the reason.
Compiled files are kept and made again only when a source or this table is newer.
"""

import fcntl
import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))

COMMON = ["-D_GNU_SOURCE", "-Wall", "-Wextra", "-fno-optimize-sibling-calls"]
GCC_ONLY = ["-fno-ipa-icf"]
LINKS = {
    "": ["-fPIE", "-pie"],
    "np": ["-fno-pie", "-no-pie"],
    "st": ["-fno-pie", "-static"],
    "sp": ["-fPIE", "-static-pie"],
}


class Target:
    """One program: how it is built, started and what its stacks must look like."""

    def __init__(self, name, theme, path=None, twin=None, args=(), action=None, expect=None):
        assert len(name) <= 15, name  # the kernel cuts comm there
        self.name = name
        self.theme = theme
        self.path = path
        self.twin = twin or path  # the same code with all its symbols
        self.args = list(args)
        self.action = action  # delete, replace, memfd, setuid, nondumpable
        self.expect = os.path.join(HERE, (expect or theme) + ".expect")


class Builder:
    def __init__(self, folder):
        self.folder = folder
        self.targets = []
        self.skipped = []
        self.newest = max(os.path.getmtime(os.path.join(HERE, f)) for f in os.listdir(HERE))
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o755)

    def out(self, name):
        return os.path.join(self.folder, name)

    def fresh(self, path):
        return os.path.exists(path) and os.path.getmtime(path) >= self.newest

    def command(self, out, argv):
        """Runs one build step. False: skipped, with the reason noted."""
        with open(self.out(".building"), "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another test may be making the same
            return self.fresh(out) or self.make(out, argv)

    def make(self, out, argv):
        if not shutil.which(argv[0]):
            self.skipped.append((os.path.basename(out), "no " + argv[0]))
            return False
        done = subprocess.run(argv, cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        if done.returncode or not os.path.exists(out):
            reason = (done.stdout.strip().splitlines() or ["no message"])[-1]
            self.skipped.append((os.path.basename(out), "does not build: " + reason))
            return False
        return True

    def compile(self, name, source, cc, opt, link="", flags=()):
        compiler = {"g": "gcc", "c": "clang"}[cc]
        if source.endswith(".cpp"):
            compiler = {"g": "g++", "c": "clang++"}[cc]
        out = self.out(name)
        return self.command(out, [compiler, "-O" + opt, *COMMON, *(GCC_ONLY if cc == "g" else []),
                                  *LINKS[link], source, *flags, "-o", out])

    def add(self, theme, source, cc, opt, link="", flags=(), short=None, suffix="", **kw):
        name = "%s_%sO%s%s%s" % (short or theme, cc, opt, link, suffix)
        if self.compile(name, source, cc, opt, link, flags):
            self.targets.append(Target(name, theme, self.out(name), **kw))

    def derived(self, name, theme, base, steps, **kw):
        """A target made from another one by tools."""
        out = self.out(name)
        if not os.path.exists(base):
            return
        if not self.fresh(out):
            for argv in steps:
                if not shutil.which(argv[0]):
                    self.skipped.append((name, "no " + argv[0]))
                    return
                subprocess.run(argv, cwd=self.folder, check=True)
        self.targets.append(Target(name, theme, out, twin=base, **kw))


def build(folder):
    b = Builder(folder)

    for cc in "gc":
        for opt in "0123":
            for link in LINKS:
                b.add("calls", "calls.c", cc, opt, link)
            b.add("tiny", "tiny.c", cc, opt)
            b.add("realign", "realign.c", cc, opt)
        b.add("calls", "calls.c", cc, "0", flags=["-fomit-frame-pointer"], suffix="omit")
        b.add("calls", "calls.c", cc, "2", flags=["-fno-omit-frame-pointer"], suffix="fp")
        b.add("tiny", "tiny.c", cc, "2", "st")
        for opt in "02":
            b.add("recurse", "recurse.c", cc, opt)
            b.add("signals", "signals.c", cc, opt, short="sig")
            b.add("signals", "signals.c", cc, opt, flags=["-DALTSTACK"], short="sigalt")
            b.add("throws", "throws.cpp", cc, opt)
        for opt in "023":
            b.add("frames", "frames.c", cc, opt)
            b.add("holes", "holes.c", cc, opt)
        b.add("traps", "traps.c", cc, "2")
        b.add("vdso", "vdso.c", cc, "2")
        b.add("names", "names.cpp", cc, "2")
        b.add("coroutine", "coroutine.c", cc, "2", short="coro")
        b.add("threads", "threads.c", cc, "2", flags=["-pthread"])
    b.add("calls", "calls.c", "g", "s")
    b.add("recurse", "recurse.c", "g", "2", "st")
    b.add("signals", "signals.c", "g", "2", "st", short="sig")
    b.add("vdso", "vdso.c", "g", "0", "st")
    b.add("coroutine", "coroutine.c", "g", "0", "st", short="coro")
    b.add("threads", "threads.c", "g", "0", "st", flags=["-pthread"])
    b.add("throws", "throws.cpp", "g", "2", "st")
    b.add("jit", "jit.c", "g", "2")
    b.add("jit_data", "jit_data.c", "g", "2")
    b.add("jit_data", "jit_data.c", "g", "2", flags=["-DZEROS"], suffix="end")
    b.add("jit_data", "jit_data.c", "g", "2", flags=["-DZEROS", "-DFAR"], suffix="far")
    b.add("jit_vain", "jit_data.c", "g", "2", flags=["-DZEROS", "-DVAIN"])
    b.add("asm", "asm_main.c", "g", "2", flags=["asm.S"])
    b.add("rawasm", "rawasm_main.c", "g", "0", flags=["rawasm.S"])
    b.add("rawasm", "rawasm_main.c", "g", "2", flags=["rawasm.S"])
    b.add("rawasm", "rawasm_main.c", "g", "2", "st", flags=["rawasm.S"])
    bare = b.out("asm_bare.S")  # asm.S without its tables
    if b.command(bare, ["sed", "/\\.cfi_/d;w " + bare, "asm.S"]):
        b.add("asm", "asm_main.c", "g", "2", flags=[bare], suffix="bare")

    # Shared libraries: lazy binding, lazy binding with the second PLT of CET, bound at start.
    for cc, opt, suffix, flags in (("g", "0", "lazy", ["-Wl,-z,lazy"]),
                                   ("g", "2", "lazy", ["-Wl,-z,lazy"]),
                                   ("c", "2", "lazy", ["-Wl,-z,lazy"]),
                                   ("g", "2", "ibt", ["-Wl,-z,lazy", "-fcf-protection",
                                                      "-Wl,-z,ibtplt"]),
                                   ("g", "2", "now", ["-Wl,-z,now"])):
        library = "lib%s%s%s.so" % (cc, opt, suffix)
        compiler = {"g": "gcc", "c": "clang"}[cc]
        if not b.command(b.out(library), [compiler, "-O" + opt, *COMMON, "-fPIC", "-shared",
                                          "library.c", "-DTARGET_MAIN", *flags, "-o",
                                          b.out(library)]):
            continue
        b.add("plt", "plt.c", cc, opt, suffix=suffix,
              flags=[*flags, "-L" + b.folder, "-Wl,-rpath," + b.folder, "-l:" + library])
        if suffix == "lazy":
            b.add("later", "later.c", cc, opt, args=[b.out(library)], flags=["-ldl"])

    # Frame pointers and no tables in one part.
    for cc, opt in (("g", "1"), ("g", "2"), ("c", "2")):
        part = b.out("nocfi_%s%s.o" % (cc, opt))
        compiler = {"g": "gcc", "c": "clang"}[cc]
        if b.command(part, [compiler, "-O" + opt, *COMMON, "-fPIE", "-c", "nocfi_part.c",
                            "-fno-asynchronous-unwind-tables", "-fno-unwind-tables",
                            "-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer", "-o", part]):
            b.add("nocfi", "nocfi.c", cc, opt, flags=[part])

    # Neither tables nor frame pointers, with and without symbols; tables in .debug_frame alone.
    bare = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fomit-frame-pointer"]
    for cc, opt, link in (("g", "0", ""), ("g", "2", ""), ("g", "s", ""), ("g", "2", "st"),
                          ("c", "0", ""), ("c", "2", ""), ("c", "2", "st")):
        b.add("bare", "bare.c", cc, opt, link, flags=[*bare, "-fstack-protector-all"])
        base = b.out("bare_%sO%s%s" % (cc, opt, link))
        name = "bares_%sO%s%s" % (cc, opt, link)
        b.derived(name, "bare", base, [["strip", "-o", name, base]], expect="bare_stripped")
    b.add("bare", "bare.c", "g", "2", flags=[*bare, "-g"], suffix="debug")
    for opt in "0s":
        name = "sigbare_muslO" + opt
        if b.command(b.out(name), ["musl-gcc", "-O" + opt, *COMMON, *GCC_ONLY, *bare, "-static", "-no-pie",
                                   "signals.c", "-o", b.out(name)]):
            b.targets.append(Target(name, "signals", b.out(name), expect="signals_musl"))
        name = "bare_muslO" + opt
        if b.command(b.out(name), ["musl-gcc", "-O" + opt, *COMMON, *GCC_ONLY, *bare, "-static", "-no-pie",
                                   "bare.c", "-o", b.out(name)]):
            b.targets.append(Target(name, "bare", b.out(name)))
            short = "bares_muslO" + opt
            b.derived(short, "bare", b.out(name), [["strip", "-o", short, b.out(name)]],
                      expect="bare_stripped")

    for opt in "03":
        name = "rusty_O" + opt
        if b.command(b.out(name), ["rustc", "-C", "opt-level=" + opt, "--edition", "2021",
                                   "rusty.rs", "-o", b.out(name)]):
            b.targets.append(Target(name, "rusty", b.out(name)))

    if b.command(b.out("x32"), ["gcc", "-m32", "-O1", "-static", "-nostdlib", "-fno-pie",
                                "-ffreestanding", "x32.c", "-o", b.out("x32")]):
        b.targets.append(Target("x32", "x32", b.out("x32")))

    # The same program without its symbols, with them elsewhere, and with a file that goes away.
    base = b.out("calls_gO2")
    strip, objcopy = "strip", "objcopy"
    b.derived("stripped", "calls", base, [[strip, "-o", "stripped", base]], expect="stripped")
    b.derived("debuglink", "calls", base, [
        [objcopy, "--only-keep-debug", base, "debuglink.debug"],
        [strip, "-o", "debuglink", base],
        [objcopy, "--add-gnu-debuglink=debuglink.debug", "debuglink"]])
    b.derived("minidebug", "calls", base, [
        [objcopy, "--only-keep-debug", base, "minidebug.syms"],
        ["rm", "-f", "minidebug.syms.xz"],
        ["xz", "minidebug.syms"],
        [strip, "-o", "minidebug", base],
        [objcopy, "--add-section", ".gnu_debugdata=minidebug.syms.xz", "minidebug"]])
    for action in ("delete", "replace", "memfd", "setuid", "nondumpable"):
        name = "calls_" + action[:9]
        if action == "memfd":  # only what is mapped can be read: names from .dynsym
            b.add("calls", "calls.c", "g", "2", flags=["-rdynamic"], suffix="rdyn")
            b.derived(name, "calls", b.out("calls_gO2rdyn"), [["cp", b.out("calls_gO2rdyn"), name]],
                      action=action)
            continue
        b.derived(name, "calls", base, [["cp", base, name]], action=action)
    return b


if __name__ == "__main__":
    import sys
    result = build(sys.argv[1])
    print("%d targets" % len(result.targets))
    for skipped, why in result.skipped:
        print("skipped %s: %s" % (skipped, why))
