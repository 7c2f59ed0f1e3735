/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_WAITS_H
#define BPFPROF_KERNEL_WAITS_H

/*
 * What makes waits of threads be told (bpf/offcpu.bpf.c): attaches the programs, keeps what samples
 * of waits may cost within bounds, and tells in the end what is in no sample. Of a session that was
 * opened with waits.
 */

#include <stdbool.h>
#include <stdint.h>

#include "bpfprof.h"
#include "wait_times.h"

struct session;
struct waits;

/* Waits are told from here on. hz: how many samples a thread may have in a second. 0 or -errno. */
int waits_start(struct waits **ret, struct session *session, uint32_t hz);
/* To be called often, every 50 ms or so. */
void waits_run(struct waits *waits, uint64_t now_ns);
/* Time after this does not count. Who comes back later still tells of its wait, until waits_stop(). */
void waits_end(struct waits *waits);
/*
 * What the thread does, and what of its time no sample has told. 1; 0: it has not been on a CPU since the
 * start, if it lives, and *ret says that it sleeps since then; -ENOENT: that, unless it found no room.
 */
int waits_find(const struct waits *waits, const struct bpfprof_task_id *task,
	       struct bpfprof_waiter *ret);
/* Since when it waits; 0: it does not, or in a way that does not count. */
uint64_t waits_open_since_ns(const struct waits *waits, const struct bpfprof_waiter *waiter);
/* No samples of waits after this. */
void waits_stop(struct waits *waits);
void waits_free(struct waits *waits); /* NULL is fine */

uint64_t waits_start_ns(const struct waits *waits); /* CLOCK_MONOTONIC */
uint64_t waits_end_ns(const struct waits *waits); /* of waits_end(); 0: it goes on */
/* What the samples of the shortest waits stood for: at the beginning, and at most. */
uint64_t waits_base_period_ns(const struct waits *waits);
uint64_t waits_max_period_ns(const struct waits *waits);
/* At most from now on. */
void waits_max_period_restart(struct waits *waits);

/* Each thread that has been on a CPU since the start, and lives. */
void waits_each(struct waits *waits, void (*each)(void *arg, const struct bpfprof_waiter *waiter),
		void *arg);
/* Summed over all CPUs. */
void waits_counters(const struct waits *waits, uint64_t counters[WAIT_NR_COUNTERS]);

#endif
