// SPDX-License-Identifier: Apache-2.0
/* bpfprof record: samples for a while, then writes files. */
#include <errno.h>
#include <fnmatch.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/time.h"
#include "capture/memory_limit.h"
#include "capture/pod_processes.h"
#include "capture/worker_processes.h"
#include "capture/worker_steps.h"
#include "cmd/command.h"
#include "cmd/gpu_memory_moments.h"
#include "cmd/gpu_steps.h"
#include "cmd/record_timeline.h"
#include "cmd/recording.h"
#include "findings/record_findings.h"
#include "gpu/waits.h"
#include "kernel/session.h"
#include "kernel/waits.h"
#include "memory/history.h"
#include "options/options.h"
#include "proc/images.h"
#include "proc/pids.h"
#include "proc/self.h"
#include "proc/usage.h"
#include "profile/aggregate.h"
#include "profile/grouping.h"
#include "profile/idle.h"
#include "profile/ray_calls.h"
#include "profile/thread_times.h"

#define AGGREGATE_BYTES (12U << 20)
#define AGGREGATE_MIN_BYTES (4U << 20) /* also if everything else takes the budget */
#define CALLS_BYTES (4U << 20) /* for the stacks of calls */
#define CALLS_MIN_BYTES (1U << 20)
/* Part of the budget for growth between two polls, and at the end. */
#define MEMORY_SPARE (7U << 20)
#define TICK_NS NS_PER_SECOND
#define MESSAGE_MAX 1024

static void on_sample(struct recording *rec, const struct aggregate_input *input)
{
	if (!(input->sample->flags & BPFPROF_SAMPLE_WAIT)) /* findings are about time on a CPU */
		record_findings_sample(rec->findings, input);
	recording_see(rec, input->sample->task.pid, input->own_pid, input->sample->task.start_ns);
	if (rec->times)
		thread_times_add(rec->times, input);
	else
		aggregate_add(rec->aggregate, input);
}

/* Notes a process that slept all the time: it has no sample. */
static bool on_waiting(void *arg, const struct aggregate_input *input)
{
	struct recording *rec = arg;

	recording_see(rec, input->sample->task.pid, input->own_pid, input->sample->task.start_ns);
	return true;
}

static void on_exit_event(struct recording *rec, const struct bpfprof_task_id *task,
			  const struct process_end *end)
{
	record_findings_exit(rec->findings, task, end->ts_ns);
	record_timeline_exit(rec->timeline, task, end->ts_ns);
	aggregate_exit(rec->aggregate, task, end->cpu_ns);
}

static void on_event(void *arg, const struct event *event)
{
	struct recording *rec = arg;

	switch (event->kind) {
	case EVENT_SAMPLE:
		on_sample(rec, event->input);
		break;
	case EVENT_THREAD_END:
		thread_times_end(rec->times, event->input, event->rest);
		break;
	case EVENT_TASKS:
		recording_tasks(rec, event->input, event->task_time);
		break;
	case EVENT_EXIT:
		on_exit_event(rec, event->task, event->end);
		break;
	case EVENT_FORGET:
		record_findings_forget(rec->findings, event->task);
		*event->nr_forgotten += aggregate_forget(rec->aggregate, event->task);
		break;
	case EVENT_TITLE:
		record_findings_title(rec->findings, event->title);
		record_timeline_title(rec->timeline, event->title);
		break;
	default:
		break;
	}
}

static void choose_calls(void *arg, struct gpu_snapshot *snapshot)
{
	const struct recording *rec = arg;

	gpu_steps_choose(&rec->watch, &rec->options->capture.steps, snapshot);
}

static void say_targets_ended(const struct recording *rec)
{
	const struct record_options *options = rec->options;
	double seconds = (double)(time_monotonic_ns() - rec->start_mono_ns) / 1e9;

	if (options->capture.nr_pids == 1)
		log_info("pid %d has exited, after %.1f s", options->capture.pids[0], seconds);
	else
		log_info("all %zu processes have exited, after %.1f s", options->capture.nr_pids,
			 seconds);
}

/* Keeps to the memory budget: takes no new stacks if nothing else helps. */
static void memory_poll(struct recording *rec, uint64_t now_ns)
{
	if (memory_watch_poll(&rec->memory, aggregate_unused_bytes(rec->aggregate), now_ns))
		return;
	aggregate_freeze(rec->aggregate, AGGREGATE_MIN_BYTES);
	if (rec->options->capture.session.gpu)
		aggregate_freeze(rec->watch.aggregate, CALLS_MIN_BYTES);
}

