// SPDX-License-Identifier: Apache-2.0
/* What a sampler has counted since it was started. */
#include "capture/sampler.h"

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

static void counter_add(struct stats_reasons *reasons, const char *name, uint64_t count)
{
	if (count)
		stats_add(reasons, name, count);
}

/* A counter that has a new name keeps its old one beside it for one version. */
static void renamed_add(struct stats_reasons *reasons, const char *name, const char *old_name,
			uint64_t count)
{
	counter_add(reasons, name, count);
	counter_add(reasons, old_name, count);
}

/* Samples; then mount namespaces by what became of them; then why less was found. */
static void containers_count_all(const struct sampler *sampler, struct stats_reasons *dst)
{
	const struct containers_stats *c = containers_stats(sampler->containers);
	const struct stats_reason all[] = {
		{ "samples_tagged", sampler->nr_tagged },
		{ "from_bundle", c->from_bundle },
		{ "from_cgroup", c->from_cgroup },
		{ "from_mounts", c->from_mounts },
		{ "of_node", c->of_node },
		{ "not_found", c->not_found },
		{ "look_ups_deferred", sampler->nr_container_deferred },
		{ "outside_pid_namespace", sampler->nr_container_outside },
		{ "exited", c->exited },
		{ "proc_unreadable", c->proc_unreadable },
		{ "proc_cut", c->proc_cut },
		{ "host_mounts_unreadable", c->host_mounts_unreadable },
		{ "host_mounts_left_out", c->host_mounts_left_out },
		{ "host_root_unreadable", c->host_root_unreadable },
		{ "config_refused", c->config_refused },
		{ "config_too_large", c->config_too_large },
		{ "config_malformed", c->config_malformed },
		{ "config_blocked", c->config_blocked },
		{ "config_failed", c->config_failed },
		{ "no_room", c->full },
		{ "no_memory", c->no_memory },
	};
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		counter_add(dst, all[i].name, all[i].count);
}

static void environments_count_all(const struct sampler_ranks_stats *r, struct stats_reasons *dst)
{
	counter_add(dst, "read", r->looked);
	counter_add(dst, "with_rank_or_job", r->found);
	counter_add(dst, "look_ups_deferred", r->deferred);
	counter_add(dst, "outside_pid_namespace", r->outside);
	counter_add(dst, "exited", r->exited);
	counter_add(dst, "too_long", r->cut);
	counter_add(dst, "unreadable", r->unreadable);
	counter_add(dst, "blocked", r->blocked);
	counter_add(dst, "no_memory", r->no_memory);
}

static void clock_count(struct sampler *sampler, const uint64_t c[BPFPROF_NR_COUNTERS],
			struct run_stats *stats)
{
	/* Where only gaps are looked at nothing is lost: time that nobody was seen in is told as such. */
	struct stats_reasons *lost =
		sampler->session.options.gaps_alone ? &stats->clock : &stats->lost;

	stats->clock_name = sampler->session.options.clock == SESSION_CLOCK_PERF ? "perf" : "timer";
	stats_add(lost, "tick_skipped",
		  clock_nr_skipped(sampler->clock, c[BPFPROF_COUNT_TICKS] - c[BPFPROF_COUNT_IDLE]));
	stats_add(&stats->clock, "ticks", c[BPFPROF_COUNT_TICKS]);
	stats_add(&stats->clock, "idle", c[BPFPROF_COUNT_IDLE]);
	stats_add(&stats->clock, "cpus_unarmed", clock_nr_unarmed(sampler->clock));
	counter_add(&stats->clock, "perf_events_revived", clock_nr_revived(sampler->clock));
	if (sampler->session.options.clock == SESSION_CLOCK_TIMER) {
		stats_add(&stats->clock, "ticks_misplaced", c[BPFPROF_COUNT_KSOFTIRQD]);
		counter_add(lost, "tick_late", c[BPFPROF_COUNT_TIMER_LATE]);
		counter_add(&stats->clock, "own_frames_unknown", c[BPFPROF_COUNT_OWN_UNKNOWN]);
		counter_add(&stats->clock, "timer_moved", c[BPFPROF_COUNT_TIMER_MOVED]);
		counter_add(&stats->clock, "timer_error", c[BPFPROF_COUNT_TIMER_ERROR]);
	}
}

static void wakers_count(const struct sampler *sampler, const uint64_t c[WAIT_NR_COUNTERS],
			 struct run_stats *stats)
{
	const struct wakers_stats *wakers = wakers_stats(sampler->wakers);

