// SPDX-License-Identifier: Apache-2.0
/* What the kernel has counted of hooked calls, taken out of its maps and sorted. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "base/vec.h"
#include "gpu/job.h"
#include "gpu/monitor.h"
#include "gpu/waits.h"
#include "kernel/probes/gpu_probes.h"
#include "kernel/probes/gpu_waits_map.h"

bool gpu_monitor_wants(const struct gpu_monitor *watch, const struct bpfprof_gpu_key *key)
{
	return !watch->chosen || call_table_is_described(watch->tally, key->pid, key->start_ns);
}

/* Whether vec_grow() has made room; false is noted. */
static bool has_room(struct gpu_snapshot *picture, int err)
{
	picture->no_memory |= err != 0;
	return !err;
}

static void add_count(void *arg, const struct bpfprof_gpu_key *key,
		      const struct bpfprof_gpu_count *count)
{
	struct gpu_snapshot *picture = arg;

	if (picture->only && !gpu_monitor_wants(picture->only, key))
		return;
	if (!has_room(picture, vec_grow(picture->counts, picture->nr_counts + 1,
					picture->cap_counts, VEC_BOUNDED)))
		return;
	picture->counts[picture->nr_counts++] =
		(struct call_table_count){ .key = *key, .count = *count };
}

/*
 * The call that the thread is in; in a garbage collection what a finalizer has called, if it has called
 * something: that is what it waits for.
 */
static const struct bpfprof_gpu_open *open_choose(const struct bpfprof_gpu_thread *thread)
{
	const struct gpu_function *functions;
	size_t nr, i;

	functions = gpu_functions(&nr);
	for (i = 0; i < thread->depth && i < BPFPROF_GPU_MAX_OPEN; i++)
		if (thread->open[i].key.function >= nr ||
		    functions[thread->open[i].key.function].wire.kind != GPU_KIND_GC)
			return &thread->open[i];
	return &thread->open[0];
}

bool gpu_snapshot_is_waiting(const struct bpfprof_gpu_open *open)
{
	const uint32_t uncounted =
		BPFPROF_CALL_OUTSIDE | BPFPROF_CALL_NESTED | BPFPROF_CALL_TRACE_ONLY;
	const struct gpu_function *functions;
	size_t nr;

	functions = gpu_functions(&nr);
	return open->key.function < nr && !(open->flags & uncounted) &&
	       functions[open->key.function].wire.flags & BPFPROF_GPU_BLOCKS;
}

static void add_waiting(struct gpu_snapshot *picture, uint32_t tid,
			const struct bpfprof_gpu_thread *thread)
{
	uint32_t i;

	for (i = 0; i < thread->depth && i < BPFPROF_GPU_MAX_OPEN; i++) {
		if (!gpu_snapshot_is_waiting(&thread->open[i]) ||
		    !has_room(picture, vec_grow(picture->waiting, picture->nr_waiting + 1,
						picture->cap_waiting, VEC_BOUNDED)))
			continue;
		picture->waiting[picture->nr_waiting++] =
			(struct gpu_waiting_call){ .tid = tid, .open = thread->open[i] };
	}
}

static void add_thread(void *arg, uint32_t tid, const struct bpfprof_gpu_thread *thread)
{
	struct gpu_snapshot *picture = arg;
	struct gpu_open_call *open;
	const struct bpfprof_gpu_open *chosen = open_choose(thread);

	add_waiting(picture, tid, thread);
	if (!thread->depth || chosen->flags & BPFPROF_CALL_OUTSIDE ||
	    !has_room(picture, vec_grow(picture->open, picture->nr_open + 1, picture->cap_open,
					VEC_BOUNDED)))
		return;
	open = &picture->open[picture->nr_open++];
	*open = (struct gpu_open_call){
		.tid = tid, .open = *chosen, .groups = thread->groups, .grouped = thread->grouped
	};
	memcpy(open->thread, thread->comm, BPFPROF_COMM_LEN);
}

static void add_comm(void *arg, const struct bpfprof_gpu_comm_key *key,
		     const struct bpfprof_gpu_comm *comm)
{
	struct gpu_snapshot *picture = arg;

	if (!has_room(picture, vec_grow(picture->comms, picture->nr_comms + 1, picture->cap_comms,
					VEC_BOUNDED)))
		return;
	picture->comms[picture->nr_comms++] = (struct gpu_comm_entry){ .key = *key, .comm = *comm };
}

