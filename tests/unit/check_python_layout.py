# SPDX-License-Identifier: Apache-2.0
"""Compares a struct bpfprof_python_layout with the interpreter that runs this: its own memory.

usage: PYTHON check_python_layout.py [FIELD=VALUE...]

Without fields it says what it runs on: the program, the file with the interpreter, sys.hexversion.
"""

import ctypes
import os
import sys
import threading
import time

LAYOUT = {}


def describe():
    name = os.path.realpath(sys.executable)
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.split(None, 5)[-1].strip()
            if os.path.basename(path).startswith("libpython"):
                name = path
    print("%s\t%s\t%x" % (sys.executable, name, sys.hexversion))


def word(va, size=8):
    """Reads memory with the GIL held."""
    return int.from_bytes(ctypes.string_at(va, size), "little")


def expect(what, got, wanted):
    if got != wanted:
        raise SystemExit("%s: %r, not %r" % (what, got, wanted))


def sample(number):
    """A function whose code object is looked at."""
    def inner(value):
        return value + number
    return inner


def check_code():
    code = sample(1).__code__
    at = id(code)
    expect("code_name", word(at + LAYOUT["code_name"]), id(code.co_name))
    expect("code_filename", word(at + LAYOUT["code_filename"]), id(code.co_filename))
    expect("code_firstlineno", word(at + LAYOUT["code_firstlineno"], 4), code.co_firstlineno)
    expect("code_flags", word(at + LAYOUT["code_flags"], 4), code.co_flags)
    table = code.co_lnotab if sys.version_info < (3, 10) else code.co_linetable
    expect("code_linetable", word(at + LAYOUT["code_linetable"]), id(table))
    if sys.version_info >= (3, 11):
        expect("code_qualname", word(at + LAYOUT["code_qualname"]), id(code.co_qualname))
        adaptive = code._co_code_adaptive
        expect("code_adaptive", ctypes.string_at(at + LAYOUT["code_adaptive"], len(adaptive)),
               adaptive)
    else:
        expect("code_qualname", LAYOUT["code_qualname"], 0)
    if sys.version_info >= (3, 12):
        text = "def f():\n    pass\n"
        codes = [compile(text, "x", "exec") for _ in range(3)]
        versions = [word(id(c) + LAYOUT["code_version"], 4) for c in codes]
        expect("code_version", all(versions) and len(set(versions)) == 3 and
               max(versions) - min(versions) < 64, True)


def check_strings():
    for text, kind, is_ascii in (("plain", 1, 1), ("caf\u00e9", 1, 0), ("\u0436\u0436x", 2, 0),
                                 ("\U0001f600!", 4, 0)):
        at = id(text)
        value = hash(text)
        expect("unicode_length", word(at + LAYOUT["unicode_length"]), len(text))
        expect("unicode_hash", word(at + LAYOUT["unicode_hash"]), value & (1 << 64) - 1)
        state = word(at + LAYOUT["unicode_state"], 4) >> LAYOUT["unicode_kind_shift"]
        expect("state", (state & 7, state >> 3 & 1, state >> 4 & 1), (kind, 1, is_ascii))
        encoded = text.encode({1: "latin-1", 2: "utf-16-le", 4: "utf-32-le"}[kind])
        data = LAYOUT["ascii_data"] if is_ascii else LAYOUT["compact_data"]
        expect("data", ctypes.string_at(at + data, len(encoded)), encoded)
    line = b"some bytes"
    expect("bytes_size", word(id(line) + LAYOUT["bytes_size"]), len(line))
    expect("bytes_data", ctypes.string_at(id(line) + LAYOUT["bytes_data"], len(line)), line)


def runtime():
    return ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))


def own_tstate():
    get = ctypes.pythonapi.PyThreadState_Get
    get.restype = ctypes.c_void_p
    return get()


def tstates():
    interpreter = word(runtime() + LAYOUT["runtime_interpreters"])
    main = ctypes.pythonapi.PyInterpreterState_Main
    main.restype = ctypes.c_void_p
    expect("runtime_interpreters", interpreter, main())
    expect("interpreter_next", word(interpreter + LAYOUT["interpreter_next"]), 0)
    found = []
    at = word(interpreter + LAYOUT["interpreter_threads"])
    while at:
        found.append(at)
        at = word(at + LAYOUT["tstate_next"])
    return found


