// SPDX-License-Identifier: Apache-2.0
#include "findings/finding_facts.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "findings/findings.h"
#include "findings/process_watch.h"

/* A thread that slept all the time is no thread of the pool that ran. */
#define THREAD_RAN_NS 1000000
#define GIL_WAIT_RUN_SHARE 5 /* a waiting thread runs less than a fifth of the time */
#define GIL_WAKES_PER_SECOND 10
#define GIL_WAIT_NS (NS_PER_SECOND / 10) /* a shorter time is no evidence */

/* One of several equals: a process, or all processes of a rank. */
struct member {
	const char *group, *name;
	const struct watched_process *process; /* the process that used the most CPU time */
	uint64_t cpu_ns, samples;
};

static uint64_t since(uint64_t last, uint64_t first)
{
	return last > first ? last - first : 0;
}

static uint32_t shown_pid(const struct watched_process *process)
{
	return process->own_pid ? process->own_pid : process->key.pid;
}

static int compare_members(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	int order = strcmp(x->group, y->group);

	if (order)
		return order;
	if (x->cpu_ns != y->cpu_ns)
		return x->cpu_ns < y->cpu_ns ? 1 : -1;
	return x->process->key.pid < y->process->key.pid ? -1 : 1;
}

/* Reports nr members of one group; the busiest is the first. */
static void members_report(struct findings *findings, const struct member *members, size_t nr,
			   bool ranks, uint64_t duration_ns)
{
	struct workers_fact fact = {
		.name = ranks ? "rank" : members[0].group,
		.ranks = ranks,
		.nr = (uint32_t)nr,
		.most_ns = members[0].cpu_ns,
		.most_pid = shown_pid(members[0].process),
		.most_name = ranks ? members[0].name : NULL,
		.most_samples = members[0].samples,
	};
	size_t i;

	if (nr < 2)
		return;
	for (i = 0; i < nr; i++)
		fact.total_ns += members[i].cpu_ns;
	fact.median_ns = members[1 + (nr - 2) / 2].cpu_ns;
	findings_of_workers(findings, &fact, duration_ns);
}

static void groups_report(struct findings *findings, struct member *members, size_t nr, bool ranks,
			  uint64_t duration_ns)
{
	size_t i, first = 0;

	qsort(members, nr, sizeof(*members), compare_members);
	for (i = 1; i <= nr; i++) {
		if (i < nr && !strcmp(members[i].group, members[first].group))
			continue;
		members_report(findings, members + first, i - first, ranks, duration_ns);
		first = i;
	}
}

/* Adds to the rank of the same job; a rank may have several processes. */
static void rank_add(struct member *members, size_t *nr, const struct watched_process *process)
{
	struct member *member;
	size_t i;

	for (i = 0; i < *nr; i++)
		if (!strcmp(members[i].group, process->job) &&
		    !strcmp(members[i].name, process->rank))
			break;
	member = &members[i];
	if (i == *nr) {
		*member = (struct member){ .group = process->job, .name = process->rank };
		(*nr)++;
	}
	if (!member->process || process->cpu_ns > member->process->cpu_ns)
		member->process = process;
	member->cpu_ns += process->cpu_ns;
	member->samples += process->samples;
}

static void facts_of_workers(struct findings *findings, const struct process_watch *watch,
			     uint64_t duration_ns, struct member *members)
{
	const struct watched_process *process;
	size_t nr = 0;

	hash_table_each(process_watch_all(watch), process)
		if (process->class[0])
			members[nr++] = (struct member){ .group = process->class,
							 .process = process,
							 .cpu_ns = process->cpu_ns,
							 .samples = process->samples };
	groups_report(findings, members, nr, false, duration_ns);
	nr = 0;
	hash_table_each(process_watch_all(watch), process)
		if (process->rank[0])
			rank_add(members, &nr, process);
	groups_report(findings, members, nr, true, duration_ns);
}

