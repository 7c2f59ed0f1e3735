// SPDX-License-Identifier: Apache-2.0
/* bpfprof gpu: CUDA and NCCL calls of running programs. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/print.h"
#include "base/signals.h"
#include "base/time.h"
#include "capture/pod_processes.h"
#include "cmd/command.h"
#include "cmd/gpu_parts.h"
#include "cmd/gpu_screen.h"
#include "cmd/gpu_steps.h"
#include "cmd/gpu_workers.h"
#include "cmd/output_files.h"
#include "gpu/absent_ranks.h"
#include "gpu/gap_sampler.h"
#include "gpu/inflight.h"
#include "gpu/job.h"
#include "gpu/launch_library.h"
#include "gpu/memory_log.h"
#include "gpu/trace.h"
#include "kernel/probes/gpu_probes.h"
#include "kernel/probes/uprobe_multi.h"
#include "options/gpu_options.h"
#include "proc/pids.h"
#include "tui/screen.h"

#define AGGREGATE_BYTES (16U << 20)
#define TEXT_MAX (16U << 20)
#define NAMES_LIVE_NS (50 * 1000000ULL) /* in each second */
#define NAMES_END_NS (2 * NS_PER_SECOND)
#define TICK_NS NS_PER_SECOND
#define COLUMNS_DEFAULT 160 /* for output to a file or a pipe */

static void on_event(void *arg, const struct event *event)
{
	struct gpu_job *job = arg;

	switch (event->kind) {
	case EVENT_EXIT:
		gpu_trace_on_exit(job, event->task);
		break;
	case EVENT_TRACED_CALL:
		gpu_trace_on_call(job, event->traced_call);
		break;
	case EVENT_TITLE:
		gpu_trace_on_title(job, event->title);
		break;
	default: /* gaps_alone: there are no samples */
		break;
	}
}

static void on_end(void *arg, const struct bpfprof_task_id *task)
{
	gpu_trace_on_end(arg, task);
}

static void choose(void *arg, struct gpu_snapshot *snapshot)
{
	const struct gpu_job *job = arg;

	gpu_steps_choose(&job->watch, &job->options->record.capture.steps, snapshot);
}

static size_t columns_of_stdout(void)
{
	struct winsize size = { 0 };

	return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_col ? COLUMNS_DEFAULT
								       : size.ws_col;
}

static int show(struct gpu_job *job, struct gpu_screen *screen, struct gpu_snapshot *snapshot)
{
	int err = gpu_snapshot_take(snapshot, &job->watch);

	gpu_inflight_poll(job->inflight, snapshot, false);
	if (err)
		return err;
	gpu_names_find(&job->watch, snapshot, NAMES_LIVE_NS);
	return gpu_screen_show(screen, job, snapshot);
}

static void say_widened(struct gpu_job *job)
{
	if (!job->scoped || gpu_probes_are_scoped(job->watch.probes))
		return;
	job->scoped = false;
	log_info("the hooks now cover all processes, as too many are watched or one of them has "
		 "children: from now on the calls of all processes on this machine are slowed down "
		 "a "
		 "little");
}

/* Does one of the signals end the command? The other signals report a new size of the terminal. */
static bool signals_take(int fd, bool *resized)
{
	bool end = false;
	int signal;

	while ((signal = signals_next(fd))) {
		if (signal == SIGWINCH)
			*resized = true;
		else
			end = true;
	}
	return end;
}

/* Handles signals and keys. *end: the command ends. 0 or -errno. */
static int react(struct gpu_job *job, struct gpu_screen *screen,
		 const struct gpu_snapshot *snapshot, const struct pollfd *signals,
		 const struct pollfd *keys, bool *end)
{
	enum gpu_screen_result result = GPU_SCREEN_NOTHING;
	bool resized = false;

	if (signals->revents)
		*end = signals_take(signals->fd, &resized);
	if (!screen || *end)
		return 0;
	if (resized)
		screen_resize();
	if (keys->revents & POLLIN)
		result = gpu_screen_keys(screen);
	else if (keys->revents) /* the terminal is closed */
		result = GPU_SCREEN_QUIT;
	*end = result == GPU_SCREEN_QUIT;
	/* Without a snapshot there is nothing to draw. */
	if (!snapshot->ts_ns || (result != GPU_SCREEN_REDRAW && !resized))
		return 0;
	return gpu_screen_draw(screen, job, snapshot);
}

/*
 * Runs until the time is over, a signal or key ends the command, or the targets have exited.
 * screen: NULL is fine.
 */
