// SPDX-License-Identifier: Apache-2.0
/* bpfprof watch: why processes of one job die, or hang. */
#include "watch/deaths.h"
#include "watch/stalls.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/print.h"
#include "base/signals.h"
#include "base/time.h"
#include "capture/pod_processes.h"
#include "capture/sampler.h"
#include "cmd/command.h"
#include "formats/output.h"
#include "options/watch_options.h"
#include "proc/pids.h"
#include "profile/profile.h"
#include "profile/stats.h"

#define SAMPLE_HZ 19 /* for the last sample of a process whose end has no stack */
#define TEXT_MAX (1U << 20)
#define LEARN_NS (2 * NS_PER_SECOND) /* names of the processes of the machine, before the start */
#define LEARN_TURN_NS (NS_PER_SECOND / 50) /* the rest, in each turn of the loop */
#define TICK_NS (NS_PER_SECOND / 4)
#define STALL_POLL_MS 250
#define LAST_NS (NS_PER_SECOND / 2) /* the end of the last process may be on its way */

struct watch_job {
	const struct watch_options *options;
	struct capture_options capture;
	struct sampler sampler;
	struct deaths deaths;
	struct stalls stalls;
	uint64_t start_ns;
	bool failed;
};

/* A second death of that name in the same second gets a number. */
static int folder_make(struct buf *path, const struct buf *parent, const struct buf *name)
{
	int i;

	for (i = 0; i < 100; i++) {
		buf_reset(path);
		buf_printf(path, "%s/%s", parent->data, name->data);
		if (i)
			buf_printf(path, "-%d", i);
		if (buf_error(path))
			return buf_error(path);
		if (!mkdir(path->data, 0750))
			return 0;
		if (errno != EEXIST)
			return -errno;
	}
	return -EEXIST;
}

static int file_write(const struct buf *folder, const char *name, const struct profile *profile,
		      const struct buf *text)
{
	__cleanup(buf_fini) struct buf path = { .max = PATH_MAX };
	const struct output_options options = { .threads = true, .native = true };

	buf_printf(&path, "%s/%s", folder->data, name);
	if (buf_error(&path))
		return buf_error(&path);
	return text ? output_write_bytes(path.data, text->data, text->len)
		    : output_write(path.data, output_format_by_path(name), profile, &options);
}

static int death_write(const struct watch_job *job, const struct death *death,
		       const struct profile *profile, struct buf *folder)
{
	__cleanup(buf_fini) struct buf parent = { .max = PATH_MAX }, name = { .max = NAME_MAX },
				       text = { .max = TEXT_MAX };
	int err;

	buf_add_str(&parent, job->options->output ? job->options->output : ".");
	death_folder_name(&name, death, profile);
	death_summary(&text, death, profile, NULL);
	err = buf_error(&parent) ?: buf_error(&name) ?: buf_error(&text);
	if (!err)
		err = folder_make(folder, &parent, &name);
	if (!err)
		err = file_write(folder, "summary.txt", NULL, &text);
	if (!err)
		err = file_write(folder, "stacks.folded", profile, NULL);
	return err;
}

static void death_report(struct watch_job *job, const struct death *death)
{
	__cleanup(buf_fini) struct buf line = { .max = TEXT_MAX }, folder = { .max = PATH_MAX };
	struct stats_reasons files = { 0 };
	struct profile profile = { 0 };
	int hidden = 0, err;

	err = sampler_profile(&job->sampler, death->aggregate, false, &profile, &files, &hidden);
	if (!err) {
		profile.time_ns = death->wall_ns;
		death_sentence(&line, death, &profile);
		buf_add_char(&line, '\n');
		err = buf_error(&line) ?: print_lines(stdout, line.data, line.len);
	}
	if (!err)
		err = death_write(job, death, &profile, &folder);
	if (!err)
		log_info("written: %s/summary.txt", folder.data);
	else
		log_error("%s: the death of pid %u cannot be written: %s",
			  job->options->output ? job->options->output : ".", death->pid,
			  strerror(-err));
	job->failed |= err != 0;
	profile_fini(&profile);
}

