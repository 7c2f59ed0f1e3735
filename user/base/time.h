/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_TIME_H
#define BPFPROF_BASE_TIME_H

#include <stdint.h>
#include <time.h>

#define NS_PER_SECOND 1000000000ULL

static inline uint64_t time_of_clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * NS_PER_SECOND + (uint64_t)t.tv_nsec;
}

static inline uint64_t time_monotonic_ns(void)
{
	return time_of_clock_ns(CLOCK_MONOTONIC);
}

/* What this thread has computed: waiting for a CPU is not its cost. */
static inline uint64_t time_thread_cpu_ns(void)
{
	return time_of_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static inline uint64_t time_wall_ns(void)
{
	return time_of_clock_ns(CLOCK_REALTIME);
}

#endif
