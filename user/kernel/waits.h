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
/*
 * Time after this does not count. Who comes back later still tells of its wait, until waits_stop(); of
 * one that goes on waiting somebody else may tell, if waits_claim() lets him.
 */
void waits_end(struct waits *waits);
/*
 * Has the thread waited since waits_end(), for as long as *ret_ns until then? From now on it tells
 * nothing of it.
 */
bool waits_claim(struct waits *waits, const struct bpfprof_task_id *task, uint64_t *ret_ns);
/* The same, without taking it. */
uint64_t waits_open_ns(const struct waits *waits, const struct bpfprof_task_id *task);
/* No samples of waits after this. */
void waits_stop(struct waits *waits);
void waits_free(struct waits *waits); /* NULL is fine */

uint64_t waits_start_ns(const struct waits *waits); /* CLOCK_MONOTONIC */
uint64_t waits_end_ns(const struct waits *waits); /* of waits_end() */
/* What the samples of the shortest waits stood for: at the beginning, and at most. */
uint64_t waits_base_period_ns(const struct waits *waits);
uint64_t waits_max_period_ns(const struct waits *waits);

/* After waits_stop(): what each thread does that has been on a CPU since the start. */
void waits_each(struct waits *waits, void (*each)(void *arg, const struct bpfprof_waiter *waiter),
		void *arg);
/* Summed over all CPUs. */
void waits_counters(const struct waits *waits, uint64_t counters[WAIT_NR_COUNTERS]);

#endif
