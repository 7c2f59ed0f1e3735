// SPDX-License-Identifier: Apache-2.0
#include "profile/aggregate_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/hash_seed.h"
#include "base/time.h"
#include "container/containers.h"
#include "proc/ranks.h"
#include "profile/wire_stack.h"
#include "python/merge.h"

#define MAX_STACK AGGREGATE_MAX_STACK
#define MAX_NAMES 64
#define SECONDS_SHARE 16 /* of the bytes */

static int piece_add(struct aggregate *a, struct piece_set *set, const void *item,
		     struct piece_type type, uint32_t *ret)
{
	return piece_set_add(set, &a->budget, a->seed, item, type, ret);
}

/* An element of an array. */
static struct aggregate_process *process_at(const struct aggregate *a, uint32_t process)
{
	return (struct aggregate_process *)a->processes.data + process;
}

struct thread_key {
	uint32_t process, tid;
};

static uint64_t process_hash(const struct aggregate *a, const struct bpfprof_task_id *task)
{
	uint64_t key[2] = { task->pid, task->start_ns };

	return XXH3_64bits_withSeed(key, sizeof(key), a->seed);
}

/* Fills in facts that the first sample of the process did not have. */
static void process_complete(struct aggregate *a, struct aggregate_process *process,
			     const struct aggregate_input *input)
{
	uint32_t container;

	if (!process->mnt_ns)
		process->mnt_ns = input->ns_context.mnt_ns;
	if (!process->pod_pid)
		process->pod_pid = input->ns_context.pod_pid;
	if (!process->agent_pid)
		process->agent_pid = input->own_pid;
	if (input->program)
		process->program = input->program;
	if (!process->ranks && input->ranks)
		process->ranks = tag_list_ranks(&a->tags, &a->budget, a->seed, input->ranks);
	if (!input->container || process->container_full ||
	    (process->container && process->container_source <= input->container->source))
		return;
	/*
	 * A sample from before the exec, or before the container's files were found, had a worse
	 * source.
	 */
	container = tag_list_container(&a->tags, &a->budget, a->seed, input->container);
	process->container_full = !container;
	if (!container)
		return;
	process->container = container;
	process->container_source = (uint8_t)input->container->source;
}

/* A process that entered another container gets another entry. */
static bool is_elsewhere(const struct aggregate_process *process,
			 const struct aggregate_input *input)
{
	return process->mnt_ns && input->ns_context.mnt_ns &&
	       process->mnt_ns != input->ns_context.mnt_ns;
}

static const char *title_of(const struct aggregate *a, const struct aggregate_process *process)
{
	return (const char *)a->titles.data + process->title;
}

/*
 * Finds the entry with the title of the task or, without a title, with its name (which Ray cuts
 * from the title and may set a little later). The hash covers neither, so that aggregate_exit()
 * finds the entry, too. A process may have MAX_NAMES names; later names count for the last of them.
 * *ret_nr_titles: number of its titles; *slot: the place for a new entry.
 */
static int64_t process_find(struct aggregate *a, const struct aggregate_process *key,
			    const struct aggregate_input *input, const char *title, uint64_t hash,
			    uint32_t *slot, uint32_t *ret_nr_titles)
{
	const struct aggregate_process *all = a->processes.data;
	uint32_t i, nr_names = 0;

	*ret_nr_titles = 0;
	if (!index_start(&a->process_index, hash, slot))
		return -ENOENT;
	while (index_next(&a->process_index, &a->process_hashes, hash, slot, &i)) {
		if (all[i].pid != key->pid || all[i].start_ns != key->start_ns)
			continue;
		*ret_nr_titles += all[i].title != 0;
		if (title && all[i].title && !strcmp(title_of(a, &all[i]), title) &&
		    !is_elsewhere(&all[i], input))
			return i;
		if (!title && !all[i].title &&
		    ((!memcmp(all[i].comm, key->comm, sizeof(key->comm)) &&
		      !is_elsewhere(&all[i], input)) ||
		     ++nr_names == MAX_NAMES))
			return i;
	}
	return -ENOENT;
}

