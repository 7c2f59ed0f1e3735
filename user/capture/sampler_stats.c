// SPDX-License-Identifier: Apache-2.0
/* The counters of a sampler since its start. */
#include "capture/sampler.h"

#include "base/background.h"
#include "capture/task_sampler.h"
#include "capture/worker_steps.h"
#include "container/containers.h"
#include "kernel/clock.h"
#include "kernel/private_file.h"
#include "kernel/stream.h"
#include "kernel/tables.h"
#include "kernel/waits.h"
#include "proc/images.h"
#include "proc/self.h"
#include "profile/stats.h"
#include "profile/wakers.h"
#include "python/codes.h"
#include "python/pythons.h"

/* The parts of a sampler. A row names its parts in .zero. */
enum part {
	ALWAYS = 1,
	CLOCK = 2,
	TIMER = 4,
	WAITS = 8,
	WAKERS = 16,
};

/* The values that the rows read. */
struct counts {
	uint64_t bpf[BPFPROF_NR_COUNTERS];
	uint64_t program_not_run, malformed_record;
	uint64_t tick_skipped, cpus_unarmed, events_revived, exits_found_late;
	struct tables_counts tables;
	struct walker walker;
	struct codes_counts codes;
	uint64_t gil_unknown, ray_samples, ray_titles_bad, ray_titles_torn;
	struct pythons_counts pythons;
	struct sampler_async_stats async;
	struct containers_stats containers;
	uint64_t containers_tagged, containers_deferred, containers_outside;
	struct sampler_ranks_stats ranks;
	uint64_t waits[WAIT_NR_COUNTERS];
	uint64_t waits_open, waits_unread, threads_unknown, period_us, longest_period_us;
	struct wakers_stats wakers;
};

#define AT(field) offsetof(struct counts, field)
#define BPF(counter) AT(bpf[BPFPROF_COUNT_##counter])
#define WAIT(counter) AT(waits[WAIT_COUNT_##counter])

/*
 * The rows have the order of --stats. A row whose .zero names a part is reported when that part
 * runs, even if it is 0.
 */
