// SPDX-License-Identifier: Apache-2.0
#include "gpu/polling_threads.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/exit_status.h"
#include "base/strtab.h"
#include "base/time.h"
#include "capture/dump_burst.h"
#include "capture/sampler.h"
#include "profile/aggregate.h"
#include "profile/stats.h"
#include "threads/thread_call.h"
#include "threads/stack_names.h"
#include "threads/thread_sample.h"
#include "threads/thread_dump.h"

#define POLLING_HZ 97
#define RING_BYTES (1U << 20)
/* Fewer samples may all show a loop that repeats the same short call. */
#define MIN_SAMPLES 8

/* The dump has a process for each poller, at the same index, with one thread. */
struct poller {
	struct polling_thread public;
	size_t nr_user; /* user frames of the first sample */
	size_t nr_common; /* the outermost frames that all samples share */
	size_t nr_callers; /* frames above the call */
};

struct polling_threads {
	struct capture_options options;
	struct sampler sampler;
	bool started;
	struct dump dump;
	struct poller list[POLLING_THREADS_MAX];
	pid_t pids[POLLING_THREADS_MAX];
};

static struct thread_dump *thread_of(const struct polling_threads *pollers, size_t i)
{
	return &pollers->dump.processes[i].threads[0];
}

/*
 * A Python frame has a line, or an instruction offset until the line is known: any two Python
 * frames are equal.
 */
static bool is_same_frame(uint64_t a, uint64_t b)
{
	return a == b || (a >> BPFPROF_FRAME_SHIFT == BPFPROF_FRAME_PYTHON &&
			  b >> BPFPROF_FRAME_SHIFT == BPFPROF_FRAME_PYTHON);
}

static size_t common(const struct thread_dump *thread, const struct poller *poller,
		     const struct aggregate_input *input)
{
	const struct thread_frame *end = thread->frames + thread->nr_frames;
	size_t n = 0;

	while (n < poller->nr_common && n < input->nr_user &&
	       is_same_frame(end[-1 - (ptrdiff_t)n].wire, input->user[input->nr_user - 1 - n]))
		n++;
	return n;
}

static void on_sample(struct polling_threads *pollers, const struct aggregate_input *input)
{
	struct poller *poller;
	size_t i;

	for (i = 0; i < pollers->dump.nr_processes; i++)
		if (pollers->list[i].public.task.tid == input->sample->task.tid &&
		    pollers->list[i].public.task.start_ns == input->sample->task.start_ns)
			break;
	poller = &pollers->list[i];
	if (i == pollers->dump.nr_processes || (poller->public.judged && !poller->public.in_call) ||
	    !thread_sample_is_whole(input))
		return;
	if (!poller->public.nr_samples) {
		if (thread_sample_take(thread_of(pollers, i), input, pollers->dump.strings))
			return;
		thread_of(pollers, i)->sampled = true;
		poller->public.first_ns = input->sample->rec.ts_ns;
		poller->nr_user = input->nr_user;
		poller->nr_common = input->nr_user;
	}
	poller->nr_common = common(thread_of(pollers, i), poller, input);
	poller->public.last_ns = input->sample->rec.ts_ns;
	poller->public.nr_samples++;
}

static void on_event(void *arg, const struct event *event)
{
	if (event->kind == EVENT_SAMPLE)
		on_sample(arg, event->input);
}

int polling_threads_add(struct polling_threads *pollers, uint32_t own_pid,
			const struct bpfprof_task_state *task)
{
	struct process_dump *process;
	struct thread_dump *thread;
	size_t i = pollers->dump.nr_processes;

	if (i == POLLING_THREADS_MAX)
		return -ENOSPC;
	thread = calloc(1, sizeof(*thread));
	process = thread ? dump_add(&pollers->dump) : NULL;
	if (!process) {
		free(thread);
		return -ENOMEM;
	}
	process->pid = own_pid;
	process->kernel_pid = task->task.pid;
	process->threads = thread;
	process->nr_threads = 1;
	thread->tid = task->reader_tid ? task->reader_tid : task->task.tid;
	thread->kernel_tid = task->task.tid;
	pollers->list[i].public = (struct polling_thread){ .own_pid = own_pid,
							   .task = task->task,
							   .tid = thread->tid };
	memcpy(pollers->list[i].public.comm, task->comm, BPFPROF_COMM_LEN);
	return 0;
}

