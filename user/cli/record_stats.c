// SPDX-License-Identifier: Apache-2.0
/* What a recording says of itself and of the processes in it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/strtab.h"
#include "base/time.h"
#include "cli/options.h"
#include "cli/recording.h"
#include "kernel/clock.h"
#include "kernel/stream.h"
#include "kernel/tables.h"
#include "proc/images.h"
#include "proc/self.h"
#include "proc/usage.h"
#include "profile/aggregate.h"
#include "python/codes.h"
#include "python/pythons.h"

#define CMDLINE_MAX 4096

static struct seen_process *seen_find(struct recording *rec, uint32_t pid, uint64_t start_ns)
{
	struct seen_key key = { .start_ns = start_ns, .pid = pid };
	struct seen_process *seen;

	HASH_FIND(hh, rec->seen, &key, sizeof(key), seen);
	return seen;
}

void recording_see(struct recording *rec, uint32_t pid, uint64_t start_ns)
{
	struct seen_process *seen = seen_find(rec, pid, start_ns);
	struct proc_usage usage;
	char cmdline[CMDLINE_MAX];
	uint64_t boot_ns;

	if (seen || HASH_COUNT(rec->seen) >= RECORDING_MAX_SEEN)
		return;
	seen = calloc(1, sizeof(*seen));
	if (!seen)
		return;
	seen->key.start_ns = start_ns;
	seen->key.pid = pid;
	HASH_ADD(hh, rec->seen, key, sizeof(seen->key), seen);
	if (!proc_usage_read(&usage, (pid_t)pid)) {
		/* What it used before we began is not ours; one that began later starts from 0. */
		boot_ns = time_of_clock_ns(CLOCK_BOOTTIME) -
			  (time_monotonic_ns() - rec->start_mono_ns);
		seen->cpu_ns = start_ns < boot_ns ? usage.cpu_ns : 0;
		seen->rss_bytes = usage.rss_bytes;
		seen->baseline = true;
	}
	if (!proc_cmdline_read(cmdline, sizeof(cmdline), (pid_t)pid) && cmdline[0])
		seen->cmdline = strdup(cmdline);
}

void recording_forget(struct recording *rec)
{
	struct seen_process *seen, *next;

	HASH_ITER(hh, rec->seen, seen, next) {
		HASH_DEL(rec->seen, seen);
		free(seen->cmdline);
		free(seen);
	}
}

static bool is_asked_for(const struct record_options *options, uint32_t pid)
{
	size_t i;

	for (i = 0; i < options->nr_pids; i++)
		if ((uint32_t)options->pids[i] == pid)
			return true;
	return false;
}

static void process_usage(struct recording *rec, struct profile *profile, size_t i,
			  const struct aggregate_process *from)
{
	struct profile_process *p = &profile->processes[i];
	struct seen_process *seen = seen_find(rec, from->pid, from->start_ns);
	struct proc_usage now;

	p->asked_for = is_asked_for(rec->options, from->pid);
	/* After an exec the process has another name and entry: its CPU time is told once. */
	if (!seen || seen->told)
		return;
	seen->told = true;
	if (seen->cmdline)
		p->cmdline = strtab_add(profile->strings, seen->cmdline);
	if (from->exit_cpu_ns) {
		p->cpu_ns = from->exit_cpu_ns > seen->cpu_ns ? from->exit_cpu_ns - seen->cpu_ns : 0;
	} else if (seen->baseline && !proc_usage_read(&now, (pid_t)from->pid)) {
		p->cpu_ns = now.cpu_ns > seen->cpu_ns ? now.cpu_ns - seen->cpu_ns : 0;
		p->rss_growth_bytes = (int64_t)now.rss_bytes - (int64_t)seen->rss_bytes;
		p->rss_known = true;
	}
}

