/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_KERNEL_MEMORY_H
#define BPFPROF_KERNEL_KERNEL_MEMORY_H

/*
 * The kernel's memory, read by a BPF program that is loaded for it: needs CAP_BPF and CAP_PERFMON. A
 * read of what is not mapped fails; none blocks.
 */

#include <stdint.h>

#include "kernel/kernel_view.h"

struct kernel_memory;

/* Loads the programs. 0 or -errno: the kernel refuses them, or lacks what they use. */
int kernel_memory_open(struct kernel_memory **ret);
void kernel_memory_close(struct kernel_memory *memory); /* NULL is fine */
uint64_t kernel_memory_map_bytes(const struct kernel_memory *memory); /* of its BPF maps */

/* Borrowed. own_inode in it is that of the last kernel_memory_own_inode(). */
const struct kernel_view *kernel_memory_view(const struct kernel_memory *memory);
/* The address of the inode of a file that we have open, into the view's layout. 0, -EBADF. */
int kernel_memory_own_inode(struct kernel_memory *memory, int fd);
/* Where the paths of process pid (of our pid namespace) begin. 0, -ESRCH (gone, or ending), -errno. */
int kernel_memory_root(struct kernel_memory *memory, uint32_t pid, struct bpfprof_task_root *ret);

#endif
