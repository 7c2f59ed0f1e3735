/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_CLOCK_H
#define BPFPROF_KERNEL_CLOCK_H

/*
 * What makes the sampling program run: a perf event on every online CPU, or a
 * BPF timer on every online CPU where perf_event_open is refused. Follows CPUs that
 * come and go, varies the period so that no program runs in step with it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "kernel/session.h"

struct clock;

/*
 * Can this process open a system-wide perf event? 0; -EACCES, -EPERM (refused); -ENOENT,
 * -EOPNOTSUPP (no such event here: hardware cycles in most virtual machines).
 */
int clock_probe_perf(bool cycles);

/* Starts sampling on all online CPUs. Borrows session, which must be attached. 0 or -errno. */
int clock_start(struct clock **ret, struct session *session);
/* To be called about once a second: new periods, CPU hotplug, timers to be armed again. */
void clock_tick(struct clock *clock);
/* No samples after this. The counts stay readable. */
void clock_stop(struct clock *clock);
void clock_free(struct clock *clock);

/* Online CPUs that are not sampled at the moment. */
uint32_t clock_nr_unarmed(const struct clock *clock);
/* How often a perf event was found dead on a CPU that is online, and was opened anew. */
uint64_t clock_nr_revived(const struct clock *clock);
/*
 * Ticks that were due on busy CPUs but skipped by the kernel without a trace (perf
 * events only; a tick inside a BPF map update is). busy_runs: program runs that did not meet the
 * idle task. Idle CPUs need not tick, so their time is taken off by what
 * /proc/stat says of it, and the result is exact to some ticks per CPU only; it
 * never falls.
 */
uint64_t clock_nr_skipped(struct clock *clock, uint64_t busy_runs);

#endif
