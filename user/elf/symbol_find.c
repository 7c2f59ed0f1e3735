// SPDX-License-Identifier: Apache-2.0
#include "elf/symbol_find.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "elf/image.h"
#include "elf/symtab.h"

#define MAX_DYNAMIC 1024 /* entries of the dynamic section */
#define MAX_CHAIN 4096 /* symbols of one hash bucket */
#define MAX_NAME 256 /* of a name asked for, with its NUL */
#define CHUNK_SYMBOLS 1024
#define CHUNK_BYTES 65536

/* What the loader uses to find a symbol: addresses as in the file. */
struct dynamic {
	uint64_t symtab;
	uint64_t strings;
	uint64_t strings_bytes;
	uint64_t hash;
	uint64_t gnu_hash;
};

static int read_rva(struct elf_image *img, uint64_t rva, void *dst, size_t len)
{
	uint64_t off;

	if (elf_image_rva_to_off(img, rva, &off))
		return -EBADMSG;
	return elf_image_read(img, off, dst, len);
}

static int dynamic_read(struct elf_image *img, struct dynamic *ret)
{
	const struct elf_segment *seg;
	struct dynamic dyn = { 0 };
	size_t nr_segments, k;
	Elf64_Dyn entry;
	uint64_t i;
	int err;

	seg = elf_image_segments(img, &nr_segments);
	for (k = 0; k < nr_segments && seg[k].type != PT_DYNAMIC; k++)
		;
	if (k == nr_segments)
		return -ENODATA;
	for (i = 0; i < seg[k].file_bytes / sizeof(entry) && i < MAX_DYNAMIC; i++) {
		err = elf_image_read(img, seg[k].off + i * sizeof(entry), &entry, sizeof(entry));
		if (err)
			return err;
		if (entry.d_tag == DT_NULL)
			break;
		if (entry.d_tag == DT_SYMTAB)
			dyn.symtab = entry.d_un.d_ptr;
		else if (entry.d_tag == DT_STRTAB)
			dyn.strings = entry.d_un.d_ptr;
		else if (entry.d_tag == DT_STRSZ)
			dyn.strings_bytes = entry.d_un.d_val;
		else if (entry.d_tag == DT_HASH)
			dyn.hash = entry.d_un.d_ptr;
		else if (entry.d_tag == DT_GNU_HASH)
			dyn.gnu_hash = entry.d_un.d_ptr;
	}
	if (!dyn.symtab || !dyn.strings || (!dyn.hash && !dyn.gnu_hash))
		return -ENODATA;
	*ret = dyn;
	return 0;
}

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
static int symbol_try(struct elf_image *img, const struct dynamic *dyn, uint32_t index,
		      const char *name, Elf64_Sym *ret)
{
	size_t len = strlen(name) + 1;
	char text[MAX_NAME];
	int err;

	err = read_rva(img, dyn->symtab + (uint64_t)index * sizeof(*ret), ret, sizeof(*ret));
	if (err)
		return err;
	if (!is_definition(ret) || len > sizeof(text) || ret->st_name >= dyn->strings_bytes ||
	    len > dyn->strings_bytes - ret->st_name)
		return 0;
	err = read_rva(img, dyn->strings + ret->st_name, text, len);
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
static int sysv_find(struct elf_image *img, const struct dynamic *dyn, const char *name,
		     Elf64_Sym *ret)
{
	uint32_t head[2], index, i;
	uint64_t buckets = dyn->hash + sizeof(head);
	int err;

	err = read_rva(img, dyn->hash, head, sizeof(head));
	if (err)
		return err;
	if (!head[0])
		return 0;
	err = read_rva(img, buckets + (uint64_t)(sysv_hash(name) % head[0]) * 4, &index, 4);
	for (i = 0; !err && index != STN_UNDEF; i++) {
		if (i == MAX_CHAIN || index >= head[1])
			return -EBADMSG;
		err = symbol_try(img, dyn, index, name, ret);
		if (err)
			return err;
		err = read_rva(img, buckets + ((uint64_t)head[0] + index) * 4, &index, 4);
	}
	return err;
}

/*
 * {nbucket, first, nbloom, shift, bloom[nbloom] of 64 bits, bucket[nbucket], hash of each symbol from
 * `first` on, its lowest bit set in the last of a bucket}. The bloom filter says no to
 * almost every name that is not there.
 */
static int gnu_find(struct elf_image *img, const struct dynamic *dyn, const char *name,
		    Elf64_Sym *ret)
{
	uint32_t head[4], hash = gnu_hash(name), index, other, i;
	uint64_t bloom = dyn->gnu_hash + sizeof(head), buckets, chain, word;
	int err;

	err = read_rva(img, dyn->gnu_hash, head, sizeof(head));
	if (err)
		return err;
	if (!head[0] || !head[2])
		return 0;
	err = read_rva(img, bloom + (uint64_t)(hash / 64 % head[2]) * 8, &word, sizeof(word));
	if (err)
		return err;
	if (!(word >> hash % 64 & word >> (hash >> head[3] % 32) % 64 & 1))
		return 0;
	buckets = bloom + (uint64_t)head[2] * 8;
	chain = buckets + (uint64_t)head[0] * 4;
	err = read_rva(img, buckets + (uint64_t)(hash % head[0]) * 4, &index, sizeof(index));
	if (err)
		return err;
	if (index < head[1])
		return 0;
	for (i = 0; i < MAX_CHAIN; i++, index++) {
		err = read_rva(img, chain + (uint64_t)(index - head[1]) * 4, &other, sizeof(other));
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
	struct dynamic dyn;
	Elf64_Sym sym;
	size_t i;
	int err;

	if (!got)
		return -ENOMEM;
	err = dynamic_read(img, &dyn);
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

struct place { /* where a name lies in the strings */
	uint32_t off;
	uint32_t pattern;
};

struct places {
	struct place *list;
	size_t nr;
};

static bool ends_well(enum symbol_match match, char after)
{
	if (match == SYMBOL_PREFIX)
		return true;
	/* Linkers append `@VERSION` in .symtab. */
	return !after || after == '@' || (match == SYMBOL_PARTS && after == '.');
}

/* Adds the places in text[0..len) that begin before `begin_max`. */
static int places_add(struct places *places, const char *text, size_t len, size_t begin_max,
		      uint64_t off, const struct symbol_pattern *pattern, uint32_t nr)
{
	size_t bytes = strlen(pattern->name);
	const char *at = text, *end = text + len;

	while ((at = memmem(at, (size_t)(end - at), pattern->name, bytes))) {
		if ((size_t)(at - text) >= begin_max || (size_t)(end - at) <= bytes)
			break;
		if (ends_well(pattern->match, at[bytes])) {
			if (places->nr == SYMBOL_FIND_MAX_NAMES)
				return -E2BIG;
			places->list[places->nr++] =
				(struct place){ (uint32_t)(off + (uint64_t)(at - text)), nr };
		}
		at++;
	}
	return 0;
}

static int place_compare(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	return x->off < y->off ? -1 : x->off > y->off;
}

/* A name may be the end of another one's string, so every place counts, not only after a NUL. */
static int places_read(struct elf_image *img, const struct symtab *tab,
		       const struct symbol_pattern *patterns, size_t nr, struct places *places)
{
	__cleanup(free_mem) char *text = malloc(CHUNK_BYTES + MAX_NAME);
	uint64_t off, left;
	size_t len, i;
	int err;

	if (!text)
		return -ENOMEM;
	for (off = 0; off < tab->strings_bytes && off <= UINT32_MAX; off += CHUNK_BYTES) {
		left = tab->strings_bytes - off;
		len = left < CHUNK_BYTES + MAX_NAME ? (size_t)left : CHUNK_BYTES + MAX_NAME;
		err = elf_image_read(img, tab->strings_off + off, text, len);
		for (i = 0; !err && i < nr; i++)
			err = places_add(places, text, len, CHUNK_BYTES, off, &patterns[i],
					 (uint32_t)i);
		if (err)
			return err;
	}
	qsort(places->list, places->nr, sizeof(*places->list), place_compare);
	return 0;
}

static int symbols_read(struct elf_image *img, const struct symtab *tab,
			const struct places *places, struct symbol_found *found, size_t cap,
			size_t *ret_nr)
{
	__cleanup(free_mem) Elf64_Sym *chunk = malloc(CHUNK_SYMBOLS * sizeof(*chunk));
	const struct place *place;
	size_t nr = 0, part, k;
	uint64_t i;
	int err;

	if (!chunk)
		return -ENOMEM;
	for (i = 0; i < tab->nr; i += part) {
		part = tab->nr - i < CHUNK_SYMBOLS ? tab->nr - i : CHUNK_SYMBOLS;
		err = elf_image_read(img, tab->off + i * sizeof(*chunk), chunk,
				     part * sizeof(*chunk));
		if (err)
			return err;
		for (k = 0; k < part && nr < cap; k++) {
			if (!is_definition(&chunk[k]))
				continue;
			place = bsearch(&(struct place){ .off = chunk[k].st_name }, places->list,
					places->nr, sizeof(*place), place_compare);
			if (place)
				found_fill(&found[nr++], &chunk[k], place->pattern);
		}
	}
	*ret_nr = nr;
	return 0;
}

int symbol_find_all(struct elf_image *img, uint32_t type, uint64_t max_bytes,
		    const struct symbol_pattern *patterns, size_t nr_patterns,
		    struct symbol_found *found, size_t cap, size_t *ret_nr)
{
	__cleanup(free_mem) struct place *list = NULL;
	struct places places = { 0 };
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
	places.list = list = calloc(SYMBOL_FIND_MAX_NAMES, sizeof(*list));
	if (!list)
		return -ENOMEM;
	err = places_read(img, &tab, patterns, nr_patterns, &places);
	if (err)
		return err;
	if (!places.nr) {
		*ret_nr = 0;
		return 0;
	}
	return symbols_read(img, &tab, &places, found, cap, ret_nr);
}
