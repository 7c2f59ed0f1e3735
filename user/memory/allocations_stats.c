// SPDX-License-Identifier: Apache-2.0
/* What a recording of allocations counts, and what its answer lacks. */
#include "memory/allocations.h"

#include "kernel/held_blocks.h"
#include "kernel/probes/alloc_probes.h"
#include "profile/stats.h"

uint64_t allocations_missing_blocks(const struct allocations *a)
{
	return held_blocks_count(a->held, ALLOC_COUNT_FULL) +
	       held_blocks_count(a->held, ALLOC_COUNT_BUSY) +
	       held_blocks_count(a->held, ALLOC_COUNT_OPEN_FULL) + a->nr_blocks_full + a->nr_lost;
}

uint64_t allocations_missing_processes(const struct allocations *a)
{
	const struct alloc_probes_losses *losses = alloc_probes_losses(a->probes);

	return losses->nr_full + losses->nr_without + losses->nr_failed + a->nr_accounts_full;
}

/* The values that the rows read. */
struct allocation_counts {
	uint64_t kernel[ALLOC_NR_COUNTERS];
	struct alloc_probes_losses losses;
	uint64_t looks, windows, lives_estimated, blocks_full, lost, accounts_full;
};

#define AT(field) offsetof(struct allocation_counts, field)

const struct counter allocation_counters[] = {
	{ COUNTER_MEMORY, "blocks_sampled", AT(kernel[ALLOC_COUNT_SAMPLED]),
	  .help = "blocks that watched processes allocated, and whose stack was taken" },
	{ COUNTER_MEMORY, "blocks_freed", AT(kernel[ALLOC_COUNT_FREED]),
	  .help = "of these, freed" },
	{ COUNTER_MEMORY, "blocks_failed", AT(kernel[ALLOC_COUNT_FAILED]),
	  .help = "sampled calls that returned no block" },
	{ COUNTER_MEMORY, "blocks_kernel_no_room", AT(kernel[ALLOC_COUNT_FULL]),
	  .help = "blocks that are missing in the sample: no room in the kernel" },
	{ COUNTER_MEMORY, "blocks_scratch_busy", AT(kernel[ALLOC_COUNT_BUSY]),
	  .help = "blocks that are missing in the sample: the CPU took another one" },
	{ COUNTER_MEMORY, "blocks_end_not_seen", AT(kernel[ALLOC_COUNT_REPLACED]),
	  .help = "blocks whose address was allocated again, and whose end was not seen" },
	{ COUNTER_MEMORY, "blocks_open_no_room", AT(kernel[ALLOC_COUNT_OPEN_FULL]),
	  .help = "blocks that are missing in the sample: too many calls had not returned" },
	{ COUNTER_MEMORY, "block_ends_not_reported", AT(kernel[ALLOC_COUNT_UNREPORTED]),
	  .help = "blocks that ended while the ring was nearly full: a look found them gone" },
	{ COUNTER_MEMORY, "block_looks", AT(looks),
	  .help = "times that bpfprof looked which blocks are still held" },
	{ COUNTER_MEMORY, "allocation_windows", AT(windows),
	  .help = "times that the probes of a process were taken out, so as not to slow it down" },
	{ COUNTER_MEMORY, "block_lives_estimated", AT(lives_estimated),
	  .help = "blocks whose end was not seen, so that their life is at most what is shown: "
		  "their address was handed out again, maybe by a program that was executed "
		  "since, or two looks did not find them, which a long `realloc` causes, too" },
	{ COUNTER_MEMORY, "blocks_no_room", AT(blocks_full),
	  .help = "blocks whose stack is not kept: not among what is held" },
	{ COUNTER_MEMORY, "blocks_without_stack", AT(lost),
	  .help = "held blocks whose sample was lost: not among what is held" },
	{ COUNTER_MEMORY, "allocating_processes_no_room", AT(accounts_full),
	  .help = "processes over the limit" },
	{ COUNTER_MEMORY, "processes_without_allocator", AT(losses.nr_without),
	  .help = "processes in which no `malloc` was found" },
	{ COUNTER_MEMORY, "processes_not_hooked", AT(losses.nr_failed),
	  .help = "times that the kernel could not hook the allocator of a process" },
	{ COUNTER_MEMORY, "hooked_processes_no_room", AT(losses.nr_full),
	  .help = "processes over the limit of 64 whose allocations are watched at a time" },
	{ COUNTER_MEMORY, "children_not_cleaned", AT(losses.nr_unclean),
	  .help = "times that the breakpoints of a parent could not be taken out of its children: "
		  "tried again after a second" },
	{ 0 },
};

void allocations_stats(const struct allocations *a, struct stats_reasons *dst)
{
	struct allocation_counts counts = { .losses = *alloc_probes_losses(a->probes),
					    .looks = a->nr_looks,
					    .windows = a->nr_windows,
					    .lives_estimated = a->nr_lives_estimated,
					    .blocks_full = a->nr_blocks_full,
					    .lost = a->nr_lost,
					    .accounts_full = a->nr_accounts_full };
	int i;

	for (i = 0; i < ALLOC_NR_COUNTERS; i++)
		counts.kernel[i] = held_blocks_count(a->held, (enum bpfprof_alloc_counter)i);
	stats_add_rows(dst, allocation_counters, &counts, true);
}