/* A process that was asked for and never ran has no sample, but an answer is due. */
static void add_idle_targets(struct recording *rec, struct profile *profile)
{
	const struct record_options *options = rec->options;
	struct profile_process *tmp, *p;
	struct proc_usage usage;
	char cmdline[CMDLINE_MAX];
	size_t i, k;

	for (i = 0; i < options->nr_pids; i++) {
		for (k = 0; k < profile->nr_processes; k++)
			if (profile->processes[k].pid == (uint32_t)options->pids[i])
				break;
		if (k < profile->nr_processes || proc_usage_read(&usage, options->pids[i]))
			continue;
		tmp = realloc(profile->processes, (profile->nr_processes + 1) * sizeof(*tmp));
		if (!tmp)
			return;
		profile->processes = tmp;
		p = &tmp[profile->nr_processes++];
		*p = (struct profile_process){ .pid = (uint32_t)options->pids[i],
					       .asked_for = true };
		p->comm = strtab_add(profile->strings, usage.comm);
		p->title = p->comm;
		if (!proc_cmdline_read(cmdline, sizeof(cmdline), options->pids[i]))
			p->cmdline = strtab_add(profile->strings, cmdline);
	}
}

void recording_usage(struct recording *rec, struct profile *profile)
{
	struct aggregate_view view;
	size_t i;

	aggregate_view_get(rec->aggregate, &view);
	for (i = view.nr_processes; i-- > 0;) /* the latest name first */
		process_usage(rec, profile, i, &view.processes[i]);
	add_idle_targets(rec, profile);
}

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
};

static const char *const python_stop_names[PYTHON_NR_STOPS] = {
	[PYTHON_STOP_READ_FAULT] = "python_unreadable",
	[PYTHON_STOP_DEPTH] = "python_too_deep",
	[PYTHON_STOP_ENTRIES] = "python_too_many_calls",
	[PYTHON_STOP_THREADS] = "python_too_many_threads",
	[PYTHON_STOP_BAD] = "python_bad_frame",
};

static void stack_stats(struct run_stats *stats, const struct aggregate_view *view)
{
	uint32_t stop;

	stats->samples = view->nr_taken;
	stats->user = view->nr_user;
	stats->kernel_only = view->nr_kernel_only;
	stats->python = view->nr_python;
	stats->complete = view->stops[BPFPROF_STOP_COMPLETE] + view->stops[BPFPROF_STOP_NO_USER];
	stats->truncated = view->nr_taken - stats->complete;
	stats->unmerged = view->nr_unmerged; /* of the complete ones */
	stats->complete -= stats->unmerged;
	for (stop = 0; stop < BPFPROF_NR_STOPS; stop++)
		if (stop_names[stop] && view->stops[stop])
			stats_add(&stats->stack_reasons, stop_names[stop], view->stops[stop]);
	for (stop = 0; stop < PYTHON_NR_STOPS; stop++)
		if (python_stop_names[stop] && view->python_stops[stop])
			stats_add(&stats->stack_reasons, python_stop_names[stop],
				  view->python_stops[stop]);
	if (view->nr_table_full)
		stats_add(&stats->stack_reasons, "stack_table_full", view->nr_table_full);
}

static void counter_add(struct stats_reasons *reasons, const char *name, uint64_t count)
{
	if (count)
		stats_add(reasons, name, count);
}