static int title_add(struct aggregate *a, const char *title, uint32_t *ret)
{
	size_t len = strnlen(title, AGGREGATE_TITLE_BYTES - 1);

	if (a->titles.nr + len >= UINT32_MAX || vec_reserve(&a->budget, &a->titles, len + 1, 1))
		return -ENOMEM;
	*ret = (uint32_t)a->titles.nr;
	memcpy((char *)a->titles.data + a->titles.nr, title, len);
	((char *)a->titles.data)[a->titles.nr + len] = 0;
	a->titles.nr += len + 1;
	return 0;
}

/* Adds zeroed counts for one more process. */
static int process_counts_add(struct aggregate *a)
{
	if (!a->may_forget)
		return 0;
	if (vec_reserve(&a->budget, &a->process_counts, a->processes.nr + 1 - a->process_counts.nr,
			sizeof(struct sample_counts)))
		return -ENOMEM;
	a->process_counts.nr = a->processes.nr + 1;
	((struct sample_counts *)a->process_counts.data)[a->processes.nr] =
		(struct sample_counts){ 0 };
	return 0;
}

static int64_t process_get(struct aggregate *a, const struct aggregate_input *input)
{
	const struct bpfprof_sample *s = input->sample;
	const char *title = input->title;
	struct aggregate_process key = { .pid = s->task.pid, .start_ns = s->task.start_ns };
	uint64_t hash = process_hash(a, &s->task);
	struct aggregate_process *all;
	uint32_t slot, nr_titles;
	int64_t found;

	memcpy(key.comm, s->leader_comm, strnlen(s->leader_comm, sizeof(key.comm) - 1));
	found = process_find(a, &key, input, title, hash, &slot, &nr_titles);
	if (found < 0 && title && nr_titles >= AGGREGATE_MAX_TITLES) {
		title = AGGREGATE_OTHER_TITLE;
		a->nr_titles_over++;
		found = process_find(a, &key, input, title, hash, &slot, &nr_titles);
	}
	if (found >= 0) {
		process_complete(a, process_at(a, (uint32_t)found), input);
		return found;
	}
	if ((title && title_add(a, title, &key.title)) || process_counts_add(a) ||
	    index_reserve(&a->budget, &a->processes, sizeof(key), &a->process_hashes,
			  &a->process_index, hash, &slot))
		return -ENOMEM;
	process_complete(a, &key, input);
	all = a->processes.data;
	all[a->processes.nr++] = key;
	index_put(&a->process_index, &a->process_hashes, hash, slot);
	return (int64_t)a->processes.nr - 1;
}

/* The first role stays: a process keeps its role. */
static void role_note(struct aggregate *a, struct aggregate_process *process, const char *role)
{
	uint32_t at;

	if (!process->role && !title_add(a, role, &at))
		process->role = at;
}

static int64_t name_get(struct aggregate *a, const char *comm)
{
	char name[BPFPROF_COMM_LEN] = { 0 };
	uint32_t index;
	int err;

	memcpy(name, comm, strnlen(comm, sizeof(name) - 1));
	err = piece_add(a, &a->thread_names, name, PIECE_TYPE(name), &index);
	return err < 0 ? err : (int64_t)index;
}

/* Counts a thread of the process with its first sample. */
static void thread_note(struct aggregate *a, uint32_t process, uint32_t tid)
{
	struct thread_key key = { .process = process, .tid = tid };
	uint32_t index;

	if (piece_add(a, &a->threads_seen, &key, PIECE_TYPE(key), &index) > 0)
		process_at(a, process)->nr_threads++;
}

int64_t aggregate_stack_keep(struct aggregate *a, uint32_t caller, const uint64_t *frames,
			     size_t nr, size_t kept)
{
	uint32_t stack;
	int err;

	a->budget.last_room = kept < a->budget.max_bytes / 8;
	a->budget.max_bytes -= kept;
	err = stack_set_add(&a->stacks, &a->budget, a->seed, caller, frames, sizeof(*frames), nr,
			    &stack);
	a->budget.max_bytes += kept;
	a->budget.last_room = false;
	return err ? err : (int64_t)stack;
}

