# SPDX-License-Identifier: Apache-2.0
"""Rewrites the eval loop of CPython 3.13 so that each instruction is a function.

From 3.14 on CPython can be configured like that (--with-tail-call-interp): an instruction ends by a
jump to the function of the next one, and _PyEval_EvalFrameDefault() only calls the first. Debian's
builds are not, and its source of 3.14 is not always to be had; that of 3.13 is. rewrite() makes
the same shape of it, with the same names of functions, for a clang that knows preserve_none.
"""

import os
import re
import sys

LABELS = ["pop_4_error", "pop_3_error", "pop_2_error", "pop_1_error", "error", "exception_unwind",
          "exit_unwind", "resume_with_error", "start_frame", "resume_frame", "INSTRUMENTED_LINE",
          "_unknown_opcode"]
HEAD = """
#define TAIL_PARAMS _PyInterpreterFrame *frame, PyObject **stack_pointer, \\
	PyThreadState *tstate, _Py_CODEUNIT *next_instr, int oparg, uint8_t opcode
#define TAIL_ARGS frame, stack_pointer, tstate, next_instr, oparg, opcode
#define TAIL_FUNCTION(name) \\
	__attribute__((preserve_none)) static PyObject *_TAIL_CALL_##name(TAIL_PARAMS)
#define TAIL_TO_(name) __attribute__((musttail)) return _TAIL_CALL_##name(TAIL_ARGS)
#define TAIL_TO(name) TAIL_TO_(name)
#define TAIL_TO_PREDICTED_(number) TAIL_TO_(PREDICTED_##number)
#define TAIL_TO_PREDICTED(op) TAIL_TO_PREDICTED_(op)
#undef DISPATCH_GOTO
#define DISPATCH_GOTO() __attribute__((musttail)) return tail_table[opcode](TAIL_ARGS)
typedef __attribute__((preserve_none)) PyObject *(*tail_function)(TAIL_PARAMS);
static const tail_function tail_table[256];
#define TIER_ONE 1
"""
DISPATCH_FIRST = """
__attribute__((noinline)) PyObject *
_PyEval_EvalFrameDefault(PyThreadState *tstate, _PyInterpreterFrame *frame, int throwflag)
"""


def cut(text, begin, end):
    """(what is before begin, from there up to end, end and the rest)."""
    at = text.index(begin)
    stop = text.index(end, at)
    return text[:at], text[at:stop], text[stop:]


def jumps(text):
    """Each goto becomes a call in place of a return."""
    text = re.sub(r"goto PREDICT_ID\((\w+)\)", r"TAIL_TO_PREDICTED(\1)", text)
    return re.sub(r"goto (\w+)", r"TAIL_TO(\1)", text)


def instructions(text, numbers):
    """generated_cases.c.h: functions, and their names."""
    out, names = [], []
    for part in re.split(r"(?m)^(?=        TARGET\()", jumps(text))[1:]:
        name = re.match(r"\s*TARGET\((\w+)\)", part).group(1)
        names.append(name)
        part = part.replace("TARGET(", "TAIL_FUNCTION(", 1)
        head, _, body = part.partition("PREDICTED(%s);" % name)
        if body:  # others come in here, when they find that they are not as special
            second = "PREDICTED_" + numbers[name]
            out.append("%s TAIL_TO(%s);\n}\nTAIL_FUNCTION(%s) {\n%s" % (head, second, second,
                                                                         body))
            names.append(second)
        else:
            out.append(part)
    # What follows the last one belongs to the file.
    out[-1] = out[-1].partition("#undef TIER_ONE")[0]
    return "\n".join(out), names


def exits(text):
    """The code below the instructions: one function for each label; falling through is a jump."""
    text = re.sub(r"(?s)#ifdef LLTRACE.*?#endif", "", jumps(text))
    parts = re.split(r"(?m)^(\w+):\s*$", text)
    out = []
    for number in range(1, len(parts), 2):
        name, body = parts[number], parts[number + 1]
        following = parts[number + 2] if number + 2 < len(parts) else None
        last = "TAIL_TO(%s);" % following if following else ""
        out.append("TAIL_FUNCTION(%s) {\n%s\n%s\n}\n" % (name, body, last))
    return "\n".join(out)


def rewrite(source, out):
    """From CPython's source to ceval_tail.c in the folder out."""
    def read(name, folder="Python"):
        with open(os.path.join(source, folder, name), encoding="utf-8") as file:
            return file.read()
    text = read("ceval.c")
    before, function, after = cut(text, "PyObject* _Py_HOT_FUNCTION\n_PyEval_EvalFrameDefault",
                                  "\n}\n\n#if defined(__GNUC__)")
    function = function[function.index("{"):].replace('#include "opcode_targets.h"', "")
    _, prologue, rest = cut(function, "{", "    /* Local \"register\" variables.")
    rest = rest[rest.index("start_frame:"):]
    start, rest = rest.split("    {\n    /* Start instructions */", 1)
    rest = rest[rest.index('#include "generated_cases.c.h"'):]
    _, line, rest = cut(rest, "    {\n        _Py_CODEUNIT *prev",
                        "#if USE_COMPUTED_GOTOS\n        _unknown")
    unknown = rest[rest.index("opcode = next_instr"):rest.index("        } /* End instructions */")]
    bottom = rest[rest.index("pop_4_error:"):rest.index("#ifdef _Py_TIER2\n\n// Tier 2")]
    bottom = bottom.replace("frame == &entry_frame", "frame->owner == FRAME_OWNED_BY_CSTACK")
    # The block that the instructions stand in ends before exit_unwind.
    bottom = re.sub(r"\n    }\n\nexit_unwind:", "\n\nexit_unwind:", bottom)
    cases, names = instructions(read("generated_cases.c.h"), dict(
        re.findall(r"#define (\w+) +(\d+)", read("opcode_ids.h", "Include"))))
    targets = re.findall(r"&&(?:TARGET_)?(\w+)", read("opcode_targets.h"))
    prologue = re.sub(r"uint8_t opcode;.*|int oparg;.*", "", prologue)
    prologue = re.sub(r"goto (\w+)", r"return _TAIL_CALL_\1(frame, NULL, tstate, NULL, 0, 0)",
                      prologue)
    parts = [before.replace('"ceval_macros.h"', '"ceval_macros_tail.h"'), HEAD]
    parts += ["TAIL_FUNCTION(%s);\n" % name for name in LABELS + names]
    parts += [cases, "TAIL_FUNCTION(INSTRUMENTED_LINE) {\n%s\n}\n" % jumps(line),
              "TAIL_FUNCTION(_unknown_opcode) {\n%s\n}\n" % jumps(unknown), exits(start),
              exits(bottom), "static const tail_function tail_table[256] = {\n",
              *["\t_TAIL_CALL_%s,\n" % name for name in targets], "};\n", DISPATCH_FIRST,
              prologue, "    return _TAIL_CALL_start_frame(frame, NULL, tstate, NULL, 0, 0);\n}\n",
              after.removeprefix("\n}\n")]
    with open(os.path.join(out, "ceval_macros_tail.h"), "w", encoding="utf-8") as file:
        file.write(jumps(read("ceval_macros.h")))
    with open(os.path.join(out, "ceval_tail.c"), "w", encoding="utf-8") as file:
        file.write("".join(parts))


if __name__ == "__main__":
    rewrite(*sys.argv[1:3])
