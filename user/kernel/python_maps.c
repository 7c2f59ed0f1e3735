// SPDX-License-Identifier: Apache-2.0
#include "kernel/python_maps.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "bpfprof.h"
#include "kernel/arena.h"
#include "kernel/session.h"
#include "proc/processes.h"
#include "bpfprof.skel.h"

#define CLEAN_EVERY 8192 /* new code objects */
#define BATCH 2048

struct python_maps {
	struct session *session;
	struct arena *slots;
	uint32_t next_id;
	uint32_t nr_slots;
	uint32_t nr_new; /* code objects since the last cleaning */
};

int python_maps_new(struct python_maps **ret, struct session *session)
{
	struct python_maps *maps = calloc(1, sizeof(*maps));
	int err;

	if (!maps)
		return -ENOMEM;
	maps->session = session;
	maps->next_id = 1;
	maps->nr_slots = bpf_map__max_entries(session->skel->maps.pythons);
	err = arena_new(&maps->slots, maps->nr_slots, 1);
	if (!err && arena_take(maps->slots, 1, 0)) /* 0 means none: never handed out */
		err = -EINVAL;
	if (err) {
		python_maps_free(maps);
		return err;
	}
	*ret = maps;
	return 0;
}

void python_maps_free(struct python_maps *maps)
{
	if (!maps)
		return;
	arena_free(maps->slots);
	free(maps);
}

int python_maps_layout(struct python_maps *maps, uint32_t nr,
		       const struct bpfprof_python_layout *layout)
{
	int fd = bpf_map__fd(maps->session->skel->maps.layouts);

	return bpf_map_update_elem(fd, &nr, layout, BPF_ANY) ? -errno : 0;
}

int python_maps_set(struct python_maps *maps, struct process *process, uint64_t now_ns)
{
	int fd = bpf_map__fd(maps->session->skel->maps.pythons);
	struct bpfprof_python value = { .runtime = process->python_runtime,
					.start_ns = process->start_ns,
					.layout = process->python_layout,
					.pid = process->pid };
	int64_t slot;

	if (!process->python_slot) {
		slot = arena_take(maps->slots, 1, now_ns);
		if (slot < 0)
			return (int)slot;
		process->python_slot = (uint32_t)slot;
		process->python_id = maps->next_id++;
	}
	value.id = process->python_id;
	return bpf_map_update_elem(fd, &process->python_slot, &value, BPF_ANY) ? -errno : 0;
}

void python_maps_clear(struct python_maps *maps, struct process *process, uint64_t now_ns)
{
	int fd = bpf_map__fd(maps->session->skel->maps.pythons);
	struct bpfprof_python none = { 0 };

	if (!process->python_slot)
		return;
	bpf_map_update_elem(fd, &process->python_slot, &none, BPF_ANY);
	arena_give(maps->slots, process->python_slot, now_ns);
	process->python_slot = 0;
	process->python_id = 0;
}

/* Ids of the Python processes that there are, as a bit each. */
static uint8_t *alive_ids(const struct python_maps *maps, const struct processes *processes)
{
	uint8_t *alive = calloc(maps->next_id / 8 + 1, 1);
	const struct process *process;

	for (process = processes_first(processes); process && alive; process = process->hh.next)
		alive[process->python_id / 8] |= (uint8_t)(1U << process->python_id % 8);
	return alive;
}

static bool is_alive(const struct python_maps *maps, const uint8_t *alive, uint32_t id)
{
	return id < maps->next_id && alive[id / 8] >> id % 8 & 1;
}

/*
 * Throws out code objects of processes that are gone. Where that is too little, every other
 * one of the rest too: what is still in use is sent again.
 */
static void clean(struct python_maps *maps, const struct processes *processes)
{
	int fd = bpf_map__fd(maps->session->skel->maps.codes);
	__cleanup(free_mem) struct bpfprof_code_key *keys = calloc(BATCH, sizeof(*keys));
	__cleanup(free_mem) struct bpfprof_code_known *values = calloc(BATCH, sizeof(*values));
	__cleanup(free_mem) uint8_t *alive = alive_ids(maps, processes);
	uint32_t in = 0, out = 0, nr, i, kept = 0, max, round;
	bool first;
	int err;

	max = bpf_map__max_entries(maps->session->skel->maps.codes) / 4 * 3;
	for (round = 0; keys && values && alive && round < 2; round++) {
		first = true;
		kept = 0;
		do {
			nr = BATCH;
			err = bpf_map_lookup_batch(fd, first ? NULL : &in, &out, keys, values, &nr,
						   NULL);
			if (err && err != -ENOENT)
				break;
			for (i = 0; i < nr; i++) {
				if (is_alive(maps, alive, keys[i].python) && !(round && i & 1))
					kept++;
				else
					bpf_map_delete_elem(fd, &keys[i]);
			}
			in = out;
			first = false;
		} while (!err);
		if (kept < max)
			break;
	}
}

void python_maps_code(struct python_maps *maps, const struct processes *processes)
{
	if (++maps->nr_new < CLEAN_EVERY)
		return;
	maps->nr_new = 0;
	clean(maps, processes);
}