int64_t aggregate_stack_get(struct aggregate *a, const uint64_t *frames, size_t nr)
{
	/* The rest of the memory is for samples that get no stack of their own. */
	return aggregate_stack_keep(a, 0, frames, nr, a->budget.max_bytes / 8);
}

/* Adds to the sample whose key equals, apart from the numbers. Returns its index, or -ENOMEM. */
static int64_t sample_count(struct aggregate *a, struct aggregate_sample key, uint64_t value_ns)
{
	const struct piece_type type = { .bytes = sizeof(key),
					 .key_bytes = offsetof(struct aggregate_sample, count) };
	struct aggregate_sample *sample;
	uint32_t index;

	_Static_assert(offsetof(struct aggregate_sample, count) == 6 * sizeof(uint32_t),
		       "the numbers come last");
	key.count = key.value_ns = 0;
	if (piece_add(a, &a->samples, &key, type, &index) < 0)
		return -ENOMEM;
	sample = (struct aggregate_sample *)a->samples.items.data + index;
	sample->count++;
	sample->value_ns += value_ns;
	return index;
}

static uint32_t gil_of(const struct bpfprof_sample *s)
{
	if (!(s->python_flags & BPFPROF_PYTHON_GIL_KNOWN))
		return PROFILE_GIL_UNKNOWN;
	return s->python_flags & BPFPROF_PYTHON_GIL_HELD ? PROFILE_GIL_HELD : PROFILE_GIL_NOT_HELD;
}

/* Fills in the key except for the stack: 0, or -ENOMEM without room for the process. */
int aggregate_place_get(struct aggregate *a, const struct aggregate_input *input,
			struct aggregate_sample *key)
{
	const struct bpfprof_sample *s = input->sample;
	int64_t process = process_get(a, input), name;

	if (process < 0)
		return -ENOMEM;
	process_at(a, (uint32_t)process)->samples++;
	if (input->role)
		role_note(a, process_at(a, (uint32_t)process), input->role);
	thread_note(a, (uint32_t)process, s->task.tid);
	key->process = (uint32_t)process;
	key->gil = gil_of(s);
	name = name_get(a, s->comm);
	key->thread = name < 0 ? 0 : (uint32_t)name;
	if (a->threads)
		key->tid = s->task.tid;
	return 0;
}

/* The index of the sample that counts, or -ENOMEM. key: everything except the stack. */
static int64_t stack_sample(struct aggregate *a, struct aggregate_sample *key,
			    const uint64_t *frames, size_t nr, uint64_t value_ns)
{
	int64_t stack = nr ? aggregate_stack_get(a, frames, nr) : AGGREGATE_NO_STACK;
	int64_t sample;

	if (stack < 0) {
		a->nr_table_full++;
		stack = AGGREGATE_NO_STACK;
	}
	key->stack = (uint32_t)stack;
	sample = sample_count(a, *key, value_ns);
	if (sample >= 0)
		return sample;
	/* The stack is kept, but there is no room for it with this process or thread. */
	a->nr_table_full += key->stack != AGGREGATE_NO_STACK;
	key->stack = AGGREGATE_NO_STACK;
	sample = sample_count(a, *key, value_ns);
	a->nr_lost += sample < 0;
	return sample;
}

static uint32_t sleeper_of(const struct bpfprof_sample *s, const struct aggregate_part *part)
{
	bool first = s->task.tid == s->task.pid;

	if (part->asleep)
		return first ? PROFILE_FIRST_SLEEPS : PROFILE_HELPER_SLEEPS;
	return first && part->runs ? PROFILE_FIRST_RUNS : PROFILE_NOT_ASLEEP;
}

/* Writes the frames above the stack in front of its first frame, at end. Returns their number. */
static size_t above_put(const struct aggregate_part *part, uint32_t process, uint64_t *end)
{
	size_t nr = part->nr_above < AGGREGATE_MAX_ABOVE ? part->nr_above : AGGREGATE_MAX_ABOVE, i;
	uint64_t *at = end - nr - !!part->leaf;

	if (!part->above_is_own)
		process = AGGREGATE_MAX_VA_PROCESSES;
	for (i = 0; i < nr; i++)
		at[i] = wire_frame_of(part->above[i], process);
	if (part->leaf)
		at[nr] = part->leaf;
	return (size_t)(end - at);
}

