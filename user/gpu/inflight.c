// SPDX-License-Identifier: Apache-2.0
#include "gpu/inflight.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/strtab.h"
#include "base/time.h"
#include "cuda/functions.h"
#include "gpu/job.h"
#include "gpu/polling_threads.h"
#include "kernel/probes/gpu_maps.h"
#include "kernel/probes/gpu_probes.h"
#include "kernel/tasks.h"
#include "options/gpu_options.h"
#include "proc/images.h"
#include "proc/processes.h"
#include "profile/aggregate.h"
#include "profile/stats.h"
#include "threads/thread_call.h"
#include "threads/stack_names.h"
#include "threads/thread_reader.h"
#include "threads/dump_view.h"
#include "threads/thread_dump.h"

#define MAX_PROCESSES 256
#define MAX_CALLS 1024
#define MAX_STACK 512 /* frames of a call */
/* Of all stacks together as text: they have to fit into what is shown, however it is escaped. */
#define MAX_STACK_BYTES (2U << 20)
#define MAX_READ_FRAMES 65536 /* of a process while it is read: 4 MiB */
#define MAX_READ_PAGES 4096 /* the same: 16 MiB */
/* For all processes together: while they are read, nobody takes what the kernel has for us. */
#define BEGIN_NS (2 * NS_PER_SECOND)
#define PROCESS_NS NS_PER_SECOND /* of that for one */
#define LOOK_NS (NS_PER_SECOND / 10)
#define LOOK_END_NS (NS_PER_SECOND / 2)
#define NAMES_NS (NS_PER_SECOND / 10) /* of a process, beyond those */
#define MAX_DOUBTS 5 /* looks in which there was no time to read a thread that ran */
/* After so long the samples of threads that ran are enough to judge by. */
#define SPINS_NS NS_PER_SECOND
#define SPINS_MOST_NS (3 * NS_PER_SECOND) /* whether they are or not */
#define SPINS_MAX_TRIES 3
#define SPINS_NAMES_NS (NS_PER_SECOND / 2)
#define RECENT_NS (NS_PER_SECOND / 2) /* a sample tells where a thread is for so long */
#define SPINS_LOOK_NS NS_PER_SECOND
#define SPINS_QUIET_NS (MAX_DOUBTS * NS_PER_SECOND) /* without a sample it does not poll any more */

/* What is kept of a call besides what is shown of it, at the same index. */
struct call_state {
	uint32_t kernel_tid, own_pid;
	uint64_t nr_switches; /* of its thread, before its stack was read */
	unsigned int doubts; /* looks since the thread has run, until it is read again */
	size_t spin; /* index in spins of one that was found on a CPU, and 1; 0: it slept */
};

/* One that had a library of NCCL's, and no thread in a call that is known. */
struct silent {
	uint32_t pid; /* in the outermost pid namespace */
	uint64_t start_ns;
};

struct gpu_inflight {
	struct gpu_job *job;
	struct polling_threads
		*spins; /* threads that ran; NULL: none, or none of them is in a call */
	uint64_t spins_ns; /* when they were begun to be sampled, or looked at last */
	unsigned int spins_tries;
	bool spins_judged;
	struct strtab *strings; /* of stacks: only grows while they are found */
	size_t stack_bytes;
	uint64_t deadline_ns;
	struct thread_read_counts counts; /* of what was read last */
	uint64_t read_ns; /* when the tasks of a process were */
	struct gpu_inflight_call calls[MAX_CALLS];
	struct call_state states[MAX_CALLS];
	size_t nr_calls;
	struct silent silent[MAX_PROCESSES];
	size_t nr_silent;
	uint64_t processes_unread, running, unread, cut, pages, refused;
};

static void call_remove(struct gpu_inflight *before, size_t at)
{
	free(before->calls[at].stack);
	before->nr_calls--;
	before->calls[at] = before->calls[before->nr_calls];
	before->states[at] = before->states[before->nr_calls];
}

/* layers: of which it has to have one. */
static bool maps_one_of(const struct gpu_inflight *before, const struct process *process,
			const struct gpu_probes_library *libraries, size_t nr, uint32_t layers)
{
	const struct image *image;
	size_t i, k;

	for (i = 0; i < process->nr_mappings; i++) {
		image = images_get(before->job->sampler.reader.images,
				   (uint32_t)process->mappings[i].image);
		for (k = 0; image && image->path && k < nr; k++)
			if (!libraries[k].problem && libraries[k].layers & layers &&
			    !strcmp(libraries[k].path, image->path))
				return true;
	}
	return false;
}

