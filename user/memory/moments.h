/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_MEMORY_MOMENTS_H
#define BPFPROF_MEMORY_MOMENTS_H

/*
 * What each stack held at some moments of the run. A moment is a look; the first one, the last one and the
 * one with the most memory are always among them. When there is no room for another moment, every second one
 * goes. Of more than MOMENTS_MAX_LINES stacks, those stay that held the most at any moment. These take at most
 * 1.3 MiB; while a moment is added, each further stack takes up to 64 bytes.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "profile/aggregate.h"

#define MOMENTS_MAX 300
#define MOMENTS_MAX_LINES 1024

struct moment_key {
	uint32_t process, stack; /* of the aggregate */
	/* Shown as the leaf of the stack: the number of a device + 2; 1: the device is not known; 0: none. */
	uint32_t gpu;
};

/* A stack of a process. */
struct moment_line {
	struct hash_node node;
	struct moment_key key;
	struct aggregate_call_at at;
	int64_t now; /* bytes at the moment that is being added */
	int32_t most_kib;
	int32_t kib[MOMENTS_MAX];
};

/* A stack for which there was no room yet. */
struct moment_rest {
	struct aggregate_call_at at;
	uint32_t gpu;
	int64_t bytes;
};

struct memory_moments {
	struct hash_table lines;
	struct moment_rest *rest;
	size_t nr_rest, cap_rest;
	uint64_t start_ns; /* CLOCK_MONOTONIC */
	uint64_t ns[MOMENTS_MAX]; /* since start_ns */
	uint64_t total_kib[MOMENTS_MAX];
	size_t nr, peak;
	uint64_t interval_ns; /* the least between two moments */
	uint64_t nr_over; /* stacks that were left out, at all moments together */
};

void memory_moments_init(struct memory_moments *moments);
void memory_moments_fini(struct memory_moments *moments);
/* Forgets all moments; the time line begins now. */
void memory_moments_begin(struct memory_moments *moments, uint64_t now_ns);
/* Adds to what the stack holds at the moment that memory_moments_end() ends. gpu: as in the key. 0 or -ENOMEM. */
int memory_moments_add(struct memory_moments *moments, const struct aggregate_call_at *at,
		       uint32_t gpu, int64_t bytes);
void memory_moments_end(struct memory_moments *moments, uint64_t ns, uint64_t total_bytes);

#endif
