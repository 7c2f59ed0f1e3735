// SPDX-License-Identifier: Apache-2.0
/* Reads the kernel's maps of hooked calls and sorts their entries. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "base/vec.h"
#include "cuda/functions.h"
#include "gpu/job.h"
#include "gpu/monitor.h"
#include "gpu/report.h"
#include "gpu/waits.h"
#include "kernel/probes/gpu_maps.h"
#include "kernel/probes/gpu_waits_map.h"

bool gpu_monitor_wants(const struct gpu_monitor *watch, const struct bpfprof_gpu_key *key)
{
	return !watch->chosen || call_table_is_described(watch->table, key->pid, key->start_ns);
}

/* Appends an element to an array of the snapshot, or notes that memory was short. */
#define APPEND(snapshot, array, element)                                                           \
	do {                                                                                       \
		if (vec_grow((snapshot)->array, (snapshot)->nr_##array + 1,                        \
			     (snapshot)->cap_##array, VEC_BOUNDED))                                \
			(snapshot)->no_memory = true;                                              \
		else                                                                               \
			(snapshot)->array[(snapshot)->nr_##array++] = (element);                   \
	} while (0)

static void add_count(struct gpu_snapshot *snapshot, const struct call_table_count *count)
{
	if (!snapshot->only || gpu_monitor_wants(snapshot->only, &count->key))
		APPEND(snapshot, counts, *count);
}

/*
 * The call that the thread is in. In a garbage collection it is the call of a finalizer, if there
 * is one: the thread waits for that call.
 */
static const struct bpfprof_gpu_open *open_choose(const struct bpfprof_gpu_thread *thread)
{
	size_t i;

	for (i = 0; i < thread->depth && i < BPFPROF_GPU_MAX_OPEN; i++)
		if (gpu_function(thread->open[i].key.function)->wire.kind != GPU_KIND_GC)
			return &thread->open[i];
	return &thread->open[0];
}

bool gpu_snapshot_is_waiting(const struct bpfprof_gpu_open *open)
{
	const uint32_t uncounted =
		BPFPROF_CALL_OUTSIDE | BPFPROF_CALL_NESTED | BPFPROF_CALL_TRACE_ONLY;

	return !(open->flags & uncounted) &&
	       gpu_function(open->key.function)->wire.flags & BPFPROF_GPU_BLOCKS;
}

static void add_thread(struct gpu_snapshot *snapshot, uint32_t tid,
		       const struct bpfprof_gpu_thread *thread)
{
	const struct bpfprof_gpu_open *chosen = open_choose(thread);
	struct gpu_open_call call = { .tid = tid,
				      .groups = thread->groups,
				      .grouped = thread->grouped };
	uint32_t i;

	memcpy(call.thread, thread->comm, BPFPROF_COMM_LEN);
	for (i = 0; i < thread->depth && i < BPFPROF_GPU_MAX_OPEN; i++) {
		call.open = thread->open[i];
		if (gpu_snapshot_is_waiting(&call.open))
			APPEND(snapshot, waiting, call);
	}
	call.open = *chosen;
	if (thread->depth && !(chosen->flags & BPFPROF_CALL_OUTSIDE))
		APPEND(snapshot, open, call);
}

static int compare_process(uint32_t pid_a, uint64_t start_a, uint32_t pid_b, uint64_t start_b)
{
	return GPU_ORDER(pid_a, pid_b) ?: GPU_ORDER(start_a, start_b);
}

static int compare_key_process(const struct bpfprof_gpu_key *a, const struct bpfprof_gpu_key *b)
{
	return compare_process(a->pid, a->start_ns, b->pid, b->start_ns);
}

/* Sorts by process, then by calls in falling order, so that tables need no sort of their own. */
static int compare_counts(const void *a, const void *b)
{
	const struct call_table_count *x = a, *y = b;

	return compare_key_process(&x->key, &y->key) ?: GPU_ORDER(y->count.calls, x->count.calls)
	       ?: memcmp(&x->key, &y->key, sizeof(x->key));
}

static int compare_open(const void *a, const void *b)
{
	const struct bpfprof_gpu_open *x = &((const struct gpu_open_call *)a)->open;
	const struct bpfprof_gpu_open *y = &((const struct gpu_open_call *)b)->open;

	return compare_key_process(&x->key, &y->key) ?: GPU_ORDER(x->begin_ns, y->begin_ns);
}

static int compare_comms(const void *a, const void *b)
{
	const struct gpu_comm_entry *x = a, *y = b;

	return compare_process(x->key.pid, x->key.start_ns, y->key.pid, y->key.start_ns)
		       ?: GPU_ORDER(x->key.comm, y->key.comm);
}

const struct gpu_comm_entry *gpu_snapshot_comm(const struct gpu_snapshot *snapshot,
					       const struct bpfprof_gpu_key *key)
{
	const struct gpu_comm_entry wanted = {
		.key = { .start_ns = key->start_ns, .comm = key->handle, .pid = key->pid }
	};

	if (!snapshot->nr_comms)
		return NULL;
	return bsearch(&wanted, snapshot->comms, snapshot->nr_comms, sizeof(*snapshot->comms),
		       compare_comms);
}

void gpu_snapshot_waits(const struct gpu_snapshot *snapshot, struct call_table *table,
			struct call_table_count *counts, size_t nr)
{
	size_t first = 0, i, k;

	for (i = 0; i < snapshot->nr_waiting; i++) {
		const struct bpfprof_gpu_open *open = &snapshot->waiting[i].open;

		if (snapshot->ts_ns <= open->begin_ns)
			continue;
		while (first < nr && compare_key_process(&counts[first].key, &open->key) < 0)
			first++;
		for (k = first; k < nr && !compare_key_process(&counts[k].key, &open->key) &&
				memcmp(&counts[k].key, &open->key, sizeof(open->key));
		     k++)
			;
		/* The map had no room for the key, or its process does not count. */
		if (k == nr || compare_key_process(&counts[k].key, &open->key))
			continue;
		counts[k].count.ns += snapshot->ts_ns - open->begin_ns;
		if (table)
			call_table_waits(table, open, snapshot->waiting[i].tid, snapshot->ts_ns);
	}
}

void gpu_snapshot_comm_text(void *arg, const struct bpfprof_gpu_key *key, char comm[24],
			    char rank[16])
{
	const struct gpu_comm_entry *entry = gpu_snapshot_comm(arg, key);

	/* Its hash is the same on all ranks; an address says nothing outside of its process. */
	if (entry && entry->comm.hash)
		snprintf(comm, 24, "0x%" PRIx64, (uint64_t)entry->comm.hash);
	else if (key->handle == BPFPROF_GPU_OTHER)
		snprintf(comm, 24, "[other]");
	else
		snprintf(comm, 24, "0x%" PRIx64, (uint64_t)key->handle);
	if (entry && entry->comm.size)
		snprintf(rank, 16, "%u", entry->comm.rank);
}

static void sort(void *data, size_t nr, size_t size, int (*by)(const void *a, const void *b))
{
	if (nr)
		qsort(data, nr, size, by);
}

/*
 * Drops calls that are over. The counts, which are read later, include the whole time of a call
 * that has returned: it would count twice. A thread that ended in a call does not hang any more.
 */
static void drop_over(struct gpu_open_call *calls, size_t *nr, const struct session *session)
{
	const struct gpu_open_call *call;
	size_t left = 0, i;

	for (i = 0; i < *nr; i++) {
		call = &calls[i];
		if (gpu_maps_thread_is_in(session, call->tid, &call->open) &&
		    !gpu_maps_thread_has_ended(session, call->open.key.pid, call->tid))
			calls[left++] = *call;
	}
	*nr = left;
}

static void add_part(void *arg, const struct call_table_count *part)
{
	add_count(arg, part);
}

/* Splits counts by kernel if a handle had several kernels one after the other. */
static void split(struct gpu_snapshot *snapshot, const struct call_table *table)
{
	size_t nr = snapshot->nr_counts, left = 0, i;
	struct call_table_count count;

	for (i = 0; i < nr; i++) { /* add_part() may move the array */
		count = snapshot->counts[i];
		call_table_split(table, &count, 0, add_part, snapshot);
		snapshot->counts[i].count.calls = count.count.calls;
	}
	for (i = 0; i < snapshot->nr_counts; i++)
		if (snapshot->counts[i].count.calls)
			snapshot->counts[left++] = snapshot->counts[i];
	snapshot->nr_counts = left;
}

void gpu_monitor_device_idle(void *arg, const struct bpfprof_gpu_waits *process)
{
	const struct gpu_monitor *watch = arg;
	uint32_t pid = process->pid;

	if (watch->chosen && !call_table_is_described(watch->table, pid, process->start_ns))
		return;
	call_table_device_idle(watch->table, pid, process->start_ns, process->device_idle_ns,
			       process->idle_ns);
	if (watch->waits)
		gpu_waits_process(watch->waits, process);
}

/* Reads the threads first: a call that is open then is among the counts. */
static void maps_read(struct gpu_snapshot *snapshot, const struct gpu_monitor *watch)
{
	const struct session *session = &watch->sampler->reader.session;
	struct gpu_map_walk walk;

	gpu_map_begin(&walk, session, GPU_MAP_THREADS);
	while (gpu_map_next(&walk))
		add_thread(snapshot, walk.key.tid, &walk.value.thread);
	gpu_map_begin(&walk, session, GPU_MAP_COUNTS);
	while (gpu_map_next(&walk))
		add_count(snapshot, &(struct call_table_count){ .key = walk.key.call,
								.count = walk.value.count });
	if (snapshot->only)
		split(snapshot, watch->table);
	drop_over(snapshot->open, &snapshot->nr_open, session);
	drop_over(snapshot->waiting, &snapshot->nr_waiting, session);
	gpu_map_begin(&walk, session, GPU_MAP_COMMS);
	while (gpu_map_next(&walk))
		APPEND(snapshot, comms,
		       ((struct gpu_comm_entry){ walk.key.comm, walk.value.comm }));
	gpu_map_begin(&walk, session, GPU_MAP_MEMORY);
	while (gpu_map_next(&walk))
		APPEND(snapshot, memory,
		       ((struct gpu_memory_entry){ walk.key.process, walk.value.memory }));
	gpu_maps_counters(session, snapshot->counters);
}

static int take(struct gpu_snapshot *snapshot, const struct gpu_monitor *watch)
{
	const struct bpfprof_gpu_key *key;
	size_t i;

	snapshot->nr_counts = snapshot->nr_open = snapshot->nr_comms = snapshot->nr_memory = 0;
	snapshot->nr_waiting = 0;
	snapshot->no_memory = false;
	snapshot->ts_ns = time_monotonic_ns();
	maps_read(snapshot, watch);
	if (watch->choose)
		watch->choose(watch->arg, snapshot);
	sort(snapshot->counts, snapshot->nr_counts, sizeof(*snapshot->counts), compare_counts);
	for (i = 0; i < snapshot->nr_counts; i++) {
		key = &snapshot->counts[i].key;
		if (!i || compare_key_process(key, &snapshot->counts[i - 1].key))
			call_table_process(watch->table, key->pid, key->start_ns);
	}
	gpu_waits_map_each(&watch->sampler->reader.session, gpu_monitor_device_idle, (void *)watch);
	sort(snapshot->open, snapshot->nr_open, sizeof(*snapshot->open), compare_open);
	sort(snapshot->waiting, snapshot->nr_waiting, sizeof(*snapshot->waiting), compare_open);
	sort(snapshot->comms, snapshot->nr_comms, sizeof(*snapshot->comms), compare_comms);
	return snapshot->no_memory ? -ENOMEM : 0;
}

int gpu_snapshot_take(struct gpu_snapshot *snapshot, const struct gpu_monitor *watch)
{
	snapshot->only = watch;
	return take(snapshot, watch);
}

int gpu_snapshot_take_all(struct gpu_snapshot *snapshot, const struct gpu_monitor *watch)
{
	snapshot->only = NULL;
	return take(snapshot, watch);
}

void gpu_snapshot_fini(struct gpu_snapshot *snapshot)
{
	free(snapshot->counts);
	free(snapshot->open);
	free(snapshot->waiting);
	free(snapshot->comms);
	free(snapshot->memory);
	*snapshot = (struct gpu_snapshot){ 0 };
}