static void deaths_report(struct watch_job *job)
{
	struct death *death;

	while ((death = deaths_take(&job->deaths))) {
		death_report(job, death);
		death_free(death);
	}
}

static int stall_write(const struct watch_job *job, const struct stall *stall, struct buf *folder)
{
	static const char *const names[] = { "dump-1.txt", "dump-2.txt" };
	__cleanup(buf_fini) struct buf parent = { .max = PATH_MAX }, name = { .max = NAME_MAX },
				       text = { .max = TEXT_MAX },
				       dump = { .max = STALL_DUMP_BYTES };
	uint64_t wall_ns = time_wall_ns() - (time_monotonic_ns() - stall->found_ns);
	size_t i;
	int err;

	buf_add_str(&parent, job->options->output ? job->options->output : ".");
	stall_folder_name(&name, stall, NULL, wall_ns);
	stall_summary(&text, stall, wall_ns, NULL);
	err = buf_error(&parent) ?: buf_error(&name) ?: buf_error(&text);
	if (!err)
		err = folder_make(folder, &parent, &name);
	if (!err)
		err = file_write(folder, "summary.txt", NULL, &text);
	for (i = 0; i < sizeof(names) / sizeof(names[0]) && !err; i++) {
		buf_reset(&dump);
		err = stall_dump(&dump, stall->dumps[i])
			      ?: file_write(folder, names[i], NULL, &dump);
	}
	return err;
}

/* A stall is printed, a suspicion only written. */
static void stall_report(struct watch_job *job, const struct stall *stall)
{
	__cleanup(buf_fini) struct buf line = { .max = TEXT_MAX }, folder = { .max = PATH_MAX };
	int err = 0;

	if (stall->over) {
		log_info("pid %u goes on, or has ended", stall->pid);
		return;
	}
	buf_printf(&line, "%s\n", stall->sentence);
	if (stall->verdict != WAIT_VERDICT_SUSPECT)
		err = buf_error(&line) ?: print_lines(stdout, line.data, line.len);
	if (!err)
		err = stall_write(job, stall, &folder);
	if (!err)
		log_info("written: %s/summary.txt", folder.data);
	else
		log_error("the stall of pid %u cannot be written: %s", stall->pid, strerror(-err));
	job->failed |= err != 0;
}

static void stalls_report(struct watch_job *job)
{
	struct stall stall;

	stalls_poll(&job->stalls, time_monotonic_ns());
	while (stalls_take(&job->stalls, &stall)) {
		stall_report(job, &stall);
		stall_fini(&stall);
	}
}

/* Until the duration is over, a signal arrives, or all processes of -p have ended. */
static void loop(struct watch_job *job, int signal_fd)
{
	uint64_t duration_ns = job->options->duration_ns;
	uint64_t end_ns = duration_ns ? job->start_ns + duration_ns : UINT64_MAX;
	uint64_t now_ns = job->start_ns, tick_ns = now_ns + TICK_NS;
	struct pollfd fds[] = { { .fd = sampler_fd(&job->sampler), .events = POLLIN },
				{ .fd = signal_fd, .events = POLLIN } };
	bool last = false;
	int wait_ms;

	while (now_ns < end_ns) {
		wait_ms = sampler_run(&job->sampler);
		deaths_report(job);
		stalls_report(job);
		if (deaths_learn(&job->deaths, LEARN_TURN_NS))
			wait_ms = 0;
		now_ns = time_monotonic_ns();
		if (now_ns >= tick_ns) {
			tick_ns = now_ns + TICK_NS;
			if (!last && sampler_targets_ended(&job->sampler)) {
				last = true;
				end_ns = end_ns < now_ns + LAST_NS ? end_ns : now_ns + LAST_NS;
			}
		}
		if (job->stalls.options->after_ns && (wait_ms < 0 || wait_ms > STALL_POLL_MS))
			wait_ms = STALL_POLL_MS;
		sampler_poll(&job->sampler, fds, 2, time_poll_ms(now_ns, end_ns, wait_ms));
		if (fds[1].revents)
			break;
		now_ns = time_monotonic_ns();
	}
	if (last)
		log_info("all watched processes have exited");
}

