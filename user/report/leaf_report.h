/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_REPORT_LEAF_REPORT_H
#define BPFPROF_REPORT_LEAF_REPORT_H

/*
 * The table of itwinai's generate-py-spy-report: innermost functions, each with the innermost function
 * of a library that it ran under. As in that report, frames of `<module>` and stacks that become empty
 * are left out, and frozen importlib is "built-in", line -1.
 */

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct profile;

struct leaf_report_options {
	const char *library; /* a part of a path */
	bool aggregate; /* leaves of different stacks are one row */
	bool native; /* also native frames with a file: a .raw has no others */
	size_t rows; /* 0: all */
};

/* 0 or -ENOMEM; the caller checks buf_error(dst). */
int leaf_report(struct buf *dst, const struct profile *profile,
		const struct leaf_report_options *options);

#endif
