// SPDX-License-Identifier: Apache-2.0
#include "gpu/call_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/capped.h"
#include "base/time.h"
#include "container/containers.h"
#include "gpu/call_table_state.h"
#include "gpu/handle_generations.h"
#include "proc/ranks.h"
#include "profile/stats.h"

#define MAX_OPEN 16384 /* threads with the last stack of a call that has begun */
#define ASLEEP_LABEL "[asleep]"

void call_table_process_clear(struct call_table_process *process)
{
	free(process->name);
	free(process->container);
	free(process->pod);
	free(process->namespace);
	free(process->ray_task);
	free(process->rank);
}

void call_table_process_free(struct call_table *table, struct process_entry *process)
{
	call_table_mappings_forget(table, process, time_monotonic_ns());
	gpu_gaps_free(process->gaps);
	hash_table_remove(&table->by_process, process);
}

/* The newest text is the best one, since more is known later. */
static void text_set(char **dst, const char *text, size_t max)
{
	char *copy;

	if (!text || !*text || (*dst && !strncmp(*dst, text, max) && !(*dst)[strnlen(text, max)]))
		return;
	copy = strndup(text, max);
	if (!copy)
		return;
	free(*dst);
	*dst = copy;
}

static void process_describe(struct call_table *table, struct process_entry *entry,
			     const struct aggregate_input *input)
{
	struct call_table_process *process = &table->processes[entry->index];
	const struct container *container = input->container;

	if (input->own_pid)
		process->pid = input->own_pid;
	text_set(&process->name, input->sample->leader_comm, BPFPROF_COMM_LEN);
	text_set(&process->ray_task, input->title, AGGREGATE_TITLE_BYTES);
	if (container) {
		text_set(&process->container, container->id, SIZE_MAX);
		text_set(&process->pod, container->pod, SIZE_MAX);
		text_set(&process->namespace, container->namespace, SIZE_MAX);
		text_set(&process->rank, container->rank, SIZE_MAX);
	}
	if (input->ranks)
		text_set(&process->rank, input->ranks->rank, RANKS_TEXT_MAX);
}

/* The label of a function; "" for one without a name. */
static uint64_t function_label(struct call_table *table, const struct gpu_function *function)
{
	return aggregate_label(table->aggregate, function->shown ? function->shown : "");
}

/* Counts a stack that came with calls of a key. NULL: there is no room, which is counted. */
static struct stack_entry *stack_seen(struct call_table *table, struct process_entry *process,
				      const struct bpfprof_gpu_key *key,
				      const struct aggregate_call_at *at)
{
	struct stack_key wanted = {
		.process = at->process, .stack = at->stack, .tid = at->tid, .thread = at->thread
	};
	struct stack_entry *entry = NULL;

	wanted.of = hash_table_find(&table->keys, key);
	if (wanted.of)
		entry = hash_table_find(&table->stacks, &wanted);
	if (entry) {
		entry->seen++;
		return entry;
	}
	if (table->stacks.nr < table->stacks.max &&
	    process->nr_stacks < CALL_TABLE_MAX_PROCESS_STACKS / table->share) {
		wanted.of = hash_table_get(&table->keys, key);
		entry = wanted.of ? hash_table_add(&table->stacks, &wanted) : NULL;
	}
	if (!entry) {
		table->stacks_lost++;
		return NULL;
	}
	entry->at = *at;
	entry->seen = 1;
	entry->next = wanted.of->stacks;
	wanted.of->stacks = entry;
	process->nr_stacks++;
	return entry;
}

/* The time of a call without the part that was reported while the call was open. */
static uint64_t ns_unreported(const struct call_table *table, uint64_t begin_ns, uint64_t ns)
{
	uint64_t reported = table->waited_ns > begin_ns ? table->waited_ns - begin_ns : 0;

	return ns > reported ? ns - reported : 0;
}

/* A launch ends a time in which the device had no work. stack: the stack of the launch, or NULL. */
static void gap_end(struct process_entry *process, const struct bpfprof_gpu_call *call,
		    struct stack_entry *stack)
{
	uint64_t of_gaps = process->gaps ? gpu_gaps_end(process->gaps, call->idle_ns, call->va) : 0;
	uint64_t left = call->va - of_gaps;

