// SPDX-License-Identifier: Apache-2.0
/* bpfprof memory: which functions hold the resident memory of running processes. */
#include "memory/monitor.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/print.h"
#include "base/signals.h"
#include "base/time.h"
#include "capture/memory_limit.h"
#include "capture/memory_watch.h"
#include "capture/pod_processes.h"
#include "capture/sampler.h"
#include "cmd/child_command.h"
#include "cmd/command.h"
#include "cmd/memory_screen.h"
#include "cmd/output_files.h"
#include "findings/findings.h"
#include "formats/output.h"
#include "memory/allocations.h"
#include "memory/growth.h"
#include "memory/history.h"
#include "memory/table.h"
#include "options/memory_options.h"
#include "proc/pids.h"
#include "proc/self.h"
#include "profile/aggregate.h"
#include "profile/aggregate_stats.h"
#include "profile/profile.h"
#include "profile/stats.h"

#define AGGREGATE_BYTES (12U << 20)
#define ALLOCATIONS_BYTES                                                                          \
	(8U << 20) /* the same with --allocations, whose blocks and results need more */
#define AGGREGATE_MIN_BYTES (4U << 20) /* also if everything else takes the budget */
#define MEMORY_SPARE (7U << 20) /* for growth between two polls, and at the end */
#define TEXT_MAX (4U << 20)
#define TICK_NS NS_PER_SECOND

struct memory_job {
	const struct memory_options *options;
	struct capture_options capture;
	struct sampler sampler;
	struct memory_monitor monitor;
	struct allocations allocations; /* with --allocations, instead of the monitor */
	struct child_command command;
	struct memory_watch watch;
	bool with_screen;
	struct memory_screen screen;
	uint64_t start_ns, end_ns, start_wall_ns;
	struct run_stats stats;
	struct findings findings;
};

static int expand(struct buf *dst, const struct memory_job *job, const char *pattern)
{
	const struct output_names names =
		output_files_names(&job->options->record, job->start_wall_ns);

	return output_expand_path(dst, pattern, &names);
}

static int check_one(const struct memory_job *job, const char *pattern)
{
	__cleanup(buf_fini) struct buf path = { .max = PATH_MAX };
	int err = expand(&path, job, pattern);

	if (!err)
		err = output_check(path.data);
	if (err)
		output_files_report(pattern, path.data, err);
	return err ? EXIT_FAILED : EXIT_DONE;
}

static int check_outputs(const struct memory_job *job)
{
	const struct record_options *record = &job->options->record;
	int status = EXIT_DONE;
	size_t i;

	for (i = 0; i < record->nr_outputs && !status; i++)
		status = check_one(job, record->outputs[i].path);
	return !status && record->stats_path ? check_one(job, record->stats_path) : status;
}

/* Takes signals and keys. True: it is the end. */
static bool take_input(struct memory_job *job, const struct pollfd *signals,
		       const struct pollfd *terminal)
{
	int signal = 0;

	while (signals->revents && (signal = signals_next(signals->fd))) {
		if (signal != SIGWINCH)
			return true;
		memory_screen_resize(&job->screen);
	}
	if (!terminal)
		return false;
	/* Anything else: the terminal is closed. */
	return terminal->revents & ~POLLIN ||
	       (terminal->revents && memory_screen_keys(&job->screen));
}

static struct aggregate *aggregate_of(const struct memory_job *job)
{
	return job->options->allocations ? job->allocations.aggregate : job->monitor.aggregate;
}

/* Runs until the duration is over, a signal arrives, or all targets have ended. */
static void loop(struct memory_job *job, int signal_fd)
{
	uint64_t duration_ns = job->options->record.duration_ns;
	uint64_t end_ns = duration_ns ? job->start_ns + duration_ns : UINT64_MAX;
	uint64_t now_ns = job->start_ns, tick_ns = now_ns + TICK_NS;
	struct pollfd fds[] = { { .fd = sampler_fd(&job->sampler), .events = POLLIN },
				{ .fd = signal_fd, .events = POLLIN },
				{ .fd = STDIN_FILENO, .events = POLLIN } };
	nfds_t nr = job->screen.open ? 3 : 2;
	int wait_ms;

	while (now_ns < end_ns) {
		wait_ms = sampler_run(&job->sampler);
		if (job->options->allocations && wait_ms > ALLOCATIONS_TICK_MS)
			wait_ms = ALLOCATIONS_TICK_MS;
		if (child_command_reap(&job->command))
			return;
		if (job->options->allocations)
			allocations_run(&job->allocations, now_ns);
		else
			memory_monitor_run(&job->monitor, now_ns);
		if (!memory_watch_poll(&job->watch, aggregate_unused_bytes(aggregate_of(job)),
				       now_ns))
			aggregate_freeze(aggregate_of(job), AGGREGATE_MIN_BYTES);
		now_ns = time_monotonic_ns();
		if (memory_screen_run(&job->screen, now_ns))
			log_debug("memory: no room for the screen");
		if (now_ns >= tick_ns) {
			tick_ns = now_ns + TICK_NS;
			if (sampler_targets_ended(&job->sampler)) {
				log_info("all watched processes have exited");
				return;
			}
		}
		sampler_poll(&job->sampler, fds, nr, time_poll_ms(now_ns, end_ns, wait_ms));
		if (take_input(job, &fds[1], nr == 3 ? &fds[2] : NULL))
			return;
		now_ns = time_monotonic_ns();
	}
}

