// SPDX-License-Identifier: Apache-2.0
#include "formats/pprof_labels.h"

#include <stddef.h>

#include "base/strtab.h"

enum kind { TEXT, NUMBER, GIL, CONTAINER, CALL, COMM, RANK };

#define OF(kind, name, member)                                                                     \
	{                                                                                          \
		name, kind, offsetof(struct pprof_labelled, member)                                \
	}

static const struct {
	const char *name;
	enum kind kind;
	size_t off;
} all[PPROF_NR_LABELS] = {
	OF(COMM, "comm", process.comm),
	OF(NUMBER, "pid", process.pid),
	OF(TEXT, "host", process.host),
	OF(NUMBER, "pod_pid", process.pod_pid),
	OF(CONTAINER, "container", container.name),
	OF(CONTAINER, "container_id", container.id),
	OF(CONTAINER, "pod", container.pod),
	OF(CONTAINER, "namespace", container.namespace),
	OF(CONTAINER, "image", container.image),
	OF(CONTAINER, "ray_cluster", container.ray_cluster),
	OF(CONTAINER, "ray_group", container.ray_group),
	OF(CONTAINER, "ray_node_type", container.ray_node_type),
	OF(RANK, "rank", process.ranks.rank),
	OF(TEXT, "local_rank", process.ranks.local_rank),
	OF(TEXT, "world_size", process.ranks.world_size),
	OF(TEXT, "slurm_job", process.ranks.slurm_job),
	OF(TEXT, "slurm_node", process.ranks.slurm_node),
	OF(TEXT, "slurm_task", process.ranks.slurm_task),
	OF(TEXT, "ray_task", process.task),
	OF(TEXT, "ray_role", process.ray_role),
	OF(GIL, "gil", sample.gil),
	OF(TEXT, "thread", sample.thread),
	OF(NUMBER, "tid", sample.tid),
	OF(CALL, "kernel", call.kernel),
	OF(CALL, "stream", call.stream),
	OF(CALL, "communicator", call.comm),
	OF(CALL, "op", call.op),
	OF(CALL, "nccl_rank", call.rank),
};

void pprof_labels_init(struct pprof_labels *labels, struct strtab *strings)
{
	size_t i;

	for (i = 0; i < PPROF_NR_LABELS; i++)
		labels->keys[i] = strtab_add(strings, all[i].name);
	labels->held = strtab_add(strings, "held");
}

/*
 * Labels of the process come first. So a rank after a call belongs to NCCL, unless the call has a
 * rank already. The same holds for a second comm: files of bpfprof 0.1.0 name the communicator so.
 */
static uint32_t *call_label(struct pprof_labelled *to, enum kind kind)
{
	if (kind == COMM && to->process.comm)
		return &to->call.comm;
	if (kind == RANK && to->in_call && !to->call.rank)
		return &to->call.rank;
	return NULL;
}

void pprof_labels_take(const struct pprof_labels *labels, struct pprof_labelled *to, uint32_t key,
		       uint32_t text, uint64_t number)
{
	uint32_t *field, *of_call;
	size_t i;

	for (i = 0; i < PPROF_NR_LABELS; i++)
		if (labels->keys[i] == key)
			break;
	if (i == PPROF_NR_LABELS)
		return;
	field = (uint32_t *)((char *)to + all[i].off);
	of_call = call_label(to, all[i].kind);
	if (of_call || all[i].kind == CALL)
		to->in_call = to->has_call = true;
	if (all[i].kind == CONTAINER)
		to->has_container = true;
	if (of_call)
		*of_call = text;
	else if (all[i].kind == NUMBER)
		*field = number <= UINT32_MAX ? (uint32_t)number : 0;
	else if (all[i].kind == GIL)
		*field = text == labels->held ? PROFILE_GIL_HELD : PROFILE_GIL_NOT_HELD;
	else
		*field = text;
}
