/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_LAYOUT_H
#define BPFPROF_PYTHON_LAYOUT_H

/*
 * Is a file a CPython interpreter (the executable or libpython, under any name), and what is the layout
 * of its objects in memory? Such a file defines the symbol _PyRuntime or has the section of that name
 * (3.10+; 3.11+ is recognized by the section if all symbols were stripped).
 * 3.13 and later describe their own layout (_Py_DebugOffsets, the first bytes of _PyRuntime: CPython
 * Include/internal/pycore_debug_offsets.h, 3.13: pycore_runtime.h); for 3.8-3.12 there is a table that is
 * generated from CPython's own headers. Py_Version has the version (3.11+); before that the exported
 * symbols show it. Nothing in the file is trusted: every offset is checked against the bounds of
 * bpfprof.h.
 */

#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"

struct elf_image;

#define PYTHON_MAX_EVAL_RANGES 512

/*
 * Code of the eval loop (with split-off parts, tail-call handlers), as far as symbols show it. In a
 * stripped file whose instructions are functions (3.14+) it is all code: each function may be one.
 */
struct python_range {
	uint64_t rva;
	uint64_t bytes;
};

struct python_image {
	struct bpfprof_python_layout layout;
	uint32_t version; /* PY_VERSION_HEX: 0x030b07f0; 0x030a0000 if only the minor is known */
	uint64_t runtime_rva; /* of _PyRuntime */
	size_t nr_ranges;
	struct python_range *ranges; /* ascending; freed by python_image_fini() */
};

/*
 * 0 and *ret filled in; -ENODATA not a Python interpreter; -ENOTSUP an interpreter with an unknown layout
 * (ret->version is its version, 0: not known); -EBADMSG it contradicts itself; -ENOMEM; errors of reading
 * the file.
 */
int python_image_probe(struct python_image *ret, struct elf_image *img);
void python_image_fini(struct python_image *python);

/* Checks that all offsets lie in the bytes that the walker reads: 0 or -EBADMSG. */
int python_layout_check(const struct bpfprof_python_layout *layout);

#endif
