// SPDX-License-Identifier: Apache-2.0
#include "elf/symtab.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/name_cut.h"
#include "base/sorted.h"
#include "base/strtab.h"
#include "elf/image.h"
#include "elf/symbols.h"

/*
 * A symbol with a size covers an address or does not. A symbol without a size (crt code, hand-written
 * assembly) covers the addresses up to the next symbol of its section, but only if
 * - the function of the address begins at that symbol, by the unwind table; or
 * - that function does not begin behind the symbol, the table names everything that may follow (it has
 *   local symbols, or no sizes at all as the assembler's), and the symbol is not a label inside of a
 *   function with a size (else the code after that function would get the label's name).
 * The type of a symbol only decides between several: every address is one of code.
 */

#define CHUNK_SYMBOLS 1024
#define MAX_TIES (1U << 18) /* names read only to compare their lengths */
#define MAX_UNSIZED_BYTES 65536
#define MAX_NAME_SCAN 65536
#define NAME_BYTES_PER_WORK 8
#define WORK_STEP 65536 /* the work is taken from that of the file after so much */
#define MAX_TABS 4
#define UNKNOWN_LEN UINT32_MAX

struct candidate {
	uint64_t value;
	uint64_t bytes; /* 0: no size, except in struct scan's prev */
	uint32_t name;
	uint32_t name_len; /* or UNKNOWN_LEN */
	uint8_t rank; /* lower is better */
	uint8_t tab; /* its index in tabs */
	bool unsized; /* in prev: the symbol has no size */
	bool set;
};

struct scan {
	const struct symtab *tabs, *tab; /* the one that is being read */
	size_t nr_tabs;
	const struct elf_symbol *syms;
	size_t nr;
	struct candidate *best; /* of syms[i]: the symbol with a size that covers it; or NULL */
	/* The last symbol of any kind after syms[i - 1].rva, up to syms[i].rva; NULL if best is used. */
	struct candidate *prev;
	/* The nearest borders of symbols around syms[i] so far; NULL: not needed. */
	uint64_t *low, *high;
	const struct elf_section *sections;
	size_t nr_sections;
	const struct elf_section **code; /* those of sections that hold code, by address */
	size_t nr_code;
	uint64_t work; /* since work_take() */
	uint32_t nr_ties;
	bool has_locals[MAX_TABS], has_sizes[MAX_TABS];
};

static void scan_fini_ptr(struct scan *s)
{
	free(s->code);
}

/* The part of a name in str; *ret_end: the name ends there. */
static size_t name_part(const char *str, size_t len, bool first, bool *ret_end)
{
	size_t i;

	for (i = 0; i < len; i++)
		if (!str[i] || (str[i] == '@' && (i || !first)))
			break;
	*ret_end = i < len;
	return i;
}

/* The name at off, whose first len bytes are in name: cut in its middle. */
static int long_name(const struct symtab *tab, uint32_t off, char name[SYMTAB_MAX_NAME], size_t len)
{
	uint64_t left = tab->strings_bytes - off;
	char part[SYMTAB_MAX_NAME / 16];
	struct name_cut cut;
	bool end = false;
	size_t n;
	int err;

	name_cut_init(&cut);
	name_cut_add(&cut, name, len);
	if (left > MAX_NAME_SCAN)
		left = MAX_NAME_SCAN;
	for (; len < left && !end; len += n) {
		n = left - len < sizeof(part) ? left - len : sizeof(part);
		err = elf_image_read(tab->img, tab->strings_off + off + len, part, n);
		if (err)
			return err;
		name_cut_add(&cut, part, name_part(part, n, false, &end));
	}
	if (!end) { /* its place makes it different from others */
		len = (size_t)snprintf(part, sizeof(part), "...@0x%" PRIx32, off);
		name_cut_add(&cut, part, len);
	}
	return (int)name_cut_finish(&cut, name);
}

