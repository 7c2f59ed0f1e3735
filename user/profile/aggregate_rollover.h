/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_AGGREGATE_ROLLOVER_H
#define BPFPROF_PROFILE_AGGREGATE_ROLLOVER_H

/* Carries calls and samples over from the aggregate of an interval to that of the next one. */

#include <stdint.h>

struct aggregate;
struct aggregate_call_at;
struct aggregate_view;

/*
 * Finds or makes process, thread and stack of a call of `from` in `to`, without counting a sample. 0,
 * -EINVAL (at is not of `from`) or -ENOMEM.
 */
int aggregate_rollover(struct aggregate *to, const struct aggregate_view *from,
		       const struct aggregate_call_at *at, struct aggregate_call_at *ret);
/*
 * Holds a sample in `to` that equals that sample of `from` (aggregate_hold()). Its index in `to`, -EINVAL
 * or -ENOMEM.
 */
int64_t aggregate_rollover_sample(struct aggregate *to, const struct aggregate *from,
				  int64_t sample);

#endif
