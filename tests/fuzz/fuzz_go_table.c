// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=32768 */
#include "elf/go_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "elf/go_symbols.h"
#include "elf/image.h"
#include "elf/symbols.h"
#include "unwind/go_rows.h"
#include "unwind/reader.h"
#include "unwind_native.h"

#define MAX_FUNCTIONS 512
#define NR 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct rows {
	uint64_t start, end, nr;
};

/* Rows come in order, within what was asked for, and of kinds that there are. */
static void row_add(void *arg, uint64_t start, uint64_t end, uint64_t row)
{
	struct rows *rows = arg;
	uint32_t kind = unwind_row_kind(row);

	if (start < rows->start || end <= start || end > rows->end || row & 0xffff)
		abort();
	if (kind != ROW_CFA && kind != ROW_SIGNAL && kind != ROW_END && kind != ROW_RARE &&
	    kind != ROW_FAR && kind != ROW_GO_C)
		abort();
	rows->start = end;
	rows->nr++;
}

static void look_up(const struct go_table *tab)
{
	struct go_function fn, found;
	char text[GO_NAME_MAX];
	struct go_values v;
	uint64_t i, index;
	int32_t line;
	int len;

	for (i = 0; i < tab->nr_functions && i < MAX_FUNCTIONS; i++) {
		if (go_table_function_at(tab, i, &fn))
			continue;
		if (fn.start < tab->start || fn.end < fn.start || fn.end > tab->end)
			abort();
		len = go_table_name(tab, &fn, text, sizeof(text));
		if (len == 0 || len >= GO_NAME_MAX || (len > 0 && strlen(text) != (size_t)len))
			abort();
		go_table_line(tab, &fn, fn.start, &line, text, sizeof(text));
		if (!go_table_function(tab, fn.start, &found, &index) &&
		    (fn.start < found.start || fn.start >= found.end))
			abort();
		go_values_init(&v, tab, &fn, fn.sp_values);
		while (go_values_next(&v) > 0)
			if (v.end <= v.start || v.end > fn.end)
				abort();
	}
}

static void resolve(struct elf_image *img, const struct go_table *tab)
{
	struct elf_symbol syms[NR] = { 0 };
	struct strtab *names;
	size_t i;

	if (strtab_new(&names, 1 << 20))
		abort();
	for (i = 0; i < NR; i++)
		syms[i] = (struct elf_symbol){ .rva = tab->start + i * (tab->end - tab->start) / NR,
					       .same_end = i & 1 ? UINT64_MAX : 0 };
	go_symbols_resolve(img, names, syms, NR);
	for (i = 0; i < NR; i++)
		if (syms[i].name &&
		    (syms[i].rva < syms[i].value || syms[i].rva - syms[i].value >= syms[i].bytes))
			abort();
	strtab_free(names);
}

/* A whole file: all of its functions, and rows in pieces that cut functions in two. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_image *img;
	struct go_table tab;
	struct rows rows;
	uint64_t part, i;
	int64_t work;
	int err;

	if (elf_image_open_memory(&img, data, size))
		return 0;
	if (!go_table_find(&tab, img)) {
		look_up(&tab);
		part = (tab.end - tab.start) / 3 + 1;
		for (i = 0; i < 3; i++) {
			rows = (struct rows){ .start = tab.start + i * part,
					      .end = tab.start + (i + 1) * part };
			work = GO_ROWS_PAGE_WORK >> 4 * i; /* sometimes that is not enough */
			err = go_rows_make(&tab, rows.start, rows.end, &work, row_add, &rows);
			if (work < 0 || (err == -E2BIG && work))
				abort();
		}
		resolve(img, &tab);
	}
	elf_image_free(img);
	return 0;
}
