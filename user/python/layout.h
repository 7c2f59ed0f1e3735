/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_LAYOUT_H
#define BPFPROF_PYTHON_LAYOUT_H

/*
 * Is a file a CPython interpreter (the executable or libpython, under any name), and
 * how are its objects laid out in memory? A file that defines the symbol _PyRuntime is one, or has the
 * section of that name (3.10+; 3.11+ is understood by it, were all symbols stripped).
 * 3.13 and later say their layout themselves (_Py_DebugOffsets, the first bytes of
 * _PyRuntime: CPython Include/internal/pycore_debug_offsets.h, 3.13: pycore_runtime.h);
 * 3.8-3.12 come from a table that is generated from CPython's own headers. Which version
 * it is is told by Py_Version (3.11+), before that by what the file exports. Nothing in
 * the file is believed: every offset is checked against the bounds of bpfprof.h.
 */

#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"

struct elf_image;

#define PYTHON_MAX_EVAL_RANGES 512

/*
 * Code of the eval loop (with split-off parts, tail-call handlers), as far as symbols tell. Of a
 * stripped file in which the instructions are functions (3.14+) all code: each may be one of them.
 */
struct python_range {
	uint64_t rva;
	uint64_t bytes;
};

struct python_image {
	struct bpfprof_python_layout layout;
	uint32_t
		version; /* PY_VERSION_HEX as far as known: 0x030b07f0; 0x030a0000 if only the minor is */
	uint64_t runtime_rva; /* of _PyRuntime */
	size_t nr_ranges;
	struct python_range *ranges; /* ascending; freed by python_image_fini() */
};

/*
 * 0 and *ret filled in; -ENODATA not a Python interpreter; -ENOTSUP it is one, but its layout
 * is not known (ret->version says which, 0 = not even that); -EBADMSG it contradicts
 * itself; -ENOMEM; errors of reading the file.
 */
int python_image_probe(struct python_image *ret, struct elf_image *img);
void python_image_fini(struct python_image *python);

/* Checks that all offsets are within what the walker reads: 0 or -EBADMSG. */
int python_layout_check(const struct bpfprof_python_layout *layout);

#endif
