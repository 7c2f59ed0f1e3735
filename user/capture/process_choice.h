/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_PROCESS_CHOICE_H
#define BPFPROF_CAPTURE_PROCESS_CHOICE_H

/*
 * Chooses samples of a sampler that takes all, by the rules of record: a process is chosen if a pid or
 * a worker pattern names it, without any of them all are; containers and pods then exclude processes
 * that live elsewhere.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "capture/container_filter.h"

struct aggregate_input;
struct buf;
struct sampler;
struct workers;

/* As the user asked for it. */
struct process_choice {
	pid_t *pids; /* with pods, as these see them */
	size_t nr_pids;
	struct container_filter containers;
	char **workers;
	size_t nr_workers;
};

void process_choice_fini(struct process_choice *choice);
bool process_choice_is_set(const struct process_choice *choice);

/* A choice in force. Zeroed: all processes are wanted. */
struct process_filter {
	const struct process_choice *choice; /* borrowed */
	uint32_t group; /* of session_target_add(), for it alone */
	struct workers *workers; /* NULL without patterns */
	bool report; /* report the workers that were found */
};

/*
 * Finds the processes of the pids, and their descendants. 0; -ENOENT: there is no such process,
 * -EINVAL: pids are ambiguous here (a pid namespace of our own), both with a
 * sentence added to why; or -errno. To be closed after success.
 */
int process_filter_open(struct process_filter *filter, struct sampler *sampler,
			const struct process_choice *choice, uint32_t group, struct buf *why);
void process_filter_close(struct process_filter *filter, struct sampler *sampler);
bool process_filter_wants(struct process_filter *filter, struct sampler *sampler,
			  const struct aggregate_input *input);

#endif
