// SPDX-License-Identifier: Apache-2.0
#include "memory/allocations.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/exit_status.h"
#include "base/log.h"
#include "base/process_map.h"
#include "base/strtab.h"
#include "base/time.h"
#include "base/vec.h"
#include "capture/sampler.h"
#include "kernel/held_blocks.h"
#include "kernel/probes/alloc_probes.h"
#include "proc/processes.h"
#include "proc/usage.h"
#include "profile/aggregate.h"
#include "profile/profile.h"

#define LOOK_NS (NS_PER_SECOND / 4)
#define SCAN_NS (NS_PER_SECOND / 200) /* for new processes */
#define CLEAN_NS NS_PER_SECOND
#define TICK_NS (ALLOCATIONS_TICK_MS * 1000000ULL)
/* Held ones, and those that were freed, but whose report has not been read yet or was lost. */
#define MAX_BLOCKS (2 * BPFPROF_MAX_HELD_BLOCKS)
#define MAX_ACCOUNTS 16384
#define MAX_REPORTED 8 /* a watched program may start many others */
#define FIRST_SUMS 256
#define CALL_COST                                                                                  \
	1.25 /* of a probe among other work, in probes of the measurement, which finds warm caches */
#define EARLY_SHARE 5 /* looks between two regular ones take at most this part of the time */
#define PEAK_STEP 100 /* and find this part more than the peak */
/*
 * Of other processes with probes in the same file, in costs of a call: the kernel runs the return of each call if there
 * is one, and asks each one's link. Measured on 6.18 with 1, 4 and 16: 1.5, 1.8 and 2.8 times the cost.
 */
#define SHARED_COST 0.5
#define OTHER_COST 0.1
#define RETURN_COST 1.5 /* of a probe at the end of a call, in probes at its begin */

/* A block of the sample, from its allocation until its end is reported, or two looks have not found it. */
struct sampled_block {
	struct hash_node node;
	uint64_t id, look; /* number of the last look that found it */
	uint64_t asked; /* bytes */
	uint64_t bytes; /* that it stands for */
	double objects; /* the same */
	uint64_t ts_ns, start_ns, exec_id; /* of the sample; of the process */
	uint32_t pid, sum;
};

/* Of one stack in one process. */
struct allocation_sum {
	struct aggregate_call_at at;
	uint32_t pid;
	uint64_t start_ns;
	double bytes, objects; /* allocated */
	double now_bytes, now_objects; /* held at the moment of an answer */
	double held_bytes, held_objects; /* of the answer, and what outlived windows */
	struct block_classes classes;
};

int allocations_check(void)
{
	const char *remedy, *lack = alloc_probes_lack(&remedy);

	if (!lack)
		return EXIT_DONE;
	log_error("allocations cannot be watched: %s; remedy: %s", lack, remedy);
	return EXIT_PRIVILEGE;
}

/* Makes room for another process: forgets the first one that has ended. */
static void accounts_evict(struct allocations *a)
{
	struct allocation_account *account;

	hash_table_each(&a->accounts, account) {
		if (!account->ended)
			continue;
		hash_table_remove(&a->accounts, account);
		a->nr_accounts_full++;
		return;
	}
}

static struct allocation_account *account_get(struct allocations *a, uint32_t pid,
					      uint64_t start_ns)
{
	struct allocation_account *account = process_map_find(&a->accounts, pid, start_ns);
	const struct process *process;
	struct proc_usage usage;

	if (account)
		return account;
	if (a->accounts.nr == MAX_ACCOUNTS && !a->ticking)
		accounts_evict(a);
	account = process_map_add(&a->accounts, pid, start_ns);
	if (!account) {
		a->nr_accounts_full++;
		return NULL;
	}
	process = processes_find(a->sampler->reader.processes, pid);
	if (process && process->start_ns == start_ns)
		account->own_pid = session_own_pid(&a->sampler->reader.session, pid,
						   process->ns_context.agent_pid);
	if (!account->own_pid || proc_usage_read(&usage, (pid_t)account->own_pid))
		usage.cpu_ns = 0;
	else
		memcpy(account->name, usage.comm, strnlen(usage.comm, sizeof(account->name) - 1));
	slowdown_begin(&account->slowdown, usage.cpu_ns, time_monotonic_ns());
	return account;
}

