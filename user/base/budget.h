/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_BUDGET_H
#define BPFPROF_BASE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

/*
 * A share of the time for one kind of work, of which some can be saved up: what others cause
 * without end (new programs, misses) does not get more out of us. All zero is a
 * fresh budget, with everything saved up.
 */
struct budget {
	uint64_t spent_ns; /* not yet earned again */
	uint64_t earned_ns; /* up to when time was earned */
};

/* May work begin now? One nanosecond is earned in `share`; saved_ns can be saved up. */
bool budget_allows(struct budget *budget, uint32_t share, uint64_t saved_ns, uint64_t now_ns);
void budget_spend(struct budget *budget, uint64_t ns);

#endif