static void kernel_stats(struct recording *rec, struct run_stats *stats, uint64_t lost_at_table)
{
	const struct tables_counts *tables = tables_counts(rec->tables);
	const struct codes_counts *codes = codes_counts(rec->codes);
	const struct pythons_counts *pythons = pythons_counts(rec->pythons);
	uint64_t c[BPFPROF_NR_COUNTERS];
	enum image_problem problem;

	session_counters(&rec->session, c);
	stats_add(&stats->lost, "ring_full", c[BPFPROF_COUNT_RING_FULL]);
	stats_add(&stats->lost, "tick_skipped",
		  clock_nr_skipped(rec->clock, c[BPFPROF_COUNT_TICKS] - c[BPFPROF_COUNT_IDLE]));
	counter_add(&stats->lost, "scratch_busy", c[BPFPROF_COUNT_SCRATCH_BUSY]);
	counter_add(&stats->lost, "process_table_full", lost_at_table);
	counter_add(&stats->lost, "malformed_record", stream_nr_malformed(rec->stream));
	stats_add(&stats->clock, "ticks", c[BPFPROF_COUNT_TICKS]);
	stats_add(&stats->clock, "idle", c[BPFPROF_COUNT_IDLE]);
	stats_add(&stats->clock, "cpus_unarmed", clock_nr_unarmed(rec->clock));
	if (rec->session.options.clock == SESSION_CLOCK_TIMER) {
		stats_add(&stats->clock, "ticks_misplaced", c[BPFPROF_COUNT_KSOFTIRQD]);
		counter_add(&stats->lost, "tick_late", c[BPFPROF_COUNT_TIMER_LATE]);
		counter_add(&stats->clock, "timer_moved", c[BPFPROF_COUNT_TIMER_MOVED]);
		counter_add(&stats->clock, "timer_error", c[BPFPROF_COUNT_TIMER_ERROR]);
	}
	counter_add(&stats->clock, "process_events_lost", c[BPFPROF_COUNT_EVENT_LOST]);
	counter_add(&stats->clock, "children_not_followed", c[BPFPROF_COUNT_TARGET_LOST]);
	stats_add(&stats->walk, "misses", c[BPFPROF_COUNT_MISSES]);
	counter_add(&stats->walk, "tables_replaced_meanwhile", c[BPFPROF_COUNT_STALE]);
	counter_add(&stats->walk, "table_pages_built", tables->pages_built);
	counter_add(&stats->walk, "table_pages_evicted", tables->pages_evicted);
	counter_add(&stats->walk, "table_pages_no_room", tables->pages_full);
	counter_add(&stats->walk, "mappings_no_room", tables->mappings_full);
	counter_add(&stats->walk, "mapping_reads", rec->walker.vma_reads);
	counter_add(&stats->walk, "mapping_reads_deferred", rec->walker.vma_deferred);
	counter_add(&stats->walk, "mapping_read_timeouts", rec->walker.vma_timeouts);
	counter_add(&stats->walk, "too_many_mappings", rec->walker.vmas_too_many);
	counter_add(&stats->walk, "code_objects", codes->nr_objects);
	counter_add(&stats->walk, "code_objects_no_room",
		    codes->nr_full + c[BPFPROF_COUNT_CODES_FULL]);
	counter_add(&stats->walk, "code_objects_malformed", codes->nr_malformed);
	counter_add(&stats->walk, "python_processes_no_room", rec->walker.pythons_too_many);
	counter_add(&stats->files, "python_unknown_version", pythons->nr_unknown);
	counter_add(&stats->files, "python_malformed", pythons->nr_malformed);
	for (problem = IMAGE_GONE; problem < IMAGE_NR_PROBLEMS; problem++)
		counter_add(&stats->files, image_problem_name(problem),
			    images_nr_problem(rec->images, problem));
	if (session_run_stats(&rec->session, &stats->bpf_runs, &stats->bpf_ns)) {
		stats->bpf_ns_source = "kernel";
	} else {
		/* Every 64th sample is timed. */
		stats->bpf_runs = c[BPFPROF_COUNT_TICKS];
		if (c[BPFPROF_COUNT_SELF_RUNS])
			stats->bpf_ns = c[BPFPROF_COUNT_SELF_NS] / c[BPFPROF_COUNT_SELF_RUNS] *
					(c[BPFPROF_COUNT_SAMPLES] + c[BPFPROF_COUNT_RING_FULL]);
		stats->bpf_ns_source = "self";
	}
}

void recording_stats(struct recording *rec)
{
	struct run_stats *stats = &rec->stats;
	struct aggregate_view view;
	struct self_usage self;

	aggregate_view_get(rec->aggregate, &view);
	stack_stats(stats, &view);
	kernel_stats(rec, stats, view.nr_lost);
	stats->duration_seconds = (double)(rec->end_mono_ns - rec->start_mono_ns) / 1e9;
	stats->clock_name = rec->session.options.clock == SESSION_CLOCK_PERF ? "perf" : "timer";
	stats->bpf_map_bytes = session_map_bytes(&rec->session);
	if (!self_usage_read(&self)) {
		stats->cpu_seconds = self.cpu_seconds;
		stats->rss_bytes = self.rss_bytes;
		stats->peak_rss_bytes = self.peak_rss_bytes;
		stats->memory_bytes = self.own_bytes + stats->bpf_map_bytes;
	}
}