int symtab_name(const struct symtab *tab, uint32_t off, char name[SYMTAB_MAX_NAME])
{
	bool end = false;
	size_t len, part;
	uint64_t left;
	int err = 0;

	name[0] = 0;
	if (off >= tab->strings_bytes)
		return 0;
	left = tab->strings_bytes - off;
	if (left > SYMTAB_MAX_NAME - 1)
		left = SYMTAB_MAX_NAME - 1;
	for (len = 0; len < left && !end && !err;) {
		part = left - len < 64 ? left - len : 64;
		err = elf_image_read(tab->img, tab->strings_off + off + len, name + len, part);
		if (!err)
			len += name_part(name + len, part, !len, &end);
	}
	name[len] = 0;
	if (!err && !end && left < tab->strings_bytes - off)
		err = long_name(tab, off, name, len);
	if (err < 0)
		name[0] = 0;
	return err ? err : (int)len;
}

static uint32_t name_len(struct scan *s, struct candidate *c)
{
	char name[SYMTAB_MAX_NAME];
	int len;

	if (c->name_len == UNKNOWN_LEN) {
		s->nr_ties++;
		len = symtab_name(&s->tabs[c->tab], c->name, name);
		c->name_len = len > 0 ? (uint32_t)len : SYMTAB_MAX_NAME;
		s->work += 1 + c->name_len / NAME_BYTES_PER_WORK;
	}
	return c->name_len;
}

/* Innermost, functions before untyped symbols, global before weak before local, shorter name. */
static bool candidate_better(struct scan *s, struct candidate *a, struct candidate *b)
{
	if (a->value != b->value)
		return a->value > b->value;
	if (a->bytes != b->bytes)
		return a->bytes < b->bytes;
	if (a->rank != b->rank)
		return a->rank < b->rank;
	if (a->name == b->name || s->nr_ties >= MAX_TIES)
		return false;
	return name_len(s, a) < name_len(s, b);
}

/* The number of the first query at or after rva. */
static size_t first_query(const struct scan *s, uint64_t rva)
{
	return sorted_count(s->nr, i, s->syms[i].rva < rva);
}

static int compare_va(const void *a, const void *b)
{
	const struct elf_section *x = *(const struct elf_section *const *)a;
	const struct elf_section *y = *(const struct elf_section *const *)b;

	if (x->va != y->va)
		return sorted_order(x->va, y->va);
	return sorted_order(x, y); /* the order is the same each time */
}

/* An empty section may begin inside of another one. */
static bool holds_code(const struct elf_section *sec)
{
	return (sec->flags & SHF_EXECINSTR) && sec->bytes;
}

/* Begins with the sections of tab's file. */
static int sections_find(struct scan *s, const struct symtab *tab)
{
	size_t i, nr = 0;

	s->sections = elf_image_sections(tab->img, &s->nr_sections);
	for (i = 0; i < s->nr_sections; i++)
		nr += holds_code(&s->sections[i]);
	free(s->code);
	s->nr_code = 0;
	s->code = malloc((nr + 1) * sizeof(*s->code));
	if (!s->code)
		return -ENOMEM;
	for (i = 0; i < s->nr_sections; i++)
		if (holds_code(&s->sections[i]))
			s->code[s->nr_code++] = &s->sections[i];
	qsort(s->code, nr, sizeof(*s->code), compare_va);
	return 0;
}

/* The section of code that rva is in (of those that overlap, the last to begin), or NULL. */
static const struct elf_section *code_section(const struct scan *s, uint64_t rva)
{
	size_t low = sorted_count(s->nr_code, i, s->code[i]->va <= rva);

	return low && rva - s->code[low - 1]->va < s->code[low - 1]->bytes ? s->code[low - 1]
									   : NULL;
}

