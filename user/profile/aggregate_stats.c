// SPDX-License-Identifier: Apache-2.0
#include "profile/aggregate_stats.h"

#include "profile/aggregate.h"
#include "profile/stats.h"

#define AT(field) offsetof(struct aggregate_view, field)

const struct counter aggregate_counters[] = {
	{ COUNTER_STACKS, "python_frames_missing", AT(counts.unmerged[PYTHON_UNMERGED_MISSING]),
	  .help = "unmerged: Python runs, and its frames are not known (yet)" },
	{ COUNTER_STACKS, "python_calls_without_frames", AT(counts.unmerged[PYTHON_UNMERGED_CALLS]),
	  .help = "unmerged: C calls of Python's eval loop that run no known Python frame: a "
		  "library may "
		  "switch stacks" },
	{ COUNTER_STACKS, "python_frames_without_calls",
	  AT(counts.unmerged[PYTHON_UNMERGED_FRAMES]),
	  .help = "unmerged: Python frames that no C call of Python's eval loop runs; compiled "
		  "Python makes such" },
	{ COUNTER_STACKS, "python_calls_unproven", AT(counts.unmerged[PYTHON_UNMERGED_UNPROVEN]),
	  .help = "unmerged: up to 3.10, as many calls as frames, but nothing shows which is "
		  "whose; they are paired in turn" },
	{ COUNTER_STACKS, "python_not_merged", AT(counts.unmerged[PYTHON_UNMERGED_READ]),
	  .help = "unmerged, of a thread that slept: the reason is not known" },
	{ COUNTER_STACKS, "compat32", AT(counts.stops[BPFPROF_STOP_COMPAT32]),
	  .help = "a 32-bit program" },
	{ COUNTER_STACKS, "too_deep", AT(counts.stops[BPFPROF_STOP_DEPTH]),
	  .help = "more native frames than are kept" },
	{ COUNTER_STACKS, "stack_unreadable", AT(counts.stops[BPFPROF_STOP_READ_FAULT]),
	  .help = "a part of the stack was not in memory" },
	{ COUNTER_STACKS, "process_unknown", AT(counts.stops[BPFPROF_STOP_NO_PROCESS]),
	  .help = "user space was to finish a walk in a process that it did not know" },
	{ COUNTER_STACKS, "mapping_unknown", AT(counts.stops[BPFPROF_STOP_NO_MAPPING]),
	  .help = "the same, in code of an unknown mapping" },
	{ COUNTER_STACKS, "table_missing", AT(counts.stops[BPFPROF_STOP_NO_PAGE]),
	  .help = "the same, in code whose unwind table was missing" },
	{ COUNTER_STACKS, "rare_rule", AT(counts.stops[BPFPROF_STOP_RARE_RULE]),
	  .help = "the same, at a rare kind of unwind rule" },
	{ COUNTER_STACKS, "table_replaced", AT(counts.stops[BPFPROF_STOP_STALE]),
	  .help = "the same, in an unwind table that was replaced" },
	{ COUNTER_STACKS, "bad_frame", AT(counts.stops[BPFPROF_STOP_BAD_FRAME]),
	  .help = "code without unwind tables, whose frame contradicts itself",
	  .remedy = "build it with tables or frame pointers" },
	{ COUNTER_STACKS, "no_table", AT(counts.stops[BPFPROF_STOP_NO_TABLE]),
	  .help = "code without unwind tables, in which no rule was found",
	  .remedy = "build it with tables or frame pointers" },
	{ COUNTER_STACKS, "miss_window", AT(counts.stops[BPFPROF_STOP_MISS_WINDOW]),
	  .help = "the stack goes on above the part that was copied" },
	{ COUNTER_STACKS, "miss_rate", AT(counts.stops[BPFPROF_STOP_MISS_RATE]),
	  .help = "too many walks for user space at once, as when many processes start, new code "
		  "is read, or the unwind rules of a file take long",
	  .remedy = "it passes after some seconds" },
	{ COUNTER_STACKS, "process_gone", AT(counts.stops[BPFPROF_STOP_MISS_GONE]),
	  .help = "the process ended before its mappings were read" },
	{ COUNTER_STACKS, "file_unreadable", AT(counts.stops[BPFPROF_STOP_MISS_FILE]),
	  .help = "the file of some code cannot be read",
	  .remedy = "`bpfprof doctor --pid PID` says why" },
	{ COUNTER_STACKS, "bad_cfi", AT(counts.stops[BPFPROF_STOP_BAD_CFI]),
	  .help = "unwind tables that contradict themselves" },
	{ COUNTER_STACKS, "register_lost", AT(counts.stops[BPFPROF_STOP_REG_LOST]),
	  .help = "code without unwind tables, which needs a register that is not known",
	  .remedy = "build it with tables or frame pointers" },
	{ COUNTER_STACKS, "busy", AT(counts.stops[BPFPROF_STOP_BUSY]),
	  .help = "a walk came while another one ran on the CPU" },
	{ COUNTER_STACKS, "python_chain_broken", AT(counts.stops[BPFPROF_STOP_PYTHON_BROKEN]),
	  .help = "up to 3.9, an exception goes through waiting coroutines: Python itself does not "
		  "know what called them",
	  .remedy = "Python 3.10" },
	{ COUNTER_STACKS, "python_unreadable", AT(counts.python_stops[PYTHON_STOP_READ_FAULT]),
	  .help = "Python's memory was not readable, or changed meanwhile" },
	{ COUNTER_STACKS, "python_too_deep", AT(counts.python_stops[PYTHON_STOP_DEPTH]),
	  .help = "more Python frames than are followed ([limits](limits.md#python))" },
	{ COUNTER_STACKS, "python_too_many_calls", AT(counts.python_stops[PYTHON_STOP_ENTRIES]),
	  .help = "more C calls between Python frames than are followed "
		  "([limits](limits.md#python))" },
	{ COUNTER_STACKS, "python_too_many_threads", AT(counts.python_stops[PYTHON_STOP_THREADS]),
	  .help = "more threads of Python than are followed ([limits](limits.md#python))" },
	{ COUNTER_STACKS, "python_bad_frame", AT(counts.python_stops[PYTHON_STOP_BAD]),
	  .help = "a frame of Python contradicts itself" },
	{ COUNTER_STACKS, "stack_table_full", AT(nr_table_full),
	  .help = "more different stacks than one file may have",
	  .remedy = "a filter, or shorter intervals" },
	{ COUNTER_WALK, "async_samples", AT(counts.await_stops[AWAIT_STOP_COMPLETE]),
	  .help = "`--async`: samples of tasks whose awaiting tasks are all in the stack" },
	{ COUNTER_WALK, "async_several", AT(counts.nr_several),
	  .help = "`--async`: samples in which several tasks await one; the stack has one of "
		  "them" },
	{ COUNTER_WALK, "async_unreadable", AT(counts.await_stops[AWAIT_STOP_READ_FAULT]),
	  .help = "`--async`: samples in which a task or its frames could not be read: outer tasks "
		  "are missing" },
	{ COUNTER_WALK, "async_too_deep", AT(counts.await_stops[AWAIT_STOP_DEPTH]),
	  .help = "`--async`: samples with more awaiting tasks or frames of them than are followed "
		  "([limits](limits.md#python)): outer tasks are missing" },
	{ COUNTER_WALK, "async_search_cut", AT(counts.await_stops[AWAIT_STOP_SEARCH]),
	  .help = "`--async`: samples of a task with more callbacks than are looked at "
		  "([limits](limits.md#python)): outer tasks may be missing" },
	{ COUNTER_WALK, "async_python_tasks", AT(counts.await_stops[AWAIT_STOP_PYTHON]),
	  .help = "`--async`: samples in which a task that is written in Python awaits: outer "
		  "tasks "
		  "are missing" },
	{ COUNTER_WALK, "async_bad_frame", AT(counts.await_stops[AWAIT_STOP_BAD]),
	  .help = "`--async`: samples in which a frame of an awaiting task contradicts itself: "
		  "outer "
		  "tasks are missing" },
	{ COUNTER_WALK, "async_no_frame", AT(counts.await_stops[AWAIT_STOP_NO_FRAME]),
	  .help = "`--async`: samples while a task ran whose coroutine has no frame (one of "
		  "Cython, until it is suspended for the first time): tasks that await it are "
		  "missing" },
	{ COUNTER_WALK, "ray_titles_too_many", AT(nr_titles_over),
	  .help = "samples whose title is over the limit: they have the name `ray::(other)`" },
	{ COUNTER_CLOCK, "seconds_full", AT(nr_no_second),
	  .help = "`daemon`: samples whose second is not kept: "
		  "[`report --at`](report.md#seconds-of-an-interval) leaves them out where it cuts "
		  "an interval; a filter or shorter intervals help" },
	{ COUNTER_LOST, "process_table_full", AT(nr_lost),
	  .help = "more processes than a file may have",
	  .remedy = "a filter, or shorter intervals" },
	{ COUNTER_LOST, "call_table_full", AT(nr_calls_lost),
	  .help = "more kinds of calls than a file may have",
	  .remedy = "a filter, or shorter intervals" },
	{ COUNTER_WALK, "call_labels_full", AT(nr_labels_lost),
	  .help = "labels of calls over the limit" },
	{ COUNTER_CONTAINERS, "no_room", AT(nr_containers_full), .help = NULL },
	{ COUNTER_ENVIRONMENTS, "samples_no_room", AT(nr_ranks_full),
	  .help = "samples whose rank is over the limit" },
	{ 0 },
};

void aggregate_stats(struct run_stats *stats, const struct aggregate_view *view)
{
	const struct counter *row;
	uint32_t why;

	stats->samples = view->counts.nr_taken;
	stats->user = view->counts.nr_user;
	stats->kernel_only = view->counts.nr_kernel_only;
	stats->python = view->counts.nr_python;
	stats->complete = view->counts.stops[BPFPROF_STOP_COMPLETE] +
			  view->counts.stops[BPFPROF_STOP_NO_USER];
	stats->truncated = view->counts.nr_taken - stats->complete;
	stats->unmerged = 0; /* these stacks are complete otherwise */
	for (why = PYTHON_MERGED + 1; why < PYTHON_NR_UNMERGED; why++)
		stats->unmerged += view->counts.unmerged[why];
	stats->complete -= stats->unmerged;
	/* A stack without room is only a marker, however much of it was walked. */
	stats->complete -= view->counts.nr_no_room;
	stats->truncated += view->counts.nr_no_room;
	for (row = aggregate_counters; row->group; row++)
		if (stats_row_count(row, view))
			stats_add(stats_group(stats, row->group), row->name,
				  stats_row_count(row, view));
}
