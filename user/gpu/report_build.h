/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_REPORT_BUILD_H
#define BPFPROF_GPU_REPORT_BUILD_H

/* The report of gpu/report.h while report_build*.c fill it; no other file uses this. */

#include <stddef.h>
#include <stdint.h>

#include "gpu/report.h"
#include "gpu/report_arrays.h"
#include "profile/stats.h"

struct call_table_count;
struct call_table_process;
struct gpu_function;
struct gpu_inflight_call;
struct gpu_job;
struct gpu_open_call;
struct gpu_recent;
struct gpu_snapshot;

#define GPU_BUILD_MAX_FRAMES 4096 /* of the stacks of all open calls */
#define GPU_BUILD_MAX_GROUPED 4096 /* kinds of collectives in all open groups */

/*
 * A report in progress. Rows of a process are next to each other: those of the process that is
 * filled now begin at calls, launches and so on.
 */
struct gpu_build {
	struct gpu_job *job;
	const struct gpu_snapshot *snapshot;
	const struct gpu_recent *recent; /* or NULL */
	struct gpu_report report;
	struct gpu_report_call *calls;
	struct gpu_report_launch *launches;
	struct gpu_report_graph *graphs;
	struct gpu_report_node *nodes; /* the next unused one */
	struct gpu_report_copy *copies;
	struct gpu_report_collective *collectives;
	struct gpu_report_completion *completions;
	struct gpu_report_comm *comms;
	struct gpu_report_open *open;
	const char **frames; /* of open calls */
	size_t nr_frames;
	struct gpu_report_grouped *grouped; /* in groups that these end */
	size_t nr_grouped;
	struct gpu_report_where *where; /* of absent ranks */
	struct gpu_arrays arrays; /* all these, and strings */
	struct stats_reasons lost;
};

/* report_build_calls.c: adds the rows for one count of a process. */
void gpu_build_count(struct gpu_build *b, struct gpu_report_process *process,
		     const struct call_table_count *from);

/* report_build_open.c: adds a call that has not returned. 0 or -ENOMEM. */
int gpu_build_open(struct gpu_build *b, struct gpu_report_process *process,
		   const struct gpu_open_call *from);
/* The same of a call that began before the hooks were attached. */
void gpu_build_inflight(struct gpu_build *b, struct gpu_report_process *process,
			const struct gpu_inflight_call *from);

/* report_build_waits.c: fills in the collectives of a process that are complete or pending. */
void gpu_build_completions(struct gpu_build *b, struct gpu_report_process *process,
			   const struct call_table_process *from);
/* Fills in what an open ncclGroupEnd waits for. */
void gpu_build_group(struct gpu_build *b, struct gpu_report_group *to,
		     const struct gpu_open_call *open);
/* Fills in how long the device of a process had work and had none, if that is known. */
void gpu_build_times(const struct gpu_build *b, struct gpu_report_process *to,
		     const struct call_table_process *process);
/* Seconds from then until the snapshot; 0 for 0 and for what began after it. */
double gpu_build_seconds(const struct gpu_build *b, uint64_t since_ns);
/*
 * The name of a datatype of NCCL, and the value of the argument that gpu_nccl_extra() names, as
 * text.
 */
const char *gpu_build_type(struct gpu_build *b, uint32_t type);
const char *gpu_build_extra(struct gpu_build *b, const struct gpu_function *function,
			    uint32_t value);

#endif