/* No function reaches into the next section: .init into .plt, .text into .fini. */
static uint64_t clip_to_section(const struct scan *s, const Elf64_Sym *sym, uint64_t bytes)
{
	const struct elf_section *sec = NULL;
	uint64_t left;

	if (sym->st_shndx == SHN_XINDEX) /* a number of more than 16 bits, which stands elsewhere */
		sec = code_section(s, sym->st_value);
	else if (sym->st_shndx < SHN_LORESERVE && sym->st_shndx < s->nr_sections)
		sec = &s->sections[sym->st_shndx];
	if (!sec || sym->st_value < sec->va || sym->st_value - sec->va >= sec->bytes)
		return bytes;
	left = sec->bytes - (sym->st_value - sec->va);
	return bytes < left ? bytes : left;
}

/* A symbol begins or ends at va: another symbol may cover the addresses behind it. */
static void offer_border(struct scan *s, uint64_t va)
{
	size_t i;

	if (!s->low)
		return;
	/* An address exactly on the border lies behind it. */
	i = first_query(s, va);
	if (i < s->nr && s->low[i] < va)
		s->low[i] = va;
	if (i > 0 && s->high[i - 1] > va)
		s->high[i - 1] = va;
}

static void offer_sized(struct scan *s, struct candidate *c, size_t first)
{
	uint64_t end = c->value + c->bytes;
	size_t i;

	for (i = first; i < s->nr && s->syms[i].rva < end; i++) {
		s->work++;
		if (s->syms[i].name)
			continue;
		if (!s->best[i].set || candidate_better(s, c, &s->best[i]))
			s->best[i] = *c;
	}
}

static void offer_prev(struct scan *s, struct candidate *c, size_t i)
{
	struct candidate *prev;

	if (!s->prev || i >= s->nr)
		return;
	prev = &s->prev[i];
	if (!prev->set || c->value > prev->value ||
	    (c->value == prev->value && c->unsized &&
	     (!prev->unsized || candidate_better(s, c, prev))))
		*prev = *c;
}

static void offer_symbol(struct scan *s, const Elf64_Sym *sym)
{
	unsigned int type = ELF64_ST_TYPE(sym->st_info), bind = ELF64_ST_BIND(sym->st_info);
	bool function = type == STT_FUNC || type == STT_GNU_IFUNC;
	size_t tab = (size_t)(s->tab - s->tabs), first;
	struct candidate c = { .value = sym->st_value,
			       .name = sym->st_name,
			       .name_len = UNKNOWN_LEN,
			       .tab = (uint8_t)tab,
			       .set = true };

	if (bind == STB_LOCAL && sym->st_name && type != STT_SECTION && type != STT_FILE)
		s->has_locals[tab] = true;
	if (sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS || sym->st_shndx == SHN_COMMON)
		return;
	if (!function && type != STT_NOTYPE && type != STT_OBJECT)
		return;
	/* AArch64's $x and $d mark places, they name nothing. */
	if (!sym->st_size && type == STT_NOTYPE && bind == STB_LOCAL &&
	    elf_image_machine(s->tab->img) == EM_AARCH64)
		return;
	s->has_sizes[tab] |= sym->st_size != 0;
	first = first_query(s, sym->st_value);
	c.rank = (function	       ? 0
		  : type == STT_NOTYPE ? 4
				       : 8) +
		 (bind == STB_LOCAL  ? 2
		  : bind == STB_WEAK ? 1
				     : 0);
	c.unsized = !sym->st_size && sym->st_name;
	offer_prev(s, &c, first);
	if (!s->best || !sym->st_size || !sym->st_name)
		return;
	c.bytes = sym->st_size;
	if (first < s->nr && s->syms[first].rva - c.value < c.bytes)
		c.bytes = clip_to_section(s, sym, c.bytes);
	if (c.value + c.bytes <= c.value)
		return;
	offer_sized(s, &c, first);
	offer_border(s, c.value);
	offer_border(s, c.value + c.bytes);
}

/* -E2BIG: the file has had its share. */
static int work_take(struct scan *s)
{
	int64_t *left = s->tab->work_left;
	uint64_t work = s->work;

	s->work = 0;
	if (!left)
		return 0;
	*left -= (int64_t)work;
	return *left < 0 ? -E2BIG : 0;
}