static void add_memory(void *arg, const struct bpfprof_gpu_process_key *key,
		       const struct bpfprof_gpu_memory *memory)
{
	struct gpu_snapshot *picture = arg;

	if (!has_room(picture, vec_grow(picture->memory, picture->nr_memory + 1,
					picture->cap_memory, VEC_BOUNDED)))
		return;
	picture->memory[picture->nr_memory++] =
		(struct gpu_memory_entry){ .key = *key, .memory = *memory };
}

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int compare_process(uint32_t pid_a, uint64_t start_a, uint32_t pid_b, uint64_t start_b)
{
	return compare(pid_a, pid_b) ?: compare(start_a, start_b);
}

/* By process, then what is used most, so that tables need not sort again. */
static int compare_counts(const void *a, const void *b)
{
	const struct call_table_count *x = a, *y = b;

	return compare_process(x->key.pid, x->key.start_ns, y->key.pid, y->key.start_ns)
	       ?: compare(y->count.calls, x->count.calls)
	       ?: memcmp(&x->key, &y->key, sizeof(x->key));
}

static int compare_open(const void *a, const void *b)
{
	const struct gpu_open_call *x = a, *y = b;

	return compare_process(x->open.key.pid, x->open.key.start_ns, y->open.key.pid,
			       y->open.key.start_ns)
		       ?: compare(x->open.begin_ns, y->open.begin_ns);
}

static int compare_waiting(const void *a, const void *b)
{
	const struct gpu_waiting_call *x = a, *y = b;

	return compare_process(x->open.key.pid, x->open.key.start_ns, y->open.key.pid,
			       y->open.key.start_ns)
		       ?: compare(x->open.begin_ns, y->open.begin_ns);
}

static int compare_comms(const void *a, const void *b)
{
	const struct gpu_comm_entry *x = a, *y = b;

	return compare_process(x->key.pid, x->key.start_ns, y->key.pid, y->key.start_ns)
		       ?: compare(x->key.comm, y->key.comm);
}

const struct gpu_comm_entry *gpu_snapshot_comm(const struct gpu_snapshot *picture,
					       const struct bpfprof_gpu_key *key)
{
	const struct gpu_comm_entry wanted = {
		.key = { .start_ns = key->start_ns, .comm = key->handle, .pid = key->pid }
	};

	if (!picture->nr_comms)
		return NULL;
	return bsearch(&wanted, picture->comms, picture->nr_comms, sizeof(*picture->comms),
		       compare_comms);
}

static int compare_key_process(const struct bpfprof_gpu_key *a, const struct bpfprof_gpu_key *b)
{
	return compare_process(a->pid, a->start_ns, b->pid, b->start_ns);
}

void gpu_snapshot_waits(const struct gpu_snapshot *picture, struct call_table *tally,
			struct call_table_count *counts, size_t nr)
{
	size_t first = 0, i, k;

