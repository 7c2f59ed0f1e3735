// SPDX-License-Identifier: Apache-2.0
/* Adds the time of tasks of asyncio to a recording: beside the time of threads, under a frame of its own. */
#include <stdio.h>
#include <string.h>

#include "capture/task_sampler.h"
#include "cmd/recording.h"
#include "options/options.h"
#include "profile/aggregate.h"

#define PARKED_WAIT "parked"
#define LEAF_BYTES 64

void recording_tasks(struct recording *rec, const struct aggregate_input *input,
		     const struct task_time *time)
{
	bool parked = time->parked && !rec->options->parked;
	uint64_t frames[AGGREGATE_MAX_STACK], leaf;
	struct aggregate_input tasks = *input;
	struct aggregate_call_at at;
	char text[LEAF_BYTES];

	recording_see(rec, input->sample->task.pid, input->own_pid, input->sample->task.start_ns);
	snprintf(text, sizeof(text), "[%s]", parked ? PARKED_WAIT : time->wait);
	leaf = aggregate_label(rec->aggregate, text);
	tasks.nr_user = parked ? 0 : input->nr_user;
	if (tasks.nr_user > AGGREGATE_MAX_STACK / 2)
		tasks.nr_user = AGGREGATE_MAX_STACK / 2;
	if (tasks.nr_user)
		memcpy(frames, input->user, tasks.nr_user * sizeof(*frames));
	frames[tasks.nr_user++] = aggregate_label(rec->aggregate, PROFILE_TASKS_FRAME);
	tasks.user = frames;
	tasks.again = true; /* no stack was sampled */
	if (!aggregate_add_call(rec->aggregate, &tasks, &leaf, 1, &at))
		aggregate_count(rec->aggregate, &at, time->count, time->ns);
}