static int write_stats(const struct memory_job *job)
{
	const char *pattern = job->options->record.stats_path;
	__cleanup(buf_fini) struct buf json = { .max = TEXT_MAX }, path = { .max = PATH_MAX };
	int err;

	if (!pattern)
		return 0;
	stats_json(&json, &job->stats);
	findings_json(&json, &job->findings);
	buf_add_char(&json, '\n');
	err = buf_error(&json) ?: expand(&path, job, pattern);
	if (!err)
		err = output_write_bytes(path.data, json.data, json.len);
	return err ? output_files_report(pattern, path.data, err) : 0;
}

static int write_files(const struct memory_job *job, const struct profile *profile)
{
	const struct record_options *record = &job->options->record;
	const struct output_options options = { .native = true,
						.several = output_files_several(profile) };
	int err, failed = 0;
	size_t i;

	for (i = 0; i < record->nr_outputs; i++) {
		__cleanup(buf_fini) struct buf path = { .max = PATH_MAX };

		err = expand(&path, job, record->outputs[i].path);
		if (!err)
			err = output_write(path.data, record->outputs[i].format, profile, &options);
		failed |= output_files_report(record->outputs[i].path, path.data, err) != 0;
	}
	failed |= write_stats(job) != 0;
	return failed ? EXIT_FAILED : EXIT_DONE;
}

/* Prints the table: to standard output unless a result goes there. */
static int print_table(const struct memory_job *job, const struct profile *profile)
{
	const struct record_options *record = &job->options->record;
	FILE *out = output_files_have_standard(record) ||
				    (record->stats_path && !strcmp(record->stats_path, "-"))
			    ? stderr
			    : stdout;
	__cleanup(buf_fini) struct buf text = { .max = TEXT_MAX };
	size_t rows = job->options->rows;
	int err = job->options->allocations
			  ? allocations_table(&text, &job->allocations, profile, rows)
			  : memory_table(&text, &job->monitor, profile, rows);

	stats_text(&text, &job->stats, log_get_level() >= LOG_DEBUG);
	err = err ?: buf_error(&text);
	return err ?: print_lines(out, text.data, text.len);
}

/* The last look. 0 or -errno. */
static int watch_finish(struct memory_job *job)
{
	int err;

	if (!job->options->allocations) {
		err = memory_monitor_finish(&job->monitor);
		memory_monitor_stats(&job->monitor, &job->stats.memory);
		return err;
	}
	err = allocations_finish(&job->allocations);
	allocations_stats(&job->allocations, &job->stats.memory);
	return err;
}

static int finish(struct memory_job *job)
{
	struct profile profile = { 0 };
	struct aggregate_view view;
	int err, hidden = 0, status;

	err = watch_finish(job);
	job->end_ns = time_monotonic_ns();
	sampler_stop(&job->sampler);
	sampler_run_stats(&job->sampler, &job->stats);
	if (!err)
		err = sampler_profile(&job->sampler, aggregate_of(job), false, &profile,
				      &job->stats.files, &hidden);
	if (!err && job->options->allocations)
		err = allocations_values(&job->allocations, &profile);
	if (err) {
		log_error("%s", strerror(-err));
		return EXIT_FAILED;
	}
	sampler_image_stats(&job->sampler, &job->stats);
	sampler_own_usage(&job->sampler, &job->stats);
	aggregate_view_get(aggregate_of(job), &view);
	aggregate_stats(&job->stats, &view);
	job->stats.start_ns = job->start_wall_ns;
	job->stats.start_at_ns = job->capture.start_at_ns;
	job->stats.duration_seconds = (double)(job->end_ns - job->start_ns) / 1e9;
	memory_profile_values(&profile);
	memory_history_make(&job->monitor, &profile);
	profile_count_nameless(&profile, &job->stats.walk);
	profile.time_ns = job->start_wall_ns;
	profile.duration_ns = job->end_ns - job->start_ns;
	profile.stats = &job->stats;
	err = print_table(job, &profile);
	if (!err)
		err = memory_findings(&job->findings, &job->monitor, &profile);
	findings_report(&job->findings);
	if (err)
		log_error("the table cannot be written: %s", strerror(-err));
	status = write_files(job, &profile);
	profile_fini(&profile);
	return err ? EXIT_FAILED : status;
}

