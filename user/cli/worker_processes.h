/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CLI_WORKER_PROCESSES_H
#define BPFPROF_CLI_WORKER_PROCESSES_H

/*
 * The processes that worker patterns find (proc/worker_match.h), sleeping ones too, by looking at every
 * process of the node. They come, go and change their titles meanwhile.
 */

#include <stddef.h>

struct deadline_runner;
struct pids;

/* As we see them, ascending; each is told of on standard error. 0, -E2BIG, -ENOMEM or -errno. */
int worker_processes_find(struct pids *ret, struct deadline_runner *runner, char *const *patterns,
			  size_t nr_patterns);

#endif