/* Runs until the duration is over, a signal arrives, or all targets have ended. */
static void loop(struct recording *rec, int signal_fd)
{
	uint64_t end_ns = rec->options->duration_ns ? rec->start_mono_ns + rec->options->duration_ns
						    : UINT64_MAX;
	uint64_t now_ns = rec->start_mono_ns, tick_ns = now_ns + TICK_NS;
	struct pollfd fds[] = { { .fd = sampler_fd(&rec->sampler), .events = POLLIN },
				{ .fd = signal_fd, .events = POLLIN } };
	int wait_ms;

	while (now_ns < end_ns) {
		wait_ms = sampler_run(&rec->sampler);
		if (child_command_reap(&rec->command) ||
		    (rec->sampler.steps && worker_steps_through(rec->sampler.steps)))
			break;
		now_ns = time_monotonic_ns();
		if (rec->options->capture.session.gpu && gpu_monitor_run(&rec->watch, now_ns))
			wait_ms = 0;
		if (rec->options->capture.session.pages)
			memory_monitor_run(&rec->pages, now_ns);
		record_findings_tick(rec->findings, now_ns);
		memory_poll(rec, now_ns);
		if (now_ns >= tick_ns) {
			tick_ns = now_ns + TICK_NS;
			if (rec->options->capture.session.gpu)
				gpu_monitor_log_new(&rec->watch);
			if (sampler_targets_ended(&rec->sampler)) {
				say_targets_ended(rec);
				break;
			}
		}
		if (rec->options->capture.session.gpu && rec->sampler.steps &&
		    wait_ms > GPU_STEPS_MS)
			wait_ms = GPU_STEPS_MS;
		sampler_poll(&rec->sampler, fds, 2, time_poll_ms(now_ns, end_ns, wait_ms));
		if (fds[1].revents && signals_next(signal_fd))
			break;
		now_ns = time_monotonic_ns();
	}
}

struct search {
	const struct record_options *options;
	pid_t found;
};

static int has_comm(void *arg, pid_t pid, const struct proc_usage *usage)
{
	struct search *search = arg;
	size_t i;

	for (i = 0; i < search->options->capture.nr_comms && !search->found; i++)
		if (!fnmatch(search->options->capture.comms[i], usage->comm, 0))
			search->found = pid;
	return 0;
}

/* Explains that no sample matched --comm or --worker. */
static void say_no_name(struct recording *rec)
{
	const struct record_options *options = rec->options;
	struct search search = { .options = options };
	struct pids workers = { 0 };

	if (options->capture.nr_comms)
		pids_each(has_comm, &search);
	if (options->capture.nr_workers &&
	    !worker_processes_find(&workers, rec->sampler.reader.runner, options->capture.workers,
				   options->capture.nr_workers) &&
	    workers.nr)
		search.found = workers.list[0];
	if (search.found)
		log_info("a process that matches did not run on a CPU in that time%s: bpfprof "
			 "dump -p %d shows where it waits",
			 container_filter_is_set(&options->capture.containers)
				 ? ", or is outside of --pod or --container"
				 : "",
			 search.found);
	else
		log_info("no process matched %s in that time",
			 !options->capture.nr_workers ? "--comm"
			 : options->capture.nr_comms  ? "--comm or --worker"
						      : "--worker");
	pids_fini(&workers);
}

/* Explains why no sample passed the filters: no process matches, or the matching ones sleep. */
static void say_nothing_matched(struct recording *rec)
{
	const struct container_filter *filter = &rec->options->capture.containers;
	__cleanup(buf_fini) struct buf text = { .max = MESSAGE_MAX };
	struct pids found;

	if (rec->sampler.steps && worker_steps_found(rec->sampler.steps))
		log_info("no step has a sample: the steps were short or waited; a higher -F takes "
			 "more");
	else if (rec->options->capture.nr_comms || rec->options->capture.nr_workers)
		say_no_name(rec);
	if (!container_filter_is_set(filter))
		return;
	container_filter_text(&text, filter);
	if (buf_error(&text) ||
	    pod_processes_find(&found, rec->sampler.reader.containers, filter, NULL, 0))
		return;
	log_info("%s: %s", text.data,
		 found.nr ? "no process that lives there ran on a CPU in that time"
			  : "no process on this node lives there");
	pids_fini(&found);
}