/*
 * Kernel's pids of processes to be read: reading one changes the table of them. The oldest first: those
 * that load data for a rank were forked from it, and have its libraries and environment.
 */
static size_t processes_choose(struct gpu_inflight *before, uint32_t pids[MAX_PROCESSES])
{
	struct sampler *sampler = &before->job->sampler;
	const struct gpu_probes_library *libraries;
	const struct process *process;
	uint64_t starts[MAX_PROCESSES];
	size_t nr_libraries, nr = 0, at;

	libraries = gpu_probes_libraries(before->job->watch.probes, &nr_libraries);
	for (process = processes_first(sampler->reader.processes); process;
	     process = hash_table_next(process)) {
		if (process->dead || !process->mappings_known ||
		    (sampler->reader.session.options.filter &&
		     !session_is_target(&sampler->reader.session, (pid_t)process->pid)) ||
		    !maps_one_of(before, process, libraries, nr_libraries, UINT32_MAX))
			continue;
		if (nr == MAX_PROCESSES) {
			before->processes_unread++;
			if (starts[nr - 1] <= process->start_ns)
				continue;
			nr--;
		}
		for (at = nr++; at && starts[at - 1] > process->start_ns; at--) {
			starts[at] = starts[at - 1];
			pids[at] = pids[at - 1];
		}
		starts[at] = process->start_ns;
		pids[at] = process->pid;
	}
	return nr;
}

/*
 * Reads what the threads of a process are doing, and names those that are in libraries of CUDA. dump
 * is empty, and to be freed whatever comes of this. NULL: it could not be read.
 */
static const struct process_dump *process_read(struct gpu_inflight *before, struct dump *dump,
					       uint32_t own_pid)
{
	struct thread_reader *reader = &before->job->sampler.reader;
	const struct thread_request request = { .owner = THREAD_OWNER_INFLIGHT,
						.pid = own_pid,
						.native = true,
						.deadline_ns = before->deadline_ns,
						.max_frames = MAX_READ_FRAMES,
						.max_pages = MAX_READ_PAGES };
	const struct stack_names_options names = { .deadline_ns = before->deadline_ns + NAMES_NS };

	before->counts = (struct thread_read_counts){ 0 };
	if (dump_init(dump) || thread_read(reader, &request, dump, &before->counts) ||
	    thread_calls_name(dump, reader, &names))
		return NULL;
	return &dump->processes[0];
}

/* What stands for frame i of a call's stack: room. */
static const char *shown_frame(const struct dump *dump, const struct thread_dump *thread, size_t i,
			       char room[DUMP_FRAME_BYTES])
{
	if (i)
		dump_frame_text(dump, &thread->frames[thread->gpu_frame + i], room);
	else
		snprintf(room, DUMP_FRAME_BYTES, "%s", strtab_get(dump->strings, thread->gpu_call));
	return room;
}

static size_t stack_len(const struct thread_dump *thread)
{
	size_t nr = thread->nr_frames - thread->gpu_frame;

	return nr < MAX_STACK ? nr : MAX_STACK;
}

/* The stack of a call. 0, -ENOSPC or -ENOMEM. */
static int stack_take(struct gpu_inflight *before, struct gpu_inflight_call *call,
		      const struct dump *dump, const struct thread_dump *thread)
{
	uint64_t nr_lost = strtab_nr_lost(before->strings);
	size_t bytes = before->stack_bytes, i, nr = stack_len(thread);
	char room[DUMP_FRAME_BYTES];

	call->stack = calloc(nr, sizeof(*call->stack));
	if (!call->stack)
		return -ENOMEM;
	for (i = 0; i < nr && bytes <= MAX_STACK_BYTES; i++) {
		shown_frame(dump, thread, i, room);
		bytes += strlen(room) + sizeof(*call->stack);
		call->stack[i] = strtab_get(before->strings, strtab_add(before->strings, room));
	}
	if (bytes > MAX_STACK_BYTES || strtab_nr_lost(before->strings) > nr_lost) {
		free(call->stack);
		return -ENOSPC;
	}
	call->nr_stack = nr;
	call->function = call->stack[0];
	before->stack_bytes = bytes;
	return 0;
}

