/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_COUNTERS_H
#define BPFPROF_BASE_COUNTERS_H

/*
 * Tables of counters. A row is the only place that names its counter: --stats, the labels of /metrics
 * and docs/counters.md come from it. A table stands beside the struct that it reads, and its last row
 * is { 0 }. tests/unit/test_counters.c joins all tables and holds the page to them.
 */

#include <stdint.h>

/* The groups of --stats, in its order. */
enum counter_group {
	COUNTER_END, /* of the row behind the last one */
	COUNTER_LOST, /* samples */
	COUNTER_STACKS, /* that are cut short or not merged */
	COUNTER_CLOCK,
	COUNTER_WALK,
	COUNTER_FILES,
	COUNTER_CONTAINERS,
	COUNTER_ENVIRONMENTS,
	COUNTER_STEPS,
	COUNTER_GPU, /* gpu.lost; the names of gpu.calls are the kinds of calls */
	COUNTER_WAITS,
	COUNTER_MEMORY,
	COUNTER_TRACE, /* no group of --stats: otherData.lost of a trace of tasks */
	COUNTER_HTTP, /* no group of --stats: bpfprof_http_refused_total of /metrics */
	COUNTER_REFUSED, /* work of tenants (base/refusals.h): a list in --stats */
	COUNTER_NR_GROUPS,
};

struct counter {
	enum counter_group group;
	const char *name; /* snake_case */
	uint32_t offset; /* of the uint64_t in the struct that the table reads */
	const char *help; /* says in Markdown what happened, or what is counted */
	const char *remedy; /* says what helps; NULL: nothing does */
	uint32_t zero; /* 0: left out where it counted nothing */
};

#endif
