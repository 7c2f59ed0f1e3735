/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_REPORT_PROFILE_REPORT_H
#define BPFPROF_REPORT_PROFILE_REPORT_H

/*
 * Room report: makes tables of stored profiles, and of the difference of two.
 *
 * Tables of stored profiles, for people. What others wrote is made safe for a terminal.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/tally.h"

struct buf;
struct profile;

struct profile_report_options {
	enum tally_by by;
	bool by_total; /* sorted by total, else by own */
	size_t rows; /* 0: all */
	bool process_taken; /* profile_read's: is said above the table */
};

/* Own and total time, as cProfile's table has them. 0 or -ENOMEM; dst has an error of its own. */
int profile_report(struct buf *dst, const struct profile *profile,
		   const struct profile_report_options *options);

/* A number of what profile's value_ns is, or of samples where there is none: 1.234 s, 12 MB. */
void profile_amount(struct buf *dst, const struct profile *profile,
		    const struct tally_numbers *numbers);
/* What that is compared by. */
uint64_t numbers_weight(const struct profile *profile, const struct tally_numbers *numbers);
/* "cpu", "off_cpu", ..., "samples": what is counted. */
const char *profile_what(const struct profile *profile);

#endif
