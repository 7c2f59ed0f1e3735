/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_SEEDED_HASH_H
#define BPFPROF_BASE_SEEDED_HASH_H

/*
 * uthash for tables whose keys targets choose (handles, addresses), in place of <uthash.h>. Before it the
 * includer says where the seed is (base/hash_seed.h), as an expression of where tables are used:
 *
 *	#define HASH_SEED tally->seed
 */

#define XXH_INLINE_ALL
#include <xxhash.h>

#define HASH_FUNCTION(key, bytes, hash)                                                            \
	((hash) = (unsigned int)XXH3_64bits_withSeed(key, bytes, HASH_SEED))
#include <uthash.h>

#endif
