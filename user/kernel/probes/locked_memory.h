/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_PROBES_LOCKED_MEMORY_H
#define BPFPROF_KERNEL_PROBES_LOCKED_MEMORY_H

/*
 * While the kernel makes or removes a uprobe, it waits for the mmap_lock of each process that maps the file, and
 * no process of the machine can fork (kernel/events/uprobes.c, register_for_each_vma(), dup_mmap_sem). A process may
 * keep that lock for ever, for example when another one reads its memory from a file of a dead server. So the
 * locks are looked at before. Not seen are memory whose process has ended or executed a program meanwhile, processes
 * outside of our pid namespace, and the locks of kernels with PREEMPT_RT.
 */

#include <stdatomic.h>
#include <stdint.h>

/*
 * The pid (in the outermost pid namespace) of a process whose lock is held at each of several looks in two seconds, by
 * the same thread or by readers: in a busy process writers follow each other. 0: there is none; or -errno. prog_fd: the
 * program locked_memory. Returns at once if no lock is held.
 */
int64_t locked_memory_find(int prog_fd);

/* Set prog_fd. For several threads at once. */
struct locked_memory_patience {
	int prog_fd;
	_Atomic uint64_t over_until_ns;
};

/*
 * Waits, before probes are removed, until no lock is held, for some ten seconds at most; after that, for a minute,
 * not again. arg: struct locked_memory_patience; for closer_new().
 */
void locked_memory_wait(void *arg);

#endif
