# SPDX-License-Identifier: Apache-2.0
"""Go programs: stripped or not, movable, with C, without section headers; against what they know of their stacks."""

import json
import os
import re
import signal
import subprocess

from chains import KERNEL, TRUNCATED, read_folded
from dumps import still, wait_for
from harness import ROOT, Skip, check, test

BESIDE = True
TARGETS = os.path.join(ROOT, "tests", "system", "targets")
SECONDS = 6
HZ = 999
THREADS = 12
# Where stacks of a Go program begin: of goroutines, of the scheduler, of threads.
ROOTS = re.compile(r"runtime\.(goexit|mstart|mcall|systemstack|morestack|rt0_go|clone|switchToCrashStack0)(\.abi0)?|"
                   r"clone3|__clone3|_start|.*\+0x[0-9a-f]+")
BACK = "runtime.cgocallback;.*;main.goBack"
C_CALL = "runtime.cgocall;runtime.asmcgocall;[^;]*"
CHAINS = {
    "main.recursing": "main.recurse(;main.recurse){0,40}(;main.burn)?",
    "main.enlarging": "main.large(;main.inner(;main.burn)?)?",
    "main.applying": r"main.apply\[[^;]*\](;(main.applying.[^;]*;)?main.inner(;main.burn)?)?",
    "main.failing": "main.recovers(;.*runtime.gopanic;(runtime.[^;]*;)*main.recovers.func1(;main.inner(;main.burn)?)?)?",
    "main.turning": r"main.\(\*counter\).turn(;main.inner(;main.burn)?)?",
    "main.digesting": "main.digest",
    "main.moving": "main.move",
    "main.timing": "main.clock",
    "main.calling": "main.kernel",
    "main.littering": "main.garbage",
    "main.signalling": "",
    "main.forth": "main.down(;main._Cfunc_c_burn(;%s(;c_burn)?)?)?" % C_CALL,
    "main.back": "main.there(;main._Cfunc_c_outer(;%s(;c_outer(;c_middle(;goBack(;crosscall2(;%s"
                 "(;main.burn|;main.down(;main._Cfunc_c_burn(;%s(;c_burn)?)?)?)?)?)?)?)?)?)?)?" % (
                     C_CALL, BACK, C_CALL),
    "c_loop": "c_calls(;goFromThread(;crosscall2(;runtime.cgocallback;.*goFromThread;main.burn)?)?)?",
}
THREAD = re.compile(r"(clone3|__clone3|libc[^;]*\+0x[0-9a-f]+);(start_thread|libc[^;]*\+0x[0-9a-f]+)")
HIDDEN = "-s -w"


def no_sections(path):
    """As some packers leave programs: without section headers."""
    with open(path, "r+b") as file:
        for off, size in ((0x28, 8), (0x3c, 4)):
            file.seek(off)
            file.write(bytes(size))


def go_build(context, name, sources, *flags, cgo=False, after=None):
    """Builds a Go program among the targets. sources: a file or a folder of targets/."""
    out = context.builder.out(name)
    if context.builder.fresh(out):
        return out
    folder = os.path.join(TARGETS, sources if cgo else "")
    script = 'cd "$1" && shift && exec env GO111MODULE=off GOTOOLCHAIN=local CGO_ENABLED=%d go build "$@"' % cgo
    if not context.builder.command(out, ["sh", "-c", script, "sh", folder, *flags, "-o", out,
                                         "." if cgo else sources]):
        raise Skip("%s: %s" % context.builder.skipped[-1])
    if after:
        after(out)
    return out


def user_frames(frames):
    """Without the kernel's, and a marker."""
    return [frame.removesuffix(".abi0") for frame in frames if not frame.endswith(KERNEL) and frame != TRUNCATED]


def chain_wrong(frames):
    """What is wrong with the stack of a goroutine, or None."""
    at = next((i for i, frame in enumerate(frames) if frame in CHAINS), None)
    if at is None:
        return None
    if not (THREAD.fullmatch(";".join(frames[:at])) if frames[at] == "c_loop" else frames[:at] == ["runtime.goexit"]):
        return "before"
    wanted = re.compile("(%s)?" % CHAINS[frames[at]])
    rest = frames[at + 1:]
    # What Go's own library does, and signal handlers, come last.
    while rest and not wanted.fullmatch(";".join(rest)):
        if re.match(r"main\.|c_|goBack|crosscall2", rest[-1]):
            return "chain"
        rest.pop()
    return None


