/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_OBJECTS_H
#define BPFPROF_PYTHON_OBJECTS_H

/*
 * Values as py-spy shows them: int, float, bool, None, str, bytes, list, tuple, dict (and classes
 * derived from them), numpy scalars; anything else is <type at 0xADDR>. Never calls anything of the
 * target.
 */

#include <stddef.h>
#include <stdint.h>

struct buf;
struct python_heap;

#define PYTHON_REPR_CHARS 128 /* times the number of -l */

/*
 * The value at va in about max_chars characters, malloced, UTF-8; control characters other than
 * newline stay (who prints them replaces them). "?" if it cannot be read. 0 or -ENOMEM.
 */
int python_repr(struct python_heap *heap, uint64_t va, size_t max_chars, char **ret);

/*
 * Appends to buf instead, and takes the objects it looks at from *budget; at 0 the rest is "...". 0,
 * or -EFAULT and the like: then buf has no more than before.
 */
int python_repr_add(struct python_heap *heap, uint64_t va, size_t max_chars, uint32_t *budget,
		    struct buf *buf);

#endif
