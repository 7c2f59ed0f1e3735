/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_MAP_H
#define BPFPROF_BASE_MAP_H

/*
 * Numbers by 64-bit keys, for tables on a hot path: open addressing, grows up to max keys. Keys are
 * hashed with a seed, since targets choose some of them. The caller owns the struct. Single keys
 * cannot be removed.
 */

#include <stdbool.h>
#include <stdint.h>

struct map {
	uint64_t *keys;
	uint32_t *values; /* value + 1, 0 = free */
	uint32_t nr, cap, max;
	uint64_t seed;
};

void map_init(struct map *map, uint32_t max); /* max keys, below 1 << 30 */
void map_fini(struct map *map);
void map_clear(struct map *map); /* keeps the memory */

bool map_find(const struct map *map, uint64_t key, uint32_t *ret);
/* Sets the value (below UINT32_MAX) of key. 0, -ENOSPC (there are max keys) or -ENOMEM. */
int map_set(struct map *map, uint64_t key, uint32_t value);

#endif
