/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_WALK_MAPPINGS_H
#define BPFPROF_KERNEL_WALK_MAPPINGS_H

/*
 * What the walker knows of processes: their mappings, read again when they may have changed, and what
 * follows from them (walker_refresh(), walker_learn(), walker_forked(), walker_publish() in walk.h).
 */

#include <stdint.h>

struct bpfprof_vma;
struct images;
struct process;
struct process_mapping;
struct walker;

/* A mapping as BPF has met it, of process pid; path may be NULL. */
struct process_mapping walker_mapping_of(struct images *images, uint32_t pid,
					 const struct bpfprof_vma *vma, const char *path);
/* The number of process in our own pid namespace, 0 without one. */
uint32_t walker_own_pid(const struct walker *walker, const struct process *process);

#endif
