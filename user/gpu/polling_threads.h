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
struct gpu_spins;
struct thread_dump;

#define GPU_SPINS_MAX 128

struct gpu_spin {
	uint32_t own_pid; /* as we see it */
	struct bpfprof_task_id task;
	uint32_t tid; /* as we see it */
	char comm[BPFPROF_COMM_LEN];
	uint64_t first_ns, last_ns; /* CLOCK_MONOTONIC: when samples of it came; 0: none */
	unsigned int nr_samples; /* that were whole */
	bool judged; /* gpu_spins_judge() has seen enough of it */
	bool in_call; /* and it was in one all the time */
};

int gpu_spins_new(struct gpu_spins **ret, const char *host_root); /* 0 or -ENOMEM */
void gpu_spins_free(struct gpu_spins *spins); /* NULL is fine */

/* Before the start: one more thread. 0, -ENOSPC or -ENOMEM. */
int gpu_spins_add(struct gpu_spins *spins, uint32_t own_pid, const struct bpfprof_task_state *task);
/* An exit status; what went wrong is said. */
int gpu_spins_start(struct gpu_spins *spins);
/* Takes samples, if it has started and not stopped. */
void gpu_spins_run(struct gpu_spins *spins);
void gpu_spins_stop(struct gpu_spins *spins);
uint64_t gpu_spins_map_bytes(const struct gpu_spins *spins); /* of maps, until it is stopped */
/* Has each of which samples came enough of them? Who shares its CPU with many others takes longer. */
bool gpu_spins_suffice(const struct gpu_spins *spins);
/* Which of them are in calls. 0; -ETIME: not named until the deadline, to be tried again; or -errno. */
int gpu_spins_judge(struct gpu_spins *spins, uint64_t deadline_ns);

size_t gpu_spins_nr(const struct gpu_spins *spins);
const struct gpu_spin *gpu_spins_get(const struct gpu_spins *spins, size_t i);
/* Of one in a call: its stack, named as by dump_gpu(). */
const struct thread_dump *gpu_spins_thread(const struct gpu_spins *spins, size_t i,
					   const struct dump **ret_dump);
/* Is it still there, by all samples that have come? */
bool gpu_spins_holds(const struct gpu_spins *spins, size_t i);

#endif