	stats_add(&stats->waits, "woken_by_threads", wakers->threads);
	stats_add(&stats->waits, "woken_by_interrupts", wakers->interrupts);
	stats_add(&stats->waits, "waker_unknown", wakers->unknown);
	stats_add(&stats->waits, "wakers_reported", c[WAIT_COUNT_WAKERS]);
	stats_add(&stats->waits, "wakers_told", c[WAIT_COUNT_WAKERS]); /* the old name */
	counter_add(&stats->waits, "wakers_without_stack", c[WAIT_COUNT_WAKERS_LIMITED]);
	counter_add(&stats->waits, "waker_stacks_truncated", wakers->truncated);
	counter_add(&stats->waits, "wakers_scratch_busy", c[WAIT_COUNT_WAKERS_BUSY]);
	counter_add(&stats->waits, "wakers_no_kernel_stack", c[WAIT_COUNT_WAKERS_UNCLEAR]);
	counter_add(&stats->waits, "wakers_no_room", wakers->no_room);
	counter_add(&stats->waits, "waker_links_no_room", wakers->links_no_room);
}

static void waits_count(const struct sampler *sampler, struct run_stats *stats)
{
	uint64_t c[WAIT_NR_COUNTERS];

	waits_counters(sampler->waits, c);
	stats_add(&stats->waits, "switches", c[WAIT_COUNT_SWITCHES]);
	stats_add(&stats->waits, "ended", c[WAIT_COUNT_WAITS]);
	stats_add(&stats->waits, "long", c[WAIT_COUNT_LONG]);
	stats_add(&stats->waits, "sampled", c[WAIT_COUNT_KEPT]);
	stats_add(&stats->waits, "not_over", sampler->waits_open);
	stats_add(&stats->waits, "period_us", waits_base_period_ns(sampler->waits) / 1000);
	stats_add(&stats->waits, "longest_period_us", waits_max_period_ns(sampler->waits) / 1000);
	renamed_add(&stats->waits, "deferred_rate_limited", "told_by_the_next_too_many",
		    c[WAIT_COUNT_LIMITED]);
	renamed_add(&stats->waits, "deferred_no_interrupt", "told_by_the_next_no_interrupt",
		    c[WAIT_COUNT_MISSED]);
	renamed_add(&stats->waits, "deferred_scratch_busy", "told_by_the_next_scratch_busy",
		    c[WAIT_COUNT_BUSY]);
	renamed_add(&stats->waits, "deferred_end_unseen", "told_by_the_next_end_unseen",
		    c[WAIT_COUNT_UNSEEN]);
	renamed_add(&stats->waits, "deferred_ns", "told_later_ns", c[WAIT_COUNT_LATER_NS]);
	counter_add(&stats->waits, "without_user_stack", sampler->waits_unread);
	counter_add(&stats->lost, "switches_no_room", c[WAIT_COUNT_FULL]);
	counter_add(&stats->lost, "threads_unknown", sampler->waits_unknown);
	counter_add(&stats->lost, "thread_ends", c[WAIT_COUNT_ENDS_LOST]);
	if (sampler->wakers)
		wakers_count(sampler, c, stats);
}