const struct counter sampler_counters[] = {
	{ COUNTER_LOST, "ring_full", BPF(RING_FULL),
	  .help = "the kernel wrote faster than bpfprof read",
	  .remedy = "a lower `-F`, a filter, or more CPU for bpfprof", .zero = ALWAYS },
	{ COUNTER_LOST, "tick_skipped", AT(tick_skipped),
	  .help = "the machine was too busy to keep the rate, or a virtual machine did not run",
	  .remedy = "a lower `-F`", .zero = CLOCK },
	{ COUNTER_CLOCK, "ticks", BPF(TICKS), .help = "times that a sample was due",
	  .zero = CLOCK },
	{ COUNTER_CLOCK, "idle", BPF(IDLE), .help = "ticks on an idle CPU", .zero = CLOCK },
	{ COUNTER_CLOCK, "cpus_unarmed", AT(cpus_unarmed), .help = "CPUs that are not sampled",
	  .zero = CLOCK },
	{ COUNTER_CLOCK, "perf_events_revived", AT(events_revived),
	  .help = "perf events that were opened again after a CPU came back" },
	{ COUNTER_CLOCK, "ticks_misplaced", BPF(KSOFTIRQD),
	  .help = "ticks of the timer clock that ran in the kernel's ksoftirqd", .zero = TIMER },
	{ COUNTER_LOST, "tick_late", BPF(TIMER_LATE),
	  .help = "as `tick_skipped`, with the timer clock", .remedy = "a lower `-F`" },
	{ COUNTER_CLOCK, "own_frames_unknown", BPF(OWN_UNKNOWN),
	  .help = "kernel stacks in which the timer's own frames were not found" },
	{ COUNTER_CLOCK, "timer_moved", BPF(TIMER_MOVED),
	  .help = "timers that ran on another CPU" },
	{ COUNTER_CLOCK, "timer_error", BPF(TIMER_ERROR),
	  .help = "timers that could not be set again" },
	{ COUNTER_LOST, "scratch_busy", BPF(SCRATCH_BUSY),
	  .help = "a sample came while the same CPU took another one" },
	{ COUNTER_LOST, "program_not_run", AT(program_not_run),
	  .help = "the kernel did not run a BPF program, as it already ran on that CPU" },
	{ COUNTER_LOST, "malformed_record", AT(malformed_record),
	  .help = "the kernel sent an impossible record; this is a bug, please report it" },
	{ COUNTER_CLOCK, "process_events_lost", BPF(EVENT_LOST),
	  .help = "starts and ends of processes that the kernel could not send" },
	{ COUNTER_CLOCK, "exits_found_late", AT(exits_found_late),
	  .help = "processes whose end was found by a later check" },
	{ COUNTER_CLOCK, "children_not_followed", BPF(TARGET_LOST),
	  .help = "children of a process of `-p` over the limit" },
	{ COUNTER_WALK, "misses", BPF(MISSES), .help = "stacks that were finished in user space",
	  .zero = ALWAYS },
	{ COUNTER_WALK, "kernel_stacks_missing", BPF(NO_KERNEL_STACK),
	  .help = "samples whose kernel frames the kernel did not give" },
	{ COUNTER_WALK, "kernel_workers", BPF(KERNEL_WORKER),
	  .help = "samples of threads of a process that never leave the kernel" },
	{ COUNTER_WALK, "tables_replaced_meanwhile", BPF(STALE),
	  .help = "searches in unwind tables that were repeated" },
	{ COUNTER_WALK, "table_pages_built", AT(tables.pages_built),
	  .help = "pages of unwind tables" },
	{ COUNTER_WALK, "table_pages_evicted", AT(tables.pages_evicted),
	  .help = "pages of unwind tables that made room for others; they are built again" },
	{ COUNTER_WALK, "table_pages_no_room", AT(tables.pages_full),
	  .help = "pages of unwind tables over the limit" },
	{ COUNTER_WALK, "mappings_no_room", AT(tables.mappings_full),
	  .help = "processes whose mappings were over the limit" },
	{ COUNTER_WALK, "mapping_reads", AT(walker.vma_reads),
	  .help = "times that a process's mappings were read" },
	{ COUNTER_WALK, "mapping_reads_deferred", AT(walker.vma_deferred),
	  .help = "such reads that were deferred for their cost" },
	{ COUNTER_WALK, "mapping_read_timeouts", AT(walker.vma_timeouts),
	  .help = "such reads that were given up" },
	{ COUNTER_WALK, "too_many_mappings", AT(walker.vmas_too_many),
	  .help = "processes with more mappings than are read" },
	{ COUNTER_WALK, "code_without_tables_read", AT(walker.code_learned),
	  .help = "pieces of code that were read for their unwind rule" },
	{ COUNTER_WALK, "code_without_tables_unexplained", AT(walker.code_unexplained),
	  .help = "pieces of code in which no unwind rule was found" },
	{ COUNTER_WALK, "code_without_tables_deferred", AT(walker.code_deferred),
	  .help = "pieces of code whose reading was deferred" },
	{ COUNTER_WALK, "gil_unknown", AT(gil_unknown),
	  .help = "samples without a known holder of the GIL" },
	{ COUNTER_WALK, "async_early", AT(async.early),
	  .help = "`--async`: samples of Python just before asyncio was found in the process: they "
		  "may lack awaiting tasks" },
	{ COUNTER_WALK, "async_failed", AT(async.failed),
	  .help = "`--async`: searches for asyncio that failed, by what was read; they are "
		  "repeated" },
	{ COUNTER_WALK, "code_objects", AT(codes.nr_objects),
	  .help = "Python functions that were read" },
	{ COUNTER_WALK, "code_objects_no_room", AT(codes.nr_full),
	  .help = "Python functions over the limit" },
	{ COUNTER_WALK, "code_objects_malformed", AT(codes.nr_malformed),
	  .help = "Python functions that contradict themselves" },
	{ COUNTER_WALK, "python_processes_no_room", AT(walker.pythons_too_many),
	  .help = "Python processes over the limit" },
	{ COUNTER_WALK, "ray_samples", AT(ray_samples), .help = "samples of Ray workers" },
	{ COUNTER_WALK, "ray_titles_bad", AT(ray_titles_bad),
	  .help = "samples whose title could not be read: the title before counts" },
	{ COUNTER_WALK, "ray_titles_torn", AT(ray_titles_torn),
	  .help = "samples whose title was being written: the title before counts" },
	{ COUNTER_WALK, "title_changes_lost", BPF(TITLES_LOST),
	  .help = "changes of titles that the kernel could not send" },
	{ COUNTER_WALK, "title_changes_too_many", BPF(TITLES_LIMITED),
	  .help = "changes of titles beyond 20,000 a second" },
	{ COUNTER_WALK, "signal_stacks_over_rate", BPF(SIGNALS_LIMITED),
	  .help = "signals without a stack, beyond 4 a second of a thread or 32 of a CPU" },
	{ COUNTER_STEPS, "windows_lost", BPF(WINDOWS_LOST),
	  .help = "windows of the profiler whose begin or end is not known" },
	{ COUNTER_FILES, "python_unknown_version", AT(pythons.nr_unknown),
	  .help = "interpreters of a version that bpfprof does not know" },
	{ COUNTER_FILES, "python_interpreters_no_room", AT(pythons.nr_full),
	  .help = "interpreters over the limit" },
	{ COUNTER_FILES, "python_malformed", AT(pythons.nr_malformed),
	  .help = "interpreters that contradict themselves" },
	{ COUNTER_FILES, "python_runtimes_beyond", AT(pythons.nr_beyond),
	  .help = "places of possible CPython state over the limit of 4 per process; the 4 places "
		  "with the most mapped code stay" },
	{ COUNTER_CONTAINERS, "samples_tagged", AT(containers_tagged),
	  .help = "samples that have a container" },
	{ COUNTER_CONTAINERS, "from_bundle", AT(containers.from_bundle),
	  .help = "containers known from files of the runtime" },
	{ COUNTER_CONTAINERS, "from_cgroup", AT(containers.from_cgroup),
	  .help = "containers known from the cgroup" },
	{ COUNTER_CONTAINERS, "from_mounts", AT(containers.from_mounts),
	  .help = "containers known from the mounts" },
	{ COUNTER_CONTAINERS, "of_node", AT(containers.of_node),
	  .help = "mount namespaces of the node itself" },
	{ COUNTER_CONTAINERS, "not_found", AT(containers.not_found),
	  .help = "mount namespaces whose container is not known" },
	{ COUNTER_CONTAINERS, "look_ups_deferred", AT(containers_deferred),
	  .help = "look-ups that were deferred, as there were too many at once" },
	{ COUNTER_CONTAINERS, "outside_pid_namespace", AT(containers_outside),
	  .help = "processes outside of bpfprof's own pid namespace" },
	{ COUNTER_CONTAINERS, "exited", AT(containers.exited),
	  .help = "processes that ended before they were read" },
	{ COUNTER_CONTAINERS, "proc_unreadable", AT(containers.proc_unreadable),
	  .help = "processes whose `/proc` could not be read" },
	{ COUNTER_CONTAINERS, "proc_cut", AT(containers.proc_cut),
	  .help = "processes with more mounts or cgroups than are read" },
	{ COUNTER_CONTAINERS, "host_mounts_unreadable", AT(containers.host_mounts_unreadable),
	  .help = "times that the node's own mounts could not be read: containers cannot be told "
		  "from the node" },
	{ COUNTER_CONTAINERS, "host_mounts_left_out", AT(containers.host_mounts_left_out),
	  .help = "mounts of the node over the limit" },
	{ COUNTER_CONTAINERS, "host_root_unreadable", AT(containers.host_root_unreadable),
	  .help = "times that the node's root folder could not be read" },
	{ COUNTER_CONTAINERS, "config_refused", AT(containers.config_refused),
	  .help = "files of the runtime that are no plain files, or may not be read" },
	{ COUNTER_CONTAINERS, "config_too_large", AT(containers.config_too_large),
	  .help = "files of the runtime that are too large" },
	{ COUNTER_CONTAINERS, "config_malformed", AT(containers.config_malformed),
	  .help = "files of the runtime that are malformed" },
	{ COUNTER_CONTAINERS, "config_blocked", AT(containers.config_blocked),
	  .help = "files of the runtime whose file system did not answer in time" },
	{ COUNTER_CONTAINERS, "config_failed", AT(containers.config_failed),
	  .help = "files of the runtime that could not be read for another reason" },
	{ COUNTER_CONTAINERS, "no_room", AT(containers.full), .help = "containers over the limit" },
	{ COUNTER_CONTAINERS, "no_memory", AT(containers.no_memory),
	  .help = "containers dropped, as memory was short" },
	{ COUNTER_ENVIRONMENTS, "read", AT(ranks.read), .help = "environments that were read" },
	{ COUNTER_ENVIRONMENTS, "with_rank_or_job", AT(ranks.found),
	  .help = "environments that have a rank or a job" },
	{ COUNTER_ENVIRONMENTS, "look_ups_deferred", AT(ranks.deferred),
	  .help = "look-ups that were deferred, as there were too many at once" },
	{ COUNTER_ENVIRONMENTS, "outside_pid_namespace", AT(ranks.outside),
	  .help = "processes outside of bpfprof's own pid namespace" },
	{ COUNTER_ENVIRONMENTS, "exited", AT(ranks.exited),
	  .help = "processes that ended before they were read" },
	{ COUNTER_ENVIRONMENTS, "too_long", AT(ranks.cut),
	  .help = "environments that were read in part" },
	{ COUNTER_ENVIRONMENTS, "unreadable", AT(ranks.unreadable),
	  .help = "environments that could not be read" },
	{ COUNTER_ENVIRONMENTS, "blocked", AT(ranks.blocked),
	  .help = "environments that could not be read in time" },
	{ COUNTER_ENVIRONMENTS, "no_memory", AT(ranks.no_memory),
	  .help = "environments not read, as memory was short" },
	{ COUNTER_WAITS, "switches", WAIT(SWITCHES), .help = "times that threads left a CPU",
	  .zero = WAITS },
	{ COUNTER_WAITS, "ended", WAIT(WAITS), .help = "waits that ended", .zero = WAITS },
	{ COUNTER_WAITS, "long", WAIT(LONG), .help = "waits of a period or more", .zero = WAITS },
	{ COUNTER_WAITS, "sampled", WAIT(KEPT), .help = "waits whose stack was taken",
	  .zero = WAITS },
	{ COUNTER_WAITS, "not_over", AT(waits_open), .help = "waits that went on at the end",
	  .zero = WAITS },
	{ COUNTER_WAITS, "period_us", AT(period_us),
	  .help = "how long a wait must be to have a stack of its own", .zero = WAITS },
	{ COUNTER_WAITS, "longest_period_us", AT(longest_period_us),
	  .help = "the longest such period", .zero = WAITS },
	{ COUNTER_WAITS, "deferred_rate_limited", WAIT(LIMITED),
	  .help = "waits without a stack, as there were too many; their time is shown with the "
		  "next wait of the thread" },
	{ COUNTER_WAITS, "told_by_the_next_too_many", WAIT(LIMITED),
	  .help = "old name of `deferred_rate_limited`, in this version" },
	{ COUNTER_WAITS, "deferred_no_interrupt", WAIT(MISSED),
	  .help = "waits whose stack was not taken, as no interrupt came" },
	{ COUNTER_WAITS, "told_by_the_next_no_interrupt", WAIT(MISSED),
	  .help = "old name of `deferred_no_interrupt`, in this version" },
	{ COUNTER_WAITS, "deferred_scratch_busy", WAIT(BUSY),
	  .help = "waits whose stack was not taken, as the CPU took another sample" },
	{ COUNTER_WAITS, "told_by_the_next_scratch_busy", WAIT(BUSY),
	  .help = "old name of `deferred_scratch_busy`, in this version" },
	{ COUNTER_WAITS, "deferred_end_unseen", WAIT(UNSEEN),
	  .help = "waits whose stack was not taken, as their end was not seen" },
	{ COUNTER_WAITS, "told_by_the_next_end_unseen", WAIT(UNSEEN),
	  .help = "old name of `deferred_end_unseen`, in this version" },
	{ COUNTER_WAITS, "deferred_ns", WAIT(LATER_NS), .help = "the time of these waits" },
	{ COUNTER_WAITS, "told_later_ns", WAIT(LATER_NS),
	  .help = "old name of `deferred_ns`, in this version" },
	{ COUNTER_WAITS, "without_user_stack", AT(waits_unread),
	  .help = "waits with frames of the kernel only" },
	{ COUNTER_LOST, "switches_no_room", WAIT(FULL), .help = "`--wall`: more threads than fit",
	  .remedy = "a filter" },
	{ COUNTER_LOST, "threads_unknown", AT(threads_unknown),
	  .help = "`--wall`: threads slept since a time that is not known", .remedy = "a filter" },
	{ COUNTER_LOST, "thread_ends", WAIT(ENDS_LOST),
	  .help = "`--wall`: ends of threads were not recorded", .remedy = "a filter" },
	{ COUNTER_WAITS, "woken_by_threads", AT(wakers.threads),
	  .help = "waits that a thread ended", .zero = WAKERS },
	{ COUNTER_WAITS, "woken_by_interrupts", AT(wakers.interrupts),
	  .help = "waits that an interrupt ended", .zero = WAKERS },
	{ COUNTER_WAITS, "waker_unknown", AT(wakers.unknown),
	  .help = "waits whose waker is not known", .zero = WAKERS },
	{ COUNTER_WAITS, "wakers_reported", WAIT(WAKERS), .help = "wakers that the kernel recorded",
	  .zero = WAKERS },
	{ COUNTER_WAITS, "wakers_told", WAIT(WAKERS),
	  .help = "old name of `wakers_reported`, in this version", .zero = WAKERS },
	{ COUNTER_WAITS, "wakers_without_stack", WAIT(WAKERS_LIMITED),
	  .help = "wakers without a stack, as there were too many" },
	{ COUNTER_WAITS, "waker_stacks_truncated", AT(wakers.truncated),
	  .help = "wakers whose stack is not complete" },
	{ COUNTER_WAITS, "wakers_scratch_busy", WAIT(WAKERS_BUSY),
	  .help = "wakers that were not recorded, as the CPU took another sample" },
	{ COUNTER_WAITS, "wakers_no_kernel_stack", WAIT(WAKERS_UNCLEAR),
	  .help = "wakers whose kernel frames the kernel did not give" },
	{ COUNTER_WAITS, "wakers_no_room", AT(wakers.no_room),
	  .help = "wakers that were evicted before their wait was reported" },
	{ COUNTER_WAITS, "waker_links_no_room", AT(wakers.links_no_room),
	  .help = "links of wakers and waits over the limit" },
	{ 0 },
};