	for (i = 0; i < picture->nr_waiting; i++) {
		const struct bpfprof_gpu_open *open = &picture->waiting[i].open;

		if (picture->ts_ns <= open->begin_ns)
			continue;
		while (first < nr && compare_key_process(&counts[first].key, &open->key) < 0)
			first++;
		for (k = first; k < nr && !compare_key_process(&counts[k].key, &open->key) &&
				memcmp(&counts[k].key, &open->key, sizeof(open->key));
		     k++)
			;
		/* There was no room for it, or nobody wants it. */
		if (k == nr || compare_key_process(&counts[k].key, &open->key))
			continue;
		counts[k].count.ns += picture->ts_ns - open->begin_ns;
		if (tally)
			call_table_waits(tally, open, picture->waiting[i].tid, picture->ts_ns);
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
 * Of a call that has returned by the time that counts are read they have all of its time: what it had
 * waited before would be told twice. Of threads that were cancelled or ended themselves in one it
 * hangs no more.
 */
static bool is_over(const struct gpu_probes *probes, uint32_t tid,
		    const struct bpfprof_gpu_open *open)
{
	return !gpu_probes_thread_is_in(probes, tid, open) ||
	       gpu_probes_thread_is_gone(probes, open->key.pid, tid);
}

static void drop_over(struct gpu_snapshot *picture, const struct gpu_probes *probes)
{
	const struct gpu_waiting_call *waiting;
	const struct gpu_open_call *open;
	size_t nr = 0, i;

	for (i = 0; i < picture->nr_open; i++) {
		open = &picture->open[i];
		if (!is_over(probes, open->tid, &open->open))
			picture->open[nr++] = *open;
	}
	picture->nr_open = nr;
	for (i = 0, nr = 0; i < picture->nr_waiting; i++) {
		waiting = &picture->waiting[i];
		if (!is_over(probes, waiting->tid, &waiting->open))
			picture->waiting[nr++] = *waiting;
	}
	picture->nr_waiting = nr;
}

static void add_part(void *arg, const struct call_table_count *part)
{
	struct gpu_snapshot *picture = arg;

	add_count(picture, &part->key, &part->count);
}

/* By kernel, where several had the same handle one after the other. */
static void split(struct gpu_snapshot *picture, const struct call_table *tally)
{
	size_t nr = picture->nr_counts, left = 0, i;
	struct call_table_count count;

	for (i = 0; i < nr; i++) { /* which may move them */
		count = picture->counts[i];
		call_table_split(tally, &count, 0, add_part, picture);
		picture->counts[i].count.calls = count.count.calls;
	}
	for (i = 0; i < picture->nr_counts; i++)
		if (picture->counts[i].count.calls)
			picture->counts[left++] = picture->counts[i];
	picture->nr_counts = left;
}

void gpu_monitor_device_idle(void *arg, const struct bpfprof_gpu_waits *process)
{
	const struct gpu_monitor *watch = arg;
	uint32_t pid = process->pid;

	if (watch->chosen && !call_table_is_described(watch->tally, pid, process->start_ns))
		return;
	call_table_device_idle(watch->tally, pid, process->start_ns, process->device_idle_ns,
			       process->idle_ns);
	if (watch->waits)
		gpu_waits_process(watch->waits, process);
}

static int take(struct gpu_snapshot *picture, const struct gpu_monitor *watch)
{
	const struct bpfprof_gpu_key *key;
	size_t i;

	picture->nr_counts = picture->nr_open = picture->nr_comms = picture->nr_memory = 0;
	picture->nr_waiting = 0;
	picture->no_memory = false;
	picture->ts_ns = time_monotonic_ns();
	/* Open calls first: one that is among them has been counted. */
	gpu_probes_threads(watch->probes, add_thread, picture);
	gpu_probes_counts(watch->probes, add_count, picture);
	if (picture->only)
		split(picture, watch->tally);
	drop_over(picture, watch->probes);
	gpu_probes_comms(watch->probes, add_comm, picture);
	gpu_probes_memory(watch->probes, add_memory, picture);
	gpu_probes_counters(watch->probes, picture->counters);
	if (watch->choose)
		watch->choose(watch->arg, picture);
	sort(picture->counts, picture->nr_counts, sizeof(*picture->counts), compare_counts);
	for (i = 0; i < picture->nr_counts; i++) {
		key = &picture->counts[i].key;
		if (!i || key->start_ns != picture->counts[i - 1].key.start_ns ||
		    key->pid != picture->counts[i - 1].key.pid)
			call_table_process(watch->tally, key->pid, key->start_ns);
	}
	gpu_waits_map_each(&watch->sampler->session, gpu_monitor_device_idle, (void *)watch);
	sort(picture->open, picture->nr_open, sizeof(*picture->open), compare_open);
	sort(picture->waiting, picture->nr_waiting, sizeof(*picture->waiting), compare_waiting);
	sort(picture->comms, picture->nr_comms, sizeof(*picture->comms), compare_comms);
	return picture->no_memory ? -ENOMEM : 0;
}

int gpu_snapshot_take(struct gpu_snapshot *picture, const struct gpu_monitor *watch)
{
	picture->only = watch;
	return take(picture, watch);
}

int gpu_snapshot_take_all(struct gpu_snapshot *picture, const struct gpu_monitor *watch)
{
	picture->only = NULL;
	return take(picture, watch);
}

void gpu_snapshot_fini(struct gpu_snapshot *picture)
{
	free(picture->counts);
	free(picture->open);
	free(picture->waiting);
	free(picture->comms);
	free(picture->memory);
	*picture = (struct gpu_snapshot){ 0 };
}
