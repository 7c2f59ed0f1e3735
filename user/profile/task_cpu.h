/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_TASK_CPU_H
#define BPFPROF_PROFILE_TASK_CPU_H

/* CPU time by the titles of Ray workers, of a profile. */

#include <stddef.h>
#include <stdint.h>

struct profile;

struct task_cpu {
	const char *title; /* borrowed from the profile */
	uint64_t ns;
};

/*
 * An array for the caller to free, the most time first. NULL: the profile is of another time than that on
 * a CPU, or no memory.
 */
struct task_cpu *task_cpu_list(const struct profile *profile, size_t *ret_nr);

#endif
