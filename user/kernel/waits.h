/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_WAITS_H
#define BPFPROF_KERNEL_WAITS_H

/*
 * Records waits of threads (bpf/offcpu.bpf.c): attaches the programs, limits the cost of samples,
 * and reads the times that are in no sample at the end. For a session that was opened with waits.
 */

#include <stdbool.h>
#include <stdint.h>

#include "bpfprof.h"
#include "wait_times.h"

struct session;
struct waits;

/*
 * Waits are recorded from at_ns on (CLOCK_MONOTONIC), or, if that is past, from now on. hz: samples that a
 * thread may have per second. 0 or -errno.
 */
int waits_start(struct waits **ret, struct session *session, uint32_t hz, uint64_t at_ns);
/* Call it every 50 ms or so. */
void waits_run(struct waits *waits, uint64_t now_ns);
/*
 * Later time does not count. A thread that returns later still reports its wait, until
 * waits_stop().
 */
void waits_end(struct waits *waits);
/*
 * The state of the thread, and its time that is in no sample. 1; 0: it has not been on a CPU since
 * the start, if it lives, and *ret is a sleep since then; -ENOENT: the same, or it found no room.
 */
int waits_find(const struct waits *waits, const struct bpfprof_task_id *task,
	       struct bpfprof_waiter *ret);
/* When its wait began; 0: it does not wait, or its wait does not count. */
uint64_t waits_open_since_ns(const struct waits *waits, const struct bpfprof_waiter *waiter);
/* No samples of waits after this. */
void waits_stop(struct waits *waits);
void waits_free(struct waits *waits); /* NULL is fine */

uint64_t waits_start_ns(const struct waits *waits); /* CLOCK_MONOTONIC */
uint64_t waits_end_ns(const struct waits *waits); /* set by waits_end(); 0: not ended */
/* The value of samples of the shortest waits: at the beginning, and the maximum. */
uint64_t waits_base_period_ns(const struct waits *waits);
uint64_t waits_max_period_ns(const struct waits *waits);
/* The maximum counts from now on. */
void waits_max_period_restart(struct waits *waits);

/* Calls each for every live thread that has been on a CPU since the start. */
void waits_each(struct waits *waits, void (*each)(void *arg, const struct bpfprof_waiter *waiter),
		void *arg);
/* Sums of all CPUs. */
void waits_counters(const struct waits *waits, uint64_t counters[WAIT_NR_COUNTERS]);

#endif
