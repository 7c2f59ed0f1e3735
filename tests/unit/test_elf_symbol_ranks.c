// SPDX-License-Identifier: Apache-2.0
/*
 * The choice of one symbol of several for an address: by sizes, kinds, sections and unwind tables.
 */
#include "elf/symbols.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "elf/image.h"
#include "test_elf_fixture.h"
#include "elf_names.h"

Test(elf_symbols, sizes_labels_and_ranks)
{
	static const struct {
		uint64_t off;
		const char *name;
	} cases[] = {
		{ 0, "base" },	    { 15, "base" },	 { 16, "sized" },  { 24, "sized" },
		{ 31, "sized" },    { 32, "" },		 { 47, "" },	   { 48, "unsized" },
		{ 63, "unsized" },  { 64, "object" },	 { 79, "object" }, { 80, "outer" },
		{ 84, "nested" },   { 87, "nested" },	 { 88, "outer" },  { 95, "outer" },
		{ 96, "a_global" }, { 111, "a_global" }, { 112, "short" }, { 127, "short" },
		{ 128, "untyped" }, { 143, "untyped" },	 { 144, "small" }, { 152, "big" },
		{ 160, "o" },	    { 175, "o" },	 { 176, "part" },  { 184, "whole" },
		{ 192, "last" },    { 207, "last" },	 { 208, "" },
	};
	uint64_t base, other;
	size_t i;

	fixture_write("a.S", elf_assembly);
	fixture_run("gcc -c -o a.o a.S; ld -e base -o a a.o; strip -x -o globals a");
	base = fixture_value("a", "base");
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_assert_str_eq(elf_name_of("a", NULL, base + cases[i].off), cases[i].name, "%lu",
				 cases[i].off);
	/* A symbol ends with its section, and another section's symbols do not precede. */
	other = elf_section_va("a", ".other");
	cr_assert_str_eq(elf_name_of("a", NULL, other), "");
	cr_assert_str_eq(elf_name_of("a", NULL, other + 64), "huge");
	cr_assert_str_eq(elf_name_of("a", NULL, other + 79), "huge");
	cr_assert_str_eq(elf_name_of("a", NULL, other + 80), "");
	/* Local symbols were removed: anything may follow a label now. */
	cr_assert_str_eq(elf_name_of("globals", NULL, base + 16), "sized");
	cr_assert_str_eq(elf_name_of("globals", NULL, base + 48), "");
	cr_assert_str_eq(elf_name_of("globals", NULL, base + 196), "");
}

/* Queries in one call or one by one: the same; entries with a name are left alone. */
Test(elf_symbols, many_at_once_and_named_ones)
{
	struct elf_symbol syms[200] = { 0 };
	uint64_t base;
	size_t i;

	fixture_write("a.S", elf_assembly);
	fixture_run("gcc -c -o a.o a.S; ld -e base -o a a.o");
	base = fixture_value("a", "base");
	for (i = 0; i < 200; i++)
		syms[i].rva = base + i - 20;
	syms[40].name = strtab_add(elf_names, "known");
	cr_assert_eq(elf_names_resolve("a", NULL, syms, 200), 0);
	for (i = 0; i < 200; i++)
		if (i != 40)
			cr_assert_str_eq(strtab_get(elf_names, syms[i].name),
					 elf_name_of("a", NULL, syms[i].rva), "%zu", i);
	cr_assert_str_eq(strtab_get(elf_names, syms[40].name), "known");
	cr_assert_eq(elf_names_resolve("a", NULL, syms, 0), 0);
}

/* The name of rva, if the unwind table says that its function begins at that address. */
static void starts_find(void *arg, struct elf_symbol *syms, size_t nr)
{
	size_t i;

	for (i = 0; i < nr; i++)
		if (!syms[i].name)
			syms[i].function = *(uint64_t *)arg;
}

static const char *name_with_start(const char *file, uint64_t rva, uint64_t start)
{
	struct elf_starts starts = { .find = starts_find, .arg = &start };
	struct elf_symbol sym = { .rva = rva };
	struct elf_image *img = fixture_open(file);

	cr_assert_eq(elf_symbols_resolve(img, NULL, &starts, elf_names, &sym, 1), 0);
	elf_image_free(img);
	return strtab_get(elf_names, sym.name);
}