static int scan_table(struct scan *s)
{
	__cleanup(free_mem) Elf64_Sym *chunk = malloc(CHUNK_SYMBOLS * sizeof(*chunk));
	uint64_t i, nr;
	size_t k;
	int err;

	if (!chunk)
		return -ENOMEM;
	for (i = 0; i < s->tab->nr; i += nr) {
		nr = s->tab->nr - i < CHUNK_SYMBOLS ? s->tab->nr - i : CHUNK_SYMBOLS;
		err = elf_image_read(s->tab->img, s->tab->off + i * sizeof(*chunk), chunk,
				     nr * sizeof(*chunk));
		if (err)
			return err;
		for (k = 0; k < nr && !err; k++) {
			offer_symbol(s, &chunk[k]);
			if (s->work > WORK_STEP)
				err = work_take(s);
		}
		s->work += nr;
		if (!err)
			err = work_take(s);
		if (err)
			return err;
	}
	return 0;
}

static int scan_tables(struct scan *s)
{
	int err = 0;
	size_t i;

	for (i = 0; i < s->nr_tabs && !err; i++) {
		s->tab = &s->tabs[i];
		err = sections_find(s, s->tab);
		if (!err)
			err = scan_table(s);
	}
	return err;
}

/* The names of the winners; neighbours often lie in the same function. */
static int commit_sized(struct scan *s, struct strtab *names, struct elf_symbol *syms)
{
	uint32_t last = 0, last_id = 0;
	char name[SYMTAB_MAX_NAME];
	int len, err = 0;
	size_t i;

	for (i = 0; i < s->nr; i++) {
		if (syms[i].name || !s->best[i].set)
			continue;
		if (!last || s->best[i].name != last) {
			len = symtab_name(s->tab, s->best[i].name, name);
			if (len < 0)
				err = len;
			last = s->best[i].name;
			last_id = len > 0 ? strtab_add_len(names, name, (size_t)len) : 0;
		}
		if (!last_id)
			continue;
		syms[i].name = last_id;
		syms[i].value = s->best[i].value;
		syms[i].bytes = s->best[i].bytes;
	}
	return err;
}

/* Do a and b lie in one section of code? */
static bool same_code_section(const struct scan *s, uint64_t a, uint64_t b)
{
	const struct elf_section *sec = code_section(s, a);

	return sec && sec == code_section(s, b);
}

/* Does the function of sym begin at prev, by the unwind table? */
static bool is_start(const struct candidate *prev, const struct elf_symbol *sym)
{
	return sym->function && prev->value == sym->function;
}

/* May prev, the last symbol before syms[i], name the code there? */
static bool unsized_fits(const struct scan *s, const struct candidate *prev, size_t i)
{
	const struct elf_symbol *sym = &s->syms[i];

	if (!prev->unsized)
		return false;
	if (is_start(prev, sym))
		return true;
	return !s->tabs[prev->tab].partial && prev->value >= sym->function &&
	       (s->has_locals[prev->tab] || !s->has_sizes[prev->tab]) &&
	       sym->rva - prev->value < MAX_UNSIZED_BYTES &&
	       same_code_section(s, prev->value, sym->rva);
}

/* The symbols that may name the remaining addresses, as queries of their own, sorted by rva. */
static size_t collect_unsized(struct scan *s, struct elf_symbol *syms, struct elf_symbol *starts,
			      struct elf_symbol **owners)
{
	struct candidate prev = { 0 };
	size_t i, nr = 0;

	for (i = 0; i < s->nr; i++) {
		if (s->prev[i].set)
			prev = s->prev[i];
		if (syms[i].name || !unsized_fits(s, &prev, i))
			continue;
		s->prev[nr] = prev; /* nr <= i: prev[nr] is no longer needed */
		starts[nr].rva = prev.value;
		starts[nr].name = is_start(
			&prev,
			&syms[i]); /* then it is not a label, even if another symbol covers it */
		owners[nr++] = &syms[i];
	}
	return nr;
}

