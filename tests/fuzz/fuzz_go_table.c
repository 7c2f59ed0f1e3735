// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=32768 */
#include "elf/go_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "elf/go_symbols.h"
#include "elf/image.h"
#include "elf/symbols.h"

#define MAX_FUNCTIONS 512
#define NR 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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

/* A whole file: all of its functions. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_image *img;
	struct go_table tab;

	if (elf_image_open_memory(&img, data, size))
		return 0;
	if (!go_table_find(&tab, img)) {
		look_up(&tab);
		resolve(img, &tab);
	}
	elf_image_free(img);
	return 0;
}