Test(elf_symbols, an_unwind_table_proves_where_a_function_begins)
{
	uint64_t base;

	fixture_write("a.S", elf_assembly);
	fixture_run("gcc -c -o a.o a.S; ld -e base -o a a.o; strip -x -o globals a;"
		    "ld -shared -s -o exported.so a.o");
	base = fixture_value("a", "base");
	/*
	 * Code that begins at a symbol without a size has its name, even if other symbols were
	 * removed.
	 */
	cr_assert_str_eq(name_with_start("globals", base + 196, 0), "");
	cr_assert_str_eq(name_with_start("globals", base + 196, base + 192), "last");
	cr_assert_str_eq(name_with_start("globals", base + 196, base + 196), "");
	cr_assert_str_eq(name_with_start("globals", base + 52, base + 48), "");
	/* Code that begins behind it has no name, though no other symbol is before it. */
	cr_assert_str_eq(name_with_start("a", base + 52, 0), "unsized");
	cr_assert_str_eq(name_with_start("a", base + 52, base + 48), "unsized");
	cr_assert_str_eq(name_with_start("a", base + 52, base + 50), "");
	/* A label inside of a function that says where it begins. */
	cr_assert_str_eq(name_with_start("a", base + 12, base - 16), "base");
	cr_assert_str_eq(name_with_start("a", base + 36, base + 32), "");
	base = fixture_value("a", "base");
	cr_assert_str_eq(name_with_start("a", base + 36, base + 24), "inner");
}

Test(elf_symbols, tables_complete_each_other)
{
	static const struct {
		const char *function, *sparse, *partly;
	} cases[] = {
		{ "first", "first", "first" }, { "second", "second", "second" },
		{ "hidden", "", "" },	       { "late", "late", "late" },
		{ "local", "", "local" },
	};
	uint64_t va;
	size_t i;

	fixture_write("a.c",
		      "__attribute__((noinline)) int first(int x) { return x * 3; }\n"
		      "static __attribute__((noinline)) int hidden(int x) { return x * 7; }\n"
		      "__attribute__((noinline)) int second(int x) { return hidden(x) * 5; }\n"
		      "static __attribute__((noinline)) int local(int x) { return x * 11; }\n"
		      "__attribute__((noinline)) int late(int x) { return local(x) * 9; }\n"
		      "int marker;\n");
	fixture_write("l.S", ".text\nlabel: ret\n");
	fixture_run("gcc -O1 -fno-ipa-icf -shared -fPIC -o full.so l.S a.c; strip -s -K marker -o "
		    "sparse.so full.so;"
		    "strip -s -K local -o partly.so full.so; strip -s -K label -o label.so full.so;"
		    "gcc -c -O1 -fno-ipa-icf -o a.o a.c");
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		va = fixture_value("full.so", cases[i].function);
		cr_assert_str_eq(elf_name_of("sparse.so", NULL, va + 1), cases[i].sparse);
		cr_assert_str_eq(elf_name_of("partly.so", NULL, va + 1), cases[i].partly);
		/* The label merely precedes all of it. */
		cr_assert_str_eq(elf_name_of("label.so", NULL, va + 1), cases[i].sparse);
		cr_assert_str_eq(name_with_start("label.so", va + 1, va), cases[i].sparse);
	}
}

/* Names of code count with any type; names of data do not. */
Test(elf_symbols, code_of_any_type)
{
	static const struct {
		const char *symbol;
		uint64_t off;
		const char *name;
	} cases[] = {
		{ "object", 0, "object" },    { "object", 15, "object" },
		{ "object", 16, "" },	      { "untyped", 9, "untyped" },
		{ "label", 3, "label" },      { "label", 40, "function" },
		{ "unsized", 12, "unsized" }, { "both", 1, "both" },
		{ "table", 1, "table" },      { "_start", 2, "_start" },
	};
	size_t i;

	fixture_write("a.S",
		      ".text\n.globl _start; _start: .skip 16\n"
		      ".globl object; .type object,@object; object: .skip 16; .size object,16\n"
		      ".skip 16\n"
		      ".globl untyped; untyped: .skip 16; .size untyped,16\n"
		      ".globl label; label: .skip 32\n"
		      ".globl function; .type function,@function; function: .skip 16\n"
		      ".size function,16\n"
		      ".globl unsized; .type unsized,@object; unsized: .skip 16\n"
		      ".globl alias, both; .type alias,@object; .type both,@function\n"
		      "alias: both: .skip 16; .size alias,16; .size both,16\n"
		      ".globl table; .type table,@object; table: .skip 16; .size table,4096\n"
		      ".section .late,\"ax\"; late: .skip 16\n"
		      ".data; .globl data; .type data,@object; data: .skip 16; .size data,16\n");
	fixture_run("gcc -c -o a.o a.S; ld -o a a.o; grep -v size a.S > b.S;"
		    "sed -n '/_start/p; /label/p; /unsized/p' a.S | sed '1i .text' > c.S;"
		    "gcc -c -o c.o c.S; ld -o c c.o");
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_assert_str_eq(
			elf_name_of("a", NULL, fixture_value("a", cases[i].symbol) + cases[i].off),
			cases[i].name, "%s + %lu", cases[i].symbol, cases[i].off);
	cr_assert_str_eq(elf_name_of("a", NULL, elf_section_va("a", ".late")), "late");
	/*
	 * The file is from an assembler only: no local symbol shows that all symbols are there, and
	 * no size shows that some were removed.
	 */
	cr_assert_str_eq(elf_name_of("c", NULL, fixture_value("c", "_start") + 3), "_start");
	cr_assert_str_eq(elf_name_of("c", NULL, fixture_value("c", "label") + 31), "label");
	cr_assert_str_eq(elf_name_of("c", NULL, fixture_value("c", "unsized") + 1), "unsized");
}

