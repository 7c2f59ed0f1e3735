// SPDX-License-Identifier: Apache-2.0
#include "proc/processes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"
#include "base/vec.h"
#include "proc/ranks.h"
#include "proc/title.h"

struct processes {
	struct hash_table by_pid;
	const struct process_part *parts;
	size_t nr_parts;
	process_retire_fn retire;
	void *arg;
	size_t nr_mappings; /* mappings with allocated room, of all processes */
	size_t title_bytes;
	uint32_t pinned; /* pid, 0: none */
};

/* The bytes of a part in an entry: the next part is aligned. */
static size_t part_bytes(const struct process_part *part)
{
	return (part->bytes + sizeof(uint64_t) - 1) & ~(sizeof(uint64_t) - 1);
}

int processes_new(struct processes **ret, const struct process_part *parts, size_t nr,
		  process_retire_fn retire, void *arg)
{
	struct processes *processes = calloc(1, sizeof(*processes));
	size_t i, bytes = sizeof(struct process);

	if (!processes)
		return -ENOMEM;
	processes->parts = parts;
	processes->nr_parts = nr;
	processes->retire = retire;
	processes->arg = arg;
	for (i = 0; i < nr; i++)
		bytes += part_bytes(&parts[i]);
	hash_table_init_raw(&processes->by_pid, PROCESSES_MAX, bytes, offsetof(struct process, pid),
			    sizeof(uint32_t));
	*ret = processes;
	return 0;
}

static void *part_of(const struct process *process, const struct process_part *part)
{
	void *state;

	memcpy(&state, (const char *)process + part->off, sizeof(state));
	return state;
}

/* Sets the pointers to the parts, which lie behind struct process. */
static void parts_place(struct process *process)
{
	const struct processes *processes = process->processes;
	char *state = (char *)(process + 1);
	size_t i;

	for (i = 0; i < processes->nr_parts; i++) {
		memcpy((char *)process + processes->parts[i].off, &state, sizeof(state));
		state += part_bytes(&processes->parts[i]);
	}
}

static void parts_clear(struct process *process)
{
	const struct processes *processes = process->processes;
	const struct process_part *part;
	void *state;
	size_t i;

	for (i = 0; i < processes->nr_parts; i++) {
		part = &processes->parts[i];
		state = part_of(process, part);
		if (part->clear)
			part->clear(state);
		memset(state, 0, part->bytes);
	}
}

static void parts_inherit(struct process *to, const struct process *from)
{
	const struct process_part *parts = to->processes->parts;
	size_t i;

	for (i = 0; i < to->processes->nr_parts; i++)
		if (parts[i].follows_mappings)
			memcpy(part_of(to, &parts[i]), part_of(from, &parts[i]), parts[i].bytes);
}

static void mappings_free(struct process *process)
{
	process->processes->nr_mappings -= process->cap_mappings;
	free(process->mappings);
	process->mappings = NULL;
	process->nr_mappings = process->cap_mappings = 0;
}

/* Makes room for at least cap mappings. On failure the mappings stay. */
static int mappings_reserve(struct process *process, size_t cap)
{
	if (cap <= process->cap_mappings)
		return 0;
	if (!vec_fit(process->mappings, cap))
		return -ENOMEM;
	process->processes->nr_mappings += cap - process->cap_mappings;
	process->cap_mappings = cap;
	return 0;
}

/*
 * Keeps the sum of all mappings within bounds, and frees some more so that this is rare. The
 * mappings of `keep` stay.
 */
static void mappings_trim(struct processes *processes, const struct process *keep)
{
	size_t max = PROCESSES_MAX_MAPPINGS - PROCESSES_MAX_MAPPINGS / 8;
	struct process *process;

	if (processes->nr_mappings <= PROCESSES_MAX_MAPPINGS)
		return;
	hash_table_each(&processes->by_pid, process) {
		if (processes->nr_mappings <= max)
			break;
		if (process == keep || process->pid == processes->pinned || !process->cap_mappings)
			continue;
		processes->retire(processes->arg, process);
		mappings_free(process);
		process->mappings_known = false;
		process->read_ns = 0;
	}
}

static size_t title_size(const struct process *process)
{
	return process->title ? strlen(process->title) + 1 : 0;
}

static void title_forget(struct process *process)
{
	process->processes->title_bytes -= title_size(process);
	free(process->title);
	process->title = NULL;
	process->titles_seen = 0;
}

static int title_put(struct process *process, const char *title)
{
	size_t had = title_size(process), *all = &process->processes->title_bytes;

	if (*all - had + strlen(title) + 1 > PROCESSES_MAX_TITLE_BYTES ||
	    title_keep(&process->title, title, SIZE_MAX))
		return -ENOMEM;
	*all += title_size(process) - had;
	return 0;
}

static void process_remove(struct processes *processes, struct process *process)
{
	processes->retire(processes->arg, process);
	mappings_free(process);
	title_forget(process);
	parts_clear(process);
	free(process->ranks);
	hash_table_remove(&processes->by_pid, process);
}