static void fact_of_gil(struct findings *findings, const struct watched_process *process)
{
	const struct watched_thread *thread, *holder = NULL;
	struct gil_fact fact = { .name = process->name, .pid = shown_pid(process) };
	uint64_t runs, run_ns, ns;

	hash_table_each(&process->threads, thread)
		if (thread->timed && (!holder || thread->held > holder->held))
			holder = thread;
	if (!holder || !holder->held)
		return;
	fact.tid = holder->tid;
	fact.thread = holder->comm;
	fact.samples = holder->samples;
	fact.held = holder->held;
	fact.watched_ns = since(holder->last_ns, holder->first_ns);
	fact.on_cpu_ns = since(holder->last.run_ns, holder->first.run_ns) +
			 since(holder->last.wait_ns, holder->first.wait_ns);
	hash_table_each(&process->threads, thread) {
		runs = since(thread->last.nr_runs, thread->first.nr_runs);
		run_ns = since(thread->last.run_ns, thread->first.run_ns);
		/* The thread hardly runs, so the clock may have seen it late. */
		ns = since(thread->last_ns, thread->first_ns);
		if (thread == holder || !thread->timed || !thread->python || ns < GIL_WAIT_NS ||
		    run_ns * GIL_WAIT_RUN_SHARE > ns ||
		    runs * NS_PER_SECOND < GIL_WAKES_PER_SECOND * ns)
			continue;
		fact.nr_waiting++;
		fact.wakes += (double)runs * NS_PER_SECOND / (double)ns;
		fact.waiting_run_ns += run_ns;
	}
	findings_of_gil(findings, &fact);
}

/* Threads of one library that ran, in one process or in all. */
struct pool {
	const char *library;
	uint32_t nr_processes, nr_threads;
	uint64_t run_ns, wait_ns;
	double runnable;
	uint32_t most_threads;
	const struct watched_process *most;
	const struct watched_process *last; /* the process that was added last */
	uint32_t last_threads;
};

#define MAX_POOLS 16

struct pools {
	struct pool list[MAX_POOLS];
	size_t nr;
};

static struct pool *pool_get(struct pools *pools, const char *library)
{
	size_t i;

	for (i = 0; i < pools->nr; i++)
		if (!strcmp(pools->list[i].library, library))
			return &pools->list[i];
	if (pools->nr == MAX_POOLS)
		return NULL;
	pools->list[pools->nr].library = library;
	return &pools->list[pools->nr++];
}

static void pools_add(struct pools *pools, const struct watched_process *process)
{
	const struct watched_thread *thread;
	uint64_t run_ns, wait_ns;
	struct pool *pool;

	hash_table_each(&process->threads, thread) {
		run_ns = since(thread->last.run_ns, thread->first.run_ns);
		if (!thread->timed || thread->last_ns <= thread->first_ns || !thread->library[0] ||
		    thread->tid == process->key.pid || run_ns < THREAD_RAN_NS)
			continue;
		pool = pool_get(pools, thread->library);
		if (!pool)
			continue;
		if (pool->last != process) {
			pool->last = process;
			pool->last_threads = 0;
			pool->nr_processes++;
		}
		pool->nr_threads++;
		pool->run_ns += run_ns;
		wait_ns = since(thread->last.wait_ns, thread->first.wait_ns);
		pool->wait_ns += wait_ns;
		pool->runnable +=
			(double)(run_ns + wait_ns) / (double)(thread->last_ns - thread->first_ns);
		if (++pool->last_threads <= pool->most_threads)
			continue;
		pool->most_threads = pool->last_threads;
		pool->most = process;
	}
}

