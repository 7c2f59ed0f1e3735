// SPDX-License-Identifier: Apache-2.0
#include "gpu/waits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/process_map.h"
#include "base/vec.h"
#include "profile/stats.h"

#define NO_ROW SIZE_MAX
#define RESULT_IN_PROGRESS 7 /* ncclInProgress: the communicator does not block */

/* A collective that is not known to be complete. */
struct pending {
	struct pending *next; /* the next one of the process, in the order of records */
	size_t row; /* or NO_ROW */
	struct bpfprof_gpu_key key; /* as it was counted */
	uint64_t stream;
	uint64_t begin_ns;
	uint64_t issued_ns; /* put on the stream; 0: its group has not ended */
	uint32_t tid;
};

struct process {
	struct hash_node node;
	struct process_key key;
	struct pending *first, **end;
	uint32_t nr_rows, nr_pending;
	struct gpu_waits_times times;
};

struct row_entry {
	struct hash_node node;
	struct gpu_waits_key key;
	size_t row;
};

struct gpu_waits {
	struct hash_table processes, by_key;
	struct gpu_waits_row *rows;
	size_t nr_rows, cap_rows, nr_pending;
	unsigned int share; /* divides the limits */
	bool no_rows;
	void (*complete)(void *arg, const struct bpfprof_gpu_key *key, uint64_t ns);
	void *arg;
	uint64_t processes_lost, rows_lost, pending_lost, captured, unknown;
};

/* Finds or adds a process; NULL: there is no room. */
static struct process *process_get(struct gpu_waits *waits, uint32_t pid, uint64_t start_ns)
{
	struct process *process = process_map_get(&waits->processes, pid, start_ns);

	if (!process)
		waits->processes_lost++;
	else if (!process->end)
		process->end = &process->first;
	return process;
}

/* 0 and where the row is, -ENOSPC if there is no room. */
static int row_get(struct gpu_waits *waits, struct process *process,
		   const struct gpu_waits_key *key, size_t *ret)
{
	struct row_entry *entry = hash_table_find(&waits->by_key, key);

	if (!entry) {
		if (process->nr_rows < GPU_WAITS_MAX_PROCESS_ROWS &&
		    !vec_grow(waits->rows, waits->nr_rows + 1, waits->cap_rows, GPU_WAITS_MAX_ROWS))
			entry = hash_table_add(&waits->by_key, key);
		if (!entry)
			return -ENOSPC;
		entry->row = waits->nr_rows++;
		waits->rows[entry->row] = (struct gpu_waits_row){ .key = *key };
		process->nr_rows++;
	}
	*ret = entry->row;
	return 0;
}

static void collective_add(struct gpu_waits *waits, struct process *process,
			   const struct bpfprof_gpu_wait *record)
{
	const struct bpfprof_gpu_call *call = &record->call;
	const struct gpu_waits_key key = { .start_ns = process->key.start_ns,
					   .comm = call->key.handle,
					   .bytes = call->bytes,
					   .pid = process->key.pid,
					   .function = call->key.function,
					   .dims = { call->key.dims[0], call->key.dims[1] } };
	struct pending *pending;
	size_t row = NO_ROW;

	if (record->flags & BPFPROF_WAIT_CAPTURED) {
		waits->captured++;
		return;
	}
	if (!waits->no_rows && row_get(waits, process, &key, &row)) {
		waits->rows_lost++;
		return;
	}
	pending = NULL;
	if (waits->nr_pending < GPU_WAITS_MAX_PENDING / waits->share &&
	    process->nr_pending < GPU_WAITS_MAX_PROCESS_PENDING / waits->share)
		pending = calloc(1, sizeof(*pending));
	if (!pending) {
		waits->pending_lost++;
		if (row != NO_ROW)
			waits->rows[row].unknown++;
		return;
	}
	pending->row = row;
	pending->key = call->key;
	pending->stream = record->stream;
	pending->begin_ns = call->begin_ns;
	pending->issued_ns = record->flags & BPFPROF_WAIT_GROUPED ? 0 : record->until_ns;
	pending->tid = record->task.tid;
	*process->end = pending;
	process->end = &pending->next;
	process->nr_pending++;
	waits->nr_pending++;
	if (row != NO_ROW)
		waits->rows[row].pending++;
}

/* Removes the collective that *link points to; *link is then the next one. */
static void pending_remove(struct gpu_waits *waits, struct process *process, struct pending **link)
{
	struct pending *pending = *link;

	if (pending->row != NO_ROW)
		waits->rows[pending->row].pending--;
	*link = pending->next;
	if (!pending->next)
		process->end = link;
	process->nr_pending--;
	waits->nr_pending--;
	free(pending);
}

