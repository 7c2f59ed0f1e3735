/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_STATS_H
#define BPFPROF_PROFILE_STATS_H

/*
 * The counters of one run: samples, losses, incomplete stacks, and the cost of bpfprof itself. Their
 * JSON is that of --stats (docs/counters.md), and also the first line of .folded files, a comment of
 * pprof files, and a part of flame graphs.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"

struct buf;

#define STATS_MAX_REASONS 64
#define STATS_MAX_REFUSED 128

struct stats_reason {
	const char *name; /* static string, snake_case */
	uint64_t count;
};

struct stats_reasons {
	struct stats_reason reasons[STATS_MAX_REASONS];
	size_t nr;
};

/* Work that was refused; the strings are borrowed from base/refusals.h. */
struct stats_refused {
	const char *container, *reason;
	uint64_t count;
};

struct run_stats {
	uint64_t samples, user, kernel_only, python;
	struct stats_reasons lost; /* samples, by reason */
	uint64_t complete, truncated, unmerged; /* stacks */
	struct stats_reasons stack_reasons; /* of truncated and unmerged stacks */
	struct stats_reasons clock; /* cpus_unarmed, ticks_misplaced, ... */
	struct stats_reasons walk; /* misses, table pages, mapping reads, ... */
	struct stats_reasons containers; /* tagged samples, containers by source, failures */
	struct stats_reasons environments; /* that were read for ranks, and failures */
	struct stats_reasons steps; /* --steps: workers, steps, changes of titles */
	struct stats_reasons gpu_calls; /* exact, by kind; none: calls are not watched */
	struct stats_reasons gpu_lost; /* missing facts about calls */
	uint64_t gpu_stacks, gpu_stacks_skipped; /* of calls; skipped: over the rate */
	struct stats_reasons waits; /* --wall and --off-cpu: switches, samples of waits */
	struct stats_reasons memory; /* pages of the sample, looks at them */
	struct stats_reasons files; /* problems of files: malformed, blocked, unreadable, ... */
	struct stats_refused refused[STATS_MAX_REFUSED];
	size_t nr_refused;
	double startup_seconds;
	uint64_t start_ns, start_at_ns; /* by CLOCK_REALTIME; start_at_ns: as asked for, or 0 */
	double cpu_seconds; /* of bpfprof, user and system */
	uint64_t rss_bytes, peak_rss_bytes, bpf_map_bytes, memory_bytes;
	uint64_t bpf_runs, bpf_ns;
	const char *bpf_ns_source; /* "kernel" or "self" */
	const char *clock_name; /* "perf" or "timer" */
	/* In a profile of a pod "node": all but samples and stacks is of the node. NULL elsewhere. */
	const char *rest_of;
	double duration_seconds;
};

/* Adds count to the reason of that name. Past STATS_MAX_REASONS names: to the last, "other". */
void stats_add(struct stats_reasons *reasons, const char *name, uint64_t count);
/* Adds the fields of values that the rows name. zeros: also those that counted nothing. */
void stats_add_rows(struct stats_reasons *reasons, const struct counter *rows, const void *values,
		    bool zeros);
uint64_t stats_row_count(const struct counter *row, const void *values);
void stats_add_reasons(struct stats_reasons *to, const struct stats_reasons *from);
/* The list of a group that is not COUNTER_TRACE, in the same stats; writable if they are. */
struct stats_reasons *stats_group(const struct run_stats *stats, enum counter_group group);
/* Its key at the top of the JSON; NULL: it has none there. */
const char *stats_group_key(enum counter_group group);

/* The counts of samples and stacks; a row without a key ends the table. */
struct stats_count {
	const char *object, *key; /* in the JSON */
	size_t offset; /* in struct run_stats */
};
extern const struct stats_count stats_counts[];
uint64_t *stats_count(const struct run_stats *stats, const struct stats_count *count);
/* Adds these counts and the reasons of stacks; or replaces them. */
void stats_add_samples(struct run_stats *to, const struct run_stats *from);
/* Adds the reasons of all other groups. */
void stats_add_groups(struct run_stats *to, const struct run_stats *from);
void stats_set_samples(struct run_stats *to, const struct run_stats *from);
/*
 * Both are counts since the same start; leaves in stats what came after `before`. Gauges (memory,
 * seconds since the start) and the duration stay as they are.
 */
void stats_since(struct run_stats *stats, const struct run_stats *before);
void stats_reasons_since(struct stats_reasons *reasons, const struct stats_reasons *before);
/* Further rows than STATS_MAX_REFUSED count for "others", with the reason "other". */
void stats_add_refused(struct run_stats *stats, const char *container, const char *reason,
		       uint64_t count);
uint64_t stats_total(const struct stats_reasons *reasons);
void stats_json(struct buf *dst, const struct run_stats *stats); /* one line, no newline */
/*
 * Adds the facts that a reader of the profile needs, a line each: losses, incomplete stacks, their
 * reasons, and the clock. stats_json() has all counters.
 */
void stats_lines(struct buf *dst, const struct run_stats *stats);
/*
 * Adds some lines for people, without zeros. inner: with the counters of bpfprof's own work (clock,
 * walks, containers, environments, waits).
 */
void stats_text(struct buf *dst, const struct run_stats *stats, bool inner);

#endif
