/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_AGGREGATE_MADE_H
#define BPFPROF_TESTS_AGGREGATE_MADE_H

/* An aggregate under test, and samples for it. */

#include "profile/aggregate.h"

#define MIB (1U << 20)
#define KIND(kind) ((uint64_t)BPFPROF_FRAME_##kind << BPFPROF_FRAME_SHIFT)

extern struct aggregate *made_aggregate;
void aggregate_make(bool threads, size_t max_bytes);
void aggregate_teardown(void);
struct bpfprof_sample aggregate_sample_of(uint32_t pid, uint32_t tid, const char *comm);
void aggregate_add_one(const struct bpfprof_sample *sample, const uint64_t *user, size_t nr,
		       uint32_t stop);
uint64_t aggregate_count_in_all(const struct aggregate_view *view);

#endif