/* Room for the sum of that index. Sums and stacks share one limit: when it is reached, no further stacks are kept. */
static bool sums_grow(struct allocations *a, size_t index)
{
	size_t old = a->cap_sums, cap = index + index / 8 + FIRST_SUMS;

	if (index < old)
		return true;
	if (!vec_fit(a->sums, cap))
		return false;
	memset(a->sums + old, 0, (cap - old) * sizeof(*a->sums));
	a->cap_sums = cap;
	if (aggregate_bytes(a->aggregate) + cap * sizeof(*a->sums) > a->bytes)
		aggregate_freeze(a->aggregate, 0);
	return true;
}

/* The index of the sum of a stack, or -1. */
static int64_t sum_get(struct allocations *a, const struct aggregate_input *input)
{
	const struct bpfprof_sample *s = input->sample;
	const uint64_t no_leaf = 0;
	struct aggregate_call_at at;
	int64_t index;

	if (aggregate_add_call(a->aggregate, input, &no_leaf, 0, &at))
		return -1;
	index = aggregate_hold(a->aggregate, &at, PROFILE_NOT_ASLEEP);
	if (index < 0 || !sums_grow(a, (size_t)index))
		return -1;
	if ((size_t)index >= a->nr_sums)
		a->nr_sums = (size_t)index + 1;
	a->sums[index].at = at;
	a->sums[index].pid = s->task.pid;
	a->sums[index].start_ns = s->task.start_ns;
	return index;
}

static void on_block(struct allocations *a, const struct aggregate_input *input)
{
	const struct bpfprof_sample *s = input->sample;
	struct allocation_account *account = account_get(a, s->task.pid, s->task.start_ns);
	int64_t index = account ? sum_get(a, input) : -1;
	struct sampled_block *block;
	double objects;

	if (index < 0) {
		a->nr_blocks_full++;
		a->nr_unkept++;
		return;
	}
	account->own_pid = input->own_pid;
	account->exec_id = s->task.exec_id;
	memcpy(account->name, s->leader_comm, sizeof(account->name) - 1);
	objects = s->block_bytes ? (double)s->period_ns / (double)s->block_bytes : 1;
	a->sums[index].bytes += (double)s->period_ns;
	a->sums[index].objects += objects;
	block_classes_allocate(&a->sums[index].classes, s->block_bytes, s->period_ns);
	block = hash_table_get(&a->blocks, &s->block);
	if (!block) {
		a->nr_blocks_full++;
		a->nr_unkept++;
		return;
	}
	*block = (struct sampled_block){ .node = block->node,
					 .id = s->block,
					 .look = a->nr_looks,
					 .asked = s->block_bytes,
					 .bytes = s->period_ns,
					 .objects = objects,
					 .ts_ns = s->rec.ts_ns,
					 .start_ns = s->task.start_ns,
					 .exec_id = s->task.exec_id,
					 .pid = s->task.pid,
					 .sum = (uint32_t)index };
}

/* ts_ns: of its free. */
static void block_freed(struct allocations *a, struct sampled_block *block, uint64_t ts_ns)
{
	block_classes_free(&a->sums[block->sum].classes,
			   ts_ns > block->ts_ns ? ts_ns - block->ts_ns : 0, block->bytes);
	hash_table_remove(&a->blocks, block);
}

static void on_block_freed(struct allocations *a, const struct bpfprof_block_freed *freed)
{
	struct sampled_block *block = hash_table_find(&a->blocks, &freed->block);

	if (block)
		block_freed(a, block, freed->rec.ts_ns);
	a->nr_lives_estimated += block && freed->unseen;
}

static void on_event(void *arg, const struct event *event)
{
	struct allocations *a = arg;
	struct allocation_account *account;

	switch (event->kind) {
	case EVENT_BLOCK:
		on_block(a, event->input);
		break;
	case EVENT_BLOCK_FREED:
		on_block_freed(a, event->block_freed);
		break;
	case EVENT_EXEC:
		account = process_map_find(&a->accounts, event->process->pid,
					   event->process->start_ns);
		if (account)
			account->exec_id = event->process->exec_id;
		break;
	case EVENT_EXIT:
		alloc_probes_exit(a->probes, event->task->pid);
		/* start_ns 0: all processes that had the pid have ended. */
		hash_table_each(&a->accounts, account)
			if (account->key.pid == event->task->pid &&
			    (!event->task->start_ns ||
			     account->key.start_ns == event->task->start_ns))
				account->ended = true;
		break;
	default:
		break;
	}
}

