# SPDX-License-Identifier: Apache-2.0
"""What the target programs of test_python.py share: they work, and they know their own stacks.

A program calls run(work), which calls work() again and again. With TRUTH_MODE=describe a few rounds
of it run under the interpreter's own tracing, instruction by instruction, and every stack that was
seen goes into a file: those are the legal ones. Without it the same code runs undisturbed until
TRUTH_SECONDS of CPU time are used up; then it is said how much that was. With TRUTH_MODE=sample a
thread of the program samples it besides, as a proof of the description. All files go to TRUTH_OUT and
are named by pid. Runs on Python 3.8 and later.
"""

import bisect
import dis
import json
import os
import re
import sys
import threading
import time

OUT = os.environ.get("TRUTH_OUT", "")
SECONDS = float(os.environ.get("TRUTH_SECONDS", "0.5"))
DESCRIBING = os.environ.get("TRUTH_MODE") == "describe"
PROGRAM = os.environ.get("TRUTH_PROGRAM", "")
ROUNDS = 3

FACTS = {"roots": ["loop"], "direct": [], "shares": [], "lines": [], "numbered": [], "native": [],
         "outer": [], "makers": [],
         "anywhere": []}
MAKES_GENERATOR = 0x20 | 0x80 | 0x200  # generator, coroutine, asynchronous generator
NODES = [[-1, "", ""]]  # parent, frame, C function between parent and it
CHILDREN = {}
TEXTS = {}
EXPECTED = {}
LINES = {}
MAKERS = {}
PROCESS = {"cpu_go": 0.0, "end": 0.0}


def size(count, small=3):
    """A number of repetitions: few where each instruction is traced."""
    return min(count, small) if DESCRIBING else count


def direct(*names):
    """From 3.11 on these functions are only called without C code between caller and callee."""
    FACTS["direct"] += names


def share(name, percent, tolerance):
    """Samples of this process that have a frame of that name, in percent of its work."""
    FACTS["shares"].append([name, percent, tolerance])


def equal_lines(path, mark="# BUSY"):
    """The lines of a source file that bear the mark cost the same, and all the others nothing."""
    with open(path, encoding="utf-8") as file:
        FACTS["lines"] += ["%s:%d" % (short_file(path), number)
                           for number, line in enumerate(file, 1) if line.rstrip().endswith(mark)]


def root(name):
    """A function that starts work by itself, not below loop()."""
    FACTS["roots"].append(name)


def native(pattern):
    """Stacks without Python frames are right if one of their frames matches."""
    FACTS["native"].append(pattern)


def outer(*names):
    """Functions below which, by C code, another interpreter runs in the same thread."""
    FACTS["outer"] += names


def anywhere(code):
    """C code calls this where an object dies, which tracing may delay; it calls no other."""
    FACTS["anywhere"] += [frame_text(code, line) for line in
                          {code.co_firstlineno, *code_lines(code)}]


def numbered(pattern):
    """
    Functions made in endless number: the pattern has the groups i and line; the function's code
    begins at base_line(i).
    """
    FACTS["numbered"].append(pattern)


def expect(function, lines):
    """A function that calls no other one and is too long to be traced: its lines are these."""
    EXPECTED[function.__code__] = lines


def base_line(number):
    return number * 7 % 1000 + 2


def canonical(text, patterns):
    """The frame of a numbered function without its number, if number and line agree."""
    for pattern in patterns:
        found = re.fullmatch(pattern, text)
        if found:
            number, line = int(found.group("i")), int(found.group("line"))
            # A module begins at line 0 or 1, before its first statement.
            where = "%+d" % (line - base_line(number)) if line > 1 else "start"
            return "numbered %s %s" % (re.sub(r"\d+", "#", text), where)
    return text


def short_file(path):
    """The short form of py-spy: from the outermost folder that still holds an __init__.py."""
    if path.startswith("<"):
        return path
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        found = re.match(r".*(?:/site-packages/|/dist-packages/|/lib/python3\.\d+/)(.*)", path,
                         re.DOTALL)
        return found.group(1) if found else os.path.basename(path)
    top = folder
    while os.path.exists(os.path.join(top, "__init__.py")) and top != "/":
        top = os.path.dirname(top)
    return os.path.relpath(path, top)


