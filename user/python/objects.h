/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_OBJECTS_H
#define BPFPROF_PYTHON_OBJECTS_H

/*
 * Text of values, as in py-spy: int, float, bool, None, str, bytes, list, tuple, dict (and classes
 * derived from them), numpy scalars; anything else is <type at 0xADDR>. Calls no code of the target.
 */

#include <stddef.h>
#include <stdint.h>

struct buf;
struct python_heap;

#define PYTHON_REPR_CHARS 128 /* for each -l */

/*
 * The value at va in about max_chars characters of UTF-8; the caller frees the text, and replaces control
 * characters other than newline when it prints. "?" if the value cannot be read. 0 or -ENOMEM.
 */
int python_repr(struct python_heap *heap, uint64_t va, size_t max_chars, char **ret);

/*
 * The same, appended to buf. Each object read reduces *budget; at 0 the rest is "...". 0, or -EFAULT and
 * the like: then buf is unchanged.
 */
int python_repr_add(struct python_heap *heap, uint64_t va, size_t max_chars, uint32_t *budget,
		    struct buf *buf);

#endif
