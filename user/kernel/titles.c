// SPDX-License-Identifier: Apache-2.0
#include "kernel/titles.h"

#include <bpf/libbpf.h>
#include <string.h>

#include "kernel/session.h"
#include "bpfprof.skel.h"

static void clear(struct bpf_map *map)
{
	size_t size = bpf_map__key_size(map);
	char key[BPFPROF_TITLE_BYTES];

	while (!bpf_map__get_next_key(map, NULL, key, size) &&
	       !bpf_map__delete_elem(map, key, size, 0))
		;
}

void titles_judge(struct session *session, const struct bpfprof_title_event *event, bool wanted)
{
	bool is_long = strnlen(event->title, sizeof(event->title)) >= BPFPROF_TITLE_SHORT;
	struct bpf_map *map = is_long ? session->skel->maps.long_title_verdicts
				      : session->skel->maps.title_verdicts;
	size_t size = bpf_map__key_size(map);
	uint32_t verdict = wanted ? BPFPROF_TITLE_WANTED : BPFPROF_TITLE_UNWANTED;

	if (event->verdict == verdict)
		return;
	if (!bpf_map__update_elem(map, event->title, size, &verdict, sizeof(verdict), BPF_ANY))
		return;
	clear(map);
	bpf_map__update_elem(map, event->title, size, &verdict, sizeof(verdict), BPF_ANY);
}

uint32_t titles_lost(const struct session *session, const struct bpfprof_task_id *task)
{
	struct bpfprof_titled value;

	if (bpf_map__lookup_elem(session->skel->maps.titled, &task->pid, sizeof(task->pid), &value,
				 sizeof(value), 0) ||
	    value.start_ns != task->start_ns)
		return 0;
	return value.lost;
}

void titles_each_lost(const struct session *session,
		      void (*each)(void *arg, const struct bpfprof_task_id *task, uint32_t lost),
		      void *arg)
{
	struct bpf_map *map = session->skel->maps.titled;
	struct bpfprof_task_id task = { 0 };
	struct bpfprof_titled value;
	uint32_t i, last = 0;

	/* At most as many times as the map has room: new elements must not prolong this. */
	for (i = 0; i < bpf_map__max_entries(map); i++) {
		if (bpf_map__get_next_key(map, i ? &last : NULL, &task.pid, sizeof(task.pid)))
			return;
		last = task.pid;
		if (bpf_map__lookup_elem(map, &last, sizeof(last), &value, sizeof(value), 0))
			continue;
		task.tid = task.pid;
		task.start_ns = value.start_ns;
		if (value.lost)
			each(arg, &task, value.lost);
	}
}

void titles_finish(struct session *session, const struct bpfprof_task_id *task)
{
	struct bpfprof_titled value = { .start_ns = task->start_ns, .done = 1 };

	bpf_map__update_elem(session->skel->maps.titled, &task->pid, sizeof(task->pid), &value,
			     sizeof(value), BPF_ANY);
}

void titles_forget(struct session *session, uint32_t pid)
{
	bpf_map__delete_elem(session->skel->maps.titled, &pid, sizeof(pid), 0);
}
