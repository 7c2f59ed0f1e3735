/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_SECONDS_H
#define BPFPROF_PROFILE_SECONDS_H

/*
 * This list says how often each entry of an aggregate was counted in each second. Samples come nearly in the order of
 * time. They wait in a small array, which is sorted and coded when it is full. The code has a run for each second: the
 * number of entries and the second, then for each entry the difference to the one before it, shifted left by one, with
 * 1 added if its count follows. Other entries have the count 1, so most entries take one byte. A second may have several
 * runs. The memory is bounded; when it is used up, further samples have no second, and are counted.
 */

#include <stddef.h>
#include <stdint.h>

#define SECONDS_RUN_MAX 2048U /* entries of a run */

struct buf;
struct seconds;

struct seconds_pair {
	uint32_t entry, count;
};

/* Entries that were counted in a second, ascending, each once. */
struct seconds_run {
	uint32_t second, nr;
	struct seconds_pair pairs[SECONDS_RUN_MAX];
};

/* The coded runs take max_bytes at most; 40 KiB more are fixed. 0 or -ENOMEM. */
int seconds_new(struct seconds **ret, size_t max_bytes);
void seconds_free(struct seconds *seconds);
void seconds_add(struct seconds *seconds, uint32_t second, uint32_t entry);
/* Codes the samples that wait; due before the runs are read. */
void seconds_flush(struct seconds *seconds);
/* Acts as if max_bytes were reached. */
void seconds_freeze(struct seconds *seconds);
size_t seconds_bytes(const struct seconds *seconds);
uint64_t seconds_nr_lost(const struct seconds *seconds); /* samples without a second */
/* The coded runs, to be read with seconds_run_take(); borrowed until the next change. */
const uint8_t *seconds_runs(const struct seconds *seconds, const uint8_t **ret_end);

void seconds_run_add(struct buf *dst, const struct seconds_run *run);
/*
 * Takes a run from *at, which moves; the bytes are not trusted. 1; 0: a run without entries, or the end; -EBADMSG: cut,
 * too large, or entries out of order.
 */
int seconds_run_take(const uint8_t **at, const uint8_t *end, struct seconds_run *run);

#endif
