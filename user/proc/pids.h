/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_PIDS_H
#define BPFPROF_PROC_PIDS_H

/* Lists of process ids, and a walk over all processes. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct proc_usage;

#define PIDS_MAX 65536

/* All zero is an empty list; pids_fini() frees it. */
struct pids {
	pid_t *list;
	size_t nr, cap;
};

/* 0, -E2BIG (PIDS_MAX are there) or -ENOMEM. */
int pids_add(struct pids *pids, pid_t pid);
void pids_sort(struct pids *pids); /* ascending */
void pids_fini(struct pids *pids);
bool pids_have(const pid_t *list, size_t nr, pid_t pid);

/*
 * Calls fn for each process in /proc, kernel threads and zombies too, in no order; processes may start
 * and exit meanwhile. A result of fn other than 0 ends the walk and is returned. 0 or -errno.
 */
int pids_each(int (*fn)(void *arg, pid_t pid, const struct proc_usage *usage), void *arg);

#endif