/* Finishes the profile of the calls and their counters. 0 or -errno, which is reported. */
static int calls_finish(struct recording *rec, struct gpu_monitor_profile *calls)
{
	struct memory_moments moments = { 0 };
	int err;

	if (rec->gpu_memory)
		gpu_memory_moments_fill(&moments, &rec->watch, rec->gpu_memory, rec->start_mono_ns,
					rec->end_mono_ns, &rec->stats.gpu_lost);
	err = gpu_monitor_finish(&rec->watch, calls, &rec->stats);
	if (!err)
		memory_moments_history(&moments, "GPU memory", "calls", &calls->profile);
	memory_moments_fini(&moments);
	if (!err)
		err = profile_group(&calls->profile, rec->options->by);
	if (err)
		log_error("the profile of calls cannot be made: %s", strerror(-err));
	calls->profile.time_ns = rec->start_wall_ns;
	calls->profile.duration_ns = rec->end_mono_ns - rec->start_mono_ns;
	calls->stats.duration_seconds = rec->stats.duration_seconds;
	calls->profile.threads = rec->options->threads;
	return err;
}

/* Folds the stacks of idle threads. */
static int idle_fold(struct recording *rec, struct profile *profile)
{
	if (rec->options->capture.session.waits == SESSION_NO_WAITS || rec->options->parked)
		return 0;
	return profile_fold_idle_counted(profile, &rec->stats.waits);
}

static int profile_finish(struct recording *rec, const struct profile *calls)
{
	struct profile profile = { 0 }, memory = { 0 };
	struct aggregate_view view;
	int err, hidden = 0, status;

	err = sampler_profile(&rec->sampler, rec->aggregate, false, &profile, &rec->stats.files,
			      &hidden);
	if (err) {
		log_error("symbols: %s", strerror(-err));
		return EXIT_FAILED;
	}
	if (hidden)
		sampler_warn_kernel_names();
	recording_usage(rec, &profile);
	sampler_image_stats(&rec->sampler, &rec->stats);
	sampler_own_usage(&rec->sampler, &rec->stats);
	if (ray_calls_name(&profile, &rec->stats.walk) ||
	    profile_group(&profile, rec->options->by) || idle_fold(rec, &profile) ||
	    recording_py_spy(rec, &profile)) {
		log_error("out of memory");
		profile_fini(&profile);
		return EXIT_FAILED;
	}
	profile_count_nameless(&profile, &rec->stats.walk);
	profile.time_ns = rec->start_wall_ns;
	profile.duration_ns = rec->end_mono_ns - rec->start_mono_ns;
	profile.threads = rec->options->threads;
	profile.stats = &rec->stats;
	aggregate_view_get(rec->aggregate, &view);
	if (rec->sampler.steps)
		worker_steps_report(rec->sampler.steps);
	if (!view.counts.nr_taken)
		say_nothing_matched(rec);
	record_findings_waits(rec->findings, &profile);
	record_findings_make(rec->findings, profile.duration_ns);
	err = recording_memory_profile(rec, &memory);
	status = recording_write(rec, &profile, calls,
				 rec->options->capture.session.pages && !err ? &memory : NULL);
	record_findings_report(rec->findings);
	profile_fini(&profile);
	profile_fini(&memory);
	return err ? EXIT_FAILED : status;
}

/* Opens the probes of calls, limited to --steps. Returns an exit status. */
static int calls_open(struct recording *rec)
{
	struct worker_steps *steps = rec->sampler.steps;
	int status =
		gpu_monitor_open(&rec->watch, &rec->sampler, rec->options->threads, CALLS_BYTES);
	int err;

	if (status)
		return status;
	if (rec->options->html) {
		if (gpu_memory_log_new(&rec->gpu_memory))
			return EXIT_FAILED;
		call_table_log_memory(rec->watch.table, rec->gpu_memory);
	}
	gpu_waits_no_rows(rec->watch.waits, 1);
	rec->watch.choose = choose_calls;
	rec->watch.arg = rec;
	if (rec->options->capture.session.gpu_windows)
		worker_steps_windows(steps, rec->watch.probes);
	if (steps)
		worker_steps_from(steps, UINT64_MAX);
	err = gpu_steps_begin(&rec->watch, &rec->options->capture.steps);
	if (err)
		log_error("--steps: %s", strerror(-err));
	return err ? EXIT_FAILED : EXIT_DONE;
}