int allocations_open(struct allocations *a, struct sampler *sampler,
		     const struct memory_options *options, size_t bytes)
{
	struct thread_reader *reader = &sampler->reader;
	int err;

	*a = (struct allocations){ .sampler = sampler,
				   .question = options->question,
				   .bytes = bytes };
	steady_stacks_init(&a->steady);
	hash_table_init(&a->blocks, MAX_BLOCKS, struct sampled_block, id);
	hash_table_init(&a->accounts, MAX_ACCOUNTS, struct allocation_account, key);
	err = aggregate_new(&a->aggregate, false, bytes);
	if (!err)
		err = held_blocks_new(&a->held, &reader->session, options->sample_bytes);
	if (!err)
		err = alloc_probes_new(&a->probes, &reader->session, reader->images,
				       reader->processes, reader->runner);
	if (err) {
		log_error("allocations cannot be watched: %s", strerror(-err));
		return EXIT_FAILED;
	}
	a->rules.call_ns = (uint64_t)(CALL_COST * (double)alloc_probes_call_ns(a->probes));
	a->rules.return_ns = (uint64_t)(RETURN_COST * (double)a->rules.call_ns);
	a->rules.max = options->max_slowdown / 100.0;
	log_debug("allocations: a probe takes %" PRIu64 " ns", a->rules.call_ns);
	sampler_observe(sampler, on_event, a);
	return EXIT_DONE;
}

void allocations_close(struct allocations *a)
{
	alloc_probes_free(a->probes);
	held_blocks_free(a->held);
	aggregate_free(a->aggregate);
	hash_table_clear(&a->blocks);
	hash_table_clear(&a->accounts);
	memory_answer_fini(&a->answer);
	steady_stacks_fini(&a->steady);
	free(a->sums);
	free(a->sums_of_samples);
	*a = (struct allocations){ 0 };
}

int allocations_start(struct allocations *a)
{
	uint32_t locked_pid;
	size_t nr;

	a->start_ns = time_monotonic_ns();
	nr = alloc_probes_scan(a->probes);
	if (!nr && alloc_probes_losses(a->probes)->nr_failed) {
		locked_pid = a->sampler->reader.session.locked_pid;
		if (locked_pid)
			log_error("allocations cannot be watched: the lock of the memory of "
				  "process %u of "
				  "the node (mmap_lock) is held, and while the kernel waits for "
				  "it, no "
				  "process can fork; remedy: find what holds it: a process that "
				  "reads this "
				  "memory, the server of a file in it, or itself (bpfprof dump -p "
				  "%u)",
				  locked_pid, locked_pid);
		else
			log_error("allocations cannot be watched: the kernel refuses the probes");
		return EXIT_PRIVILEGE;
	}
	log_debug("memory: watching the allocations of %zu processes", nr);
	return EXIT_DONE;
}

/* A look at the blocks that are held. */
struct look {
	struct allocations *a;
	uint64_t rate; /* bytes per sample: all blocks are of this rate, or of a larger one */
	bool any; /* a process is left */
	bool end; /* of the recording */
	uint32_t pid; /* only this process, whose window ends; 0: all */
	uint64_t bytes, kernel_bytes; /* that are held; held_blocks_bytes() */
};

/* Is the block in the sample at this rate, too? Then it stands for more. */
static bool block_thin(const struct look *look, struct sampled_block *block)
{
	uint64_t bytes = block->asked > look->rate ? block->asked : look->rate;

	if (block->bytes >= bytes)
		return true;
	if ((double)random() / RAND_MAX * (double)bytes > (double)block->bytes)
		return false;
	block->objects *= (double)bytes / (double)block->bytes;
	block->bytes = bytes;
	return true;
}

static double block_variance(const struct sampled_block *block)
{
	return (double)block->bytes * (double)(block->bytes - block->asked);
}

/* Its free may not be seen from now on. */
static void block_outlived(struct allocations *a, struct sampled_block *block)
{
	struct allocation_sum *sum = &a->sums[block->sum];

	sum->held_bytes += (double)block->bytes;
	sum->held_objects += block->objects;
	a->variance += block_variance(block);
	hash_table_remove(&a->blocks, block);
}

