/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_MEMORY_RESIDENT_H
#define BPFPROF_MEMORY_RESIDENT_H

/*
 * What the anonymous memory of one process consists of. The kernel's count (RssAnon) is exact; held
 * pages are estimated from a sample. Pages that the process has had since before the recording, or
 * since its fork, have no stack. What does not add up is drift.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/process_map.h"
#include "bpfprof.h"
#include "findings/findings.h"
#include "proc/rss.h"

/* The time from which on a process has its pages. */
enum resident_begin {
	RESIDENT_BEFORE, /* it is older than the recording */
	RESIDENT_FORK, /* of a process that executed no program since; its first pages are its parent's, too */
	RESIDENT_EXEC, /* its memory began empty */
};

struct resident {
	struct hash_node node;
	struct process_key key;
	uint32_t own_pid; /* in our own pid namespace, 0: it has none there */
	char name[BPFPROF_COMM_LEN];
	enum resident_begin begin;
	bool settled; /* old_bytes is known */
	bool ended;
	uint64_t old_bytes; /* without a stack at the begin */
	uint64_t freed_bytes; /* of these, freed */
	uint64_t swap_bytes; /* swapped out at the begin */
	uint64_t swap_most_bytes; /* the most that was swapped out since */
	uint64_t copied_bytes; /* copies of pages of the fork that it has made, freed ones too */
	bool limit_known;
	uint64_t limit_bytes; /* of its cgroup, 0: none */
	struct memory_series series; /* the kernel's count of each look */
	/* Of the last look: the kernel's count at rss_ns, and pages that were allocated before. */
	struct proc_rss rss;
	uint64_t rss_ns;
	bool alive; /* its count could be read */
	uint64_t held_bytes; /* with a stack */
	uint64_t first_bytes; /* of these, not copies */
	double moved_share; /* resident_moved_share() */
	uint64_t moved_bytes; /* of pages that the kernel moved, if all of them are still held */
	uint64_t lost_bytes; /* held, without a stack: its sample was lost */
};

/* A look begins: reads the kernel's count; nothing was found yet. */
void resident_begin(struct resident *resident);
/*
 * The part of moved_bytes that is still held, 0 to 1. No event tells when such a page is freed, so the rest of
 * the kernel's count bounds it. The function adds that part to held_bytes.
 */
double resident_moved_share(struct resident *resident);
/* A look ends. freed_bytes: of memory from before the recording. */
void resident_settle(struct resident *resident, uint64_t freed_bytes);
/* Reads the limit of its cgroup once, unless it holds little. host_root: NULL is "/". */
void resident_limit(struct resident *resident, const char *host_root);
/* It executes a program: nothing of its old memory is left. */
void resident_execute(struct resident *resident);

/*
 * Resident bytes left of those without a stack. Those that are swapped out are not among them; they are again once they come
 * back out of the swap cache, which raises no event.
 */
uint64_t resident_old(const struct resident *resident);
/* Bytes in swap that a fork has from its parent. */
uint64_t resident_shared_swap(const struct resident *resident);
/* RssAnon less all that is known of it. */
int64_t resident_drift(const struct resident *resident);

#endif