def is_holding(tstate):
    if LAYOUT["runtime_current"]:
        return word(runtime() + LAYOUT["runtime_current"]) == tstate
    return word(tstate + LAYOUT["tstate_status"], 4) & LAYOUT["status_mask"] != 0


def gil_holder():
    if LAYOUT["version"] < 0x30c:
        return word(runtime() + LAYOUT["gil"] + LAYOUT["gil_holder"])
    interpreter = word(runtime() + LAYOUT["runtime_interpreters"])
    return word(word(interpreter + LAYOUT["gil"]) + LAYOUT["gil_holder"])


def check_threads():
    """Others compute and wait for the GIL, or sleep without it, while this thread looks."""
    stop = threading.Event()
    turns = [0, 0]

    def spin(slot):
        while not stop.is_set():
            turns[slot] += 1

    threads = [threading.Thread(target=spin, args=(slot,)) for slot in range(2)]
    threads.append(threading.Thread(target=stop.wait))
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            own, states = own_tstate(), tstates()
            idents = {t.ident for t in threads} | {threading.get_ident()}
            expect("tstate_thread", {word(t + LAYOUT["tstate_thread"]) for t in states}, idents)
            expect("own thread state listed", own in states, True)
            if not LAYOUT["free_threaded"]:
                expect("GIL", [t for t in states if is_holding(t)], [own])
                expect("gil_holder", gil_holder(), own)
            time.sleep(0.001)
        expect("others ran", min(turns) > 0, True)
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def check_frame_objects(own):
    """3.8-3.10; called by caller(), which does not move on meanwhile."""
    frame = sys._getframe(1)
    at = word(own + LAYOUT["tstate_frame"])  # of word() itself or of this function
    for _ in range(4):
        if at == id(frame):
            break
        at = word(at + LAYOUT["frame_previous"])
    expect("tstate_frame", at, id(frame))
    while frame:
        expect("frame_code", word(at + LAYOUT["frame_code"]), id(frame.f_code))
        expect("frame_lasti", word(at + LAYOUT["frame_lasti"], 4) * LAYOUT["lasti_unit"],
               frame.f_lasti)
        at = word(at + LAYOUT["frame_previous"])
        frame = frame.f_back
        expect("frame_previous", at, id(frame) if frame else 0)


def check_frames(own):
    """3.11+; called by caller()."""
    frame = sys._getframe(1)
    at = word(own + LAYOUT["tstate_frame"])
    if LAYOUT["chain"] < 4:
        at = word(at + LAYOUT["cframe_frame"])
    skipping = True
    owner = 0
    while at:
        owner = word(at + LAYOUT["frame_owner"], 1)
        is_shim = LAYOUT["chain"] > 2 and owner >= LAYOUT["shim_owner"]
        code = word(at + LAYOUT["frame_code"]) & ~LAYOUT["code_mask"]
        if skipping and code == id(frame.f_code):
            skipping = False
        if not skipping and not is_shim:
            expect("frame_code", code, id(frame.f_code))
            lasti = word(at + LAYOUT["frame_lasti"]) - code - LAYOUT["code_adaptive"]
            expect("frame_lasti", lasti, frame.f_lasti)
            frame = frame.f_back
        at = word(at + LAYOUT["frame_previous"])
    expect("frames", frame, None)
    expect("outermost frame", owner == 1 if LAYOUT["chain"] == 2 else is_shim, True)


def caller(_):
    own = own_tstate()
    if LAYOUT["chain"] == 1:
        check_frame_objects(own)
    else:
        check_frames(own)
    return 0


def main():
    if len(sys.argv) == 1:
        describe()
        return
    LAYOUT.update((name, int(value)) for name, value in
                  (argument.split("=") for argument in sys.argv[1:]))
    check_code()
    check_strings()
    check_threads()
    # Through C as well: sorted() calls back.
    list(map(caller, sorted([2, 1], key=caller)))
    caller(0)
    expect("version", LAYOUT["version"], sys.hexversion >> 16)


if __name__ == "__main__":
    main()
