# SPDX-License-Identifier: Apache-2.0
"""The Python interpreters that the tests run: those of the machine, and newer ones of Debian.

installed() lists what is there, from 3.8 on. newer(folder) unpacks 3.14 and 3.15 of Debian's
unstable suite into a folder, by an apt state of its own: nothing is installed. Each of them can be
started through the loader of its own C library (then /proc/PID/exe is the loader) and, where
patchelf can be had, as a program like any other.
"""

import fcntl
import glob
import hashlib
import os
import re
import shutil
import subprocess

OLDEST = (3, 8)
SUITE = "sid"
NEWER = ("3.14", "3.15")
# What the interpreter and the modules that the tests use load.
LIBRARIES = ["libc6", "zlib1g", "libexpat1", "libssl3t64", "libffi8", "liblzma5", "libbz2-1.0",
             "libuuid1", "libgcc-s1", "libzstd1", "libstdc++6"]
STAMP = "complete"


class Unavailable(Exception):
    """Why an interpreter cannot be had here."""


class Python:
    """One interpreter: how it is started, and what it said about itself."""

    def __init__(self, name, argv, env=None):
        self.name = name
        self.argv = list(argv)
        self.env = dict(env or {})
        probe = self.ask("import sys, sysconfig; print('%d.%d.%d' % sys.version_info[:3], "
                         "bool(sysconfig.get_config_var('Py_GIL_DISABLED')), "
                         "sysconfig.get_path('stdlib'))")
        text, free, self.stdlib = probe.split(None, 2)
        self.full = text
        self.version = tuple(map(int, text.split(".")[:2]))
        self.free_threaded = free == "True"

    def __repr__(self):
        return "%s (%s)" % (self.name, self.full)

    def environment(self, more=None):
        clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        return dict(clean, PYTHONDONTWRITEBYTECODE="1", PYTHONWARNINGS="ignore",
                    **self.env, **(more or {}))

    def ask(self, source):
        done = subprocess.run([*self.argv, "-c", source], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=self.environment(), text=True,
                              stdin=subprocess.DEVNULL, timeout=60, check=False)
        if done.returncode:
            raise Unavailable("%s does not run: %s" % (self.name, done.stderr.strip()[-300:]))
        return done.stdout.strip()


def pyenv_roots():
    roots = [os.environ.get("PYENV_ROOT"), os.path.expanduser("~/.pyenv")]
    if shutil.which("pyenv"):
        asked = subprocess.run(["pyenv", "root"], stdout=subprocess.PIPE, text=True,
                               stderr=subprocess.DEVNULL, check=False)
        roots.append(asked.stdout.strip())
    return sorted({os.path.realpath(root) for root in roots if root and os.path.isdir(root)})


def installed():
    """Every interpreter of this machine, oldest first; a version of one kind only once."""
    places = []
    for root in pyenv_roots():
        for path in glob.glob(os.path.join(root, "versions", "*", "bin", "python3.*")):
            if re.fullmatch(r"python3\.\d+t?", os.path.basename(path)):
                places.append(("pyenv", path))
    for folder in ("/usr/bin", "/usr/local/bin"):
        for path in glob.glob(os.path.join(folder, "python3.*")):
            if re.fullmatch(r"python3\.\d+t?", os.path.basename(path)):
                places.append((folder.split("/")[1 if folder == "/usr/bin" else 2], path))
    found = {}
    for kind, path in places:
        real = os.path.realpath(path)
        if real in found:
            continue
        minor = re.search(r"3\.\d+t?$", os.path.basename(path)).group(0)
        try:
            python = Python("%s-%s" % (minor, kind), [real])
        except (Unavailable, OSError, subprocess.TimeoutExpired):
            continue
        if python.version >= OLDEST:
            found[real] = python
    return sorted(found.values(), key=lambda one: (one.version, one.name))


