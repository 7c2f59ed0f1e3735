/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_RECORD_TIMELINE_H
#define BPFPROF_CMD_RECORD_TIMELINE_H

/*
 * A timeline among the files of `bpfprof record`: each task and each call of an actor of the workers
 * that are recorded, put away as it ends and written in the end. All functions take NULL for a
 * recording that wants none; what went wrong is said.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"

struct bpfprof_task_id;
struct bpfprof_title_event;
struct buf;
struct profile;
struct record_options;
struct record_timeline;
struct sampler;

extern const struct counter record_timeline_counters[];

/*
 * Of a sampler that has started; borrows it and options. path: what the file will be called, as far
 * as that is known. Looks at the workers that are there. 0 or -errno.
 */
int record_timeline_new(struct record_timeline **ret, struct sampler *sampler,
			const struct record_options *options, const char *path, uint64_t start_ns);
void record_timeline_free(struct record_timeline *timeline);

void record_timeline_title(struct record_timeline *timeline,
			   const struct bpfprof_title_event *event);
/* ts_ns: when it ended. */
void record_timeline_exit(struct record_timeline *timeline, const struct bpfprof_task_id *task,
			  uint64_t ts_ns);

/* After sampling has stopped. 0 or -errno. */
int record_timeline_finish(struct record_timeline *timeline, uint64_t end_ns);
/* profile: of the same recording, for the CPU time of tasks. 0 or -errno. */
int record_timeline_write(struct record_timeline *timeline, const char *path,
			  const struct profile *profile);

#endif
