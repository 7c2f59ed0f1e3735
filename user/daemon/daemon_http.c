// SPDX-License-Identifier: Apache-2.0
/* The state of the daemon over HTTP: /metrics, /healthz, /readyz. */
#include "daemon/daemon.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>

#include "base/background.h"
#include "base/buf.h"
#include "base/deadline.h"
#include "base/time.h"
#include "daemon/http.h"
#include "daemon/http_clients.h"
#include "kernel/private_file.h"
#include "kernel/session.h"
#include "proc/images.h"
#include "proc/processes.h"
#include "proc/self.h"
#include "profile/aggregate.h"
#include "profile/aggregate_stats.h"
#include "python/codes.h"

#define METRICS_BYTES (1U << 20)
#define METRICS_NS NS_PER_SECOND /* one snapshot serves all requests for so long */
#define LATE_INTERVALS 2
#define STALLED_NS (10 * NS_PER_SECOND)

static void head(struct buf *dst, const char *name, const char *type, const char *help)
{
	buf_printf(dst, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void counter(struct buf *dst, const char *name, uint64_t value, const char *help)
{
	head(dst, name, "counter", help);
	buf_printf(dst, "%s %" PRIu64 "\n", name, value);
}

static void gauge(struct buf *dst, const char *name, uint64_t value, const char *help)
{
	head(dst, name, "gauge", help);
	buf_printf(dst, "%s %" PRIu64 "\n", name, value);
}

static void seconds(struct buf *dst, const char *name, const char *type, uint64_t ns,
		    const char *help)
{
	uint64_t whole = ns / NS_PER_SECOND, us = ns % NS_PER_SECOND / 1000;

	head(dst, name, type, help);
	buf_printf(dst, "%s %" PRIu64 ".%06" PRIu64 "\n", name, whole, us);
}

static void labelled(struct buf *dst, const char *name, const char *label, const char *value,
		     uint64_t count)
{
	buf_printf(dst, "%s{%s=\"%s\"} %" PRIu64 "\n", name, label, value, count);
}

/* The names of reasons are constants of this program, so they need no quoting. */
static void reasons(struct buf *dst, const char *name, const char *label, const char *help,
		    const struct stats_reasons *list)
{
	size_t i;

	head(dst, name, "counter", help);
	for (i = 0; i < list->nr; i++)
		labelled(dst, name, label, list->reasons[i].name, list->reasons[i].count);
}

static void unwind_errors(struct buf *dst, const struct stats_reasons *list)
{
	static const char name[] = "bpfprof_unwind_errors_total";
	const char *reason;
	size_t i;

	head(dst, name, "counter", "Stacks cut short or not merged, by reason.");
	for (i = 0; i < list->nr; i++) {
		reason = list->reasons[i].name;
		buf_printf(dst, "%s{unwinder=\"%s\",reason=\"%s\"} %" PRIu64 "\n", name,
			   strncmp(reason, "python_", 7) ? "native" : "python", reason,
			   list->reasons[i].count);
	}
}

/* Adds up the finished intervals, the waiting one, and the running one. */
static void stats_now(struct daemon *daemon, struct run_stats *stats)
{
	const struct interval *intervals[] = { &daemon->running, &daemon->ended };
	const struct run_stats *counted = &daemon->totals.counted;
	struct aggregate_view view;
	struct run_stats part;
	size_t i;

	*stats = (struct run_stats){ 0 };
	/* These count from the start: lost, clock, walk, files. */
	sampler_stats(&daemon->sampler, stats);
	if (daemon->options->capture.session.deaths) {
		deaths_stats(&daemon->deaths.seen, &stats->walk);
		stalls_stats(&daemon->stalls.seen, &stats->walk);
	}
	notify_stats(daemon, &stats->walk);
	stats_add_samples(stats, counted);
	for (i = 0; i < 2; i++) {
		if (!intervals[i]->aggregate)
			continue;
		part = (struct run_stats){ 0 };
		aggregate_view_get(intervals[i]->aggregate, &view);
		aggregate_stats(&part, &view);
		stats_add_samples(stats, &part);
		stats_add_groups(stats, &part);
	}
	stats_add_groups(stats, counted);
}

static void sampling_metrics(struct buf *dst, struct daemon *daemon)
{
	static const char samples[] = "bpfprof_samples_total", stacks[] = "bpfprof_stacks_total";
	struct run_stats stats;

	stats_now(daemon, &stats);
	head(dst, samples, "counter",
	     "Samples taken, by what ran: Python, other code, the kernel alone.");
	labelled(dst, samples, "kind", "python", stats.python);
	labelled(dst, samples, "kind", "user",
		 stats.user > stats.python ? stats.user - stats.python : 0);
	labelled(dst, samples, "kind", "kernel", stats.kernel_only);
	reasons(dst, "bpfprof_samples_lost_total", "reason", "Samples lost, by reason.",
		&stats.lost);
	head(dst, stacks, "counter", "User stacks, by how far they could be walked.");
	labelled(dst, stacks, "result", "complete", stats.complete);
	labelled(dst, stacks, "result", "truncated", stats.truncated);
	labelled(dst, stacks, "result", "unmerged", stats.unmerged);
	unwind_errors(dst, &stats.stack_reasons);
	reasons(dst, "bpfprof_clock_events_total", "event",
		"What happened to the sampling clock; cpus_unarmed is a number of now.",
		&stats.clock);
	reasons(dst, "bpfprof_walk_events_total", "event", "Work of the unwinder.", &stats.walk);
	reasons(dst, "bpfprof_container_events_total", "event",
		"Samples and containers tagged, by source, and what went wrong.",
		&stats.containers);
	reasons(dst, "bpfprof_environment_events_total", "event",
		"Environments looked at for ranks, and why less was found.", &stats.environments);
	reasons(dst, "bpfprof_file_problems_total", "reason",
		"Program files that could not be used, by reason.", &stats.files);
}

static void calls_metrics(struct buf *dst, const struct daemon *daemon)
{
	const struct daemon_calls *calls = &daemon->calls;
	struct stats_reasons sum = { 0 };

	stats_add_reasons(&sum, &calls->finished);
	stats_add_reasons(&sum, &calls->running);
	reasons(dst, "bpfprof_gpu_calls_total", "kind", "Calls of CUDA and NCCL, by kind.", &sum);
	reasons(dst, "bpfprof_gpu_lost_total", "reason",
		"Calls, stacks and names of them that are not known, by reason.", &calls->lost);
	gauge(dst, "bpfprof_gpu_keys", calls->nr_keys,
	      "Keys by which such calls are counted, of live processes: at most 16384.");
	counter(dst, "bpfprof_gpu_stacks_total", call_table_nr_stacks(calls->watch.table),
		"Stacks of such calls.");
}

static void writing_metrics(struct buf *dst, const struct daemon *daemon)
{
	const struct daemon_totals *totals = &daemon->totals;

	counter(dst, "bpfprof_profiles_written_total", totals->profiles,
		"Sets of files written, one per interval.");
	counter(dst, "bpfprof_profile_write_errors_total", totals->write_errors,
		"Intervals that could not be written and are lost.");
	if (daemon->options->split == DAEMON_SPLIT_POD) {
		counter(dst, "bpfprof_pod_profiles_written_total", totals->pod_profiles,
			"Sets of files written of pods.");
		counter(dst, "bpfprof_pod_profile_write_errors_total", totals->pod_write_errors,
			"Sets of files of pods that could not be written and are lost.");
		gauge(dst, "bpfprof_pod_folders_unread", totals->folders_unread,
		      "Folders that could not be looked at last time: limits do not hold there.");
	}
	counter(dst, "bpfprof_profile_bytes_total", totals->bytes, "Bytes of files written.");
	gauge(dst, "bpfprof_last_profile_timestamp_seconds", totals->last_profile_seconds,
	      "When the last set was finished, 0 if none was.");
	seconds(dst, "bpfprof_flush_duration_seconds", "gauge", totals->write_ns,
		"Time from the end of the last written interval until its files were there.");
	counter(dst, "bpfprof_intervals_extended_total", totals->intervals_extended,
		"Intervals that became longer because the one before was still being written.");
	counter(dst, "bpfprof_clock_steps_total", totals->clock_steps,
		"Times that the wall clock was set.");
	counter(dst, "bpfprof_links_failed_total", totals->links_failed,
		"Links latest.* that could not be set.");
	counter(dst, "bpfprof_sets_removed_total", totals->sets_removed,
		"Sets of files removed by retention.");
	gauge(dst, "bpfprof_stored_sets", totals->sets, "Sets of files in the folder.");
	gauge(dst, "bpfprof_stored_bytes", totals->stored_bytes, "Bytes of these sets.");
}

static void http_metrics(struct buf *dst, const struct daemon *daemon)
{
	struct stats_reasons refused = { 0 };

	stats_add_rows(&refused, http_refused_counters, http_refused(daemon->http), true);
	reasons(dst, "bpfprof_http_refused_total", "reason",
		"Connections closed before their answer was taken, by reason.", &refused);
}

static uint64_t nr_open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint64_t nr = 0;

	while (dir && readdir(dir))
		nr++;
	if (dir)
		closedir(dir);
	return nr > 3 ? nr - 3 : 0; /* ".", "..", and dir's own */
}

static uint64_t timeval_ns(const struct timeval *t)
{
	return (uint64_t)t->tv_sec * NS_PER_SECOND + (uint64_t)t->tv_usec * 1000;
}

static void own_metrics(struct buf *dst, struct daemon *daemon)
{
	const struct sampler *sampler = &daemon->sampler;
	struct rusage self, children;
	struct self_usage usage;
	uint64_t map_bytes = session_map_bytes(&sampler->reader.session) +
			     private_files_map_bytes(sampler->reader.private_files);

	head(dst, "bpfprof_build_info", "gauge", "Which version this is.");
	buf_add_str(dst, "bpfprof_build_info{version=\"" BPFPROF_VERSION "\"} 1\n");
	gauge(dst, "bpfprof_bpf_map_bytes", map_bytes, "Memory of the BPF maps.");
	gauge(dst, "bpfprof_processes", processes_count(sampler->reader.processes),
	      "Processes known.");
	gauge(dst, "bpfprof_program_files", images_nr_files(sampler->reader.images),
	      "Program files known.");
	gauge(dst, "bpfprof_code_objects", codes_counts(sampler->codes)->nr_kept,
	      "Python code known.");
	if (!self_usage_read(&usage)) {
		gauge(dst, "bpfprof_memory_bytes", usage.own_bytes + map_bytes,
		      "User space and BPF maps together, what --max-memory is for.");
		gauge(dst, "process_resident_memory_bytes", usage.rss_bytes,
		      "Resident memory of the daemon.");
		gauge(dst, "process_start_time_seconds",
		      time_wall_ns() / NS_PER_SECOND - (uint64_t)usage.age_seconds,
		      "When the daemon was started.");
	}
	getrusage(RUSAGE_SELF, &self);
	getrusage(RUSAGE_CHILDREN, &children);
	seconds(dst, "process_cpu_seconds_total", "counter",
		timeval_ns(&self.ru_utime) + timeval_ns(&self.ru_stime) +
			timeval_ns(&children.ru_utime) + timeval_ns(&children.ru_stime),
		"CPU time of the daemon and of the processes that write for it.");
	gauge(dst, "process_open_fds", nr_open_fds(), "Open file descriptors.");
}

static void metrics(struct daemon *daemon, struct http_reply *reply)
{
	uint64_t now_ns = time_monotonic_ns();
	struct buf *text = &daemon->metrics;

	if (!text->len || now_ns - daemon->metrics_ns > METRICS_NS) {
		buf_fini(text);
		buf_init(text, METRICS_BYTES);
		own_metrics(text, daemon);
		sampling_metrics(text, daemon);
		refusals_metrics(text, daemon);
		if (daemon->options->capture.session.gpu)
			calls_metrics(text, daemon);
		writing_metrics(text, daemon);
		daemon_deaths_metrics(text, daemon);
		daemon_stalls_metrics(text, daemon);
		pushers_metrics(text, daemon);
		http_metrics(text, daemon);
		if (daemon->options->tokens.nr || daemon->options->socket)
			remote_profile_metrics(text, daemon);
		daemon->metrics_ns = now_ns;
	}
	reply->type = "text/plain; version=0.0.4; charset=utf-8";
	reply->status = 200;
	buf_add(reply->body, text->data, text->len);
	if (buf_error(text))
		reply->status = 500;
}

/* Any answer shows that the loop runs. */
static void health(const struct daemon *daemon, struct http_reply *reply)
{
	uint64_t limit_ns = LATE_INTERVALS * daemon->options->interval_seconds * NS_PER_SECOND;
	uint64_t since_ns = time_monotonic_ns() - daemon->last_good_ns;

	/* The first interval may be longer by a half, and writing takes time. */
	limit_ns += limit_ns / 4 + 10 * NS_PER_SECOND;
	reply->status = since_ns <= limit_ns ? 200 : 503;
	if (reply->status == 200)
		buf_add_str(reply->body, "ok\n");
	else
		buf_printf(reply->body, "no profile written for %.0f s\n", (double)since_ns / 1e9);
}

/* It samples, as the server starts after the sampler. Can it also read files and processes? */
static void ready(const struct daemon *daemon, struct http_reply *reply)
{
	static const char *const kinds[] = { [DEADLINE_KIND_NODE] = "to files of the node",
					     [DEADLINE_KIND_PROCESS] = "to processes",
					     [DEADLINE_KIND_MOUNT] = "to file systems" };
	const struct sampler *sampler = &daemon->sampler;
	uint64_t stalled_ns = background_stalled_ns(sampler->background, time_monotonic_ns());
	enum deadline_kind kind;

	reply->status = 503;
	if (stalled_ns > STALLED_NS) {
		buf_printf(reply->body,
			   "not ready: reading files and processes has not gone on for %.0f s\n",
			   (double)stalled_ns / 1e9);
		return;
	}
	for (kind = DEADLINE_KIND_NODE; kind <= DEADLINE_KIND_MOUNT; kind++) {
		if (!deadline_is_full(sampler->reader.runner, kind))
			continue;
		buf_printf(reply->body,
			   "not ready: so many calls %s hang that no further one is tried\n",
			   kinds[kind]);
		return;
	}
	reply->status = 200;
	buf_add_str(reply->body, "ok\n");
}

static void answer(void *arg, const struct http_request *request, struct http_reply *reply)
{
	struct daemon *daemon = arg;
	const char *path = request->path;

	if (!strcmp(path, "/metrics")) {
		metrics(daemon, reply);
	} else if (!strcmp(path, "/healthz")) {
		health(daemon, reply);
	} else if (!strcmp(path, "/readyz")) {
		ready(daemon, reply);
	} else {
		remote_profile_answer(daemon, request, reply);
	}
}

int daemon_listen(struct daemon *daemon, const char *address)
{
	return http_open(&daemon->http, address, answer, daemon);
}