static void call_add(struct gpu_inflight *before, const struct dump *dump,
		     const struct thread_dump *thread, const struct gpu_inflight_call *who,
		     const struct call_state *state)
{
	struct gpu_inflight_call *call = &before->calls[before->nr_calls];

	*call = *who;
	if (before->nr_calls == MAX_CALLS || stack_take(before, call, dump, thread)) {
		before->refused++;
		return;
	}
	call->arguments_known = thread->gpu_arguments != NULL;
	if (thread->gpu_arguments)
		call->arguments = *thread->gpu_arguments;
	before->states[before->nr_calls++] = *state;
}

/* One that ran: where it is, samples will tell. */
static void spin_add(struct gpu_inflight *before, const struct bpfprof_task_state *task,
		     uint32_t own_pid)
{
	const char *host_root = before->job->options->record.capture.host_root;

	if ((!before->spins && polling_threads_new(&before->spins, host_root)) ||
	    polling_threads_add(before->spins, own_pid, task))
		before->running++;
}

/* Of a thread that sleeps, as it was read; task is from before that. */
static void sleeper_add(struct gpu_inflight *before, const struct dump *dump,
			const struct thread_dump *thread, const struct bpfprof_task_state *task,
			uint32_t own_pid)
{
	struct gpu_inflight_call call = { .tid = thread->tid,
					  .pid = task->task.pid,
					  .start_ns = task->task.start_ns,
					  .since_ns = before->read_ns - task->asleep_ns };
	const struct call_state state = { .kernel_tid = task->task.tid,
					  .own_pid = own_pid,
					  .nr_switches = task->nr_switches };

	if (!thread->gpu_call)
		return;
	if (!thread->consistent) {
		before->unread++;
		return;
	}
	memcpy(call.thread, task->comm, BPFPROF_COMM_LEN);
	call_add(before, dump, thread, &call, &state);
}

/* Threads of a process that was read; tasks are from before that. */
static void calls_add(struct gpu_inflight *before, const struct dump *dump,
		      const struct process_dump *process, const struct tasks *tasks,
		      uint32_t own_pid)
{
	const struct bpfprof_task_state *task;
	const struct thread_dump *thread;
	size_t i;

	for (i = 0; i < process->nr_threads; i++) {
		thread = &process->threads[i];
		task = tasks_find(tasks, thread->kernel_tid, i);
		/* One that waits for a CPU runs, too. */
		if (task && (thread->running || !task->state))
			spin_add(before, task, own_pid);
		else if (task)
			sleeper_add(before, dump, thread, task, own_pid);
	}
}

static bool has_nccl(const struct gpu_inflight *before, const struct process *process)
{
	const struct gpu_probes_library *libraries;
	size_t nr;

	libraries = gpu_probes_libraries(before->job->watch.probes, &nr);
	return maps_one_of(before, process, libraries, nr, 1U << GPU_LAYER_NCCL);
}

static void process_begin(struct gpu_inflight *before, uint32_t pid)
{
	struct sampler *sampler = &before->job->sampler;
	const struct process *process = processes_find(sampler->reader.processes, pid);
	size_t nr_before = before->nr_calls;
	const struct process_dump *read;
	struct dump dump = { 0 };
	struct aggregate_input input;
	struct bpfprof_sample sample;
	struct tasks tasks;
	uint32_t own_pid;
	bool nccl;

	nccl = process && has_nccl(before, process);
	own_pid = process ? session_own_pid(&sampler->reader.session, pid, process->place.agent_pid)
			  : 0;
	if (!own_pid)
		return;
	before->read_ns = time_monotonic_ns();
	if (tasks_read(&tasks, &sampler->reader.session, own_pid, NULL))
		return;
	if (tasks.nr && sampler_thread_input(sampler, &tasks.states[0], &sample, &input)) {
		read = process_read(before, &dump, own_pid);
		if (read)
			calls_add(before, &dump, read, &tasks, own_pid);
		else
			before->processes_unread++;
		before->unread += read ? before->counts.nr_late : 0;
		before->cut += before->counts.nr_cut;
		before->pages += before->counts.nr_refused;
		/* Of a job that hangs, it may be the one that the others wait for. */
		if (read && nccl && before->nr_calls == nr_before)
			before->silent[before->nr_silent++] =
				(struct silent){ .pid = pid,
						 .start_ns = tasks.states[0].task.start_ns };
		if ((read && nccl) || before->nr_calls > nr_before)
			call_table_describe(before->job->watch.table, &input);
		dump_fini(&dump);
	}
	tasks_fini(&tasks);
}

