/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_WATCH_DEATHS_H
#define BPFPROF_WATCH_DEATHS_H

/*
 * The deaths that a sampler sees, whose session has the option `deaths`. It keeps for each watched process what
 * may explain its end: signals of others, stacks of deadly signals, its last sample. The decision falls when the
 * process ends, because a handler may take any signal. The caller takes the deaths one by one. Bounds: those of
 * watched.h, and DEATHS_MAX_WAITING deaths that the caller has not taken, which tenants share (base/shares.h); what is
 * over is counted. The caller owns the struct, which must not move.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/shares.h"
#include "watch/death.h"
#include "watch/death_counts.h"
#include "watch/watched.h"

struct aggregate;
struct aggregate_input;
struct sampler;
struct stats_reasons;

#define DEATHS_MAX_WAITING 128 /* one tenant alone has a half of it */

struct deaths {
	struct sampler *sampler;
	/* Is a process watched that passes the sampler's filters? NULL: yes. */
	bool (*wants)(void *arg, const struct aggregate_input *input);
	void *arg;
	bool keep_recent; /* keep the last sample of each process */
	struct watched_table watched;
	uint32_t *pids; /* processes that ran at the start, and are still to be learned */
	size_t nr_pids, cap_pids;
	unsigned int nr_tries; /* of the last of them */
	struct death *waiting[DEATHS_MAX_WAITING];
	uint32_t tenants[DEATHS_MAX_WAITING]; /* of those */
	size_t first, nr_waiting;
	struct shares shares; /* of the room for them */
	struct death_counts counts;
	uint64_t nr_deaths; /* all */
	uint64_t
		nr_ended; /* watched processes that ended in order; with wants, without those of exit code 0 */
	uint64_t nr_not_written; /* deaths over the share of their tenant */
	uint64_t nr_not_learned; /* processes that ran at the start and could not be read */
	uint64_t nr_unknown_ends; /* watched processes whose end raised no event */
};

void deaths_init(struct deaths *deaths, struct sampler *sampler);
void deaths_fini(struct deaths *deaths);
/* Between sampler_open() and sampler_start(): an observer of the sampler. */
void deaths_observe(struct deaths *deaths);
/* After sampler_start(): notes which processes run already. 0 or -ENOMEM. */
int deaths_start(struct deaths *deaths);
/*
 * Reads the names of these processes, for about this long. False: none is left. The caller may have to wait for files:
 * it is a job, or there is no background.
 */
bool deaths_learn(struct deaths *deaths, uint64_t limit_ns);
/* The tenant (base/tenant.h) of the death that deaths_take() gives next. */
uint32_t deaths_tenant(const struct deaths *deaths);
/* The oldest death that was not taken yet; the caller frees it. NULL: none. */
struct death *deaths_take(struct deaths *deaths);
/* For sampler_sweep(): the aggregates of the deaths that were not taken yet. Returns their number. */
size_t deaths_waiting(const struct deaths *deaths, const struct aggregate *ret[DEATHS_MAX_WAITING]);
/* The same: an aggregate of all stacks that are kept; the caller frees it. NULL: none, or no memory. */
struct aggregate *deaths_stacks(const struct deaths *deaths);

extern const struct counter deaths_counters[];
void deaths_stats(const struct deaths *deaths, struct stats_reasons *dst);

#endif