	process->device_idle_seen_ns = capped_add(process->device_idle_seen_ns, of_gaps);
	if (!stack)
		return;
	process->device_idle_seen_ns = capped_add(process->device_idle_seen_ns, left);
	if (of_gaps || call->va >= GPU_GAPS_LONG_NS) {
		stack->device_idle_ns = capped_add(stack->device_idle_ns, left);
		return;
	}
	stack->short_ns = capped_add(stack->short_ns, left);
	process->short_ns = capped_add(process->short_ns, left);
}

/* Adds a call that has returned. stack: its stack, or NULL. */
static void call_done(struct call_table *table, struct process_entry *process,
		      const struct bpfprof_gpu_call *call, struct stack_entry *stack)
{
	uint32_t kind = gpu_function(call->key.function)->wire.kind;

	if (stack) {
		stack->bytes = capped_add(stack->bytes, call->bytes);
		stack->ns = capped_add(stack->ns, ns_unreported(table, call->begin_ns, call->ns));
	}
	if (BPFPROF_GPU_IS_LAUNCH(kind) || kind == GPU_KIND_GRAPH)
		gap_end(process, call, stack);
	call_table_memory_call(table, process, call, stack);
}

static struct open_call *open_find(const struct call_table *table, uint32_t tid, uint64_t begin_ns)
{
	struct open_entry *open = hash_table_find(&table->open, &tid);
	int i;

	for (i = 0; open && i < BPFPROF_GPU_MAX_OPEN; i++)
		if (begin_ns && open->calls[i].begin_ns == begin_ns)
			return &open->calls[i];
	return NULL;
}

/* The entry of the thread that takes a call of that process: an unused one, or the oldest. */
static struct open_call *open_place(struct open_entry *open, const struct bpfprof_gpu_key *key)
{
	struct open_call *at = &open->calls[0], *call;
	int i;

	for (i = 0; i < BPFPROF_GPU_MAX_OPEN; i++) {
		call = &open->calls[i];
		/* Another thread had this tid before. */
		if (call->key.pid != key->pid || call->key.start_ns != key->start_ns)
			*call = (struct open_call){ 0 };
		if (call->begin_ns < at->begin_ns)
			at = call;
	}
	return at;
}

static bool is_of_nccl(uint32_t kind)
{
	return kind == GPU_KIND_COLLECTIVE || kind == GPU_KIND_GROUP_END ||
	       kind == GPU_KIND_COMM_INIT || kind == GPU_KIND_COMM_END;
}

static void open_set(struct call_table *table, uint32_t tid, const struct bpfprof_gpu_call *call,
		     struct stack_entry *stack)
{
	struct open_entry *open = hash_table_find(&table->open, &tid);

	if (!open) {
		if (table->open.nr == MAX_OPEN)
			hash_table_remove(&table->open, table->open.oldest);
		open = hash_table_add(&table->open, &tid);
		if (!open)
			return;
	}
	*open_place(open, &call->key) =
		(struct open_call){ .begin_ns = call->begin_ns, .key = call->key, .stack = stack };
}

void call_table_stack(struct call_table *table, const struct aggregate_input *input,
		      const struct bpfprof_gpu_call *call)
{
	const struct gpu_function *function = gpu_function(call->key.function);
	struct process_entry *process =
		call_table_process_get(table, call->key.pid, call->key.start_ns);
	uint64_t leaf = function_label(table, function);
	struct stack_entry *stack = NULL;
	struct aggregate_call_at at;

	table->nr_stacks++;
	if (!process)
		return;
	process_describe(table, process, input);
	if (is_of_nccl(function->wire.kind))
		table->processes[process->index].nccl_tid = input->sample->task.tid;
	if (!aggregate_add_call(table->aggregate, input, &leaf, 1, &at))
		stack = stack_seen(table, process, &call->key, &at);
	else
		table->stacks_lost++;
	if (call->flags & BPFPROF_CALL_ENTRY)
		open_set(table, input->sample->task.tid, call, stack);
	else
		call_done(table, process, call, stack);
}

bool call_table_waited(struct call_table *table, const struct bpfprof_gpu_open *call, uint32_t tid,
		       uint64_t now_ns)
{
	struct open_call *open = open_find(table, tid, call->begin_ns);

	if (!open || !open->stack || now_ns < call->begin_ns ||
	    memcmp(&open->key, &call->key, sizeof(open->key)))
		return false;
	open->stack->ns = capped_add(open->stack->ns,
				     ns_unreported(table, call->begin_ns, now_ns - call->begin_ns));
	return true;
}