static void calls_close(struct recording *rec)
{
	if (rec->options->capture.session.gpu && rec->sampler.steps) {
		worker_steps_windows(rec->sampler.steps, NULL);
		worker_steps_notify(rec->sampler.steps, NULL, NULL);
	}
	gpu_monitor_close(&rec->watch);
	gpu_memory_log_free(rec->gpu_memory);
	rec->gpu_memory = NULL;
}

/* Is there a program that can make windows of the profiler? */
static bool knows_driver(const struct recording *rec)
{
	const struct image *image;
	const char *base;
	uint32_t i;

	for (i = 0; i < images_count(rec->sampler.reader.images); i++) {
		image = images_get(rec->sampler.reader.images, i);
		base = image && image->path ? strrchr(image->path, '/') : NULL;
		if (base && !strncmp(base, "/libcuda.so", strlen("/libcuda.so")))
			return true;
	}
	return false;
}

static int finish(struct recording *rec)
{
	struct gpu_monitor_profile calls = { 0 };
	int err = 0, status;

	recording_stats(rec);
	if (rec->options->capture.session.gpu) {
		gpu_monitor_log_new(&rec->watch);
		err = calls_finish(rec, &calls);
	}
	calls_close(rec);
	if (rec->options->capture.steps.stop && rec->options->capture.steps.kind != STEPS_CALLS &&
	    !rec->options->capture.session.gpu_windows && knows_driver(rec))
		log_warn("windows of the profiler (cudaProfilerStart) cannot be seen without Linux "
			 "6.6 or newer, or CAP_SYS_ADMIN; calls are the steps");
	sampler_let_go(&rec->sampler);
	status = profile_finish(rec,
				rec->options->capture.session.gpu && !err ? &calls.profile : NULL);
	profile_fini(&calls.profile);
	return err ? EXIT_FAILED : status;
}

static void teardown(struct recording *rec)
{
	child_command_close(&rec->command);
	calls_close(rec);
	memory_monitor_close(&rec->pages);
	record_findings_free(rec->findings);
	record_timeline_free(rec->timeline);
	sampler_close(&rec->sampler);
	thread_times_free(rec->times);
	aggregate_free(rec->aggregate);
	recording_forget(rec);
}

static int start(struct recording *rec, int signal_fd)
{
	struct self_usage self;
	int status = sampler_await_start(&rec->sampler, signal_fd);

	if (!status)
		status = sampler_start(&rec->sampler);
	if (status)
		return status;
	rec->start_mono_ns = time_monotonic_ns();
	rec->start_wall_ns = time_wall_ns();
	if (rec->sampler.waits) { /* the profile has every thread's time from here on */
		rec->start_wall_ns -= rec->start_mono_ns - waits_start_ns(rec->sampler.waits);
		rec->start_mono_ns = waits_start_ns(rec->sampler.waits);
	}
	if (!self_usage_read(&self)) {
		rec->stats.startup_seconds =
			self.age_seconds - (double)rec->sampler.waited_ns / 1e9;
		memory_watch_begin(&rec->memory, &rec->sampler,
				   memory_budget(libbpf_num_possible_cpus()) - MEMORY_SPARE, &self);
	}
	if (rec->options->capture.session.gpu) {
		gpu_monitor_start(&rec->watch);
		if (rec->sampler.steps) /* a call that began before the hooks is no step */
			worker_steps_from(rec->sampler.steps, time_monotonic_ns());
		gpu_monitor_log(&rec->watch);
	}
	status = recording_timeline_start(rec);
	if (!status)
		status = recording_memory_start(rec);
	if (!status)
		status = child_command_release(&rec->command);
	if (!status)
		sampler_report_ready(&rec->sampler);
	return status;
}

/* Do filters read facts that only samples have? */
static bool samples_are_chosen(const struct record_options *options)
{
	return options->capture.nr_comms || options->capture.nr_workers ||
	       container_filter_is_set(&options->capture.containers);
}