/* A block that has no sample: it is still on its way, or was lost, or there was no room. */
static bool block_unknown(const struct look *look, uint64_t id)
{
	struct allocations *a = look->a;

	if (!look->end && id > a->looked_id)
		return !look->pid;
	if (a->nr_unkept)
		a->nr_unkept--; /* it is counted */
	else
		a->nr_lost++;
	return false;
}

static bool look_block(void *arg, uint32_t pid, const struct bpfprof_block *held)
{
	struct look *look = arg;
	struct sampled_block *block = hash_table_find(&look->a->blocks, &held->id);
	const struct allocation_account *account;

	if (look->pid && pid != look->pid)
		return true;
	if (!block)
		return block_unknown(look, held->id);
	account = process_map_find(&look->a->accounts, block->pid, block->start_ns);
	if (!account || account->exec_id != block->exec_id || (account->ended && look->any) ||
	    !block_thin(look, block)) {
		hash_table_remove(&look->a->blocks, block);
		return false;
	}
	if (look->pid) {
		block_outlived(look->a, block);
		return false;
	}
	block->look = look->a->nr_looks;
	look->bytes += block->bytes;
	return true;
}

/* The blocks that the last look found, of before before_ns, as rows of an answer. 0 or -ENOMEM. */
static int answer_make(struct allocations *a, struct memory_answer *ret, uint64_t before_ns)
{
	struct sampled_block *block;
	struct allocation_sum *sum;
	struct held_row row;
	int err = 0;

	for (sum = a->sums; sum < a->sums + a->nr_sums; sum++)
		sum->now_bytes = sum->now_objects = 0;
	*ret = (struct memory_answer){ .ns = time_monotonic_ns() };
	hash_table_each(&a->blocks, block) {
		if (block->look != a->nr_looks || block->ts_ns >= before_ns)
			continue;
		a->sums[block->sum].now_bytes += (double)block->bytes;
		a->sums[block->sum].now_objects += block->objects;
		ret->variance += block_variance(block);
		ret->anon_bytes += block->bytes;
	}
	for (sum = a->sums; sum < a->sums + a->nr_sums && !err; sum++) {
		row = (struct held_row){ .at = sum->at,
					 .pid = sum->pid,
					 .bytes = (uint64_t)sum->now_bytes,
					 .pages = (uint64_t)(sum->now_objects + 0.5) };
		if (row.bytes)
			err = memory_answer_add_row(ret, &row);
	}
	return err;
}

/* Keeps what the question needs of a look. 0 or -ENOMEM. */
static int answer_keep(struct allocations *a, uint64_t bytes, bool end)
{
	struct memory_answer answer = { 0 };
	uint64_t before_ns = UINT64_MAX;
	int err = 0;

	if (a->question == MEMORY_PEAK && bytes <= a->answer.anon_bytes)
		return 0;
	if (a->question == MEMORY_LEAKS) {
		err = answer_make(a, &answer, UINT64_MAX);
		if (!err)
			steady_stacks_look(&a->steady, &answer, held_blocks_rate(a->held));
		before_ns = a->start_ns + (answer.ns - a->start_ns) / 2;
		memory_answer_fini(&answer);
	}
	if (!err && (end || a->question == MEMORY_PEAK)) {
		memory_answer_fini(&a->answer);
		err = answer_make(a, &a->answer, before_ns);
	}
	return err;
}

/* Blocks are gone whose free was not reported: their report was lost, or is late at the end. */
static void blocks_clean(struct allocations *a, bool end)
{
	uint64_t now_ns = time_monotonic_ns();
	struct sampled_block *block;

	hash_table_each(&a->blocks, block)
		if (block->look + !end < a->nr_looks) {
			block_freed(a, block, now_ns);
			a->nr_lives_estimated++;
		}
}

