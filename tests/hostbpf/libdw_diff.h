/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_LIBDW_DIFF_H
#define BPFPROF_TESTS_LIBDW_DIFF_H

/*
 * Compares the unwind rows of an ELF file with what libdw says about the same
 * addresses: wherever either of the two changes its mind.
 */

#include <stdint.h>

struct diff_result {
	uint64_t nr_pages;
	uint64_t nr_rows;
	uint64_t nr_compared; /* ranges of addresses */
	uint64_t nr_wrong; /* of which the two disagree; the first few go to stderr */
	uint64_t code_bytes; /* with a rule of any kind */
	uint64_t rare_bytes;
	uint64_t nr_kind[16]; /* rows by enum unwind_row_kind */
	uint64_t build_ns, worst_build_ns; /* whole, and of the slowest page */
};

/* Every page_step-th page, at most max_pages. 0 or -errno (-ENODATA: no table). */
int diff_run(const char *path, uint32_t page_step, uint32_t max_pages, struct diff_result *ret);

#endif