/* A group ended. Its collectives are on their streams now; if the call failed, they are dropped. */
static void group_end(struct gpu_waits *waits, struct process *process,
		      const struct bpfprof_gpu_wait *record)
{
	int32_t result = record->call.result;
	struct pending **link = &process->first;

	while (*link) {
		if ((*link)->tid != record->task.tid || (*link)->issued_ns) {
			link = &(*link)->next;
		} else if (result && result != RESULT_IN_PROGRESS) {
			pending_remove(waits, process, link);
		} else {
			(*link)->issued_ns = record->until_ns;
			link = &(*link)->next;
		}
	}
}

static void row_complete(struct gpu_waits_row *row, const struct pending *pending, uint64_t ns,
			 const struct bpfprof_gpu_wait *record)
{
	uint64_t now_ns = record->now_ns, within_ns, least_ns = record->running_ns;

	if (least_ns < pending->issued_ns)
		least_ns = pending->issued_ns;
	within_ns = now_ns > least_ns ? now_ns - least_ns : 0;
	row->count++;
	row->ns += ns;
	row->within_ns += within_ns;
	if (ns > row->max_ns)
		row->max_ns = ns;
	if (within_ns > row->within_max_ns)
		row->within_max_ns = within_ns;
}

static void pending_complete(struct gpu_waits *waits, const struct pending *pending,
			     const struct bpfprof_gpu_wait *record)
{
	uint64_t ns = record->now_ns > pending->begin_ns ? record->now_ns - pending->begin_ns : 0;

	if (pending->row != NO_ROW)
		row_complete(&waits->rows[pending->row], pending, ns, record);
	if (waits->complete)
		waits->complete(waits->arg, &pending->key, ns);
}

static void streams_done(struct gpu_waits *waits, struct process *process,
			 const struct bpfprof_gpu_wait *record)
{
	bool all = record->kind == GPU_WAIT_ALL_DONE;
	struct pending **link = &process->first, *pending;

	while (*link && (*link)->begin_ns <= record->until_ns) {
		pending = *link;
		if ((!all && pending->stream != record->stream) || !pending->issued_ns ||
		    pending->issued_ns > record->until_ns) {
			link = &pending->next;
			continue;
		}
		pending_complete(waits, pending, record);
		pending_remove(waits, process, link);
	}
}

static void give_up(struct gpu_waits *waits, struct process *process, const uint64_t *stream)
{
	struct pending **link = &process->first;

	while (*link) {
		if (stream && (*link)->stream != *stream) {
			link = &(*link)->next;
			continue;
		}
		if ((*link)->row != NO_ROW)
			waits->rows[(*link)->row].unknown++;
		else
			waits->unknown++;
		pending_remove(waits, process, link);
	}
}

void gpu_waits_record(struct gpu_waits *waits, const struct bpfprof_gpu_wait *record)
{
	struct process *process = process_get(waits, record->task.pid, record->task.start_ns);

	if (!process)
		return;
	switch (record->kind) {
	case GPU_WAIT_COLLECTIVE:
		collective_add(waits, process, record);
		break;
	case GPU_WAIT_GROUP_END:
		group_end(waits, process, record);
		break;
	case GPU_WAIT_DONE:
	case GPU_WAIT_ALL_DONE:
		streams_done(waits, process, record);
		break;
	case GPU_WAIT_STREAM_END:
		give_up(waits, process, &(uint64_t){ record->stream });
		break;
	}
}

void gpu_waits_process(struct gpu_waits *waits, const struct bpfprof_gpu_waits *from)
{
	struct process *process = process_get(waits, from->pid, from->start_ns);

	if (!process)
		return;
	process->times = (struct gpu_waits_times){
		.device_idle = { .ns = from->device_idle_ns,
				 .max_ns = from->device_idle_max_ns,
				 .gaps = from->gaps,
				 .copy_ns = from->device_idle_copy_ns,
				 .since_ns = from->idle_ns },
		.spans = { .count = from->spans,
			   .ns = from->spans_ns,
			   .max_ns = from->span_max_ns,
			   .since_ns = from->span_ns },
	};
}

static void span_end(struct gpu_waits_spans *spans, uint64_t ended_ns)
{
	uint64_t ns = ended_ns > spans->since_ns ? ended_ns - spans->since_ns : 0;

	if (spans->since_ns && ns) {
		spans->count++;
		spans->ns += ns;
		if (ns > spans->max_ns)
			spans->max_ns = ns;
	}
	spans->since_ns = 0;
}

void gpu_waits_exit(struct gpu_waits *waits, uint32_t pid, uint64_t start_ns, uint64_t ended_ns)
{
	struct process *process = process_map_find(&waits->processes, pid, start_ns);

	if (!process)
		return;
	give_up(waits, process, NULL);
	process->times.device_idle.since_ns = 0;
	span_end(&process->times.spans, ended_ns);
	if (waits->no_rows)
		hash_table_remove(&waits->processes, process);
}