void sampler_run_stats(struct sampler *sampler, struct run_stats *stats)
{
	const struct tables_counts *tables = tables_counts(sampler->tables);
	const struct codes_counts *codes = codes_counts(sampler->codes);
	const struct pythons_counts *pythons = pythons_counts(sampler->pythons);
	uint64_t c[BPFPROF_NR_COUNTERS];

	session_counters(&sampler->session, c);
	stats_add(&stats->lost, "ring_full", c[BPFPROF_COUNT_RING_FULL]);
	if (sampler->clock)
		clock_count(sampler, c, stats);
	counter_add(&stats->lost, "scratch_busy", c[BPFPROF_COUNT_SCRATCH_BUSY]);
	counter_add(&stats->lost, "program_not_run", session_nr_not_run(&sampler->session));
	counter_add(&stats->lost, "malformed_record", stream_nr_malformed(sampler->stream));
	counter_add(&stats->clock, "process_events_lost", c[BPFPROF_COUNT_EVENT_LOST]);
	counter_add(&stats->clock, "exits_found_late", stream_nr_found_gone(sampler->stream));
	counter_add(&stats->clock, "children_not_followed", c[BPFPROF_COUNT_TARGET_LOST]);
	stats_add(&stats->walk, "misses", c[BPFPROF_COUNT_MISSES]);
	counter_add(&stats->walk, "kernel_stacks_missing", c[BPFPROF_COUNT_NO_KERNEL_STACK]);
	counter_add(&stats->walk, "kernel_workers", c[BPFPROF_COUNT_KERNEL_WORKER]);
	counter_add(&stats->walk, "tables_replaced_meanwhile", c[BPFPROF_COUNT_STALE]);
	counter_add(&stats->walk, "table_pages_built", tables->pages_built);
	counter_add(&stats->walk, "table_pages_evicted", tables->pages_evicted);
	counter_add(&stats->walk, "table_pages_no_room", tables->pages_full);
	counter_add(&stats->walk, "mappings_no_room", tables->mappings_full);
	counter_add(&stats->walk, "mapping_reads", sampler->walker.vma_reads);
	counter_add(&stats->walk, "mapping_reads_deferred", sampler->walker.vma_deferred);
	counter_add(&stats->walk, "mapping_read_timeouts", sampler->walker.vma_timeouts);
	counter_add(&stats->walk, "too_many_mappings", sampler->walker.vmas_too_many);
	counter_add(&stats->walk, "code_without_tables_read", sampler->walker.code_learned);
	counter_add(&stats->walk, "code_without_tables_unexplained",
		    sampler->walker.code_unexplained);
	counter_add(&stats->walk, "code_without_tables_deferred", sampler->walker.code_deferred);
	counter_add(&stats->walk, "gil_unknown", sampler->nr_gil_unknown);
	counter_add(&stats->walk, "code_objects", codes->nr_objects);
	counter_add(&stats->walk, "code_objects_no_room",
		    codes->nr_full + c[BPFPROF_COUNT_CODES_FULL]);
	counter_add(&stats->walk, "code_objects_malformed", codes->nr_malformed);
	counter_add(&stats->walk, "python_processes_no_room", sampler->walker.pythons_too_many);
	counter_add(&stats->walk, "ray_samples", stream_nr_ray(sampler->stream));
	counter_add(&stats->walk, "ray_titles_bad", stream_nr_bad_title(sampler->stream));
	counter_add(&stats->walk, "ray_titles_torn", stream_nr_torn_title(sampler->stream));
	counter_add(&stats->files, "python_unknown_version", pythons->nr_unknown);
	counter_add(&stats->files, "python_interpreters_no_room", pythons->nr_full);
	counter_add(&stats->files, "python_malformed", pythons->nr_malformed);
	counter_add(&stats->files, "python_runtimes_beyond", pythons->nr_beyond);
	containers_count_all(sampler, &stats->containers);
	environments_count_all(&sampler->ranks, &stats->environments);
	if (sampler->waits)
		waits_count(sampler, stats);
	if (sampler->steps) {
		worker_steps_stats(sampler->steps, &stats->steps);
		counter_add(&stats->steps, "title_changes_lost", c[BPFPROF_COUNT_TITLES_LOST]);
		counter_add(&stats->steps, "title_changes_too_many",
			    c[BPFPROF_COUNT_TITLES_LIMITED]);
		counter_add(&stats->steps, "windows_lost", c[BPFPROF_COUNT_WINDOWS_LOST]);
	} else {
		counter_add(&stats->walk, "title_changes_lost", c[BPFPROF_COUNT_TITLES_LOST]);
		counter_add(&stats->walk, "title_changes_too_many",
			    c[BPFPROF_COUNT_TITLES_LIMITED]);
	}
	if (session_run_stats(&sampler->session, &stats->bpf_runs, &stats->bpf_ns)) {
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

void sampler_image_stats(const struct sampler *sampler, struct run_stats *stats)
{
	enum image_problem problem;

	for (problem = IMAGE_GONE; problem < IMAGE_NR_PROBLEMS; problem++)
		counter_add(&stats->files, image_problem_name(problem),
			    images_nr_problem(sampler->images, problem));
	counter_add(&stats->files, "file_from_memory", /* has no .symtab */
		    images_nr_way(sampler->images, IMAGE_WAY_MEMORY));
}

void sampler_stats(struct sampler *sampler, struct run_stats *stats)
{
	sampler_run_stats(sampler, stats);
	sampler_image_stats(sampler, stats);
}

void sampler_own_usage(const struct sampler *sampler, struct run_stats *stats)
{
	uint64_t map_bytes = session_map_bytes(&sampler->session) +
			     private_files_map_bytes(sampler->private_files);
	struct self_usage self;

	if (stats->bpf_map_bytes < map_bytes)
		stats->bpf_map_bytes = map_bytes;
	if (self_usage_read(&self))
		return;
	stats->cpu_seconds = self.cpu_seconds;
	stats->rss_bytes = self.rss_bytes;
	stats->peak_rss_bytes = self.peak_rss_bytes;
	if (stats->memory_bytes < self.own_bytes + map_bytes)
		stats->memory_bytes = self.own_bytes + map_bytes;
}
