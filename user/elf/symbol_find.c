// SPDX-License-Identifier: Apache-2.0
#include "elf/symbol_find.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/background.h"
#include "base/cleanup.h"
#include "base/sorted.h"
#include "elf/dynamic.h"
#include "elf/image.h"
#include "elf/symtab.h"

#define MAX_CHAIN 4096 /* symbols of one hash bucket */
#define MAX_NAME 256 /* of a wanted name, with its NUL */
#define ALIKE_BYTES 4 /* patterns with the same first bytes are searched for together */
#define CHUNK_SYMBOLS 1024
#define CHUNK_BYTES 65536

static bool is_definition(const Elf64_Sym *sym)
{
	return sym->st_shndx != SHN_UNDEF && sym->st_shndx != SHN_ABS &&
	       sym->st_shndx != SHN_COMMON;
}

static void found_fill(struct symbol_found *found, const Elf64_Sym *sym, uint32_t pattern)
{
	*found = (struct symbol_found){ .value = sym->st_value,
					.bytes = sym->st_size,
					.type = ELF64_ST_TYPE(sym->st_info),
					.pattern = pattern };
}

/* 1 and *ret if symbol number `index` is a definition of name, 0 if not. */
static int symbol_try(struct elf_image *img, const struct elf_dynamic *dyn, uint32_t index,
		      const char *name, Elf64_Sym *ret)
{
	size_t len = strlen(name) + 1;
	char text[MAX_NAME];
	int err;

	err = elf_image_read_rva(img, dyn->tags[DT_SYMTAB] + (uint64_t)index * sizeof(*ret), ret,
				 sizeof(*ret));
	if (err)
		return err;
	if (!is_definition(ret) || len > sizeof(text) || ret->st_name >= dyn->tags[DT_STRSZ] ||
	    len > dyn->tags[DT_STRSZ] - ret->st_name)
		return 0;
	err = elf_image_read_rva(img, dyn->tags[DT_STRTAB] + ret->st_name, text, len);
	return err ? err : !memcmp(text, name, len);
}

