/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_HANDLE_GENERATIONS_H
#define BPFPROF_GPU_HANDLE_GENERATIONS_H

/*
 * Generations of kernel handles. The driver gives a handle to one kernel after another: the
 * generations that have ended are numbered from 1, and the present one is 0. For each key of
 * launches the table knows how many calls had been counted when a generation ended. Bounded, for
 * one process and in all; ends without room are counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "gpu_calls.h"

struct handle_generations;
struct stats_reasons;

#define HANDLE_GENERATIONS_MAX 32768 /* ends of handles and of keys together */
#define HANDLE_GENERATIONS_OF_ONE 4 /* one process may use this part of it */
#define HANDLE_GENERATION_MAX 4095 /* of a handle */

/* The calls of a key that had been counted when a generation of its handle ended. */
struct handle_generations_end {
	uint64_t calls;
	uint32_t generation;
};

/* 0 or -ENOMEM. */
int handle_generations_new(struct handle_generations **ret);
void handle_generations_free(struct handle_generations *generations);
/* Divides the limits by share. Called before all else. */
void handle_generations_bound(struct handle_generations *generations, unsigned int share);

/*
 * The present generation of a handle has ended at ts_ns. Returns its number; 0: there is no room.
 */
uint32_t handle_generations_end(struct handle_generations *generations, uint32_t pid,
				uint64_t start_ns, uint64_t handle, uint64_t ts_ns);
/* The same for a key, of which so many calls had been counted then. */
uint32_t handle_generations_key_end(struct handle_generations *generations,
				    const struct bpfprof_gpu_key *key, uint64_t calls);

/* The generation that a handle had at ts_ns. */
uint32_t handle_generations_at(const struct handle_generations *generations, uint32_t pid,
			       uint64_t start_ns, uint64_t handle, uint64_t ts_ns);
/* The ends of a key in their order, borrowed until the next end. */
const struct handle_generations_end *
handle_generations_ends(const struct handle_generations *generations,
			const struct bpfprof_gpu_key *key, size_t *ret_nr);
/* The number of all ends of keys is not larger than this. */
size_t handle_generations_nr(const struct handle_generations *generations);

/* Forgets the ended generations of processes for which over() is true. */
void handle_generations_forget(struct handle_generations *generations,
			       bool (*over)(const void *arg, uint32_t pid, uint64_t start_ns),
			       const void *arg);
extern const struct counter handle_generations_counters[];
void handle_generations_lost(const struct handle_generations *generations,
			     struct stats_reasons *dst);

#endif
