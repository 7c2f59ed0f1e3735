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
#include "python/codes.h"
#include "bpfprof.skel.h"

#define CLEAN_EVERY 8192 /* new code objects */
#define BATCH 2048

struct python_maps {
	struct session *session;
	struct arena *slots;
	uint32_t next_id;
	uint32_t nr_slots;
	uint32_t nr_new; /* code objects since the last cleaning */
	uint64_t nr_full; /* the counter of the kernel then */
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

struct alive {
	const uint8_t *bits;
	uint32_t nr;
};

static bool is_alive(void *arg, uint32_t id)
{
	const struct alive *alive = arg;

	return id < alive->nr && alive->bits[id / 8] >> id % 8 & 1;
}

/* Deletes what is dead, and of the rest every other one if asked to. How many stay. */
static uint32_t codes_delete(const struct python_maps *maps, struct alive *alive, bool half)
{
	int fd = bpf_map__fd(maps->session->skel->maps.codes), err;
	__cleanup(free_mem) struct bpfprof_code_key *keys = calloc(BATCH, sizeof(*keys));
	__cleanup(free_mem) struct bpfprof_code_known *values = calloc(BATCH, sizeof(*values));
	uint32_t in = 0, out = 0, nr, i, kept = 0;
	bool first = true;

	do {
		nr = BATCH;
		if (!keys || !values)
			return 0;
		err = bpf_map_lookup_batch(fd, first ? NULL : &in, &out, keys, values, &nr, NULL);
		if (err && err != -ENOENT)
			break;
		for (i = 0; i < nr; i++) {
			if (is_alive(alive, keys[i].python) && !(half && i & 1))
				kept++;
			else
				bpf_map_delete_elem(fd, &keys[i]);
		}
		in = out;
		first = false;
	} while (!err);
	return kept;
}

/* From now on every process may have new elements again. */
static void quotas_renew(const struct python_maps *maps, const struct processes *processes)
{
	int fd = bpf_map__fd(maps->session->skel->maps.pythons);
	struct bpfprof_python value;
	const struct process *process;

	for (process = processes_first(processes); process; process = process->hh.next) {
		if (!process->python_slot ||
		    bpf_map_lookup_elem(fd, &process->python_slot, &value) || !value.nr_codes)
			continue;
		value.nr_codes = 0;
		bpf_map_update_elem(fd, &process->python_slot, &value, BPF_ANY);
	}
}

void python_maps_code(struct python_maps *maps)
{
	maps->nr_new++;
}

void python_maps_clean(struct python_maps *maps, const struct processes *processes,
		       struct codes *codes)
{
	uint32_t max = bpf_map__max_entries(maps->session->skel->maps.codes);
	uint64_t counters[BPFPROF_NR_COUNTERS], full;
	__cleanup(free_mem) uint8_t *bits = NULL;
	struct alive alive;

	session_counters(maps->session, counters);
	full = counters[BPFPROF_COUNT_CODES_FULL];
	if (maps->nr_new < CLEAN_EVERY && full == maps->nr_full)
		return;
	bits = alive_ids(maps, processes);
	if (!bits)
		return;
	alive = (struct alive){ .bits = bits, .nr = maps->next_id };
	/* What is still in use of the half is sent again. */
	if (codes_delete(maps, &alive, false) > max / 4 * 3)
		codes_delete(maps, &alive, true);
	codes_forget(codes, is_alive, &alive);
	quotas_renew(maps, processes);
	maps->nr_new = 0;
	maps->nr_full = full;
}
