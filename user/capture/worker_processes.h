/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_WORKER_PROCESSES_H
#define BPFPROF_CAPTURE_WORKER_PROCESSES_H

/*
 * The processes that worker patterns match (ray/worker_match.h), sleeping ones too, among all processes
 * of the node. Processes start, exit and change their titles meanwhile.
 */

#include <stddef.h>
#include <sys/types.h>

struct deadline_runner;
struct pids;
struct proc_usage;

/* As we see them, ascending; each is reported on standard error. 0, -E2BIG, -ENOMEM or -errno. */
int worker_processes_find(struct pids *ret, struct deadline_runner *runner, char *const *patterns,
			  size_t nr_patterns);

/*
 * Calls found() for each, with its name and the pattern, until that returns another value than 0, which
 * is the result. Else as above.
 */
int worker_processes_each(struct deadline_runner *runner, char *const *patterns, size_t nr_patterns,
			  int (*found)(void *arg, pid_t pid, const struct proc_usage *usage,
				       const char *name, const char *pattern),
			  void *arg);
/* Reports on standard error that it is watched. */
void worker_processes_report(pid_t pid, const char *name, const char *pattern);

#endif
