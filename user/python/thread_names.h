/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_THREAD_NAMES_H
#define BPFPROF_PYTHON_THREAD_NAMES_H

/*
 * Reads the names of threads from the module `threading` of each interpreter: threading._active. Invalid
 * memory gives no name and is counted in heap.
 */

#include <stddef.h>
#include <stdint.h>

struct python_heap;
struct python_tstates;

struct python_thread_name {
	uint64_t interpreter_va;
	uint64_t thread_id; /* Thread.ident, as in struct python_tstate */
	char *name; /* UTF-8 */
};

struct python_thread_names {
	size_t nr;
	struct python_thread_name *names; /* sorted */
};

/* 0 (also without any name, if `threading` was not imported), -ENOTSUP (no heap->has_objects), -ENOMEM. */
int python_thread_names_read(struct python_thread_names *ret, struct python_heap *heap,
			     const struct python_tstates *tstates);
void python_thread_names_fini(struct python_thread_names *names);

/* Borrowed, or NULL. */
const char *python_thread_names_find(const struct python_thread_names *names,
				     uint64_t interpreter_va, uint64_t thread_id);

#endif