static void counts_fill(struct sampler *sampler, struct counts *c)
{
	struct clock *clock = sampler->clock;
	const struct waits *waits = sampler->waits;

	session_counters(&sampler->reader.session, c->bpf);
	if (!sampler->steps)
		c->bpf[BPFPROF_COUNT_WINDOWS_LOST] = 0;
	c->program_not_run = session_nr_not_run(&sampler->reader.session);
	c->malformed_record = stream_nr_malformed(sampler->stream);
	if (clock) {
		c->tick_skipped = clock_nr_skipped(clock, c->bpf[BPFPROF_COUNT_TICKS] -
								  c->bpf[BPFPROF_COUNT_IDLE]);
		c->cpus_unarmed = clock_nr_unarmed(clock);
		c->events_revived = clock_nr_revived(clock);
	}
	c->exits_found_late = stream_nr_found_ended(sampler->stream);
	c->tables = *tables_counts(sampler->reader.walker.tables);
	c->walker = sampler->reader.walker;
	c->codes = *codes_counts(sampler->codes);
	c->codes.nr_full += c->bpf[BPFPROF_COUNT_CODES_FULL];
	c->gil_unknown = sampler->nr_gil_unknown;
	c->async = sampler->async;
	c->ray_samples = stream_nr_ray(sampler->stream);
	c->ray_titles_bad = stream_nr_bad_title(sampler->stream);
	c->ray_titles_torn = stream_nr_torn_title(sampler->stream);
	c->pythons = *pythons_counts(sampler->reader.walker.pythons);
	c->containers = *containers_stats(sampler->reader.containers);
	c->containers_tagged = sampler->nr_tagged;
	c->containers_deferred = sampler->nr_container_deferred;
	c->containers_outside = sampler->nr_container_outside;
	c->ranks = sampler->ranks;
	if (waits) {
		waits_counters(waits, c->waits);
		c->waits_open = sampler->waits_open;
		c->waits_unread = sampler->waits_unread;
		c->threads_unknown = sampler->waits_unknown;
		c->period_us = waits_base_period_ns(waits) / 1000;
		c->longest_period_us = waits_max_period_ns(waits) / 1000;
	}
	if (waits && sampler->wakers)
		c->wakers = *wakers_stats(sampler->wakers);
}

