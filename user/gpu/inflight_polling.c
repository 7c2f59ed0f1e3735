// SPDX-License-Identifier: Apache-2.0
#include "gpu/inflight_state.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "base/time.h"
#include "gpu/job.h"
#include "gpu/polling_threads.h"
#include "kernel/probes/gpu_maps.h"
#include "kernel/tasks.h"
#include "options/gpu_options.h"
#include "profile/aggregate.h"
#include "threads/thread_dump.h"

#define POLLING_NS NS_PER_SECOND /* from this time on enough samples end the polling */
/* After this time the samples that exist must be enough. */
#define POLLING_MOST_NS (3 * NS_PER_SECOND)
#define POLLING_MAX_TRIES 3
#define POLLING_NAMES_NS (NS_PER_SECOND / 2) /* limit for naming frames, in one try */
#define POLLING_SCAN_NS NS_PER_SECOND
/* A thread without samples for this time does not poll any more. */
#define POLLING_QUIET_NS (INFLIGHT_MAX_DOUBTS * NS_PER_SECOND)

void inflight_polling_end(struct gpu_inflight *inflight)
{
	polling_threads_free(inflight->polling);
	inflight->polling = NULL;
}

void inflight_polling_begin(struct gpu_inflight *inflight)
{
	if (!inflight->polling)
		return;
	inflight->polling_ns = time_monotonic_ns();
	if (!polling_threads_start(inflight->polling)) {
		inflight->job->watch.other_map_bytes = polling_threads_map_bytes(inflight->polling);
		return;
	}
	log_warn("running threads cannot be sampled: their in-flight calls are not shown");
	inflight->running += polling_threads_nr(inflight->polling);
	inflight_polling_end(inflight);
}

/* Describes a process to the table of calls, which knows it otherwise only by its calls. */
static void process_describe(struct gpu_inflight *inflight, uint32_t own_pid)
{
	struct sampler *sampler = &inflight->job->sampler;
	struct aggregate_input input;
	struct bpfprof_sample sample;
	struct tasks tasks;

	if (tasks_read(&tasks, &sampler->reader.session, own_pid, NULL))
		return;
	if (tasks.nr && sampler_thread_input(sampler, &tasks.states[0], &sample, &input))
		call_table_describe(inflight->job->watch.table, &input);
	tasks_fini(&tasks);
}

static void polling_take(struct gpu_inflight *inflight, size_t i)
{
	const struct polling_thread *poller = polling_threads_get(inflight->polling, i);
	struct gpu_inflight_call call = { .tid = poller->tid,
					  .pid = poller->task.pid,
					  .start_ns = poller->task.start_ns,
					  .since_ns = poller->first_ns };
	const struct call_state state = { .kernel_tid = poller->task.tid,
					  .own_pid = poller->own_pid,
					  /* Any change of the number counts. */
					  .nr_switches = UINT64_MAX,
					  .polling = i + 1 };
	const struct thread_dump *thread;
	const struct dump *dump;

	memcpy(call.thread, poller->comm, BPFPROF_COMM_LEN);
	thread = polling_threads_thread(inflight->polling, i, &dump);
	inflight_call_add(inflight, dump, thread, &call, &state);
}

/*
 * Adds the call of a thread with too few samples: the thread sleeps by now, or it hardly got a CPU.
 */
static void polling_read(struct gpu_inflight *inflight, const struct polling_thread *poller,
			 const struct tasks *tasks, const struct dump *dump,
			 const struct process_dump *read)
{
	const struct bpfprof_task_state *task = tasks_find(tasks, poller->task.tid, 0);
	const struct thread_dump *thread = read ? process_dump_find(read, poller->task.tid) : NULL;

	if (!task) /* the thread has ended */
		return;
	if (!thread || thread->running || !task->state)
		inflight->running++;
	else
		inflight_sleeper_add(inflight, dump, thread, task, poller->own_pid);
}

/* Reads the threads of one process that have too few samples; thread i is the first of them. */
static void polling_read_process(struct gpu_inflight *inflight, size_t i)
{
	uint32_t own_pid = polling_threads_get(inflight->polling, i)->own_pid;
	const struct process_dump *read;
	const struct polling_thread *thread;
	struct dump dump = { 0 };
	struct tasks tasks;

	inflight->read_ns = time_monotonic_ns();
	if (tasks_read(&tasks, &inflight->job->sampler.reader.session, own_pid, NULL))
		return;
	read = inflight_process_read(inflight, &dump, own_pid);
	inflight->unread += read ? inflight->counts.nr_late : 0;
	inflight->cut += inflight->counts.nr_cut;
	inflight->pages += inflight->counts.nr_refused;
	for (; i < polling_threads_nr(inflight->polling); i++) {
		thread = polling_threads_get(inflight->polling, i);
		if (!thread->judged && thread->own_pid == own_pid)
			polling_read(inflight, thread, &tasks, &dump, read);
	}
	dump_fini(&dump);
	tasks_fini(&tasks);
}

