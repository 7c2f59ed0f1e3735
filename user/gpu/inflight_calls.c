// SPDX-License-Identifier: Apache-2.0
#include "gpu/inflight_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "base/time.h"
#include "gpu/job.h"
#include "kernel/probes/gpu_maps.h"
#include "threads/dump_view.h"
#include "threads/stack_names.h"
#include "threads/thread_call.h"
#include "threads/thread_dump.h"

#define MAX_STACK 512 /* frames of a call */
#define MAX_READ_FRAMES 65536 /* limit while a process is read: 4 MiB */
#define MAX_READ_PAGES 4096 /* limit while a process is read: 16 MiB */
/* Naming the frames of a process may take this time after the deadline. */
#define NAMES_NS (NS_PER_SECOND / 10)

void inflight_call_remove(struct gpu_inflight *inflight, size_t at)
{
	free(inflight->calls[at].stack);
	inflight->nr_calls--;
	inflight->calls[at] = inflight->calls[inflight->nr_calls];
	inflight->states[at] = inflight->states[inflight->nr_calls];
}

const struct process_dump *inflight_process_read(struct gpu_inflight *inflight, struct dump *dump,
						 uint32_t own_pid)
{
	struct thread_reader *reader = &inflight->job->sampler.reader;
	const struct thread_request request = { .owner = THREAD_OWNER_INFLIGHT,
						.pid = own_pid,
						.native = true,
						.deadline_ns = inflight->deadline_ns,
						.max_frames = MAX_READ_FRAMES,
						.max_pages = MAX_READ_PAGES };
	const struct stack_names_options names = { .deadline_ns =
							   inflight->deadline_ns + NAMES_NS };

	inflight->counts = (struct thread_read_counts){ 0 };
	if (dump_init(dump) || thread_read(reader, &request, dump, &inflight->counts) ||
	    thread_calls_name(dump, reader, &names))
		return NULL;
	return &dump->processes[0];
}

/* The text of frame i of a call's stack, in room. The first frame is named like the call. */
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

/* Copies the stack of a call. 0, -ENOSPC or -ENOMEM. */
static int stack_take(struct gpu_inflight *inflight, struct gpu_inflight_call *call,
		      const struct dump *dump, const struct thread_dump *thread)
{
	uint64_t nr_lost = strtab_nr_lost(inflight->strings);
	size_t bytes = inflight->stack_bytes, i, nr = stack_len(thread);
	char room[DUMP_FRAME_BYTES];

	call->stack = calloc(nr, sizeof(*call->stack));
	if (!call->stack)
		return -ENOMEM;
	for (i = 0; i < nr && bytes <= INFLIGHT_STACK_BYTES; i++) {
		shown_frame(dump, thread, i, room);
		bytes += strlen(room) + sizeof(*call->stack);
		call->stack[i] = strtab_get(inflight->strings, strtab_add(inflight->strings, room));
	}
	if (bytes > INFLIGHT_STACK_BYTES || strtab_nr_lost(inflight->strings) > nr_lost) {
		free(call->stack);
		return -ENOSPC;
	}
	call->nr_stack = nr;
	call->function = call->stack[0];
	inflight->stack_bytes = bytes;
	return 0;
}

void inflight_call_add(struct gpu_inflight *inflight, const struct dump *dump,
		       const struct thread_dump *thread, const struct gpu_inflight_call *who,
		       const struct call_state *state)
{
	struct gpu_inflight_call *call = &inflight->calls[inflight->nr_calls];

	*call = *who;
	if (inflight->nr_calls == INFLIGHT_MAX_CALLS || stack_take(inflight, call, dump, thread)) {
		inflight->refused++;
		return;
	}
	call->arguments_known = thread->gpu_arguments != NULL;
	if (thread->gpu_arguments)
		call->arguments = *thread->gpu_arguments;
	inflight->states[inflight->nr_calls++] = *state;
}

void inflight_sleeper_add(struct gpu_inflight *inflight, const struct dump *dump,
			  const struct thread_dump *thread, const struct bpfprof_task_state *task,
			  uint32_t own_pid)
{
	struct gpu_inflight_call call = { .tid = thread->tid,
					  .pid = task->task.pid,
					  .start_ns = task->task.start_ns,
					  .since_ns = inflight->read_ns - task->asleep_ns };
	const struct call_state state = { .kernel_tid = task->task.tid,
					  .own_pid = own_pid,
					  .nr_switches = task->nr_switches };

	if (!thread->gpu_call)
		return;
	if (!thread->consistent) {
		inflight->unread++;
		return;
	}
	memcpy(call.thread, task->comm, BPFPROF_COMM_LEN);
	inflight_call_add(inflight, dump, thread, &call, &state);
}

bool inflight_call_is_same(const struct gpu_inflight_call *call, const struct dump *dump,
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

bool inflight_called_since(const struct gpu_inflight *inflight, size_t at)
{
	const struct gpu_inflight_call *call = &inflight->calls[at];

	return strncmp(call->function, "nccl", strlen("nccl")) != 0 &&
	       gpu_maps_thread_has_called(&inflight->job->sampler.reader.session,
					  inflight->states[at].kernel_tid, call->pid,
					  call->start_ns);
}