/*
 * Finds the oldest pending collective of each row. A process has its collectives in the order of
 * their records, which is not always that of their calls.
 */
void gpu_waits_poll(struct gpu_waits *waits)
{
	const struct pending *pending;
	const struct process *process;
	struct gpu_waits_row *row;
	size_t i;

	for (i = 0; i < waits->nr_rows; i++)
		waits->rows[i].pending_ns = waits->rows[i].pending_stream = 0;
	hash_table_each(&waits->processes, process) {
		for (pending = process->first; pending; pending = pending->next) {
			if (pending->row == NO_ROW)
				continue;
			row = &waits->rows[pending->row];
			if (row->pending_ns && row->pending_ns <= pending->begin_ns)
				continue;
			row->pending_ns = pending->begin_ns;
			row->pending_stream = pending->stream;
		}
	}
}

const struct gpu_waits_row *gpu_waits_rows(const struct gpu_waits *waits, size_t *ret_nr)
{
	*ret_nr = waits->nr_rows;
	return waits->rows;
}

const struct gpu_waits_times *gpu_waits_times(const struct gpu_waits *waits, uint32_t pid,
					      uint64_t start_ns)
{
	const struct process *process = process_map_find(&waits->processes, pid, start_ns);

	return process ? &process->times : NULL;
}

static void grouped_add(struct gpu_waits_grouped *dst, size_t max, size_t *nr,
			const struct gpu_waits_key *key, uint64_t stream)
{
	size_t i;

	for (i = 0; i < *nr; i++)
		if (dst[i].stream == stream && !memcmp(&dst[i].key, key, sizeof(*key)))
			break;
	if (i == max)
		return;
	if (i == *nr)
		dst[(*nr)++] = (struct gpu_waits_grouped){ .key = *key, .stream = stream };
	dst[i].count++;
}

uint64_t gpu_waits_group(const struct gpu_waits *waits, const struct bpfprof_task_id *task,
			 uint64_t end_ns, struct gpu_waits_grouped *dst, size_t max, size_t *ret_nr)
{
	const struct process *process =
		process_map_find(&waits->processes, task->pid, task->start_ns);
	const struct pending *pending;
	uint64_t total = 0;

	*ret_nr = 0;
	for (pending = process ? process->first : NULL; pending; pending = pending->next) {
		/* A collective that began after the group's end began is in another group. */
		if (pending->tid != task->tid || pending->issued_ns || pending->begin_ns > end_ns)
			continue;
		total++;
		grouped_add(dst, max, ret_nr, &waits->rows[pending->row].key, pending->stream);
	}
	return total;
}

#define AT(field) offsetof(struct gpu_waits, field)

const struct counter gpu_waits_counters[] = {
	{ COUNTER_GPU, "processes_of_waits_no_room", AT(processes_lost), .help = NULL },
	{ COUNTER_GPU, "kinds_of_collectives_no_room", AT(rows_lost),
	  .help = "kinds of NCCL collectives over the limit" },
	{ COUNTER_GPU, "collectives_under_way_no_room", AT(pending_lost),
	  .help = "in-flight NCCL collectives over the limit" },
	{ COUNTER_GPU, "collectives_in_graphs_not_timed", AT(captured),
	  .help = "collectives without a duration, as they run in a CUDA graph" },
	{ COUNTER_GPU, "collectives_never_known_complete", AT(unknown),
	  .help = "collectives without a duration, as nothing proved their end" },
	{ 0 },
};

void gpu_waits_lost(const struct gpu_waits *waits, struct stats_reasons *dst)
{
	stats_add_rows(dst, gpu_waits_counters, waits, true);
}

void gpu_waits_notify(struct gpu_waits *waits,
		      void (*complete)(void *arg, const struct bpfprof_gpu_key *key, uint64_t ns),
		      void *arg)
{
	waits->complete = complete;
	waits->arg = arg;
}

void gpu_waits_no_rows(struct gpu_waits *waits, unsigned int share)
{
	waits->no_rows = true;
	waits->share = share;
	waits->processes.max = GPU_WAITS_MAX_PROCESSES / share;
}

int gpu_waits_new(struct gpu_waits **ret)
{
	struct gpu_waits *waits = calloc(1, sizeof(*waits));

	if (!waits)
		return -ENOMEM;
	waits->share = 1;
	hash_table_init(&waits->processes, GPU_WAITS_MAX_PROCESSES, struct process, key);
	hash_table_init(&waits->by_key, GPU_WAITS_MAX_ROWS, struct row_entry, key);
	*ret = waits;
	return 0;
}

void gpu_waits_free(struct gpu_waits *waits)
{
	struct process *process;

	if (!waits)
		return;
	hash_table_each(&waits->processes, process)
		give_up(waits, process, NULL);
	hash_table_clear(&waits->processes);
	hash_table_clear(&waits->by_key);
	free(waits->rows);
	free(waits);
}
