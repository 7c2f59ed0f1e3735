// SPDX-License-Identifier: Apache-2.0
#include "profile/aggregate_rollover.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strtab.h"
#include "container/containers.h"
#include "proc/ranks.h"
#include "profile/aggregate.h"
#include "profile/stack_set.h"

#define MAX_LEAVES 4

/* The input that equals a sample of the process. */
struct rolled_over {
	struct bpfprof_sample sample;
	struct aggregate_input input;
	struct container container;
	struct ranks ranks;
};

static const char *text(const struct aggregate_view *from, uint32_t id)
{
	return from->strings ? strtab_get(from->strings, id) : "";
}

static void ranks_fill(struct ranks *ranks, const struct aggregate_view *from,
		       const struct profile_ranks *ids)
{
	size_t i;

	for (i = 0; i < RANKS_NR; i++)
		snprintf(ranks->texts[i], sizeof(ranks->texts[i]), "%s", text(from, ids->texts[i]));
}

static struct container container_of_ids(const struct aggregate_view *from,
					 const struct aggregate_container *ids, uint8_t source)
{
	struct container container = {
		.id = text(from, ids->id),
		.name = text(from, ids->name),
		.pod = text(from, ids->pod),
		.namespace = text(from, ids->namespace),
		.pod_uid = text(from, ids->pod_uid),
		.image = text(from, ids->image),
		.ray_cluster = text(from, ids->ray_cluster),
		.ray_group = text(from, ids->ray_group),
		.ray_node_type = text(from, ids->ray_node_type),
		.rootfs = "",
		.source = source,
	};
	size_t i;

	for (i = 0; i < RANKS_NR; i++)
		container.ranks[i] = text(from, ids->ranks.texts[i]);
	return container;
}

static void process_fill(struct rolled_over *c, const struct aggregate_view *from,
			 const struct aggregate_process *process)
{
	c->sample.task.pid = process->pid;
	c->sample.task.start_ns = process->start_ns;
	memcpy(c->sample.leader_comm, process->comm, sizeof(c->sample.leader_comm));
	c->input.own_pid = process->agent_pid;
	c->input.program = process->program;
	c->input.ns_context.mnt_ns = process->mnt_ns;
	c->input.ns_context.pod_pid = process->pod_pid;
	c->input.ns_context.agent_pid = process->agent_pid;
	if (process->title)
		c->input.title = from->titles + process->title;
	if (process->role)
		c->input.role = from->titles + process->role;
	if (process->container && process->container <= from->nr_containers) {
		c->container = container_of_ids(from, &from->containers[process->container - 1],
						process->container_source);
		c->input.container = &c->container;
	}
	if (process->ranks && process->ranks <= from->nr_ranks) {
		ranks_fill(&c->ranks, from, &from->ranks[process->ranks - 1]);
		c->input.ranks = &c->ranks;
	}
}

/*
 * Restores the frames of the sample: leaves are separate, addresses have no process, and the marker
 * at the root is the reason again.
 */
static size_t frames_fill(struct rolled_over *c, struct aggregate *to,
			  const struct aggregate_view *from, uint32_t stack,
			  uint64_t leaves[MAX_LEAVES], uint64_t *user)
{
	const uint64_t *frames = from->frames;
	size_t nr_leaves = 0;
	uint32_t at = stack;

	for (; at && from->labels && aggregate_frame_kind(frames[at]) == BPFPROF_FRAME_LABEL &&
	       frames[at] & BPFPROF_FRAME_MASK && nr_leaves < MAX_LEAVES;
	     at = from->callers[at])
		leaves[nr_leaves++] = aggregate_label(
			to, strtab_get(from->labels, (uint32_t)(frames[at] & BPFPROF_FRAME_MASK)));
	c->input.user = user;
	c->input.stop = BPFPROF_STOP_COMPLETE;
	for (; at; at = from->callers[at]) {
		if (aggregate_frame_kind(frames[at]) == BPFPROF_FRAME_LABEL) { /* `[no stack]` */
			c->input.stop = BPFPROF_STOP_INVALID;
			break;
		}
		if (aggregate_frame_kind(frames[at]) == BPFPROF_FRAME_MARKER &&
		    !from->callers[at]) {
			c->input.stop = (uint32_t)(frames[at] & BPFPROF_FRAME_MASK);
			break;
		}
		user[c->input.nr_user] = frames[at];
		if (aggregate_frame_kind(frames[at]) == BPFPROF_FRAME_NATIVE_VA)
			user[c->input.nr_user] =
				frames[at] & (~BPFPROF_FRAME_MASK | AGGREGATE_VA_MASK);
		c->input.nr_user++;
	}
	return nr_leaves;
}

int aggregate_rollover(struct aggregate *to, const struct aggregate_view *from,
		       const struct aggregate_call_at *at, struct aggregate_call_at *ret)
{
	struct rolled_over c = { 0 };
	__cleanup(free_mem) uint64_t *user = NULL;
	uint64_t leaves[MAX_LEAVES];
	size_t nr_leaves;

	if (at->process >= from->nr_processes || at->stack >= from->nr_stacks ||
	    at->thread >= from->nr_threads)
		return -EINVAL;
	user = calloc(stack_depth(from->callers, at->stack) + 1UL, sizeof(*user));
	if (!user)
		return -ENOMEM;
	c.input.sample = &c.sample;
	c.input.again = true;
	process_fill(&c, from, &from->processes[at->process]);
	c.sample.task.tid = at->tid ? at->tid : c.sample.task.pid;
	memcpy(c.sample.comm, from->threads[at->thread], sizeof(c.sample.comm));
	if (at->gil != PROFILE_GIL_UNKNOWN)
		c.sample.python_flags = BPFPROF_PYTHON_GIL_KNOWN;
	if (at->gil == PROFILE_GIL_HELD)
		c.sample.python_flags |= BPFPROF_PYTHON_GIL_HELD;
	nr_leaves = frames_fill(&c, to, from, at->stack, leaves, user);
	return aggregate_add_call(to, &c.input, leaves, nr_leaves, ret);
}

int64_t aggregate_rollover_sample(struct aggregate *to, const struct aggregate *from,
				  int64_t sample)
{
	struct aggregate_call_at at, there;
	struct aggregate_view view;
	uint32_t sleeper;
	int err;

	aggregate_view_get(from, &view);
	if (sample < 0 || (uint64_t)sample >= view.nr_samples)
		return -EINVAL;
	at = (struct aggregate_call_at){
		.process = view.samples[sample].process,
		.stack = view.samples[sample].stack,
		.tid = view.samples[sample].tid,
		.thread = view.samples[sample].thread,
		.gil = view.samples[sample].gil,
	};
	sleeper = view.samples[sample].sleeper;
	err = aggregate_rollover(to, &view, &at, &there);
	return err ? err : aggregate_hold(to, &there, sleeper);
}