static uint32_t parts_of(const struct sampler *sampler)
{
	uint32_t parts = ALWAYS;

	if (sampler->clock)
		parts |= sampler->reader.session.options.clock == SESSION_CLOCK_TIMER
				 ? CLOCK | TIMER
				 : CLOCK;
	if (sampler->waits)
		parts |= sampler->wakers ? WAITS | WAKERS : WAITS;
	return parts;
}

/* Two rows have another group in some recordings. */
static enum counter_group group_of(const struct sampler *sampler, const struct counter *row)
{
	switch (row->offset) {
	case AT(tick_skipped):
	case BPF(TIMER_LATE):
		/* Without samples of the clock no sample is lost. */
		return sampler->reader.session.options.gaps_alone ? COUNTER_CLOCK : COUNTER_LOST;
	case BPF(TITLES_LOST):
	case BPF(TITLES_LIMITED):
		return sampler->steps ? COUNTER_STEPS : COUNTER_WALK;
	default:
		return row->group;
	}
}

static void refusals_stats(struct sampler *sampler, struct run_stats *stats)
{
	const struct refused *row;

	sampler_refusals_name(sampler);
	hash_table_each(&sampler->reader.refusals.rows, row)
		stats_add_refused(stats, row->name, refusals_counters[row->of.reason].name,
				  row->count);
}