static void totals_report(const struct watch_job *job)
{
	__cleanup(buf_fini) struct buf text = { .max = TEXT_MAX };
	struct stats_reasons lost = { 0 };
	size_t i;

	deaths_stats(&job->deaths, &lost);
	stalls_stats(&job->stalls, &lost);
	for (i = 0; i < lost.nr; i++)
		buf_printf(&text, ", %s %llu", lost.reasons[i].name,
			   (unsigned long long)lost.reasons[i].count);
	if (job->stalls.nr_stalls || job->stalls.nr_suspects)
		log_info("%llu stalls, %llu suspected ones",
			 (unsigned long long)job->stalls.nr_stalls,
			 (unsigned long long)job->stalls.nr_suspects);
	log_info("%llu deaths, %llu ends in order%s", (unsigned long long)job->deaths.nr_deaths,
		 (unsigned long long)job->deaths.nr_ended, text.data ? text.data : "");
}

static int run(struct watch_job *job, int signal_fd)
{
	int status = sampler_open(&job->sampler, &job->capture);

	if (status)
		return status;
	deaths_init(&job->deaths, &job->sampler);
	stalls_init(&job->stalls, &job->sampler, &job->deaths.watched, &job->options->stall);
	job->deaths.keep_recent = true;
	deaths_observe(&job->deaths);
	status = sampler_start(&job->sampler);
	if (status)
		return status;
	if (deaths_start(&job->deaths))
		log_warn("not all processes could be looked at");
	deaths_learn(&job->deaths, LEARN_NS);
	job->start_ns = time_monotonic_ns();
	log_info("watching");
	loop(job, signal_fd);
	sampler_stop_clock(&job->sampler);
	sampler_catch_up(&job->sampler);
	deaths_report(job);
	totals_report(job);
	sampler_stop(&job->sampler);
	return job->failed ? EXIT_FAILED : EXIT_DONE;
}

static int run_with(struct watch_job *job)
{
	__cleanup(close_fd) int signal_fd = -1;
	sigset_t old_signals;
	int status;

	signal_fd = signals_open((const int[]){ SIGINT, SIGTERM, 0 }, &old_signals);
	if (signal_fd < 0) {
		log_error("%s", strerror(-signal_fd));
		return EXIT_FAILED;
	}
	job->capture.session.hz = SAMPLE_HZ;
	job->capture.session.deaths = true;
	job->capture.report_workers = true;
	status = run(job, signal_fd);
	stalls_fini(&job->stalls);
	deaths_fini(&job->deaths);
	sampler_close(&job->sampler);
	return status;
}

/* Makes the folder, if need be. An exit status. */
static int check_output(const struct watch_options *options)
{
	const char *folder = options->output ? options->output : ".";
	__cleanup(buf_fini) struct buf path = { .max = PATH_MAX };
	int err;

	buf_printf(&path, "%s/summary.txt", folder);
	err = buf_error(&path) ?: output_check(path.data);
	if (err)
		log_error("%s: %s", folder, strerror(-err));
	return err ? EXIT_FAILED : EXIT_DONE;
}

int watch_run(const struct watch_options *options)
{
	struct watch_job job = { .options = options, .capture = options->capture };
	struct pids pod_pids = { 0 };
	int status = sampler_check();

	if (!status)
		status = check_output(options);
	if (!status)
		status = pod_processes_resolve(&pod_pids, &job.capture);
	if (!status && options->capture.nr_pids)
		status = sampler_check_targets(job.capture.pids, job.capture.nr_pids);
	if (!status)
		status = run_with(&job);
	pids_fini(&pod_pids);
	return status;
}
