/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_MEMORY_ALLOCATIONS_H
#define BPFPROF_MEMORY_ALLOCATIONS_H

/*
 * Allocations by stack: what each has allocated, and what of it is not freed. The monitor of one
 * sampler whose session has the option allocations. The kernel keeps the blocks of the sample that are
 * held (kernel/held_blocks.h); this keeps their stacks. The caller owns the struct, which must not move.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/process_map.h"
#include "bpfprof.h"
#include "memory/answer.h"
#include "memory/classes.h"
#include "memory/slowdown.h"
#include "memory/steady_stacks.h"
#include "options/memory_options.h"

#define ALLOCATIONS_TICK_MS 20 /* allocations_run() is due so often */

struct aggregate;
struct alloc_probes;
struct allocation_sum;
struct buf;
struct held_blocks;
struct profile;
struct run_stats;
struct sampler;
struct stats_reasons;

struct allocations {
	struct sampler *sampler;
	struct aggregate *aggregate;
	struct held_blocks *held;
	struct alloc_probes *probes;
	struct hash_table blocks; /* those of the sample that are held, by id */
	struct hash_table accounts; /* struct allocation_account */
	struct allocation_sum *sums; /* by the sample of the aggregate */
	size_t nr_sums, cap_sums;
	size_t bytes; /* the limit for stacks and sums */
	size_t *sums_of_samples; /* the place of each sample of the profile in sums */
	struct slowdown_rules rules;
	enum memory_question question;
	struct memory_answer
		answer; /* a row per stack; for MEMORY_PEAK of the look that found the most */
	struct steady_stacks steady; /* for MEMORY_LEAKS */
	uint64_t start_ns; /* CLOCK_MONOTONIC */
	uint64_t next_ns, next_tick_ns, next_scan_ns,
		next_clean_ns; /* the next look and so on are due */
	/* For MEMORY_PEAK: from early_ns on, a look is due as well when more is held than at the peak. */
	uint64_t early_ns, look_bytes,
		look_kernel_bytes; /* of the last look, and held_blocks_bytes() then */
	uint64_t nr_looks;
	unsigned int nr_reported; /* processes whose windows were reported */
	uint64_t nr_blocks_full, nr_accounts_full, nr_lost, nr_windows, nr_lives_estimated;
	uint64_t
		nr_unkept; /* blocks that are counted in nr_blocks_full, and that a look has not dropped yet */
	uint64_t looked_id; /* newest block before the last look */
	bool ticking; /* accounts are being walked: none may go */
	double variance; /* of what outlived windows, in bytes squared */
};

/* A process. */
struct allocation_account {
	struct hash_node node;
	struct process_key key;
	uint32_t own_pid; /* in our own pid namespace, 0: it has none there */
	char name[BPFPROF_COMM_LEN];
	uint64_t exec_id;
	bool ended;
	struct slowdown slowdown;
	/* At the end. */
	uint64_t held_bytes, allocated_bytes;
};

/* Before sampler_open(), while there is one thread: can allocations be watched here? An exit status. */
int allocations_check(void);
/* bytes: the limit for stacks and their sums. An exit status; allocations_close() is due whatever it is. */
int allocations_open(struct allocations *a, struct sampler *sampler,
		     const struct memory_options *options, size_t bytes);
void allocations_close(struct allocations *a);
/* After sampler_start(): hooks the processes. An exit status. */
int allocations_start(struct allocations *a);
/* Periodic work. */
void allocations_run(struct allocations *a, uint64_t now_ns);
/* Before sampler_stop(): takes all probes out, looks for the last time, adds up. 0 or -errno. */
int allocations_finish(struct allocations *a);
/* Is the answer not known for this process, since calls outside of windows were not seen? */
bool allocations_are_unknown(const struct allocations *a, const struct allocation_account *account);
/*
 * Gives the samples of a profile of the aggregate what is held as their values, and what was allocated
 * beside. 0 or -ENOMEM.
 */
int allocations_values(struct allocations *a, struct profile *profile);
/* After it: of a sample of the profile. */
const struct block_classes *allocations_classes(const struct allocations *a, size_t sample);
/* allocations_table.c: the table for people. rows: of each process, 0: all. 0 or -ENOMEM. */
int allocations_table(struct buf *dst, const struct allocations *a, const struct profile *profile,
		      size_t rows);

/* Blocks of the sample, and processes, that are missing in the answer. */
uint64_t allocations_missing_blocks(const struct allocations *a);
uint64_t allocations_missing_processes(const struct allocations *a);

extern const struct counter allocation_counters[];
/* While the session exists. */
void allocations_stats(const struct allocations *a, struct stats_reasons *dst);

#endif
