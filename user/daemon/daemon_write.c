// SPDX-License-Identifier: Apache-2.0
/* A child process writes the files of one interval. */
#include "daemon/daemon.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/time.h"
#include "daemon/push_queue.h"
#include "formats/output.h"
#include "proc/images.h"
#include "proc/self.h"
#include "profile/aggregate.h"
#include "profile/aggregate_stats.h"
#include "profile/profile.h"
#include "profile/ray_calls.h"

/* timeout(1) sends a signal to the process and to its group: that is one request. */
#define SAME_SIGNAL_NS NS_PER_SECOND
#define WRITER_SECONDS 120 /* the limit is this or two intervals, whichever is longer */
#define CHILD_CACHE_BYTES (1U << 20) /* names are found file by file */
#define STATUS_TRIES 50 /* a millisecond each */

/*
 * The kernel keeps BPF programs and listening sockets for as long as a process has a descriptor of
 * them. They must end with the parent, so the child closes its descriptors.
 */
static void kernel_descriptors_close(int keep)
{
	DIR *dir = opendir("/proc/self/fd");
	char path[512], target[64];
	struct dirent *entry;
	ssize_t len;
	int fd;

	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		len = readlink(path, target, sizeof(target) - 1);
		if (len <= 0)
			continue;
		target[len] = 0;
		fd = (int)strtoul(entry->d_name, NULL, 10);
		if (fd > STDERR_FILENO && fd != keep && strcmp(target, "anon_inode:[pidfd]") &&
		    (!strncmp(target, "anon_inode:", 11) || !strncmp(target, "socket:", 7)))
			close(fd);
	}
	if (dir)
		closedir(dir);
}

static int files_write(struct daemon *daemon, const struct profiles *profiles,
		       struct write_result *result)
{
	struct store_set set;
	int err;

	if (daemon->options->split == DAEMON_SPLIT_POD)
		return split_write(daemon, profiles, result);
	/* Repairs what a killed writer has left. set_write() reports problems of the folder. */
	store_repair(daemon->store, time_wall_ns() / NS_PER_SECOND, &result->counts);
	err = set_write(daemon, daemon->store, &daemon->options->limits, profiles, &set,
			&result->counts);
	if (err)
		return err;
	memcpy(result->name, set.name, sizeof(result->name));
	result->bytes = set.bytes;
	result->calls = profiles->calls;
	return 0;
}

/* Makes the profile of the interval's calls. It points to stats, which also has the counts of samples. */
static int calls_profile(struct daemon *daemon, struct profile *ret, struct run_stats *stats,
			 struct write_result *result)
{
	const struct interval *interval = &daemon->ended;
	int hidden = 0, err;

	err = sampler_profile(&daemon->sampler, interval->calls.aggregate, false, ret,
			      &result->files, &hidden);
	if (!err)
		err = profile_of_calls(ret);
	if (err)
		return err;
	*stats = daemon->writer.stats;
	err = ray_calls_name(ret, &stats->walk);
	if (err)
		return err;
	calls_profile_stats(&interval->calls, stats);
	ret->time_ns = interval->start_ns + interval->offset_ns;
	ret->duration_ns = interval->end_ns - interval->start_ns;
	ret->threads = daemon->options->threads;
	ret->hz = 0;
	ret->stats = stats;
	return 0;
}

static int interval_write(struct daemon *daemon, struct write_result *result)
{
	struct interval *interval = &daemon->ended;
	struct run_stats *stats = &daemon->writer.stats;
	struct run_stats before = { 0 }, now = { 0 };
	struct profile profile = { 0 }, calls = { 0 }, memory = { 0 };
	struct profiles profiles = { .cpu = &profile,
				     .seconds = aggregate_seconds(interval->aggregate) };
	struct run_stats calls_stats, memory_stats;
	int err, hidden = 0;

	sampler_image_stats(&daemon->sampler, &before);
	err = sampler_profile(&daemon->sampler, interval->aggregate, true, &profile, &result->files,
			      &hidden);
	if (err)
		return err;
	result->kernel_names_hidden = hidden;
	sampler_image_stats(&daemon->sampler, &now);
	stats_reasons_since(&now.files, &before.files);
	stats_add_reasons(&result->files, &now.files);
	stats_add_reasons(&stats->files, &result->files);
	result->private_bytes = self_private_bytes();
	stats->memory_bytes += result->private_bytes;
	profile.time_ns = interval->start_ns + interval->offset_ns;
	profile.duration_ns = interval->end_ns - interval->start_ns;
	profile.threads = daemon->options->threads;
	profile.stats = stats;
	err = ray_calls_name(&profile, &stats->walk)
		      ?: daemon_waits_idle(daemon, &profile, &stats->waits);
	if (err)
		return err;
	profile_count_nameless(&profile, &stats->walk);
	if (interval->calls.aggregate) {
		err = calls_profile(daemon, &calls, &calls_stats, result);
		if (err)
			return err;
		profiles.calls = &calls;
	}
	if (daemon->options->capture.session.pages) {
		err = pages_profile(daemon, &memory, &memory_stats, result);
		if (err)
			return err;
		profiles.memory = &memory;
	}
	err = files_write(daemon, &profiles, result);
	if (!err && profiles.memory)
		kills_write(daemon, profiles.memory);
	return err;
}