/* pid: of the process whose window ends; 0: looks at all. end: of the recording. */
static int look_at(struct allocations *a, uint32_t pid, bool end)
{
	struct look look = { .a = a, .pid = pid, .end = end };
	struct allocation_account *account;
	uint64_t last_id;
	int err;

	if (held_blocks_are_many(a->held))
		held_blocks_double(a->held);
	look.rate = held_blocks_rate(a->held);
	look.kernel_bytes = held_blocks_bytes(a->held);
	last_id = held_blocks_last_id(a->held);
	sampler_run(a->sampler);
	a->nr_looks += !pid;
	hash_table_each(&a->accounts, account)
		look.any |= !account->ended;
	err = held_blocks_each(a->held, look_block, &look);
	a->looked_id = last_id;
	if (err || pid)
		return err;
	blocks_clean(a, end);
	a->look_bytes = look.bytes;
	a->look_kernel_bytes = look.kernel_bytes;
	return answer_keep(a, look.bytes, end);
}

/* Blocks that are held now have outlived their window: their free may not be seen later. */
static void window_end(struct allocations *a, struct allocation_account *account)
{
	if (!account->slowdown.windows && a->nr_reported < MAX_REPORTED)
		log_info("pid %u: its calls of the allocator would cost it more than %.0f%%, so "
			 "they are watched in windows%s",
			 account->own_pid, 100 * a->rules.max,
			 ++a->nr_reported < MAX_REPORTED ? "" : "; others are not reported");
	alloc_probes_set(a->probes, account->key.pid, false);
	if (look_at(a, account->key.pid, false))
		log_debug("allocations: a look failed");
	a->nr_windows++;
}

/* Of the probes in a process since they were put in. */
static uint64_t probes_cost_ns(const struct allocations *a,
			       const struct allocation_account *account)
{
	struct bpfprof_alloc_cost cost = held_blocks_cost(a->held, account->key.pid);
	size_t others = alloc_probes_nr_others(a->probes, account->key.pid);
	double call = 1 + (others ? SHARED_COST : 0) + OTHER_COST * (double)others;

	return (uint64_t)((double)(cost.calls * a->rules.call_ns) * call) +
	       cost.returns * a->rules.return_ns + cost.stack_ns;
}

static void account_tick(struct allocations *a, struct allocation_account *account, uint64_t now_ns)
{
	uint64_t cost_ns = probes_cost_ns(a, account);
	struct slowdown *slowdown = &account->slowdown;
	struct proc_usage usage;

	if (!slowdown->off && cost_ns == slowdown->cost_ns) /* no call since the last tick */
		return;
	if (proc_usage_read(&usage, (pid_t)account->own_pid))
		return;
	if (!slowdown_tick(slowdown, &a->rules, usage.cpu_ns, cost_ns, now_ns))
		return;
	if (slowdown->off)
		alloc_probes_set(a->probes, account->key.pid, true);
	else
		window_end(a, account);
	slowdown_switch(slowdown, !slowdown->off);
}

/* Opens accounts of hooked processes, and looks what their probes cost. */
static void accounts_tick(struct allocations *a, uint64_t now_ns)
{
	const struct process *process = processes_first(a->sampler->reader.processes);
	struct allocation_account *account;

	for (; process; process = hash_table_next(process))
		if (!process->dead && alloc_probes_are_on(a->probes, process->pid))
			account_get(a, process->pid, process->start_ns);
	a->ticking = true;
	hash_table_each(&a->accounts, account)
		if (!account->ended && account->own_pid)
			account_tick(a, account, now_ns);
	a->ticking = false;
}

/* Is so much more held than at the peak that a look may find another one? */
static bool is_beyond_peak(const struct allocations *a, uint64_t now_ns)
{
	int64_t more = (int64_t)(held_blocks_bytes(a->held) - a->look_kernel_bytes);
	uint64_t most = a->answer.anon_bytes;

	return a->question == MEMORY_PEAK && now_ns >= a->early_ns && more > 0 &&
	       a->look_bytes + (uint64_t)more > most + most / PEAK_STEP;
}

void allocations_run(struct allocations *a, uint64_t now_ns)
{
	uint64_t cpu_ns;

	if (now_ns >= a->next_scan_ns) {
		a->next_scan_ns = now_ns + SCAN_NS;
		alloc_probes_scan(a->probes);
	}
	if (now_ns >= a->next_clean_ns) {
		a->next_clean_ns = now_ns + CLEAN_NS;
		alloc_probes_clean(a->probes);
	}
	if (now_ns >= a->next_tick_ns) {
		a->next_tick_ns = now_ns + TICK_NS;
		accounts_tick(a, now_ns);
	}
	if (now_ns < a->next_ns && !held_blocks_are_many(a->held) && !is_beyond_peak(a, now_ns))
		return;
	cpu_ns = time_thread_cpu_ns();
	if (look_at(a, 0, false))
		log_debug("allocations: a look failed");
	a->next_ns = now_ns + LOOK_NS;
	a->early_ns = now_ns + EARLY_SHARE * (time_thread_cpu_ns() - cpu_ns);
}

