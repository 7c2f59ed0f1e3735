// SPDX-License-Identifier: Apache-2.0
#include "base/strtab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/hash_seed.h"
#include "base/index.h"
#include "base/name_cut.h"

#define CHUNK_BYTES 65536
#define OVERFLOW_ID 1

struct chunk {
	struct chunk *next;
	size_t used;
	size_t cap;
	char data[];
};

struct strtab {
	struct vec strings, hashes;
	struct index index;
	struct chunk *chunks;
	size_t bytes, max_bytes;
	size_t cut_bytes, cut_len; /* see strtab_cut_after() */
	uint64_t nr_cut, nr_lost;
	uint64_t seed; /* random, as targets choose many of the strings */
};

static const char *string_at(const struct strtab *tab, uint32_t id)
{
	return ((const char **)tab->strings.data)[id];
}

static char *chunk_copy(struct strtab *tab, const char *str, size_t len)
{
	struct chunk *c = tab->chunks;
	size_t cap;
	char *copy;

	if (!c || c->cap - c->used < len + 1) {
		cap = len + 1 > CHUNK_BYTES ? len + 1 : CHUNK_BYTES;
		c = malloc(sizeof(*c) + cap);
		if (!c)
			return NULL;
		c->used = 0;
		c->cap = cap;
		c->next = tab->chunks;
		tab->chunks = c;
	}
	copy = c->data + c->used;
	if (len)
		memcpy(copy, str, len);
	copy[len] = 0;
	c->used += len + 1;
	tab->bytes += len + 1;
	return copy;
}

uint32_t strtab_add_len(struct strtab *tab, const char *str, size_t len)
{
	struct table_budget budget = { .max_bytes = SIZE_MAX };
	uint32_t slot, id;
	char *copy = NULL;
	uint64_t hash;

	len = strnlen(str, len);
	hash = XXH3_64bits_withSeed(str, len, tab->seed);
	if (index_start(&tab->index, hash, &slot))
		while (index_next(&tab->index, &tab->hashes, hash, &slot, &id))
			if (!strncmp(string_at(tab, id), str, len) && !string_at(tab, id)[len])
				return id;
	if (len > tab->cut_len && tab->bytes >= tab->cut_bytes) {
		char shorter[NAME_CUT_MAX];

		tab->nr_cut++;
		len = name_cut_short(str, len, tab->cut_len, shorter);
		return strtab_add_len(tab, shorter, len);
	}
	if (tab->strings.nr <= OVERFLOW_ID || tab->bytes + len + 1 <= tab->max_bytes)
		copy = index_reserve(&budget, &tab->strings, sizeof(char *), &tab->hashes,
				     &tab->index, hash, &slot)
			       ? NULL
			       : chunk_copy(tab, str, len);
	if (!copy) {
		tab->nr_lost++;
		return OVERFLOW_ID;
	}
	((const char **)tab->strings.data)[tab->strings.nr++] = copy;
	index_put(&tab->index, &tab->hashes, hash, slot);
	return (uint32_t)tab->strings.nr - 1;
}

uint32_t strtab_add(struct strtab *tab, const char *str)
{
	return strtab_add_len(tab, str, strlen(str));
}

int strtab_new(struct strtab **ret, size_t max_bytes)
{
	struct strtab *tab = calloc(1, sizeof(*tab));

	if (!tab)
		return -ENOMEM;
	tab->max_bytes = max_bytes;
	tab->cut_bytes = tab->cut_len = SIZE_MAX;
	tab->seed = hash_seed();
	strtab_add(tab, "");
	strtab_add(tab, STRTAB_OVERFLOW);
	if (tab->strings.nr != 2) {
		strtab_free(tab);
		return -ENOMEM;
	}
	*ret = tab;
	return 0;
}

void strtab_free(struct strtab *tab)
{
	struct chunk *c, *next;

	if (!tab)
		return;
	for (c = tab->chunks; c; c = next) {
		next = c->next;
		free(c);
	}
	free(tab->strings.data);
	free(tab->hashes.data);
	free(tab->index.slots);
	free(tab);
}

const char *strtab_get(const struct strtab *tab, uint32_t id)
{
	return string_at(tab, id < tab->strings.nr ? id : OVERFLOW_ID);
}

void strtab_cut_after(struct strtab *tab, size_t bytes, size_t len)
{
	tab->cut_bytes = bytes > SIZE_MAX - tab->bytes ? SIZE_MAX : tab->bytes + bytes;
	tab->cut_len = len;
}

size_t strtab_bytes(const struct strtab *tab)
{
	return tab->bytes;
}

uint32_t strtab_count(const struct strtab *tab)
{
	return (uint32_t)tab->strings.nr;
}

uint64_t strtab_nr_cut(const struct strtab *tab)
{
	return tab->nr_cut;
}

uint64_t strtab_nr_lost(const struct strtab *tab)
{
	return tab->nr_lost;
}
