// SPDX-License-Identifier: Apache-2.0
#include "profile/aggregate_stats.h"

#include "profile/aggregate.h"
#include "profile/stats.h"

static const char *const stop_names[BPFPROF_NR_STOPS] = {
	[BPFPROF_STOP_COMPAT32] = "compat32",
	[BPFPROF_STOP_DEPTH] = "too_deep",
	[BPFPROF_STOP_READ_FAULT] = "stack_unreadable",
	[BPFPROF_STOP_NO_PROCESS] = "process_unknown",
	[BPFPROF_STOP_NO_MAPPING] = "mapping_unknown",
	[BPFPROF_STOP_NO_PAGE] = "table_missing",
	[BPFPROF_STOP_RARE_RULE] = "rare_rule",
	[BPFPROF_STOP_STALE] = "table_replaced",
	[BPFPROF_STOP_BAD_FRAME] = "bad_frame",
	[BPFPROF_STOP_NO_TABLE] = "no_table",
	[BPFPROF_STOP_MISS_WINDOW] = "miss_window",
	[BPFPROF_STOP_MISS_RATE] = "miss_rate",
	[BPFPROF_STOP_MISS_GONE] = "process_gone",
	[BPFPROF_STOP_MISS_FILE] = "file_unreadable",
	[BPFPROF_STOP_BAD_CFI] = "bad_cfi",
	[BPFPROF_STOP_REG_LOST] = "register_lost",
	[BPFPROF_STOP_BUSY] = "busy",
	[BPFPROF_STOP_PYTHON_BROKEN] = "python_chain_broken",
};

static const char *const python_stop_names[PYTHON_NR_STOPS] = {
	[PYTHON_STOP_READ_FAULT] = "python_unreadable",
	[PYTHON_STOP_DEPTH] = "python_too_deep",
	[PYTHON_STOP_ENTRIES] = "python_too_many_calls",
	[PYTHON_STOP_THREADS] = "python_too_many_threads",
	[PYTHON_STOP_BAD] = "python_bad_frame",
};

static const char *const unmerged_names[PYTHON_NR_UNMERGED] = {
	[PYTHON_UNMERGED_MISSING] = "python_frames_missing",
	[PYTHON_UNMERGED_CALLS] = "python_calls_without_frames",
	[PYTHON_UNMERGED_FRAMES] = "python_frames_without_calls",
	[PYTHON_UNMERGED_UNPROVEN] = "python_calls_unproven",
	[PYTHON_UNMERGED_READ] = "python_not_merged",
};

/* They are complete otherwise. */
static void unmerged_add(struct run_stats *stats, const uint64_t nr[PYTHON_NR_UNMERGED])
{
	uint32_t why;

	stats->unmerged = 0;
	for (why = PYTHON_MERGED + 1; why < PYTHON_NR_UNMERGED; why++) {
		stats->unmerged += nr[why];
		if (nr[why])
			stats_add(&stats->stack_reasons, unmerged_names[why], nr[why]);
	}
}

void aggregate_stats(struct run_stats *stats, const struct aggregate_view *view)
{
	uint32_t stop;

	stats->samples = view->counts.nr_taken;
	stats->user = view->counts.nr_user;
	stats->kernel_only = view->counts.nr_kernel_only;
	stats->python = view->counts.nr_python;
	stats->complete = view->counts.stops[BPFPROF_STOP_COMPLETE] +
			  view->counts.stops[BPFPROF_STOP_NO_USER];
	stats->truncated = view->counts.nr_taken - stats->complete;
	unmerged_add(stats, view->counts.unmerged);
	stats->complete -= stats->unmerged;
	for (stop = 0; stop < BPFPROF_NR_STOPS; stop++)
		if (stop_names[stop] && view->counts.stops[stop])
			stats_add(&stats->stack_reasons, stop_names[stop],
				  view->counts.stops[stop]);
	for (stop = 0; stop < PYTHON_NR_STOPS; stop++)
		if (python_stop_names[stop] && view->counts.python_stops[stop])
			stats_add(&stats->stack_reasons, python_stop_names[stop],
				  view->counts.python_stops[stop]);
	if (view->nr_table_full)
		stats_add(&stats->stack_reasons, "stack_table_full", view->nr_table_full);
	if (view->nr_titles_over)
		stats_add(&stats->walk, "ray_titles_too_many", view->nr_titles_over);
	if (view->nr_lost)
		stats_add(&stats->lost, "process_table_full", view->nr_lost);
	if (view->nr_calls_lost)
		stats_add(&stats->lost, "call_table_full", view->nr_calls_lost);
	if (view->nr_labels_lost)
		stats_add(&stats->walk, "call_labels_full", view->nr_labels_lost);
	if (view->nr_containers_full)
		stats_add(&stats->containers, "no_room", view->nr_containers_full);
	if (view->nr_ranks_full)
		stats_add(&stats->environments, "samples_no_room", view->nr_ranks_full);
}
