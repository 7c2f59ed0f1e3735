/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_MEMORY_MONITOR_H
#define BPFPROF_MEMORY_MONITOR_H

/*
 * Room memory: says by stack which memory of processes is resident.
 *
 * The monitor of one sampler whose session has the option `pages`. It keeps the stack of each sampled
 * page while the page is held, and the accounts of processes (memory/resident.h). It looks at the pages a
 * few times a second; the last look that found a live process is the answer, so a program that has
 * ended is reported as it was just before. The caller owns the struct, which must not move.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/hash_table.h"
#include "memory/answer.h"
#include "memory/kills.h"
#include "memory/moments.h"
#include "memory/steady_stacks.h"
#include "options/memory_options.h"

struct aggregate;
struct aggregate_input;
struct held_pages;
struct profile;
struct run_stats;
struct sampler;
struct stats_reasons;

struct memory_monitor {
	struct sampler *sampler;
	/* Is a process watched that passes the sampler's filters? NULL: yes. */
	bool (*wants)(void *arg, const struct aggregate_input *input);
	void *arg;
	size_t bytes; /* the limit for stacks */
	struct aggregate *aggregate; /* stacks of all pages; the values are added at the end */
	struct held_pages *held;
	struct hash_table pages; /* sampled pages by their key */
	struct hash_table residents; /* struct resident */
	enum memory_question question;
	struct memory_answer last; /* of the last look that found a live process */
	struct memory_answer peak; /* for MEMORY_PEAK: of the look that found the most */
	struct memory_kills kills;
	struct steady_stacks steady; /* for MEMORY_LEAKS */
	bool keep_moments;
	struct memory_moments moments;
	uint64_t start_ns, start_boot_ns; /* CLOCK_MONOTONIC, CLOCK_BOOTTIME */
	uint64_t next_ns; /* the next look is due */
	/* For MEMORY_PEAK: from early_ns on, it is due as well when more pages are held than at the peak. */
	uint64_t early_ns, peak_pages, peak_sample_bytes;
	uint64_t nr_moved; /* pages that the kernel has moved */
	uint64_t nr_looks, nr_pages_full, nr_residents_full;
};

/* bytes: the limit for stacks. An exit status; memory_monitor_close() is due whatever it is. */
int memory_monitor_open(struct memory_monitor *monitor, struct sampler *sampler,
			const struct memory_options *options, size_t bytes);
void memory_monitor_close(struct memory_monitor *monitor);
/* After sampler_start(): pages are sampled from here on. An exit status. */
int memory_monitor_start(struct memory_monitor *monitor);
/* Periodic work; cheap if none is due. */
void memory_monitor_run(struct memory_monitor *monitor, uint64_t now_ns);
/* Before sampler_stop(): looks for the last time, and adds the answer to the aggregate. 0 or -errno. */
int memory_monitor_finish(struct memory_monitor *monitor);
/* Without a look: adds the last answer to the aggregate. 0 or -errno. */
int memory_monitor_fill(struct memory_monitor *monitor);
/* For a monitor that runs on after memory_monitor_fill() in a child: forgets stacks that hold nothing, and kills. */
void memory_monitor_next(struct memory_monitor *monitor);
/* The answer to the question. */
const struct memory_answer *memory_monitor_answer(const struct memory_monitor *monitor);
/* Says in a profile of the aggregate what its values are. */
void memory_profile_values(struct profile *profile);

extern const struct counter memory_counters[];
/* While the session exists. */
void memory_monitor_stats(const struct memory_monitor *monitor, struct stats_reasons *dst);

#endif
