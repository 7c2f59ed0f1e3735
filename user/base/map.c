// SPDX-License-Identifier: Apache-2.0
#include "base/map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/hash_seed.h"

#define FIRST_SLOTS 256

void map_init(struct map *map, uint32_t max)
{
	*map = (struct map){ .max = max, .seed = hash_seed() };
}

void map_fini(struct map *map)
{
	free(map->keys);
	free(map->values);
	*map = (struct map){ .max = map->max, .seed = map->seed };
}

void map_clear(struct map *map)
{
	if (map->cap)
		memset(map->values, 0, map->cap * sizeof(*map->values));
	map->nr = 0;
}

/* The slot of key, or a free one for it. */
static uint32_t slot_of(const struct map *map, uint64_t key)
{
	uint32_t mask = map->cap - 1;
	uint32_t slot = (uint32_t)XXH3_64bits_withSeed(&key, sizeof(key), map->seed) & mask;

	while (map->values[slot] && map->keys[slot] != key)
		slot = (slot + 1) & mask;
	return slot;
}

static int grow(struct map *map)
{
	struct map larger = *map;
	uint32_t i, slot;

	larger.cap = map->cap ? map->cap * 2 : FIRST_SLOTS;
	larger.keys = malloc(larger.cap * sizeof(*larger.keys));
	larger.values = calloc(larger.cap, sizeof(*larger.values));
	if (!larger.keys || !larger.values) {
		free(larger.keys);
		free(larger.values);
		return -ENOMEM;
	}
	for (i = 0; i < map->cap; i++) {
		if (!map->values[i])
			continue;
		slot = slot_of(&larger, map->keys[i]);
		larger.keys[slot] = map->keys[i];
		larger.values[slot] = map->values[i];
	}
	free(map->keys);
	free(map->values);
	*map = larger;
	return 0;
}

bool map_find(const struct map *map, uint64_t key, uint32_t *ret)
{
	uint32_t slot;

	if (!map->nr)
		return false;
	slot = slot_of(map, key);
	if (!map->values[slot])
		return false;
	*ret = map->values[slot] - 1;
	return true;
}

int map_set(struct map *map, uint64_t key, uint32_t value)
{
	uint32_t slot, old;
	int err;

	if (map_find(map, key, &old)) {
		map->values[slot_of(map, key)] = value + 1;
		return 0;
	}
	if (map->nr >= map->max)
		return -ENOSPC;
	if (map->nr * 4ULL >= map->cap * 3ULL) {
		err = grow(map);
		if (err)
			return err;
	}
	slot = slot_of(map, key);
	map->keys[slot] = key;
	map->values[slot] = value + 1;
	map->nr++;
	return 0;
}