int polling_threads_start(struct polling_threads *pollers)
{
	size_t i, k, nr = 0;
	int status;

	for (i = 0; i < pollers->dump.nr_processes; i++) {
		for (k = 0; k < nr && pollers->pids[k] != (pid_t)pollers->list[i].public.own_pid;
		     k++)
			;
		if (k == nr)
			pollers->pids[nr++] = (pid_t)pollers->list[i].public.own_pid;
	}
	if (!nr) /* a sampler without pids would sample the whole machine */
		return EXIT_FAILED;
	pollers->options.pids = pollers->pids;
	pollers->options.nr_pids = nr;
	status = sampler_open(&pollers->sampler, &pollers->options);
	sampler_observe(&pollers->sampler, on_event, pollers);
	if (!status)
		status = sampler_start(&pollers->sampler);
	pollers->started = !status;
	if (status)
		sampler_close(&pollers->sampler);
	return status;
}

void polling_threads_run(struct polling_threads *pollers)
{
	if (pollers->started)
		sampler_run(&pollers->sampler);
}

static void polling_threads_stop(struct polling_threads *pollers)
{
	if (pollers->started)
		sampler_close(&pollers->sampler);
	pollers->started = false;
}

uint64_t polling_threads_map_bytes(const struct polling_threads *pollers)
{
	return pollers->started ? session_map_bytes(&pollers->sampler.reader.session) : 0;
}

bool polling_threads_suffice(const struct polling_threads *pollers)
{
	const struct polling_thread *poller;
	size_t i;

	for (i = 0; i < pollers->dump.nr_processes; i++) {
		poller = &pollers->list[i].public;
		if (poller->nr_samples && poller->nr_samples < MIN_SAMPLES)
			return false;
	}
	return true;
}

static void poller_judge(struct polling_threads *pollers, size_t i)
{
	const struct thread_dump *thread = thread_of(pollers, i);
	struct poller *poller = &pollers->list[i];

	poller->public.judged = poller->public.nr_samples >= MIN_SAMPLES;
	if (!poller->public.judged || !thread->gpu_call)
		return;
	poller->nr_callers = thread->nr_frames - thread->gpu_frame - 1;
	poller->public.in_call = poller->nr_callers > 0 && polling_threads_holds(pollers, i);
}

/* Makes the next try name all frames: frames without a name in time got their address. */
static void names_drop(struct polling_threads *pollers)
{
	const struct thread_dump *thread;
	size_t i, n;

	for (i = 0; i < pollers->dump.nr_processes; i++) {
		thread = thread_of(pollers, i);
		for (n = 0; n < thread->nr_frames; n++)
			if (thread->frames[n].wire)
				thread->frames[n].name = 0;
	}
}

int polling_threads_judge(struct polling_threads *pollers, uint64_t deadline_ns)
{
	const struct stack_names_options options = { .sampled = true,
						     .codes = pollers->sampler.codes,
						     .deadline_ns = deadline_ns };
	size_t i;
	int err = thread_calls_name(&pollers->dump, &pollers->sampler.reader, &options);

	for (i = 0; i < pollers->dump.nr_processes; i++)
		if (!thread_of(pollers, i)->nr_frames)
			pollers->list[i].nr_common = 0;
	if (err == -ETIME)
		names_drop(pollers);
	if (err)
		return err;
	for (i = 0; i < pollers->dump.nr_processes; i++)
		poller_judge(pollers, i);
	return 0;
}

size_t polling_threads_nr(const struct polling_threads *pollers)
{
	return pollers->dump.nr_processes;
}

const struct polling_thread *polling_threads_get(const struct polling_threads *pollers, size_t i)
{
	return &pollers->list[i].public;
}

const struct thread_dump *polling_threads_thread(const struct polling_threads *pollers, size_t i,
						 const struct dump **ret_dump)
{
	*ret_dump = &pollers->dump;
	return thread_of(pollers, i);
}

bool polling_threads_holds(const struct polling_threads *pollers, size_t i)
{
	return pollers->list[i].nr_common >= pollers->list[i].nr_callers;
}

int polling_threads_new(struct polling_threads **ret, const char *host_root)
{
	struct polling_threads *pollers = calloc(1, sizeof(*pollers));

	if (!pollers)
		return -ENOMEM;
	if (dump_init(&pollers->dump)) {
		free(pollers);
		return -ENOMEM;
	}
	pollers->options = (struct capture_options){
		.session = { .hz = POLLING_HZ,
			     .small = true,
			     .ring_bytes = RING_BYTES,
			     .nr_rows = DUMP_ROW_SLOTS },
		.no_subprocesses = true,
		.host_root = host_root,
	};
	*ret = pollers;
	return 0;
}

void polling_threads_free(struct polling_threads *pollers)
{
	if (!pollers)
		return;
	polling_threads_stop(pollers);
	dump_fini(&pollers->dump);
	free(pollers);
}