void sampler_run_stats(struct sampler *sampler, struct run_stats *stats)
{
	const struct background_counts background = background_counts(sampler->background);
	const uint32_t parts = parts_of(sampler);
	const struct counter *row;
	struct counts c = { 0 };
	uint64_t count;

	counts_fill(sampler, &c);
	if (sampler->clock)
		stats->clock_name = sampler->reader.session.options.clock == SESSION_CLOCK_PERF
					    ? "perf"
					    : "timer";
	if (sampler->steps)
		worker_steps_stats(sampler->steps, &stats->steps);
	for (row = sampler_counters; row->group; row++) {
		count = stats_row_count(row, &c);
		if (count || row->zero & parts)
			stats_add(stats_group(stats, group_of(sampler, row)), row->name, count);
	}
	task_sampler_stats(sampler->tasks, &stats->waits);
	refusals_stats(sampler, stats);
	stats_add_rows(&stats->walk, background_counters, &background, false);
	if (session_run_stats(&sampler->reader.session, &stats->bpf_runs, &stats->bpf_ns)) {
		stats->bpf_ns_source = "kernel";
	} else {
		/* Every 64th sample is timed. */
		stats->bpf_runs = c.bpf[BPFPROF_COUNT_TICKS];
		if (c.bpf[BPFPROF_COUNT_SELF_RUNS])
			stats->bpf_ns =
				c.bpf[BPFPROF_COUNT_SELF_NS] / c.bpf[BPFPROF_COUNT_SELF_RUNS] *
				(c.bpf[BPFPROF_COUNT_SAMPLES] + c.bpf[BPFPROF_COUNT_RING_FULL]);
		stats->bpf_ns_source = "self";
	}
}