_Static_assert(sizeof(struct write_result) <= PIPE_BUF, "it is written and read at once");

void daemon_child_begin(struct daemon *daemon, int keep)
{
	kernel_descriptors_close(keep);
	images_set_cache(daemon->sampler.reader.images, CHILD_CACHE_BYTES);
	deadline_runner_forked(daemon->sampler.reader.runner);
}

static void child_main(struct daemon *daemon, int fd)
{
	struct write_result result = { 0 };

	daemon_child_begin(daemon, fd);
	result.error = interval_write(daemon, &result);
	/* The result fits into the pipe, so write() does not wait. */
	if (write(fd, &result, sizeof(result)) != sizeof(result))
		_exit(1);
	_exit(0);
}

const struct counter daemon_counters[] = {
	{ COUNTER_CLOCK, "clock_step", 0,
	  .help = "times that the clock of the machine was set during this interval" },
	{ 0 },
};

/* The counters of the interval that has ended. */
static void interval_stats(struct daemon *daemon, struct run_stats *stats)
{
	const struct interval *interval = &daemon->ended;
	const uint64_t clock_steps = interval->clock_step;
	struct run_stats now = { 0 }, samples = { 0 };
	struct aggregate_view view;
	struct rusage children;

	sampler_stats(&daemon->sampler, &now);
	daemon_waits_stats(daemon, &now.waits);
	pages_stats(daemon, &now.memory);
	if (daemon->options->capture.session.deaths) {
		deaths_stats(&daemon->deaths.seen, &now.walk);
		stalls_stats(&daemon->stalls.seen, &now.walk);
	}
	notify_stats(daemon, &now.walk);
	sampler_own_usage(&daemon->sampler, &now);
	if (!getrusage(RUSAGE_CHILDREN, &children))
		now.cpu_seconds +=
			(double)(children.ru_utime.tv_sec + children.ru_stime.tv_sec) +
			(double)(children.ru_utime.tv_usec + children.ru_stime.tv_usec) / 1e6;
	*stats = now;
	stats_since(stats, &daemon->before);
	daemon_waits_periods(daemon, &stats->waits);
	daemon->before = now;
	aggregate_view_get(interval->aggregate, &view);
	aggregate_stats(&samples, &view);
	stats_add_samples(stats, &samples);
	stats_add_groups(stats, &samples);
	stats_add_groups(&daemon->totals.counted, &samples);
	calls_interval_stats(&interval->calls, stats);
	stats->duration_seconds = (double)(interval->end_ns - interval->start_ns) / 1e9;
	stats_add_rows(&stats->clock, daemon_counters, &clock_steps, false);
}

static void write_failed(struct daemon *daemon, const char *why)
{
	const struct run_stats *stats = &daemon->writer.stats;
	struct log_field fields[] = { { .key = "error", .text = why },
				      { .key = "folder", .text = daemon->output },
				      { .key = "samples", .number = stats->samples } };

	daemon->totals.write_errors++;
	daemon->totals.failed_in_a_row++;
	log_event(LOG_ERROR, "profile not written", fields, sizeof(fields) / sizeof(fields[0]));
}

