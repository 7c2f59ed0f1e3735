// SPDX-License-Identifier: Apache-2.0
#include "profile/gpu_tally.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* What is hashed is chosen by targets: handles, addresses. */
#define HASH_FUNCTION(key, bytes, hash)                                                            \
	((hash) = (unsigned int)XXH3_64bits_withSeed(key, bytes, tally->seed))
#include <uthash.h>

#include "base/hash_seed.h"
#include "container/containers.h"
#include "gpu/functions.h"
#include "proc/ranks.h"
#include "profile/aggregate.h"
#include "profile/aggregate_carry.h"
#include "profile/gpu_gaps.h"
#include "profile/gpu_mappings.h"
#include "profile/gpu_reuse.h"
#include "profile/shares.h"
#include "profile/stats.h"
#include "symbol/demangle.h"

#define MAX_OPEN 16384 /* threads whose last stack of a call that has begun is kept */
#define HANDLE_TEXT_BYTES 32
#define GRAPH_TEXT_BYTES 56
#define STARVED_LABEL "launch"
#define UNSEEN_LABEL "[before this launch]" /* time in which nobody was seen to do anything */
#define GAP_LABEL "gap"
#define ASLEEP_LABEL "[asleep]"
#define CAPTURED_LABEL "[captured]" /* written into a graph */
#define TENSOR_REST 8 /* this part of the room for allocations is not for tensors */
/* Of one allocation: no device has as much, and sums of so many do not overflow. */
#define MAX_ALLOCATION_BYTES (1ULL << 45)

_Static_assert(MAX_ALLOCATION_BYTES <= UINT64_MAX / GPU_TALLY_MAX_LIVE, "sums do not overflow");

struct process_key {
	uint64_t start_ns;
	uint32_t pid, pad;
};

struct process_entry {
	UT_hash_handle hh;
	struct process_key key;
	uint32_t index; /* in processes */
	uint32_t nr_names, nr_live, nr_stacks;
	size_t name_bytes;
	struct gpu_graphs_share graphs;
	struct gpu_mappings mappings;
	uint64_t starved_ns; /* in all, */
	uint64_t starved_seen_ns; /* that stacks have, of this interval, */
	uint64_t starved_told_ns; /* and that was told in those before */
	uint64_t short_ns; /* of what stacks have: short gaps, which gaps may have a part of, */
	uint64_t short_left_ns; /* and what is left of these, and of what no stack has, */
	uint64_t short_all_ns; /* for stacks that all of them together have so much of */
	uint64_t idle_ns; /* its device has had nothing to do since then, 0: it has */
	struct gpu_gaps *gaps; /* NULL: nobody was seen in any */
};

struct handle_key {
	uint64_t start_ns;
	uint64_t value; /* of a kernel, or an address */
	uint32_t pid;
	uint32_t space; /* enum gpu_space of memory; of kernels: generation */
};

struct name_entry {
	UT_hash_handle hh;
	struct handle_key key;
	char *name; /* demangled; "": launches of several kernels cannot be told apart */
	bool untold; /* it is not, or not yet, known how many launches were of those before */
};

struct key_entry;

struct stack_key {
	struct key_entry *of;
	uint32_t process, stack, tid, thread;
};

/* What a stack that was sent says of a key. */
struct stack_entry {
	UT_hash_handle hh;
	struct stack_entry *next; /* of the same key */
	struct stack_key key;
	struct aggregate_call_at at;
	uint64_t seen; /* calls that had this stack */
	uint64_t bytes, ns; /* of those of which it is known */
	uint64_t live_bytes;
	uint64_t starved_ns; /* in long gaps, */
	uint64_t short_ns; /* and in short ones */
	uint64_t before; /* what seen was, when some stack of its key was seen last */
	bool kept; /* for the next interval */
};

struct key_entry {
	UT_hash_handle hh;
	struct bpfprof_gpu_key key;
	struct stack_entry *stacks;
	uint64_t completed, complete_ns; /* in this interval, whenever they were called */
};

/* By address or by handle. It lives until nothing refers to it and it is mapped nowhere. */
struct live_entry {
	UT_hash_handle hh;
	struct handle_key key;
	uint64_t bytes;
	uint64_t serial; /* others had the same key before */
	uint32_t refs, nr_mapped;
	bool borrowed; /* not allocated here, or before our time: without bytes */
	struct stack_entry *stack;
};

struct open_call {
	uint64_t begin_ns; /* 0: none */
	struct bpfprof_gpu_key key;
	struct stack_entry *stack;
};

/* Of a thread: the driver's calls may be in NCCL's, and both in a collection of Python's. */
struct open_entry {
	UT_hash_handle hh;
	uint32_t tid;
	struct open_call calls[BPFPROF_GPU_MAX_OPEN];
};

struct gpu_tally {
	struct aggregate *aggregate;
	uint64_t seed;
	const struct gpu_function *functions;
	size_t nr_functions;
	struct process_entry *by_process;
	struct gpu_tally_process *processes;
	size_t nr_processes;
	struct name_entry *names;
	size_t name_bytes;
	struct key_entry *keys;
	struct stack_entry *stacks;
	struct live_entry *live;
	uint64_t nr_serials;
	size_t nr_mappings;
	struct open_entry *open;
	struct gpu_graphs *graphs;
	struct gpu_gaps_room gaps_room;
	struct gpu_reuse *reuse;
	uint64_t nr_stacks;
	unsigned int share; /* by which limits are divided */
	bool pids_are_own;
	/* Until then calls that had not returned are told, in this interval and in those before. */
	uint64_t waits_ns, waited_ns;
	uint64_t names_lost, live_lost, stacks_lost, processes_lost, calls_lost, completed_lost;
	uint64_t mappings_lost;
};

static void process_clear(struct gpu_tally_process *process)
{
	free(process->name);
	free(process->container);
	free(process->pod);
	free(process->namespace);
	free(process->ray_task);
	free(process->rank);
}

/* Of a process that made a call; made as needed. NULL if there is no room. */
static struct process_entry *process_get(struct gpu_tally *tally, uint32_t pid, uint64_t start_ns)
{
	struct process_key key = { .start_ns = start_ns, .pid = pid };
	struct gpu_tally_process *tmp;
	struct process_entry *entry;

	HASH_FIND(hh, tally->by_process, &key, sizeof(key), entry);
	if (entry)
		return entry;
	if (tally->nr_processes == GPU_TALLY_MAX_PROCESSES)
		goto lost;
	tmp = reallocarray(tally->processes, tally->nr_processes + 1, sizeof(*tmp));
	if (!tmp)
		goto lost;
	tally->processes = tmp;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		goto lost;
	entry->key = key;
	entry->index = (uint32_t)tally->nr_processes;
	tmp[tally->nr_processes++] = (struct gpu_tally_process){
		.kernel_pid = pid, .pid = tally->pids_are_own ? pid : 0, .start_ns = start_ns
	};
	HASH_ADD(hh, tally->by_process, key, sizeof(entry->key), entry);
	return entry;
lost:
	tally->processes_lost++;
	return NULL;
}

static void mappings_forget(struct gpu_tally *tally, struct process_entry *process)
{
	tally->nr_mappings -= process->mappings.nr;
	gpu_mappings_fini(&process->mappings);
}

static void process_free(struct gpu_tally *tally, struct process_entry *process)
{
	HASH_DEL(tally->by_process, process);
	mappings_forget(tally, process);
	gpu_gaps_free(process->gaps);
	free(process);
}

static struct process_entry *process_find(const struct gpu_tally *tally, uint32_t pid,
					  uint64_t start_ns)
{
	struct process_key key = { .start_ns = start_ns, .pid = pid };
	struct process_entry *entry;

	HASH_FIND(hh, tally->by_process, &key, sizeof(key), entry);
	return entry;
}

static struct gpu_tally_memory *memory_of(struct gpu_tally *tally, struct process_entry *entry,
					  uint32_t space)
{
	return &tally->processes[entry->index].memory[space];
}

