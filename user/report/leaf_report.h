/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_REPORT_LEAF_REPORT_H
#define BPFPROF_REPORT_LEAF_REPORT_H

/*
 * The table of itwinai's generate-py-spy-report: innermost functions, each with the innermost
 * function of a library under which it ran. As there, frames of `<module>` are left out, so are
 * stacks of which nothing is left, and frozen importlib is "built-in", line -1.
 */

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct profile;

struct leaf_report_options {
	const char *library; /* a part of a path */
	bool aggregate; /* leaves of different stacks are one row */
	bool native; /* native frames with a file, too: all that a .raw has */
	size_t rows; /* 0: all */
};

/* 0 or -ENOMEM; dst has an error of its own. */
int leaf_report(struct buf *dst, const struct profile *profile,
		const struct leaf_report_options *options);

#endif
