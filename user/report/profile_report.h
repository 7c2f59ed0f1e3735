/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_REPORT_PROFILE_REPORT_H
#define BPFPROF_REPORT_PROFILE_REPORT_H

/*
 * Room report: makes tables of stored profiles, and of the difference of two.
 *
 * This file: tables of stored profiles, for people. Texts from files are made safe for a terminal.
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
	bool process_taken; /* of profile_read(): a line above the table says so */
};

/* Own and total time, as in the table of cProfile. 0 or -ENOMEM; the caller checks buf_error(dst). */
int profile_report(struct buf *dst, const struct profile *profile,
		   const struct profile_report_options *options);

/* Writes a value in the unit of value_ns, or else samples: 1.234 s, 12 MB. */
void profile_amount(struct buf *dst, const struct profile *profile,
		    const struct tally_numbers *numbers);
/* The weight for sorting: the value, or else samples. */
uint64_t numbers_weight(const struct profile *profile, const struct tally_numbers *numbers);
/* The name of what is counted: "cpu", "off_cpu", ..., "samples". */
const char *profile_what(const struct profile *profile);

#endif
