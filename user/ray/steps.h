/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_RAY_STEPS_H
#define BPFPROF_RAY_STEPS_H

/*
 * The steps of one worker, counted from 1 in the order of their begin. The caller reports when a step
 * begins and when a wanted one ends, in the order of time, and may ask a little later whether a moment
 * lies in a wanted step. Steps may overlap: then one window holds them. The last STEPS_KEPT windows
 * are kept.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STEPS_MAX 1000000000ULL
#define STEPS_KEPT 16

enum steps_kind {
	STEPS_EITHER, /* windows if the job has any, else calls */
	STEPS_WINDOWS, /* of the profiler */
	STEPS_CALLS, /* of methods */
};

struct steps_range {
	uint64_t start; /* from 1 */
	uint64_t stop; /* exclusive: over start */
	enum steps_kind kind;
};

struct steps_window {
	uint64_t begin_ns, end_ns; /* end_ns UINT64_MAX: a step has not ended */
};

/* All zero to begin with. */
struct steps {
	uint64_t nr_begun;
	uint64_t nr_open; /* wanted steps that run */
	uint64_t nr_recorded; /* wanted steps that have ended */
	uint64_t recorded_ns; /* of the windows that have ended */
	uint64_t nr_windows; /* times with wanted steps; windows holds the last ones */
	struct steps_window windows[STEPS_KEPT];
};

/* "3:5", "windows:3:5" or "calls:3:5": whole numbers up to STEPS_MAX. 0 or -EINVAL. */
int steps_range_parse(struct steps_range *ret, const char *text);

/* True: the step is wanted, and its end is to be reported. */
bool steps_begin(struct steps *steps, const struct steps_range *range, uint64_t ts_ns);
void steps_end(struct steps *steps, uint64_t ts_ns); /* a wanted step; nothing if none runs */
void steps_end_all(struct steps *steps, uint64_t ts_ns);
/* If fewer steps have begun, the next one gets this number: the ones before were not reported. */
void steps_skip_to(struct steps *steps, uint64_t number, uint64_t ts_ns);
/* Has the last wanted step begun, and has every wanted one ended? */
bool steps_through(const struct steps *steps, const struct steps_range *range);
/* 1: in a wanted step, 0: not, -ENODATA: too long ago. */
int steps_have(const struct steps *steps, uint64_t ts_ns);

#endif
