/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_POLLING_THREADS_H
#define BPFPROF_GPU_POLLING_THREADS_H

/*
 * Threads that were on a CPU at the start: is one of them in a call of CUDA or NCCL that began before the
 * hooks, and polls in it? A thread that runs has no registers to read, so a slow clock of its own samples
 * these threads for as long as one of them may be in such a call. All samples of one call have the same
 * callers. The user of this file checks that the thread has made no call since.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"

struct dump;
struct polling_threads;
struct thread_dump;

#define POLLING_THREADS_MAX 128

struct polling_thread {
	uint32_t own_pid; /* as we see it */
	struct bpfprof_task_id task;
	uint32_t tid; /* as we see it */
	char comm[BPFPROF_COMM_LEN];
	uint64_t first_ns, last_ns; /* CLOCK_MONOTONIC, of its first and last sample; 0: none */
	unsigned int nr_samples; /* whole samples */
	bool judged; /* polling_threads_judge() had enough samples */
	bool in_call; /* all samples were in the same call */
};

int polling_threads_new(struct polling_threads **ret, const char *host_root); /* 0 or -ENOMEM */
void polling_threads_free(struct polling_threads *pollers); /* NULL is fine */

/* Before the start: one more thread. 0, -ENOSPC or -ENOMEM. */
int polling_threads_add(struct polling_threads *pollers, uint32_t own_pid,
			const struct bpfprof_task_state *task);
/* An exit status; prints what went wrong. */
int polling_threads_start(struct polling_threads *pollers);
/* Takes samples between start and stop. */
void polling_threads_run(struct polling_threads *pollers);
uint64_t polling_threads_map_bytes(
	const struct polling_threads *pollers); /* memory of BPF maps; 0 after the stop */
/* Has each thread with samples enough of them? A thread that shares its CPU takes longer. */
bool polling_threads_suffice(const struct polling_threads *pollers);
/* Sets judged and in_call. 0; -ETIME: some frames have no name yet, try again; or -errno. */
int polling_threads_judge(struct polling_threads *pollers, uint64_t deadline_ns);

size_t polling_threads_nr(const struct polling_threads *pollers);
const struct polling_thread *polling_threads_get(const struct polling_threads *pollers, size_t i);
/* The stack of a thread in a call, with names as thread_calls_name() gives them. */
const struct thread_dump *polling_threads_thread(const struct polling_threads *pollers, size_t i,
						 const struct dump **ret_dump);
/* Do all samples show the thread in its call? */
bool polling_threads_holds(const struct polling_threads *pollers, size_t i);

#endif
