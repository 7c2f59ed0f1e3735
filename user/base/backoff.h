/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_BACKOFF_H
#define BPFPROF_BASE_BACKOFF_H

/*
 * When to try again what could not be done just now: after one second, then after twice as long
 * each time, BACKOFF_TRIES times in all.
 */

#include <stdbool.h>
#include <stdint.h>

#define BACKOFF_TRIES 6
#define BACKOFF_FIRST_NS 1000000000ULL

/* All zero: nothing is to be tried again. */
struct backoff {
	uint64_t due_ns; /* 0: not again */
	unsigned int nr_failed;
};

/* It could not be done. False: and it is not to be tried again. */
bool backoff_fail(struct backoff *backoff, uint64_t now_ns);
bool backoff_is_due(const struct backoff *backoff, uint64_t now_ns);

#endif