static void spins_end(struct gpu_inflight *before)
{
	polling_threads_free(before->spins);
	before->spins = NULL;
}

static void spins_begin(struct gpu_inflight *before)
{
	if (!before->spins)
		return;
	before->spins_ns = time_monotonic_ns();
	if (!polling_threads_start(before->spins)) {
		before->job->watch.other_map_bytes = polling_threads_map_bytes(before->spins);
		return;
	}
	log_warn("threads that run cannot be sampled: calls that they are in are not shown");
	before->running += polling_threads_nr(before->spins);
	spins_end(before);
}

/* The table knows a process by a call that it has made, or by this. */
static void process_describe(struct gpu_inflight *before, uint32_t own_pid)
{
	struct sampler *sampler = &before->job->sampler;
	struct aggregate_input input;
	struct bpfprof_sample sample;
	struct tasks tasks;

	if (tasks_read(&tasks, &sampler->reader.session, own_pid, NULL))
		return;
	if (tasks.nr && sampler_thread_input(sampler, &tasks.states[0], &sample, &input))
		call_table_describe(before->job->watch.table, &input);
	tasks_fini(&tasks);
}

static void spin_take(struct gpu_inflight *before, size_t i)
{
	const struct polling_thread *spin = polling_threads_get(before->spins, i);
	struct gpu_inflight_call call = { .tid = spin->tid,
					  .pid = spin->task.pid,
					  .start_ns = spin->task.start_ns,
					  .since_ns = spin->first_ns };
	const struct call_state state = { .kernel_tid = spin->task.tid,
					  .own_pid = spin->own_pid,
					  .nr_switches = UINT64_MAX, /* it runs */
					  .spin = i + 1 };
	const struct thread_dump *thread;
	const struct dump *dump;

	memcpy(call.thread, spin->comm, BPFPROF_COMM_LEN);
	thread = polling_threads_thread(before->spins, i, &dump);
	call_add(before, dump, thread, &call, &state);
}

/* Too few samples of it: it sleeps by now, or it has hardly had a CPU. */
static void spin_read(struct gpu_inflight *before, const struct polling_thread *spin,
		      const struct tasks *tasks, const struct dump *dump,
		      const struct process_dump *read)
{
	const struct bpfprof_task_state *task = tasks_find(tasks, spin->task.tid, 0);
	const struct thread_dump *thread = read ? process_dump_find(read, spin->task.tid) : NULL;

	if (!task) /* it has ended */
		return;
	if (!thread || thread->running || !task->state)
		before->running++;
	else
		sleeper_add(before, dump, thread, task, spin->own_pid);
}

/* The same of all of one process, the first of which is spin i. */
static void spins_read(struct gpu_inflight *before, size_t i)
{
	uint32_t own_pid = polling_threads_get(before->spins, i)->own_pid;
	const struct process_dump *read;
	const struct polling_thread *spin;
	struct dump dump = { 0 };
	struct tasks tasks;

	before->read_ns = time_monotonic_ns();
	if (tasks_read(&tasks, &before->job->sampler.reader.session, own_pid, NULL))
		return;
	read = process_read(before, &dump, own_pid);
	before->unread += read ? before->counts.nr_late : 0;
	before->cut += before->counts.nr_cut;
	before->pages += before->counts.nr_refused;
	for (; i < polling_threads_nr(before->spins); i++) {
		spin = polling_threads_get(before->spins, i);
		if (!spin->judged && spin->own_pid == own_pid)
			spin_read(before, spin, &tasks, &dump, read);
	}
	dump_fini(&dump);
	tasks_fini(&tasks);
}

static bool is_first_unjudged(const struct gpu_inflight *before, size_t i)
{
	const struct polling_thread *spin = polling_threads_get(before->spins, i), *other;
	size_t k;

	if (spin->judged)
		return false;
	for (k = 0; k < i; k++) {
		other = polling_threads_get(before->spins, k);
		if (!other->judged && other->own_pid == spin->own_pid)
			return false;
	}
	return true;
}

