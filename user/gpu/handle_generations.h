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

#include "base/counters.h"
#include "gpu_calls.h"

struct handle_generations;
struct stats_reasons;

#define HANDLE_GENERATIONS_MAX 32768 /* ends of handles and of keys together */
#define HANDLE_GENERATIONS_OF_ONE 4 /* this part of it is one process's */
#define HANDLE_GENERATION_MAX 4095 /* of a handle */

/* Of a key: calls were counted in all when a generation of its handle ended. */
struct handle_generations_end {
	uint64_t calls;
	uint32_t generation;
};

/* 0 or -ENOMEM. */
int handle_generations_new(struct handle_generations **ret);
void handle_generations_free(struct handle_generations *reuse);
/* What there is room for is divided by share, from the beginning on. */
void handle_generations_bound(struct handle_generations *reuse, unsigned int share);

/* The present generation of a handle has ended at that time: which it is from now on; 0: there is no room. */
uint32_t handle_generations_end(struct handle_generations *reuse, uint32_t pid, uint64_t start_ns,
				uint64_t handle, uint64_t ts_ns);
/* So many calls with that key had been counted then: the same; 0: there is no room. */
uint32_t handle_generations_key_end(struct handle_generations *reuse,
				    const struct bpfprof_gpu_key *key, uint64_t calls);

/* Which generation of a handle a launch at that time was of. */
uint32_t handle_generations_at(const struct handle_generations *reuse, uint32_t pid,
			       uint64_t start_ns, uint64_t handle, uint64_t ts_ns);
/* In their order; borrowed until the next end. */
const struct handle_generations_end *handle_generations_ends(const struct handle_generations *reuse,
							     const struct bpfprof_gpu_key *key,
							     size_t *ret_nr);
size_t handle_generations_nr(
	const struct handle_generations *reuse); /* of keys there are no more ends than that */

/* Nothing that has ended is asked for any more, of processes of which over() says so. */
void handle_generations_forget(struct handle_generations *reuse,
			       bool (*over)(const void *arg, uint32_t pid, uint64_t start_ns),
			       const void *arg);
extern const struct counter handle_generations_counters[];
void handle_generations_lost(const struct handle_generations *reuse, struct stats_reasons *dst);

#endif