void call_table_waits(struct call_table *table, const struct bpfprof_gpu_open *call, uint32_t tid,
		      uint64_t now_ns)
{
	if (call_table_waited(table, call, tid, now_ns))
		table->waits_ns = now_ns;
}

void call_table_call(struct call_table *table, const struct bpfprof_gpu_event *event)
{
	const struct bpfprof_gpu_call *call = &event->call;
	struct process_entry *process =
		call_table_process_get(table, call->key.pid, call->key.start_ns);
	struct open_call *open = NULL;
	struct stack_entry *stack = NULL;
	struct aggregate_call_at at;

	if (!process || call->flags & BPFPROF_CALL_ENTRY)
		return;
	if (call->flags & BPFPROF_CALL_REUSED) {
		call_table_reused(table, call);
		return;
	}
	if (call->flags & BPFPROF_CALL_STACK)
		open = open_find(table, event->task.tid, call->begin_ns);
	if (open && !memcmp(&open->key, &call->key, sizeof(open->key))) {
		stack = open->stack;
		open->begin_ns = 0;
	} else if (gpu_function(call->key.function)->wire.kind == GPU_KIND_ALLOC &&
		   !call_table_no_stack(table, &call->key, &at)) {
		/* Every allocation is reported; an allocation without a stack gets `[no stack]`. */
		stack = stack_seen(table, process, &call->key, &at);
	}
	call_done(table, process, call, stack);
}

void call_table_graph(struct call_table *table, const struct bpfprof_gpu_graph_event *event)
{
	struct process_entry *process = call_table_process_get(table, event->pid, event->start_ns);

	if (process)
		gpu_graphs_event(table->graphs, event, &process->graphs);
}

bool call_table_graph_of(const struct call_table *table, const struct bpfprof_gpu_key *key,
			 struct gpu_graph *ret)
{
	size_t i;

	if (!key->handle || key->handle == BPFPROF_GPU_OTHER ||
	    !gpu_graphs_find(table->graphs, key->pid, key->start_ns, key->handle, ret))
		return false;
	for (i = 0; i < ret->nr; i++) /* the content of a child graph is not known */
		if (gpu_function(ret->nodes[i].function)->wire.kind == GPU_KIND_GRAPH)
			ret->complete = false;
	return true;
}

size_t call_table_nr_nodes(const struct call_table *table)
{
	return gpu_graphs_nr_nodes(table->graphs);
}

bool call_table_exit(struct call_table *table, const struct bpfprof_task_id *task, uint64_t end_ns)
{
	struct process_entry *process = call_table_process_find(table, task->pid, task->start_ns);

	if (!process)
		return false;
	table->processes[process->index].ended = true;
	call_table_memory_forget(table, process, end_ns ? end_ns : time_monotonic_ns());
	return true;
}

bool call_table_is_described(const struct call_table *table, uint32_t pid, uint64_t start_ns)
{
	const struct process_entry *process = call_table_process_find(table, pid, start_ns);

	return process && table->processes[process->index].name;
}

void call_table_describe(struct call_table *table, const struct aggregate_input *input)
{
	struct process_entry *process = call_table_process_get(table, input->sample->task.pid,
							       input->sample->task.start_ns);

	if (process)
		process_describe(table, process, input);
}

void call_table_process(struct call_table *table, uint32_t pid, uint64_t start_ns)
{
	call_table_process_get(table, pid, start_ns);
}

void call_table_device_idle(struct call_table *table, uint32_t pid, uint64_t start_ns, uint64_t ns,
			    uint64_t idle_ns)
{
	struct process_entry *process = call_table_process_find(table, pid, start_ns);

	if (!process)
		return;
	process->device_idle_ns = ns;
	process->idle_ns = idle_ns;
}