/* Those that are in calls are shown from now on. */
static void spins_judge(struct gpu_inflight *before, bool at_end)
{
	bool no_time = before->spins_tries < before->job->options->record.test_late_names;
	size_t i, nr_before, nr_calls = 0;
	int err;

	err = polling_threads_judge(before->spins,
				    time_monotonic_ns() + (no_time ? 0 : SPINS_NAMES_NS));
	if (err == -ETIME && !at_end && ++before->spins_tries < SPINS_MAX_TRIES) {
		before->spins_ns = time_monotonic_ns(); /* what was read of files is kept */
		return;
	}
	before->spins_judged = true;
	if (err) {
		before->running += polling_threads_nr(before->spins);
		spins_end(before);
		return;
	}
	before->deadline_ns = time_monotonic_ns() + PROCESS_NS;
	for (i = 0; i < polling_threads_nr(before->spins); i++) {
		nr_before = before->nr_calls;
		if (polling_threads_get(before->spins, i)->in_call) {
			spin_take(before, i);
			nr_calls += before->nr_calls - nr_before;
		} else if (is_first_unjudged(before, i)) {
			spins_read(before, i);
		}
		if (before->nr_calls > nr_before)
			process_describe(before, polling_threads_get(before->spins, i)->own_pid);
	}
	thread_read_end(&before->job->sampler.reader, THREAD_OWNER_INFLIGHT);
	log_debug("threads on a CPU: %zu of %zu are in calls that began before", nr_calls,
		  polling_threads_nr(before->spins));
	if (!nr_calls)
		spins_end(before);
}

/*
 * Has the thread made a call since it is hooked, so that it is in another one now? Of a call of NCCL's
 * that does not follow: it calls the driver itself.
 */
static bool called_since(const struct gpu_inflight *before, size_t at)
{
	const struct gpu_inflight_call *call = &before->calls[at];

	return strncmp(call->function, "nccl", strlen("nccl")) != 0 &&
	       gpu_maps_thread_has_called(&before->job->sampler.reader.session,
					  before->states[at].kernel_tid, call->pid, call->start_ns);
}

/* Has it left its call, by samples or calls since, or has its thread ended? */
static bool spin_is_over(const struct gpu_inflight *before, size_t at)
{
	return !polling_threads_holds(before->spins, before->states[at].spin - 1) ||
	       called_since(before, at) ||
	       gpu_maps_thread_has_ended(&before->job->sampler.reader.session,
					 before->calls[at].pid, before->states[at].kernel_tid);
}

/* Samples are taken no longer than they are of use, also if nobody looks at the calls until the end. */
static void polling_threads_scan(struct gpu_inflight *before, uint64_t now_ns)
{
	bool some = false;
	size_t i, spin;

	for (i = before->nr_calls; i; i--) {
		spin = before->states[i - 1].spin;
		if (!spin)
			continue;
		if (spin_is_over(before, i - 1))
			call_remove(before, i - 1);
		else if (polling_threads_get(before->spins, spin - 1)->last_ns + SPINS_QUIET_NS <
			 now_ns)
			before->states[i - 1].spin = 0; /* reading tells, as of any that sleeps */
		else
			some = true;
	}
	if (!some)
		spins_end(before);
}

void gpu_inflight_run(struct gpu_inflight *before, uint64_t now_ns)
{
	if (!before->spins)
		return;
	polling_threads_run(before->spins);
	if (!before->spins_judged && now_ns >= before->spins_ns + SPINS_NS) {
		if (polling_threads_suffice(before->spins) ||
		    now_ns >= before->spins_ns + SPINS_MOST_NS)
			spins_judge(before, false);
	} else if (before->spins_judged && now_ns >= before->spins_ns + SPINS_LOOK_NS) {
		before->spins_ns = now_ns;
		polling_threads_scan(before, now_ns);
	}
}

void gpu_inflight_begin(struct gpu_inflight *before)
{
	uint64_t begin_ns = time_monotonic_ns();
	uint32_t pids[MAX_PROCESSES];
	size_t nr, i;

	nr = processes_choose(before, pids);
	for (i = 0; i < nr; i++) {
		before->deadline_ns = time_monotonic_ns() + PROCESS_NS;
		if (before->deadline_ns > begin_ns + BEGIN_NS)
			before->deadline_ns = begin_ns + BEGIN_NS;
		process_begin(before, pids[i]);
		sampler_run(&before->job->sampler);
	}
	thread_read_end(&before->job->sampler.reader, THREAD_OWNER_INFLIGHT);
	spins_begin(before);
	log_debug("calls that began before: %zu in %zu processes, read in %.1f ms",
		  before->nr_calls, nr, (double)(time_monotonic_ns() - begin_ns) / 1e6);
}

