# SPDX-License-Identifier: Apache-2.0
"""Compiles the fake libcuda and libnccl, and the program that calls them, into one folder.

build(folder) gives their paths, or raises Unavailable. What is newer than the sources is kept.
"""

import fcntl
import os
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
FLAGS = ["-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-fomit-frame-pointer",
         "-fno-optimize-sibling-calls", "-fasynchronous-unwind-tables"]
LIBRARY = ["-fPIC", "-shared", "-fvisibility=hidden"]
# The name of each in the folder, its compiler, its source, and flags.
NCCL = ["-Wl,-rpath,$ORIGIN", "-pthread", "-ldl"]
STEPS = [
    ("libcuda.so.1", "gcc", "fake_cuda.c", [*LIBRARY, "-Wl,-soname,libcuda.so.1", "-pthread"]),
    ("libcuda_other.so.1", "gcc", "fake_cuda.c",
     [*LIBRARY, "-DOTHER_ENTRIES", "-Wl,-soname,libcuda.so.1", "-pthread"]),
    ("libnccl.so.2", "gcc", "fake_nccl.c",
     [*LIBRARY, "-Wl,-soname,libnccl.so.2", *NCCL]),
    ("librccl.so.1", "gcc", "fake_nccl.c", [*LIBRARY, "-Wl,-soname,librccl.so.1", *NCCL]),
    # PyTorch with NCCL linked into it, which it exports, or keeps to itself.
    ("libtorch_cuda.so", "gcc", "fake_nccl.c",
     [*LIBRARY, "-Wl,-soname,libtorch_cuda.so", *NCCL]),
    ("libtorch_cuda_hidden.so", "gcc", "fake_nccl.c",
     [*LIBRARY, "-DHIDDEN", "-Wl,-soname,libtorch_cuda_hidden.so", *NCCL]),
    ("libcudart.so.13", "gcc", "fake_cudart.c",
     [*LIBRARY, "-Wl,-soname,libcudart.so.13", "-Wl,-rpath,$ORIGIN", "-L{out}", "-l:libcuda.so.1"]),
    ("libcublasLt.so.12", "gcc", "fake_blas.c",
     [*LIBRARY, "-DLT", "-s", "-Wl,-soname,libcublasLt.so.12", "-Wl,-rpath,$ORIGIN", "-L{out}",
      "-l:libcuda.so.1"]),
    ("libcublas.so.12", "gcc", "fake_blas.c",
     [*LIBRARY, "-s", "-Wl,-soname,libcublas.so.12", "-Wl,-rpath,$ORIGIN", "-L{out}",
      "-l:libcublasLt.so.12"]),
    ("libc10_cuda.so", "gcc", "fake_c10.c", [*LIBRARY, "-Wl,-soname,libc10_cuda.so", "-pthread"]),
    ("libgc_probes.so", "gcc", "fake_python.c", LIBRARY),
    ("gpu_stubs", "gcc", "gpu_stubs.c",
     ["-Wl,-rpath,$ORIGIN", "-L{out}", "-l:libcudart.so.13", "-l:libcuda.so.1"]),
    ("gpu_steps", "gcc", "gpu_steps.c", ["-ldl"]),
    ("gpu_calls", "g++", "gpu_calls.cpp", ["-pthread", "-ldl"]),
    ("gpu_gaps", "g++", "gpu_gaps.cpp", ["-ldl"]),
]
SCRIPTS = ["gpu_calls.py", "gpu_gaps.py", "gpu_history.py", "gpu_waits.py", "nccl_arguments.py",
           "nccl_ranks.py"]


class Unavailable(Exception):
    """Why the fakes cannot be built here."""


class Fakes:
    """The place of all files. All users can read it."""

    def __init__(self, folder):
        self.folder = folder
        self.cuda = os.path.join(folder, "libcuda.so.1")
        self.nccl = os.path.join(folder, "libnccl.so.2")
        self.torch = os.path.join(folder, "libc10_cuda.so")
        self.program = os.path.join(folder, "gpu_calls")
        self.stubs = os.path.join(folder, "gpu_stubs")
        self.steps = os.path.join(folder, "gpu_steps")
        self.gaps = os.path.join(folder, "gpu_gaps")

    def with_other_entries(self, folder):
        """The same elsewhere, with a libcuda that has no trampolines."""
        fakes = self.copy(folder)
        os.replace(os.path.join(folder, "libcuda_other.so.1"), fakes.cuda)
        return fakes

    def copy(self, folder):
        """The same elsewhere, as files of their own."""
        os.makedirs(folder, exist_ok=True)
        for name in os.listdir(self.folder):
            shutil.copy2(os.path.join(self.folder, name), folder)
        return Fakes(folder)


def build(folder):
    """Tests that run beside each other wait for the first one to build."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, ".lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return build_all(folder)


def build_all(folder):
    newest = max(os.path.getmtime(os.path.join(HERE, name)) for name in os.listdir(HERE))
    os.chmod(folder, 0o755)
    for name, compiler, source, flags in STEPS:
        out = os.path.join(folder, name)
        if os.path.exists(out) and os.path.getmtime(out) >= newest:
            continue
        if not shutil.which(compiler):
            raise Unavailable("no " + compiler)
        done = subprocess.run([compiler, *FLAGS, source, *(flag.format(out=folder) for flag in flags), "-o", out], cwd=HERE, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        if done.returncode:
            raise Unavailable("%s does not build: %s" % (source, done.stdout.strip()[-500:]))
    fakes = Fakes(folder)
    for name in SCRIPTS:
        out = os.path.join(folder, name)
        if not os.path.exists(out) or os.path.getmtime(out) < newest:  # one that runs may be reading it
            shutil.copy(os.path.join(HERE, name), out)
            os.chmod(out, 0o644)
    return fakes


if __name__ == "__main__":
    import sys
    print(build(sys.argv[1]).folder)
