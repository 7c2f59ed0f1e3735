// SPDX-License-Identifier: Apache-2.0
#include "base/background.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/budget.h"
#include "base/hash_table.h"
#include "base/refusals.h"
#include "base/tenant.h"
#include "base/time.h"

#define NR_LANES 256
#define LANE_MAX_BYTES (BACKGROUND_MAX_BYTES / 3)
#define RESERVE_BYTES (256U << 10) /* of small jobs beyond the limits */
#define MOMENT_NS (5 * 1000000ULL)
#define CPU_SAVED_NS (2 * NS_PER_SECOND) /* a tenant can use so much of its share at once */

struct job {
	struct job *next;
	struct key *key;
	background_fn fn;
	void *arg;
	uint64_t posted_ns;
	uint32_t tenant;
	size_t bytes;
	uint64_t data[]; /* aligned for the structs of records */
};

/* The jobs of a key that wait or run. */
struct key {
	struct hash_node node;
	uint32_t key;
	uint32_t nr_jobs, lane; /* all of them are in that lane, in their order */
};

/* The jobs of the tenants of a place (tenant_slot()). */
struct lane {
	struct job *first, *last;
	size_t bytes;
	uint64_t spent_ns; /* a lane that was empty begins with that of the others */
	struct budget cpu;
};

struct background {
	pthread_t thread;
	/* Guards the next members alone, never for long. */
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	uint64_t next_ticket, serving; /* the lock: whoever holds the ticket that is served */
	bool wake; /* the thread is to look for jobs, or to end */
	bool running; /* a job runs */

	unsigned int cpu_share; /* does not change */

	/* Guarded by the lock. */
	bool quit, sleeps;
	bool pause_tried; /* no job begins until the loop has tried again */
	unsigned int paused;
	struct lane lanes[NR_LANES];
	struct hash_table keys;
	size_t bytes;
	uint64_t spent_ns; /* of the lane that was served last */
	uint64_t job_start_ns;
	uint64_t progress_ns; /* when a job began or ended, or came while there was none */
	uint32_t tenant; /* of the present job */
	bool late; /* the present job is late */
	struct background_counts counts;
	struct refusals *refusals;
};

static _Thread_local struct background *self; /* in the thread itself */
static _Thread_local uint32_t served; /* by the loop */

static void lock_take(struct background *b)
{
	uint64_t ticket;

	pthread_mutex_lock(&b->mutex);
	ticket = b->next_ticket++;
	while (b->serving != ticket)
		pthread_cond_wait(&b->changed, &b->mutex);
	pthread_mutex_unlock(&b->mutex);
}

static void lock_release(struct background *b)
{
	pthread_mutex_lock(&b->mutex);
	b->serving++;
	if (b->serving != b->next_ticket)
		pthread_cond_broadcast(&b->changed);
	pthread_mutex_unlock(&b->mutex);
}

void background_wait_begin(void)
{
	if (self)
		lock_release(self);
}

void background_wait_end(void)
{
	if (self)
		lock_take(self);
}

void background_give_way(void)
{
	bool wanted;

	if (!self)
		return;
	pthread_mutex_lock(&self->mutex);
	wanted = self->next_ticket != self->serving + 1;
	pthread_mutex_unlock(&self->mutex);
	if (!wanted)
		return;
	lock_release(self);
	lock_take(self);
}

bool background_is_job(void)
{
	return self;
}

uint32_t background_tenant(void)
{
	return self ? self->tenant : served;
}

void background_serve(uint32_t tenant)
{
	served = tenant;
}

bool background_time_is_up(void)
{
	return self && time_monotonic_ns() - self->job_start_ns > BACKGROUND_JOB_NS;
}

static bool is_late(const struct job *job, uint64_t now_ns)
{
	return now_ns - job->posted_ns > BACKGROUND_LATE_NS;
}

bool background_is_over(void)
{
	return self && time_monotonic_ns() - self->job_start_ns > BACKGROUND_OVER_NS;
}

/* The lane whose jobs took the least time, of those that may use the CPU now. NULL: none. */
static struct lane *lane_choose(struct background *b)
{
	uint64_t now_ns = time_monotonic_ns();
	struct lane *lane, *least = NULL;

	for (lane = b->lanes; b->bytes && lane < b->lanes + NR_LANES; lane++)
		if (lane->first && (!least || lane->spent_ns < least->spent_ns) &&
		    (budget_allows(&lane->cpu, b->cpu_share, CPU_SAVED_NS, now_ns) ||
		     is_late(lane->first, now_ns)))
			least = lane;
	return least;
}

static struct job *job_take(struct background *b, struct lane *lane)
{
	struct job *job = lane->first;

	lane->first = job->next;
	if (!lane->first)
		lane->last = NULL;
	lane->bytes -= sizeof(*job) + job->bytes;
	b->bytes -= sizeof(*job) + job->bytes;
	b->spent_ns = lane->spent_ns;
	return job;
}

