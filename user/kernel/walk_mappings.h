/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_WALK_MAPPINGS_H
#define BPFPROF_KERNEL_WALK_MAPPINGS_H

/*
 * The walker's view of processes: reads their mappings again when they may have changed, and
 * applies the result (walker_refresh(), walker_learn(), walker_forked(), walker_publish() in
 * walk.h).
 */

#include <stdint.h>

struct bpfprof_vma;
struct images;
struct process;
struct process_mapping;
struct walker;

/* A mapping of process pid from BPF; path may be NULL. */
struct process_mapping walker_mapping_of(struct images *images, uint32_t pid, uint32_t tenant,
					 const struct bpfprof_vma *vma, const char *path);
/* The pid of process in our own pid namespace, 0: it has none. */
uint32_t walker_own_pid(const struct walker *walker, const struct process *process);

#endif
