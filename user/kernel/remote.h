/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_REMOTE_H
#define BPFPROF_KERNEL_REMOTE_H

/*
 * Memory of processes as a cache of pages, filled by a BPF iterator many pages at a time: needs no
 * ptrace rights and stops no process. A read may fault and so block for ever (FUSE, userfaultfd, a
 * held mmap_lock), and while it does the target cannot map memory: so a child process reads, which
 * is killed when it takes too long. The page on which it hung is unreadable then, the rest is read.
 * After REMOTE_MAX_HUNG hung reads of a process only pages that are here already can be read.
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

/* The child reads all processes, one after another. It is a fork: make it while our memory is small. */
int remote_child_new(struct remote_child **ret, struct session *session); /* 0 or -errno */
void remote_child_free(struct remote_child *child);
/* Waits ready_ms longer, in all reads together, while the child is ready to run and gets no CPU. */
void remote_child_patience(struct remote_child *child, unsigned int ready_ms);

uint64_t
remote_child_cpu_ns(const struct remote_child *child); /* CPU time of the one that runs now */

/*
 * The first of nr slots in which no child hangs. hung[i] is the killed child of slot i, or 0; killed
 * children that have died meanwhile are reaped here. -EBUSY if all hang.
 */
int remote_slot_find(pid_t *hung, int nr);

/* Memory of the process that the thread tid belongs to. 0 or -ENOMEM. */
int remote_new(struct remote **ret, struct remote_child *child, uint32_t tid);
void remote_free(struct remote *remote);

/* From deadline_ns of CLOCK_MONOTONIC on (0: never) and beyond max_pages nothing is read any more. */
void remote_limit(struct remote *remote, uint64_t deadline_ns, size_t max_pages);

/* A missing page is read with its neighbours, `pages` in all: a power of two. */
void remote_ahead(struct remote *remote, unsigned int pages);

/* For the walkers: whole reads only. Borrowed. */
struct unwind_reader *remote_reader(struct remote *remote);

/* Wants [va, va + len). */
void remote_want(struct remote *remote, uint64_t va, uint64_t len);
/* Reads all wanted pages, in as few passes as possible. */
void remote_fetch(struct remote *remote);
/*
 * With defer, a page that is not here is wanted instead of read, and the read fails: so the walks of many
 * threads, tried again and again, share their passes. True: a read failed so since the last call.
 */
bool remote_defer(struct remote *remote, bool defer);
/* Drops the pages, so that they are read anew, but for those that hung. */
void remote_forget(struct remote *remote);
/* Does the same, and reads the pages from which something was read, in as few passes as possible. */
void remote_again(struct remote *remote);

/* The addresses of the pages from which something was read. Their number; may exceed max. */
size_t remote_used(const struct remote *remote, uint64_t *vas, size_t max);

struct remote_counts {
	uint64_t nr_passes, nr_pages, nr_unreadable; /* pages */
	uint64_t nr_hung; /* reads that hung */
	struct deadline_wait hung; /* what the last of these waited for */
	uint64_t
		nr_refused; /* pages that were not read, after too many hung reads or beyond limits */
	uint64_t read_ns; /* time spent waiting for the kernel */
};

const struct remote_counts *remote_counts(const struct remote *remote);

#endif
