/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_RAY_STEPS_H
#define BPFPROF_RAY_STEPS_H

/*
 * Steps of one worker, counted from 1, and whether some moment lies in a wanted one. Whoever knows when
 * a step begins and ends says so here, in the order of time; moments may be asked for a little
 * later, with the steps that have begun by then known. The last STEPS_KEPT wanted ones are remembered.
 */

#include <stddef.h>
#include <stdint.h>

#define STEPS_MAX 1000000000ULL
#define STEPS_KEPT 16

enum steps_kind {
	STEPS_EITHER, /* windows where a job makes any, else calls */
	STEPS_WINDOWS, /* of the profiler */
	STEPS_CALLS, /* of methods */
};

struct steps_range {
	uint64_t start; /* from 1 */
	uint64_t stop; /* exclusive: over start */
	enum steps_kind kind;
};

struct steps_window {
	uint64_t begin_ns, end_ns; /* end UINT64_MAX: it has not ended */
};

/* All zero to begin with. */
struct steps {
	uint64_t nr_begun, nr_ended;
	uint64_t nr_recorded; /* wanted ones that have ended */
	uint64_t recorded_ns;
	uint64_t nr_windows; /* wanted ones that have begun; the last are in windows */
	struct steps_window windows[STEPS_KEPT];
};

/* "3:5", "windows:3:5" or "calls:3:5": whole numbers up to STEPS_MAX. 0 or -EINVAL. */
int steps_range_parse(struct steps_range *ret, const char *text);

/* A step that has not ended ends as another one begins. */
void steps_begin(struct steps *steps, const struct steps_range *range, uint64_t ts_ns);
void steps_end(struct steps *steps, uint64_t ts_ns); /* nothing if none runs */
/* The next one is the number-th, if fewer have begun: nobody told of those before. */
void steps_skip_to(struct steps *steps, uint64_t number, uint64_t ts_ns);
/* 1, 0, or -ENODATA: so long ago that it is not known any more. */
int steps_have(const struct steps *steps, uint64_t ts_ns);

#endif