/* The newest word is the best one: more is known as time goes on. */
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

static void process_describe(struct gpu_tally *tally, struct process_entry *entry,
			     const struct aggregate_input *input)
{
	struct gpu_tally_process *process = &tally->processes[entry->index];
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

static const struct gpu_function *function_of(const struct gpu_tally *tally, uint32_t nr)
{
	return &tally->functions[nr < tally->nr_functions ? nr : 0];
}

/* The label of a function; "" is told as one that has no name. */
static uint64_t function_label(struct gpu_tally *tally, const struct gpu_function *function)
{
	return aggregate_label(tally->aggregate, function->shown ? function->shown : "");
}

static struct key_entry *key_get(struct gpu_tally *tally, const struct bpfprof_gpu_key *key)
{
	struct key_entry *entry;

	HASH_FIND(hh, tally->keys, key, sizeof(*key), entry);
	if (entry)
		return entry;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	entry->key = *key;
	HASH_ADD(hh, tally->keys, key, sizeof(entry->key), entry);
	return entry;
}

/*
 * Where calls with that key were made, seen once more; the same for the same. NULL if there is no
 * room, which is counted.
 */
static struct stack_entry *stack_seen(struct gpu_tally *tally, struct process_entry *process,
				      const struct bpfprof_gpu_key *key,
				      const struct aggregate_call_at *at)
{
	struct stack_key wanted = {
		.process = at->process, .stack = at->stack, .tid = at->tid, .thread = at->thread
	};
	struct stack_entry *entry = NULL;

	HASH_FIND(hh, tally->keys, key, sizeof(*key), wanted.of);
	if (wanted.of)
		HASH_FIND(hh, tally->stacks, &wanted, sizeof(wanted), entry);
	if (entry) {
		entry->seen++;
		return entry;
	}
	if (HASH_COUNT(tally->stacks) < GPU_TALLY_MAX_STACKS / tally->share &&
	    process->nr_stacks < GPU_TALLY_MAX_PROCESS_STACKS / tally->share) {
		wanted.of = key_get(tally, key);
		entry = wanted.of ? calloc(1, sizeof(*entry)) : NULL;
	}
	if (!entry) {
		tally->stacks_lost++;
		return NULL;
	}
	entry->key = wanted;
	entry->at = *at;
	entry->seen = 1;
	entry->next = wanted.of->stacks;
	wanted.of->stacks = entry;
	HASH_ADD(hh, tally->stacks, key, sizeof(entry->key), entry);
	process->nr_stacks++;
	return entry;
}

static void live_remove(struct gpu_tally *tally, struct live_entry *live)
{
	struct process_entry *process = process_find(tally, live->key.pid, live->key.start_ns);

	if (process) {
		memory_of(tally, process, live->key.space)->live_bytes -= live->bytes;
		process->nr_live--;
	}
	if (live->stack)
		live->stack->live_bytes -= live->bytes;
	HASH_DEL(tally->live, live);
	free(live);
}

/* What a call allocates or frees, refers to or maps. */
static struct handle_key live_key(const struct gpu_tally *tally,
				  const struct bpfprof_gpu_call *call, uint64_t value)
{
	return (struct handle_key){ .start_ns = call->key.start_ns,
				    .value = value,
				    .pid = call->key.pid,
				    .space = function_of(tally, call->key.function)->space };
}

static struct live_entry *live_find(const struct gpu_tally *tally, const struct handle_key *key)
{
	struct live_entry *live;

	HASH_FIND(hh, tally->live, key, sizeof(*key), live);
	return live;
}

/* Tensors are far more than what the driver hands out, which must have room beside them. */
static bool live_has_room(const struct gpu_tally *tally, const struct process_entry *process,
			  uint32_t space)
{
	uint32_t of_process = GPU_TALLY_MAX_PROCESS_LIVE / tally->share;
	uint32_t all = GPU_TALLY_MAX_LIVE / tally->share;

	if (space == GPU_SPACE_TENSOR) {
		of_process -= of_process / TENSOR_REST;
		all -= all / TENSOR_REST;
	}
	return process->nr_live < of_process && HASH_COUNT(tally->live) < all;
}

/* With one reference, and no bytes yet. NULL if there is no room, which is counted. */
static struct live_entry *live_add(struct gpu_tally *tally, struct process_entry *process,
				   const struct handle_key *key)
{
	struct live_entry *live =
		live_has_room(tally, process, key->space) ? calloc(1, sizeof(*live)) : NULL;

	if (!live) {
		tally->live_lost++;
		return NULL;
	}
	live->key = *key;
	live->serial = ++tally->nr_serials;
	live->refs = 1;
	HASH_ADD(hh, tally->live, key, sizeof(live->key), live);
	process->nr_live++;
	return live;
}

static void on_alloc(struct gpu_tally *tally, struct process_entry *process,
		     const struct bpfprof_gpu_call *call, struct stack_entry *stack)
{
	struct handle_key key = live_key(tally, call, call->va);
	struct gpu_tally_memory *memory = memory_of(tally, process, key.space);
	struct live_entry *live = live_find(tally, &key);
	uint64_t bytes = call->bytes < MAX_ALLOCATION_BYTES ? call->bytes : MAX_ALLOCATION_BYTES;

	if (call->result)
		return;
	if (live) /* its free was not seen */
		live_remove(tally, live);
	memory->allocations++;
	live = live_add(tally, process, &key);
	if (!live)
		return;
	live->bytes = bytes;
	live->stack = stack;
	memory->live_bytes += bytes;
	if (memory->live_bytes > memory->peak_bytes)
		memory->peak_bytes = memory->live_bytes;
	if (stack)
		stack->live_bytes += bytes;
}

/* A reference or a mapping of it is no more. Is it freed by that, and was it allocated here? */
static bool live_drop(struct gpu_tally *tally, struct live_entry *live)
{
	bool freed = !live->borrowed;

	if (live->refs || live->nr_mapped)
		return false;
	live_remove(tally, live);
	return freed;
}

/* What it is a part of is the one that counts, and only calls in steps are. */
static bool is_uncounted(const struct bpfprof_gpu_call *call)
{
	return call->flags & (BPFPROF_CALL_NESTED | BPFPROF_CALL_OUTSIDE);
}

static void on_free(struct gpu_tally *tally, struct process_entry *process,
		    const struct bpfprof_gpu_call *call)
{
	struct handle_key key = live_key(tally, call, call->va);
	struct gpu_tally_memory *memory = memory_of(tally, process, key.space);
	struct live_entry *live;
	bool known, freed = true;

	if (!call->va) /* freeing nothing is allowed */
		return;
	live = live_find(tally, &key);
	known = live && live->refs;
	if (known) {
		live->refs--;
		freed = live_drop(tally, live);
	}
	if (is_uncounted(call))
		return;
	memory->frees += freed;
	memory->unknown_frees += !known;
}

/*
 * One more reference to memory by handle. That of others, or from before our time, is of no size
 * here, and giving that reference back frees nothing.
 */
static void on_ref(struct gpu_tally *tally, struct process_entry *process,
		   const struct bpfprof_gpu_call *call)
{
	struct handle_key key = live_key(tally, call, call->va);
	struct live_entry *live = live_find(tally, &key);

	if (live) {
		live->refs += live->refs < UINT32_MAX;
		return;
	}
	live = live_add(tally, process, &key);
	if (live)
		live->borrowed = true;
}

/* Mappings of a process, one after the other, are no more. How many allocations are freed by that? */
static uint64_t mappings_end(struct gpu_tally *tally, struct process_entry *process,
			     const struct bpfprof_gpu_call *call, size_t first, size_t nr)
{
	const struct gpu_mapping *mapping;
	struct live_entry *live;
	struct handle_key key;
	uint64_t freed = 0;
	size_t i;

	for (i = first; i < first + nr; i++) {
		mapping = &process->mappings.all[i];
		key = live_key(tally, call, mapping->handle);
		live = live_find(tally, &key);
		if (!live || live->serial != mapping->serial)
			continue;
		live->nr_mapped--;
		freed += live_drop(tally, live);
	}
	gpu_mappings_remove(&process->mappings, first, nr);
	tally->nr_mappings -= nr;
	return freed;
}

static uint64_t mapping_end(const struct bpfprof_gpu_call *call)
{
	return call->va + call->bytes < call->va ? UINT64_MAX : call->va + call->bytes;
}

static void on_unmap(struct gpu_tally *tally, struct process_entry *process,
		     const struct bpfprof_gpu_call *call)
{
	const struct gpu_mappings *mappings = &process->mappings;
	uint64_t end = mapping_end(call), freed;
	size_t first, nr = gpu_mappings_find(mappings, call->va, end, &first);

	/* The driver refuses to unmap a part of what was mapped. */
	if (!nr || mappings->all[first].va < call->va || mappings->all[first + nr - 1].end > end)
		return;
	freed = mappings_end(tally, process, call, first, nr);
	if (!is_uncounted(call))
		memory_of(tally, process, live_key(tally, call, 0).space)->frees += freed;
}

static void on_map(struct gpu_tally *tally, struct process_entry *process,
		   const struct bpfprof_gpu_call *call)
{
	struct handle_key key = live_key(tally, call, call->key.handle);
	struct gpu_mapping mapping = { .va = call->va,
				       .end = mapping_end(call),
				       .handle = key.value };
	size_t first, nr = gpu_mappings_find(&process->mappings, mapping.va, mapping.end, &first);
	struct live_entry *live;

	if (nr) /* their end was not seen */
		memory_of(tally, process, key.space)->frees +=
			mappings_end(tally, process, call, first, nr);
	live = live_find(tally, &key);
	if (!live || !call->bytes)
		return;
	mapping.serial = live->serial;
	if (process->mappings.nr >= GPU_TALLY_MAX_PROCESS_LIVE / tally->share ||
	    tally->nr_mappings >= GPU_TALLY_MAX_LIVE / tally->share ||
	    gpu_mappings_add(&process->mappings, &mapping)) {
		tally->mappings_lost++;
		return;
	}
	tally->nr_mappings++;
	live->nr_mapped++;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

/* How long a call took, but for what was told of it while it had not returned. */
static uint64_t ns_untold(const struct gpu_tally *tally, uint64_t begin_ns, uint64_t ns)
{
	uint64_t told = tally->waited_ns > begin_ns ? tally->waited_ns - begin_ns : 0;

	return ns > told ? ns - told : 0;
}

/* A launch before which the device had nothing to do. stack: where it was made, or NULL. */
static void gap_end(struct process_entry *process, const struct bpfprof_gpu_call *call,
		    struct stack_entry *stack)
{
	uint64_t of_gaps = process->gaps ? gpu_gaps_end(process->gaps, call->idle_ns, call->va) : 0;
	uint64_t left = call->va - of_gaps;

	process->starved_seen_ns = sum(process->starved_seen_ns, of_gaps);
	if (!stack)
		return;
	process->starved_seen_ns = sum(process->starved_seen_ns, left);
	if (of_gaps || call->va >= GPU_GAPS_LONG_NS) {
		stack->starved_ns = sum(stack->starved_ns, left);
		return;
	}
	stack->short_ns = sum(stack->short_ns, left);
	process->short_ns = sum(process->short_ns, left);
}

/* What a call that is told whole has done. stack: where it was made, or NULL. */
static void call_done(struct gpu_tally *tally, struct process_entry *process,
		      const struct bpfprof_gpu_call *call, struct stack_entry *stack)
{
	uint32_t kind = function_of(tally, call->key.function)->wire.kind;

	if (stack) {
		stack->bytes = sum(stack->bytes, call->bytes);
		stack->ns = sum(stack->ns, ns_untold(tally, call->begin_ns, call->ns));
	}
	if (BPFPROF_GPU_IS_LAUNCH(kind) || kind == GPU_KIND_GRAPH)
		gap_end(process, call, stack);
	switch (kind) {
	case GPU_KIND_ALLOC:
		on_alloc(tally, process, call, stack);
		break;
	case GPU_KIND_FREE:
		on_free(tally, process, call);
		break;
	case GPU_KIND_MEMORY_REF:
		on_ref(tally, process, call);
		break;
	case GPU_KIND_MEMORY_MAP:
		on_map(tally, process, call);
		break;
	case GPU_KIND_MEMORY_UNMAP:
		on_unmap(tally, process, call);
		break;
	}
}

static int no_stack_get(struct gpu_tally *tally, const struct bpfprof_gpu_key *key,
			struct aggregate_call_at *ret);

static struct open_call *open_find(const struct gpu_tally *tally, uint32_t tid, uint64_t begin_ns)
{
	struct open_entry *open;
	int i;

	HASH_FIND(hh, tally->open, &tid, sizeof(tid), open);
	for (i = 0; open && i < BPFPROF_GPU_MAX_OPEN; i++)
		if (begin_ns && open->calls[i].begin_ns == begin_ns)
			return &open->calls[i];
	return NULL;
}

/* Where a call of that process goes, in place of none or of the oldest. */
static struct open_call *open_place(struct open_entry *open, const struct bpfprof_gpu_key *key)
{
	struct open_call *at = &open->calls[0], *call;
	int i;

	for (i = 0; i < BPFPROF_GPU_MAX_OPEN; i++) {
		call = &open->calls[i];
		/* Another thread had this number before. */
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

static void open_set(struct gpu_tally *tally, uint32_t tid, const struct bpfprof_gpu_call *call,
		     struct stack_entry *stack)
{
	struct open_entry *open;

	HASH_FIND(hh, tally->open, &tid, sizeof(tid), open);
	if (!open) {
		if (HASH_COUNT(tally->open) >= MAX_OPEN) { /* the one that came first */
			open = tally->open;
			HASH_DEL(tally->open, open);
			memset(open->calls, 0, sizeof(open->calls));
		} else {
			open = calloc(1, sizeof(*open));
		}
		if (!open)
			return;
		open->tid = tid;
		HASH_ADD(hh, tally->open, tid, sizeof(open->tid), open);
	}
	*open_place(open, &call->key) =
		(struct open_call){ .begin_ns = call->begin_ns, .key = call->key, .stack = stack };
}

void gpu_tally_stack(struct gpu_tally *tally, const struct aggregate_input *input,
		     const struct bpfprof_gpu_call *call)
{
	const struct gpu_function *function = function_of(tally, call->key.function);
	struct process_entry *process = process_get(tally, call->key.pid, call->key.start_ns);
	uint64_t leaf = function_label(tally, function);
	struct stack_entry *stack = NULL;
	struct aggregate_call_at at;

	tally->nr_stacks++;
	if (!process)
		return;
	process_describe(tally, process, input);
	if (is_of_nccl(function->wire.kind))
		tally->processes[process->index].nccl_tid = input->sample->task.tid;
	if (!aggregate_add_call(tally->aggregate, input, &leaf, 1, &at))
		stack = stack_seen(tally, process, &call->key, &at);
	else
		tally->stacks_lost++;
	if (call->flags & BPFPROF_CALL_ENTRY)
		open_set(tally, input->sample->task.tid, call, stack);
	else
		call_done(tally, process, call, stack);
}

bool gpu_tally_waited(struct gpu_tally *tally, const struct bpfprof_gpu_open *call, uint32_t tid,
		      uint64_t now_ns)
{
	struct open_call *open = open_find(tally, tid, call->begin_ns);

	if (!open || !open->stack || now_ns < call->begin_ns ||
	    memcmp(&open->key, &call->key, sizeof(open->key)))
		return false;
	open->stack->ns =
		sum(open->stack->ns, ns_untold(tally, call->begin_ns, now_ns - call->begin_ns));
	return true;
}

void gpu_tally_waits(struct gpu_tally *tally, const struct bpfprof_gpu_open *call, uint32_t tid,
		     uint64_t now_ns)
{
	if (gpu_tally_waited(tally, call, tid, now_ns))
		tally->waits_ns = now_ns;
}

static void generation_set(struct bpfprof_gpu_key *key, uint32_t generation)
{
	key->flags |= (uint16_t)(generation << GPU_TALLY_GENERATION_SHIFT);
}

static struct handle_key kernel_key(const struct bpfprof_gpu_key *key)
{
	return (struct handle_key){ .start_ns = key->start_ns,
				    .value = key->handle,
				    .pid = key->pid,
				    .space = GPU_TALLY_GENERATION(key) };
}

static struct name_entry *name_find(const struct gpu_tally *tally, const struct handle_key *key)
{
	struct name_entry *entry;

	HASH_FIND(hh, tally->names, key, sizeof(*key), entry);
	return entry;
}

static void name_set(struct gpu_tally *tally, const struct handle_key *key, const char *name)
{
	struct name_entry *entry = name_find(tally, key);
	struct process_entry *process = process_get(tally, key->pid, key->start_ns);
	size_t len = strlen(name), old = entry ? strlen(entry->name) : 0;
	char *copy;

	if (!process || !key->value)
		return;
	if ((!entry && (process->nr_names >= GPU_TALLY_MAX_PROCESS_NAMES / tally->share ||
			HASH_COUNT(tally->names) >= GPU_TALLY_MAX_NAMES / tally->share)) ||
	    process->name_bytes - old + len > GPU_TALLY_PROCESS_NAME_BYTES / tally->share ||
	    tally->name_bytes - old + len > GPU_TALLY_NAME_BYTES / tally->share) {
		tally->names_lost++;
		return;
	}
	copy = strdup(name);
	if (copy && !entry) {
		entry = calloc(1, sizeof(*entry));
		if (entry) {
			entry->key = *key;
			HASH_ADD(hh, tally->names, key, sizeof(entry->key), entry);
			process->nr_names++;
		}
	}
	if (!copy || !entry) {
		free(copy);
		tally->names_lost++;
		return;
	}
	free(entry->name);
	entry->name = copy;
	process->name_bytes += len - old;
	tally->name_bytes += len - old;
}

void gpu_tally_kernel_set(struct gpu_tally *tally, const struct bpfprof_gpu_key *key,
			  const char *name)
{
	const struct handle_key kernel = kernel_key(key);
	const struct name_entry *entry = name_find(tally, &kernel);
	char text[DEMANGLE_MAX_OUTPUT];

	if (!*name) /* or it would be shown as one that is called something */
		return;
	if (entry && (entry->untold || !*entry->name))
		return;
	demangle(name, text);
	name_set(tally, &kernel, text);
}

/* What a look-up says that a handle is called; NULL: that is not known; "": it is one of several. */
static const char *name_told(const struct gpu_tally *tally, const struct bpfprof_gpu_name *e,
			     char text[DEMANGLE_MAX_OUTPUT])
{
	const struct handle_key key = { .start_ns = e->task.start_ns,
					.value = e->other,
					.pid = e->task.pid };
	char mangled[BPFPROF_GPU_NAME_BYTES];
	const struct name_entry *other;

	if (e->other) {
		other = name_find(tally, &key);
		return other ? other->name : NULL;
	}
	memcpy(mangled, e->name, sizeof(mangled));
	mangled[sizeof(mangled) - 1] = 0;
	if (!*mangled)
		return NULL;
	demangle(mangled, text);
	return text;
}

/* What was told of a handle was of a kernel that is no more. False: there is no room to tell it apart. */
static bool generation_end(struct gpu_tally *tally, const struct handle_key *key, uint64_t ts_ns)
{
	uint32_t generation =
		gpu_reuse_end(tally->reuse, key->pid, key->start_ns, key->value, ts_ns);
	struct name_entry *entry = name_find(tally, key);

	if (!generation)
		return false;
	if (entry) {
		HASH_DEL(tally->names, entry);
		entry->key.space = generation;
		HASH_ADD(hh, tally->names, key, sizeof(entry->key), entry);
	}
	gpu_graphs_generation_end(tally->graphs, key->pid, key->start_ns, key->value, generation);
	return true;
}

static void name_reused(struct gpu_tally *tally, const struct handle_key *key, const char *name,
			uint64_t ts_ns)
{
	struct name_entry *entry;

	if (!generation_end(tally, key, ts_ns))
		name = "";
	if (name)
		name_set(tally, key, name);
	entry = name_find(tally, key);
	if (entry)
		entry->untold = true;
}

void gpu_tally_name(struct gpu_tally *tally, const struct bpfprof_gpu_name *e)
{
	const struct handle_key key = { .start_ns = e->task.start_ns,
					.value = e->handle,
					.pid = e->task.pid };
	char text[DEMANGLE_MAX_OUTPUT];
	const char *name = name_told(tally, e, text);
	const struct name_entry *before = name_find(tally, &key);

	/* One that only looks kernels up has elements of maps, too. */
	if (!process_get(tally, key.pid, key.start_ns))
		return;
	if (e->flags & BPFPROF_NAME_REUSED) {
		name_reused(tally, &key, name, e->rec.ts_ns);
		return;
	}
	if (before && name && *name && strcmp(before->name, name)) {
		/* Of two that look it up at once, and the other's word is still to come? */
		if (!(e->flags & BPFPROF_NAME_UNSEEN))
			return;
		name = "";
	}
	if (name)
		name_set(tally, &key, name);
}

/* All that was counted of kernels before has been told; or it is not known of which launches are. */
static void on_told(struct gpu_tally *tally, const struct handle_key *kernel, bool all)
{
	struct name_entry *entry = name_find(tally, kernel);

	if (!all)
		name_set(tally, kernel, "");
	else if (entry)
		entry->untold = false;
}

/* So many calls with a key were of the kernel before, and so are all stacks that came. */
static void on_reused(struct gpu_tally *tally, const struct bpfprof_gpu_call *call)
{
	const struct handle_key kernel = kernel_key(&call->key);
	struct bpfprof_gpu_key ended = call->key;
	struct key_entry *of, *other;
	uint32_t generation;

	if (!call->key.function) {
		on_told(tally, &kernel, call->bytes);
		return;
	}
	generation = gpu_reuse_key_end(tally->reuse, &call->key, call->bytes);
	if (!generation) { /* nobody can say of what they were any more */
		name_set(tally, &kernel, "");
		return;
	}
	generation_set(&ended, generation);
	HASH_FIND(hh, tally->keys, &call->key, sizeof(call->key), of);
	HASH_FIND(hh, tally->keys, &ended, sizeof(ended), other);
	if (!of || other)
		return;
	HASH_DEL(tally->keys, of);
	of->key = ended;
	HASH_ADD(hh, tally->keys, key, sizeof(of->key), of);
}

void gpu_tally_call(struct gpu_tally *tally, const struct bpfprof_gpu_event *event)
{
	const struct bpfprof_gpu_call *call = &event->call;
	struct process_entry *process = process_get(tally, call->key.pid, call->key.start_ns);
	struct open_call *open = NULL;
	struct stack_entry *stack = NULL;
	struct aggregate_call_at at;

	if (!process || call->flags & BPFPROF_CALL_ENTRY)
		return;
	if (call->flags & BPFPROF_CALL_REUSED) {
		on_reused(tally, call);
		return;
	}
	if (call->flags & BPFPROF_CALL_STACK)
		open = open_find(tally, event->task.tid, call->begin_ns);
	if (open && !memcmp(&open->key, &call->key, sizeof(open->key))) {
		stack = open->stack;
		open->begin_ns = 0;
	} else if (function_of(tally, call->key.function)->wire.kind == GPU_KIND_ALLOC &&
		   !no_stack_get(tally, &call->key, &at)) {
		/* All allocations are told, with a stack or without: these have `[no stack]`. */
		stack = stack_seen(tally, process, &call->key, &at);
	}
	call_done(tally, process, call, stack);
}

void gpu_tally_graph(struct gpu_tally *tally, const struct bpfprof_gpu_graph_event *event)
{
	struct process_entry *process = process_get(tally, event->pid, event->start_ns);

	if (process)
		gpu_graphs_event(tally->graphs, event, &process->graphs);
}

bool gpu_tally_graph_of(const struct gpu_tally *tally, const struct bpfprof_gpu_key *key,
			struct gpu_graph *ret)
{
	size_t i;

	if (!key->handle || key->handle == BPFPROF_GPU_OTHER ||
	    !gpu_graphs_find(tally->graphs, key->pid, key->start_ns, key->handle, ret))
		return false;
	for (i = 0; i < ret->nr; i++) /* of another graph in it only that is told */
		if (function_of(tally, ret->nodes[i].function)->wire.kind == GPU_KIND_GRAPH)
			ret->complete = false;
	return true;
}

size_t gpu_tally_nr_nodes(const struct gpu_tally *tally)
{
	return gpu_graphs_nr_nodes(tally->graphs);
}

bool gpu_tally_exit(struct gpu_tally *tally, const struct bpfprof_task_id *task)
{
	struct process_entry *process = process_find(tally, task->pid, task->start_ns);
	struct live_entry *live, *next;

	if (!process)
		return false;
	tally->processes[process->index].ended = true;
	mappings_forget(tally, process);
	if (!process->nr_live)
		return true;
	HASH_ITER(hh, tally->live, live, next) {
		if (live->key.pid == task->pid && live->key.start_ns == task->start_ns)
			live_remove(tally, live);
	}
	return true;
}

bool gpu_tally_is_described(const struct gpu_tally *tally, uint32_t pid, uint64_t start_ns)
{
	const struct process_entry *process = process_find(tally, pid, start_ns);

	return process && tally->processes[process->index].name;
}

void gpu_tally_describe(struct gpu_tally *tally, const struct aggregate_input *input)
{
	struct process_entry *process =
		process_get(tally, input->sample->task.pid, input->sample->task.start_ns);

	if (process)
		process_describe(tally, process, input);
}

void gpu_tally_process(struct gpu_tally *tally, uint32_t pid, uint64_t start_ns)
{
	process_get(tally, pid, start_ns);
}

void gpu_tally_starved(struct gpu_tally *tally, uint32_t pid, uint64_t start_ns, uint64_t ns,
		       uint64_t idle_ns)
{
	struct process_entry *process = process_find(tally, pid, start_ns);

	if (!process)
		return;
	process->starved_ns = ns;
	process->idle_ns = idle_ns;
}

void gpu_tally_gap(struct gpu_tally *tally, const struct aggregate_input *input, uint64_t ns,
		   bool asleep)
{
	const struct bpfprof_sample *sample = input->sample;
	struct process_entry *process = process_get(tally, sample->task.pid, sample->task.start_ns);
	const uint64_t leaf = asleep ? aggregate_label(tally->aggregate, ASLEEP_LABEL) : 0;
	struct aggregate_call_at at;

	if (!process || (!process->gaps && gpu_gaps_new(&process->gaps, &tally->gaps_room)))
		return;
	if (aggregate_add_call(tally->aggregate, input, &leaf, asleep, &at))
		tally->gaps_room.lost++;
	else
		gpu_gaps_seen(process->gaps, &at, sample->gap_ns, ns, asleep);
}

void gpu_tally_starved_forget(struct gpu_tally *tally, uint32_t pid, uint64_t start_ns, uint64_t ns)
{
	struct process_entry *process = process_find(tally, pid, start_ns);

	if (process)
		process->starved_ns = process->starved_told_ns = ns;
}

void gpu_tally_complete(struct gpu_tally *tally, const struct bpfprof_gpu_key *key, uint64_t ns)
{
	struct key_entry *of;

	HASH_FIND(hh, tally->keys, key, sizeof(*key), of);
	/* As a rule a stack has come of it, and it is there. */
	if (!of && HASH_COUNT(tally->keys) < GPU_TALLY_MAX_STACKS / tally->share)
		of = key_get(tally, key);
	if (!of) {
		tally->completed_lost++;
		return;
	}
	of->completed++;
	of->complete_ns = sum(of->complete_ns, ns);
}

const char *gpu_tally_kernel(const struct gpu_tally *tally, const struct bpfprof_gpu_key *key)
{
	const struct handle_key kernel = kernel_key(key);
	const struct name_entry *entry = name_find(tally, &kernel);

	if (key->handle == BPFPROF_GPU_OTHER)
		return "[other kernels]";
	return entry && !entry->untold && *entry->name ? entry->name : NULL;
}

struct bpfprof_gpu_key gpu_tally_kernel_at(const struct gpu_tally *tally, uint32_t pid,
					   uint64_t start_ns, uint64_t handle, uint64_t ts_ns)
{
	struct bpfprof_gpu_key key = { .start_ns = start_ns, .pid = pid, .handle = handle };

	generation_set(&key, gpu_reuse_at(tally->reuse, pid, start_ns, handle, ts_ns));
	return key;
}

void gpu_tally_split(const struct gpu_tally *tally, struct gpu_tally_count *count, uint64_t before,
		     void (*add)(void *arg, const struct gpu_tally_count *part), void *arg)
{
	uint64_t calls = before + count->count.calls;
	const struct gpu_reuse_end *ends;
	struct gpu_tally_count part;
	size_t nr, i;

	ends = gpu_reuse_ends(tally->reuse, &count->key, &nr);
	for (i = 0; i < nr && before < calls; i++) {
		if (ends[i].calls <= before)
			continue;
		part = *count;
		generation_set(&part.key, ends[i].generation);
		part.count.calls = (ends[i].calls < calls ? ends[i].calls : calls) - before;
		before += part.count.calls;
		count->count.calls -= part.count.calls;
		add(arg, &part);
	}
}

size_t gpu_tally_nr_parts(const struct gpu_tally *tally)
{
	return gpu_reuse_nr(tally->reuse);
}

bool gpu_tally_launch_stack(const struct gpu_tally *tally, const struct bpfprof_gpu_key *key,
			    uint32_t *ret_stack)
{
	const struct stack_entry *stack, *most;
	const struct key_entry *of;

	HASH_FIND(hh, tally->keys, key, sizeof(*key), of);
	if (!of || !of->stacks)
		return false;
	most = of->stacks;
	for (stack = most->next; stack; stack = stack->next)
		if (stack->seen > most->seen)
			most = stack;
	*ret_stack = most->at.stack;
	return true;
}

bool gpu_tally_open_stack(const struct gpu_tally *tally, uint32_t tid, uint64_t begin_ns,
			  uint32_t *ret_stack)
{
	const struct open_call *open = open_find(tally, tid, begin_ns);

	if (!open || !open->stack)
		return false;
	*ret_stack = open->stack->at.stack;
	return true;
}

const struct gpu_tally_process *gpu_tally_processes(const struct gpu_tally *tally, size_t *ret_nr)
{
	*ret_nr = tally->nr_processes;
	return tally->processes;
}

struct sums {
	uint64_t seen, bytes, ns;
};

static struct sums sums_of(const struct stack_entry *stack)
{
	struct sums sums = { 0 };

	for (; stack; stack = stack->next) {
		sums.seen += stack->seen;
		sums.bytes = sum(sums.bytes, stack->bytes);
		sums.ns = sum(sums.ns, stack->ns);
	}
	return sums;
}

static const struct {
	enum profile_call_value allocated, inuse;
} memory_values[GPU_NR_SPACES] = {
	[GPU_SPACE_DEVICE] = { PROFILE_ALLOCATED_BYTES, PROFILE_INUSE_BYTES },
	[GPU_SPACE_HOST] = { PROFILE_HOST_ALLOCATED_BYTES, PROFILE_HOST_INUSE_BYTES },
	[GPU_SPACE_TENSOR] = { PROFILE_TENSOR_ALLOCATED_BYTES, PROFILE_TENSOR_INUSE_BYTES },
};

/* The values of a sample from calls, bytes and time of the same function. Captured copies move nothing. */
static void values_fill(const struct gpu_function *function, bool captured, uint64_t calls,
			uint64_t bytes, uint64_t ns, uint64_t values[PROFILE_NR_CALL_VALUES])
{
	values[PROFILE_CALLS] = calls;
	if (captured)
		bytes = 0;
	values[PROFILE_BLOCKED_NS] = function->wire.flags & BPFPROF_GPU_BLOCKS ? ns : 0;
	values[PROFILE_GC_NS] = function->wire.kind == GPU_KIND_GC ? ns : 0;
	values[function->wire.kind == GPU_KIND_ALLOC ? memory_values[function->space].allocated
						     : PROFILE_MOVED_BYTES] = bytes;
}

/* What there is no room for is counted as lost; the others are told all the same. */
static void sample_add(struct gpu_tally *tally, const struct aggregate_call_at *from, bool captured,
		       const char *kernel, uint32_t call,
		       const uint64_t values[PROFILE_NR_CALL_VALUES])
{
	struct aggregate_call_at at = *from;
	size_t i;

	for (i = 0; i < PROFILE_NR_CALL_VALUES && !values[i]; i++)
		;
	if (i == PROFILE_NR_CALL_VALUES)
		return;
	if (captured)
		at.stack = aggregate_stack_with(tally->aggregate, at.stack,
						aggregate_label(tally->aggregate, CAPTURED_LABEL));
	if (kernel)
		at.stack = aggregate_stack_with(tally->aggregate, at.stack,
						aggregate_label(tally->aggregate, kernel));
	if (aggregate_call_sample(tally->aggregate, &at, call, values) == -EINVAL)
		tally->calls_lost += values[PROFILE_CALLS]; /* the aggregate counts no others */
}

/* A place for what no stack came of, under a label. */
static int nowhere_get(struct gpu_tally *tally, const struct bpfprof_gpu_key *key,
		       const char *label, struct aggregate_call_at *ret)
{
	const struct process_entry *process = process_find(tally, key->pid, key->start_ns);
	const char *name = process ? tally->processes[process->index].name : NULL;
	struct bpfprof_sample sample = {
		.task = { .pid = key->pid, .tid = key->pid, .start_ns = key->start_ns }
	};
	struct aggregate_input input = { .sample = &sample, .stop = BPFPROF_STOP_INVALID };
	uint64_t leaf = aggregate_label(tally->aggregate, label);

	if (process)
		input.own_pid = tally->processes[process->index].pid;
	if (name)
		memcpy(sample.leader_comm, name, strnlen(name, sizeof(sample.leader_comm) - 1));
	return aggregate_add_call(tally->aggregate, &input, &leaf, 1, ret);
}

/* The same of calls. */
static int no_stack_get(struct gpu_tally *tally, const struct bpfprof_gpu_key *key,
			struct aggregate_call_at *ret)
{
	const char *shown = function_of(tally, key->function)->shown;

	return nowhere_get(tally, key, shown ? shown : "", ret);
}

static const char *kernel_text(struct gpu_tally *tally, const struct bpfprof_gpu_key *key,
			       char room[HANDLE_TEXT_BYTES])
{
	const char *name = gpu_tally_kernel(tally, key);

	if (!name) {
		snprintf(room, HANDLE_TEXT_BYTES, "kernel@0x%" PRIx64, (uint64_t)key->handle);
		name = room;
	}
	return name;
}

/* "graph of 412 kernels"; NULL: what is in it is not known. */
static const char *graph_text(const struct gpu_tally *tally, const struct bpfprof_gpu_key *key,
			      char room[GRAPH_TEXT_BYTES])
{
	uint64_t nr = 0;
	struct gpu_graph graph;
	size_t i;

	if (!gpu_tally_graph_of(tally, key, &graph) || (!graph.complete && !graph.nr))
		return NULL;
	for (i = 0; i < graph.nr; i++)
		if (BPFPROF_GPU_IS_LAUNCH(function_of(tally, graph.nodes[i].function)->wire.kind))
			nr += graph.nodes[i].count;
	snprintf(room, GRAPH_TEXT_BYTES, "graph of %s%" PRIu64 " kernel%s",
		 graph.complete ? "" : "at least ", nr, nr == 1 ? "" : "s");
	return room;
}

/* No stack of it was sent in this interval: they are taken to be those of one before. */
static void seen_before(struct key_entry *of)
{
	struct stack_entry *stack;

	for (stack = of->stacks; stack; stack = stack->next)
		stack->seen = stack->before;
}

/* Time before launches from there in which nobody was seen. */
static void unseen_add(struct gpu_tally *tally, const struct stack_entry *stack, const char *kernel,
		       uint32_t call)
{
	const struct bpfprof_gpu_key *key = &stack->key.of->key;
	struct process_entry *process = process_find(tally, key->pid, key->start_ns);
	uint64_t values[PROFILE_NR_CALL_VALUES] = { [PROFILE_STARVED_NS] = stack->starved_ns };
	struct aggregate_call_at at = stack->at;

	if (process && stack->short_ns)
		values[PROFILE_STARVED_NS] += share_take(&process->short_left_ns,
							 &process->short_all_ns, stack->short_ns);
	if (!values[PROFILE_STARVED_NS])
		return;
	if (kernel)
		at.stack = aggregate_stack_with(tally->aggregate, at.stack,
						aggregate_label(tally->aggregate, kernel));
	sample_add(tally, &at, false, UNSEEN_LABEL, call, values);
}

static void key_finish(struct gpu_tally *tally, const struct gpu_tally_count *counted,
		       const struct aggregate_call_labels *labels)
{
	const struct gpu_function *function = function_of(tally, counted->key.function);
	uint32_t call = aggregate_call(tally->aggregate, labels);
	uint64_t calls = counted->count.calls, bytes = counted->count.bytes, ns = counted->count.ns;
	bool captured = counted->key.flags & BPFPROF_KEY_CAPTURED;
	uint64_t completed = 0, complete_ns = 0;
	const struct stack_entry *stack;
	struct aggregate_call_at at;
	struct key_entry *of;
	struct sums left;

	HASH_FIND(hh, tally->keys, &counted->key, sizeof(counted->key), of);
	left = sums_of(of ? of->stacks : NULL);
	if (of && !left.seen) {
		seen_before(of);
		left = sums_of(of->stacks);
	}
	if (of) {
		completed = of->completed;
		complete_ns = of->complete_ns;
	}
	/* By what each stack was seen to do; by how often it was seen, of what was not told. */
	for (stack = of ? of->stacks : NULL; stack; stack = stack->next) {
		uint64_t values[PROFILE_NR_CALL_VALUES] = { 0 };
		uint64_t seen_bytes = left.seen, seen_ns = left.seen;
		uint64_t seen_completed = left.seen, seen_complete = left.seen;

		values_fill(function, captured, 0,
			    left.bytes ? share_take(&bytes, &left.bytes, stack->bytes)
				       : share_take(&bytes, &seen_bytes, stack->seen),
			    left.ns ? share_take(&ns, &left.ns, stack->ns)
				    : share_take(&ns, &seen_ns, stack->seen),
			    values);
		values[PROFILE_CALLS] = share_take(&calls, &left.seen, stack->seen);
		values[memory_values[function->space].inuse] = stack->live_bytes;
		values[PROFILE_COMPLETED] = share_take(&completed, &seen_completed, stack->seen);
		values[PROFILE_COMPLETE_NS] = share_take(&complete_ns, &seen_complete, stack->seen);
		sample_add(tally, &stack->at, captured, labels->kernel, call, values);
		unseen_add(tally, stack, labels->kernel, call);
	}
	if (calls || bytes || ns || completed) {
		uint64_t values[PROFILE_NR_CALL_VALUES] = { 0 };

		values_fill(function, captured, calls, bytes, ns, values);
		values[PROFILE_COMPLETED] = completed;
		values[PROFILE_COMPLETE_NS] = complete_ns;
		if (!no_stack_get(tally, &counted->key, &at))
			sample_add(tally, &at, captured, labels->kernel, call, values);
		else
			tally->calls_lost += calls;
	}
}

/* What is new of it, and that no stack has; 0 if they have more than is known of yet. */
static uint64_t starved_rest(const struct process_entry *process)
{
	uint64_t told = sum(process->starved_told_ns, process->starved_seen_ns);

	return process->starved_ns > told ? process->starved_ns - told : 0;
}

struct gap_finish {
	struct gpu_tally *tally;
	uint32_t call;
};

static void gap_add(void *arg, const struct aggregate_call_at *at, uint64_t ns)
{
	const uint64_t values[PROFILE_NR_CALL_VALUES] = { [PROFILE_STARVED_NS] = ns };
	const struct gap_finish *finish = arg;

	sample_add(finish->tally, at, false, NULL, finish->call, values);
}

/* What threads were seen to do in gaps. The rest is left for the launches that ended them. */
static void gaps_finish(struct gpu_tally *tally, struct process_entry *process)
{
	const struct aggregate_call_labels labels = { .function = GAP_LABEL };
	struct gap_finish finish = { .tally = tally };
	uint64_t ns = sum(process->short_ns, starved_rest(process));

	process->short_all_ns = process->short_left_ns = ns;
	if (!process->gaps)
		return;
	process->short_left_ns -= gpu_gaps_share(process->gaps, ns, process->idle_ns);
	finish.call = aggregate_call(tally->aggregate, &labels);
	gpu_gaps_each(process->gaps, gap_add, &finish);
}

/* Time before launches that no stack came of. */
static void starved_finish(struct gpu_tally *tally, struct process_entry *process)
{
	const struct bpfprof_gpu_key key = { .start_ns = process->key.start_ns,
					     .pid = process->key.pid };
	const struct aggregate_call_labels labels = { .function = STARVED_LABEL };
	uint64_t values[PROFILE_NR_CALL_VALUES] = { 0 };
	struct aggregate_call_at at;

	values[PROFILE_STARVED_NS] =
		share_take(&process->short_left_ns, &process->short_all_ns, starved_rest(process));
	if (values[PROFILE_STARVED_NS] && !nowhere_get(tally, &key, STARVED_LABEL, &at))
		sample_add(tally, &at, false, NULL, aggregate_call(tally->aggregate, &labels),
			   values);
}

int gpu_tally_finish(struct gpu_tally *tally, const struct gpu_tally_count *counts, size_t nr,
		     void (*comm_text)(void *arg, const struct bpfprof_gpu_key *key, char comm[24],
				       char rank[16]),
		     void *arg)
{
	char stream[HANDLE_TEXT_BYTES], kernel[HANDLE_TEXT_BYTES], comm[24], rank[16];
	char graph[GRAPH_TEXT_BYTES];
	struct process_entry *process, *next;
	size_t i;

	HASH_ITER(hh, tally->by_process, process, next)
		gaps_finish(tally, process);
	for (i = 0; i < nr; i++) {
		const struct bpfprof_gpu_key *key = &counts[i].key;
		const struct gpu_function *function = function_of(tally, key->function);
		struct aggregate_call_labels labels = { .function = function->shown };

		if (function->wire.stream || function->wire.kind == GPU_KIND_LAUNCH_CONFIG) {
			snprintf(stream, sizeof(stream), "0x%" PRIx64, (uint64_t)key->stream);
			labels.stream = key->stream == BPFPROF_GPU_OTHER ? "[other]" : stream;
		}
		if (BPFPROF_GPU_IS_LAUNCH(function->wire.kind))
			labels.kernel = kernel_text(tally, key, kernel);
		else if (function->wire.kind == GPU_KIND_GRAPH)
			labels.kernel = graph_text(tally, key, graph);
		if (function->wire.kind == GPU_KIND_COLLECTIVE) {
			comm[0] = rank[0] = 0;
			comm_text(arg, key, comm, rank);
			labels.comm = comm;
			labels.rank = rank;
			labels.op = function->shown;
		}
		key_finish(tally, &counts[i], &labels);
	}
	HASH_ITER(hh, tally->by_process, process, next)
		starved_finish(tally, process);
	return 0;
}

uint64_t gpu_tally_nr_unknown(const struct gpu_tally *tally, const struct gpu_tally_count *counts,
			      size_t nr)
{
	const struct bpfprof_gpu_key *key;
	uint64_t unknown = 0;
	size_t i;

	for (i = 0; i < nr; i++) {
		key = &counts[i].key;
		if (BPFPROF_GPU_IS_LAUNCH(function_of(tally, key->function)->wire.kind) &&
		    !gpu_tally_kernel(tally, key))
			unknown += counts[i].count.calls;
	}
	return unknown;
}

uint64_t gpu_tally_nr_stacks(const struct gpu_tally *tally)
{
	return tally->nr_stacks;
}

void gpu_tally_lost(const struct gpu_tally *tally, struct stats_reasons *dst)
{
	stats_add(dst, "kernel_names_no_room", tally->names_lost);
	stats_add(dst, "allocations_no_room", tally->live_lost);
	stats_add(dst, "mappings_no_room", tally->mappings_lost);
	stats_add(dst, "stacks_no_room", tally->stacks_lost);
	stats_add(dst, "processes_no_room", tally->processes_lost);
	stats_add(dst, "calls_no_place", tally->calls_lost);
	stats_add(dst, "completions_no_room", tally->completed_lost);
	stats_add(dst, "stacks_of_gaps_no_room", tally->gaps_room.lost);
	gpu_graphs_lost(tally->graphs, dst);
	gpu_reuse_lost(tally->reuse, dst);
}

int gpu_tally_new(struct gpu_tally **ret, struct aggregate *aggregate)
{
	struct gpu_tally *tally = calloc(1, sizeof(*tally));

	if (!tally)
		return -ENOMEM;
	tally->aggregate = aggregate;
	tally->share = 1;
	tally->gaps_room.max = GPU_TALLY_MAX_GAP_STACKS;
	tally->seed = hash_seed();
	tally->functions = gpu_functions(&tally->nr_functions);
	if (gpu_graphs_new(&tally->graphs) || gpu_reuse_new(&tally->reuse)) {
		gpu_tally_free(tally);
		return -ENOMEM;
	}
	*ret = tally;
	return 0;
}

void gpu_tally_bound(struct gpu_tally *tally, unsigned int share)
{
	tally->share = share;
	tally->gaps_room.max = GPU_TALLY_MAX_GAP_STACKS / share;
	gpu_graphs_bound(tally->graphs, share);
	gpu_reuse_bound(tally->reuse, share);
}

void gpu_tally_pids_are_own(struct gpu_tally *tally)
{
	tally->pids_are_own = true;
}

bool gpu_tally_has_ended(const struct gpu_tally *tally, uint32_t pid, uint64_t start_ns)
{
	const struct process_entry *process = process_find(tally, pid, start_ns);

	return process && tally->processes[process->index].ended;
}

void gpu_tally_undescribe(struct gpu_tally *tally)
{
	size_t i;

	for (i = 0; i < tally->nr_processes; i++) {
		free(tally->processes[i].name);
		tally->processes[i].name = NULL;
	}
}

/* Or is not known. */
static bool is_over(const struct gpu_tally *tally, uint32_t pid, uint64_t start_ns)
{
	const struct process_entry *process = process_find(tally, pid, start_ns);

	return !process || tally->processes[process->index].ended;
}

/* All that was launched of generations that have ended has been told. */
static bool is_settled(const void *arg, uint32_t pid, uint64_t start_ns)
{
	const struct gpu_tally *tally = arg;

	return is_over(tally, pid, start_ns) || gpu_tally_is_described(tally, pid, start_ns);
}

/* Puts what is wanted of one key into next; the others of it are not kept. */
static void key_carry(struct gpu_tally *tally, struct key_entry *of,
		      const struct aggregate_view *from, struct aggregate *next, size_t max_bytes)
{
	bool ended = GPU_TALLY_GENERATION(&of->key)
			     ? is_settled(tally, of->key.pid, of->key.start_ns)
			     : is_over(tally, of->key.pid, of->key.start_ns);
	bool any = sums_of(of->stacks).seen != 0;
	struct aggregate_call_at at;
	struct stack_entry *stack;

	for (stack = of->stacks; stack; stack = stack->next) {
		if (any)
			stack->before = stack->seen;
		stack->kept = false;
		if (ended || (any && !stack->seen && !stack->live_bytes && !stack->ns))
			continue;
		if (aggregate_bytes(next) > max_bytes / 2 ||
		    aggregate_carry(next, from, &stack->at, &at)) {
			tally->stacks_lost++;
			continue;
		}
		stack->kept = true;
		stack->at = at;
		stack->seen = stack->bytes = stack->ns = 0;
		stack->starved_ns = stack->short_ns = 0;
	}
}

/* Forgets calls of processes that are over, and stacks that are not kept. Is any call left? */
static bool open_unlink(const struct gpu_tally *tally, struct open_entry *open)
{
	struct open_call *call;
	bool any = false;
	int i;

	for (i = 0; i < BPFPROF_GPU_MAX_OPEN; i++) {
		call = &open->calls[i];
		if (call->stack && !call->stack->kept)
			call->stack = NULL;
		if (call->begin_ns && is_over(tally, call->key.pid, call->key.start_ns))
			call->begin_ns = 0;
		any |= call->begin_ns;
	}
	return any;
}

/* Nothing leads to a stack any more that is not kept. */
static void stacks_unlink(struct gpu_tally *tally)
{
	struct open_entry *open, *next_open;
	struct live_entry *live;

	for (live = tally->live; live; live = live->hh.next)
		if (live->stack && !live->stack->kept)
			live->stack = NULL;
	HASH_ITER(hh, tally->open, open, next_open) {
		if (open_unlink(tally, open))
			continue;
		HASH_DEL(tally->open, open);
		free(open);
	}
}

/* The stacks of a key that are kept, under their new places; the others go. */
static void key_relink(struct gpu_tally *tally, struct key_entry *of, struct stack_entry **stacks)
{
	struct process_entry *process = process_find(tally, of->key.pid, of->key.start_ns);
	struct stack_entry *stack = of->stacks, *next;

	of->stacks = NULL;
	for (; stack; stack = next) {
		next = stack->next;
		HASH_DEL(tally->stacks, stack);
		if (!stack->kept) {
			if (process)
				process->nr_stacks--;
			free(stack);
			continue;
		}
		stack->key.process = stack->at.process;
		stack->key.stack = stack->at.stack;
		stack->key.tid = stack->at.tid;
		stack->key.thread = stack->at.thread;
		stack->next = of->stacks;
		of->stacks = stack;
		HASH_ADD(hh, *stacks, key, sizeof(stack->key), stack);
	}
}

static bool graph_is_over(const void *tally, uint32_t pid, uint64_t start_ns)
{
	return is_over(tally, pid, start_ns);
}

static void name_forget(struct gpu_tally *tally, struct name_entry *name)
{
	struct process_entry *process = process_find(tally, name->key.pid, name->key.start_ns);
	size_t len = strlen(name->name);

	if (process) {
		process->nr_names--;
		process->name_bytes -= len;
	}
	tally->name_bytes -= len;
	HASH_DEL(tally->names, name);
	free(name->name);
	free(name);
}

static void ended_forget(struct gpu_tally *tally)
{
	struct process_entry *process, *next, *last;
	struct name_entry *name, *next_name;

	HASH_ITER(hh, tally->names, name, next_name) {
		if (is_over(tally, name->key.pid, name->key.start_ns) ||
		    (name->key.space && is_settled(tally, name->key.pid, name->key.start_ns)))
			name_forget(tally, name);
	}
	gpu_graphs_forget(tally->graphs, graph_is_over, tally);
	gpu_reuse_forget(tally->reuse, is_settled, tally);
	HASH_ITER(hh, tally->by_process, process, next) {
		struct gpu_tally_process *moved = &tally->processes[tally->nr_processes - 1];

		if (!tally->processes[process->index].ended)
			continue;
		process_clear(&tally->processes[process->index]);
		last = process_find(tally, moved->kernel_pid, moved->start_ns);
		if (last) {
			tally->processes[process->index] = *moved;
			last->index = process->index;
		}
		tally->nr_processes--;
		process_free(tally, process);
	}
}

void gpu_tally_next(struct gpu_tally *tally, struct aggregate *next, size_t max_bytes)
{
	struct stack_entry *stacks = NULL;
	struct process_entry *process;
	struct key_entry *key, *next_key;
	struct aggregate_view from;

	for (process = tally->by_process; process; process = process->hh.next) {
		process->starved_told_ns += sum(process->starved_seen_ns, starved_rest(process));
		process->starved_seen_ns = process->short_ns = 0;
	}
	if (tally->waits_ns)
		tally->waited_ns = tally->waits_ns;
	aggregate_view_get(tally->aggregate, &from);
	for (process = tally->by_process; process; process = process->hh.next)
		if (process->gaps)
			gpu_gaps_next(process->gaps, &from, next, max_bytes / 2);
	for (key = tally->keys; key; key = key->hh.next)
		key_carry(tally, key, &from, next, max_bytes);
	stacks_unlink(tally);
	HASH_ITER(hh, tally->keys, key, next_key) {
		key_relink(tally, key, &stacks);
		key->completed = key->complete_ns = 0;
		if (key->stacks)
			continue;
		HASH_DEL(tally->keys, key);
		free(key);
	}
	tally->stacks = stacks;
	ended_forget(tally);
	tally->aggregate = next;
}

static void keys_free(struct gpu_tally *tally)
{
	struct key_entry *key, *next_key;
	struct stack_entry *stack, *next_stack;

	HASH_ITER(hh, tally->stacks, stack, next_stack) {
		HASH_DEL(tally->stacks, stack);
		free(stack);
	}
	HASH_ITER(hh, tally->keys, key, next_key) {
		HASH_DEL(tally->keys, key);
		free(key);
	}
}

void gpu_tally_free(struct gpu_tally *tally)
{
	struct process_entry *process, *next_process;
	struct name_entry *name, *next_name;
	struct live_entry *live, *next_live;
	struct open_entry *open, *next_open;
	size_t i;

	if (!tally)
		return;
	gpu_graphs_free(tally->graphs); /* it points to shares of processes */
	gpu_reuse_free(tally->reuse);
	HASH_ITER(hh, tally->by_process, process, next_process) {
		process_free(tally, process);
	}
	HASH_ITER(hh, tally->names, name, next_name) {
		HASH_DEL(tally->names, name);
		free(name->name);
		free(name);
	}
	HASH_ITER(hh, tally->live, live, next_live) {
		HASH_DEL(tally->live, live);
		free(live);
	}
	HASH_ITER(hh, tally->open, open, next_open) {
		HASH_DEL(tally->open, open);
		free(open);
	}
	keys_free(tally);
	for (i = 0; i < tally->nr_processes; i++)
		process_clear(&tally->processes[i]);
	free(tally->processes);
	free(tally);
}