static int run(struct recording *rec, int signal_fd)
{
	struct sampler_rotate rotate = { .wants = on_waiting, .arg = rec };
	int status, err;

	err = aggregate_new(&rec->aggregate, rec->options->threads, AGGREGATE_BYTES);
	if (!err && rec->options->capture.steps.stop)
		aggregate_may_forget(rec->aggregate);
	if (!err && rec->options->capture.session.waits != SESSION_NO_WAITS)
		err = thread_times_new(&rec->times, rec->aggregate, 0);
	if (err) {
		log_error("%s", strerror(-err));
		return EXIT_FAILED;
	}
	status = sampler_open(&rec->sampler, &rec->options->capture);
	sampler_observe(&rec->sampler, on_event, rec);
	if (!status && rec->options->capture.session.gpu)
		status = calls_open(rec);
	if (!status)
		status = recording_memory_open(rec);
	if (!status && rec->options->findings &&
	    record_findings_new(&rec->findings, &rec->sampler, rec->options->capture.host_root,
				samples_are_chosen(rec->options), !rec->options->trace)) {
		log_error("out of memory");
		status = EXIT_FAILED;
	}
	if (!status)
		status = start(rec, signal_fd);
	if (status)
		return status;
	if (isatty(STDERR_FILENO))
		log_info("sampling at %u Hz%s", rec->options->capture.session.hz,
			 rec->options->duration_ns ? "" : ", Ctrl-C ends it and writes");
	loop(rec, signal_fd);
	rec->end_mono_ns = time_monotonic_ns();
	sampler_stop_clock(&rec->sampler);
	rotate.times = rec->times;
	if (rec->times)
		sampler_waits_end(&rec->sampler, &rotate);
	recording_memory_end(rec);
	sampler_stop(&rec->sampler);
	if (record_timeline_finish(rec->timeline, rec->end_mono_ns))
		log_error("the timeline cannot be sorted: no memory or disk space");
	if (rec->sampler.waits)
		rec->end_mono_ns = waits_end_ns(rec->sampler.waits);
	record_findings_end(rec->findings, rec->end_mono_ns);
	return child_command_status(&rec->command, finish(rec));
}

/* Sets the options of the sampler that no flag sets. */
static void capture_complete(struct record_options *options)
{
	struct capture_options *capture = &options->capture;
	struct session_options *session = &capture->session;

	capture->report_workers = true;
	session->titles = options->findings || options->trace;
	session->gpu_waits = session->gpu;
	session->gpu_windows =
		capture->steps.stop && capture->steps.kind != STEPS_CALLS && gpu_monitor_may_hook();
}

static int run_with(struct record_options *options)
{
	struct recording rec = { .options = options };
	__cleanup(close_fd) int signal_fd = -1;
	sigset_t old_signals;
	int status, err;

	hash_table_init(&rec.seen, RECORDING_MAX_SEEN, struct seen_process, key);
	status = sampler_check_targets(options->capture.pids, options->capture.nr_pids);
	if (status)
		return status;
	signal_fd = signals_open((const int[]){ SIGINT, SIGTERM, 0 }, &old_signals);
	err = signal_fd < 0 ? signal_fd : 0;
	if (!err && options->capture.end_with_stdin)
		err = signals_follow_stdin();
	/* The fork comes before the sampler: the command must not inherit its short time slice. */
	if (!err && options->command)
		err = child_command_fork(&rec.command, options->command, &old_signals);
	if (err) {
		log_error("%s", strerror(-err));
		return EXIT_FAILED;
	}
	options->capture.child = rec.command.pid;
	status = run(&rec, signal_fd);
	teardown(&rec);
	return status;
}

int record_run(const struct record_options *options)
{
	struct record_options resolved = *options;
	struct pids processes = { 0 };
	int status;

	status = sampler_check();
	if (!status && options->capture.session.gpu)
		status = gpu_monitor_check();
	if (!status && options->capture.steps.kind == STEPS_WINDOWS && !gpu_monitor_may_hook()) {
		log_error("--steps windows: windows cannot be seen: this kernel lacks uprobe_multi "
			  "links, and refuses perf's uprobes; remedy: Linux 6.6 or newer, or "
			  "CAP_SYS_ADMIN");
		status = EXIT_PRIVILEGE;
	}
	if (!status)
		status = recording_check_outputs(options);
	if (!status)
		status = pod_processes_resolve(&processes, &resolved.capture);
	if (!status) {
		capture_complete(&resolved);
		status = run_with(&resolved);
	}
	pids_fini(&processes);
	return status;
}