const struct counter sampler_image_counters[] = {
	{ COUNTER_FILES, "file_from_memory", 0,
	  .help = "files that could not be opened and were read from memory" },
	{ 0 },
};

void sampler_image_stats(const struct sampler *sampler, struct run_stats *stats)
{
	const uint64_t from_memory = images_nr_way(sampler->reader.images, IMAGE_WAY_MEMORY);

	stats_add_rows(&stats->files, image_counters, images_problems(sampler->reader.images),
		       false);
	stats_add_rows(&stats->files, sampler_image_counters, &from_memory, false);
}

void sampler_stats(struct sampler *sampler, struct run_stats *stats)
{
	sampler_run_stats(sampler, stats);
	sampler_image_stats(sampler, stats);
}

void sampler_own_usage(const struct sampler *sampler, struct run_stats *stats)
{
	uint64_t map_bytes = session_map_bytes(&sampler->reader.session) +
			     private_files_map_bytes(sampler->reader.private_files);
	struct self_usage self;

	if (stats->bpf_map_bytes < map_bytes)
		stats->bpf_map_bytes = map_bytes;
	if (self_usage_read(&self))
		return;
	self.own_bytes += task_sampler_bytes(sampler->tasks);
	stats->cpu_seconds = self.cpu_seconds + task_sampler_cpu_seconds(sampler->tasks);
	stats->rss_bytes = self.rss_bytes;
	stats->peak_rss_bytes = self.peak_rss_bytes;
	if (stats->memory_bytes < self.own_bytes + map_bytes)
		stats->memory_bytes = self.own_bytes + map_bytes;
}
