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

#define SPINS_HZ 97
#define RING_BYTES (1U << 20)
/* Fewer samples may all be of a loop that makes the same short call again and again. */
#define MIN_SAMPLES 8

/* The thread at the same index is the only one of the process at that index of the dump. */
struct spin {
	struct polling_thread public;
	size_t nr_user; /* of the frames of its first sample, the outer ones */
	size_t nr_common; /* of these, the outermost that were in all samples */
	size_t nr_callers; /* of the call that it is in */
};

struct polling_threads {
	struct capture_options options;
	struct sampler sampler;
	bool started;
	struct dump dump;
	struct spin spins[POLLING_THREADS_MAX];
	pid_t pids[POLLING_THREADS_MAX];
};

static struct thread_dump *thread_of(const struct polling_threads *spins, size_t i)
{
	return &spins->dump.processes[i].threads[0];
}

/* Where a Python frame stands is told by its line or, if that is not to be had now, otherwise. */
static bool is_same_frame(uint64_t a, uint64_t b)
{
	return a == b || (a >> BPFPROF_FRAME_SHIFT == BPFPROF_FRAME_PYTHON &&
			  b >> BPFPROF_FRAME_SHIFT == BPFPROF_FRAME_PYTHON);
}

static size_t common(const struct thread_dump *thread, const struct spin *spin,
		     const struct aggregate_input *input)
{
	const struct thread_frame *end = thread->frames + thread->nr_frames;
	size_t n = 0;

	while (n < spin->nr_common && n < input->nr_user &&
	       is_same_frame(end[-1 - (ptrdiff_t)n].wire, input->user[input->nr_user - 1 - n]))
		n++;
	return n;
}

static void on_sample(struct polling_threads *spins, const struct aggregate_input *input)
{
	struct spin *spin;
	size_t i;

	for (i = 0; i < spins->dump.nr_processes; i++)
		if (spins->spins[i].public.task.tid == input->sample->task.tid &&
		    spins->spins[i].public.task.start_ns == input->sample->task.start_ns)
			break;
	spin = &spins->spins[i];
	if (i == spins->dump.nr_processes || (spin->public.judged && !spin->public.in_call) ||
	    !thread_sample_is_whole(input))
		return;
	if (!spin->public.nr_samples) {
		if (thread_sample_take(thread_of(spins, i), input, spins->dump.strings))
			return;
		thread_of(spins, i)->sampled = true;
		spin->public.first_ns = input->sample->rec.ts_ns;
		spin->nr_user = input->nr_user;
		spin->nr_common = input->nr_user;
	}
	spin->nr_common = common(thread_of(spins, i), spin, input);
	spin->public.last_ns = input->sample->rec.ts_ns;
	spin->public.nr_samples++;
}

static void on_event(void *arg, const struct event *event)
{
	if (event->kind == EVENT_SAMPLE)
		on_sample(arg, event->input);
}

int polling_threads_add(struct polling_threads *spins, uint32_t own_pid,
			const struct bpfprof_task_state *task)
{
	struct process_dump *process;
	struct thread_dump *thread;
	size_t i = spins->dump.nr_processes;

	if (i == POLLING_THREADS_MAX)
		return -ENOSPC;
	thread = calloc(1, sizeof(*thread));
	process = thread ? dump_add(&spins->dump) : NULL;
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
	spins->spins[i].public = (struct polling_thread){ .own_pid = own_pid,
							  .task = task->task,
							  .tid = thread->tid };
	memcpy(spins->spins[i].public.comm, task->comm, BPFPROF_COMM_LEN);
	return 0;
}

int polling_threads_start(struct polling_threads *spins)
{
	size_t i, k, nr = 0;
	int status;

	for (i = 0; i < spins->dump.nr_processes; i++) {
		for (k = 0; k < nr && spins->pids[k] != (pid_t)spins->spins[i].public.own_pid; k++)
			;
		if (k == nr)
			spins->pids[nr++] = (pid_t)spins->spins[i].public.own_pid;
	}
	if (!nr) /* that would be all of the machine */
		return EXIT_FAILED;
	spins->options.pids = spins->pids;
	spins->options.nr_pids = nr;
	status = sampler_open(&spins->sampler, &spins->options);
	sampler_observe(&spins->sampler, on_event, spins);
	if (!status)
		status = sampler_start(&spins->sampler);
	spins->started = !status;
	if (status)
		sampler_close(&spins->sampler);
	return status;
}

