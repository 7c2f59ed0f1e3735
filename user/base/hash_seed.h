/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_HASH_SEED_H
#define BPFPROF_BASE_HASH_SEED_H

#include <stdint.h>
#include <sys/random.h>

/*
 * For hashes of keys that targets choose: a target that knew the seed could slow us down. 0 early at
 * boot, when there is no randomness yet.
 */
static inline uint64_t hash_seed(void)
{
	uint64_t seed;

	return getrandom(&seed, sizeof(seed), GRND_NONBLOCK) == sizeof(seed) ? seed : 0;
}

#endif