void aggregate_add_parts(struct aggregate *a, const struct aggregate_input *input,
			 struct aggregate_part *parts, size_t nr_parts)
{
	struct aggregate_sample key = { 0 };
	uint64_t frames[AGGREGATE_MAX_ABOVE + 1 + MAX_STACK];
	uint64_t *stack = frames + AGGREGATE_MAX_ABOVE + 1;
	uint64_t full = a->nr_table_full;
	size_t nr, above, i;
	int err;

	sample_counts_add(&a->counts, input);
	err = aggregate_place_get(a, input, &key);
	a->nr_lost += err != 0;
	nr = err ? 0 : wire_stack_join(input, key.process, stack);
	for (i = 0; i < nr_parts; i++) {
		parts[i].sample = -ENOMEM;
		if (err || !parts[i].value_ns)
			continue;
		above = above_put(&parts[i], key.process, stack);
		key.sleeper = sleeper_of(input->sample, &parts[i]);
		parts[i].sample =
			stack_sample(a, &key, stack - above, nr + above, parts[i].value_ns);
	}
	if (a->nr_table_full > full)
		sample_counts_no_room(&a->counts, input);
}

static struct aggregate_sample *sample_at(const struct aggregate *a, int64_t sample)
{
	if (sample < 0 || (uint64_t)sample >= a->samples.items.nr)
		return NULL;
	return (struct aggregate_sample *)a->samples.items.data + sample;
}

/* Adds one and value_ns to the sample at that place. Its index, -EINVAL or -ENOMEM. */
static int64_t sample_count_at(struct aggregate *a, const struct aggregate_call_at *at,
			       uint32_t sleeper, uint64_t value_ns)
{
	const struct aggregate_sample key = { .process = at->process,
					      .stack = at->stack,
					      .tid = at->tid,
					      .thread = at->thread,
					      .gil = at->gil,
					      .sleeper = sleeper };

	if (at->process >= a->processes.nr || at->stack >= a->stacks.callers.nr)
		return -EINVAL;
	return sample_count(a, key, value_ns);
}

int aggregate_count(struct aggregate *a, const struct aggregate_call_at *at, uint64_t count,
		    uint64_t value)
{
	int64_t sample = sample_count_at(a, at, PROFILE_NOT_ASLEEP, value);

	if (sample >= 0)
		sample_at(a, sample)->count += count - 1;
	else if (sample == -ENOMEM)
		a->nr_lost += count;
	return sample < 0 ? (int)sample : 0;
}

int64_t aggregate_hold(struct aggregate *a, const struct aggregate_call_at *at, uint32_t sleeper)
{
	int64_t sample = sample_count_at(a, at, sleeper, 0);

	if (sample < 0)
		return sample;
	sample_at(a, sample)->count--;
	process_at(a, at->process)->samples--;
	return sample;
}

/* Fills in how the stack ends, from the marker of wire_stack_join(). */
static void ends_fill(const struct aggregate *a, uint32_t stack, struct aggregate_input *input,
		      struct bpfprof_sample *sample)
{
	const uint64_t *frames = a->stacks.elements.data;
	uint32_t at, kind;

	input->sample = sample;
	input->stop = BPFPROF_STOP_NO_USER;
	stack_each(at, (const uint32_t *)a->stacks.callers.data, stack) {
		kind = aggregate_frame_kind(frames[at]);
		if (kind == BPFPROF_FRAME_KERNEL || kind == BPFPROF_FRAME_LABEL)
			continue;
		input->stop = BPFPROF_STOP_COMPLETE;
		if (kind == BPFPROF_FRAME_PYTHON)
			sample->nr_python = 1;
		if (kind == BPFPROF_FRAME_MARKER && frames[at] & PYTHON_FRAME_UNMERGED)
			input->unmerged = PYTHON_UNMERGED_READ;
		else if (kind == BPFPROF_FRAME_MARKER)
			input->stop = (uint32_t)(frames[at] & BPFPROF_FRAME_MASK);
	}
}

