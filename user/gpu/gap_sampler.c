// SPDX-License-Identifier: Apache-2.0
#include "gpu/gap_sampler.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "capture/sampler.h"
#include "gpu/call_table.h"
#include "gpu/monitor.h"
#include "kernel/probes/gpu_maps.h"
#include "kernel/probes/gpu_waits_map.h"
#include "kernel/tasks.h"
#include "profile/aggregate.h"
#include "profile/stats.h"
#include "threads/thread_reader.h"
#include "threads/thread_dump.h"
#include "gpu_calls.h"

#define SCAN_NS (20 * 1000000ULL)
/* Time between two lists of processes; without a process nothing else is done. */
#define REFRESH_NS (100 * 1000000ULL)
#define LONG_NS (20 * 1000000ULL) /* samples show shorter gaps */
#define READ_NS (100 * 1000000ULL) /* limit for one stack */
#define READS_NS (200 * 1000000ULL) /* limit for all stacks, in each second */
#define MAX_TRIES 4
#define MAX_PAGES 1024 /* 4 MiB */
#define MAX_FRAMES 2048

/* The idle thread of a process; its index is that of the process in gpu_waits. */
struct sleeper {
	bool in_use;
	uint64_t gap_ns; /* begin of the gap */
	uint64_t reported_ns; /* the time until here is in the table of calls */
	uint64_t nr_switches; /* the thread's switches; the number stays the same while it sleeps */
	uint32_t tid;
	unsigned int tries; /* attempts to read its stack */
	bool no_time; /* reads in this second took all their time: the next read waits */
	bool is_read; /* stack and state are valid */
	struct sampler_sleeper *stack;
	struct bpfprof_task_state *state; /* the thread's state at that read */
	size_t nr_user;
	uint32_t stop;
	uint32_t unmerged;
};

/* Sleeps without a stack, by reason. */
struct unread {
	uint64_t failed, no_time;
};

struct gap_sampler {
	struct gpu_monitor *watch;
	struct sleeper all[BPFPROF_GPU_MAX_WAITS];
	uint64_t scan_ns, refresh_ns; /* times of the next scan and of the next refresh */
	uint64_t second_ns; /* end of this second */
	uint64_t reading_ns; /* time that reads took in this second */
	struct unread unread;
	bool any;
};

int gap_sampler_new(struct gap_sampler **ret, struct gpu_monitor *watch)
{
	struct gap_sampler *gaps = calloc(1, sizeof(*gaps));

	if (!gaps)
		return -ENOMEM;
	gaps->watch = watch;
	*ret = gaps;
	return 0;
}

static void unread_add(struct unread *unread, const struct sleeper *sleeper)
{
	if (sleeper->is_read)
		return;
	if (sleeper->no_time)
		unread->no_time++;
	else if (sleeper->tries)
		unread->failed++;
}

static void sleeper_clear(struct gap_sampler *gaps, struct sleeper *sleeper)
{
	unread_add(&gaps->unread, sleeper);
	free(sleeper->stack);
	free(sleeper->state);
	*sleeper = (struct sleeper){ 0 };
}

void gap_sampler_free(struct gap_sampler *gaps)
{
	size_t i;

	if (!gaps)
		return;
	for (i = 0; i < BPFPROF_GPU_MAX_WAITS; i++)
		sleeper_clear(gaps, &gaps->all[i]);
	if (gaps->watch->sampler) /* the sampler is open */
		thread_read_end(&gaps->watch->sampler->reader, THREAD_OWNER_GAPS);
	free(gaps);
}

/* Does the thread sleep? The kernel then says since when. */
static bool is_asleep(const struct bpfprof_task_state *state)
{
	return state->state && !state->exit_state && state->asleep_ns &&
	       !(state->flags & BPFPROF_TASK_ON_CPU);
}

/* Is it still the same sleep? */
static bool still_sleeps(struct session *session, const struct bpfprof_task_state *state)
{
	const struct tasks_choice choice = { .kernel_pid = state->task.pid,
					     .tids = &state->task.tid,
					     .nr = 1 };
	struct tasks tasks;
	bool same;

	if (tasks_read(&tasks, session, state->task.pid, &choice))
		return false;
	same = tasks.nr && tasks.states[0].nr_switches == state->nr_switches;
	tasks_fini(&tasks);
	return same;
}

