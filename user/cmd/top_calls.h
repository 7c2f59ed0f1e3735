/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_TOP_CALLS_H
#define BPFPROF_CMD_TOP_CALLS_H

/* top --gpu: launches and blocked time of each process in the last interval. */

#include <stddef.h>
#include <stdint.h>

#include "gpu/monitor.h"
#include "tui/table.h"

struct top_calls_process;

/* All zero before top_calls_open(). */
struct top_calls {
	struct gpu_monitor watch;
	struct top_calls_process *before; /* since the start, by process, as of before_ns */
	size_t nr_before;
	uint64_t before_ns;
	struct table_calls *rows; /* the most blocked first */
	size_t nr_rows;
};

int top_calls_open(struct top_calls *calls, struct sampler *sampler); /* an exit status */
void top_calls_close(struct top_calls *calls);
/* The interval has ended: rows are of it from now on. 0 or -ENOMEM. */
int top_calls_update(struct top_calls *calls);

#endif
