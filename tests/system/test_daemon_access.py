# SPDX-License-Identifier: Apache-2.0
"""Only the users that are meant to read profiles can read them."""

import os
import stat
import subprocess

from daemons import Daemon, check_files, token_file
from harness import CAPS, NOBODY, check, test

LIGHT = True
GROUP = 9464


def readable(folder, *groups):
    """(names, bytes of latest.folded) that a user sees who is in these groups alone."""
    done = subprocess.run(["/bin/sh", "-c", 'ls "$1"; echo; cat "$1"/latest.folded "$1"/cpu-*', "sh", folder],
                          user=NOBODY, group=NOBODY, extra_groups=groups, check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL)
    names, _, data = done.stdout.partition(b"\n\n" if done.stdout[:1] != b"\n" else b"\n")
    return names.decode().split(), data


def check_modes(folder, file_mode, folder_mode, group=0):
    for top, _, names in os.walk(folder):
        status = os.stat(top)
        check((stat.S_IMODE(status.st_mode), status.st_gid) == (folder_mode, group),
              "%s: %o of group %d" % (top, status.st_mode, status.st_gid))
        for name in names:
            status = os.stat(os.path.join(top, name))
            check((stat.S_IMODE(status.st_mode), status.st_gid) == (file_mode, group),
                  "%s: %o of group %d" % (name, status.st_mode, status.st_gid))


def written(context, *args, log="log", **kwargs):
    """A folder with a profile of a daemon that has ended, which said nothing bad."""
    daemon = Daemon(context, *args, log=log, **kwargs)
    daemon.wait("profile written", 1)
    check(daemon.end() == 0, "exit status %s" % daemon.process.returncode)
    check_files(daemon.output)
    return daemon


@test(modes=CAPS)
def modes(context):
    """A new folder is for root alone, below a folder that all can enter; --file-mode 0644 opens it."""
    os.chmod(context.dir, 0o755)
    daemon = written(context, output=context.path("a/b"), umask=0o022)
    check_modes(context.path("a"), 0o640, 0o750)
    check(readable(daemon.output) == ([], b""), "another user reads: %s" % (readable(daemon.output),))
    check(not [line for line in daemon.lines() if line["level"] == "warn"], daemon.lines())
    daemon = written(context, "--file-mode", "0644", output=context.path("open"), umask=0o077, log="log-2")
    check_modes(daemon.output, 0o644, 0o755)
    names, data = readable(daemon.output)
    check("latest.folded" in names and data.startswith(b"# {"), "another user cannot read: %s" % names)


@test(modes=CAPS)
def old_folders(context):
    """One that existed keeps its mode, which is reported; with the flag it is closed, or open on purpose."""
    os.chmod(context.dir, 0o755)
    folder = context.scratch("old", 0o755)

    def warned(number, *args):
        daemon = written(context, *args, output=folder, umask=0o022, log="log-%d" % number)
        return [line["msg"] for line in daemon.lines() if "every user can look" in line["msg"]]
    warnings = warned(1)
    check(len(warnings) == 1 and "0755" in warnings[0] and "--file-mode 0640" in warnings[0], "warnings: %s" % warnings)
    names, data = readable(folder)
    check("latest.folded" in names and data == b"", "of files in it another user reads %d bytes" % len(data))
    check(not warned(2, "--file-mode", "0644"), "open on purpose, and reported")
    check(not warned(3, "--file-mode", "0640"), "closed, and reported")
    check(stat.S_IMODE(os.stat(folder).st_mode) == 0o750, "%o" % os.stat(folder).st_mode)
    check(readable(folder) == ([], b""), "another user reads")
    os.chmod(folder, 0o1777)
    warnings = warned(4, "--file-mode", "0640")
    check(len(warnings) == 1 and "left alone" in warnings[0], "warnings: %s" % warnings)
    check(stat.S_IMODE(os.stat(folder).st_mode) == 0o1777, "that of all users was closed")


@test(modes=CAPS)
def groups(context):
    """--group: its members read, others do not; without the right to give files away nothing runs."""
    os.chmod(context.dir, 0o755)
    daemon = written(context, "--group", GROUP, "--split", "pod", output=context.path("a/b"), umask=0o077,
                     extra_groups=[GROUP])
    check_modes(context.path("a"), 0o640, 0o750, GROUP)
    names, data = readable(daemon.output, GROUP)
    check("latest.folded" in names and data.startswith(b"# {"), "a member reads only %s" % names)
    check(readable(daemon.output, GROUP + 1) == ([], b""), "another group reads")
    for folder in ("a/b", "new"):
        done = context.bpfprof("daemon", "--output", context.path(folder), "--group", GROUP, "--listen", "none",
                               extra_groups=[]).expect(1)
        check("--group" in done.text and "SupplementaryGroups=" in done.text, done.text)
    check(not [name for name in os.listdir(daemon.output) if name.endswith(".tmp")], "left behind")


@test(modes=CAPS)
def tokens(context):
    """A token that all users can read is refused; a Secret of Kubernetes with fsGroup is not."""
    path = token_file(context, "a-token-of-the-test", 0o644)
    done = context.bpfprof("daemon", "--output", "x", "--allow-remote-profiling", path).expect(2)
    check("mode 0644" in done.text and "chmod 0640" in done.text and "defaultMode: 0440" in done.text, done.text)
    check(not os.path.exists(context.path("x")), "it has begun all the same")
    # As kubelet mounts it: links with all bits, folders that the group can enter.
    os.makedirs(context.path("secret/..2026"))
    token_file(context, "a-token-of-the-test", 0o440, "secret/..2026/token")
    os.chown(context.path("secret/..2026/token"), 0, GROUP)
    os.symlink("..2026", context.path("secret/..data"))
    os.symlink("..data/token", context.path("secret/token"))
    written(context, "--allow-remote-profiling", context.path("secret/token"), extra_groups=[GROUP])
