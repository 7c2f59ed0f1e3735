/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_REPORT_PROFILE_DIFF_H
#define BPFPROF_REPORT_PROFILE_DIFF_H

/*
 * Compares two profiles: what grew and what shrank, and whether the change is larger than the chance of
 * sampling. Numbers are per second and rank, so that recordings of different length and size can be
 * compared. The profiles are borrowed; the caller owns the struct.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats/output.h"
#include "profile/profile.h"
#include "report/tally.h"

struct buf;

enum diff_per {
	DIFF_PER_AUTO, /* rank if both have ranks, else second; share if a length is not known */
	DIFF_PER_SECOND,
	DIFF_PER_RANK,
	DIFF_PER_PROCESS,
	DIFF_PER_SHARE, /* of all samples */
};

struct diff_side {
	const struct profile *profile;
	const char *name; /* of its file; borrowed */
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
	bool beside; /* the sides are no before and after, but the mean of others and one beside them */
};

/*
 * names: of before, of after. 0; -ENODATA: a side lacks what per needs; -EINVAL: the sides count
 * different things; -EDOM: a side is empty.
 */
int profile_diff_init(struct profile_diff *diff, const struct profile *before,
		      const struct profile *after, const char *const names[2], enum diff_per per);

/* Before is the sum of so many parts: its mean is compared. */
void profile_diff_mean(struct profile_diff *diff, size_t nr);

/* The sum of all changes of own time that are more than the chance of sampling. 0 or -ENOMEM. */
int profile_diff_distance(struct profile_diff *diff, double *ret);

/* Writes tables of what grew and what shrank. 0 or -ENOMEM; the caller checks buf_error(dst). */
int profile_diff_text(struct buf *dst, struct profile_diff *diff,
		      const struct profile_diff_options *options);

/*
 * Joins both to one profile for html_write() and svg_write() with options.diff = &diff->numbers: the count
 * of a sample is that of both sides, its value_ns that of before. Frames have no lines, since lines move
 * when a file is edited. 0, -E2BIG or -ENOMEM; profile_fini() is due.
 */
int profile_diff_join(const struct profile_diff *diff, struct profile *ret);

#endif
