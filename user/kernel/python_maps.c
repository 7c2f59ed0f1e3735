// SPDX-License-Identifier: Apache-2.0
#include "kernel/python_maps.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "kernel/arena.h"
#include "kernel/session.h"
#include "kernel/tables.h"
#include "proc/processes.h"
#include "python/codes.h"
#include "python/id_tally.h"
#include "python/layout.h"
#include "python/pythons.h"
#include "bpfprof.h"
#include "bpfprof.skel.h"

#define CLEAN_EVERY 8192 /* new code objects */
#define BATCH 2048

struct python_maps {
	struct session *session;
	struct arena *slots;
	uint32_t next_id;
	uint32_t nr_slots;
	uint32_t nr_new; /* code objects since the last cleaning */
	uint64_t nr_full; /* the kernel's counter at that time */
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
	if (!err && arena_take(maps->slots, 1, 0)) /* 0 means none, so it stays taken */
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

/* Replaces the smallest range by this one if this one is larger. */
static void range_put(struct bpfprof_evals *evals, const struct python_range *range)
{
	struct bpfprof_eval_range *least = &evals->range[0];
	size_t i;

	for (i = 1; i < BPFPROF_EVAL_RANGES; i++)
		if (evals->range[i].bytes < least->bytes)
			least = &evals->range[i];
	if (range->bytes > least->bytes)
		*least = (struct bpfprof_eval_range){ .off = range->rva, .bytes = range->bytes };
}

int python_maps_evals(struct python_maps *maps, uint32_t image, const struct python_range *ranges,
		      size_t nr)
{
	int fd = bpf_map__fd(maps->session->skel->maps.evals);
	struct bpfprof_evals evals = { 0 };
	size_t i;

	for (i = 0; i < nr; i++)
		range_put(&evals, &ranges[i]);
	return bpf_map_update_elem(fd, &image, &evals, BPF_ANY) ? -errno : 0;
}

static void slot_clear(struct python_maps *maps, uint32_t *slot, uint64_t now_ns)
{
	int fd = bpf_map__fd(maps->session->skel->maps.pythons);
	struct bpfprof_python none = { 0 };

	if (!*slot)
		return;
	bpf_map_update_elem(fd, slot, &none, BPF_ANY);
	arena_give(maps->slots, *slot, now_ns);
	*slot = 0;
}

/* Takes one slot for each runtime; frees slots of runtimes that have ended. 0 or -ENOSPC. */
static int slots_take(struct python_maps *maps, struct process *process, uint64_t now_ns)
{
	uint32_t i;
	int64_t slot;

	for (i = process->pythons->nr; i < BPFPROF_MAX_RUNTIMES; i++)
		slot_clear(maps, &process->tables->python_slots[i], now_ns);
	for (i = 0; i < process->pythons->nr; i++) {
		if (process->tables->python_slots[i])
			continue;
		slot = arena_take(maps->slots, 1, now_ns);
		if (slot < 0)
			return (int)slot;
		process->tables->python_slots[i] = (uint32_t)slot;
	}
	return 0;
}

int python_maps_set(struct python_maps *maps, struct process *process, uint64_t now_ns)
{
	int fd = bpf_map__fd(maps->session->skel->maps.pythons);
	int err = slots_take(maps, process, now_ns);
	struct bpfprof_python value;
	uint32_t i;

	if (!process->tables->python_id && process->tables->python_slots[0])
		process->tables->python_id = maps->next_id++;
	for (i = process->pythons->nr;
	     i--;) { /* an element points to the next one, so the next one is written first */
		if (!process->tables->python_slots[i])
			continue;
		value = (struct bpfprof_python){
			.runtime = process->pythons->list[i].runtime,
			.start_ns = process->start_ns,
			.id = process->tables->python_id,
			.layout = process->pythons->list[i].layout,
			.pid = process->pid,
			.next = i + 1 < process->pythons->nr ? process->tables->python_slots[i + 1]
							     : 0,
		};
		if (bpf_map_update_elem(fd, &process->tables->python_slots[i], &value, BPF_ANY) &&
		    !err)
			err = -errno;
	}
	return err;
}

int python_maps_async(struct python_maps *maps, struct process *process, uint32_t nr,
		      struct bpfprof_async *async)
{
	int fd = bpf_map__fd(maps->session->skel->maps.asyncs);

