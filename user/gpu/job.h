/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_JOB_H
#define BPFPROF_GPU_JOB_H

/* The state of one `bpfprof gpu`, shared by gpu*.c and nobody else. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/sampler.h"
#include "gpu/monitor.h"

struct bpfprof_gpu_trace;
struct bpfprof_title_event;
struct buf;
struct gpu_inflight;
struct launch_library;
struct gpu_function;
struct gpu_options;
struct gpu_recent;
struct gpu_report_completion;
struct gpu_report_group;
struct gpu_report_grouped;
struct gpu_report_spans;
struct gpu_report_device_idle;
struct gap_sampler;
struct gpu_trace;
struct absent_ranks;
struct gpu_workers;
struct stats_reasons;
struct strtab;

struct gpu_job {
	const struct gpu_options *options;
	struct sampler_options sampler_options;
	struct sampler sampler;
	struct gpu_monitor watch;
	struct launch_library *between;
	struct gpu_inflight *before;
	struct gap_sampler *sleepers;
	struct absent_ranks *where; /* NULL until the end, and where nobody wants it */
	struct gpu_workers *workers; /* NULL without --worker */
	bool scoped; /* only the processes that are watched are hooked */
	struct gpu_trace *trace; /* NULL: none was asked for */
	bool trace_closed;
	uint64_t start_ns, start_wall_ns, end_ns; /* end_ns: 0 while it runs */
};

struct gpu_report_how {
	size_t columns; /* of the terminal */
	size_t screen_rows; /* the same, for the live table; else 0 */
	const char *sort; /* NULL: as the options say */
	const struct gpu_recent *recent; /* or NULL */
};

/* report_build.c: adds the table, or the JSON. 0 or -ENOMEM. */
int gpu_report_build(struct buf *dst, struct gpu_job *job, const struct gpu_snapshot *picture,
		     const struct gpu_report_how *how);

/* The same file: adds what was lost in the kernel and here. */
void gpu_lost(struct gpu_job *job, const struct gpu_snapshot *picture, struct stats_reasons *lost);

/* report_build_waits.c: the value of what gpu_nccl_extra() names, as text; constant or in room. */
const char *gpu_extra_text(const struct gpu_function *function, uint32_t value, char room[16]);
/*
 * The same file: what is known of when the collectives of a process were complete. How many it
 * filled in: at most all rows of waits. Strings are kept in strings, or constants.
 */
size_t gpu_completions_fill(struct gpu_report_completion *to, const struct gpu_waits *waits,
			    const struct call_table_process *process, uint64_t now_ns,
			    struct strtab *strings);

/*
 * The same file: what an open ncclGroupEnd waits for, by at most max rows. Strings as above.
 */
void gpu_group_fill(struct gpu_report_group *to, struct gpu_report_grouped *rows, size_t max,
		    const struct gpu_monitor *watch, const struct gpu_snapshot *picture,
		    const struct gpu_open_call *open, struct strtab *strings);

void gpu_spans_fill(struct gpu_report_spans *to, const struct gpu_waits *waits,
		    const struct call_table_process *process, uint64_t now_ns);
void gpu_device_idle_fill(struct gpu_report_device_idle *to, const struct gpu_waits *waits,
			  const struct call_table_process *process, uint64_t now_ns);

/* cmd/gpu_trace.c: for a trace among the files; errors are said, statuses as of base/exit_status.h. */
int gpu_trace_start(struct gpu_job *job);
/* What sampler_handlers are for it. */
void gpu_trace_on_call(struct gpu_job *job, const struct bpfprof_gpu_trace *call);
void gpu_trace_on_title(struct gpu_job *job, const struct bpfprof_title_event *event);
/* A process has ended; it made calls, and its threads are known to gpu_probes yet. */
void gpu_trace_on_exit(struct gpu_job *job, const struct bpfprof_task_id *task);
void gpu_trace_on_end(struct gpu_job *job, const struct bpfprof_task_id *task);
/* Takes what is still under way. 0 or -errno. */
int gpu_trace_finish(struct gpu_job *job);
/* 0 or -errno. */
int gpu_trace_write(struct gpu_job *job, const struct gpu_snapshot *picture, const char *path);

/* gpu_files.c: before it begins, and at the end; what went wrong is said. An exit status. */
int gpu_files_check(const struct gpu_job *job);
int gpu_files_path(struct buf *dst, const struct gpu_job *job, const char *pattern); /* 0, -errno */
int gpu_files_write(struct gpu_job *job, const struct gpu_snapshot *picture);

#endif
