// SPDX-License-Identifier: Apache-2.0
#include "symbol/kallsyms.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/sorted.h"
#include "base/strtab.h"
#include "base/vec.h"
#include "symbol/lines.h"

/*
 * The file has no sizes and is not sorted (modules and BPF programs follow the kernel), so a
 * function ends at the begin of the next symbol of any type. Each symbol is kept at the first query
 * at or above it, if it is the greatest one there. At the end a query without a symbol gets the
 * symbol of the query before it.
 */

#define MAX_NAME 512 /* KSYM_NAME_LEN */
#define MAX_MODULE 64
/* No function is larger; an address further off has no symbol. */
#define MAX_KERNEL_BYTES (1U << 20)
#define MAX_MODULE_BYTES (64U << 10)

struct ksym {
	uint64_t va;
	char type;
	const char *name;
	size_t name_len;
	const char *module;
	size_t module_len;
};

/* Among symbols of one address the lowest rank wins. */
enum rank { RANK_GLOBAL, RANK_WEAK, RANK_LOCAL, RANK_NAMELESS, RANK_NONE };

struct slot {
	uint64_t va;
	uint32_t
		rank; /* enum rank << 16 | leading underscores << 12 | length, RANK_NONE << 16 = free */
	uint16_t name_len, module_len;
	char *text; /* name, then module, both without NUL */
	uint64_t next; /* lowest symbol above this query, but not above the next query */
};

