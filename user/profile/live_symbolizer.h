/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_LIVE_SYMBOLIZER_H
#define BPFPROF_PROFILE_LIVE_SYMBOLIZER_H

/*
 * Names frames for a live table: the frames of one file in one pass over its symbols. A pass may take
 * long (a library of hundreds of megabytes), so passes have a budget of time; frames beyond it are
 * `FILE [no name yet]` for an interval. After each pass step() is called, so that sampling goes on.
 * Kernel functions come from a table in memory (some 8 MiB), which is read again now and then.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/budget.h"
#include "profile/live.h"
#include "profile/stats.h"

struct codes;
struct deadline_runner;
struct images;
struct kallsyms_table;

struct live_symbolizer {
	struct images *images;
	struct codes *codes;
	struct deadline_runner *runner;
	void (*step)(void *arg); /* NULL is fine */
	void *arg;
	/* The members below are all zero at first. */
	struct kallsyms_table *kallsyms;
	uint64_t kallsyms_ns; /* when the table was read */
	struct budget passes;
	uint64_t nr_passes, nr_postponed; /* nr_postponed: frames with a makeshift name */
	struct stats_reasons files; /* problems of files */
	int kernel_names_hidden;
};

void live_symbolizer_fini(struct live_symbolizer *symbolizer);

/* For live_feed(); borrows symbolizer. */
struct live_names live_symbolizer_fill(struct live_symbolizer *symbolizer);

#endif
