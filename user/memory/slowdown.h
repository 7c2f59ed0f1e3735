/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_MEMORY_SLOWDOWN_H
#define BPFPROF_MEMORY_SLOWDOWN_H

/*
 * The cost of probes is at most a part of the CPU time that the process uses for itself. The allowance
 * grows while the process runs, up to a limit. When it is used up, the probes are taken out, until there is
 * enough for another window.
 */

#include <stdbool.h>
#include <stdint.h>

struct slowdown_rules {
	double max; /* cost per own CPU time; 0: no limit */
	uint64_t call_ns, return_ns; /* of a probe at the begin and at the end of a call */
};

struct slowdown {
	bool off; /* the probes are out */
	uint32_t windows; /* times that they were taken out */
	double left_ns; /* cost that is still allowed */
	uint64_t cpu_ns, cost_ns; /* at the last tick */
	double seen_ns, all_ns; /* own CPU time with probes, and in all */
	uint64_t window_ns; /* wall time with probes */
	uint64_t tick_ns;
};

/* The process begins, with so much CPU time used. */
void slowdown_begin(struct slowdown *s, uint64_t cpu_ns, uint64_t now_ns);
/*
 * cost_ns: of the probes since they were put in; without meaning while they are out. True: they
 * shall be taken out, or put in again.
 */
bool slowdown_tick(struct slowdown *s, const struct slowdown_rules *rules, uint64_t cpu_ns,
		   uint64_t cost_ns, uint64_t now_ns);
/* They are out, or in again. */
void slowdown_switch(struct slowdown *s, bool off);
/* The part of its own CPU time in which calls were seen. */
double slowdown_seen(const struct slowdown *s);

#endif