static void pools_report(struct findings *findings, const struct process_watch *watch,
			 const struct pools *pools, uint32_t cpus)
{
	const struct pool *pool;
	struct pool_fact fact;
	size_t i;

	for (i = 0; i < pools->nr; i++) {
		pool = &pools->list[i];
		fact = (struct pool_fact){
			.library = pool->library,
			.nr_processes = pool->nr_processes,
			.nr_threads = pool->nr_threads,
			.cpus = cpus,
			.run_ns = pool->run_ns,
			.wait_ns = pool->wait_ns,
			.runnable = pool->runnable,
			.pid = shown_pid(pool->most),
			.name = pool->most->name,
		};
		process_watch_machine(watch, &fact.logical, &fact.cores);
		findings_of_pool(findings, &fact);
	}
}

/* Reports each process with more threads than CPUs by itself, then all others together. */
static void facts_of_pools(struct findings *findings, const struct process_watch *watch)
{
	const struct watched_process *process;
	struct pools together = { 0 };
	uint32_t logical, cores, cpus, before;

	process_watch_machine(watch, &logical, &cores);
	hash_table_each(process_watch_all(watch), process) {
		struct pools own = { 0 };

		if (!process->suspect)
			continue;
		cpus = process_watch_cpus(watch, process);
		before = findings->nr_of_kind[FINDING_THREADS];
		pools_add(&own, process);
		pools_report(findings, watch, &own, cpus);
		/*
		 * A process with a limit or an affinity of its own shows nothing about the machine.
		 */
		if (findings->nr_of_kind[FINDING_THREADS] == before && cpus == logical)
			pools_add(&together, process);
	}
	pools_report(findings, watch, &together, logical);
}

static void fact_of_memory(struct findings *findings, const struct process_watch *watch,
			   const struct watched_process *process)
{
	struct memory_fact fact = { .name = process->name,
				    .pid = shown_pid(process),
				    .series = &process->memory,
				    .born = process->born,
				    .exited = process->exited,
				    .limit_left_bytes = UINT64_MAX };
	const struct cgroup_memory *memory;
	size_t nr;

	if (process->memory_group) {
		memory = &process_watch_groups(watch, &nr)[process->memory_group - 1].memory_last;
		if (memory->max_bytes)
			fact.limit_left_bytes = since(memory->max_bytes, memory->used_bytes);
	}
	findings_of_memory(findings, &fact);
}

static void facts_of_limits(struct findings *findings, const struct process_watch *watch)
{
	const struct watched_process *process, *most;
	const struct watched_group *groups;
	size_t nr, i;

	groups = process_watch_groups(watch, &nr);
	for (i = 0; i < nr; i++) {
		most = NULL;
		hash_table_each(process_watch_all(watch), process)
			if ((process->cpu_group == i + 1 || process->memory_group == i + 1) &&
			    (!most || process->cpu_ns > most->cpu_ns))
				most = process;
		if (!most)
			continue;
		findings_of_limits(findings,
				   &(struct limits_fact){
					   .name = most->name,
					   .pid = shown_pid(most),
					   .cpus = groups[i].cpu_last.cpus,
					   .nr_periods = since(groups[i].cpu_last.nr_periods,
							       groups[i].cpu_first.nr_periods),
					   .nr_throttled = since(groups[i].cpu_last.nr_throttled,
								 groups[i].cpu_first.nr_throttled),
					   .throttled_ns = since(groups[i].cpu_last.throttled_ns,
								 groups[i].cpu_first.throttled_ns),
					   .memory_bytes = groups[i].memory_last.used_bytes,
					   .memory_max = groups[i].memory_last.max_bytes,
				   });
	}
}

void finding_facts(struct findings *findings, const struct process_watch *watch,
		   uint64_t duration_ns)
{
	struct member *members = calloc(WATCH_MAX_PROCESSES, sizeof(*members));
	const struct watched_process *process;

	if (members)
		facts_of_workers(findings, watch, duration_ns, members);
	free(members);
	facts_of_pools(findings, watch);
	hash_table_each(process_watch_all(watch), process) {
		fact_of_gil(findings, process);
		fact_of_memory(findings, watch, process);
	}
	facts_of_limits(findings, watch);
}
