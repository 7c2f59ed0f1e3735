/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_DEADLINE_H
#define BPFPROF_BASE_DEADLINE_H

/*
 * Runs calls that may block for ever (a file on a dead FUSE or NFS server, a process whose mmap_lock
 * is held) in another thread, and abandons a call that takes too long. The thread of such a call keeps
 * its job and ends by itself if the call ever returns. At most DEADLINE_MAX_STUCK calls hang at once;
 * then every call is refused until one returns. For one thread only.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DEADLINE_MAX_STUCK 8

struct deadline_runner;

int deadline_runner_new(struct deadline_runner **ret); /* 0 or -errno */
void deadline_runner_free(struct deadline_runner *runner);

/*
 * Runs fn(job) on a copy of job[bytes] and copies the job back if fn returns in time. The result of
 * fn, or -ETIMEDOUT, -EBUSY (too many calls hang), -ENOMEM. fn must touch nothing but its job, and
 * must not return -ETIMEDOUT itself. When an abandoned call returns after all, or was never begun,
 * its thread calls abandon(job), which releases the resources of the job (NULL is fine).
 */
long deadline_run(struct deadline_runner *runner, long (*fn)(void *job), void (*abandon)(void *job),
		  void *job, size_t bytes, unsigned int timeout_ms);

/*
 * Allows more time than the timeout, in total for all calls: ready_ms for calls whose thread is ready
 * to run, asleep_ms for calls whose thread sleeps. Both are 0 at first.
 */
void deadline_patience(struct deadline_runner *runner, unsigned int ready_ms,
		       unsigned int asleep_ms);

#define DEADLINE_WAIT_NAME 64

/* Why a call took too long. */
struct deadline_wait {
	bool known; /* false: the other fields are empty */
	bool ready; /* its thread was ready to run, but no CPU was available */
	char in[DEADLINE_WAIT_NAME]; /* the kernel function that its thread slept in, or "" */
};

/* The wait of one of our own threads or processes at this moment. */
struct deadline_wait deadline_wait_of(pid_t tid);
/* The wait of the last abandoned call, at the moment when it was abandoned. */
struct deadline_wait deadline_last_wait(const struct deadline_runner *runner);

/*
 * Makes the runner usable in the child of a fork(2), which has no other thread. A call that hung at
 * the fork counts as hanging for ever.
 */
void deadline_runner_forked(struct deadline_runner *runner);

unsigned int deadline_nr_stuck(const struct deadline_runner *runner);

/*
 * The number of the last abandoned call (0: there was none), and whether a call still hangs: a caller
 * does not repeat a call while the first one hangs.
 */
uint64_t deadline_last_stuck(const struct deadline_runner *runner);
bool deadline_is_stuck(const struct deadline_runner *runner, uint64_t call);

#endif
