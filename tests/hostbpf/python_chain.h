/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_PYTHON_CHAIN_H
#define BPFPROF_TESTS_PYTHON_CHAIN_H

/*
 * The walker of bpf/unwind_python.h, driven as bpf/python.bpf.h drives it, over any memory.
 */

#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"
#include "unwind/reader.h"

struct python_chain_frame {
	uint64_t code;
	uint32_t lasti;
};

struct python_chain {
	int stop; /* enum bpfprof_python_stop */
	uint32_t nr_steps;
	uint32_t nr_frames, nr_entries;
	struct python_chain_frame frames[BPFPROF_MAX_PYTHON_FRAMES];
	struct bpfprof_python_entry entries[BPFPROF_MAX_PYTHON_ENTRIES];
};

/*
 * A layout that is like those of CPython 3.8, 3.11, 3.12 and 3.14; chain: enum bpfprof_python_chain.
 */
const struct bpfprof_python_layout *python_layout_made(uint32_t chain);

/* start: what the thread state has at tstate_frame. */
void python_chain_walk(struct python_chain *ret, const struct bpfprof_python_layout *layout,
		       struct unwind_reader *reader, uint64_t start);

/* A str object as string_send() of bpf/python.bpf.h takes it, in UTF-8. The length of dst. */
size_t python_chain_string(struct unwind_reader *reader, const struct bpfprof_python_layout *layout,
			   uint64_t va, char *dst, size_t cap);

#endif
