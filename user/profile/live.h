/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_LIVE_H
#define BPFPROF_PROFILE_LIVE_H

/*
 * A table of functions and lines that grows interval by interval: the time of each in the last interval
 * and since the start, by itself (own) and with the functions that it called (total; once per sample,
 * also with a recursion on the stack). Four views are counted at once, with and without native and
 * kernel frames, so that switching loses nothing. Bounds: beyond LIVE_MAX_ROWS the half of the rows that
 * used the least and did not run lately is evicted, beyond LIVE_MAX_PROCESSES half of the processes.
 * Evictions are counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"

struct aggregate_view;
struct live;

#define LIVE_MAX_ROWS 16384
#define LIVE_MAX_PROCESSES 4096
#define LIVE_POD_LEN 80
#define LIVE_NAME_LEN 128 /* longer titles are cut */
#define LIVE_ALL UINT32_MAX /* all processes */

/*
 * The frames of a view. Without NATIVE, native frames of stacks with Python frames are left out; without
 * KERNEL, kernel frames of stacks with other frames. The time of a frame that is left out counts for its
 * caller.
 */
enum live_show { LIVE_NATIVE = 1, LIVE_KERNEL = 2, LIVE_NR_VIEWS = 4 };

enum live_kind { LIVE_FUNCTION = 1, LIVE_LINE = 2 };

struct live_counts {
	uint64_t own_ns[LIVE_NR_VIEWS], total_ns[LIVE_NR_VIEWS];
};

struct live_row {
	uint32_t process; /* index */
	uint32_t text; /* for live_text() */
	uint32_t kinds; /* enum live_kind: both if the function has only one line */
	struct live_counts now, ever;
};

struct live_use {
	uint64_t samples, ns;
	uint64_t gil_ns; /* the part of ns in which the thread held Python's GIL */
	uint64_t cpu_ns; /* the part of ns on a CPU: all, unless waits are counted too */
};

struct live_process {
	uint32_t kernel_pid; /* 0: this index is free */
	uint32_t pid; /* in our own pid namespace, 0: it has none there */
	uint64_t start_ns;
	char comm[LIVE_NAME_LEN]; /* or its last title as a Ray worker: `ray::Class.method` */
	char pod[LIVE_POD_LEN]; /* NAMESPACE/POD, cut; or the container; or "" */
	struct live_use now, ever;
	uint64_t last; /* the last interval in which it ran */
};

struct live_counters {
	uint64_t nr_intervals;
	uint64_t rows_evicted, processes_evicted;
	uint64_t samples_lost; /* of processes for which there was no room */
	uint64_t stops[BPFPROF_NR_STOPS], python_stops[PYTHON_NR_STOPS]; /* ends of stacks */
	uint64_t unmerged, table_full;
};

/* The name of one frame; see live_named(). */
struct live_name {
	const char *function, *line; /* texts of the rows that the frame counts for; copied */
	/* Frames from start up to end have the same name; both 0: only this one. */
	uint64_t start, end;
	bool passing; /* a makeshift: the frame needs a name again in the next interval */
};

/*
 * name() names nr frames by calling live_named() for each. They are distinct and ascending; NATIVE_VA and
 * PYTHON frames are all of the process pid, and NATIVE_VA frames have no process in their bits.
 */
struct live_names {
	void (*name)(void *arg, struct live *live, const uint64_t *frames, size_t nr, uint32_t pid);
	void *arg;
};

int live_new(struct live **ret); /* 0 or -ENOMEM */
void live_free(struct live *live);
/* From now on idle threads are one row, IDLE_FRAME (profile/idle.h). */
void live_idle(struct live *live);

/* Begins the next interval with the samples of view. 0 or -ENOMEM. */
int live_feed(struct live *live, const struct aggregate_view *view,
	      const struct live_names *symbolizer);
/* Only for the function name() of live_names, for a frame that it got. */
void live_named(struct live *live, uint64_t frame, const struct live_name *name);
/* Sets all counts since the start to 0. */
void live_reset(struct live *live);

/* All rows, in no order; borrowed until the next live_feed() or live_reset(). */
const struct live_row *live_rows(const struct live *live, size_t *ret_nr);
const char *live_text(const struct live *live, uint32_t text);
/* At most LIVE_MAX_PROCESSES; some entries are free. */
const struct live_process *live_processes(const struct live *live, size_t *ret_nr);
/* process: an index, or LIVE_ALL. */
void live_use_get(const struct live *live, uint32_t process, struct live_use *ret_now,
		  struct live_use *ret_ever);
const struct live_counters *live_counters(const struct live *live);

#endif
