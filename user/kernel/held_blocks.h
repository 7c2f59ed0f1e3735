/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_HELD_BLOCKS_H
#define BPFPROF_KERNEL_HELD_BLOCKS_H

/*
 * The kernel's maps of allocations, of a session with the option allocations: bpf/allocations.h says
 * which blocks are in the sample.
 */

#include <stdbool.h>
#include <stdint.h>

#include "allocations.h"

struct held_blocks;
struct session;

/* False: the block is not wanted any more. */
typedef bool (*held_block_fn)(void *arg, uint32_t pid, const struct bpfprof_block *block);

/* 0 or -errno. */
int held_blocks_new(struct held_blocks **ret, struct session *session, uint64_t sample_bytes);
void held_blocks_free(struct held_blocks *held); /* NULL is fine */
/* Reports all blocks of the sample that are not freed. 0 or -errno. */
int held_blocks_each(struct held_blocks *held, held_block_fn fn, void *arg);
/* Are so many held that the next look has to drop some? */
bool held_blocks_are_many(const struct held_blocks *held);
/* Bytes per sample of new blocks; twice as many from now on. */
uint64_t held_blocks_rate(const struct held_blocks *held);
void held_blocks_double(struct held_blocks *held);
/* Bytes that the held blocks stand for, by the bytes per sample as each was added: to compare with itself a little later. */
uint64_t held_blocks_bytes(const struct held_blocks *held);
/* The cost of the probes in a process since they were put in; zeros if there are none. */
struct bpfprof_alloc_cost held_blocks_cost(const struct held_blocks *held, uint32_t pid);
/* Of the newest block. */
uint64_t held_blocks_last_id(const struct held_blocks *held);
uint64_t held_blocks_count(const struct held_blocks *held, enum bpfprof_alloc_counter counter);

#endif
