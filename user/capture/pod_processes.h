/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_POD_PROCESSES_H
#define BPFPROF_CAPTURE_POD_PROCESSES_H

/*
 * The processes of the containers that a filter names, among all processes of the node: some 0.1 ms
 * for each with a container that was not met before. Processes start and exit meanwhile.
 */

#include <stddef.h>
#include <sys/types.h>

struct capture_options;
struct container_filter;
struct containers;
struct pids;

/*
 * pod_pids: only those that have one of these numbers in their own pid namespace; without
 * any, all. As we see them, ascending. 0 or -errno.
 */
int pod_processes_find(struct pids *ret, struct containers *containers,
		       const struct container_filter *filter, const pid_t *pod_pids,
		       size_t nr_pod_pids);

/*
 * For a command line with -p and --pod: its pids, as the pods see them, become pids as we see them,
 * which ret owns. Reports what is wrong; a status of base/exit_status.h. Needs no sampler.
 */
int pod_processes_resolve(struct pids *ret, struct capture_options *options);
/* The same; without -p, the pids become those of all processes there. */
int pod_processes_resolve_all(struct pids *ret, struct capture_options *options);
/* Reports that no process matches, or none with one of these pids. EXIT_NO_TARGET. */
int pod_processes_none(struct containers *containers, const struct container_filter *filter,
		       const pid_t *pod_pids, size_t nr_pod_pids);

#endif