static ssize_t fd_read(void *arg, void *dst, size_t len, uint64_t off)
{
	ssize_t got;

	(void)off;
	do
		got = read(*(int *)arg, dst, len);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

/* Parses `ADDRESS TYPE NAME`, and a tab with `[MODULE]` if it follows. */
static bool line_parse(const char *line, size_t len, struct ksym *sym)
{
	size_t pos = 0, end;
	const char *tab;

	if (!line_hex(line, len, &pos, &sym->va) || len - pos < 3 || line[pos + 1] != ' ')
		return false;
	sym->type = line[pos];
	sym->name = line + pos + 2;
	tab = memchr(sym->name, '\t', len - pos - 2);
	end = tab ? (size_t)(tab - line) : len;
	sym->name_len = end - pos - 2;
	sym->module = NULL;
	sym->module_len = 0;
	if (tab && len - end >= 4 && tab[1] == '[' && line[len - 1] == ']') {
		sym->module = tab + 2;
		sym->module_len = len - end - 3;
	}
	return sym->name_len && sym->name_len < MAX_NAME && sym->module_len < MAX_MODULE;
}

static bool has_suffix(const struct ksym *sym, const char *suffix)
{
	size_t len = strlen(suffix);

	return sym->name_len >= len && !memcmp(sym->name + sym->name_len - len, suffix, len);
}

/*
 * Is it a border of the linker script? A border has the address of a function but is no function.
 */
static bool is_border(const struct ksym *sym)
{
	static const char *const borders[] = { "_text",	     "_stext",	   "_etext",
					       "_sinittext", "_einittext", "__init_begin" };
	size_t i;

	if (sym->module || sym->name[0] != '_')
		return false;
	for (i = 0; i < sizeof(borders) / sizeof(borders[0]); i++)
		if (sym->name_len == strlen(borders[i]) && has_suffix(sym, borders[i]))
			return true;
	return has_suffix(sym, "text_start") || has_suffix(sym, "text_end");
}

static uint32_t ksym_rank(const struct ksym *sym)
{
	enum rank rank = RANK_NAMELESS;
	uint32_t underscores = 0;

	if (!is_border(sym))
		rank = sym->type == 'T'			      ? RANK_GLOBAL
		       : sym->type == 'w' || sym->type == 'W' ? RANK_WEAK
		       : sym->type == 't'		      ? RANK_LOCAL
							      : RANK_NAMELESS;
	while (underscores < 15 && underscores < sym->name_len && sym->name[underscores] == '_')
		underscores++;
	return (uint32_t)rank << 16 | underscores << 12 | (uint32_t)sym->name_len;
}

struct resolve {
	struct kallsyms_query *queries;
	size_t nr;
	struct slot *slots;
};

static int offer_symbol(const struct ksym *sym, void *arg)
{
	struct resolve *r = arg;
	size_t low = sorted_count(r->nr, i, r->queries[i].va < sym->va);
	uint32_t rank = ksym_rank(sym);
	struct slot *slot;

	if (low > 0 && sym->va < r->slots[low - 1].next)
		r->slots[low - 1].next = sym->va;
	if (low == r->nr)
		return 0;
	slot = &r->slots[low];
	if (slot->rank != RANK_NONE << 16 &&
	    (sym->va < slot->va || (sym->va == slot->va && rank >= slot->rank)))
		return 0;
	if (!vec_fit(slot->text, sym->name_len + sym->module_len))
		return -ENOMEM;
	memcpy(slot->text, sym->name, sym->name_len);
	if (sym->module_len)
		memcpy(slot->text + sym->name_len, sym->module, sym->module_len);
	slot->va = sym->va;
	slot->rank = rank;
	slot->name_len = (uint16_t)sym->name_len;
	slot->module_len = (uint16_t)sym->module_len;
	return 0;
}

/* A callback for each symbol; it stops the pass by a return value other than 0. */
typedef int (*ksym_fn)(const struct ksym *sym, void *arg);

/*
 * Calls fn for each symbol. 0, the return value of fn, -EACCES if there were symbols but no
 * addresses, or -errno.
 */
static int kallsyms_scan(const char *path, ksym_fn fn, void *arg)
{
	__cleanup(free_mem) struct lines *lines = calloc(1, sizeof(*lines));
	__cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool any = false, any_va = false;
	struct ksym sym;
	const char *line;
	uint64_t off;
	size_t len;
	int err;

	if (fd < 0)
		return -errno;
	if (!lines)
		return -ENOMEM;
	lines->read = fd_read;
	lines->arg = &fd;
	while ((err = lines_next(lines, &line, &len, &off)) > 0) {
		if (!line_parse(line, len, &sym))
			continue;
		any = true;
		/* Absolute symbols are offsets of per-CPU variables, not addresses. */
		if (!sym.va || sym.type == 'a' || sym.type == 'A')
			continue;
		any_va = true;
		err = fn(&sym, arg);
		if (err)
			return err;
	}
	if (err)
		return err;
	return any && !any_va ? -EACCES : 0;
}

static bool is_kernel(const char *module, size_t len)
{
	return !len || (len == 3 && !memcmp(module, "bpf", 3));
}

/* The highest possible end of a function that begins at start. */
static uint64_t farthest(uint64_t start, bool kernel)
{
	uint64_t bytes = kernel ? MAX_KERNEL_BYTES : MAX_MODULE_BYTES;

	return start > UINT64_MAX - bytes ? UINT64_MAX : start + bytes;
}

static uint64_t lower(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void commit(const struct resolve *r, struct strtab *names)
{
	const struct slot *slot = NULL;
	struct kallsyms_query *query;
	uint64_t next = UINT64_MAX, end;
	size_t i;

	for (i = 0; i < r->nr; i++) {
		r->queries[i].end = UINT64_MAX;
		if (r->slots[i].rank != RANK_NONE << 16)
			slot = &r->slots[i];
		if (!slot || slot->rank >> 16 >= RANK_NAMELESS)
			continue;
		query = &r->queries[i];
		end = farthest(slot->va, is_kernel(slot->text + slot->name_len, slot->module_len));
		if (query->va >= end)
			continue;
		query->end = end;
		query->name = strtab_add_len(names, slot->text, slot->name_len);
		query->module = slot->module_len
					? strtab_add_len(names, slot->text + slot->name_len,
							 slot->module_len)
					: 0;
		query->start = slot->va;
	}
	for (i = r->nr; i-- > 0;) {
		next = lower(next, r->slots[i].next);
		r->queries[i].end = lower(next, r->queries[i].end);
	}
}

int kallsyms_resolve(const char *path, struct strtab *names, struct kallsyms_query *queries,
		     size_t nr)
{
	struct resolve r = { .queries = queries, .nr = nr };
	size_t i;
	int err;

	if (!nr)
		return 0;
	r.slots = calloc(nr, sizeof(*r.slots));
	if (!r.slots)
		return -ENOMEM;
	for (i = 0; i < nr; i++) {
		r.slots[i].rank = RANK_NONE << 16;
		r.slots[i].next = UINT64_MAX;
	}
	err = kallsyms_scan(path, offer_symbol, &r);
	if (!err)
		commit(&r, names);
	for (i = 0; i < nr; i++)
		free(r.slots[i].text);
	free(r.slots);
	return err;
}

struct find {
	struct kallsyms_range *ranges;
	size_t nr;
	size_t nr_open; /* required ranges that lack a start or an end */
	unsigned int nr_since; /* symbols since the last one with a prefix */
};

#define PREFIX_GAP 64 /* symbols that may lie between two symbols of one prefix */

static bool range_has(const struct kallsyms_range *range, const struct ksym *sym)
{
	size_t len = strlen(range->name);

	return (range->prefix ? sym->name_len >= len : sym->name_len == len) &&
	       !memcmp(sym->name, range->name, len);
}

/*
 * Finds the begin and the end of ranges. A symbol ends at the start of the next higher one. The
 * kernel's own symbols are sorted by address, so the first higher one is the next. Modules' symbols
 * are not sorted: the lowest higher one counts.
 */
static int find_ranges(const struct ksym *sym, void *arg)
{
	struct find *find = arg;
	struct kallsyms_range *range;

	find->nr_since++;
	for (range = find->ranges; range < find->ranges + find->nr; range++) {
		if (range_has(range, sym) && (!range->start || range->prefix)) {
			find->nr_open +=
				range->start && range->end != UINT64_MAX && !range->optional;
			if (!range->start || sym->va < range->start)
				range->start = sym->va;
			range->end = UINT64_MAX;
			find->nr_since = range->prefix ? 0 : find->nr_since;
		} else if (range->start && sym->va > range->start && sym->va < range->end) {
			find->nr_open -= range->end == UINT64_MAX && !range->optional;
			range->end = sym->va;
		}
	}
	return !find->nr_open && find->nr_since > PREFIX_GAP;
}

int kallsyms_find(const char *path, struct kallsyms_range *ranges, size_t nr)
{
	struct find find = { .ranges = ranges, .nr = nr };
	int err;
	size_t i;

	for (i = 0; i < nr; i++) {
		ranges[i].start = ranges[i].end = 0;
		find.nr_open += !ranges[i].optional;
	}
	err = kallsyms_scan(path, find_ranges, &find);
	return err < 0 ? err : 0;
}

/* A symbol of the table; if several have one address, the best of them. */
struct entry {
	uint64_t va;
	uint32_t rank; /* as in struct slot */
	uint32_t name; /* offset in names */
	bool kernel;
};

struct kallsyms_table {
	struct entry *entries; /* ascending */
	size_t nr, cap;
	char *names; /* each ends with a NUL */
	size_t names_bytes, names_cap;
};

static int table_reserve(struct kallsyms_table *table, size_t name_bytes)
{
	int err = vec_grow(table->entries, table->nr + 1, table->cap, KALLSYMS_TABLE_MAX);

	/* Names have 512 bytes at most: their offsets fit u32. */
	return err ? err
		   : vec_grow(table->names, table->names_bytes + name_bytes, table->names_cap,
			      VEC_BOUNDED);
}

static int table_add(const struct ksym *sym, void *arg)
{
	struct kallsyms_table *table = arg;
	uint32_t rank = ksym_rank(sym);
	struct entry *entry;
	int err;

	err = table_reserve(table, sym->name_len + 1);
	if (err)
		return err;
	entry = &table->entries[table->nr++];
	*entry = (struct entry){ .va = sym->va,
				 .rank = rank,
				 .name = (uint32_t)table->names_bytes,
				 .kernel = is_kernel(sym->module, sym->module_len) };
	/* A nameless symbol is only an end of the symbol before. */
	if (rank >> 16 >= RANK_NAMELESS)
		return 0;
	memcpy(table->names + table->names_bytes, sym->name, sym->name_len);
	table->names[table->names_bytes + sym->name_len] = 0;
	table->names_bytes += sym->name_len + 1;
	return 0;
}

/* Sorts by address, then by rank, then by position in the file. */
static int entry_compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->va != y->va)
		return sorted_order(x->va, y->va);
	if (x->rank != y->rank)
		return sorted_order(x->rank, y->rank);
	return sorted_order(x->name, y->name);
}

