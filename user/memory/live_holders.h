/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_MEMORY_LIVE_HOLDERS_H
#define BPFPROF_MEMORY_LIVE_HOLDERS_H

/*
 * The functions that hold memory while a monitor runs, and how that changes. A stack gets its name once; names
 * of new stacks may take a hundredth of the time, and `[no name yet]` has the rest. Bounds: LIVE_HOLDERS_MAX
 * functions, others are one row; 4 bytes for each stack of the aggregate.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/budget.h"

struct memory_monitor;
struct strtab;

#define LIVE_HOLDERS_MAX 4096
#define LIVE_STEPS 12 /* of a minute */

struct live_holder {
	uint32_t name; /* in names */
	int64_t bytes;
	int64_t past[LIVE_STEPS]; /* at the ends of the last steps */
};

struct live_holders {
	struct memory_monitor *monitor;
	struct strtab *names;
	struct live_holder *list; /* by name */
	size_t nr;
	uint32_t *
		of_stack; /* name of each stack of the aggregate, 0: none yet; may have MAY_CHANGE */
	size_t next_row; /* where the search for stacks to name begins */
	size_t cap_stacks;
	struct budget budget; /* for names */
	uint64_t next_ns; /* the end of the present step */
	/* At the ends of steps, in the order of past[]. */
	uint64_t past_ns[LIVE_STEPS], past_total[LIVE_STEPS];
	size_t nr_past;
	uint64_t ns; /* the moment of the last update */
	uint64_t total_bytes; /* anonymous and resident */
	uint64_t file_bytes, shared_bytes, swap_bytes;
	size_t nr_processes;
	/* The group whose limit is the nearest. */
	uint64_t limit_bytes, used_bytes; /* 0: there is no limit */
	size_t nr_groups; /* that have a limit */
	bool one_group; /* all processes are in the one that has it */
};

/* Borrows the monitor, which has started. 0 or -ENOMEM; live_holders_fini() is due whatever it is. */
int live_holders_init(struct live_holders *live, struct memory_monitor *monitor);
void live_holders_fini(struct live_holders *live);
/* Takes what the last look has found. 0 or -ENOMEM. */
int live_holders_update(struct live_holders *live, uint64_t now_ns);
/* The bytes of a row at the begin of the last minute, or at the first update if that is later. */
int64_t live_holder_before(const struct live_holders *live, const struct live_holder *holder);
/* Bytes per minute in that time, and its length; 0 ns: not known yet. */
double live_holders_slope(const struct live_holders *live, uint64_t *ret_ns);

#endif
