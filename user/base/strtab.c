// SPDX-License-Identifier: Apache-2.0
#include "base/strtab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/vec.h"

#define CHUNK_BYTES 65536
#define OVERFLOW_ID 1

struct chunk {
	struct chunk *next;
	size_t used;
	size_t cap;
	char data[];
};

struct strtab {
	const char **strings;
	uint32_t *hashes; /* of strings[i] */
	uint32_t nr, cap;
	uint32_t *slots; /* open addressing: id + 1, 0 = free */
	uint32_t nr_slots; /* power of two */
	struct chunk *chunks;
	size_t bytes, max_bytes;
	uint64_t nr_lost;
};

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

static int grow_strings(struct strtab *tab)
{
	uint32_t cap = tab->cap;
	int err = vec_grow(tab->strings, tab->nr + 1ULL, cap, UINT32_MAX);

	return err ? err : vec_grow(tab->hashes, tab->nr + 1ULL, tab->cap, UINT32_MAX);
}

static int grow_slots(struct strtab *tab)
{
	uint32_t nr = tab->nr_slots ? tab->nr_slots * 2 : 512, i, slot;
	uint32_t *slots;

	if ((uint64_t)tab->nr * 4 < (uint64_t)tab->nr_slots * 3)
		return 0;
	slots = calloc(nr, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (i = 0; i < tab->nr; i++) {
		for (slot = tab->hashes[i] & (nr - 1); slots[slot]; slot = (slot + 1) & (nr - 1))
			;
		slots[slot] = i + 1;
	}
	free(tab->slots);
	tab->slots = slots;
	tab->nr_slots = nr;
	return 0;
}

static int insert(struct strtab *tab, uint32_t *slot, uint32_t hash, const char *str, size_t len)
{
	char *copy;

	if (grow_strings(tab))
		return -ENOMEM;
	copy = chunk_copy(tab, str, len);
	if (!copy)
		return -ENOMEM;
	tab->strings[tab->nr] = copy;
	tab->hashes[tab->nr] = hash;
	*slot = ++tab->nr;
	return 0;
}

uint32_t strtab_add_len(struct strtab *tab, const char *str, size_t len)
{
	uint32_t hash, slot, id;

	len = strnlen(str, len);
	hash = (uint32_t)XXH3_64bits(str, len);
	if (grow_slots(tab)) {
		tab->nr_lost++;
		return OVERFLOW_ID;
	}
	for (slot = hash & (tab->nr_slots - 1); tab->slots[slot];
	     slot = (slot + 1) & (tab->nr_slots - 1)) {
		id = tab->slots[slot] - 1;
		if (tab->hashes[id] == hash && !strncmp(tab->strings[id], str, len) &&
		    !tab->strings[id][len])
			return id;
	}
	if ((tab->nr > OVERFLOW_ID && tab->bytes + len + 1 > tab->max_bytes) ||
	    insert(tab, &tab->slots[slot], hash, str, len)) {
		tab->nr_lost++;
		return OVERFLOW_ID;
	}
	return tab->nr - 1;
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
	strtab_add(tab, "");
	strtab_add(tab, STRTAB_OVERFLOW);
	if (tab->nr != 2) {
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
	free(tab->strings);
	free(tab->hashes);
	free(tab->slots);
	free(tab);
}

const char *strtab_get(const struct strtab *tab, uint32_t id)
{
	return id < tab->nr ? tab->strings[id] : tab->strings[OVERFLOW_ID];
}

uint32_t strtab_count(const struct strtab *tab)
{
	return tab->nr;
}

uint64_t strtab_nr_lost(const struct strtab *tab)
{
	return tab->nr_lost;
}
