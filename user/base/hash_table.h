/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_HASH_TABLE_H
#define BPFPROF_BASE_HASH_TABLE_H

/*
 * Entries with keys of a fixed size, in the order in which they were added. An entry is a struct of the
 * caller that begins with `struct hash_node node`. Its key is one of its members, without padding of
 * unknown content. The table allocates and frees the entries and never has more than max of them. It
 * hashes with a seed, since targets choose some of the keys.
 */

#include <stddef.h>
#include <stdint.h>

/* Another limit bounds the table: that of memory or of its owner. */
#define HASH_TABLE_BOUNDED SIZE_MAX

struct hash_node {
	struct hash_node *older, *newer;
	struct hash_node *chain; /* the next entry with the same slot */
	uint64_t hash;
};

struct hash_table {
	struct hash_node *oldest, *newest;
	struct hash_node **slots;
	size_t nr_slots; /* 0 or a power of two */
	size_t nr, max;
	size_t bytes; /* of an entry */
	size_t key_off, key_bytes; /* the place of the key in an entry */
	uint64_t seed;
};

/* An empty table of at most limit entries of a type whose member `member` is the key. */
#define hash_table_init(table, limit, type, member)                                                \
	hash_table_init_raw(table, limit, sizeof(type), offsetof(type, member),                    \
			    sizeof(((type *)NULL)->member))
void hash_table_init_raw(struct hash_table *table, size_t max, size_t bytes, size_t key_off,
			 size_t key_bytes);
/* Frees all entries. A table without entries has no memory; one that is all zero has no entries. */
void hash_table_clear(struct hash_table *table);

/* The entry with that key, or NULL. It lives until it is removed. */
void *hash_table_find(const struct hash_table *table, const void *key);
/* A new entry, all zero but its key, which no entry has. NULL: the table is full, or no memory. */
void *hash_table_add(struct hash_table *table, const void *key);
/* The entry with that key, added if there is none; NULL as above. */
void *hash_table_get(struct hash_table *table, const void *key);
/* Frees the entry. */
void hash_table_remove(struct hash_table *table, void *entry);
/* The entry becomes the newest. */
void hash_table_touch(struct hash_table *table, void *entry);
/*
 * The entry gets another key and keeps its place in the order. No entry may have that key when
 * hash_table_find() is called next.
 */
void hash_table_rekey(struct hash_table *table, void *entry, const void *key);

/* The entry that was added next, or NULL. */
void *hash_table_next(const void *entry);
/* All entries, the oldest first; the present one may be removed. entry is NULL after the last one. */
#define hash_table_each(table, entry)                                                              \
	for (void *each_next = (table)->oldest;                                                    \
	     ((entry) = each_next) && (each_next = hash_table_next(entry), 1);)

#endif