static int loop(struct gpu_job *job, int signal_fd, struct gpu_screen *screen,
		struct gpu_snapshot *snapshot)
{
	uint64_t duration_ns = job->options->record.duration_ns;
	uint64_t end_ns = duration_ns ? job->start_ns + duration_ns : UINT64_MAX;
	uint64_t now_ns = job->start_ns, tick_ns = now_ns;
	struct pollfd fds[] = { { .fd = sampler_fd(&job->sampler), .events = POLLIN },
				{ .fd = signal_fd, .events = POLLIN },
				{ .fd = STDIN_FILENO, .events = POLLIN } };
	int wait_ms, sleepers_ms, err = 0;
	bool end = false;

	while (now_ns < end_ns && !err && !end) {
		wait_ms = sampler_run(&job->sampler);
		now_ns = time_monotonic_ns();
		if (gpu_monitor_run(&job->watch, now_ns))
			wait_ms = 0;
		gpu_inflight_run(job->inflight, now_ns);
		sleepers_ms = gap_sampler_run(job->gap_sampler, now_ns);
		if (wait_ms > sleepers_ms)
			wait_ms = sleepers_ms;
		if (job->options->record.capture.steps.stop && wait_ms > GPU_STEPS_MS)
			wait_ms = GPU_STEPS_MS;
		say_widened(job);
		if (now_ns >= tick_ns) {
			tick_ns = now_ns + TICK_NS;
			if (job->workers)
				err = gpu_workers_poll(job->workers, now_ns);
			if (screen && !err)
				err = show(job, screen, snapshot);
			if (sampler_targets_ended(&job->sampler)) {
				log_info("all watched processes have exited");
				break;
			}
			if (gpu_steps_through(job))
				break;
		}
		poll(fds, screen ? 3 : 2, time_poll_ms(now_ns, end_ns, wait_ms));
		if (!err)
			err = react(job, screen, snapshot, &fds[1], &fds[2], &end);
		now_ns = time_monotonic_ns();
	}
	return err;
}

static int print_text(struct gpu_job *job, const struct gpu_snapshot *snapshot)
{
	__cleanup(buf_fini) struct buf text;
	int err;

	buf_init(&text, TEXT_MAX);
	err = gpu_report_build(&text, job, snapshot,
			       &(struct gpu_report_how){ .columns = columns_of_stdout() });
	return err ? err : print_lines(stdout, text.data, text.len);
}

static int finish(struct gpu_job *job, struct gpu_snapshot *snapshot)
{
	int err, status;

	/* Records of counted calls may still be in the ring buffer. */
	sampler_run(&job->sampler);
	job->end_ns = time_monotonic_ns();
	gpu_probes_scan(job->watch.probes, job->end_ns,
			0); /* lists libraries that came too late for hooks */
	err = gpu_trace_finish(job);
	if (!err)
		err = gpu_snapshot_take(snapshot, &job->watch);
	if (!err) {
		gpu_inflight_poll(job->inflight, snapshot, true);
		gpu_names_find(&job->watch, snapshot, NAMES_END_NS);
		if (job->options->json)
			err = absent_ranks_new(&job->absent_ranks, job, snapshot);
	}
	if (!err && !output_files_have_standard(&job->options->record))
		err = print_text(job, snapshot);
	if (err)
		log_error("%s", strerror(-err));
	status = gpu_files_write(job, snapshot);
	gpu_steps_report(job);
	if (job->workers)
		gpu_workers_report(job->workers, snapshot);
	return err ? EXIT_FAILED : status;
}

static int run(struct gpu_job *job, int signal_fd)
{
	bool live = !job->options->once && isatty(STDOUT_FILENO) && isatty(STDIN_FILENO);
	struct gpu_snapshot snapshot = { 0 };
	struct gpu_screen *screen = NULL;
	int status, err;

	status = sampler_await_start(&job->sampler, signal_fd);
	if (!status)
		status = sampler_start(&job->sampler);
	if (status)
		return status;
	err = job->workers ? gpu_workers_poll(job->workers, time_monotonic_ns()) : 0;
	if (err) {
		log_error("--worker: %s", strerror(-err));
		return EXIT_FAILED;
	}
	gpu_monitor_start(&job->watch);
	job->start_ns = time_monotonic_ns();
	job->start_wall_ns = time_wall_ns();
	gpu_inflight_begin(job->inflight);
	sampler_report_ready(&job->sampler);
	if (!live)
		gpu_monitor_log(&job->watch);
	else
		err = gpu_screen_open(&screen, job->start_ns, job->options->sort);
	if (err == -ENOENT) {
		log_error("the terminal TERM=%s is not known here; bpfprof gpu --once prints one "
			  "table",
			  getenv("TERM") ? getenv("TERM") : "");
		return EXIT_FAILED;
	}
	if (!err)
		err = loop(job, signal_fd, screen, &snapshot);
	gpu_screen_close(screen);
	if (err) {
		log_error("%s", strerror(-err));
		status = EXIT_FAILED;
	} else {
		status = finish(job, &snapshot);
	}
	gpu_snapshot_fini(&snapshot);
	return status;
}