static void table_sort(struct kallsyms_table *table)
{
	size_t i, nr = 0;

	qsort(table->entries, table->nr, sizeof(*table->entries), entry_compare);
	for (i = 0; i < table->nr; i++)
		if (!nr || table->entries[i].va != table->entries[nr - 1].va)
			table->entries[nr++] = table->entries[i];
	table->nr = nr;
	(void)vec_fit(table->entries, nr + 1);
	(void)vec_fit(table->names, table->names_bytes + 1);
}

int kallsyms_table_new(struct kallsyms_table **ret, const char *path)
{
	struct kallsyms_table *table = calloc(1, sizeof(*table));
	int err;

	if (!table)
		return -ENOMEM;
	err = kallsyms_scan(path, table_add, table);
	if (err) {
		kallsyms_table_free(table);
		return err;
	}
	if (table->nr)
		table_sort(table);
	*ret = table;
	return 0;
}

void kallsyms_table_free(struct kallsyms_table *table)
{
	if (!table)
		return;
	free(table->entries);
	free(table->names);
	free(table);
}

const char *kallsyms_table_find(const struct kallsyms_table *table, uint64_t va,
				uint64_t *ret_start, uint64_t *ret_end)
{
	size_t low = sorted_count(table->nr, i, table->entries[i].va <= va);
	const struct entry *entry;
	uint64_t end;

	if (!low)
		return NULL;
	entry = &table->entries[low - 1];
	end = farthest(entry->va, entry->kernel);
	if (entry->rank >> 16 >= RANK_NAMELESS || va >= end)
		return NULL;
	*ret_start = entry->va;
	*ret_end = low < table->nr ? lower(end, table->entries[low].va) : end;
	return table->names + entry->name;
}
