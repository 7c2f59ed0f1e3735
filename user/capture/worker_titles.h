/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_WORKER_TITLES_H
#define BPFPROF_CAPTURE_WORKER_TITLES_H

/* Finds the Ray workers that run already, by their titles. */

#include <stdbool.h>
#include <stdint.h>

struct bpfprof_task_id;
struct sampler;

struct worker_titles_ask {
	bool (*wants)(void *arg, const char *title); /* called for every worker: must be quick */
	/* own_pid: in our pid namespace; ts_ns: when the title was read, or a little earlier. */
	void (*found)(void *arg, const struct bpfprof_task_id *task, uint32_t own_pid,
		      const char *title, uint64_t ts_ns);
	void *arg;
	uint64_t nr_unread; /* processes that could not be read */
};

/* Reads all processes. 0 or -errno: not all were read. */
int worker_titles_each(struct sampler *sampler, struct worker_titles_ask *ask);

#endif
