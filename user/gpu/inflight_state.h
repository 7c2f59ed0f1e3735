/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_INFLIGHT_STATE_H
#define BPFPROF_GPU_INFLIGHT_STATE_H

/*
 * The state of gpu/inflight.h, for its parts: inflight_calls.c keeps the calls, inflight_polling.c
 * finds those of threads that run, inflight.c those of threads that sleep.
 */

#include "gpu/inflight.h"
#include "threads/thread_reader.h"

#define INFLIGHT_MAX_PROCESSES 256
#define INFLIGHT_MAX_CALLS 1024
/* A limit for the text of all stacks: a report has room for it, however the text is escaped. */
#define INFLIGHT_STACK_BYTES (2U << 20)
#define INFLIGHT_PROCESS_NS NS_PER_SECOND /* for reading one process */
#define INFLIGHT_MAX_DOUBTS 5 /* polls without time to read a thread that ran */

struct polling_threads;
struct strtab;
struct tasks;

/* A call's further state, at the index of the call. */
struct call_state {
	uint32_t kernel_tid, own_pid;
	uint64_t nr_switches; /* context switches of the thread before its stack was read */
	unsigned int doubts; /* polls since the thread ran; reading it sets 0 */
	size_t polling; /* 1 + the index of a polling thread; 0: the thread slept */
};

/* A process with NCCL, and without a known call at the start. */
struct silent {
	uint32_t pid; /* in the outermost pid namespace */
	uint64_t start_ns;
};

struct gpu_inflight {
	struct gpu_job *job;
	struct polling_threads *polling; /* threads that ran; NULL: none of them is in a call */
	uint64_t polling_ns; /* when their sampling began, or when they were polled last */
	unsigned int polling_tries;
	bool polling_judged;
	struct strtab *strings; /* text of stacks */
	size_t stack_bytes;
	uint64_t deadline_ns;
	struct thread_read_counts counts; /* of the last read */
	uint64_t read_ns; /* when the tasks of the last process were read */
	struct gpu_inflight_call calls[INFLIGHT_MAX_CALLS];
	struct call_state states[INFLIGHT_MAX_CALLS];
	size_t nr_calls;
	struct silent silent[INFLIGHT_MAX_PROCESSES];
	size_t nr_silent;
	uint64_t processes_unread, running, unread, cut, pages, refused;
};

/* inflight_calls.c */

/*
 * Reads the threads of a process, and names those that are in libraries of CUDA. The caller passes an
 * empty dump and frees it in any case. NULL: the process could not be read.
 */
const struct process_dump *inflight_process_read(struct gpu_inflight *inflight, struct dump *dump,
						 uint32_t own_pid);
/* Adds a call of the thread, with its stack. */
void inflight_call_add(struct gpu_inflight *inflight, const struct dump *dump,
		       const struct thread_dump *thread, const struct gpu_inflight_call *who,
		       const struct call_state *state);
/* Adds the call of a thread that sleeps, if it is in one. The task was read before the thread. */
void inflight_sleeper_add(struct gpu_inflight *inflight, const struct dump *dump,
			  const struct thread_dump *thread, const struct bpfprof_task_state *task,
			  uint32_t own_pid);
void inflight_call_remove(struct gpu_inflight *inflight, size_t at);
/* Is the thread still at the place of the call? */
bool inflight_call_is_same(const struct gpu_inflight_call *call, const struct dump *dump,
			   const struct thread_dump *thread);
/*
 * Has the thread of call `at` made another call since it is hooked? NCCL itself calls the driver, so a
 * call of NCCL never counts as over by this.
 */
bool inflight_called_since(const struct gpu_inflight *inflight, size_t at);

/* inflight_polling.c */

void inflight_polling_begin(struct gpu_inflight *inflight);
/* Adds the calls of polling threads. At the end there is no second try. */
void inflight_polling_judge(struct gpu_inflight *inflight, bool at_end);
void inflight_polling_end(struct gpu_inflight *inflight);

#endif
