// SPDX-License-Identifier: Apache-2.0
#include "base/hash_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/hash_seed.h"

#define FIRST_SLOTS 16

void hash_table_init_raw(struct hash_table *table, size_t max, size_t bytes, size_t key_off,
			 size_t key_bytes)
{
	*table = (struct hash_table){ .max = max,
				      .bytes = bytes,
				      .key_off = key_off,
				      .key_bytes = key_bytes,
				      .seed = hash_seed() };
}

static uint64_t hash_of(const struct hash_table *table, const void *key)
{
	return XXH3_64bits_withSeed(key, table->key_bytes, table->seed);
}

static void *key_of(const struct hash_table *table, struct hash_node *node)
{
	return (char *)node + table->key_off;
}

static void chain_add(struct hash_table *table, struct hash_node *node)
{
	struct hash_node **slot = &table->slots[node->hash & (table->nr_slots - 1)];

	node->chain = *slot;
	*slot = node;
}

static void chain_remove(struct hash_table *table, const struct hash_node *node)
{
	struct hash_node **at = &table->slots[node->hash & (table->nr_slots - 1)];

	while (*at != node)
		at = &(*at)->chain;
	*at = node->chain;
}

static void list_add(struct hash_table *table, struct hash_node *node)
{
	node->older = table->newest;
	node->newer = NULL;
	if (node->older)
		node->older->newer = node;
	else
		table->oldest = node;
	table->newest = node;
}

static void list_remove(struct hash_table *table, const struct hash_node *node)
{
	if (node->older)
		node->older->newer = node->newer;
	else
		table->oldest = node->newer;
	if (node->newer)
		node->newer->older = node->older;
	else
		table->newest = node->older;
}

/* Makes as many slots as entries. Without memory for more, chains get longer. */
static void slots_grow(struct hash_table *table)
{
	size_t nr = table->nr_slots ? table->nr_slots * 2 : FIRST_SLOTS;
	struct hash_node **slots, *node;

	if (table->nr < table->nr_slots)
		return;
	slots = calloc(nr, sizeof(struct hash_node *));
	if (!slots)
		return;
	free(table->slots);
	table->slots = slots;
	table->nr_slots = nr;
	hash_table_each(table, node)
		chain_add(table, node);
}

void *hash_table_find(const struct hash_table *table, const void *key)
{
	struct hash_node *node;
	uint64_t hash;

	if (!table->nr)
		return NULL;
	hash = hash_of(table, key);
	for (node = table->slots[hash & (table->nr_slots - 1)]; node; node = node->chain)
		if (node->hash == hash && !memcmp(key_of(table, node), key, table->key_bytes))
			break;
	return node;
}

void *hash_table_add(struct hash_table *table, const void *key)
{
	struct hash_node *node = table->nr < table->max ? calloc(1, table->bytes) : NULL;

	assert(table->bytes); /* the table is initialised */
	if (!node)
		return NULL;
	slots_grow(table);
	if (!table->slots) {
		free(node);
		return NULL;
	}
	memcpy(key_of(table, node), key, table->key_bytes);
	node->hash = hash_of(table, key);
	chain_add(table, node);
	list_add(table, node);
	table->nr++;
	return node;
}

void *hash_table_get(struct hash_table *table, const void *key)
{
	void *entry = hash_table_find(table, key);

	return entry ? entry : hash_table_add(table, key);
}

void hash_table_remove(struct hash_table *table, void *entry)
{
	struct hash_node *node = entry;

	chain_remove(table, node);
	list_remove(table, node);
	free(node);
	if (--table->nr)
		return;
	free(table->slots);
	table->slots = NULL;
	table->nr_slots = 0;
}

void hash_table_touch(struct hash_table *table, void *entry)
{
	list_remove(table, entry);
	list_add(table, entry);
}

void hash_table_rekey(struct hash_table *table, void *entry, const void *key)
{
	struct hash_node *node = entry;

	chain_remove(table, node);
	memcpy(key_of(table, node), key, table->key_bytes);
	node->hash = hash_of(table, key);
	chain_add(table, node);
}

void hash_table_clear(struct hash_table *table)
{
	struct hash_node *node;

	hash_table_each(table, node)
		hash_table_remove(table, node);
}

void *hash_table_next(const void *entry)
{
	return ((const struct hash_node *)entry)->newer;
}