static int open_all(struct gpu_job *job)
{
	int status, err = 0;

	status = gpu_files_start(job);
	if (!status &&
	    (launch_library_new(&job->launch_library) || gpu_inflight_new(&job->inflight, job) ||
	     gap_sampler_new(&job->gap_sampler, &job->watch))) {
		log_error("%s", strerror(ENOMEM));
		status = EXIT_FAILED;
	}
	if (!status)
		status = sampler_open(&job->sampler, &job->capture);
	if (!status)
		sampler_observe(&job->sampler, on_event, job);
	if (!status)
		status = gpu_monitor_open(&job->watch, &job->sampler, job->options->record.threads,
					  AGGREGATE_BYTES);
	if (status)
		return status;
	if (job->memory_log)
		call_table_log_memory(job->watch.table, job->memory_log);
	job->watch.choose = choose;
	job->watch.ended = on_end;
	job->watch.arg = job;
	if (job->scoped)
		gpu_probes_scope(job->watch.probes, job->sampler.reader.processes);
	if (job->options->record.capture.nr_workers)
		err = gpu_workers_new(&job->workers, job);
	if (!err)
		err = gpu_steps_begin(&job->watch, &job->options->record.capture.steps);
	return err ? EXIT_FAILED : EXIT_DONE;
}

/*
 * Fills in the options of the sampler. The sampler chooses steps that are calls; probes choose
 * everything else that the user asks for.
 */
static void capture_fill(struct gpu_job *job)
{
	struct capture_options *capture = &job->capture;
	struct session_options *session = &capture->session;

	*capture = job->options->record.capture;
	session->hz = RECORD_HZ_DEFAULT;
	session->filter = capture->nr_workers;
	session->follow = capture->nr_workers && !capture->no_subprocesses;
	session->gpu = true;
	session->gpu_trace = job->options->record.trace;
	session->gpu_waits = true;
	session->gaps_alone = true;
	session->threads = true;
	session->fork_wakes = job->scoped; /* the child may need hooks */
	if (!capture->nr_workers || capture->steps.kind == STEPS_WINDOWS)
		capture->steps.stop = 0;
	if (!capture->steps.stop)
		capture->nr_workers = 0;
}

static int run_with(struct gpu_job *job)
{
	__cleanup(close_fd) int signal_fd = -1;
	int signals[] = { SIGINT, SIGTERM, SIGWINCH, SIGHUP, 0 };
	struct sigaction hangup;
	int status, err;

	if (sigaction(SIGHUP, NULL, &hangup) || hangup.sa_handler == SIG_IGN)
		signals[3] = 0; /* SIGHUP: nohup ignores it */
	signal_fd = signals_open(signals, NULL);
	err = signal_fd < 0 ? signal_fd : 0;
	if (!err && job->options->record.capture.end_with_stdin)
		err = signals_follow_stdin();
	if (err) {
		log_error("%s", strerror(-err));
		return EXIT_FAILED;
	}
	capture_fill(job);
	status = open_all(job);
	if (!status)
		status = run(job, signal_fd);
	gpu_workers_free(job->workers);
	gpu_inflight_free(job->inflight);
	gap_sampler_free(job->gap_sampler);
	absent_ranks_free(job->absent_ranks);
	gpu_monitor_close(&job->watch);
	sampler_close(&job->sampler);
	gpu_trace_free(job->trace);
	gpu_memory_log_free(job->memory_log);
	launch_library_free(job->launch_library);
	return status;
}

int gpu_run(const struct gpu_options *asked)
{
	struct gpu_options resolved = *asked;
	const struct gpu_options *options = &resolved;
	struct gpu_job job = { .options = options };
	struct pids pod_pids = { 0 };
	int status = sampler_check();

	if (!status)
		status = gpu_monitor_check();
	if (!status)
		status = pod_processes_resolve_all(&pod_pids, &resolved.record.capture);
	/* This check forks, so it runs before any thread starts. */
	job.scoped = (options->record.capture.nr_pids || options->record.capture.nr_workers) &&
		     uprobe_multi_pids_work() > 0;
	if (!status)
		status = gpu_files_check(&job);
	/* Processes that only --pod names may end at any time. */
	if (!status && asked->record.capture.nr_pids)
		status = sampler_check_targets(options->record.capture.pids,
					       options->record.capture.nr_pids);
	if (!status)
		status = run_with(&job);
	pids_fini(&pod_pids);
	return status;
}