void processes_free(struct processes *processes)
{
	struct process *process;

	if (!processes)
		return;
	hash_table_each(&processes->by_pid, process)
		process_remove(processes, process);
	free(processes);
}

struct process *processes_find(struct processes *processes, uint32_t pid)
{
	return hash_table_find(&processes->by_pid, &pid);
}

/* Begins anew for another program, or for another process with the same pid: no old fact holds. */
static void process_start_over(struct processes *processes, struct process *process,
			       const struct bpfprof_task_id *task)
{
	processes->retire(processes->arg, process);
	if (process->start_ns != task->start_ns)
		process->tenant = 0;
	process->start_ns = task->start_ns;
	process->exec_id = task->exec_id;
	process->ns_context = (struct bpfprof_ns_context){ 0 };
	process->nr_mappings = 0;
	process->mappings_known = false;
	process->program = 0;
	process->known_ns = 0;
	process->read_ns = 0;
	process->read_cost_ns = process->read_last_ns = 0;
	process->reread_ns = 0;
	process->sampled = false;
	process->dead = false;
	process->images_left = false;
	title_forget(process);
	parts_clear(process);
	free(process->ranks);
	process->ranks = NULL;
	process->ranks_known = false;
}

void processes_pin(struct processes *processes, uint32_t pid)
{
	processes->pinned = pid;
}

static void process_evict(struct processes *processes)
{
	struct process *oldest = processes_first(processes);

	if (oldest->pid == processes->pinned)
		oldest = hash_table_next(oldest);
	process_remove(processes, oldest);
}

/* Is the task an earlier one? Start times and exec numbers only rise. */
static bool is_earlier(const struct bpfprof_task_id *task, const struct process *process)
{
	if (task->start_ns != process->start_ns)
		return task->start_ns < process->start_ns;
	return task->exec_id < process->exec_id;
}

struct process *processes_get(struct processes *processes, const struct bpfprof_task_id *task)
{
	struct process *process = processes_find(processes, task->pid);

	if (!process) {
		if (processes->by_pid.nr == PROCESSES_MAX)
			process_evict(processes);
		process = hash_table_add(&processes->by_pid, &task->pid);
		if (!process)
			return NULL;
		process->processes = processes;
		parts_place(process);
		process->start_ns = task->start_ns;
		process->exec_id = task->exec_id;
	} else if (is_earlier(task, process)) {
		return NULL;
	} else if (process->start_ns != task->start_ns || process->exec_id != task->exec_id) {
		process_start_over(processes, process, task);
	}
	return process;
}

void processes_fork(struct processes *processes, const struct bpfprof_task_id *parent,
		    const struct bpfprof_task_id *child)
{
	struct process *from = processes_find(processes, parent->pid), *to;

	if (!from || !(from->mappings_known || from->ranks) || from->start_ns != parent->start_ns ||
	    from->exec_id != parent->exec_id)
		return;
	to = processes_get(processes, child);
	if (!to || to->mappings_known)
		return;
	/* processes_get() may have freed the parent's entry. */
	if (processes_find(processes, parent->pid) != from || from == to)
		return;
	if (from->ranks_known && !to->ranks_known)
		process_ranks_set(to, from->ranks ? from->ranks : &(struct ranks){ 0 });
	if (!from->mappings_known)
		return;
	if (mappings_reserve(to, from->nr_mappings + 1))
		return;
	if (from->nr_mappings)
		memcpy(to->mappings, from->mappings, from->nr_mappings * sizeof(*to->mappings));
	to->nr_mappings = from->nr_mappings;
	to->mappings_known = true;
	to->program = from->program;
	to->tenant = from->tenant;
	to->images_failed = from->images_failed; /* the child tries those files again */
	parts_inherit(to, from);
	if (from->title && !to->title) {
		title_put(to, from->title);
		to->titles_seen = from->titles_seen;
	}
	mappings_trim(processes, to);
}

void processes_exit(struct processes *processes, const struct bpfprof_task_id *task,
		    uint64_t now_ns)
{
	struct process *process = processes_find(processes, task->pid);

	if (!process || process->start_ns != task->start_ns)
		return;
	process->dead = true;
	process->dead_ns = now_ns;
	process->reread_ns = 0;
}

void processes_expire(struct processes *processes, uint64_t now_ns)
{
	struct process *process;

	hash_table_each(&processes->by_pid, process) {
		if (process->dead && now_ns - process->dead_ns > PROCESS_KEEP_DEAD_NS &&
		    process->pid != processes->pinned)
			process_remove(processes, process);
	}
}

void process_read_took(struct process *process, uint64_t cost_ns, bool timed_out)
{
	bool is_cost = timed_out || cost_ns < process->read_last_ns;

	process->read_cost_ns = is_cost ? cost_ns : process->read_last_ns;
	process->read_last_ns = cost_ns;
}

