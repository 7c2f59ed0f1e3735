/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_GAPS_H
#define BPFPROF_GPU_GAPS_H

/*
 * What a process did while its device had nothing to do. Threads are seen in such a gap now and then,
 * each time for a period of theirs; when a launch ends it, its length is known exactly. A long gap is
 * shared out among the stacks that were seen in it, as far as they cover it: what of it nobody was
 * seen in stays with who tells of it. Of short ones, few of which are seen at all, that is done for all
 * of an interval together.
 *
 * Bounded by what the caller allows for all processes; what there was no room for is counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct aggregate;
struct aggregate_call_at;
struct aggregate_view;
struct gpu_gaps;

#define GPU_GAPS_LONG_NS 100000000ULL
#define GPU_GAPS_UNSURE_NS 10000000ULL /* missing: that may be by chance */

/* Of all processes together; the caller's, who sets max. */
struct gpu_gaps_room {
	size_t nr, max; /* stacks */
	uint64_t lost; /* times that one was seen and there was no room */
};

int gpu_gaps_new(struct gpu_gaps **ret, struct gpu_gaps_room *room); /* 0 or -ENOMEM */
void gpu_gaps_free(struct gpu_gaps *gaps); /* NULL is fine */

/*
 * A thread was seen in the gap that began then, which stands for ns; timed: it is known that it was so
 * long, and the gap is one that is shared out by itself, however short it is.
 */
void gpu_gaps_seen(struct gpu_gaps *gaps, const struct aggregate_call_at *at, uint64_t begin_ns,
		   uint64_t ns, bool timed);
/*
 * A launch ended the gap, which was so long. Returns how much of that stacks have from now on; of short
 * ones it is 0, and what remains of them can be given to gpu_gaps_share().
 */
uint64_t gpu_gaps_end(struct gpu_gaps *gaps, uint64_t begin_ns, uint64_t ns);
/*
 * At the end of an interval: ns, of short gaps and of those that no launch told of, are shared out.
 * Returns how much of that stacks have. idle_ns: when the gap began that is not over, 0: none.
 */
uint64_t gpu_gaps_share(struct gpu_gaps *gaps, uint64_t ns, uint64_t idle_ns);
/* What stacks have. */
void gpu_gaps_each(const struct gpu_gaps *gaps,
		   void (*each)(void *arg, const struct aggregate_call_at *at, uint64_t ns),
		   void *arg);
/*
 * The next interval: only what was seen in the gap that is not over is kept, under places in another
 * aggregate, which may take no more than max_bytes for that.
 */
void gpu_gaps_next(struct gpu_gaps *gaps, const struct aggregate_view *from, struct aggregate *next,
		   size_t max_bytes);

#endif
