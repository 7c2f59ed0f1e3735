/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_BACKGROUND_H
#define BPFPROF_BASE_BACKGROUND_H

/*
 * A thread beside the loop, for jobs that may take long: they read files, mounts and memory of
 * processes. The loop and this thread share all state under one lock. The loop releases the lock while
 * it waits for events (background_poll()). A job releases it while it waits (background_wait_begin())
 * and between pieces of long work (background_give_way()): at these points, and only there, the loop may
 * change what both share. So the loop waits for one piece of work at most, however long a job takes.
 *
 * Jobs of one key run in the order in which they came. Each job belongs to a tenant. The tenant whose jobs
 * took the least time comes first, and a tenant that was quiet is not behind others. A tenant can use a
 * third of the memory of the queue.
 *
 * NULL in place of a struct background: there is no such thread, and the loop does all work itself.
 */

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"

#define BACKGROUND_MAX_BYTES (3U << 20) /* of all jobs that wait */
#define BACKGROUND_JOB_NS 500000000ULL /* background_time_is_up() */
#define BACKGROUND_OVER_NS 2000000000ULL /* background_is_over() */
#define BACKGROUND_LATE_NS 3000000000ULL
#define BACKGROUND_SMALL_BYTES 512 /* jobs of at most so many bytes have a reserve */

struct background;
struct refusals;

/* late: the job has waited for longer than BACKGROUND_LATE_NS. background_may_wait() is false for it. */
typedef void (*background_fn)(void *arg, const void *data, size_t bytes, bool late);

struct background_job {
	background_fn fn;
	void *arg;
	const void *data; /* copied */
	size_t bytes;
	uint32_t key, tenant;
	uint32_t
		after; /* a first job of its key runs after the present jobs of this one; 0: none */
};

/*
 * The calling thread is the loop, and holds the lock from now on. The jobs of one tenant take 1/cpu_share of
 * the time of a CPU at most. Counts in refusals. 0 or -errno.
 */
int background_new(struct background **ret, struct refusals *refusals, unsigned int cpu_share);
/* Drops jobs that wait, and waits for the one that runs. */
void background_free(struct background *background);

/* For the loop and for jobs. 0; -ENOSPC: the tenant, or all together, have too much to do; -ENOMEM. */
int background_post(struct background *background, const struct background_job *job);
/* Does a job of that key wait or run? */
bool background_has(const struct background *background, uint32_t key);
bool background_is_idle(const struct background *background); /* no job waits or runs */
/* For how long no job has begun or ended, though one runs or waits. 0: there is none. */
uint64_t background_stalled_ns(const struct background *background, uint64_t now_ns);
/* May the caller wait for files? The loop while no job may run, and jobs that are not late. */
bool background_may_wait(const struct background *background);

/* For the loop: poll(2) without the lock. */
int background_poll(struct background *background, struct pollfd *fds, nfds_t nr, int timeout_ms);
/*
 * For the loop: from here to background_resume() no job runs, so that the loop may wait for files and
 * fork. background_pause() waits until the present job ends. background_try_pause() is false if one
 * runs; then none begins until it is called again.
 */
void background_pause(struct background *background);
bool background_try_pause(struct background *background);
void background_resume(struct background *background);
/* For the loop: runs all jobs. False: timeout_ms passed before that; the rest are late from now on. */
bool background_finish(struct background *background, unsigned int timeout_ms);

/* For code that jobs and the loop share. No effect outside of jobs. */
void background_wait_begin(void); /* the caller is about to wait, and touches only its own memory */
void background_wait_end(void);
void background_give_way(void);
bool background_is_job(void); /* is the caller a job? */
uint32_t background_tenant(void); /* of the present job, or the one that the loop serves; 0: none */
/* For a loop without a background: it works for this tenant from now on; 0: for none. */
void background_serve(uint32_t tenant);
/* Has the present job run for longer than BACKGROUND_JOB_NS? It then leaves the rest to a later job. */
bool background_time_is_up(void);
/* The same for BACKGROUND_OVER_NS: every further read of a file fails. */
bool background_is_over(void);

struct background_counts {
	uint64_t refused, late;
};
extern const struct counter background_counters[];
struct background_counts background_counts(const struct background *background);

#endif
