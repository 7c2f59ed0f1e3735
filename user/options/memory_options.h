/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_OPTIONS_MEMORY_OPTIONS_H
#define BPFPROF_OPTIONS_MEMORY_OPTIONS_H

/* The parsed and checked options of memory, in the way of options/options.h. */

#include "options/options.h"

#define MEMORY_SAMPLE_BYTES (512U << 10) /* --sample, if it is not given */

enum memory_question {
	MEMORY_HELD, /* what is resident at the end? */
	MEMORY_GROWN, /* of that, what was not resident at the start? */
	MEMORY_PEAK, /* what was resident when it was the most? */
	MEMORY_LEAKS, /* what is held since half of the time, by stacks that never gave much back? */
};

struct memory_options {
	struct record_options record; /* pids, duration, outputs, command and so on */
	uint64_t sample_bytes;
	enum memory_question question;
	bool once;
	bool held; /* --held was given */
	bool timeline; /* keep what is held at some moments of the run */
	bool allocations; /* not resident memory */
	uint32_t max_slowdown; /* of allocations, in percent, 0: no limit */
	uint32_t rows; /* of each process in the table, 0: all */
};

extern const struct flag_set memory_flags;

#endif
