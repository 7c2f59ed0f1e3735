/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_REMOTE_H
#define BPFPROF_KERNEL_REMOTE_H

/*
 * Memory of processes as a cache of pages, filled by a BPF iterator many pages at a time: needs no
 * ptrace rights and stops nobody. A read may fault and so block for ever (FUSE, userfaultfd, a
 * held mmap_lock), and while it does the target cannot map memory: so a child process reads, which
 * is killed when it takes too long. What it hung on is unreadable then, the rest is read.
 * After REMOTE_MAX_HUNG of these a process is given up: only what is here already can be read.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/deadline.h"
#include "unwind/reader.h"

struct remote;
struct remote_child;
struct session;

#define REMOTE_DEADLINE_MS 250
#define REMOTE_MAX_HUNG 3
#define REMOTE_MAX_PAGES 16384 /* kept of one process: 64 MiB */

/* The child, for all processes, one after another. To be made early: it is a fork. */
int remote_child_new(struct remote_child **ret, struct session *session); /* 0 or -errno */
void remote_child_free(struct remote_child *child);
/* Reads are waited for longer while the child is ready to run and gets no CPU: so much in all. */
void remote_child_patience(struct remote_child *child, unsigned int ready_ms);

/*
 * The first of nr slots in which no child hangs: hung holds the one that was killed in each, or 0,
 * and those that have died meanwhile are waited for here. -EBUSY if all hang.
 */
int remote_slot_find(pid_t *hung, int nr);

/* Memory of the process that the thread tid belongs to. 0 or -ENOMEM. */
int remote_new(struct remote **ret, struct remote_child *child, uint32_t tid);
void remote_free(struct remote *remote);

/* From deadline_ns of CLOCK_MONOTONIC on (0: never) and beyond max_pages nothing is read any more. */
void remote_limit(struct remote *remote, uint64_t deadline_ns, size_t max_pages);

/* For the walkers: whole reads only. Borrowed. */
struct unwind_reader *remote_reader(struct remote *remote);

/* Says that [va, va + len) will be read soon, */
void remote_want(struct remote *remote, uint64_t va, uint64_t len);
/* and reads all that was said, in as few passes as possible. */
void remote_fetch(struct remote *remote);
/*
 * From now on (until told otherwise) what is not here is not read but wanted, and reads of it fail:
 * so that the walks of many threads, tried again and again, share their passes. True: some did
 * since the last call.
 */
bool remote_defer(struct remote *remote, bool defer);
/* Forgets what was read, so that it is read anew; not what hung. */
void remote_forget(struct remote *remote);

struct remote_counts {
	uint64_t nr_passes, nr_pages, nr_unreadable; /* pages */
	uint64_t nr_hung; /* reads that were given up */
	struct deadline_wait hung; /* what the last of them waited for */
	uint64_t nr_refused; /* pages not asked for, after too many of those or beyond limits */
	uint64_t read_ns; /* time spent waiting for the kernel */
};

const struct remote_counts *remote_counts(const struct remote *remote);

#endif
