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

/* The CPU time of this thread, without its waits for a CPU. */
static inline uint64_t time_thread_cpu_ns(void)
{
	return time_of_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static inline uint64_t time_wall_ns(void)
{
	return time_of_clock_ns(CLOCK_REALTIME);
}

/* Milliseconds for poll(): until end_ns, but at most max_ms. */
static inline int time_poll_ms(uint64_t now_ns, uint64_t end_ns, int max_ms)
{
	uint64_t ms = end_ns > now_ns ? (end_ns - now_ns) / 1000000 + 1 : 0;

	return ms < (uint64_t)max_ms ? (int)ms : max_ms;
}

/* Unix time as RFC 3339 has it: 2026-11-29T13:37:12.042Z. */
#define TIME_TEXT_BYTES 32
const char *time_text_ms(char dst[TIME_TEXT_BYTES], uint64_t wall_ns);
/* Seconds since 1970 in UTC. "": there is no such year. */
enum time_format {
	TIME_OF_NAMES, /* of files and folders: 20261129T133712Z */
	TIME_OF_PEOPLE, /* 2026-11-29 13:37:12 UTC */
	TIME_OF_OPTIONS, /* 2026-11-29T13:37:12Z */
};
const char *time_text(char dst[TIME_TEXT_BYTES], uint64_t seconds, enum time_format format);

#endif
