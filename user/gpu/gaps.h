/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_GAPS_H
#define BPFPROF_GPU_GAPS_H

/*
 * What a process did while its device was idle. Samples meet threads in such a gap now and then,
 * and each stands for a period of time; the launch that ends the gap has its exact length. A long
 * gap is shared out among the stacks that were seen in it, as far as they cover it; the rest stays
 * with the launch. Few short gaps are met by a sample, so all short gaps of an interval are shared
 * out together.
 *
 * The caller sets a limit for all processes; stacks without room are counted.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct aggregate;
struct aggregate_call_at;
struct aggregate_view;
struct gpu_gaps;

#define GPU_GAPS_LONG_NS 100000000ULL
#define GPU_GAPS_UNSURE_NS 10000000ULL /* a smaller part of a gap may lack stacks by chance */

/* The room of all processes together. The caller owns it and sets max. */
struct gpu_gaps_room {
	size_t nr, max; /* stacks */
	uint64_t lost; /* samples without room */
};

int gpu_gaps_new(struct gpu_gaps **ret, struct gpu_gaps_room *room); /* 0 or -ENOMEM */
void gpu_gaps_free(struct gpu_gaps *gaps); /* NULL is fine */

/*
 * A thread was seen in the gap that began at begin_ns; this stands for ns. timed: ns was measured,
 * and the gap is shared out by itself, however short it is.
 */
void gpu_gaps_seen(struct gpu_gaps *gaps, const struct aggregate_call_at *at, uint64_t begin_ns,
		   uint64_t ns, bool timed);
/*
 * A launch ended the gap that began at begin_ns, after ns. Returns the part that stacks have now.
 * For a short gap this is 0: its time is shared out by gpu_gaps_share().
 */
uint64_t gpu_gaps_end(struct gpu_gaps *gaps, uint64_t begin_ns, uint64_t ns);
/*
 * At the end of an interval: shares out ns, the time of short gaps and of gaps without a reported
 * launch. Returns the part that stacks have now. idle_ns: begin of the gap that is not over; 0:
 * there is none.
 */
uint64_t gpu_gaps_share(struct gpu_gaps *gaps, uint64_t ns, uint64_t idle_ns);
/* Calls each() for each stack with its time. */
void gpu_gaps_each(const struct gpu_gaps *gaps,
		   void (*each)(void *arg, const struct aggregate_call_at *at, uint64_t ns),
		   void *arg);
/*
 * Begins the next interval: keeps only what was seen in the gap that is not over, with its stacks
 * in another aggregate, of which they may take max_bytes.
 */
void gpu_gaps_next(struct gpu_gaps *gaps, const struct aggregate_view *from, struct aggregate *next,
		   size_t max_bytes);

#endif
