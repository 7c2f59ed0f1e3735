/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_REPORT_TALLY_H
#define BPFPROF_REPORT_TALLY_H

/*
 * Own and total numbers of a profile by function, line, library, process, ... A sample counts once in
 * total, also if a recursion is on its stack. The caller owns the struct.
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
	/* The following are groups of samples: own and total are equal. */
	TALLY_PROCESS,
	TALLY_RANK,
	TALLY_TASK,
	TALLY_POD,
	TALLY_THREAD,
	/* Functions, but of stacks with Python frames only these: own is the innermost Python function. */
	TALLY_PYTHON,
};

struct tally_numbers {
	uint64_t count; /* samples */
	uint64_t value; /* of value_ns; 0 if the profile counts only samples */
};

struct tally_row {
	uint32_t name; /* in names */
	uint32_t last; /* index + 1 of the last sample that total counts */
	uint32_t hottest; /* of a group: the function with the largest own number, 0: none */
	struct tally_numbers own, total, hottest_own;
};

struct tally {
	struct strtab *names;
	struct tally_row *rows; /* by name; 0 and 1 are rows only if they have numbers */
	size_t nr_rows;
	struct tally_numbers all;
};

/* For a group, profile_group() must have set the titles. 0 or -ENOMEM. */
int tally_init(struct tally *tally, const struct profile *profile, enum tally_by by);
void tally_fini(struct tally *tally);

/* Stops at UINT64_MAX: files may hold any numbers. */
void tally_add(struct tally_numbers *to, const struct profile_sample *sample);

bool tally_is_of_groups(enum tally_by by);

#endif
