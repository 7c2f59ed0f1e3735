/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_WATCH_DEATHS_H
#define BPFPROF_WATCH_DEATHS_H

/*
 * The deaths that a sampler sees, whose session has the option `deaths`. It keeps for each watched process what
 * may explain its end: signals of others, stacks of deadly signals, its last sample. The decision falls when the
 * process ends, because a handler may take any signal. The caller takes the deaths one by one. Bounds:
 * DEATHS_MAX_PROCESSES processes, DEATHS_STACK_BYTES of stacks, DEATHS_MAX_WAITING deaths that the caller has not
 * taken; what is over is counted. The caller owns the struct, which must not move.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/hash_table.h"
#include "watch/death.h"

struct aggregate;
struct aggregate_input;
struct sampler;
struct stats_reasons;

#define DEATHS_MAX_PROCESSES 4096
#define DEATHS_STACK_BYTES (2U << 20)
#define DEATHS_MAX_WAITING 64
#define DEATHS_MAX_REASONS 64

/* Deaths of one reason and one killer: the labels of bpfprof_deaths_total. */
struct deaths_count {
	char reason[DEATH_SIGNAL_BYTES], by[BPFPROF_COMM_LEN + 1];
	uint64_t nr;
};

struct deaths {
	struct sampler *sampler;
	/* Is a process watched that passes the sampler's filters? NULL: yes. */
	bool (*wants)(void *arg, const struct aggregate_input *input);
	void *arg;
	bool keep_recent; /* keep the last sample of each process */
	struct hash_table processes; /* struct watched */
	size_t stack_bytes;
	uint32_t *pids; /* processes that ran at the start, and are still to be learned */
	size_t nr_pids, cap_pids;
	struct death *waiting[DEATHS_MAX_WAITING];
	size_t first, nr_waiting;
	struct deaths_count counts[DEATHS_MAX_REASONS];
	size_t nr_counts;
	uint64_t nr_deaths; /* all */
	uint64_t
		nr_ended; /* watched processes that ended in order; with wants, without those of exit code 0 */
	uint64_t nr_not_written; /* deaths over DEATHS_MAX_WAITING */
	uint64_t nr_unknown_ends; /* watched processes whose end raised no event */
	uint64_t nr_processes_full, nr_stacks_full;
};

void deaths_init(struct deaths *deaths, struct sampler *sampler);
void deaths_fini(struct deaths *deaths);
/* Between sampler_open() and sampler_start(): an observer of the sampler. */
void deaths_observe(struct deaths *deaths);
/* After sampler_start(): notes which processes run already. 0 or -ENOMEM. */
int deaths_start(struct deaths *deaths);
/*
 * Where the caller may wait for files, in a job or without a background: reads the names of these processes,
 * for about this long. False: that was all.
 */
bool deaths_learn(struct deaths *deaths, uint64_t limit_ns);
/* The oldest death that was not taken yet; the caller frees it. NULL: none. */
struct death *deaths_take(struct deaths *deaths);
/* For sampler_sweep(): the aggregates of the deaths that were not taken yet. Returns their number. */
size_t deaths_waiting(const struct deaths *deaths, const struct aggregate *ret[DEATHS_MAX_WAITING]);
/* The same: an aggregate of all stacks that are kept; the caller frees it. NULL: none, or no memory. */
struct aggregate *deaths_stacks(const struct deaths *deaths);

extern const struct counter deaths_counters[];
void deaths_stats(const struct deaths *deaths, struct stats_reasons *dst);

#endif