static bool is_first_unjudged(const struct gpu_inflight *inflight, size_t i)
{
	const struct polling_thread *thread = polling_threads_get(inflight->polling, i), *other;
	size_t k;

	if (thread->judged)
		return false;
	for (k = 0; k < i; k++) {
		other = polling_threads_get(inflight->polling, k);
		if (!other->judged && other->own_pid == thread->own_pid)
			return false;
	}
	return true;
}

void inflight_polling_judge(struct gpu_inflight *inflight, bool at_end)
{
	bool no_time = inflight->polling_tries < inflight->job->options->record.test_late_names;
	size_t i, nr_before, nr_calls = 0;
	int err;

	err = polling_threads_judge(inflight->polling,
				    time_monotonic_ns() + (no_time ? 0 : POLLING_NAMES_NS));
	if (err == -ETIME && !at_end && ++inflight->polling_tries < POLLING_MAX_TRIES) {
		inflight->polling_ns =
			time_monotonic_ns(); /* the names found now make the next try faster */
		return;
	}
	inflight->polling_judged = true;
	if (err) {
		inflight->running += polling_threads_nr(inflight->polling);
		inflight_polling_end(inflight);
		return;
	}
	inflight->deadline_ns = time_monotonic_ns() + INFLIGHT_PROCESS_NS;
	for (i = 0; i < polling_threads_nr(inflight->polling); i++) {
		nr_before = inflight->nr_calls;
		if (polling_threads_get(inflight->polling, i)->in_call) {
			polling_take(inflight, i);
			nr_calls += inflight->nr_calls - nr_before;
		} else if (is_first_unjudged(inflight, i)) {
			polling_read_process(inflight, i);
		}
		if (inflight->nr_calls > nr_before)
			process_describe(inflight,
					 polling_threads_get(inflight->polling, i)->own_pid);
	}
	thread_read_end(&inflight->job->sampler.reader, THREAD_OWNER_INFLIGHT);
	log_debug("threads on a CPU: %zu of %zu are in calls that began before", nr_calls,
		  polling_threads_nr(inflight->polling));
	if (!nr_calls)
		inflight_polling_end(inflight);
}

/* Has the thread left its call, as its samples or later calls show, or has it ended? */
static bool polling_is_over(const struct gpu_inflight *inflight, size_t at)
{
	return !polling_threads_holds(inflight->polling, inflight->states[at].polling - 1) ||
	       inflight_called_since(inflight, at) ||
	       gpu_maps_thread_has_ended(&inflight->job->sampler.reader.session,
					 inflight->calls[at].pid, inflight->states[at].kernel_tid);
}

/* Stops the sampling when no call needs it, even if no report is made until the end. */
static void polling_scan(struct gpu_inflight *inflight, uint64_t now_ns)
{
	bool some = false;
	size_t i, polling;

	for (i = inflight->nr_calls; i; i--) {
		polling = inflight->states[i - 1].polling;
		if (!polling)
			continue;
		if (polling_is_over(inflight, i - 1))
			inflight_call_remove(inflight, i - 1);
		else if (polling_threads_get(inflight->polling, polling - 1)->last_ns +
				 POLLING_QUIET_NS <
			 now_ns)
			inflight->states[i - 1].polling =
				0; /* from now on the thread is read like a sleeping one */
		else
			some = true;
	}
	if (!some)
		inflight_polling_end(inflight);
}

void gpu_inflight_run(struct gpu_inflight *inflight, uint64_t now_ns)
{
	if (!inflight->polling)
		return;
	polling_threads_run(inflight->polling);
	if (!inflight->polling_judged && now_ns >= inflight->polling_ns + POLLING_NS) {
		if (polling_threads_suffice(inflight->polling) ||
		    now_ns >= inflight->polling_ns + POLLING_MOST_NS)
			inflight_polling_judge(inflight, false);
	} else if (inflight->polling_judged && now_ns >= inflight->polling_ns + POLLING_SCAN_NS) {
		inflight->polling_ns = now_ns;
		polling_scan(inflight, now_ns);
	}
}
