# SPDX-License-Identifier: Apache-2.0
"""Kernels of other Debian suites, through a private apt state: the machine's own is not touched."""

import fcntl
import glob
import lzma
import os
import re
import shutil
import subprocess

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Unavailable(Exception):
    """The suite cannot be had here; the reason is for people."""


class Kernel:
    """An unpacked kernel: its image, version, and the modules that overlay mounts need, in order."""

    def __init__(self, folder):
        self.image = os.path.join(folder, "vmlinuz")
        self.modules = sorted(glob.glob(os.path.join(folder, "modules", "*.ko")))
        with open(os.path.join(folder, "version"), encoding="ascii") as file:
            self.version = file.read().strip()


def archive_uri():
    """Where this machine gets Debian's packages from."""
    done = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)"],
                          stdout=subprocess.PIPE, text=True, check=False)
    for uri in done.stdout.split():
        if re.search(r"/debian/?$", uri):
            return uri
    raise Unavailable("no Debian archive among this machine's package sources")


def apt_state(suite, folder):
    """A private state for one suite; the environment that makes apt use it."""
    for name in ("etc", "state/lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    signed = f"Signed-By: {KEYRING}\n" if os.path.exists(KEYRING) else ""
    with open(os.path.join(folder, "etc", "suite.sources"), "w", encoding="ascii") as file:
        file.write(f"Types: deb\nURIs: {archive_uri()}\nSuites: {suite}\nComponents: main\n"
                   f"Architectures: amd64\n{signed}")
    config = os.path.join(folder, "apt.conf")
    with open(config, "w", encoding="ascii") as file:
        file.write(f'Dir::Etc::sourcelist "/dev/null";\n'
                   f'Dir::Etc::sourceparts "{folder}/etc";\nDir::State "{folder}/state";\n'
                   f'Dir::State::status "/dev/null";\nDir::Cache "{folder}/cache";\n'
                   'APT::Architecture "amd64";\nAPT::Sandbox::User "";\n'
                   'Acquire::http::Timeout "20";\nAcquire::Retries "2";\n'
                   'Acquire::Languages "none";\n')
    return dict(os.environ, APT_CONFIG=config)


def run_apt(command, environment, folder):
    try:
        done = subprocess.run(command, env=environment, cwd=folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=300, check=False)
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"{command[0]} took too long") from error
    if done.returncode:
        lines = done.stderr.strip().split("\n")
        raise Unavailable(f"{' '.join(command[:2])}: {lines[-1]}")
    return done.stdout


def module_bytes(path):
    with open(path, "rb") as file:
        data = file.read()
    return lzma.decompress(data) if path.endswith(".xz") else data


def module_order(modules, name):
    """The modules that insmod needs, dependencies first: (name, bytes)."""
    if name not in modules:
        return []
    data = module_bytes(modules[name])
    match = re.search(rb"\0depends=([^\0]*)\0", data)
    order = []
    for needed in (match.group(1).decode() if match else "").split(","):
        if needed:
            order += module_order(modules, needed.replace("-", "_"))
    return order + [(name, data)]


def unpack(packages, folder):
    """Keeps of the packages what a boot needs, in a folder that appears whole or not at all."""
    root, part = folder + ".root", folder + ".part"
    for path in (root, part):
        shutil.rmtree(path, ignore_errors=True)
    os.makedirs(os.path.join(part, "modules"))
    for package in packages:
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    images = glob.glob(root + "/boot/vmlinuz-*") + glob.glob(root + "/usr/lib/modules/*/vmlinuz")
    if not images:
        raise Unavailable("no vmlinuz in its packages")
    shutil.copy(images[0], os.path.join(part, "vmlinuz"))
    modules = {}
    for where, _, files in os.walk(root):
        for name in files:
            match = re.match(r"(.+)\.ko(\.xz)?$", name)
            if match:
                modules[match.group(1).replace("-", "_")] = os.path.join(where, name)
    for number, (name, data) in enumerate(module_order(modules, "overlay")):
        with open(os.path.join(part, "modules", f"{number:02}-{name}.ko"), "wb") as file:
            file.write(data)
    version = glob.glob(root + "/lib/modules/*") + glob.glob(root + "/usr/lib/modules/*")
    with open(os.path.join(part, "version"), "w", encoding="ascii") as file:
        file.write(os.path.basename(version[0]) + "\n")
    shutil.rmtree(root)
    shutil.rmtree(folder, ignore_errors=True)
    os.rename(part, folder)


def kernel_get(suite, cache):
    """The cloud kernel of a suite, downloaded once into cache; one process at a time does that."""
    folder = os.path.join(cache, suite)
    with open(os.path.join(cache, "lock-" + suite), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(os.path.join(folder, "version")):
            download(suite, cache, folder)
    return Kernel(folder)


def download(suite, cache, folder):
    state = os.path.join(cache, "apt-" + suite)
    environment = apt_state(suite, state)
    run_apt(["apt-get", "update", "-q"], environment, state)
    names = run_apt(["apt-cache", "depends", "--recurse", "--no-recommends", "--no-suggests",
                     "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances",
                     "linux-image-cloud-amd64"], environment, state).split("\n")
    wanted = [n for n in names if re.match(r"linux-(image|binary|modules)-[0-9].*-cloud-amd64$", n)]
    if not wanted:
        raise Unavailable("no cloud kernel in this suite")
    run_apt(["apt-get", "download", "-q"] + wanted, environment, state)
    unpack(glob.glob(state + "/*.deb"), folder)
    shutil.rmtree(state)