void aggregate_release(struct aggregate *a, int64_t sample)
{
	struct aggregate_sample *s = sample_at(a, sample);
	struct bpfprof_sample of = { 0 };
	struct aggregate_input input = { 0 };

	if (!s || s->count)
		return;
	s->count = 1;
	process_at(a, s->process)->samples++;
	ends_fill(a, s->stack, &input, &of);
	sample_counts_add(&a->counts, &input);
}

int64_t aggregate_adjust(struct aggregate *a, int64_t sample, int64_t ns)
{
	struct aggregate_sample *s = sample_at(a, sample);

	if (!s)
		return 0;
	if (ns < 0 && s->value_ns < (uint64_t)-ns)
		ns = -(int64_t)s->value_ns;
	s->value_ns += (uint64_t)ns;
	return ns;
}

/* A sample from before the begin, which came late, gets the first second. */
static void second_note(struct aggregate *a, uint32_t sample, uint64_t ts_ns)
{
	uint64_t after_ns = ts_ns - a->seconds_ns;

	seconds_add(a->seconds, (int64_t)after_ns < 0 ? 0 : (uint32_t)(after_ns / NS_PER_SECOND),
		    sample);
}

void aggregate_add(struct aggregate *a, const struct aggregate_input *input)
{
	struct sample_counts *own;
	struct aggregate_sample key = { 0 };
	uint64_t frames[MAX_STACK], full = a->nr_table_full;
	int64_t at;
	size_t nr;

	sample_counts_add(&a->counts, input);
	if (aggregate_place_get(a, input, &key)) {
		a->nr_lost++;
		return;
	}
	own = a->may_forget ? (struct sample_counts *)a->process_counts.data + key.process : NULL;
	if (own)
		sample_counts_add(own, input);
	nr = wire_stack_join(input, key.process, frames);
	at = stack_sample(a, &key, frames, nr, input->sample->period_ns);
	if (a->seconds && at >= 0)
		second_note(a, (uint32_t)at, input->sample->rec.ts_ns);
	if (a->nr_table_full == full)
		return;
	sample_counts_no_room(&a->counts, input);
	if (own)
		sample_counts_no_room(own, input);
}

int aggregate_seconds_keep(struct aggregate *a, uint64_t begin_ns)
{
	size_t share = a->budget.max_bytes / SECONDS_SHARE;
	int err = seconds_new(&a->seconds, share);

	if (err)
		return err;
	a->budget.max_bytes -= share + seconds_bytes(a->seconds);
	a->seconds_ns = begin_ns;
	return 0;
}

void aggregate_seconds_end(struct aggregate *a)
{
	if (a->seconds)
		seconds_flush(a->seconds);
}

const struct seconds *aggregate_seconds(const struct aggregate *a)
{
	return a->seconds;
}

void aggregate_may_forget(struct aggregate *a)
{
	a->may_forget = true;
}

uint64_t aggregate_forget(struct aggregate *a, const struct bpfprof_task_id *task)
{
	struct aggregate_process *processes = a->processes.data, *process;
	struct sample_counts *counts = a->process_counts.data;
	struct aggregate_sample *samples = a->samples.items.data;
	uint64_t before = a->counts.nr_taken;
	size_t i;

	if (!a->may_forget)
		return 0;
	for (i = 0; i < a->processes.nr; i++)
		if (processes[i].pid == task->pid && processes[i].start_ns == task->start_ns) {
			sample_counts_take(&a->counts, &counts[i]);
			processes[i].samples = 0;
		}
	for (i = 0; i < a->samples.items.nr; i++) {
		process = &processes[samples[i].process];
		if (process->pid != task->pid || process->start_ns != task->start_ns)
			continue;
		samples[i].count = 0;
		samples[i].value_ns = 0;
	}
	return before - a->counts.nr_taken;
}