def judge(context, path, name, hidden, needs):
    """Records the program; every stack must be one that it can have, from end to end."""
    process = context.spawn([path, "60"], plain=True)
    context.bpfprof("record", "-p", process.pid, "-F", HZ, "-d", SECONDS, "-o", name + ".folded",
                    "--stats", name + ".json").expect(0)
    process.kill()
    total, cut, wrong, seen = 0, 0, {}, {}
    for _, frames, count in read_folded(context.text(name + ".folded")):
        user = user_frames(frames)
        if not user:
            continue
        total += count
        if frames[0] == TRUNCATED:
            cut += count
            continue
        why = chain_wrong(user)
        if not why and not ROOTS.fullmatch(user[0]):
            why = "root"
        if not why and hidden and any("+0x" in frame and os.path.basename(path) in frame for frame in user):
            why = "name"
        if why:
            wrong[why + ": " + ";".join(user)] = count
        for frame in user:
            seen[frame] = seen.get(frame, 0) + count
    reasons = context.json(name + ".json")["stacks"]["reasons"]
    context.note("%s: %d samples, %d wrong, %d cut %s" % (name, total, sum(wrong.values()), cut, reasons))
    worst = sorted(wrong.items(), key=lambda item: -item[1])[:10]
    check(total > 200, "%s: only %d samples" % (name, total))
    check(sum(wrong.values()) <= total * 0.001, worst)
    check(cut <= total * 0.02, reasons)
    missing = [need for need in needs if need not in seen]
    check(not missing, "%s: never seen: %s" % (name, missing))


NEEDS = ["main.recurse", "main.large", "main.(*counter).turn", "main.recovers.func1", "main.inner", "main.burn",
         "main.digest", "main.move", "main.clock", "main.kernel", "main.garbage"]


@test()
def programs_without_symbols(context):
    """Chains of a program as it is built, and as programs are shipped."""
    for name, flags, after in (
            ("go_plain", [], None),
            ("go_stripped", ["-ldflags", HIDDEN], None),
            ("go_strip", [], lambda out: subprocess.run(["strip", out], check=True)),
            ("go_pie", ["-buildmode=pie", "-ldflags", HIDDEN], None),
            ("go_bare", ["-ldflags", HIDDEN], no_sections)):
        path = go_build(context, name, "go_chains.go", *flags, after=after)
        judge(context, path, name, name != "go_plain", NEEDS)


@test()
def calls_between_go_and_c(context):
    """Stacks that change between goroutines and C, several times, also of a thread that C has made."""
    for name, flags in (("go_c", []), ("go_c_pie", ["-buildmode=pie", "-ldflags", "-linkmode external"])):
        path = go_build(context, name, "go_calls", *flags, cgo=True)
        judge(context, path, name, False, ["c_burn", "c_middle", "main.goBack", "c_calls", "c_loop"])


def traceback(text):
    """{functions, innermost first} of each goroutine that Go has printed; with lines, without what is inlined."""
    found = []
    for part in re.split(r"\n\n", text):
        frames = re.findall(r"^(\S+)\(.*\)\n\t(\S+):(\d+)", part, re.MULTILINE)
        frames = [(re.sub(r"\[.*?\]", "[...]", name), file, int(line)) for name, file, line in frames]
        if any(name == "main.down" for name, _, _ in frames):
            found.append([frame for frame in frames if frame[0].startswith(("main.down", "main.pass", "main.main",
                                                                             "main.(*reader)"))])
    return found


@test()
def traceback_of_go(context):
    """dump, and the lines of a recording in pprof's format, against what Go prints of its goroutines on SIGQUIT."""
    path = go_build(context, "go_waits", "go_waits.go", "-ldflags", HIDDEN)
    with open(context.path("err"), "wb") as err:
        process = context.spawn([path, str(THREADS)], plain=True, stderr=err, env={"GOTRACEBACK": "all"})
    def waiting():
        return still(process.pid, THREADS + 1)
    wait_for(waiting, "all threads in their system call")
    run = context.bpfprof("dump", "-p", process.pid, "--json").expect(0)
    process.send_signal(signal.SIGQUIT)
    process.wait()
    said = traceback(context.text("err"))
    check(len(said) == THREADS + 1, context.text("err")[-2000:])
    dumped = []
    for thread in json.loads(run.out):
        names = [frame["name"] for frame in thread["frames"]]
        if "main.down" not in names:
            continue
        check("runtime.goexit" in names[-1] or "syscall" in names[0], names)
        check(names[-1] == "runtime.goexit", names)
        dumped.append([name for name in names if name.startswith("main.")])
    wanted = sorted([[name for name, _, _ in frames] for frames in said])
    check(sorted(dumped) == wanted, "dump: %s\nGo: %s" % (sorted(dumped), wanted))
    context.note("%d goroutines, %d frames" % (len(said), sum(map(len, wanted))))