bool allocations_are_unknown(const struct allocations *a, const struct allocation_account *account)
{
	return account->slowdown.windows &&
	       (a->question == MEMORY_PEAK || a->question == MEMORY_LEAKS);
}

/* Enters the answer into the sums. 0 or -ENOMEM. */
static int answer_enter(struct allocations *a)
{
	const struct held_row *row;
	int64_t index;
	size_t i;

	for (i = 0; i < a->answer.nr_rows; i++) {
		row = &a->answer.rows[i];
		if (a->question == MEMORY_LEAKS && !steady_stacks_has(&a->steady, row))
			continue;
		index = aggregate_hold(a->aggregate, &row->at, PROFILE_NOT_ASLEEP);
		if (index < 0 || (size_t)index >= a->nr_sums)
			return -ENOMEM;
		a->sums[index].held_bytes += (double)row->bytes;
		a->sums[index].held_objects += (double)row->pages;
	}
	return 0;
}

/* The sums of windows stand for all of the CPU time. */
static void sum_scale(struct allocations *a, struct allocation_sum *sum)
{
	struct allocation_account *account =
		process_map_find(&a->accounts, sum->pid, sum->start_ns);
	double by = account ? 1 / slowdown_seen(&account->slowdown) : 1;

	if (account && allocations_are_unknown(a, account))
		sum->held_bytes = sum->held_objects = 0;
	sum->bytes *= by;
	sum->objects *= by;
	sum->held_bytes *= by;
	sum->held_objects *= by;
	if (!account)
		return;
	account->held_bytes += (uint64_t)sum->held_bytes;
	account->allocated_bytes += (uint64_t)sum->bytes;
}

int allocations_finish(struct allocations *a)
{
	struct allocation_account *account;
	int err;
	size_t i;

	accounts_tick(a, time_monotonic_ns());
	hash_table_each(&a->accounts, account)
		alloc_probes_set(a->probes, account->key.pid, false);
	err = look_at(a, 0, true) ?: answer_enter(a);
	for (i = 0; i < a->nr_sums && !err; i++) {
		struct allocation_sum *sum = &a->sums[i];

		if (!sum->pid)
			continue;
		sum_scale(a, sum);
		err = aggregate_count(a->aggregate, &sum->at,
				      sum->objects < 1 ? 1 : (uint64_t)(sum->objects + 0.5),
				      (uint64_t)sum->bytes);
	}
	return err;
}

int allocations_values(struct allocations *a, struct profile *profile)
{
	struct aggregate_view view;
	size_t i, k = 0;

	aggregate_view_get(a->aggregate, &view);
	profile->beside = calloc(profile->nr_samples + 1, sizeof(*profile->beside));
	a->sums_of_samples = calloc(profile->nr_samples + 1, sizeof(*a->sums_of_samples));
	if (!profile->beside || !a->sums_of_samples)
		return -ENOMEM;
	for (i = 0; i < view.nr_samples && k < profile->nr_samples; i++) {
		struct profile_sample *sample = &profile->samples[k];

		if (!view.samples[i].count && !view.samples[i].value_ns)
			continue;
		a->sums_of_samples[k] = i;
		profile->beside[k].count = sample->count;
		profile->beside[k++].value = sample->value_ns;
		sample->count = i < a->nr_sums ? (uint64_t)(a->sums[i].held_objects + 0.5) : 0;
		sample->value_ns = i < a->nr_sums ? (uint64_t)a->sums[i].held_bytes : 0;
	}
	profile->beside_value.count_type = strtab_add(profile->strings, "alloc_objects");
	profile->beside_value.type = strtab_add(profile->strings, "alloc_space");
	profile->beside_value.unit = strtab_add(profile->strings, "bytes");
	return 0;
}

const struct block_classes *allocations_classes(const struct allocations *a, size_t sample)
{
	static const struct block_classes none;
	size_t i = a->sums_of_samples[sample];

	return i < a->nr_sums ? &a->sums[i].classes : &none;
}