/* More than 16 bits can count: with the count in section 0 and a table of the symbols' sections. */
Test(elf_symbols, sections_of_each_function)
{
	static const size_t numbers[] = { 3000, 5000, 70000 };
	char script[512], name[24];
	uint64_t last;
	size_t i, k;

	for (i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		snprintf(
			script, sizeof(script),
			"awk 'BEGIN { for (i = 0; i < %zu; i++) printf \".section "
			".p%%d,\\\"ax\\\"\\n"
			".globl f%%d\\n.type f%%d,@function\\nf%%d: .skip 16\\n.size f%%d,%%d\\n\","
			" i, i, i, i, i, i %% 2 ? 16 : 64 }' > a.S; gcc -c -o a.o a.S; ld -e f0 -o "
			"a a.o",
			numbers[i]);
		fixture_run(script);
		last = fixture_value("a", "f0");
		for (k = 0; k < numbers[i]; k += numbers[i] / 2 - 1) {
			snprintf(name, sizeof(name), "f%zu", k);
			last = fixture_value("a", name);
			cr_assert_str_eq(elf_name_of("a", NULL, last), name);
			cr_assert_str_eq(elf_name_of("a", NULL, last + 15), name);
		}
		/*
		 * No symbol lies behind the last sections, whatever the size of the last but one
		 * is.
		 */
		snprintf(name, sizeof(name), "f%zu", numbers[i] - 2);
		cr_assert_str_eq(elf_name_of("a", NULL, fixture_value("a", name) + 40), "");
	}
}

/* A label elf_names code behind the address at which an empty section begins, inside of the section that holds both. */
Test(elf_symbols, sections_without_bytes)
{
	fixture_write("a.S", ".section .held,\"ax\"; .globl _start; .type _start,@function\n"
			     "_start: .skip 16; label: .skip 16; .size _start,16\n"
			     ".section .empty,\"ax\"\n");
	fixture_write("a.ld", "SECTIONS { .held 0x1000 : { *(.held) } .empty 0x1010 : { "
			      "*(.empty) . = .; } }\n");
	fixture_run("gcc -c -o a.o a.S; ld -T a.ld -o a a.o");
	cr_assert_eq(elf_section_va("a", ".empty"), 0x1010);
	cr_assert_str_eq(elf_name_of("a", NULL, 0x1010), "label");
	cr_assert_str_eq(elf_name_of("a", NULL, 0x101f), "label");
}

/*
 * There are as many sections as there may be, and all symbols cover the address: a check of each
 * section for each symbol would take a minute, far more than the time of the test.
 */