static void job_free(struct background *b, struct job *job)
{
	if (!--job->key->nr_jobs)
		hash_table_remove(&b->keys, job->key);
	free(job);
}

static void job_run(struct background *b, struct lane *lane, bool late)
{
	struct job *job = job_take(b, lane);
	uint64_t start_ns = time_monotonic_ns(), cpu_ns = time_thread_cpu_ns();

	late |= is_late(job, start_ns);
	b->counts.late += late;
	if (late)
		refusals_count(b->refusals, job->tenant, REFUSAL_LATE_JOB);
	b->job_start_ns = b->progress_ns = start_ns;
	b->tenant = job->tenant;
	b->late = late;
	job->fn(job->arg, job->data, job->bytes, late);
	b->late = false;
	b->progress_ns = time_monotonic_ns();
	lane->spent_ns += b->progress_ns - start_ns;
	budget_spend(&lane->cpu, time_thread_cpu_ns() - cpu_ns);
	job_free(b, job);
}

static void running_set(struct background *b, bool running)
{
	pthread_mutex_lock(&b->mutex);
	b->running = running;
	if (!running)
		pthread_cond_broadcast(&b->changed);
	pthread_mutex_unlock(&b->mutex);
}

static struct timespec moment_end(void)
{
	uint64_t end_ns = time_monotonic_ns() + MOMENT_NS;

	return (struct timespec){ .tv_sec = (time_t)(end_ns / NS_PER_SECOND),
				  .tv_nsec = (long)(end_ns % NS_PER_SECOND) };
}

/*
 * Sleeps without the lock, which the caller holds. Jobs whose tenants wait for the CPU are looked for
 * after a moment.
 */
static void sleep_until_woken(struct background *b)
{
	const struct timespec end = moment_end();
	bool waiting = b->bytes && !b->paused;

	b->sleeps = true;
	lock_release(b);
	pthread_mutex_lock(&b->mutex);
	if (waiting && !b->wake)
		pthread_cond_timedwait(&b->changed, &b->mutex, &end);
	while (!waiting && !b->wake)
		pthread_cond_wait(&b->changed, &b->mutex);
	b->wake = false;
	pthread_mutex_unlock(&b->mutex);
	lock_take(b);
	b->sleeps = false;
}

static void *thread_main(void *arg)
{
	struct background *b = arg;
	struct lane *lane;

	self = b;
	lock_take(b);
	while (!b->quit) {
		lane = b->paused || b->pause_tried ? NULL : lane_choose(b);
		if (!lane) {
			sleep_until_woken(b);
			continue;
		}
		running_set(b, true);
		job_run(b, lane, false);
		running_set(b, false);
		background_give_way();
	}
	lock_release(b);
	return NULL;
}

static void wake(struct background *b)
{
	if (!b->sleeps)
		return;
	pthread_mutex_lock(&b->mutex);
	b->wake = true;
	pthread_cond_broadcast(&b->changed);
	pthread_mutex_unlock(&b->mutex);
}

