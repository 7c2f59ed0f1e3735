/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_CODE_READ_H
#define BPFPROF_PYTHON_CODE_READ_H

/* Reads names and line tables of code objects from memory, if no sampler has seen them. */

#include <stddef.h>
#include <stdint.h>

struct python_heap;
struct python_code_cache;

struct python_code {
	uint64_t va;
	char *name; /* qualified from 3.11 on; UTF-8 */
	char *file; /* co_filename */
	uint32_t first_line;
	uint32_t flags; /* co_flags */
	uint32_t lines; /* enum bpfprof_python_lines */
	uint32_t table_len;
	uint8_t *table; /* NULL: it cannot be read, and lines are not known */
};

/* Reads the code object at va: 0, -EFAULT, -EBADMSG (its names are not strings), -ENOMEM. */
int python_code_read(struct python_code *ret, struct python_heap *heap, uint64_t va);
void python_code_fini(struct python_code *code);

/* Current line of a frame (struct python_chain_frame); 0: none or not known. */
uint32_t python_code_line(const struct python_code *code, uint32_t lasti);

/* Reads each code object of a process once. For one snapshot only: the process reuses its memory. */
int python_code_cache_new(struct python_code_cache **ret, struct python_heap *heap);
void python_code_cache_free(struct python_code_cache *cache);
/* Borrowed until the cache is freed; NULL: it cannot be read (*ret_err is the error; may be NULL). */
const struct python_code *python_code_cache_get(struct python_code_cache *cache, uint64_t va,
						int *ret_err);

#endif
