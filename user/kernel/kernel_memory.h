/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_KERNEL_MEMORY_H
#define BPFPROF_KERNEL_KERNEL_MEMORY_H

/*
 * Reads the kernel's memory with a BPF program that is loaded for it: needs CAP_BPF and
 * CAP_PERFMON. A read of unmapped memory fails; no read blocks.
 */

#include <stdint.h>

#include "kernel/kernel_view.h"

struct kernel_memory;

/* Loads the programs. 0, or -errno: the kernel refuses them, or lacks a feature. */
int kernel_memory_open(struct kernel_memory **ret);
void kernel_memory_close(struct kernel_memory *memory); /* NULL is fine */
uint64_t kernel_memory_map_bytes(const struct kernel_memory *memory); /* of its BPF maps */

/* Borrowed. Its own_inode is from the last kernel_memory_own_inode(). */
const struct kernel_view *kernel_memory_view(const struct kernel_memory *memory);
/* Stores the address of the inode of one of our open files in the view's layout. 0, -EBADF. */
int kernel_memory_own_inode(struct kernel_memory *memory, int fd);
/* The root folder of process pid (of our pid namespace). 0, -ESRCH (ended, or ending), -errno. */
int kernel_memory_root(struct kernel_memory *memory, uint32_t pid, struct bpfprof_task_root *ret);

#endif
