/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_STATS_H
#define BPFPROF_PROFILE_STATS_H

/*
 * Everything counted in one run: what was taken, lost and cut short, and what we
 * cost. Its JSON form is that of --stats (docs/counters.md), also used as
 * the first line of .folded files, as pprof comments and in the flame graph's footer.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"

struct buf;

#define STATS_MAX_REASONS 64

struct stats_reason {
	const char *name; /* static string, snake_case */
	uint64_t count;
};

struct stats_reasons {
	struct stats_reason reasons[STATS_MAX_REASONS];
	size_t nr;
};

struct run_stats {
	uint64_t samples, user, kernel_only, python;
	struct stats_reasons lost; /* reason: samples */
	uint64_t complete, truncated, unmerged; /* stacks */
	struct stats_reasons stack_reasons; /* why stacks are truncated or unmerged */
	struct stats_reasons clock; /* cpus_unarmed, ticks_misplaced, ... */
	struct stats_reasons walk; /* misses, table pages, mapping reads: how the unwinder fared */
	struct stats_reasons containers; /* samples tagged, containers by source, what went wrong */
	struct stats_reasons environments; /* looked at for ranks, and why less was found */
	struct stats_reasons
		steps; /* of --steps: workers, steps; changes of titles and their loss */
	struct stats_reasons gpu_calls; /* of CUDA and NCCL, exact, by kind; none: not watched */
	struct stats_reasons gpu_lost; /* what is not known of them */
	uint64_t gpu_stacks, gpu_stacks_skipped; /* of calls: taken, and not, over the rate */
	struct stats_reasons
		waits; /* of --wall and --off-cpu: switches of threads, samples of waits */
	struct stats_reasons files; /* malformed, blocked, unreadable: problems of images */
	double startup_seconds;
	double cpu_seconds; /* of ourselves, user and system */
	uint64_t rss_bytes, peak_rss_bytes, bpf_map_bytes, memory_bytes;
	uint64_t bpf_runs, bpf_ns;
	const char *bpf_ns_source; /* "kernel" or "self" */
	const char *clock_name; /* "perf" or "timer" */
	/* NULL, or what all but samples and stacks (without reasons) is of: "node" in a pod's profile. */
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
void stats_set_samples(struct run_stats *to, const struct run_stats *from);
/*
 * Both are counts since the same start; leaves in stats what came after `before`. Gauges (memory,
 * seconds since the start) and the duration stay as they are.
 */
void stats_since(struct run_stats *stats, const struct run_stats *before);
void stats_reasons_since(struct stats_reasons *reasons, const struct stats_reasons *before);
uint64_t stats_total(const struct stats_reasons *reasons);
void stats_json(struct buf *dst, const struct run_stats *stats); /* one line, no newline */
/*
 * What somebody who opens the profile has to know, a line each: what was lost or cut short and why, and
 * the clock. It is no counter's only place: stats_json() has them all.
 */
void stats_lines(struct buf *dst, const struct run_stats *stats);
/*
 * For people: a few lines, only what is not zero. inner: with the counters of how the profiler
 * worked (clock, walks, containers, environments, waits).
 */
void stats_text(struct buf *dst, const struct run_stats *stats, bool inner);

#endif
