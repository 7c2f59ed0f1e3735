/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_HASH_SEED_H
#define BPFPROF_BASE_HASH_SEED_H

#include <stdint.h>
#include <sys/random.h>

/*
 * For hashes of what targets choose, who could slow us down if they knew it. 0 without randomness, early
 * at boot: that is not worth waiting for.
 */
static inline uint64_t hash_seed(void)
{
	uint64_t seed;

	return getrandom(&seed, sizeof(seed), GRND_NONBLOCK) == sizeof(seed) ? seed : 0;
}

#endif
