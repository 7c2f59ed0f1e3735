// SPDX-License-Identifier: Apache-2.0
#include "kernel/titles.h"

#include <bpf/libbpf.h>

#include "kernel/session.h"
#include "bpfprof.skel.h"

static void clear(struct bpf_map *map)
{
	char key[BPFPROF_TITLE_BYTES];

	while (!bpf_map__get_next_key(map, NULL, key, sizeof(key)) &&
	       !bpf_map__delete_elem(map, key, sizeof(key), 0))
		;
}

void titles_judge(struct session *session, const struct bpfprof_title_event *event, bool wanted)
{
	struct bpf_map *map = session->skel->maps.title_verdicts;
	uint32_t verdict = wanted ? BPFPROF_TITLE_WANTED : BPFPROF_TITLE_UNWANTED;

	if (event->verdict == verdict)
		return;
	if (!bpf_map__update_elem(map, event->title, sizeof(event->title), &verdict,
				  sizeof(verdict), BPF_ANY))
		return;
	clear(map);
	bpf_map__update_elem(map, event->title, sizeof(event->title), &verdict, sizeof(verdict),
			     BPF_ANY);
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
