/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_RECORD_TIMELINE_H
#define BPFPROF_CMD_RECORD_TIMELINE_H

/*
 * A timeline among the files of `bpfprof record`: each task and each call of an actor of the workers
 * that are recorded, stored when it ends, and written at the end. All functions take NULL for a
 * recording without a timeline; errors are reported.
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
 * For a sampler that has started; borrows it and options. path: the name of the file, as far as it is
 * known. Reads the titles of all workers. 0 or -errno.
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