/* Symbols inside of a symbol with a size are labels. */
static int find_labels(const struct scan *s, const struct elf_symbol *starts, size_t nr,
		       struct candidate *inside)
{
	__cleanup(scan_fini) struct scan cover = *s;

	cover.code = NULL;
	cover.syms = starts;
	cover.nr = nr;
	cover.best = inside;
	cover.prev = NULL;
	return scan_tables(&cover);
}

int symtab_resolve_unsized(const struct symtab *tabs, size_t nr_tabs, struct strtab *names,
			   struct elf_symbol *syms, size_t nr)
{
	__cleanup(free_mem) struct candidate *prev = calloc(nr + 1, sizeof(*prev));
	__cleanup(free_mem) struct candidate *inside = calloc(nr + 1, sizeof(*inside));
	__cleanup(free_mem) struct elf_symbol *starts = calloc(nr + 1, sizeof(*starts));
	__cleanup(free_mem) struct elf_symbol **owners = calloc(nr + 1, sizeof(*owners));
	__cleanup(scan_fini) struct scan s = {
		.tabs = tabs, .nr_tabs = nr_tabs, .syms = syms, .nr = nr, .prev = prev
	};
	char name[SYMTAB_MAX_NAME];
	size_t i, nr_starts;
	int err, len;

	if (!prev || !inside || !starts || !owners)
		return -ENOMEM;
	if (nr_tabs > MAX_TABS)
		return -E2BIG;
	err = scan_tables(&s);
	if (!err && nr_tabs)
		err = sections_find(&s, &tabs[0]);
	if (err)
		return err;
	nr_starts = collect_unsized(&s, syms, starts, owners);
	if (nr_starts)
		err = find_labels(&s, starts, nr_starts, inside);
	for (i = 0; i < nr_starts && !err; i++) {
		if (inside[i].set)
			continue;
		len = symtab_name(&tabs[prev[i].tab], prev[i].name, name);
		if (len < 0)
			return len;
		if (!len)
			continue;
		owners[i]->name = strtab_add_len(names, name, (size_t)len);
		owners[i]->value = prev[i].value;
		owners[i]->bytes = 0;
	}
	return err;
}

/* Each border was noted at the queries next to it; it holds for the queries beyond them, too. */
static void narrow(const struct scan *s, struct elf_symbol *syms)
{
	uint64_t low = 0, high = UINT64_MAX;
	size_t i;

	for (i = 0; i < s->nr; i++) {
		low = s->low[i] > low ? s->low[i] : low;
		if (syms[i].same_start < low)
			syms[i].same_start = low;
	}
	for (i = s->nr; i-- > 0;) {
		high = s->high[i] < high ? s->high[i] : high;
		if (syms[i].same_end > high)
			syms[i].same_end = high;
	}
}

int symtab_resolve(const struct symtab *tab, struct strtab *names, struct elf_symbol *syms,
		   size_t nr)
{
	__cleanup(free_mem) struct candidate *best = NULL;
	__cleanup(free_mem) uint64_t *borders = NULL;
	__cleanup(scan_fini) struct scan s = { .tabs = tab, .nr_tabs = 1, .syms = syms, .nr = nr };
	int err, name_err;
	size_t i;

	if (!nr)
		return 0;
	s.best = best = calloc(nr, sizeof(*best));
	if (!best)
		return -ENOMEM;
	if (syms[0].same_end) {
		borders = calloc(nr, 2 * sizeof(*borders));
		if (!borders)
			return -ENOMEM;
		s.low = borders;
		s.high = borders + nr;
		for (i = 0; i < nr; i++)
			s.high[i] = UINT64_MAX;
	}
	err = scan_tables(&s);
	if (err == -E2BIG)
		return err;
	name_err = commit_sized(&s, names, syms);
	if (borders)
		narrow(&s, syms);
	return err ? err : name_err;
}