int background_new(struct background **ret, struct refusals *refusals, unsigned int cpu_share)
{
	struct background *b = calloc(1, sizeof(*b));
	sigset_t all, before;
	pthread_condattr_t attr;
	int err;

	if (!b)
		return -ENOMEM;
	b->cpu_share = cpu_share;
	b->refusals = refusals;
	hash_table_init(&b->keys, HASH_TABLE_BOUNDED, struct key, key);
	pthread_mutex_init(&b->mutex, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&b->changed, &attr);
	pthread_condattr_destroy(&attr);
	lock_take(b);
	/* Signals are for the loop. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&b->thread, NULL, thread_main, b);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		pthread_cond_destroy(&b->changed);
		pthread_mutex_destroy(&b->mutex);
		free(b);
		return -err;
	}
	*ret = b;
	return 0;
}

void background_free(struct background *b)
{
	struct lane *lane;

	if (!b)
		return;
	b->quit = true;
	wake(b);
	lock_release(b);
	pthread_join(b->thread, NULL);
	for (lane = b->lanes; lane < b->lanes + NR_LANES; lane++)
		while (lane->first)
			job_free(b, job_take(b, lane));
	hash_table_clear(&b->keys);
	pthread_cond_destroy(&b->changed);
	pthread_mutex_destroy(&b->mutex);
	free(b);
}

static struct key *key_get(struct background *b, const struct background_job *job)
{
	struct key *key = hash_table_find(&b->keys, &job->key);
	const struct key *after;
	uint32_t lane = tenant_slot(job->tenant, NR_LANES);

	if (key)
		return key;
	after = job->after ? hash_table_find(&b->keys, &job->after) : NULL;
	if (after)
		lane = after->lane;
	key = hash_table_add(&b->keys, &job->key);
	if (key)
		key->lane = lane;
	return key;
}

int background_post(struct background *b, const struct background_job *from)
{
	struct key *key = key_get(b, from);
	size_t bytes = sizeof(struct job) + from->bytes;
	size_t reserve = from->bytes <= BACKGROUND_SMALL_BYTES ? RESERVE_BYTES : 0;
	struct lane *lane;
	struct job *job;
	int err = -ENOMEM;

	if (!key)
		return -ENOMEM;
	lane = &b->lanes[key->lane];
	job = NULL;
	if (lane->bytes + bytes > LANE_MAX_BYTES + reserve ||
	    b->bytes + bytes > BACKGROUND_MAX_BYTES + reserve) {
		b->counts.refused++;
		refusals_count(b->refusals, from->tenant, REFUSAL_JOB);
		err = -ENOSPC;
	} else {
		job = malloc(bytes);
	}
	if (!job) {
		if (!key->nr_jobs)
			hash_table_remove(&b->keys, key);
		return err;
	}
	*job = (struct job){ .key = key,
			     .fn = from->fn,
			     .arg = from->arg,
			     .tenant = from->tenant,
			     .posted_ns = time_monotonic_ns(),
			     .bytes = from->bytes };
	if (from->bytes)
		memcpy(job->data, from->data, from->bytes);
	if (background_is_idle(b))
		b->progress_ns = job->posted_ns;
	key->nr_jobs++;
	if (!lane->first && lane->spent_ns < b->spent_ns)
		lane->spent_ns = b->spent_ns;
	if (lane->last)
		lane->last->next = job;
	else
		lane->first = job;
	lane->last = job;
	lane->bytes += bytes;
	b->bytes += bytes;
	if (!b->paused)
		wake(b);
	return 0;
}

bool background_has(const struct background *b, uint32_t key)
{
	return b && hash_table_find(&b->keys, &key);
}

bool background_is_idle(const struct background *b)
{
	return !b || (!b->bytes && !b->running);
}

uint64_t background_stalled_ns(const struct background *b, uint64_t now_ns)
{
	return background_is_idle(b) ? 0 : now_ns - b->progress_ns;
}

bool background_may_wait(const struct background *b)
{
	return !b || (!b->late && (self == b || (b->paused && !b->running)));
}

int background_poll(struct background *b, struct pollfd *fds, nfds_t nr, int timeout_ms)
{
	int result, err;

	if (!b)
		return poll(fds, nr, timeout_ms);
	lock_release(b);
	result = poll(fds, nr, timeout_ms);
	err = errno;
	lock_take(b);
	errno = err;
	return result;
}

bool background_try_pause(struct background *b)
{
	if (!b)
		return true;
	b->pause_tried = b->running;
	b->paused += !b->running;
	return !b->running;
}

void background_pause(struct background *b)
{
	if (!b)
		return;
	b->paused++;
	b->pause_tried = false;
	if (!b->running)
		return;
	lock_release(b);
	pthread_mutex_lock(&b->mutex);
	while (b->running)
		pthread_cond_wait(&b->changed, &b->mutex);
	pthread_mutex_unlock(&b->mutex);
	lock_take(b);
}

void background_resume(struct background *b)
{
	if (b && !--b->paused && b->bytes)
		wake(b);
}

/* Waits for a change, with the lock, which is released meanwhile. */
static void wait_a_moment(struct background *b)
{
	const struct timespec end = moment_end();

	lock_release(b);
	pthread_mutex_lock(&b->mutex);
	pthread_cond_timedwait(&b->changed, &b->mutex, &end);
	pthread_mutex_unlock(&b->mutex);
	lock_take(b);
}

bool background_finish(struct background *b, unsigned int timeout_ms)
{
	uint64_t end_ns = time_monotonic_ns() + timeout_ms * 1000000ULL;
	struct lane *lane;
	bool whole;

	if (!b)
		return true;
	b->pause_tried = false;
	wake(b);
	while ((b->bytes || b->running) && time_monotonic_ns() < end_ns)
		wait_a_moment(b);
	whole = !b->bytes && !b->running;
	background_pause(b);
	for (lane = b->lanes; lane < b->lanes + NR_LANES; lane++)
		while (lane->first)
			job_run(b, lane, true);
	background_resume(b);
	return whole;
}

const struct counter background_counters[] = {
	{ COUNTER_WALK, "background_refused", offsetof(struct background_counts, refused),
	  .help = "records of processes that keep the thread that reads files busy: their samples "
		  "have no container, and their stacks end where reading is needed" },
	{ COUNTER_WALK, "background_late", offsetof(struct background_counts, late),
	  .help = "the same, of records that have waited for three seconds" },
	{ 0 },
};

struct background_counts background_counts(const struct background *b)
{
	return b ? b->counts : (struct background_counts){ 0 };
}
