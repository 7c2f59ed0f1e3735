/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_PYTHON_CHAIN_H
#define BPFPROF_TESTS_PYTHON_CHAIN_H

/* Layouts for the tests of user/python/chain.h, and strings in the form of the BPF side. */

#include <stddef.h>
#include <stdint.h>

#include "python/chain.h"

/*
 * A layout that is like those of CPython 3.8, 3.11, 3.12 and 3.14; chain: enum bpfprof_python_chain.
 */
const struct bpfprof_python_layout *python_layout_made(uint32_t chain);

/* A str object as string_send() of bpf/python/codes.bpf.h takes it, in UTF-8. The length of dst. */
size_t python_chain_string(struct unwind_reader *reader, const struct bpfprof_python_layout *layout,
			   uint64_t va, char *dst, size_t cap);

#endif