def frame_text(code, line, patterns=None):
    key = (code, line, patterns)
    text = TEXTS.get(key)
    if text is None:
        name = getattr(code, "co_qualname", code.co_name)
        text = "%s (%s:%d)" % (name, short_file(code.co_filename), line or 0)
        text = text.replace(";", ":").replace("\n", " ")
        text = TEXTS[key] = canonical(text, FACTS["numbered"] if patterns is None else patterns)
    return text


def child(parent, text, via=""):
    node = CHILDREN.get((parent, text))
    if node is None:
        node = CHILDREN[(parent, text)] = len(NODES)
        NODES.append([parent, text, via])
    return node


def line_table(code):
    """[first instruction], [line] of the ranges of a code object."""
    table = LINES.get(code)
    if table is None:
        if hasattr(code, "co_lines"):
            table = [(start, line) for start, _, line in code.co_lines()]
        else:
            table = list(dis.findlinestarts(code))
        table = LINES[code] = ([start for start, _ in table], [line for _, line in table])
    return table


def code_lines(code):
    return line_table(code)[1]


def maker_lines(code):
    """Lines of the instructions up to the one that makes the generator."""
    found = MAKERS.get(code)
    if found is None:
        found = MAKERS[code] = {code.co_firstlineno}
        starts, lines = line_table(code)
        for one in dis.get_instructions(code):
            found.add(lines[bisect.bisect_right(starts, one.offset) - 1])
            if one.opname == "RETURN_GENERATOR":
                break
        else:
            found &= {code.co_firstlineno}
    return found


def current_line(frame):
    """
    What a traceback says. While a frame is traced, f_lineno only moves with the line events of it,
    and is wrong where code jumps into the middle of a line.
    """
    code, lasti = frame.f_code, frame.f_lasti
    if lasti < 0:
        return code.co_firstlineno
    table = line_table(code)
    at = bisect.bisect_right(table[0], lasti) - 1
    return table[1][at] if at >= 0 else code.co_firstlineno


class Watch:
    """The tracing of one thread. Keeps no frame alive."""

    def __init__(self):
        self.calls = []    # C functions that run: (caller's frame, name)
        self.parents = {}  # of a frame: the node of its caller, the C function in between
        self.last = (None, None)

    def profile(self, frame, event, arg):
        if event == "c_call":
            self.calls.append((id(frame), getattr(arg, "__qualname__", "") or "?"))
        elif event in ("c_return", "c_exception"):
            while self.calls and self.calls.pop()[0] != id(frame):
                pass

    def trace(self, frame, event, _arg):
        if event == "call":
            return self.enter(frame)
        place = (id(frame), frame.f_lasti)
        if event == "return":
            self.note(frame, current_line(frame))
            self.parents.pop(id(frame), None)
        elif place != self.last:
            self.last = place
            self.note(frame, current_line(frame))
        return self.trace

    def enter(self, frame):
        """A call, or a generator that goes on, maybe from elsewhere."""
        caller = frame.f_back
        while self.calls and self.calls[-1][0] != id(caller) and \
                self.calls[-1][0] not in self.parents:
            self.calls.pop()
        via = self.calls[-1][1] if self.calls and self.calls[-1][0] == id(caller) else ""
        node = self.note(caller, current_line(caller)) if caller else 0
        code = frame.f_code
        self.parents[id(frame)] = (node, via)
        self.note(frame, code.co_firstlineno)
        self.note(frame, current_line(frame))
        if code.co_flags & MAKES_GENERATOR:
            # 3.11+: seen, but not traced, while its object is made, wherever that is.
            for line in maker_lines(code):
                made = frame_text(code, line)
                if made not in FACTS["makers"]:
                    FACTS["makers"].append(made)
        known = EXPECTED.get(code)
        if known:
            for line in known:
                self.note(frame, line)
            return None
        frame.f_trace_opcodes = True
        return self.trace

    def note(self, frame, line):
        """The node of a frame at a line; its callers stand where they stood when it began."""
        if id(frame) not in self.parents:
            caller = frame.f_back
            node = self.note(caller, current_line(caller)) if caller else 0
            self.parents[id(frame)] = (node, "")
        parent, via = self.parents[id(frame)]
        return child(parent, frame_text(frame.f_code, line), via)


def watch(frame):
    """From here on every instruction of this thread is noted."""
    if not DESCRIBING:
        return
    one = Watch()
    # Time that is not seen: before and after the tracing.
    for line in set(code_lines(frame.f_code)):
        node = one.note(frame, line)
        for code in (watch.__code__, unwatch.__code__):
            for below in set(code_lines(code)):
                child(node, frame_text(code, below))
    at = frame
    while at is not None:
        at.f_trace_opcodes = True
        at.f_trace = one.trace
        at = at.f_back
    sys._getframe().f_trace_opcodes = True
    sys.setprofile(one.profile)
    sys.settrace(one.trace)