/* An exit status. */
static int watch_start(struct memory_job *job, int signal_fd)
{
	const struct memory_options *options = job->options;
	int status = options->allocations ? allocations_open(&job->allocations, &job->sampler,
							     options, ALLOCATIONS_BYTES)
					  : memory_monitor_open(&job->monitor, &job->sampler,
								options, AGGREGATE_BYTES);

	if (!status)
		status = sampler_await_start(&job->sampler, signal_fd);
	if (!status)
		status = sampler_start(&job->sampler);
	if (status)
		return status;
	return options->allocations ? allocations_start(&job->allocations)
				    : memory_monitor_start(&job->monitor);
}

static int run(struct memory_job *job, int signal_fd)
{
	struct self_usage self;
	int status = sampler_open(&job->sampler, &job->capture);

	if (!status)
		status = watch_start(job, signal_fd);
	if (status)
		return status;
	job->start_ns = time_monotonic_ns();
	job->start_wall_ns = time_wall_ns();
	if (!self_usage_read(&self)) {
		job->stats.startup_seconds =
			self.age_seconds - (double)job->sampler.waited_ns / 1e9;
		memory_watch_begin(&job->watch, &job->sampler,
				   memory_budget(libbpf_num_possible_cpus()) - MEMORY_SPARE, &self);
	}
	status = child_command_release(&job->command);
	if (status)
		return status;
	sampler_report_ready(&job->sampler);
	if (job->with_screen && memory_screen_open(&job->screen, &job->monitor, &job->capture))
		log_error("no memory for the live screen");
	loop(job, signal_fd);
	memory_screen_close(&job->screen);
	return child_command_status(&job->command, finish(job));
}

static void capture_fill(struct memory_job *job)
{
	struct capture_options *capture = &job->capture;

	capture->session.hz = RECORD_HZ_DEFAULT; /* no clock runs */
	capture->session.no_clock = true;
	capture->session.pages = !job->options->allocations;
	capture->session.allocations = job->options->allocations;
	/* A child is hooked when it is seen. */
	capture->session.fork_wakes = job->options->allocations;
	capture->report_workers = !job->with_screen;
	capture->child = job->command.pid;
}

static int run_with(struct memory_job *job)
{
	char **words = job->options->record.command;
	__cleanup(close_fd) int signal_fd = -1;
	sigset_t old_signals;
	int err, status;

	signal_fd = job->with_screen
			    ? signals_open((const int[]){ SIGINT, SIGTERM, SIGHUP, SIGQUIT,
							  SIGWINCH, 0 },
					   &old_signals)
			    : signals_open((const int[]){ SIGINT, SIGTERM, 0 }, &old_signals);
	err = signal_fd < 0 ? signal_fd : 0;
	if (!err && job->capture.end_with_stdin)
		err = signals_follow_stdin();
	if (!err && words)
		err = child_command_fork(&job->command, words, &old_signals);
	if (err) {
		log_error("%s", strerror(-err));
		return EXIT_FAILED;
	}
	capture_fill(job);
	status = run(job, signal_fd);
	child_command_close(&job->command);
	if (job->options->allocations)
		allocations_close(&job->allocations);
	else
		memory_monitor_close(&job->monitor);
	sampler_close(&job->sampler);
	return status;
}

int memory_run(const struct memory_options *options)
{
	struct memory_job job = { .options = options };
	struct pids pod_pids = { 0 };
	int status = sampler_check();

	job.capture = options->record.capture;
	job.with_screen = memory_screen_is_wanted(options);
	if (!status && options->allocations)
		status = allocations_check();
	if (!status)
		status = check_outputs(&job);
	/* With only --pod the processes are looked for here: those that sleep would never be seen. */
	if (!status)
		status = job.capture.nr_comms || job.capture.nr_workers
				 ? pod_processes_resolve(&pod_pids, &job.capture)
				 : pod_processes_resolve_all(&pod_pids, &job.capture);
	if (!status && options->record.capture.nr_pids)
		status = sampler_check_targets(job.capture.pids, job.capture.nr_pids);
	if (!status)
		status = run_with(&job);
	pids_fini(&pod_pids);
	return status;
}
