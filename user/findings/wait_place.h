/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FINDINGS_WAIT_PLACE_H
#define BPFPROF_FINDINGS_WAIT_PLACE_H

/*
 * The place where the first thread of a process waits most, in time that includes waiting. A place is a
 * line of Python code of the program itself, with all calls from there; without one, the innermost
 * Python line or native function. Waits for events or for children, as in idle loops, idle servers and
 * launchers, are no place.
 */

#include <stdint.h>

struct profile;

struct wait_place {
	uint64_t ns; /* 0: there is no place */
	uint32_t function; /* location: the innermost function, which waits */
	uint32_t line; /* location: the line of the program itself, or else function */
};

/* Searches all entries of the process with that kernel pid. 0 or -ENOMEM. */
int wait_place_find(const struct profile *profile, uint32_t kernel_pid, struct wait_place *ret);

#endif
