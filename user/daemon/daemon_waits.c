// SPDX-License-Identifier: Apache-2.0
/*
 * --wall: time of threads in each interval, and in each profile that a client asks for. A wait
 * across a boundary is divided there: each interval has its part.
 */
#include "daemon/daemon.h"

#include <malloc.h>
#include <string.h>

#include "base/log.h"
#include "base/time.h"
#include "kernel/waits.h"
#include "profile/aggregate.h"
#include "profile/idle.h"
#include "profile/profile.h"
#include "profile/thread_times.h"

/*
 * Reading stacks takes this share of an interval at most; the stacks that are left are read in the
 * next one.
 */
#define READING_SHARE 2
#define READING_MAX_NS (2 * NS_PER_SECOND)
#define READING_PAGES 1024
#define READING_FRAMES 32768

static bool interval_wants(void *arg, const struct aggregate_input *input)
{
	struct daemon *daemon = arg;

	return process_filter_wants(&daemon->filter, &daemon->sampler, input);
}

static bool job_wants(void *arg, const struct aggregate_input *input)
{
	struct remote_profile_job *job = arg;

	return process_filter_wants(&job->filter, &job->daemon->sampler, input);
}

static uint64_t reading_ns(uint64_t length_ns)
{
	length_ns /= READING_SHARE;
	return length_ns < READING_MAX_NS ? length_ns : READING_MAX_NS;
}

int daemon_waits_open(struct daemon *daemon)
{
	struct interval *running = &daemon->running;

	if (!daemon->options->capture.session.waits)
		return 0;
	/* From here on the time of every thread is in some profile. */
	running->start_ns = waits_start_ns(daemon->sampler.waits);
	return thread_times_new(&daemon->times, running->aggregate, 0);
}

void daemon_waits_thread_end(struct daemon *daemon, const struct aggregate_input *input,
			     const struct thread_rest *rest)
{
	struct remote_profile_job *job;
	size_t i;

	if (interval_wants(daemon, input))
		thread_times_end(daemon->times, input, rest);
	for (i = 0; i < REMOTE_PROFILE_MAX_PROFILES; i++) {
		job = &daemon->remote.jobs[i];
		if (job->state == REMOTE_PROFILE_SAMPLING && job_wants(job, input))
			thread_times_end(job->times, input, rest);
	}
}

void daemon_waits_boundary(struct daemon *daemon)
{
	if (!daemon->times)
		return;
	thread_times_boundary(daemon->times, daemon->running.aggregate, daemon->running.start_ns);
	daemon->ended.waits_unreported = true;
}

void daemon_waits_rotate(struct daemon *daemon)
{
	struct interval *ended = &daemon->ended;
	const struct sampler_rotate cut = { .times = daemon->times,
					    .at_ns = ended->end_ns,
					    .reading_ns =
						    reading_ns(ended->end_ns - ended->start_ns),
					    .max_pages = READING_PAGES,
					    .max_frames = READING_FRAMES,
					    .wants = interval_wants,
					    .arg = daemon };

	if (!ended->aggregate || !ended->waits_unreported)
		return;
	ended->waits_unreported = false;
	sampler_waits_rotate(&daemon->sampler, &cut);
	thread_times_close(daemon->times);
	/* Gives back the copies of other processes' memory before a child is forked. */
	malloc_trim(0);
}

void daemon_waits_end(struct daemon *daemon)
{
	struct interval *running = &daemon->running;
	struct sampler_rotate cut = { .times = daemon->times,
				      .reading_ns = READING_MAX_NS,
				      .max_pages = READING_PAGES,
				      .max_frames = READING_FRAMES,
				      .wants = interval_wants,
				      .arg = daemon };

	if (!daemon->times)
		return;
	running->end_ns = UINT64_MAX; /* the interval has no further boundary */
	sampler_stop_clock(&daemon->sampler);
	sampler_waits_end(&daemon->sampler, &cut);
	running->end_ns = cut.at_ns;
	malloc_trim(0); /* as in daemon_waits_rotate() */
}

void daemon_waits_stats(struct daemon *daemon, struct stats_reasons *waits)
{
	if (daemon->times)
		thread_times_stats(daemon->times, waits);
}

static void reason_set(struct stats_reasons *reasons, const char *name, uint64_t count)
{
	size_t i;

	for (i = 0; i < reasons->nr; i++)
		if (!strcmp(reasons->reasons[i].name, name))
			reasons->reasons[i].count = 0;
	stats_add(reasons, name, count);
}

void daemon_waits_periods(struct daemon *daemon, struct stats_reasons *waits)
{
	if (!daemon->times)
		return;
	reason_set(waits, "period_us", waits_base_period_ns(daemon->sampler.waits) / 1000);
	reason_set(waits, "longest_period_us", waits_max_period_ns(daemon->sampler.waits) / 1000);
	waits_max_period_restart(daemon->sampler.waits);
}

int daemon_waits_idle(const struct daemon *daemon, struct profile *profile,
		      struct stats_reasons *waits)
{
	return daemon->options->capture.session.waits && !daemon->options->parked
		       ? profile_fold_idle_counted(profile, waits)
		       : 0;
}

int job_waits_open(struct remote_profile_job *job)
{
	return job->daemon->options->capture.session.waits
		       ? thread_times_new(&job->times, job->aggregate, job->start_ns)
		       : 0;
}

void job_waits_sample(struct remote_profile_job *job, const struct aggregate_input *input)
{
	/* The wait may begin before the end of the interval, too. */
	if (input->sample->rec.ts_ns >= job->end_ns && !job->bounded_end) {
		job->bounded_end = true;
		thread_times_boundary(job->times, NULL, job->end_ns);
	}
	if (job_wants(job, input))
		thread_times_add(job->times, input);
}

void job_waits_rotate(struct remote_profile_job *job)
{
	const struct sampler_rotate cut = { .times = job->times,
					    .at_ns = job->end_ns,
					    .reading_ns = READING_MAX_NS,
					    .max_pages = READING_PAGES,
					    .max_frames = READING_FRAMES,
					    .wants = job_wants,
					    .arg = job };

	if (!job->times)
		return;
	if (!job->bounded_end)
		thread_times_boundary(job->times, NULL, job->end_ns);
	job->bounded_end = true;
	sampler_waits_rotate(&job->daemon->sampler, &cut);
	thread_times_free(job->times);
	job->times = NULL;
}
