/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_LIBDW_DIFF_H
#define BPFPROF_TESTS_LIBDW_DIFF_H

/*
 * Compares, for an ELF file, what a walk by rows and what a walk by the
 * complete rules gives with what libdw says about the same addresses: at the
 * start, in the middle and at the end of every row, and wherever libdw changes
 * its mind, over made-up registers and memory.
 */

#include <stdint.h>

struct diff_result {
	uint64_t nr_pages;
	uint64_t nr_rows;
	uint64_t nr_compared; /* addresses */
	/* Addresses at which both disagree; the first few are printed to stderr. */
	uint64_t nr_wrong;
	uint64_t code_bytes; /* with a rule of any kind */
	uint64_t rare_bytes;
	uint64_t other_reg_bytes; /* cfa on another register than rsp or rbp */
	uint64_t nr_kind[16]; /* rows by enum unwind_row_kind */
	uint64_t build_ns, worst_build_ns; /* all pages; the slowest one */
};

/*
 * Every page_step-th page of the code, at most max_pages. 0; -ENODATA no table; -EPROTO rows
 * not sorted, not merged or not starting with the page; and other -errno.
 */
int diff_run(const char *path, uint32_t page_step, uint32_t max_pages, struct diff_result *ret);

#endif
