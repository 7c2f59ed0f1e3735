/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_CLOCK_H
#define BPFPROF_KERNEL_CLOCK_H

/*
 * Runs the sampling program: a perf event on every online CPU, or a BPF timer where perf_event_open
 * is refused. It follows CPUs that go online or offline, and varies the period so that no program
 * runs in step with it.
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
/* Call it about once a second: new periods, CPU hotplug, timers to arm again. */
void clock_tick(struct clock *clock);
/* No samples after this. The counts stay readable. */
void clock_stop(struct clock *clock);
void clock_free(struct clock *clock);

/* Online CPUs without a running clock. */
uint32_t clock_nr_unarmed(const struct clock *clock);
/* Perf events that were found dead on an online CPU and opened again. */
uint64_t clock_nr_revived(const struct clock *clock);
/*
 * Ticks that the kernel skipped on busy CPUs without a trace (perf events only; for example a tick
 * inside a BPF map update). busy_runs: program runs outside the idle task. Idle CPUs need not tick,
 * so their time by /proc/stat is subtracted, and the result is exact only to some ticks per CPU; it
 * never falls.
 */
uint64_t clock_nr_skipped(struct clock *clock, uint64_t busy_runs);

#endif