static uint32_t sysv_hash(const char *name)
{
	uint32_t hash = 0, top;

	for (; *name; name++) {
		hash = (hash << 4) + (unsigned char)*name;
		top = hash & 0xf0000000;
		hash = (hash ^ (top >> 24)) & ~top;
	}
	return hash;
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

/* {nbucket, nchain, bucket[nbucket], chain[nchain]}: 1 found, 0 not there, or an error. */
static int sysv_find(struct elf_image *img, const struct elf_dynamic *dyn, const char *name,
		     Elf64_Sym *ret)
{
	uint32_t head[2], index, i;
	uint64_t buckets = dyn->tags[DT_HASH] + sizeof(head);
	int err;

	err = elf_image_read_rva(img, dyn->tags[DT_HASH], head, sizeof(head));
	if (err)
		return err;
	if (!head[0])
		return 0;
	err = elf_image_read_rva(img, buckets + (uint64_t)(sysv_hash(name) % head[0]) * 4, &index,
				 4);
	for (i = 0; !err && index != STN_UNDEF; i++) {
		if (i == MAX_CHAIN || index >= head[1])
			return -EBADMSG;
		err = symbol_try(img, dyn, index, name, ret);
		if (err)
			return err;
		err = elf_image_read_rva(img, buckets + ((uint64_t)head[0] + index) * 4, &index, 4);
	}
	return err;
}

/*
 * {nbucket, first, nbloom, shift, bloom[nbloom] of 64 bits, bucket[nbucket], hash of each symbol from
 * `first` on, its lowest bit set in the last of a bucket}. The bloom filter excludes almost every name
 * that is not there.
 */
static int gnu_find(struct elf_image *img, const struct elf_dynamic *dyn, const char *name,
		    Elf64_Sym *ret)
{
	uint32_t head[4], hash = gnu_hash(name), index, other, i;
	uint64_t bloom = dyn->gnu_hash + sizeof(head), buckets, chain, word;
	int err;

	err = elf_image_read_rva(img, dyn->gnu_hash, head, sizeof(head));
	if (err)
		return err;
	if (!head[0] || !head[2])
		return 0;
	err = elf_image_read_rva(img, bloom + (uint64_t)(hash / 64 % head[2]) * 8, &word,
				 sizeof(word));
	if (err)
		return err;
	if (!(word >> hash % 64 & word >> (hash >> head[3] % 32) % 64 & 1))
		return 0;
	buckets = bloom + (uint64_t)head[2] * 8;
	chain = buckets + (uint64_t)head[0] * 4;
	err = elf_image_read_rva(img, buckets + (uint64_t)(hash % head[0]) * 4, &index,
				 sizeof(index));
	if (err)
		return err;
	if (index < head[1])
		return 0;
	for (i = 0; i < MAX_CHAIN; i++, index++) {
		err = elf_image_read_rva(img, chain + (uint64_t)(index - head[1]) * 4, &other,
					 sizeof(other));
		if (err)
			return err;
		if ((other | 1) == (hash | 1)) {
			err = symbol_try(img, dyn, index, name, ret);
			if (err)
				return err;
		}
		if (other & 1)
			return 0;
	}
	return -EBADMSG;
}

int symbol_find_dynamic(struct elf_image *img, const char *const *names, size_t nr,
			struct symbol_found *found)
{
	__cleanup(free_mem) struct symbol_found *got = calloc(nr ? nr : 1, sizeof(*got));
	struct elf_dynamic dyn;
	Elf64_Sym sym;
	size_t i;
	int err;

	if (!got)
		return -ENOMEM;
	err = elf_dynamic_read(&dyn, img);
	if (!err &&
	    (!dyn.tags[DT_SYMTAB] || !dyn.tags[DT_STRTAB] || (!dyn.tags[DT_HASH] && !dyn.gnu_hash)))
		err = -ENODATA;
	for (i = 0; !err && i < nr; i++) {
		err = dyn.gnu_hash ? gnu_find(img, &dyn, names[i], &sym)
				   : sysv_find(img, &dyn, names[i], &sym);
		got[i].pattern = UINT32_MAX;
		if (err > 0) {
			found_fill(&got[i], &sym, (uint32_t)i);
			err = 0;
		}
	}
	if (!err && nr)
		memcpy(found, got, nr * sizeof(*got));
	return err;
}

struct place { /* of a name in the strings */
	uint32_t off;
	uint32_t pattern;
};

struct symbol_search {
	struct symtab tab;
	const struct symbol_pattern *patterns;
	size_t nr_patterns;
	char *text; /* a chunk of the strings */
	Elf64_Sym *symbols; /* a chunk of them */
	uint64_t strings_at; /* the strings before this place have been searched */
	struct place *places;
	size_t nr_places;
	uint32_t nr_scanned; /* places compared so far, see SYMBOL_FIND_MAX_LOOKS */
	uint64_t symbols_at; /* number of the next one */
	struct symbol_found *found;
	size_t nr_found, cap;
};

/* A symbol has 32 bits for the place of its name. */
static bool is_in_strings(const struct symbol_search *search)
{
	return search->strings_at < search->tab.strings_bytes && search->strings_at <= UINT32_MAX;
}

static bool ends_well(enum symbol_match match, char after)
{
	if (match == SYMBOL_PREFIX)
		return true;
	/* Linkers append `@VERSION` in .symtab. */
	return !after || after == '@' || (match == SYMBOL_PARTS && after == '.');
}

/* Adds the place off, which has at[0..left), for each pattern that matches there. */
static int place_add(struct symbol_search *search, const char *at, size_t left, uint32_t off,
		     size_t first, size_t nr)
{
	const struct symbol_pattern *pattern;
	size_t bytes, i;

	for (i = first; i < first + nr; i++) {
		pattern = &search->patterns[i];
		bytes = strlen(pattern->name);
		if (left <= bytes || memcmp(at, pattern->name, bytes) != 0 ||
		    !ends_well(pattern->match, at[bytes]))
			continue;
		if (search->nr_places == SYMBOL_FIND_MAX_NAMES)
			return -E2BIG;
		search->places[search->nr_places++] = (struct place){ off, (uint32_t)i };
	}
	return 0;
}

/* The number of patterns at the front that begin with the same bytes, and the number of these bytes. */
static size_t alike(const struct symbol_pattern *patterns, size_t nr, size_t *ret_bytes)
{
	size_t i;

	for (i = 1; i < nr; i++)
		if (strncmp(patterns[i].name, patterns[0].name, ALIKE_BYTES) != 0)
			break;
	*ret_bytes = strnlen(patterns[0].name, i > 1 ? ALIKE_BYTES : MAX_NAME);
	return i;
}

/*
 * Adds the places in the chunk of len bytes. A name may be the end of another string, so every place
 * counts, not only those after a NUL.
 */
static int places_add(struct symbol_search *search, size_t len)
{
	const char *at, *end = search->text + len;
	size_t first, nr, bytes;
	int err;

	for (first = 0; first < search->nr_patterns; first += nr) {
		nr = alike(search->patterns + first, search->nr_patterns - first, &bytes);
		for (at = search->text;
		     (at = memmem(at, (size_t)(end - at), search->patterns[first].name, bytes));
		     at++) {
			if (at - search->text >= CHUNK_BYTES)
				break;
			if (search->nr_scanned++ == SYMBOL_FIND_MAX_LOOKS)
				return -E2BIG;
			err = place_add(
				search, at, (size_t)(end - at),
				(uint32_t)(search->strings_at + (uint64_t)(at - search->text)),
				first, nr);
			if (err)
				return err;
		}
	}
	return 0;
}

static int place_compare(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return sorted_order(x->off, y->off);
}

static int strings_step(struct symbol_search *search, struct elf_image *img)
{
	uint64_t left = search->tab.strings_bytes - search->strings_at;
	size_t len = left < CHUNK_BYTES + MAX_NAME ? (size_t)left : CHUNK_BYTES + MAX_NAME;
	int err;

	err = elf_image_read(img, search->tab.strings_off + search->strings_at, search->text, len);
	if (!err)
		err = places_add(search, len);
	if (err)
		return err;
	search->strings_at += left < CHUNK_BYTES ? left : CHUNK_BYTES;
	if (!is_in_strings(search))
		qsort(search->places, search->nr_places, sizeof(*search->places), place_compare);
	return -EAGAIN;
}

static int symbols_step(struct symbol_search *search, struct elf_image *img)
{
	uint64_t left = search->tab.nr - search->symbols_at;
	size_t part = left < CHUNK_SYMBOLS ? (size_t)left : CHUNK_SYMBOLS, i;
	const Elf64_Sym *sym = search->symbols;
	const struct place *place;
	int err;

	if (!left || !search->nr_places || search->nr_found == search->cap)
		return 0;
	err = elf_image_read(img, search->tab.off + search->symbols_at * sizeof(*sym),
			     search->symbols, part * sizeof(*sym));
	if (err)
		return err;
	for (i = 0; i < part && search->nr_found < search->cap; i++, sym++) {
		if (!is_definition(sym))
			continue;
		place = bsearch(&(struct place){ .off = sym->st_name }, search->places,
				search->nr_places, sizeof(*place), place_compare);
		if (place)
			found_fill(&search->found[search->nr_found++], sym, place->pattern);
	}
	search->symbols_at += part;
	return -EAGAIN;
}

static int search_allocate(struct symbol_search *search)
{
	search->text = malloc(CHUNK_BYTES + MAX_NAME);
	search->symbols = malloc(CHUNK_SYMBOLS * sizeof(*search->symbols));
	search->places = calloc(SYMBOL_FIND_MAX_NAMES, sizeof(*search->places));
	return search->text && search->symbols && search->places ? 0 : -ENOMEM;
}

int symbol_search_new(struct symbol_search **ret, struct elf_image *img, uint32_t type,
		      uint64_t max_bytes, const struct symbol_pattern *patterns, size_t nr_patterns,
		      struct symbol_found *found, size_t cap)
{
	struct symbol_search *search;
	struct symtab tab;
	size_t i;
	int err;

	for (i = 0; i < nr_patterns; i++)
		if (!patterns[i].name[0] || strlen(patterns[i].name) >= MAX_NAME)
			return -E2BIG;
	err = symtab_open(&tab, img, type);
	if (err)
		return err;
	if (tab.strings_bytes > max_bytes ||
	    tab.nr > (max_bytes - tab.strings_bytes) / sizeof(Elf64_Sym))
		return -E2BIG;
	search = calloc(1, sizeof(*search));
	if (!search)
		return -ENOMEM;
	*search = (struct symbol_search){ .tab = tab,
					  .patterns = patterns,
					  .nr_patterns = nr_patterns,
					  .found = found,
					  .cap = cap };
	err = search_allocate(search);
	if (err)
		symbol_search_free(search);
	else
		*ret = search;
	return err;
}

int symbol_search_step(struct symbol_search *search, struct elf_image *img, size_t *ret_nr)
{
	int err = is_in_strings(search) ? strings_step(search, img) : symbols_step(search, img);

	if (!err)
		*ret_nr = search->nr_found;
	return err;
}

void symbol_search_free(struct symbol_search *search)
{
	if (!search)
		return;
	free(search->text);
	free(search->symbols);
	free(search->places);
	free(search);
}

int symbol_find_all(struct elf_image *img, uint32_t type, uint64_t max_bytes,
		    const struct symbol_pattern *patterns, size_t nr_patterns,
		    struct symbol_found *found, size_t cap, size_t *ret_nr)
{
	struct symbol_search *search;
	int err;

	err = symbol_search_new(&search, img, type, max_bytes, patterns, nr_patterns, found, cap);
	if (err)
		return err;
	while ((err = symbol_search_step(search, img, ret_nr)) == -EAGAIN)
		background_give_way();
	symbol_search_free(search);
	return err;
}
