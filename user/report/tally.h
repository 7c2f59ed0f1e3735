/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_REPORT_TALLY_H
#define BPFPROF_REPORT_TALLY_H

/*
 * Own and total numbers of a profile by function, line, library, process, ... Total counts a sample
 * once, however often a recursion is on its stack. The caller owns the struct.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct profile;
struct profile_sample;

enum tally_by {
	TALLY_FUNCTION,
	TALLY_LINE,
	TALLY_LIBRARY,
	/* Groups of samples from here on: own and total are the same. */
	TALLY_PROCESS,
	TALLY_RANK,
	TALLY_TASK,
	TALLY_POD,
	TALLY_THREAD,
};

struct tally_numbers {
	uint64_t count; /* samples */
	uint64_t value; /* of profile.h's value_ns; 0 where samples are all there is */
};

struct tally_row {
	uint32_t name; /* in names */
	uint32_t last; /* index + 1 of the last sample counted in total */
	uint32_t hottest; /* of a group: the function with most of its own; 0: none */
	struct tally_numbers own, total, hottest_own;
};

struct tally {
	struct strtab *names;
	struct tally_row *rows; /* by name; 0 and 1 are no rows unless they have numbers */
	size_t nr_rows;
	struct tally_numbers all;
};

/* Titles are to be those of profile_group() where a group is asked for. 0 or -ENOMEM. */
int tally_init(struct tally *tally, const struct profile *profile, enum tally_by by);
void tally_fini(struct tally *tally);

/* Stays at UINT64_MAX: files may hold any numbers. */
void tally_add(struct tally_numbers *to, const struct profile_sample *sample);

bool tally_is_of_groups(enum tally_by by);

#endif
