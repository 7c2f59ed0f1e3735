/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FINDINGS_WAIT_PLACE_H
#define BPFPROF_FINDINGS_WAIT_PLACE_H

/*
 * Where the first thread of a process waits most, of time that includes waiting. A place is a line
 * of the program's own Python code, whatever it calls from there; without one the innermost Python
 * line, or native function. What idle loops, servers without requests and launchers do, who wait for
 * events and for children, is no place.
 */

#include <stdint.h>

struct profile;

struct wait_place {
	uint64_t ns; /* 0: there is none */
	uint32_t function; /* location: the innermost function, which waits */
	uint32_t
		line; /* location: the line of the program's own; as function where there is none */
};

/* Of all entries of the process, by the kernel's pid. 0 or -ENOMEM. */
int wait_place_find(const struct profile *profile, uint32_t kernel_pid, struct wait_place *ret);

#endif