int writer_start(struct daemon *daemon)
{
	struct writer *writer = &daemon->writer;
	int fds[2] = { -1, -1 }, err = 0;

	aggregate_seconds_end(daemon->ended.aggregate);
	interval_stats(daemon, &writer->stats);
	stats_add_samples(&daemon->totals.counted, &writer->stats);
	writer->start_ns = time_monotonic_ns();
	writer->aggregate_bytes = aggregate_bytes(daemon->ended.aggregate);
	writer->from_s = (daemon->ended.start_ns + daemon->ended.offset_ns) / NS_PER_SECOND;
	writer->until_s = (daemon->ended.end_ns + daemon->ended.offset_ns) / NS_PER_SECOND;
	if (writer->until_s <= writer->from_s)
		writer->until_s = writer->from_s + 1;
	writer->killed = false;
	writer->pods_fd = -1;
	if (daemon->options->split == DAEMON_SPLIT_POD && daemon->push.pusher)
		writer->pods_fd = memfd_create("bpfprof-pods", MFD_CLOEXEC);
	if (pipe2(fds, O_CLOEXEC)) {
		err = -errno;
	} else {
		writer->pid = fork();
		if (!writer->pid)
			child_main(daemon, fds[1]);
		if (writer->pid < 0) {
			err = -errno;
			writer->pid = 0;
			close(fds[0]);
		}
		close(fds[1]);
		writer->fd = fds[0];
	}
	aggregate_free(daemon->ended.aggregate);
	aggregate_free(daemon->ended.calls.aggregate);
	pages_next(daemon);
	daemon->ended.aggregate = daemon->ended.calls.aggregate = NULL;
	if (err) {
		write_failed(daemon, strerror(-err));
		if (writer->pods_fd >= 0)
			close(writer->pods_fd);
	}
	return err;
}

/* Reports once that no process matches the filters, until one does. */
static void say_whether_matched(struct daemon *daemon, uint64_t samples)
{
	bool nothing = !samples && process_choice_is_set(&daemon->choice);

	if (nothing && !daemon->nothing_matched)
		log_warn("no process that a filter names (--pid, --container, --pod, --worker) ran "
			 "in that interval");
	daemon->nothing_matched = nothing;
}

/* The larger of two figures: before the child was forked, and when the child had its names. */
static uint64_t memory_bytes(const struct daemon *daemon, const struct write_result *result)
{
	uint64_t before = daemon->writer.stats.memory_bytes;
	struct run_stats now = { 0 };

	sampler_own_usage(&daemon->sampler, &now);
	now.memory_bytes += result->private_bytes;
	return now.memory_bytes > before ? now.memory_bytes : before;
}

static void written(struct daemon *daemon, struct write_result *result)
{
	struct push_item pushed = { .path = result->name,
				    .start = daemon->writer.from_s,
				    .until = daemon->writer.until_s };
	struct daemon_totals *totals = &daemon->totals;
	const struct run_stats *stats = &daemon->writer.stats;
	char seconds[32];
	struct log_field fields[] = {
		{ .key = "file", .text = result->name },
		{ .key = "seconds", .text = seconds },
		{ .key = "pods", .number = result->pods },
		{ .key = "samples", .number = stats->samples },
		{ .key = "calls", .number = stats_total(&stats->gpu_calls) },
		{ .key = "lost", .number = stats_total(&stats->lost) },
		{ .key = "truncated", .number = stats->truncated },
		{ .key = "bytes", .number = result->bytes },
		{ .key = "write_ms", .number = totals->write_ns / 1000000 },
		{ .key = "memory_bytes", .number = memory_bytes(daemon, result) },
		{ .key = "sets", .number = result->counts.sets },
		{ .key = "stored_bytes", .number = result->counts.bytes },
	};

	snprintf(seconds, sizeof(seconds), "%.3f", stats->duration_seconds);
	log_event(LOG_INFO, "profile written", fields, sizeof(fields) / sizeof(fields[0]));
	say_whether_matched(daemon, stats->samples);
	push_written(daemon, &pushed, result->calls);
	totals->pod_profiles += result->pods;
	if (totals->failed_in_a_row) {
		struct log_field lost = { .key = "profiles_lost",
					  .number = totals->failed_in_a_row };

		log_event(LOG_INFO, "writing works again", &lost, 1);
	}
	totals->failed_in_a_row = 0;
	totals->profiles++;
	totals->bytes += result->bytes;
	totals->last_profile_seconds = time_wall_ns() / NS_PER_SECOND;
	daemon->last_good_ns = time_monotonic_ns();
}

/* Warns about problems that did not stop the files. */
static void result_warn(struct daemon *daemon, const struct write_result *result)
{
	const struct store_counts *counts = &result->counts;

	if (counts->links_failed)
		log_warn("%s: latest.* cannot be set: %s", daemon->output,
			 counts->links_error == -EEXIST ? "a file has this name"
							: strerror(-counts->links_error));
	if (result->pods_failed) {
		struct log_field fields[] = {
			{ .key = "error", .text = strerror(-result->pods_error) },
			{ .key = "pods", .number = result->pods_failed },
			{ .key = "folder", .text = daemon->output },
		};

		log_event(LOG_ERROR, "profiles of pods not written", fields,
			  sizeof(fields) / sizeof(fields[0]));
	}
	if (counts->remove_error)
		log_warn("%s: old profiles cannot be removed: %s", daemon->output,
			 strerror(-counts->remove_error));
	if (counts->folders_unread)
		log_warn("%s: %llu folders of pods were not read: the limits do not apply to "
			 "them: %s",
			 daemon->output, (unsigned long long)counts->folders_unread,
			 strerror(-counts->unread_error));
	if (result->kernel_names_hidden && !daemon->warned_kernel_names) {
		sampler_warn_kernel_names();
		daemon->warned_kernel_names = true;
	}
}