/* Reads the stack of a sleeping thread. False: it cannot be read now. */
static bool stack_read(struct gap_sampler *gaps, struct sleeper *sleeper,
		       const struct bpfprof_task_state *state, struct aggregate_input *ret)
{
	struct sampler *sampler = gaps->watch->sampler;
	uint64_t begin_ns = time_monotonic_ns();
	const struct tasks_choice choice = { .kernel_pid = state->task.pid,
					     .tids = &state->reader_tid,
					     .nr = 1 };
	const struct thread_request request = {
		.owner = THREAD_OWNER_GAPS,
		.pid = session_own_pid(&sampler->reader.session, state->task.pid, 0),
		.native = true,
		.threads = &choice,
		.deadline_ns = begin_ns + READ_NS,
		.max_frames = MAX_FRAMES,
		.max_pages = MAX_PAGES,
	};
	const struct process_dump *process = NULL;
	struct thread_read_counts counts;
	struct dump dump = { 0 };
	bool wanted = false;

	if (!dump_init(&dump) && !thread_read(&sampler->reader, &request, &dump, &counts))
		process = &dump.processes[0];
	if (process && process->nr_threads && process->threads[0].consistent)
		wanted = sampler_sleeper_input(sampler, state, &dump, process, sleeper->stack, ret);
	dump_fini(&dump);
	gaps->reading_ns += time_monotonic_ns() - begin_ns;
	/* If the thread woke up meanwhile, the stack may belong to its next sleep. */
	return wanted && sleeper->stack->is_read && still_sleeps(&sampler->reader.session, state);
}

static bool is_the_same(const struct sleeper *sleeper, const struct bpfprof_task_state *state)
{
	return sleeper->tid == state->task.tid && sleeper->nr_switches == state->nr_switches;
}

/* The thread begins another sleep. */
static void sleep_begin(struct gap_sampler *gaps, struct sleeper *sleeper,
			const struct bpfprof_task_state *state)
{
	unread_add(&gaps->unread, sleeper);
	sleeper->tid = state->task.tid;
	sleeper->nr_switches = state->nr_switches;
	sleeper->tries = 0;
	sleeper->is_read = sleeper->no_time = false;
}

/* Reads the stack once in each sleep; a failed read is repeated. */
static void stack_try(struct gap_sampler *gaps, struct sleeper *sleeper,
		      const struct bpfprof_task_state *state)
{
	struct aggregate_input input = { 0 };

	if (sleeper->tries == MAX_TRIES)
		return;
	sleeper->no_time = gaps->reading_ns >= READS_NS;
	if (sleeper->no_time)
		return; /* a later scan tries again */
	sleeper->tries++;
	if (!sleeper->stack)
		sleeper->stack = calloc(1, sizeof(*sleeper->stack));
	if (!sleeper->state)
		sleeper->state = calloc(1, sizeof(*sleeper->state));
	if (!sleeper->stack || !sleeper->state)
		return;
	*sleeper->state = *state;
	sleeper->is_read = stack_read(gaps, sleeper, sleeper->state, &input);
	sleeper->nr_user = input.nr_user;
	sleeper->stop = input.stop;
	sleeper->unmerged = input.unmerged;
}

/*
 * Fills in the stack of the thread and the facts about it. False: it has no stack now, or it is
 * filtered out.
 */
static bool stack_get(struct gap_sampler *gaps, struct sleeper *sleeper,
		      const struct bpfprof_task_state *state, struct aggregate_input *ret)
{
	struct sampler *sampler = gaps->watch->sampler;
	struct bpfprof_sample sample;

	if (!sampler_thread_input(sampler, state, &sample, ret))
		return false;
	if (!is_the_same(sleeper, state))
		sleep_begin(gaps, sleeper, state);
	if (!sleeper->is_read)
		stack_try(gaps, sleeper, state);
	if (!sleeper->is_read ||
	    !sampler_thread_input(sampler, state, &sleeper->stack->sample, ret))
		return false;
	ret->kernel = (const uint64_t *)sleeper->state->kernel;
	ret->nr_kernel = sleeper->state->nr_kernel;
	ret->user = sleeper->stack->user;
	ret->nr_user = sleeper->nr_user;
	ret->stop = sleeper->stop;
	ret->unmerged = sleeper->unmerged;
	ret->again = true; /* the thread's stack is reported again, and is no new sample */
	return true;
}

/* now_ns is the time just before the gap and the thread's state were read. */
static void thread_scan(struct gap_sampler *gaps, struct sleeper *sleeper,
			const struct bpfprof_task_state *state, uint64_t now_ns)
{
	uint64_t since_ns = time_monotonic_ns() - state->asleep_ns;
	uint64_t from_ns = since_ns > sleeper->reported_ns ? since_ns : sleeper->reported_ns;
	struct aggregate_input input;

	if (!is_asleep(state) || from_ns >= now_ns || !stack_get(gaps, sleeper, state, &input))
		return;
	sleeper->reported_ns = now_ns;
	sleeper->stack->sample.gap_ns = sleeper->gap_ns;
	call_table_gap(gaps->watch->table, &input, now_ns - from_ns, true);
}

