/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_LIVE_H
#define BPFPROF_PROFILE_LIVE_H

/*
 * A table of functions and lines that grows interval by interval: what each used in the last one
 * and since the start, by itself (own) and with what it called (total; once per sample, however
 * often a recursion is on the stack). Counted for four views at once, with and without
 * native and kernel frames, so that switching loses nothing. Bounded: past LIVE_MAX_ROWS those
 * that used the least and did not run lately go, half of them at a time; so do processes past
 * LIVE_MAX_PROCESSES; names are kept for rows that are there. What went is counted.
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
#define LIVE_ALL UINT32_MAX /* instead of a process */

/*
 * What a view shows. Without NATIVE, native frames of stacks with Python frames are left out;
 * without KERNEL, kernel frames of stacks with other frames: what is left out counts for
 * the frame above which it ran.
 */
enum live_show { LIVE_NATIVE = 1, LIVE_KERNEL = 2, LIVE_NR_VIEWS = 4 };

enum live_kind { LIVE_FUNCTION = 1, LIVE_LINE = 2 };

struct live_counts {
	uint64_t own_ns[LIVE_NR_VIEWS], total_ns[LIVE_NR_VIEWS];
};

struct live_row {
	uint32_t process; /* index */
	uint32_t text; /* for live_text() */
	uint32_t kinds; /* enum live_kind: both where a function has no lines to tell apart */
	struct live_counts now, ever;
};

struct live_use {
	uint64_t samples, ns, gil_ns; /* gil_ns: of which the thread held Python's GIL */
	uint64_t cpu_ns; /* of which it ran: all of it, unless waits are counted, too */
};

struct live_process {
	uint32_t kernel_pid; /* 0: this index is free */
	uint32_t pid; /* in our own pid namespace, 0: it has none there */
	uint64_t start_ns;
	char comm[LIVE_NAME_LEN]; /* or what it runs last as a Ray worker: `ray::Class.method` */
	char pod[LIVE_POD_LEN]; /* NAMESPACE/POD that it lives in, cut; of no pod the container; "" */
	struct live_use now, ever;
	uint64_t last; /* interval that it ran in last */
};

struct live_counters {
	uint64_t nr_intervals;
	uint64_t rows_evicted, processes_evicted;
	uint64_t samples_lost; /* of processes that there was no room for */
	uint64_t stops[BPFPROF_NR_STOPS], python_stops[PYTHON_NR_STOPS]; /* ends of stacks */
	uint64_t unmerged, table_full;
};

/* What one frame is called; see live_named(). */
struct live_name {
	const char *function, *line; /* texts of the rows that it counts for; copied */
	/* Frames from start up to end have the same name (as numbers; both 0: only this one). */
	uint64_t start, end;
	bool passing; /* a makeshift: ask again in the next interval */
};

/*
 * Names nr frames, distinct, ascending and, if they are NATIVE_VA or PYTHON ones, all of process pid
 * (without what AGGREGATE_VA_BITS says of it): calls live_named() for each.
 */
struct live_names {
	void (*name)(void *arg, struct live *live, const uint64_t *frames, size_t nr, uint32_t pid);
	void *arg;
};

int live_new(struct live **ret); /* 0 or -ENOMEM */
void live_free(struct live *live);
/* From now on threads that wait with nothing to do are one row, IDLE_FRAME (profile/idle.h). */
void live_idle(struct live *live);

/* Begins the next interval with the samples that view holds of it. 0 or -ENOMEM. */
int live_feed(struct live *live, const struct aggregate_view *view,
	      const struct live_names *symbolizer);
/* Only to be called by a namer, for one of the frames that it got. */
void live_named(struct live *live, uint64_t frame, const struct live_name *name);
/* Everything since the start is 0 from here on. */
void live_reset(struct live *live);

/* All rows, in no order; borrowed until the next live_feed() or live_reset(). */
const struct live_row *live_rows(const struct live *live, size_t *ret_nr);
const char *live_text(const struct live *live, uint32_t text);
/* LIVE_MAX_PROCESSES or fewer, some of them free. */
const struct live_process *live_processes(const struct live *live, size_t *ret_nr);
/* Of one process, or of LIVE_ALL. */
void live_use_get(const struct live *live, uint32_t process, struct live_use *ret_now,
		  struct live_use *ret_ever);
const struct live_counters *live_counters(const struct live *live);

#endif
