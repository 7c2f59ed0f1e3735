/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_ARENA_H
#define BPFPROF_KERNEL_ARENA_H

/*
 * Hands out slices of a big array that BPF programs read (unwind rows,
 * mappings). A buddy allocator: sizes are rounded up to a power of two times the
 * smallest slice. A freed slice rests for ARENA_REST_NS before it is handed out
 * again, so that a program that still searches it never meets another's rows.
 */

#include <stdint.h>

#define ARENA_REST_NS 100000000ULL

struct arena;

/* nr entries in all, a power of two times min_slice. 0, -EINVAL or -ENOMEM. */
int arena_new(struct arena **ret, uint32_t nr, uint32_t min_slice);
void arena_free(struct arena *arena);

/* First entry of a slice of at least nr entries, or -ENOSPC. */
int64_t arena_take(struct arena *arena, uint32_t nr, uint64_t now_ns);
void arena_give(struct arena *arena, uint32_t first, uint64_t now_ns);
uint32_t arena_nr_used(const struct arena *arena); /* entries in slices that are taken or resting */

#endif
