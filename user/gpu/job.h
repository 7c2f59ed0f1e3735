/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_JOB_H
#define BPFPROF_GPU_JOB_H

/* The state of one `bpfprof gpu`, for the files of that command and its reports. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/sampler.h"
#include "gpu/monitor.h"

struct buf;
struct gpu_inflight;
struct gpu_memory_log;
struct launch_library;
struct gpu_options;
struct gpu_recent;
struct gap_sampler;
struct gpu_trace;
struct absent_ranks;
struct gpu_workers;
struct stats_reasons;

struct gpu_job {
	const struct gpu_options *options;
	struct capture_options capture;
	struct sampler sampler;
	struct gpu_monitor watch;
	struct launch_library *launch_library;
	struct gpu_inflight *inflight;
	struct gap_sampler *gap_sampler;
	struct absent_ranks *absent_ranks; /* NULL until the end, and if no output shows it */
	struct gpu_workers *workers; /* NULL without --worker */
	bool scoped; /* only the target processes are hooked */
	struct gpu_trace *trace; /* NULL: no trace is written */
	bool trace_closed;
	struct gpu_memory_log *memory_log; /* NULL: no file shows memory over time */
	uint64_t start_ns, start_wall_ns, end_ns; /* end_ns: 0 while it runs */
};

struct gpu_report_how {
	size_t columns; /* of the terminal */
	size_t screen_rows; /* of the terminal, for the live table; else 0 */
	const char *sort; /* NULL: the sort of the options */
	const struct gpu_recent *recent; /* or NULL */
};

/* report_build.c: adds the table, or with --json the object. 0 or -ENOMEM. */
int gpu_report_build(struct buf *dst, struct gpu_job *job, const struct gpu_snapshot *snapshot,
		     const struct gpu_report_how *how);

/* The same file: adds the counters of losses in the kernel and in this process. */
void gpu_lost(struct gpu_job *job, const struct gpu_snapshot *snapshot, struct stats_reasons *lost);

#endif