	/* An element that stays behind has an id that no other process gets. */
	async->id = process->tables->python_id;
	return bpf_map_update_elem(fd, &process->tables->python_slots[nr], async, BPF_ANY) ? -errno
											   : 0;
}

void python_maps_clear(struct python_maps *maps, struct process *process, uint64_t now_ns)
{
	uint32_t i;

	for (i = 0; i < BPFPROF_MAX_RUNTIMES; i++)
		slot_clear(maps, &process->tables->python_slots[i], now_ns);
	process->tables->python_id = 0;
	process->tables->python_old_id = 0;
	process->tables->async_id = process->tables->async_tries = 0;
	process->tables->async_due_ns = process->tables->async_samples = 0;
	process->tables->has_asyncio = false;
	process->tables->async_mappings = 0;
}

/* Collects the ids of live Python processes, with their old ids, and 0 (none). 0 or -ENOMEM. */
static int ids_collect(struct id_tally *ids, const struct processes *processes, bool old)
{
	const struct process *process;
	int err = id_tally_add(ids, 0);

	for (process = processes_first(processes); process && !err;
	     process = hash_table_next(process)) {
		if (process->tables->python_id)
			err = id_tally_add(ids, process->tables->python_id);
		if (old && process->tables->python_old_id && !err)
			err = id_tally_add(ids, process->tables->python_old_id);
	}
	id_tally_sort(ids);
	return err;
}

static bool is_alive(void *arg, uint32_t id)
{
	return id_tally_find(arg, id) != NULL;
}

/* Code objects in the map by id of their process. */
struct tally {
	const struct id_tally *ids;
	uint32_t all;
	uint32_t many; /* limit for each process */
};

static bool keep_alive(struct tally *tally, uint32_t id, uint32_t i)
{
	struct id_count *count = id_tally_find(tally->ids, id);

	(void)i;
	if (!count)
		return false;
	count->nr++;
	tally->all++;
	return true;
}

static bool keep_share(struct tally *tally, uint32_t id, uint32_t i)
{
	struct id_count *count = id_tally_find(tally->ids, id);

	if (!count || count->nr <= tally->many || i & 1)
		return true;
	count->nr--;
	return false;
}

/* Deletes the code objects that keep() does not want. */
static void codes_delete(const struct python_maps *maps, struct tally *tally,
			 bool (*keep)(struct tally *tally, uint32_t id, uint32_t i))
{
	int fd = bpf_map__fd(maps->session->skel->maps.codes), err = 0;
	__cleanup(free_mem) struct bpfprof_code_key *keys = calloc(BATCH, sizeof(*keys));
	__cleanup(free_mem) struct bpfprof_code_known *values = calloc(BATCH, sizeof(*values));
	uint32_t in = 0, out = 0, nr, i;
	bool first = true;

	while (keys && values && !err) {
		nr = BATCH;
		err = bpf_map_lookup_batch(fd, first ? NULL : &in, &out, keys, values, &nr, NULL);
		if (err && err != -ENOENT)
			break;
		for (i = 0; i < nr; i++)
			if (!keep(tally, keys[i].python, i))
				bpf_map_delete_elem(fd, &keys[i]);
		in = out;
		first = false;
	}
}

/* Sets the quota of each process to its free share. */
static void quotas_renew(const struct python_maps *maps, const struct processes *processes,
			 const struct id_tally *kept)
{
	int fd = bpf_map__fd(maps->session->skel->maps.pythons);
	struct bpfprof_python value;
	const struct process *process;
	const struct id_count *count;

	for (process = processes_first(processes); process; process = hash_table_next(process)) {
		if (!process->tables->python_slots[0] ||
		    bpf_map_lookup_elem(fd, &process->tables->python_slots[0], &value) ||
		    !value.nr_codes)
			continue;
		count = id_tally_find(kept, process->tables->python_id);
		value.nr_codes = count ? count->nr : 0;
		bpf_map_update_elem(fd, &process->tables->python_slots[0], &value, BPF_ANY);
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
	struct id_tally ids = { 0 }, known = { 0 };
	struct tally tally = { .ids = &ids };

	session_counters(maps->session, counters);
	full = counters[BPFPROF_COUNT_CODES_FULL];
	if (maps->nr_new < CLEAN_EVERY && full == maps->nr_full)
		return;
	if (ids_collect(&ids, processes, false) || ids_collect(&known, processes, true))
		goto out;
	codes_delete(maps, &tally, keep_alive);
	/*
	 * The processes with the most code objects lose them; the kernel sends the used ones again.
	 */
	tally.many = tally.all > max / 4 * 3 ? max / 32 : BPFPROF_PYTHON_MAX_CODES / 2;
	codes_delete(maps, &tally, keep_share);
	codes_forget(codes, is_alive, &known); /* frames with old ids may be in flight */
	quotas_renew(maps, processes, &ids);
	maps->nr_new = 0;
	maps->nr_full = full;
out:
	id_tally_fini(&ids);
	id_tally_fini(&known);
}

/*
 * Gives the process another id. Its code objects in the kernel's maps and caches become invalid,
 * and the kernel sends them again.
 */
static void id_renew(struct python_maps *maps, struct process *process, uint64_t now_ns)
{
	process->tables->python_old_id = process->tables->python_id;
	process->tables->python_id = maps->next_id++;
	python_maps_set(maps, process, now_ns);
	maps->nr_new = CLEAN_EVERY; /* the code objects of the old id are useless */
}

static void codes_sweep_alive(const struct processes *processes, struct codes *codes,
			      const uint64_t *frames, size_t nr)
{
	struct id_tally ids = { 0 };

	if (!ids_collect(&ids, processes, true))
		codes_sweep(codes, frames, nr, is_alive, &ids);
	id_tally_fini(&ids);
}

void python_maps_sweep(struct python_maps *maps, struct processes *processes, struct codes *codes,
		       const uint64_t *frames, size_t nr, uint64_t now_ns)
{
	struct process *process;

	for (process = processes_first(processes); process; process = hash_table_next(process))
		process->tables->python_old_id = 0;
	codes_sweep_alive(processes, codes, frames, nr);
	for (process = processes_first(processes); process; process = hash_table_next(process))
		if (process->tables->python_slots[0] &&
		    codes_is_crowded(codes, process->tables->python_id))
			id_renew(maps, process, now_ns);
}