Test(elf_symbols, work_of_sections, .timeout = 20)
{
	enum { NR_SECTIONS = ELF_IMAGE_MAX_SECTIONS, NR_SYMBOLS = 300000 };
	size_t at_symbols = 0x1000 + NR_SECTIONS * sizeof(Elf64_Shdr), i;
	size_t len = at_symbols + NR_SYMBOLS * sizeof(Elf64_Sym);
	struct elf_symbol syms[] = { { .rva = 0x200 }, { .rva = 0x900 } };
	char *data = calloc(1, len);
	Elf64_Shdr *sections = (Elf64_Shdr *)(data + 0x1000);
	Elf64_Sym *symbols = (Elf64_Sym *)(data + at_symbols);
	struct elf_image *img;

	cr_assert(data);
	*(Elf64_Ehdr *)data =
		(Elf64_Ehdr){ .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1 },
			      .e_type = ET_DYN,
			      .e_machine = EM_X86_64,
			      .e_shoff = 0x1000,
			      .e_shentsize = sizeof(*sections) };
	memcpy(data + 0x801, "covers", 7);
	for (i = 0; i < NR_SECTIONS; i++)
		sections[i] = (Elf64_Shdr){ .sh_flags = SHF_EXECINSTR,
					    .sh_addr = 0x70000000,
					    .sh_size = 1 };
	sections[0] = (Elf64_Shdr){ .sh_size = NR_SECTIONS };
	sections[1] = (Elf64_Shdr){ .sh_type = SHT_STRTAB, .sh_offset = 0x800, .sh_size = 64 };
	sections[2] = (Elf64_Shdr){ .sh_type = SHT_SYMTAB,
				    .sh_offset = at_symbols,
				    .sh_size = NR_SYMBOLS * sizeof(*symbols),
				    .sh_entsize = sizeof(*symbols),
				    .sh_link = 1 };
	/* The last one has the first address. */
	sections[NR_SECTIONS - 1].sh_addr = 0x100;
	sections[NR_SECTIONS - 1].sh_size = 0x800;
	for (i = 0; i < NR_SYMBOLS; i++)
		symbols[i] = (Elf64_Sym){ .st_name = 1,
					  .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
					  .st_shndx = SHN_XINDEX,
					  .st_value = 0x100,
					  .st_size = 0x1000 };
	cr_assert_eq(elf_image_open_memory(&img, data, len), 0);
	cr_assert_eq(elf_symbols_resolve(img, NULL, NULL, elf_names, syms, 2), 0);
	cr_assert_str_eq(strtab_get(elf_names, syms[0].name), "covers");
	cr_assert_eq(syms[1].name, 0); /* it is behind the section */
	elf_image_free(img);
	free(data);
}

/* The end of a name identifies the function, so it stays in a long name. */
Test(elf_symbols, long_names_keep_their_end)
{
	size_t lengths[] = { 16382, 16383, 16390, 65535, 65536, 70000 }, i, k;
	const char *name, *before;
	char script[512];

	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		snprintf(
			script, sizeof(script),
			"awk 'BEGIN { n = \"x\"; while (length(n) < %zu) n = n n; n = substr(n, 1, "
			"%zu);"
			"print \".text\\n.globl base\\nbase: .skip 8\";"
			"for (i = 0; i < 3; i++) printf \".globl %%s%%d\\n.type %%s%%d,@function\\n"
			"%%s%%d: .skip 8\\n.size %%s%%d,8\\n\", n, i, n, i, n, i, n, i }' > a.S;"
			"gcc -c -o a.o a.S; ld -e base -o a a.o",
			lengths[i], lengths[i] - 1);
		fixture_run(script);
		before = "";
		for (k = 0; k < 3; k++) {
			name = elf_name_of("a", NULL, fixture_value("a", "base") + 8 * (k + 1));
			cr_assert_str_neq(name, before);
			cr_assert_eq(strlen(name), lengths[i] < 16383 ? 16382 : 1023);
			if (lengths[i] < 65536)
				cr_assert_eq(name[strlen(name) - 1], (char)('0' + k));
			before = name;
		}
	}
}

/*
 * Symbols that all cover all addresses: the work is bounded. No symbol that was read counts then, since a
 * better one may follow; exported functions have names.
 */
Test(elf_symbols, nested_symbols_do_not_take_forever)
{
	struct elf_symbol *syms = calloc(4096, sizeof(*syms));
	uint64_t base;
	size_t i;

	fixture_run(
		"awk 'BEGIN { print \".text\\n.globl base\\n.type base,@function\\n"
		"base: .skip 8192\\n.size base,8192\";"
		"for (i = 0; i < 30000; i++) printf \".globl s%d\\n.hidden s%d\\n"
		".type s%d,@function\\n.set s%d,base\\n.size s%d,8000\\n\", i, i, i, i, i }' > a.S;"
		"gcc -c -o a.o a.S; ld -e base -o a a.o; ld -shared -o a.so a.o");
	base = fixture_value("a", "base");
	for (i = 0; i < 4096; i++)
		syms[i].rva = base + i;
	cr_assert_eq(elf_names_resolve("a", NULL, syms, 4096), -E2BIG);
	cr_assert_eq(syms[0].name, 0);
	memset(syms, 0, 4096 * sizeof(*syms));
	base = fixture_value("a.so", "base");
	for (i = 0; i < 4096; i++)
		syms[i].rva = base + i;
	cr_assert_eq(elf_names_resolve("a.so", NULL, syms, 4096), -E2BIG);
	for (i = 0; i < 4096; i++)
		cr_assert_str_eq(strtab_get(elf_names, syms[i].name), "base");
	/* Few addresses take little work. */
	cr_assert_str_neq(elf_name_of("a.so", NULL, base), "");
	free(syms);
}
