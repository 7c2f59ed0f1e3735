/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_VMAS_H
#define BPFPROF_KERNEL_VMAS_H

/*
 * The executable mappings of a process, read by a BPF iterator: needs neither ptrace nor
 * /proc/PID/maps. Under a deadline, since it waits for the process's mmap_lock.
 */

#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"

struct deadline_runner;
struct session;

#define VMAS_DEADLINE_MS 200
#define VMAS_MAX_BYTES (2U << 20)

enum vmas_which {
	VMAS_EXECUTABLE = 0,
	VMAS_ALL_PARTS = 1, /* of files, readable ones, too */
	VMAS_ROOT = 2, /* as path of each file the root folder of the process */
};

/* path is "" where there is none. Pointers are good during the call only. */
typedef void (*vma_fn)(void *arg, const struct bpfprof_vma_record *record, const char *path);

/*
 * Calls fn for every such mapping of pid. Number of them; -ESRCH no such
 * process, or one without memory; -ETIMEDOUT; -E2BIG after the first VMAS_MAX_BYTES were passed to fn; -errno.
 * *ret_cost_ns: CPU time that it took.
 */
int vmas_read(struct session *session, struct deadline_runner *runner, uint32_t pid,
	      enum vmas_which which, vma_fn fn, void *arg, uint64_t *ret_cost_ns);

#endif