static void process_scan(struct gap_sampler *gaps, struct sleeper *sleeper,
			 const struct bpfprof_gpu_waits *waits, uint64_t now_ns)
{
	struct session *session = &gaps->watch->sampler->reader.session;
	const struct tasks_choice choice = { .kernel_pid = waits->pid,
					     .tids = &waits->idle_tid,
					     .nr = 1 };
	struct tasks tasks;

	if (!waits->idle_ns || now_ns < waits->idle_ns + LONG_NS ||
	    (session->options.filter && !session_is_target(session, (pid_t)waits->pid)))
		return;
	if (sleeper->gap_ns != waits->idle_ns) {
		sleeper->gap_ns = waits->idle_ns;
		sleeper->reported_ns = waits->idle_ns;
	}
	/*
	 * A thread in a copy is not counted. Copies are read before the state: the sleep in a later
	 * copy is younger than now_ns.
	 */
	if (gpu_maps_thread_copies(&gaps->watch->sampler->reader.session, waits->idle_tid,
				   waits->start_ns))
		return;
	if (tasks_read(&tasks, session, waits->pid, &choice))
		return;
	if (tasks.nr && tasks.states[0].task.start_ns == waits->start_ns)
		thread_scan(gaps, sleeper, &tasks.states[0], now_ns);
	tasks_fini(&tasks);
}

/* Lists the processes. This takes longer than the rest of a scan, so it is done less often. */
static void refresh(struct gap_sampler *gaps, uint64_t now_ns)
{
	const struct session *session = &gaps->watch->sampler->reader.session;
	struct bpfprof_gpu_waits waits;
	uint32_t i;

	gaps->refresh_ns = now_ns + REFRESH_NS;
	gaps->any = false;
	for (i = 0; i < BPFPROF_GPU_MAX_WAITS; i++) {
		if (!gpu_waits_map_get(session, i, &waits)) {
			sleeper_clear(gaps, &gaps->all[i]);
			continue;
		}
		gaps->all[i].in_use = true;
		gaps->any = true;
	}
	if (!gaps->any)
		thread_read_end(&gaps->watch->sampler->reader, THREAD_OWNER_GAPS);
}

int gap_sampler_run(struct gap_sampler *gaps, uint64_t now_ns)
{
	const struct session *session = &gaps->watch->sampler->reader.session;
	struct bpfprof_gpu_waits waits;
	uint64_t every_ns, before_ns;
	uint32_t i;

	if (now_ns >= gaps->refresh_ns)
		refresh(gaps, now_ns);
	if (now_ns >= gaps->second_ns) {
		gaps->second_ns = now_ns + NS_PER_SECOND;
		gaps->reading_ns = 0;
	}
	every_ns = gaps->any ? SCAN_NS : REFRESH_NS;
	if (now_ns >= gaps->scan_ns && session_pids_are_the_nodes(session)) {
		gaps->scan_ns = now_ns + every_ns;
		for (i = 0; i < BPFPROF_GPU_MAX_WAITS; i++) {
			/*
			 * The time is read first: after the reads the gap may be over, and the
			 * thread may wait for work.
			 */
			before_ns = time_monotonic_ns();
			if (gaps->all[i].in_use && gpu_waits_map_get(session, i, &waits))
				process_scan(gaps, &gaps->all[i], &waits, before_ns);
		}
	}
	return (int)(every_ns / 1000000);
}

#define AT(field) offsetof(struct unread, field)

const struct counter gap_sampler_counters[] = {
	{ COUNTER_GPU, "stacks_of_sleepers_unread", AT(failed),
	  .help = "stacks of threads whose device is idle, which could not be read before the gap "
		  "was over" },
	{ COUNTER_GPU, "stacks_of_sleepers_no_time", AT(no_time),
	  .help = "stacks of threads whose device is idle, which were too much to read" },
	{ 0 },
};

void gap_sampler_lost(const struct gap_sampler *gaps, struct stats_reasons *dst)
{
	struct unread unread = gaps->unread;
	size_t i;

	for (i = 0; i < BPFPROF_GPU_MAX_WAITS; i++)
		unread_add(&unread, &gaps->all[i]);
	stats_add_rows(dst, gap_sampler_counters, &unread, true);
}