static void totals_count(struct daemon_totals *totals, const struct store_counts *counts)
{
	totals->links_failed += counts->links_failed;
	totals->sets_removed += counts->removed_sets;
	totals->stale_removed += counts->stale;
	totals->sets = counts->sets;
	totals->stored_bytes = counts->bytes;
	totals->folders_unread = counts->folders_unread;
}

/*
 * The child closes its files when it ends. That may wait for a file system, so the loop does not wait for the child. If
 * all places are taken, the oldest child is waited for no more.
 */
static void writer_let_end(struct writer *writer)
{
	writer->ending[writer->next_ending++ % WRITERS_ENDING] = writer->pid;
	writer->pid = 0;
}

static void writers_reap(struct writer *writer)
{
	size_t i;

	for (i = 0; i < WRITERS_ENDING; i++)
		if (writer->ending[i] && waitpid(writer->ending[i], NULL, WNOHANG))
			writer->ending[i] = 0;
}

/* The status of a child that has closed its pipe. 0: it does not end soon. */
static int status_of(pid_t pid)
{
	int i, status = 0;

	for (i = 0; i < STATUS_TRIES && !waitpid(pid, &status, WNOHANG); i++)
		poll(NULL, 0, 1);
	return status;
}

void writer_done(struct daemon *daemon)
{
	struct writer *writer = &daemon->writer;
	struct write_result result;
	char why[64];
	ssize_t n;
	int status = 0;

	/* The pipe is readable when the whole result is in it, or the child has ended. */
	n = read(writer->fd, &result, sizeof(result));
	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	close(writer->fd);
	if (n != sizeof(result))
		status = status_of(writer->pid);
	writer_let_end(writer);
	split_push(daemon, n == sizeof(result) ? result.pods : 0);
	daemon->totals.write_ns = time_monotonic_ns() - writer->start_ns;
	if (n != sizeof(result)) {
		if (writer->killed)
			snprintf(why, sizeof(why), "took too long");
		else if (WIFSIGNALED(status))
			snprintf(why, sizeof(why), "killed by signal %d", WTERMSIG(status));
		else
			snprintf(why, sizeof(why), "ended before its work was done");
		write_failed(daemon, why);
		return;
	}
	totals_count(&daemon->totals, &result.counts);
	daemon->totals.pod_write_errors += result.pods_failed;
	stats_add_reasons(&daemon->totals.counted.files, &result.files);
	if (result.error)
		write_failed(daemon, strerror(-result.error));
	else
		written(daemon, &result);
	result_warn(daemon, &result);
}

void writer_watch(struct daemon *daemon, uint64_t now_ns)
{
	struct writer *writer = &daemon->writer;
	uint64_t seconds = 2 * daemon->options->interval_seconds;

	writers_reap(writer);
	if (seconds < WRITER_SECONDS)
		seconds = WRITER_SECONDS;
	if (!writer->pid || writer->killed || now_ns < writer->start_ns + seconds * NS_PER_SECOND)
		return;
	writer->killed = true;
	kill(writer->pid, SIGKILL);
}

bool daemon_asked_again(struct daemon *daemon, int signal_fd)
{
	int signal;

	while ((signal = signals_next(signal_fd)))
		daemon->asked_again |=
			signal != SIGHUP && time_monotonic_ns() > daemon->quit_ns + SAME_SIGNAL_NS;
	return daemon->asked_again;
}

bool writer_finish(struct daemon *daemon, int signal_fd)
{
	while (daemon->writer.pid) {
		struct pollfd fds[] = { { .fd = daemon->writer.fd, .events = POLLIN },
					{ .fd = signal_fd, .events = POLLIN } };

		poll(fds, 2, 1000);
		writer_watch(daemon, time_monotonic_ns());
		if (fds[1].revents && daemon_asked_again(daemon, signal_fd))
			return false;
		if (fds[0].revents)
			writer_done(daemon);
	}
	return true;
}