void call_table_gap(struct call_table *table, const struct aggregate_input *input, uint64_t ns,
		    bool asleep)
{
	const struct bpfprof_sample *sample = input->sample;
	struct process_entry *process =
		call_table_process_get(table, sample->task.pid, sample->task.start_ns);
	const uint64_t leaf = asleep ? aggregate_label(table->aggregate, ASLEEP_LABEL) : 0;
	struct aggregate_call_at at;

	if (!process || (!process->gaps && gpu_gaps_new(&process->gaps, &table->gaps_room)))
		return;
	if (aggregate_add_call(table->aggregate, input, &leaf, asleep, &at))
		table->gaps_room.lost++;
	else
		gpu_gaps_seen(process->gaps, &at, sample->gap_ns, ns, asleep);
}

void call_table_device_idle_forget(struct call_table *table, uint32_t pid, uint64_t start_ns,
				   uint64_t ns)
{
	struct process_entry *process = call_table_process_find(table, pid, start_ns);

	if (process)
		process->device_idle_ns = process->device_idle_reported_ns = ns;
}

void call_table_complete(struct call_table *table, const struct bpfprof_gpu_key *key, uint64_t ns)
{
	/* The key is known if a stack of it came, which is the usual case. */
	struct key_entry *of = hash_table_find(&table->keys, key);

	if (!of && table->keys.nr < table->stacks.max)
		of = hash_table_add(&table->keys, key);
	if (!of) {
		table->completed_lost++;
		return;
	}
	of->completed++;
	of->complete_ns = capped_add(of->complete_ns, ns);
}

bool call_table_launch_stack(const struct call_table *table, const struct bpfprof_gpu_key *key,
			     uint32_t *ret_stack)
{
	const struct stack_entry *stack, *most;
	const struct key_entry *of = hash_table_find(&table->keys, key);

	if (!of || !of->stacks)
		return false;
	most = of->stacks;
	for (stack = most->next; stack; stack = stack->next)
		if (stack->seen > most->seen)
			most = stack;
	*ret_stack = most->at.stack;
	return true;
}

bool call_table_open_stack(const struct call_table *table, uint32_t tid, uint64_t begin_ns,
			   uint32_t *ret_stack)
{
	const struct open_call *open = open_find(table, tid, begin_ns);

	if (!open || !open->stack)
		return false;
	*ret_stack = open->stack->at.stack;
	return true;
}

const struct call_table_process *call_table_processes(const struct call_table *table,
						      size_t *ret_nr)
{
	*ret_nr = table->nr_processes;
	return table->processes;
}

/* An input for a process as a whole. sample: its storage. */
static struct aggregate_input whole_process(const struct call_table *table, uint32_t pid,
					    uint64_t start_ns, struct bpfprof_sample *sample)
{
	const struct process_entry *process = call_table_process_find(table, pid, start_ns);
	const char *name = process ? table->processes[process->index].name : NULL;
	struct aggregate_input input = { .sample = sample, .stop = BPFPROF_STOP_INVALID };

	*sample =
		(struct bpfprof_sample){ .task = { .pid = pid, .tid = pid, .start_ns = start_ns } };
	if (process)
		input.own_pid = table->processes[process->index].pid;
	if (name)
		memcpy(sample->leader_comm, name, strnlen(name, sizeof(sample->leader_comm) - 1));
	return input;
}

int call_table_nowhere(struct call_table *table, const struct bpfprof_gpu_key *key,
		       const char *label, struct aggregate_call_at *ret)
{
	struct bpfprof_sample sample;
	struct aggregate_input input = whole_process(table, key->pid, key->start_ns, &sample);
	uint64_t leaf = aggregate_label(table->aggregate, label);

	return aggregate_add_call(table->aggregate, &input, &leaf, 1, ret);
}

int call_table_row(struct call_table *table, size_t process, const char *label,
		   struct aggregate_call_at *ret)
{
	const struct call_table_process *of = &table->processes[process];
	struct bpfprof_sample sample;
	struct aggregate_input input = whole_process(table, of->kernel_pid, of->start_ns, &sample);

	return aggregate_add_row(table->aggregate, &input, aggregate_label(table->aggregate, label),
				 ret);
}

int call_table_no_stack(struct call_table *table, const struct bpfprof_gpu_key *key,
			struct aggregate_call_at *ret)
{
	const char *shown = gpu_function(key->function)->shown;

	return call_table_nowhere(table, key, shown ? shown : "", ret);
}

uint64_t call_table_nr_stacks(const struct call_table *table)
{
	return table->nr_stacks;
}

#define AT(field) offsetof(struct call_table, field)