def unwatch():
    if DESCRIBING:
        sys.settrace(None)
        sys.setprofile(None)


def more(state):
    state[0] -= 1
    return state[0] >= 0 or time.process_time() < PROCESS["end"]


def loop(work):
    state = [ROUNDS if DESCRIBING else 1]
    watch(sys._getframe())
    while more(state):
        work()
    unwatch()


def begin():
    """Work begins now, or when the test says so."""
    go = os.environ.get("TRUTH_GO")
    if go and not DESCRIBING and not PROCESS.get("gone"):
        write("ready", {})
        while not os.path.exists(go):
            time.sleep(0.02)
        PROCESS["cpu_go"] = time.process_time()
        PROCESS["gone"] = True
    PROCESS["cpu_begin"] = time.process_time()
    PROCESS["end"] = 0 if DESCRIBING else PROCESS["cpu_begin"] + SECONDS
    if os.environ.get("TRUTH_MODE") == "sample":
        PROCESS["sampled"] = sample_self()


def forked():
    """In a forked child: its CPU time starts at zero."""
    PROCESS.update(cpu_go=0.0, gone=True)
    PROCESS.pop("sampled", None)


def sampler(counts, over):
    """Samples the other threads of this interpreter, until it is over."""
    me = threading.get_ident()
    sys.setswitchinterval(0.0005)
    while not over:
        time.sleep(0.001)
        for ident, frame in sys._current_frames().items():
            stack = []
            while ident != me and frame is not None:
                stack.append((frame, frame.f_lasti, frame_text(frame.f_code, current_line(frame), ())))
                frame = frame.f_back
            # The thread may have gone on meanwhile.
            same = stack and sys._current_frames().get(ident) is stack[0][0]
            if same and all(one.f_lasti == lasti for one, lasti, _ in stack):
                key = ";".join(text for _, _, text in reversed(stack))
                counts[key] = counts.get(key, 0) + 1


def sample_self():
    """Starts the sampler; what ends it and writes its result."""
    counts, over = {}, []
    thread = threading.Thread(target=sampler, args=(counts, over), daemon=True)
    thread.start()

    def end():
        over.append(1)
        thread.join()
        with open(os.path.join(OUT, "%d.folded" % os.getpid()), "w", encoding="utf-8") as file:
            file.writelines("self;%s %d\n" % pair for pair in counts.items())
    return end


def write(kind, document):
    path = os.path.join(OUT, "%d.%s" % (os.getpid(), kind))
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(document, file)
    os.rename(path + ".new", path)


def finish():
    """Work is over: what is known of it goes to a file."""
    if not OUT:
        return
    if "sampled" in PROCESS:
        PROCESS.pop("sampled")()
    if DESCRIBING:
        write("legal", dict(FACTS, nodes=NODES, program=PROGRAM))
    else:
        write("done", {"program": PROGRAM, "cpu_go": PROCESS["cpu_go"],
                       "cpu_begin": PROCESS["cpu_begin"], "cpu_end": time.process_time()})


def run(work):
    begin()
    loop(work)
    finish()


def run_inside(number, work):
    """In another interpreter of a process: a share of its time, counted by thread."""
    PROCESS["end"] = 0 if DESCRIBING else time.process_time() + SECONDS
    began = time.thread_time()
    loop(work)
    if DESCRIBING:
        write("%d.legal" % number, dict(FACTS, nodes=NODES, program=PROGRAM))
    else:
        write("%d.done" % number, {"program": PROGRAM, "cpu_go": 0, "cpu_begin": 0,
                                   "cpu_end": time.thread_time() - began})


def run_threads(works):
    """One Python thread for each of them."""
    begin()
    threads = [threading.Thread(target=loop, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
        if DESCRIBING:
            thread.join()  # tracing several at once crashes 3.12
    for thread in threads:
        thread.join()
    finish()


def undumpable():
    """In the mode of four capabilities no other process may look into the process."""
    if os.environ.get("TARGET_NONDUMPABLE") and not DESCRIBING:
        import ctypes
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)


if os.environ.get("TRUTH_MODE") is not None:
    try:
        undumpable()
    except ImportError:
        pass  # a subinterpreter of its own