void process_ns_context_set(struct process *process, const struct bpfprof_ns_context *ns_context)
{
	if (ns_context->pod_pid)
		process->ns_context.pod_pid = ns_context->pod_pid;
	if (ns_context->agent_pid)
		process->ns_context.agent_pid = ns_context->agent_pid;
	if (ns_context->mnt_ns)
		process->ns_context.mnt_ns = ns_context->mnt_ns;
}

int process_ranks_set(struct process *process, const struct ranks *ranks)
{
	struct ranks *copy = NULL;

	if (ranks_any(ranks)) {
		copy = malloc(sizeof(*copy));
		if (!copy)
			return -ENOMEM;
		*copy = *ranks;
	}
	free(process->ranks);
	process->ranks = copy;
	process->ranks_known = true;
	return 0;
}

struct process *processes_first(const struct processes *processes)
{
	return (void *)processes->by_pid.oldest;
}

size_t processes_count(const struct processes *processes)
{
	return processes->by_pid.nr;
}

/* Index of the first mapping that ends above va. */
static size_t mapping_index(const struct process *process, uint64_t va)
{
	return sorted_count(process->nr_mappings, i, process->mappings[i].end <= va);
}

const struct process_mapping *process_mapping_find(const struct process *process, uint64_t va)
{
	size_t i = mapping_index(process, va);

	if (i < process->nr_mappings && process->mappings[i].start <= va)
		return &process->mappings[i];
	return NULL;
}

int process_mapping_add(struct process *process, const struct process_mapping *mapping)
{
	size_t first = mapping_index(process, mapping->start), last = first;
	struct process_mapping *tmp;

	while (last < process->nr_mappings && process->mappings[last].start < mapping->end)
		last++;
	if (first == last && process->nr_mappings >= PROCESS_MAX_MAPPINGS)
		return -E2BIG;
	if (process->nr_mappings + 1 > process->cap_mappings) {
		if (mappings_reserve(process,
				     process->cap_mappings ? process->cap_mappings * 2 : 16))
			return -ENOMEM;
		mappings_trim(process->processes, process);
	}
	tmp = process->mappings;
	memmove(tmp + first + 1, tmp + last, (process->nr_mappings - last) * sizeof(*tmp));
	tmp[first] = *mapping;
	process->nr_mappings += 1 + first - last;
	return 0;
}

/*
 * May `next` have been read while the process wrote it over `old`? Both have the same length then.
 * Some complete titles also have the same length.
 */
static bool title_may_be_torn(const char *old, const char *next)
{
	return strlen(old) == strlen(next);
}

/* One of 64 bits for the title. */
static uint64_t title_bit(const char *title)
{
	uint64_t hash = 0;

	while (*title)
		hash = (hash ^ (uint8_t)*title++) * 0x9e3779b97f4a7c15ULL;
	return 1ULL << (hash >> 58);
}

int process_title_set(struct process *process, const char *raw, size_t len)
{
	char title[TITLE_MAX + 1];
	int err = title_parse(title, raw, len);
	uint64_t bit;
	bool is_new;

	if (err || (process->title && !strcmp(process->title, title)))
		return err;
	bit = title_bit(title);
	is_new = !(process->titles_seen & bit);
	process->titles_seen |= bit;
	/* A complete title is read again; only its first sample counts for the old one. */
	if (is_new && process->title && title_may_be_torn(process->title, title))
		return -EAGAIN;
	return title_put(process, title);
}

int process_mapping_compare(const void *a, const void *b)
{
	const struct process_mapping *x = a, *y = b;

	return sorted_order(x->start, y->start);
}

/* Drops duplicates: a mapping that moved during the read can appear twice. The first one stays. */
static size_t mappings_clean(struct process_mapping *mappings, size_t nr)
{
	size_t i, kept = 0;

	for (i = 0; i < nr; i++)
		if (mappings[i].start < mappings[i].end &&
		    (!kept || mappings[i].start >= mappings[kept - 1].end))
			mappings[kept++] = mappings[i];
	return kept;
}

bool process_mappings_set(struct process *process, struct process_mapping *mappings, size_t nr)
{
	bool same;

	if (nr)
		qsort(mappings, nr, sizeof(*mappings), process_mapping_compare);
	nr = mappings_clean(mappings, nr);
	process->mappings_known = true;
	same = nr == process->nr_mappings &&
	       (!nr || !memcmp(mappings, process->mappings, nr * sizeof(*mappings)));
	if (same)
		return false;
	/* A process that shrank gives memory back. */
	if (nr > process->cap_mappings || nr < process->cap_mappings / 4) {
		mappings_free(process);
		if (nr && mappings_reserve(process, nr))
			return true;
		mappings_trim(process->processes, process);
	}
	if (nr)
		memcpy(process->mappings, mappings, nr * sizeof(*mappings));
	process->nr_mappings = nr;
	return true;
}