class Apt:
    """A private state of apt for another suite of the machine's own mirror."""

    def __init__(self, folder, suite, source=False):
        self.folder = os.path.join(folder, "apt")
        self.packages = os.path.join(folder, "packages")
        for name in ("etc", "state/lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(self.folder, name), exist_ok=True)
        os.makedirs(self.packages, exist_ok=True)
        sources = self.sources(suite)
        if not sources:
            raise Unavailable("this machine has no apt sources to take a Debian mirror from")
        if source:
            sources = re.sub(r"(?m)^Types:.*$", "Types: deb-src", sources)
        with open(os.path.join(self.folder, "etc", "debian.sources"), "w", encoding="utf-8") as out:
            out.write(sources)
        status = os.path.join(self.folder, "status")
        with open(status, "w", encoding="utf-8"):
            pass
        lines = {"Dir::Etc::sourcelist": "/dev/null",
                 "Dir::Etc::sourceparts": os.path.join(self.folder, "etc"),
                 "Dir::State": os.path.join(self.folder, "state"),
                 "Dir::State::status": status,
                 "Dir::Cache": os.path.join(self.folder, "cache"),
                 "APT::Sandbox::User": "root", "Acquire::Retries": "2",
                 "Acquire::http::Timeout": "20"}
        self.config = os.path.join(self.folder, "apt.conf")
        with open(self.config, "w", encoding="utf-8") as out:
            out.writelines('%s "%s";\n' % pair for pair in lines.items())

    @staticmethod
    def sources(suite):
        """The stanza of the main archive, with the suite changed."""
        for path in sorted(glob.glob("/etc/apt/sources.list.d/*.sources")):
            with open(path, encoding="utf-8") as file:
                for stanza in re.split(r"\n\s*\n", file.read()):
                    uris = re.search(r"(?m)^URIs:(.*)$", stanza)
                    if uris and re.search(r"/debian/?\s*$", uris.group(1)):
                        return re.sub(r"(?m)^Suites:.*$", "Suites: " + suite, stanza) + "\n"
        for path in ["/etc/apt/sources.list", *glob.glob("/etc/apt/sources.list.d/*.list")]:
            if not os.path.exists(path):
                continue
            with open(path, encoding="utf-8") as file:
                found = re.search(r"(?m)^deb\s+(\[[^]]*\]\s+)?(\S+/debian/?)\s+\S+", file.read())
            if found:
                return "Types: deb\nURIs: %s\nSuites: %s\nComponents: main\n%s" % (
                    found.group(2), suite, "Signed-By: /usr/share/keyrings/"
                    "debian-archive-keyring.gpg\n")
        return ""

    def run(self, *argv, timeout=120, cwd=None):
        try:
            done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  env=dict(os.environ, APT_CONFIG=self.config), cwd=cwd,
                                  stdin=subprocess.DEVNULL, timeout=timeout, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable("%s: %s" % (argv[0], error)) from error
        if done.returncode:
            lines = done.stdout.strip().splitlines() or ["no message"]
            raise Unavailable("%s: %s" % (" ".join(argv[:2]), lines[-1]))
        return done.stdout

    def update(self):
        done = self.run("apt-get", "update", "-q")
        if re.search(r"(?m)^(Err|W: Failed)", done):
            raise Unavailable("the mirror cannot be reached")

    def known(self, names):
        listed = self.run("apt-cache", "pkgnames")
        return [name for name in names if name in set(listed.split())]

    def unpack(self, names, root):
        self.run("apt-get", "download", "-q", *names, timeout=300, cwd=self.packages)
        for path in glob.glob(os.path.join(self.packages, "*.deb")):
            self.run("dpkg-deb", "-x", path, root)
            os.unlink(path)


def fetch(folder, version):
    """Unpacks one version of SUITE into folder/VERSION; the root of that tree."""
    root = os.path.join(folder, version)
    if os.path.exists(os.path.join(root, STAMP)):
        return root
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise Unavailable("no apt-get here")
    apt = Apt(folder, SUITE)
    apt.update()
    names = ["python%s-minimal" % version, "libpython%s-minimal" % version,
             "libpython%s-stdlib" % version]
    if len(apt.known(names)) < len(names):
        raise Unavailable("Debian %s has no Python %s" % (SUITE, version))
    shutil.rmtree(root, ignore_errors=True)
    os.makedirs(root)
    apt.unpack(names + apt.known(LIBRARIES), root)
    for unused in ("usr/share/doc", "usr/share/man", "usr/share/locale"):
        shutil.rmtree(os.path.join(root, unused), ignore_errors=True)
    with open(os.path.join(root, STAMP), "w", encoding="ascii"):
        pass
    return root


def patchelf(folder):
    """A patchelf: the machine's, or one unpacked from its own suite."""
    if shutil.which("patchelf"):
        return shutil.which("patchelf")
    mine = os.path.join(folder, "patchelf", "usr", "bin", "patchelf")
    if not os.path.exists(mine):
        apt = Apt(os.path.join(folder, "tools"), SUITE)
        done = subprocess.run(["apt-get", "download", "-q", "patchelf"], cwd=apt.packages,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              stdin=subprocess.DEVNULL, timeout=120, check=False)
        if done.returncode:
            raise Unavailable("no patchelf: " + done.stdout.strip()[-200:])
        for path in glob.glob(os.path.join(apt.packages, "*.deb")):
            apt.run("dpkg-deb", "-x", path, os.path.join(folder, "patchelf"))
            os.unlink(path)
    return mine


def loader_of(root):
    for pattern in ("usr/lib/*/ld-linux-*.so.*", "usr/lib64/ld-linux-*.so.*",
                    "lib*/ld-linux-*.so.*"):
        found = [path for path in glob.glob(os.path.join(root, pattern))
                 if os.path.isfile(os.path.realpath(path))]
        if found:
            return os.path.realpath(found[0])
    raise Unavailable("no loader in " + os.path.basename(root))


def library_path(root):
    folders = glob.glob(os.path.join(root, "usr", "lib", "*-linux-gnu"))
    return ":".join(folders + glob.glob(os.path.join(root, "lib", "*-linux-gnu")))


def variants(folder, version):
    """(Python through the loader, the same as a program or None, why not)."""
    root = fetch(folder, version)
    program = os.path.join(root, "usr", "bin", "python" + version)
    home = {"PYTHONHOME": os.path.join(root, "usr")}
    loader = loader_of(root)
    through = Python(version + "-loader", [loader, "--library-path", library_path(root), program],
                     home)
    # The interpreter's path and the libraries' are written into the file: named by their hash.
    place = hashlib.sha256((loader + library_path(root)).encode()).hexdigest()[:12]
    patched = os.path.join(root, "usr", "bin", "python%s-%s" % (version, place))
    try:
        if not os.path.exists(patched):
            tool = patchelf(folder)
            done = subprocess.run([tool, "--set-interpreter", loader, "--force-rpath",
                                   "--set-rpath", library_path(root), "--output", patched + ".new",
                                   program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, check=False)
            if done.returncode:
                raise Unavailable("patchelf: " + done.stdout.strip()[-200:])
            os.chmod(patched + ".new", 0o755)
            os.rename(patched + ".new", patched)
        return through, Python(version + "-sid", [patched], home), None
    except Unavailable as reason:
        return through, None, str(reason)


def newer(folder):
    """[Python], [(name, reason why it is missing)] of NEWER, kept in folder from run to run."""
    found, missing = [], []
    os.makedirs(folder, exist_ok=True)
    for version in NEWER:
        try:
            with open(os.path.join(folder, ".unpacking"), "w", encoding="ascii") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)  # another test may be unpacking the same
                through, program, reason = variants(folder, version)
            found.append(through)
            if program:
                found.append(program)
            else:
                missing.append((version + "-sid", reason))
        except (Unavailable, OSError) as reason:
            missing.append((version, str(reason)))
    return found, missing


if __name__ == "__main__":
    import sys
    pythons, skipped = installed(), []
    if len(sys.argv) > 1:
        more, skipped = newer(os.path.abspath(sys.argv[1]))
        pythons += more
    for one in pythons:
        print("%-16s %-8s %s" % (one.name, one.full, " ".join(one.argv)))
    for skipped_name, why in skipped:
        print("skipped %s: %s" % (skipped_name, why))
