// SPDX-License-Identifier: Apache-2.0
#include "profile/assemble.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "profile/aggregate.h"
#include "profile/profile.h"

uint32_t assemble_label(struct profile *p, const struct strtab *labels, uint32_t id)
{
	if (!id)
		return 0;
	return strtab_add(p->strings, labels ? strtab_get(labels, id) : STRTAB_OVERFLOW);
}

static uint32_t string_copy(struct profile *p, const struct aggregate_view *view, uint32_t id)
{
	return strtab_add(p->strings, strtab_get(view->strings, id));
}

static int containers_copy(struct profile *p, const struct aggregate_view *view)
{
	const struct aggregate_container *from;
	size_t i;

	p->containers = calloc(view->nr_containers + 1, sizeof(*p->containers));
	if (!p->containers)
		return -ENOMEM;
	for (i = 0; i < view->nr_containers; i++) {
		from = &view->containers[i];
		p->containers[i] = (struct profile_container){
			.id = string_copy(p, view, from->id),
			.name = string_copy(p, view, from->name),
			.pod = string_copy(p, view, from->pod),
			.namespace = string_copy(p, view, from->namespace),
			.image = string_copy(p, view, from->image),
			.ray_cluster = string_copy(p, view, from->ray_cluster),
			.ray_group = string_copy(p, view, from->ray_group),
			.ray_node_type = string_copy(p, view, from->ray_node_type),
		};
	}
	p->nr_containers = view->nr_containers;
	return 0;
}

/* A title or role of a process, 0 if it has none. */
static uint32_t title_copy(struct strtab *strings, const struct aggregate_view *view, uint32_t at)
{
	return at ? strtab_add(strings, view->titles + at) : 0;
}

/*
 * Chooses each variable separately: a process may have its rank from its environment and the job
 * from its container.
 */
static struct profile_ranks ranks_copy(struct profile *p, const struct aggregate_view *view,
				       const struct aggregate_process *process)
{
	struct profile_ranks own = { 0 }, outer = { 0 }, ret;
	size_t i;

	if (process->ranks)
		own = view->ranks[process->ranks - 1];
	if (process->container)
		outer = view->containers[process->container - 1].ranks;
	for (i = 0; i < RANKS_NR; i++)
		ret.texts[i] = string_copy(p, view, own.texts[i] ?: outer.texts[i]);
	return ret;
}

static int samples_copy(struct profile *p, const struct aggregate_view *view)
{
	size_t nr_samples = view->nr_samples + view->nr_call_samples, i;
	const struct aggregate_sample *from;

	p->samples = calloc(nr_samples + 1, sizeof(*p->samples));
	if (!p->samples)
		return -ENOMEM;
	for (i = 0; i < view->nr_samples; i++) {
		from = &view->samples[i];
		if (!from->count && !from->value_ns)
			continue;
		p->samples[p->nr_samples++] = (struct profile_sample){
			.process = from->process,
			.stack = from->stack,
			.tid = from->tid,
			.gil = from->gil,
			.sleeper = from->sleeper,
			.thread = strtab_add(p->strings, view->threads[from->thread]),
			.count = from->count,
			.value_ns = from->value_ns,
			.entry = (uint32_t)i + 1,
		};
	}
	return 0;
}

static int processes_copy(struct profile *p, const struct aggregate_view *view)
{
	const struct aggregate_process *from;
	struct profile_process *to;
	size_t i;

	to = p->processes = calloc(view->nr_processes + 1, sizeof(*to));
	if (!to)
		return -ENOMEM;
	for (i = 0; i < view->nr_processes; i++, to++) {
		from = &view->processes[i];
		to->pid = from->agent_pid;
		to->kernel_pid = from->pid;
		to->comm = strtab_add(p->strings, from->comm);
		to->ray_role = title_copy(p->strings, view, from->role);
		to->task = title_copy(p->strings, view, from->title);
		to->title = to->task ? to->task : to->comm;
		to->nr_threads = from->nr_threads;
		to->pod_pid = from->pod_pid;
		to->container = from->container;
		if (view->strings)
			to->ranks = ranks_copy(p, view, from);
	}
	p->nr_processes = view->nr_processes;
	return 0;
}

/* Copies samples of calls behind the ordinary samples. */
static int calls_copy(struct profile *p, const struct aggregate_view *view, bool even_none)
{
	const struct aggregate_call_sample *from;
	const struct profile_call *call;
	size_t i;

	if (!view->nr_call_samples && !even_none)
		return 0;
	p->calls = calloc(view->nr_calls + 1, sizeof(*p->calls));
	p->call_values = calloc(p->nr_samples + view->nr_call_samples + 1, sizeof(*p->call_values));
	if (!p->calls || !p->call_values)
		return -ENOMEM;
	for (i = 0; i < view->nr_calls; i++) {
		call = &view->calls[i];
		p->calls[i] = (struct profile_call){
			.function = assemble_label(p, view->labels, call->function),
			.kernel = assemble_label(p, view->labels, call->kernel),
			.stream = assemble_label(p, view->labels, call->stream),
			.comm = assemble_label(p, view->labels, call->comm),
			.rank = assemble_label(p, view->labels, call->rank),
			.op = assemble_label(p, view->labels, call->op),
		};
	}
	p->nr_calls = view->nr_calls;
	for (i = 0; i < view->nr_call_samples; i++) {
		from = &view->call_samples[i];
		memcpy(p->call_values[p->nr_samples], from->values, sizeof(from->values));
		p->samples[p->nr_samples++] = (struct profile_sample){
			.process = from->at.process,
			.stack = from->at.stack,
			.tid = from->at.tid,
			.thread = strtab_add(p->strings, view->threads[from->at.thread]),
			.gil = from->at.gil,
			.call = from->call,
			.count = from->values[PROFILE_CALLS],
			.value_ns = from->values[PROFILE_BLOCKED_NS],
		};
	}
	return 0;
}

int assemble(struct profile *p, const struct aggregate_view *view, bool calls)
{
	int err = samples_copy(p, view);

	if (!err)
		err = processes_copy(p, view);
	if (!err)
		err = calls_copy(p, view, calls);
	return err ? err : containers_copy(p, view);
}
