// SPDX-License-Identifier: Apache-2.0
/* Adds the counters of a recording, and facts about its processes. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/strtab.h"
#include "base/time.h"
#include "base/vec.h"
#include "cmd/recording.h"
#include "findings/record_findings.h"
#include "options/options.h"
#include "proc/usage.h"
#include "profile/aggregate.h"
#include "profile/aggregate_stats.h"
#include "profile/thread_times.h"

#define CMDLINE_MAX 4096

static void usage_read(struct recording *rec, struct seen_process *seen, uint32_t own_pid,
		       uint64_t start_ns)
{
	struct proc_usage usage;
	char cmdline[CMDLINE_MAX];
	uint64_t boot_ns;

	if (!proc_usage_read(&usage, (pid_t)own_pid)) {
		/* CPU time before the recording does not count; a later process starts from 0. */
		boot_ns = time_of_clock_ns(CLOCK_BOOTTIME) -
			  (time_monotonic_ns() - rec->start_mono_ns);
		seen->cpu_ns = start_ns < boot_ns ? usage.cpu_ns : 0;
		seen->rss_bytes = usage.rss_bytes;
		seen->parent = (uint32_t)usage.parent;
		seen->baseline = true;
	}
	if (!proc_cmdline_read(rec->sampler.reader.runner, cmdline, sizeof(cmdline),
			       (pid_t)own_pid) &&
	    cmdline[0])
		seen->cmdline = strdup(cmdline);
}

void recording_see(struct recording *rec, uint32_t pid, uint32_t own_pid, uint64_t start_ns)
{
	struct seen_process *seen;

	if (process_map_find(&rec->seen, pid, start_ns))
		return;
	seen = process_map_add(&rec->seen, pid, start_ns);
	if (seen && own_pid) /* else /proc does not show it */
		usage_read(rec, seen, own_pid, start_ns);
}

void recording_forget(struct recording *rec)
{
	struct seen_process *seen;

	hash_table_each(&rec->seen, seen)
		free(seen->cmdline);
	hash_table_clear(&rec->seen);
}

static bool is_asked_for(const struct record_options *options, uint32_t pid)
{
	size_t i;

	for (i = 0; i < options->capture.nr_pids; i++)
		if ((uint32_t)options->capture.pids[i] == pid)
			return true;
	return false;
}

static void process_usage(struct recording *rec, struct profile *profile, size_t i,
			  const struct aggregate_process *from)
{
	struct profile_process *p = &profile->processes[i];
	struct seen_process *seen = process_map_find(&rec->seen, from->pid, from->start_ns);
	struct proc_usage now;

	p->asked_for = from->agent_pid && is_asked_for(rec->options, from->agent_pid);
	/* For a worker the title is the command line as long as it lasts. */
	if (p->task)
		p->cmdline = p->task;
	p->parent = seen ? seen->parent : 0;
	/* After an exec the process has another name and entry: its CPU time counts once. */
	if (!seen || seen->reported)
		return;
	seen->reported = true;
	if (seen->cmdline && !p->task)
		p->cmdline = strtab_add(profile->strings, seen->cmdline);
	if (p->task) { /* the kernel's counter is the sum of all titles */
		if (from->agent_pid && !proc_usage_read(&now, (pid_t)from->agent_pid)) {
			p->rss_growth_bytes = (int64_t)now.rss_bytes - (int64_t)seen->rss_bytes;
			p->rss_known = seen->baseline;
		}
	} else if (from->exit_cpu_ns) {
		p->cpu_ns = from->exit_cpu_ns > seen->cpu_ns ? from->exit_cpu_ns - seen->cpu_ns : 0;
	} else if (seen->baseline && !proc_usage_read(&now, (pid_t)from->agent_pid)) {
		p->cpu_ns = now.cpu_ns > seen->cpu_ns ? now.cpu_ns - seen->cpu_ns : 0;
		p->rss_growth_bytes = (int64_t)now.rss_bytes - (int64_t)seen->rss_bytes;
		p->rss_known = true;
	}
}

/* Adds targets that never ran: they have no sample, but the report must name them. */
static void add_idle_targets(struct recording *rec, struct profile *profile)
{
	const struct record_options *options = rec->options;
	struct profile_process *p;
	struct proc_usage usage;
	char cmdline[CMDLINE_MAX];
	size_t i, k;

	for (i = 0; i < options->capture.nr_pids; i++) {
		for (k = 0; k < profile->nr_processes; k++)
			if (profile->processes[k].pid == (uint32_t)options->capture.pids[i])
				break;
		if (k < profile->nr_processes || proc_usage_read(&usage, options->capture.pids[i]))
			continue;
		if (!vec_fit(profile->processes, profile->nr_processes + 1))
			return;
		p = &profile->processes[profile->nr_processes++];
		*p = (struct profile_process){ .pid = (uint32_t)options->capture.pids[i],
					       .kernel_pid = rec->sampler.target_pids[i],
					       .asked_for = true };
		p->comm = strtab_add(profile->strings, usage.comm);
		p->title = p->comm;
		if (!proc_cmdline_read(rec->sampler.reader.runner, cmdline, sizeof(cmdline),
				       options->capture.pids[i]))
			p->cmdline = strtab_add(profile->strings, cmdline);
	}
}

void recording_usage(struct recording *rec, struct profile *profile)
{
	struct aggregate_view view;
	size_t i;

	aggregate_view_get(rec->aggregate, &view);
	for (i = view.nr_processes; i-- > 0;) /* the newest name comes first */
		process_usage(rec, profile, i, &view.processes[i]);
	add_idle_targets(rec, profile);
}

void recording_stats(struct recording *rec)
{
	struct run_stats *stats = &rec->stats;
	struct aggregate_view view;

	aggregate_view_get(rec->aggregate, &view);
	aggregate_stats(stats, &view);
	sampler_run_stats(&rec->sampler, stats);
	if (rec->times)
		thread_times_stats(rec->times, &stats->waits);
	record_findings_stats(rec->findings, &stats->walk);
	stats->start_ns = rec->start_wall_ns;
	stats->start_at_ns = rec->options->capture.start_at_ns;
	stats->duration_seconds = (double)(rec->end_mono_ns - rec->start_mono_ns) / 1e9;
	sampler_own_usage(&rec->sampler, stats);
}
