/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_REPORT_PROFILE_DIFF_H
#define BPFPROF_REPORT_PROFILE_DIFF_H

/*
 * Two profiles side by side: what grew and what shrank, per second and rank, so that recordings of
 * another length or size can be compared, and whether that is more than the chance of sampling.
 * The profiles are borrowed; the caller owns the struct.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/output.h"
#include "profile/profile.h"
#include "report/tally.h"

struct buf;

enum diff_per {
	DIFF_PER_AUTO, /* rank if both have such, else second; share if a length is not known */
	DIFF_PER_SECOND,
	DIFF_PER_RANK,
	DIFF_PER_PROCESS,
	DIFF_PER_SHARE, /* of all samples */
};

struct diff_side {
	const struct profile *profile;
	const char *name; /* borrowed; of its file */
	struct tally tally; /* of one table */
	size_t nr_ranks, nr_processes;
};

struct profile_diff {
	struct diff_side sides[2]; /* before, after */
	enum diff_per per; /* never DIFF_PER_AUTO */
	struct output_diff numbers;
	char unit[64];
};

struct profile_diff_options {
	enum tally_by by;
	bool by_total;
	size_t rows; /* of each table, 0: all */
};

/*
 * 0; -ENODATA: a side does not have what per needs; -EINVAL: they count different things; -EDOM:
 * a side is empty. names: before, after.
 */
int profile_diff_init(struct profile_diff *diff, const struct profile *before,
		      const struct profile *after, const char *const names[2], enum diff_per per);

/* Tables of what grew and what shrank. 0 or -ENOMEM; dst has an error of its own. */
int profile_diff_text(struct buf *dst, struct profile_diff *diff,
		      const struct profile_diff_options *options);

/*
 * Both as one profile for html_write() and svg_write() with options.diff = &diff->numbers: a
 * sample's count is that of both, its value_ns that of before. Frames have no lines, which move
 * when a file is edited. 0, -E2BIG or -ENOMEM; profile_fini() is due.
 */
int profile_diff_join(const struct profile_diff *diff, struct profile *ret);

#endif
