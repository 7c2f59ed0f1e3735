/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_HANDLE_GENERATIONS_H
#define BPFPROF_GPU_HANDLE_GENERATIONS_H

/*
 * Handles of kernels that were given to another one, again and again: a handle has generations, from 1 on, that
 * have ended, and the present one, 0. Of each key that launches are counted by it is known how
 * many had been counted when a generation ended. Bounded, for one process and in all; what there
 * was no room for is counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gpu_calls.h"

struct gpu_reuse;
struct stats_reasons;

#define GPU_REUSE_MAX 32768 /* ends of handles and of keys together */
#define GPU_REUSE_OF_ONE 4 /* this part of it is one process's */
#define GPU_REUSE_MAX_GENERATION 4095 /* of a handle */

/* Of a key: calls were counted in all when a generation of its handle ended. */
struct gpu_reuse_end {
	uint64_t calls;
	uint32_t generation;
};

/* 0 or -ENOMEM. */
int gpu_reuse_new(struct gpu_reuse **ret);
void gpu_reuse_free(struct gpu_reuse *reuse);
/* What there is room for is divided by share, from the beginning on. */
void gpu_reuse_bound(struct gpu_reuse *reuse, unsigned int share);

/* The present generation of a handle has ended at that time: which it is from now on; 0: there is no room. */
uint32_t gpu_reuse_end(struct gpu_reuse *reuse, uint32_t pid, uint64_t start_ns, uint64_t handle,
		       uint64_t ts_ns);
/* So many calls with that key had been counted then: the same; 0: there is no room. */
uint32_t gpu_reuse_key_end(struct gpu_reuse *reuse, const struct bpfprof_gpu_key *key,
			   uint64_t calls);

/* Which generation of a handle a launch at that time was of. */
uint32_t gpu_reuse_at(const struct gpu_reuse *reuse, uint32_t pid, uint64_t start_ns,
		      uint64_t handle, uint64_t ts_ns);
/* In their order; borrowed until the next end. */
const struct gpu_reuse_end *gpu_reuse_ends(const struct gpu_reuse *reuse,
					   const struct bpfprof_gpu_key *key, size_t *ret_nr);
size_t gpu_reuse_nr(const struct gpu_reuse *reuse); /* of keys there are no more ends than that */

/* Nothing that has ended is asked for any more, of processes of which over() says so. */
void gpu_reuse_forget(struct gpu_reuse *reuse,
		      bool (*over)(const void *arg, uint32_t pid, uint64_t start_ns),
		      const void *arg);
void gpu_reuse_lost(const struct gpu_reuse *reuse, struct stats_reasons *dst);

#endif
