/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_TRACE_FACTS_H
#define BPFPROF_FORMATS_TRACE_FACTS_H

/* The facts about a trace: where and when it was made, and what is missing. */

#include <stdint.h>

struct buf;
struct stats_reasons;

struct trace_facts {
	uint64_t max_bytes; /* limit of the file; the newest calls are kept */
	const char *host;
	uint64_t start_ns, start_wall_ns, end_ns; /* CLOCK_MONOTONIC; the wall clock at the start */
	const struct stats_reasons *lost;
	uint64_t nr_kept, nr_dropped; /* calls; the writer of the trace sets them */
};

/*
 * Adds the members of `otherData`. of names the kind of calls, NULL: of a GPU. `lost` is the last member
 * and stays open: the caller may add to it, and closes it.
 */
void trace_facts_put(const struct trace_facts *facts, const char *of, const char *note,
		     struct buf *dst);

#endif
