/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_LOCALS_H
#define BPFPROF_PYTHON_LOCALS_H

/* The variables of a frame and their values. */

#include <stddef.h>
#include <stdint.h>

struct python_heap;

#define PYTHON_LOCAL_ARGUMENT 1U /* positional; py-spy lists it under Arguments: */
#define PYTHON_LOCAL_NAMED 2U /* keyword-only, *args or **kwargs; py-spy lists it under Locals: */
#define PYTHON_LOCAL_CELL 4U /* shared with inner functions; va is the value in the cell */
#define PYTHON_LOCAL_FREE 8U /* of an outer function; py-spy does not show it */

struct python_local {
	char *name;
	char *repr;
	uint64_t va; /* of the value */
	uint32_t flags; /* PYTHON_LOCAL_* */
};

struct python_locals {
	size_t nr;
	struct python_local *locals; /* in the order of the function, arguments first */
};

/*
 * The variables of a frame that have a value (struct python_chain_frame has code and frame_va).
 * Variables of modules and class bodies are in dicts and are not shown. 0, -ENOTSUP (heap->has_objects is
 * false), -EFAULT, -EBADMSG, -ENOMEM.
 */
int python_locals_read(struct python_locals *ret, struct python_heap *heap, uint64_t code,
		       uint64_t frame_va, size_t max_chars);
void python_locals_fini(struct python_locals *locals);

#endif