void aggregate_exit(struct aggregate *a, const struct bpfprof_task_id *task, uint64_t cpu_ns)
{
	struct aggregate_process *all = a->processes.data, *last = NULL;
	uint64_t hash = process_hash(a, task);
	uint32_t slot, i;

	if (!index_start(&a->process_index, hash, &slot))
		return;
	/* The time belongs to the last name of the process. */
	while (index_next(&a->process_index, &a->process_hashes, hash, &slot, &i))
		if (all[i].pid == task->pid && all[i].start_ns == task->start_ns &&
		    (!last || &all[i] > last))
			last = &all[i];
	if (last)
		last->exit_cpu_ns = cpu_ns;
}

int aggregate_new(struct aggregate **ret, bool threads, size_t max_bytes)
{
	const uint64_t marker = (uint64_t)BPFPROF_FRAME_MARKER << BPFPROF_FRAME_SHIFT;
	struct aggregate *a = calloc(1, sizeof(*a));
	uint32_t none;

	if (!a)
		return -ENOMEM;
	a->threads = threads;
	a->budget.max_bytes = max_bytes;
	a->seed = hash_seed();
	tag_list_init(&a->tags);
	/*
	 * AGGREGATE_NO_STACK and thread name 0, which is "", are used when there is no room.
	 */
	if (aggregate_stack_get(a, &marker, 1) != AGGREGATE_NO_STACK || name_get(a, "") ||
	    title_add(a, "", &none)) {
		aggregate_free(a);
		return -ENOMEM;
	}
	*ret = a;
	return 0;
}

void aggregate_free_samples(struct aggregate *a)
{
	stack_set_fini(&a->stacks);
	piece_set_fini(&a->samples);
}

void aggregate_free(struct aggregate *a)
{
	if (!a)
		return;
	free(a->processes.data);
	free(a->process_counts.data);
	free(a->process_hashes.data);
	free(a->process_index.slots);
	aggregate_free_samples(a);
	free(a->titles.data);
	seconds_free(a->seconds);
	piece_set_fini(&a->thread_names);
	piece_set_fini(&a->threads_seen);
	tag_list_fini(&a->tags);
	call_list_fini(&a->calls);
	free(a);
}

size_t aggregate_unused_bytes(const struct aggregate *aggregate)
{
	const struct stack_set *stacks = &aggregate->stacks;

	return (stacks->elements.cap - stacks->elements.nr) * sizeof(uint64_t) +
	       (stacks->callers.cap - stacks->callers.nr) * sizeof(uint32_t);
}

void aggregate_freeze(struct aggregate *aggregate, size_t min_bytes)
{
	size_t max_bytes = aggregate->budget.bytes + aggregate->budget.bytes / 7;

	if (max_bytes < min_bytes)
		max_bytes = min_bytes;
	if (aggregate->budget.max_bytes > max_bytes)
		aggregate->budget.max_bytes = max_bytes;
	if (aggregate->seconds)
		seconds_freeze(aggregate->seconds);
}

size_t aggregate_bytes(const struct aggregate *aggregate)
{
	return aggregate->budget.bytes +
	       (aggregate->seconds ? seconds_bytes(aggregate->seconds) : 0);
}

void aggregate_view_get(const struct aggregate *a, struct aggregate_view *view)
{
	*view = (struct aggregate_view){
		.processes = a->processes.data,
		.nr_processes = a->processes.nr,
		.frames = a->stacks.elements.data,
		.callers = a->stacks.callers.data,
		.nr_stacks = a->stacks.callers.nr,
		.samples = a->samples.items.data,
		.nr_samples = a->samples.items.nr,
		.threads = (const char(*)[BPFPROF_COMM_LEN])a->thread_names.items.data,
		.nr_threads = a->thread_names.items.nr,
		.titles = a->titles.data,
		.nr_titles_over = a->nr_titles_over,
		.counts = a->counts,
		.nr_table_full = a->nr_table_full,
		.nr_lost = a->nr_lost,
		.nr_no_second = a->seconds ? seconds_nr_lost(a->seconds) : 0,
	};
	call_list_view(&a->calls, view);
	tag_list_view(&a->tags, view);
}
