// SPDX-License-Identifier: Apache-2.0
#include "elf/go_symbols.h"

#include <errno.h>
#include <string.h>

#include "base/strtab.h"
#include "elf/go_table.h"
#include "elf/symbols.h"

/*
 * The file of a function is that of its first instruction. For inlined code the table has the line of
 * the inlined function; if that one is in another file, the line is that of the function's start.
 */
static int lines_find(const struct go_table *tab, const struct go_function *fn,
		      struct strtab *names, struct elf_symbol *sym)
{
	char file[GO_NAME_MAX], here[GO_NAME_MAX];
	int32_t start_line, line;
	uint32_t id;
	int err = go_table_line(tab, fn, fn->start, &start_line, file, sizeof(file));

	if (err)
		return err == -ENODATA ? 0 : err;
	id = strtab_add(names, file);
	if (!id)
		return -ENOMEM;
	if (fn->start_line > 0)
		start_line = fn->start_line;
	sym->file = id;
	sym->start_line = sym->line = (uint32_t)start_line;
	err = go_table_line(tab, fn, sym->rva, &line, here, sizeof(here));
	if (!err && !strcmp(file, here))
		sym->line = (uint32_t)line;
	return err == -ENODATA ? 0 : err;
}

static int name_find(const struct go_table *tab, const struct go_function *fn, struct strtab *names,
		     struct elf_symbol *sym)
{
	char name[GO_NAME_MAX];
	int err = go_table_name(tab, fn, name, sizeof(name));

	if (err < 0)
		return err;
	sym->name = strtab_add(names, name);
	if (!sym->name)
		return -ENOMEM;
	sym->value = sym->rva < fn->start ? sym->rva : fn->start;
	sym->bytes = fn->end - sym->value;
	if (sym->same_end) {
		sym->same_start = sym->value;
		sym->same_end = go_table_look_up_from(tab, fn->end);
	}
	return 0;
}

/* The function of rva; *index is that of the last one found. */
static int function_find(const struct go_table *tab, uint64_t rva, struct go_function *fn,
			 uint64_t *index)
{
	int err = 0;

	if (rva < fn->start || rva >= fn->end)
		err = go_table_function(tab, rva, fn, index);
	if (!err && rva + 1 == fn->end && go_table_look_up_from(tab, fn->end) == rva &&
	    *index + 1 < tab->nr_functions)
		err = go_table_function_at(tab, ++*index, fn);
	return err;
}

int go_symbols_resolve(struct elf_image *img, struct strtab *names, struct elf_symbol *syms,
		       size_t nr)
{
	struct go_function fn = { 0 };
	struct go_table tab;
	int err = go_table_find(&tab, img), bad = 0;
	uint64_t index = 0;
	size_t i;

	if (err)
		return err;
	for (i = 0; i < nr; i++) {
		err = function_find(&tab, syms[i].rva, &fn, &index);
		if (!err && !syms[i].name)
			err = name_find(&tab, &fn, names, &syms[i]);
		if (!err)
			err = lines_find(&tab, &fn, names, &syms[i]);
		if (err == -ENOMEM)
			return err;
		if (err && err != -ENODATA)
			bad = err;
		if (err)
			fn.end = fn.start = 0;
	}
	return bad;
}