/*
 * Is the thread in a call that we saw begin, and that is or stands for the one that was found? What
 * NCCL calls of the driver's while it is in a collective is neither.
 */
static bool began_since(const struct gpu_inflight *before, size_t at,
			const struct gpu_snapshot *picture)
{
	const struct gpu_inflight_call *call = &before->calls[at];
	const struct gpu_function *functions, *function;
	const struct bpfprof_gpu_key *key;
	size_t nr, i;

	functions = gpu_functions(&nr);
	for (i = 0; i < picture->nr_open; i++) {
		key = &picture->open[i].open.key;
		if (picture->open[i].tid != before->states[at].kernel_tid ||
		    key->pid != call->pid || key->start_ns != call->start_ns || key->function >= nr)
			continue;
		function = &functions[key->function];
		if (!strcmp(function->shown, call->function) ||
		    (function->wire.layer == GPU_LAYER_DRIVER &&
		     strncmp(call->function, "nccl", strlen("nccl"))))
			return true;
	}
	return false;
}

static bool is_same(const struct gpu_inflight_call *call, const struct dump *dump,
		    const struct thread_dump *thread)
{
	char room[DUMP_FRAME_BYTES];
	size_t i;

	if (!thread->gpu_call || stack_len(thread) != call->nr_stack)
		return false;
	for (i = 0; i < call->nr_stack; i++)
		if (strcmp(shown_frame(dump, thread, i, room), call->stack[i]) != 0)
			return false;
	return true;
}

/*
 * Calls of the process that are in doubt: where are their threads now? Those that are none go, and so
 * do those whose thread cannot be read; if there only was no time for it, the next look tries again.
 */
static void doubts_resolve(struct gpu_inflight *before, uint32_t own_pid, bool at_end)
{
	const struct thread_dump *thread;
	const struct process_dump *process;
	struct dump dump = { 0 };
	bool late, unread;
	size_t i;

	process = process_read(before, &dump, own_pid);
	late = time_monotonic_ns() >= before->deadline_ns;
	for (i = before->nr_calls; i; i--) {
		struct call_state *state = &before->states[i - 1];

		if (state->own_pid != own_pid || !state->doubts)
			continue;
		thread = process ? process_dump_find(process, state->kernel_tid) : NULL;
		unread = !process || (thread && (thread->running || !thread->consistent));
		/* No time to read it; or it polls, and had no CPU to be sampled on. */
		if (unread && !at_end && (late || state->spin) && state->doubts < MAX_DOUBTS)
			continue;
		before->unread += unread;
		if (unread || !thread || !is_same(&before->calls[i - 1], &dump, thread))
			call_remove(before, i - 1);
		else
			state->doubts = 0;
	}
	dump_fini(&dump);
}

/* Of one that was found on a CPU: do samples say that it is still in its call? */
enum spin_says { SPIN_SAYS_NOTHING, SPIN_SAYS_YES, SPIN_SAYS_NO };

static enum spin_says spin_ask(const struct gpu_inflight *before, size_t at,
			       const struct bpfprof_task_state *task)
{
	size_t spin = before->states[at].spin;

	if (!spin)
		return SPIN_SAYS_NOTHING;
	if (!polling_threads_holds(before->spins, spin - 1))
		return SPIN_SAYS_NO;
	return !task->state && polling_threads_get(before->spins, spin - 1)->last_ns + RECENT_NS >=
				       time_monotonic_ns()
		       ? SPIN_SAYS_YES
		       : SPIN_SAYS_NOTHING;
}

/* Looks at all calls of one process. */
static void process_scan(struct gpu_inflight *before, uint32_t own_pid,
			 const struct gpu_snapshot *picture, bool at_end)
{
	const struct bpfprof_task_state *task;
	struct tasks tasks;
	enum spin_says spin;
	bool doubts = false;
	size_t i;

	/* Without a list none of its threads is found: the process has ended. */
	tasks_read(&tasks, &before->job->sampler.reader.session, own_pid, NULL);
	for (i = before->nr_calls; i; i--) {
		struct call_state *state = &before->states[i - 1];

		if (state->own_pid != own_pid)
			continue;
		task = tasks_find(&tasks, state->kernel_tid, 0);
		if (!task || task->exit_state ||
		    task->task.start_ns != before->calls[i - 1].start_ns ||
		    began_since(before, i - 1, picture) || called_since(before, i - 1)) {
			call_remove(before, i - 1);
			continue;
		}
		spin = spin_ask(before, i - 1, task);
		if (spin == SPIN_SAYS_NO)
			call_remove(before, i - 1);
		if (spin != SPIN_SAYS_NOTHING)
			continue;
		/* Asleep, and it was not awake since. */
		if (task->state && !(task->flags & BPFPROF_TASK_ON_CPU) &&
		    task->nr_switches == state->nr_switches && !state->doubts)
			continue;
		state->nr_switches = task->nr_switches;
		state->doubts++;
		doubts = true;
	}
	tasks_fini(&tasks);
	if (doubts)
		doubts_resolve(before, own_pid, at_end);
}

