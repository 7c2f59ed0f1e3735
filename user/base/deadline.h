/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_DEADLINE_H
#define BPFPROF_BASE_DEADLINE_H

/*
 * Runs calls that may block for ever (a file on a dead FUSE or NFS server, a process whose mmap_lock
 * is held) in another thread, and abandons a call that takes too long. The thread of such a call keeps
 * its job and ends by itself if the call ever returns. The key of a call names what it may wait for. While
 * a call hangs, others with its key are refused. Each kind of key has a limit of calls that hang at once,
 * and so has each tenant, so that one tenant cannot use up the threads of all. For the loop and a job
 * (background.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Calls that hang at once, by what they wait for, and those of one tenant. */
#define DEADLINE_MAX_NODE 8
#define DEADLINE_MAX_PROCESSES 16
#define DEADLINE_TENANT_PROCESSES 6
#define DEADLINE_MAX_MOUNTS 24
#define DEADLINE_TENANT_MOUNTS 16

struct deadline_runner;
struct refusals;

int deadline_runner_new(struct deadline_runner **ret); /* 0 or -errno */
void deadline_runner_free(struct deadline_runner *runner);
/* Counts there what the limits above refuse. */
void deadline_set_refusals(struct deadline_runner *runner, struct refusals *refusals);

enum deadline_kind {
	DEADLINE_KIND_NODE, /* disks, and files of the node; several calls may hang at once */
	DEADLINE_KIND_PROCESS, /* memory and mappings of one process */
	DEADLINE_KIND_MOUNT, /* one file system */
};

#define DEADLINE_NODE 0ULL
static inline uint64_t deadline_process(uint32_t pid)
{
	return (uint64_t)DEADLINE_KIND_PROCESS << 32 | pid;
}

static inline uint64_t deadline_mount(uint32_t dev)
{
	return (uint64_t)DEADLINE_KIND_MOUNT << 32 | dev;
}

/*
 * Runs fn(job) on a copy of job[bytes] and copies the job back if fn returns in time. The result of
 * fn, or -ETIMEDOUT, -EBUSY (a call with that key hangs, or too many hang), -ENOMEM. fn must touch nothing
 * but its job, and must not return -ETIMEDOUT itself. When an abandoned call returns after all, or was never begun,
 * its thread calls abandon(job), which releases the resources of the job (NULL is fine).
 */
long deadline_run(struct deadline_runner *runner, uint64_t key, long (*fn)(void *job),
		  void (*abandon)(void *job), void *job, size_t bytes, unsigned int timeout_ms);

/*
 * Allows more time than the timeout, in total for all calls: ready_ms for calls whose thread is ready
 * to run, asleep_ms for calls whose thread sleeps. Both are 0 at first.
 */
void deadline_patience(struct deadline_runner *runner, unsigned int ready_ms,
		       unsigned int asleep_ms);

/*
 * Closes a descriptor of a file system that may block, since FUSE asks its server then, too: later, in
 * deadline_close_all(), which may wait. A close that is refused is tried again by the next call.
 */
void deadline_close(struct deadline_runner *runner, uint64_t key, int fd);
void deadline_close_all(struct deadline_runner *runner);

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
/* Do as many calls of that kind hang as may hang at once? */
bool deadline_is_full(const struct deadline_runner *runner, enum deadline_kind kind);

/*
 * The number of the last abandoned call (0: there was none), and whether a call still hangs: a caller
 * does not repeat a call while the first one hangs.
 */
uint64_t deadline_last_stuck(const struct deadline_runner *runner);
bool deadline_is_stuck(const struct deadline_runner *runner, uint64_t call);

#endif
