/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CLI_TOP_CALLS_H
#define BPFPROF_CLI_TOP_CALLS_H

/* top --gpu: launches and blocked time of each process in the last interval. */

#include <stddef.h>
#include <stdint.h>

#include "cli/gpu_watch.h"
#include "tui/table.h"

struct top_calls_process;

/* All zero before top_calls_open(). */
struct top_calls {
	struct gpu_watch watch;
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

/*
 * How long an open call has hung since then. Calls of NCCL return at once where all is well, and their
 * time is nobody's waiting; one that has not returned after a second waits for the other ranks. That is
 * not part of what the kernel counts, so that it is told of the time between two pictures alone.
 */
uint64_t top_calls_hung_ns(const struct bpfprof_gpu_open *open, uint64_t since_ns, uint64_t now_ns);

#endif