void gpu_inflight_poll(struct gpu_inflight *before, const struct gpu_snapshot *picture, bool at_end)
{
	uint32_t pids[MAX_PROCESSES];
	size_t nr = 0, i, k;

	gpu_inflight_run(before, time_monotonic_ns());
	if (at_end && before->spins && !before->spins_judged)
		spins_judge(before, true);
	if (!before->nr_calls)
		return;
	before->deadline_ns = time_monotonic_ns() + (at_end ? LOOK_END_NS : LOOK_NS);
	for (i = 0; i < before->nr_calls; i++) {
		for (k = 0; k < nr && pids[k] != before->states[i].own_pid; k++)
			;
		if (k == nr && nr < MAX_PROCESSES)
			pids[nr++] = before->states[i].own_pid;
	}
	for (k = 0; k < nr; k++)
		process_scan(before, pids[k], picture, at_end);
	thread_read_end(&before->job->sampler.reader, THREAD_OWNER_INFLIGHT);
	for (i = 0; i < before->nr_calls && !before->states[i].spin; i++)
		;
	if ((at_end || i == before->nr_calls) && before->spins_judged)
		spins_end(before);
}

bool gpu_inflight_was_silent(const struct gpu_inflight *before, uint32_t pid, uint64_t start_ns)
{
	size_t i;

	for (i = 0; before && i < before->nr_silent; i++)
		if (before->silent[i].pid == pid && before->silent[i].start_ns == start_ns)
			return true;
	return false;
}

const struct gpu_inflight_call *gpu_inflight_calls(const struct gpu_inflight *before,
						   size_t *ret_nr)
{
	*ret_nr = before ? before->nr_calls : 0;
	return before ? before->calls : NULL;
}

#define AT(field) offsetof(struct gpu_inflight, field)

const struct counter gpu_inflight_counters[] = {
	{ COUNTER_GPU, "processes_not_read_at_the_start", AT(processes_unread),
	  .help = "processes that could not be read when `gpu` began" },
	{ COUNTER_GPU, "threads_running_at_the_start_not_read", AT(running),
	  .help = "threads that ran when `gpu` began, and could not be read" },
	{ COUNTER_GPU, "threads_in_calls_from_before_not_read", AT(unread),
	  .help = "threads in a call when `gpu` began, which could not be read" },
	{ COUNTER_GPU, "stacks_at_the_start_cut", AT(cut),
	  .help = "stacks of calls in flight when `gpu` began that are not complete" },
	{ COUNTER_GPU, "memory_pages_at_the_start_not_read", AT(pages),
	  .help = "pages of memory that could not be read when `gpu` began" },
	{ COUNTER_GPU, "calls_from_before_no_room", AT(refused),
	  .help = "calls in flight when `gpu` began, beyond the room" },
	{ 0 },
};

void gpu_inflight_lost(const struct gpu_inflight *before, struct stats_reasons *dst)
{
	if (before)
		stats_add_rows(dst, gpu_inflight_counters, before, true);
}

int gpu_inflight_new(struct gpu_inflight **ret, struct gpu_job *job)
{
	struct gpu_inflight *before = calloc(1, sizeof(*before));

	if (!before)
		return -ENOMEM;
	if (strtab_new(&before->strings, MAX_STACK_BYTES)) {
		free(before);
		return -ENOMEM;
	}
	before->job = job;
	*ret = before;
	return 0;
}

void gpu_inflight_free(struct gpu_inflight *before)
{
	if (!before)
		return;
	while (before->nr_calls)
		call_remove(before, before->nr_calls - 1);
	spins_end(before);
	strtab_free(before->strings);
	free(before);
}
