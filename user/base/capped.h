/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_CAPPED_H
#define BPFPROF_BASE_CAPPED_H

/* Sums of untrusted numbers: they stay at the largest value instead of wrapping. */

#include <stdint.h>

static inline uint64_t capped_add(uint64_t a, uint64_t b)
{
	return a + b < a ? UINT64_MAX : a + b;
}

#endif
