/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_POLLING_THREADS_H
#define BPFPROF_GPU_POLLING_THREADS_H

/*
 * Threads that were on a CPU when we came: is one of them in a call of CUDA or NCCL that began before that, as
 * the driver's are that poll? Where a thread is that runs, samples alone can tell: a slow clock of our own
 * takes them, for as long as any of the threads may be in such a call. In one call all samples have the
 * same callers; that none began since the caller has to find out.
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
	uint64_t first_ns, last_ns; /* CLOCK_MONOTONIC: when samples of it came; 0: none */
	unsigned int nr_samples; /* that were whole */
	bool judged; /* polling_threads_judge() has seen enough of it */
	bool in_call; /* and it was in one all the time */
};

int polling_threads_new(struct polling_threads **ret, const char *host_root); /* 0 or -ENOMEM */
void polling_threads_free(struct polling_threads *spins); /* NULL is fine */

/* Before the start: one more thread. 0, -ENOSPC or -ENOMEM. */
int polling_threads_add(struct polling_threads *spins, uint32_t own_pid,
			const struct bpfprof_task_state *task);
/* An exit status; what went wrong is said. */
int polling_threads_start(struct polling_threads *spins);
/* Takes samples, if it has started and not stopped. */
void polling_threads_run(struct polling_threads *spins);
void polling_threads_stop(struct polling_threads *spins);
uint64_t
polling_threads_map_bytes(const struct polling_threads *spins); /* of maps, until it is stopped */
/* Has each of which samples came enough of them? Who shares its CPU with many others takes longer. */
bool polling_threads_suffice(const struct polling_threads *spins);
/* Which of them are in calls. 0; -ETIME: not named until the deadline, to be tried again; or -errno. */
int polling_threads_judge(struct polling_threads *spins, uint64_t deadline_ns);

size_t polling_threads_nr(const struct polling_threads *spins);
const struct polling_thread *polling_threads_get(const struct polling_threads *spins, size_t i);
/* Of one in a call: its stack, named as by thread_calls_name(). */
const struct thread_dump *polling_threads_thread(const struct polling_threads *spins, size_t i,
						 const struct dump **ret_dump);
/* Is it still there, by all samples that have come? */
bool polling_threads_holds(const struct polling_threads *spins, size_t i);

#endif