void polling_threads_run(struct polling_threads *spins)
{
	if (spins->started)
		sampler_run(&spins->sampler);
}

void polling_threads_stop(struct polling_threads *spins)
{
	if (spins->started)
		sampler_close(&spins->sampler);
	spins->started = false;
}

uint64_t polling_threads_map_bytes(const struct polling_threads *spins)
{
	return spins->started ? session_map_bytes(&spins->sampler.reader.session) : 0;
}

bool polling_threads_suffice(const struct polling_threads *spins)
{
	const struct polling_thread *spin;
	size_t i;

	for (i = 0; i < spins->dump.nr_processes; i++) {
		spin = &spins->spins[i].public;
		if (spin->nr_samples && spin->nr_samples < MIN_SAMPLES)
			return false;
	}
	return true;
}

static void spin_judge(struct polling_threads *spins, size_t i)
{
	const struct thread_dump *thread = thread_of(spins, i);
	struct spin *spin = &spins->spins[i];

	spin->public.judged = spin->public.nr_samples >= MIN_SAMPLES;
	if (!spin->public.judged || !thread->gpu_call)
		return;
	spin->nr_callers = thread->nr_frames - thread->gpu_frame - 1;
	spin->public.in_call = spin->nr_callers > 0 && polling_threads_holds(spins, i);
}

/* So that the next try names all: a frame for which there was no time got one that only looks like one. */
static void names_drop(struct polling_threads *spins)
{
	const struct thread_dump *thread;
	size_t i, n;

	for (i = 0; i < spins->dump.nr_processes; i++) {
		thread = thread_of(spins, i);
		for (n = 0; n < thread->nr_frames; n++)
			if (thread->frames[n].wire)
				thread->frames[n].name = 0;
	}
}

int polling_threads_judge(struct polling_threads *spins, uint64_t deadline_ns)
{
	const struct stack_names_options options = { .sampled = true,
						     .codes = spins->sampler.codes,
						     .deadline_ns = deadline_ns };
	size_t i;
	int err = thread_calls_name(&spins->dump, &spins->sampler.reader, &options);

	for (i = 0; i < spins->dump.nr_processes; i++)
		if (!thread_of(spins, i)->nr_frames)
			spins->spins[i].nr_common = 0;
	if (err == -ETIME)
		names_drop(spins);
	if (err)
		return err;
	for (i = 0; i < spins->dump.nr_processes; i++)
		spin_judge(spins, i);
	return 0;
}

size_t polling_threads_nr(const struct polling_threads *spins)
{
	return spins->dump.nr_processes;
}

const struct polling_thread *polling_threads_get(const struct polling_threads *spins, size_t i)
{
	return &spins->spins[i].public;
}

const struct thread_dump *polling_threads_thread(const struct polling_threads *spins, size_t i,
						 const struct dump **ret_dump)
{
	*ret_dump = &spins->dump;
	return thread_of(spins, i);
}

bool polling_threads_holds(const struct polling_threads *spins, size_t i)
{
	return spins->spins[i].nr_common >= spins->spins[i].nr_callers;
}

int polling_threads_new(struct polling_threads **ret, const char *host_root)
{
	struct polling_threads *spins = calloc(1, sizeof(*spins));

	if (!spins)
		return -ENOMEM;
	if (dump_init(&spins->dump)) {
		free(spins);
		return -ENOMEM;
	}
	spins->options = (struct capture_options){
		.session = { .hz = SPINS_HZ,
			     .small = true,
			     .ring_bytes = RING_BYTES,
			     .nr_rows = DUMP_ROW_SLOTS },
		.no_subprocesses = true,
		.host_root = host_root,
	};
	*ret = spins;
	return 0;
}

void polling_threads_free(struct polling_threads *spins)
{
	if (!spins)
		return;
	polling_threads_stop(spins);
	dump_fini(&spins->dump);
	free(spins);
}
