# SPDX-License-Identifier: Apache-2.0
"""deploy/image: what is in the container image, and nothing else."""

import functools
import gzip
import hashlib
import io
import json
import os
import re
import subprocess
import tarfile

import containers
from harness import BPFPROF, ROOT, check, test

BESIDE = True
IMAGE = os.path.join(ROOT, "deploy", "image")
MAX_BYTES = 15_000_000


def same(what, found, wanted):
    check(found == wanted, "%s: %s, not %s" % (what, found, wanted))


def build(context, *words):
    """The archive that deploy/image/build makes, and what it said."""
    path = context.path("image.tar")
    done = subprocess.run([os.path.join(IMAGE, "build"), "--program", BPFPROF, "-o", path, *words],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    check(done.returncode == 0, done.stdout)
    return path, done.stdout.strip()


@functools.lru_cache(maxsize=None)
def plain_image():
    """The image as bytes, made once."""
    done = subprocess.run([os.path.join(IMAGE, "build"), "--program", BPFPROF, "-o", "-"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return done.stdout


class Archive:
    """What is in an image, by its own index."""

    def __init__(self, path):
        with tarfile.open(path) as tar:
            self.files = {one.name: tar.extractfile(one).read() for one in tar if one.isfile()}
        self.index = json.loads(self.files["index.json"])
        self.manifest = json.loads(self.blob(self.index["manifests"][0]))
        self.config = json.loads(self.blob(self.manifest["config"]))
        self.layers = [gzip.decompress(self.blob(one)) for one in self.manifest["layers"]]

    def blob(self, descriptor):
        content = self.files["blobs/" + descriptor["digest"].replace(":", "/")]
        check(hashlib.sha256(content).hexdigest() == descriptor["digest"][7:] and
              len(content) == descriptor["size"], "%s is not what it says" % descriptor)
        return content

    def tag(self):
        """Its name, as docker and containerd agree on it."""
        name = json.loads(self.files["manifest.json"])[0]["RepoTags"][0]
        same("name", self.index["manifests"][0]["annotations"]["io.containerd.image.name"],
             "docker.io/library/" + name)
        return name

    def entries(self):
        """{path: member of the tar}."""
        check(len(self.layers) == 1, "%d layers" % len(self.layers))
        with tarfile.open(fileobj=io.BytesIO(self.layers[0])) as tar:
            return {"/" + one.name: one for one in tar}


@test(modes=("root",))
def contents(context):
    """The program, the libraries that it needs, terminals and licences; no shell; small; the same bytes twice."""
    path, said = build(context)
    context.note(said)
    archive = Archive(path)
    entries = archive.entries()
    files = {name for name, one in entries.items() if one.isfile()}
    check(all(one.isfile() or one.isdir() for one in entries.values()), "links or devices in it")
    check(all((one.uid, one.gid, one.mode & 0o7022) == (0, 0, 0) for one in entries.values()),
          "somebody else's, or writable")
    # It is there where musl-gcc is.
    standins = {"/bin/py-spy"} & files
    same("programs and libraries", {name for name in files if entries[name].mode & 0o111},
         {"/bin/bpfprof", *standins, *containers.libraries_of_bpfprof(BPFPROF)})
    rest = {name for name in files if not entries[name].mode & 0o111}
    odd = [name for name in rest if not re.match(
        r"/lib/terminfo/\w/[\w-]+$|/usr/share/doc/[\w.+-]+/copyright$|"
        r"/usr/share/doc/bpfprof/[\w.-]+\.txt$", name)]
    same("other files", odd, [])
    check("/lib/terminfo/x/xterm" in rest, "top has no terminal")
    size = sum(len(content) for name, content in archive.files.items() if name.startswith("blobs/"))
    check(size <= MAX_BYTES, "%d bytes compressed" % size)
    config = archive.config
    same("layer", config["rootfs"]["diff_ids"],
         ["sha256:" + hashlib.sha256(archive.layers[0]).hexdigest()])
    with open(os.path.join(IMAGE, "Containerfile"), encoding="utf-8") as file:
        last = file.read().split("FROM scratch")[1]
    for key, word in (("Entrypoint", "ENTRYPOINT"), ("Cmd", "CMD")):
        same(word, json.loads(re.search("^%s (.*)$" % word, last, re.MULTILINE)[1]),
             config["config"][key])
    check("ENV " + config["config"]["Env"][0] in last and "USER 0:0" in last, last)
    with open(path, "rb") as file:
        first = file.read()
    build(context)
    with open(path, "rb") as file:
        check(first == file.read(), "twice, and not the same bytes")


@test(modes=("root",))
def without_standins(context):
    """Without the static program: one line says so."""
    program = context.path("bpfprof")
    os.symlink(BPFPROF, program)
    path, said = build(context, "--program", program)
    check(sum("without /bin/py-spy" in line for line in said.splitlines()) == 1, said)
    check("/bin/py-spy" not in Archive(path).entries(), "it is there")


@test(modes=("root",))
def for_push(context):
    """--push: libcurl, what it needs, and CA certificates too, under another name."""
    plain = Archive(build(context)[0])
    path, said = build(context, "--push")
    context.note(said)
    archive = Archive(path)
    more = {name for name, one in archive.entries().items() if one.isfile()} - set(plain.entries())
    same("without libraries", {name for name in more if "/lib/" not in name and "/doc/" not in name},
         {"/etc/ssl/certs/ca-certificates.crt"})
    check(any(name.endswith("/libcurl.so.4") for name in more), "no libcurl in %s" % sorted(more))
    # The loader finds all that libcurl needs in the image.
    root = context.path("root")
    with tarfile.open(fileobj=io.BytesIO(archive.layers[0])) as layer:
        layer.extractall(root)
    curl = next(name for name in more if name.endswith("/libcurl.so.4"))
    loader = next(name for name in archive.entries() if "/ld-linux" in name)
    done = subprocess.run(["chroot", root, loader, "--list", curl], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    check(done.returncode == 0 and "not found" not in done.stdout, done.stdout)
    same("name", archive.tag(), plain.tag() + "-push")