const struct counter call_table_counters[] = {
	{ COUNTER_GPU, "kernel_names_no_room", AT(names_lost),
	  .help = "names of kernels over the limit" },
	{ COUNTER_GPU, "allocations_no_room", AT(live_lost),
	  .help = "allocations of memory that are not followed" },
	{ COUNTER_GPU, "mappings_no_room", AT(mappings_lost),
	  .help = "mappings of memory that are not followed" },
	{ COUNTER_GPU, "stacks_no_room", AT(stacks_lost),
	  .help = "stacks of calls over the limit" },
	{ COUNTER_GPU, "processes_no_room", AT(processes_lost),
	  .help = "processes over the limit" },
	{ COUNTER_GPU, "calls_no_place", AT(calls_lost),
	  .help = "calls in the totals, but in no sample of a file" },
	{ COUNTER_GPU, "completions_no_room", AT(completed_lost),
	  .help = "calls for which the end of the work on the device is not known" },
	{ COUNTER_GPU, "stacks_of_gaps_no_room", AT(gaps_room.lost),
	  .help = "stacks of threads whose device is idle, over the limit" },
	{ 0 },
};

void call_table_lost(const struct call_table *table, struct stats_reasons *dst)
{
	stats_add_rows(dst, call_table_counters, table, true);
	gpu_graphs_lost(table->graphs, dst);
	handle_generations_lost(table->generations, dst);
}

int call_table_new(struct call_table **ret, struct aggregate *aggregate)
{
	struct call_table *table = calloc(1, sizeof(*table));

	if (!table)
		return -ENOMEM;
	table->aggregate = aggregate;
	table->share = 1;
	table->gaps_room.max = CALL_TABLE_MAX_GAP_STACKS;
	hash_table_init(&table->by_process, CALL_TABLE_MAX_PROCESSES, struct process_entry, key);
	hash_table_init(&table->open, MAX_OPEN, struct open_entry, tid);
	hash_table_init(&table->names, CALL_TABLE_MAX_NAMES, struct name_entry, key);
	hash_table_init(&table->keys, 2 * CALL_TABLE_MAX_STACKS, struct key_entry, key);
	hash_table_init(&table->stacks, CALL_TABLE_MAX_STACKS, struct stack_entry, key);
	hash_table_init(&table->live, CALL_TABLE_MAX_LIVE, struct live_entry, key);
	if (gpu_graphs_new(&table->graphs) || handle_generations_new(&table->generations)) {
		call_table_free(table);
		return -ENOMEM;
	}
	*ret = table;
	return 0;
}

void call_table_bound(struct call_table *table, unsigned int share)
{
	table->share = share;
	table->names.max = CALL_TABLE_MAX_NAMES / share;
	table->stacks.max = CALL_TABLE_MAX_STACKS / share;
	table->keys.max =
		2 * table->stacks.max; /* keys of stacks, and keys whose stacks come later */
	table->gaps_room.max = CALL_TABLE_MAX_GAP_STACKS / share;
	gpu_graphs_bound(table->graphs, share);
	handle_generations_bound(table->generations, share);
}

void call_table_pids_are_own(struct call_table *table)
{
	table->pids_are_own = true;
}

bool call_table_has_ended(const struct call_table *table, uint32_t pid, uint64_t start_ns)
{
	const struct process_entry *process = call_table_process_find(table, pid, start_ns);

	return process && table->processes[process->index].ended;
}

void call_table_undescribe(struct call_table *table)
{
	size_t i;

	for (i = 0; i < table->nr_processes; i++) {
		free(table->processes[i].name);
		table->processes[i].name = NULL;
	}
}

void call_table_free(struct call_table *table)
{
	struct process_entry *process;
	struct name_entry *name;
	size_t i;

	if (!table)
		return;
	gpu_graphs_free(table->graphs); /* the graphs point to shares of processes */
	handle_generations_free(table->generations);
	hash_table_each(&table->by_process, process)
		call_table_process_free(table, process);
	hash_table_each(&table->names, name)
		free(name->name);
	hash_table_clear(&table->names);
	hash_table_clear(&table->live);
	hash_table_clear(&table->open);
	hash_table_clear(&table->stacks);
	hash_table_clear(&table->keys);
	for (i = 0; i < table->nr_processes; i++)
		call_table_process_clear(&table->processes[i]);
	free(table->processes);
	free(table);
}
