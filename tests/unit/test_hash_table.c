// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "base/process_map.h"

struct entry {
	struct hash_node node;
	uint32_t other;
	uint32_t key; /* anywhere in an entry */
	uint64_t value;
};

struct process {
	struct hash_node node;
	struct process_key key;
	int value;
};

static void fill(struct hash_table *table, uint32_t nr)
{
	for (uint32_t key = 0; key < nr; key++) {
		struct entry *entry = hash_table_add(table, &key);

		cr_assert_not_null(entry);
		cr_assert_eq(entry->key, key);
		cr_assert_eq(entry->value, 0);
		entry->value = key * 3ULL;
	}
}

ParameterizedTestParameters(hash_table, sizes)
{
	static size_t sizes[] = { 0, 1, 2, 15, 16, 17, 32, 33, 1000, 20000 };

	return cr_make_param_array(size_t, sizes, sizeof(sizes) / sizeof(sizes[0]));
}

/*
 * All entries are found, in order, and none over the limit; half of them are removed, and come back
 * as the newest.
 */
ParameterizedTest(size_t *size, hash_table, sizes)
{
	uint32_t nr = (uint32_t)*size, key, next = 0;
	struct hash_table table;
	struct entry *entry;

	hash_table_init(&table, nr, struct entry, key);
	fill(&table, nr);
	cr_assert_eq(table.nr, nr);
	cr_assert_null(hash_table_add(&table, &nr));
	cr_assert_null(hash_table_get(&table, &nr));
	hash_table_each(&table, entry)
		cr_assert_eq(entry->key, next++);
	cr_assert_eq(next, nr);
	cr_assert_null(entry);
	hash_table_each(&table, entry)
		if (entry->key % 2)
			hash_table_remove(&table, entry);
	cr_assert_eq(table.nr, (nr + 1) / 2);
	for (key = 0; key < nr; key++) {
		entry = hash_table_find(&table, &key);
		cr_assert_eq(!entry, key % 2);
		cr_assert(!entry || entry->value == key * 3ULL);
	}
	for (key = 1; key < nr; key += 2)
		cr_assert_eq(hash_table_get(&table, &key), (void *)table.newest);
	cr_assert_eq(table.nr, nr);
	hash_table_clear(&table);
	cr_assert_eq(table.nr, 0);
	cr_assert_null(table.slots);
	fill(&table, nr);
	hash_table_clear(&table);
}

Test(hash_table, all_zero_is_empty)
{
	struct hash_table table = { 0 };
	struct entry *entry;
	uint32_t key = 0;

	cr_assert_null(hash_table_find(&table, &key));
	hash_table_each(&table, entry)
		cr_assert_fail();
	hash_table_clear(&table);
}

Test(hash_table, touched_is_newest)
{
	static const uint32_t order[] = { 0, 3, 1, 2 }, touched[] = { 3, 1, 2, 2 };
	struct hash_table table;
	struct entry *entry;
	size_t i;

	hash_table_init(&table, 4, struct entry, key);
	fill(&table, 4);
	for (i = 0; i < 4; i++)
		hash_table_touch(&table, hash_table_find(&table, &touched[i]));
	i = 0;
	hash_table_each(&table, entry)
		cr_assert_eq(entry->key, order[i++]);
	cr_assert_eq(i, 4);
	hash_table_clear(&table);
}

/* Keys that others still have may be taken, as long as these are given others before the next search. */
Test(hash_table, keys_change_in_place)
{
	struct hash_table table;
	struct entry *entry;
	uint32_t key, next = 1;

	hash_table_init(&table, 100, struct entry, key);
	fill(&table, 100);
	hash_table_each(&table, entry) {
		key = entry->key + 1;
		hash_table_rekey(&table, entry, &key);
	}
	hash_table_each(&table, entry)
		cr_assert_eq(entry->key, next++);
	key = 0;
	cr_assert_null(hash_table_find(&table, &key));
	for (key = 1; key <= 100; key++) {
		entry = hash_table_find(&table, &key);
		cr_assert_eq(entry->value, (key - 1) * 3ULL);
	}
	hash_table_clear(&table);
}

#ifndef SANITIZED /* the sanitizer takes such a size for a mistake */
Test(hash_table, more_than_memory_is_no_entry)
{
	struct hash_table table;
	uint32_t key = 1;

	hash_table_init_raw(&table, 10, SIZE_MAX / 2, offsetof(struct entry, key), sizeof(key));
	cr_assert_null(hash_table_add(&table, &key));
	cr_assert_eq(table.nr, 0);
	cr_assert_null(hash_table_find(&table, &key));
	cr_assert_null(table.slots);
}
#endif

Test(process_map, same_pid_another_start)
{
	struct hash_table map;
	struct process *first, *second;

	hash_table_init(&map, 2, struct process, key);
	first = process_map_get(&map, 7, 100);
	cr_assert_not_null(first);
	first->value = 1;
	cr_assert_null(process_map_find(&map, 7, 200));
	cr_assert_null(process_map_find(&map, 8, 100));
	second = process_map_add(&map, 7, 200);
	cr_assert_not_null(second);
	cr_assert_eq(second->key.pid, 7);
	cr_assert_eq(second->key.start_ns, 200);
	cr_assert_eq(process_map_get(&map, 7, 100), first);
	cr_assert_null(process_map_get(&map, 8, 100));
	hash_table_remove(&map, first);
	cr_assert_null(process_map_find(&map, 7, 100));
	cr_assert_eq(process_map_find(&map, 7, 200), second);
	hash_table_clear(&map);
}
