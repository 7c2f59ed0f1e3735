/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_DEADLINE_H
#define BPFPROF_BASE_DEADLINE_H

/*
 * Calls that may block for ever (a file on a dead FUSE or NFS server, a
 * process whose mmap_lock is held) are made in a thread of their own and given up when
 * they take too long. The thread that hangs keeps what it needs, is forgotten
 * and ends by itself if the call ever returns. At most DEADLINE_MAX_STUCK hang at once;
 * then everything is refused until one returns. To be used from one thread.
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
 * Runs fn(job) on a copy of job[bytes] and copies it back when it has returned in
 * time. Its result, or -ETIMEDOUT, -EBUSY (too many hang), -ENOMEM. fn must not touch anything but
 * its job, and must not return -ETIMEDOUT itself; abandon(job) is called in fn's thread when a call that was given up
 * returns after all, or was never begun, to release what it has (NULL is fine).
 */
long deadline_run(struct deadline_runner *runner, long (*fn)(void *job), void (*abandon)(void *job),
		  void *job, size_t bytes, unsigned int timeout_ms);

/*
 * Calls are waited for longer than their time, by so much in all of them together: those whose thread
 * is ready to run, and those whose thread sleeps. Without it for no longer.
 */
void deadline_patience(struct deadline_runner *runner, unsigned int ready_ms,
		       unsigned int asleep_ms);

#define DEADLINE_WAIT_NAME 64

/* Why a call took too long. */
struct deadline_wait {
	bool known; /* else the rest is nothing */
	bool ready; /* its thread was ready to run: no CPU was to be had */
	char in[DEADLINE_WAIT_NAME]; /* the kernel's function that it slept in, or "" */
};

/* What the thread or process of ours of that number waits for now. */
struct deadline_wait deadline_wait_of(pid_t tid);
/* Of the call that was given up last, when it was. */
struct deadline_wait deadline_last_wait(const struct deadline_runner *runner);

/*
 * In the child of a fork(2), where no other thread is left: makes the runner usable again. What hung
 * at the fork counts as hanging for ever.
 */
void deadline_runner_forked(struct deadline_runner *runner);

unsigned int deadline_nr_stuck(const struct deadline_runner *runner);

/*
 * So that what hung once is not asked again while it still hangs: the number of the
 * call that was given up last (0: none ever was), and whether that call still hangs.
 */
uint64_t deadline_last_stuck(const struct deadline_runner *runner);
bool deadline_is_stuck(const struct deadline_runner *runner, uint64_t call);

#endif
