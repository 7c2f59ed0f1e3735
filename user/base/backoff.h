/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_BACKOFF_H
#define BPFPROF_BASE_BACKOFF_H

/*
 * The times of retries after a failure: after one second, then after twice as long each time,
 * BACKOFF_TRIES times in all.
 */

#include <stdbool.h>
#include <stdint.h>

#define BACKOFF_TRIES 6
#define BACKOFF_FIRST_NS 1000000000ULL

/* A struct of zeros: no retry is due. */
struct backoff {
	uint64_t due_ns; /* of the next retry; 0: there is none */
	unsigned int nr_failed;
};

/* A try has failed. False: it was the last one. */
bool backoff_fail(struct backoff *backoff, uint64_t now_ns);
bool backoff_is_due(const struct backoff *backoff, uint64_t now_ns);

#endif
