// SPDX-License-Identifier: Apache-2.0
/* The function table of Go programs: one that is written by hand (go_program.S), in all of its versions. */
#include "elf/go_table.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "elf/image.h"
#include "elf/symbols.h"
#include "made_go.h"
#include "test_elf_fixture.h"

TestSuite(go_table, .timeout = 120);

/* Functions and lines, looked up by addresses in the middle of them. */
static void names_check(const char *file, const struct go_table *tab)
{
	static const struct {
		const char *at, *name;
		int32_t line;
		const char *file;
	} wanted[] = {
		{ "leaf", "main.leaf", 10, "/src/main.go" },
		{ "pushes", "main.(*T).pushes", 20, "/src/main.go" },
		{ "pushes_1", "main.(*T).pushes", 21, "/src/main.go" },
		{ "pushes_2", "main.(*T).pushes", 700, "/src/other.go" },
		{ "stores_2", "main.Stores[...]", 30, "/src/main.go" },
		{ "foreign", "foreign", 150, "/src/main.go" },
	};
	char name[64], from[64];
	struct go_function fn;
	uint64_t index, rva;
	int32_t line;
	size_t i;

	for (i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		rva = made_go_label(file, wanted[i].at);
		cr_assert_eq(go_table_function(tab, rva, &fn, &index), 0);
		cr_assert(rva >= fn.start && rva < fn.end);
		cr_assert_eq(go_table_name(tab, &fn, name, sizeof(name)),
			     (int)strlen(wanted[i].name));
		cr_assert_str_eq(name, wanted[i].name);
		cr_assert_eq(go_table_line(tab, &fn, rva, &line, from, sizeof(from)), 0);
		cr_assert_eq(line, wanted[i].line, "%s: %d", wanted[i].at, line);
		cr_assert_str_eq(from, wanted[i].file);
	}
	cr_assert_eq(go_table_function(tab, made_go_label(file, "text") - 1, &fn, &index),
		     -ENODATA);
	cr_assert_eq(go_table_function(tab, made_go_label(file, "text_end"), &fn, &index),
		     -ENODATA);
}

Test(go_table, all_versions)
{
	struct elf_image *img;
	struct go_table tab;
	char file[16];
	size_t i;

	for (i = 0; i < MADE_GO_VERSIONS; i++) {
		snprintf(file, sizeof(file), "go%d", made_go_versions[i]);
		made_go(file, made_go_versions[i], "");
		img = made_go_open(file);
		cr_assert_eq(go_table_find(&tab, img), 0);
		cr_assert_eq(tab.nr_functions, 15);
		cr_assert_eq(tab.start, made_go_label(file, "text"));
		cr_assert_eq(tab.end, made_go_label(file, "text_end"));
		names_check(file, &tab);
		elf_image_free(img);
	}
}

/* Without the start of the text in the header, the start is found by the code. */
Test(go_table, no_text_start)
{
	struct elf_image *img;
	struct go_table tab;

	made_go("go", 20, "-DNO_TEXT_START");
	img = made_go_open("go");
	cr_assert_eq(go_table_find(&tab, img), 0);
	cr_assert_eq(tab.text, made_go_label("go", "text"));
	names_check("go", &tab);
	elf_image_free(img);
}

/* Another linker puts it among other data. */
Test(go_table, in_another_section)
{
	struct elf_image *img;
	struct go_table tab;

	fixture_write("id.S", ".section .go.buildinfo, \"aw\"\n.quad 1\n"
			      ".section .data.rel.ro, \"aw\"\n.zero 70000\n");
	made_go("go", 18, "'-DSECTION=\".data.rel.ro\", \"aw\"' id.S");
	img = made_go_open("go");
	cr_assert_null(elf_image_section(img, ".gopclntab"));
	cr_assert_eq(go_table_find(&tab, img), 0);
	names_check("go", &tab);
	elf_image_free(img);
	/* A program in another language is not searched. */
	fixture_run("objcopy --remove-section .go.buildinfo go not");
	img = made_go_open("not");
	cr_assert_eq(go_table_find(&tab, img), -ENODATA);
	elf_image_free(img);
}

static char *without_sections(const char *file, size_t *len)
{
	char *path = fixture_path(file), *data = fixture_read(path, len);
	Elf64_Ehdr *header = (Elf64_Ehdr *)data;

	free(path);
	header->e_shoff = 0;
	header->e_shnum = header->e_shstrndx = 0;
	return data;
}

/* Data that only look like a header come first. */
Test(go_table, no_section_headers)
{
	struct elf_image *img;
	struct go_table tab;
	size_t len, i;
	char *data;

	fixture_write("false.S", ".section .rodata, \"a\"\n.balign 8\n.zero 65528\n"
				 ".quad 0x0801000000000000 + 0xfffffff1, 3, 4, 0\n");
	for (i = 0; i < 2 * MADE_GO_VERSIONS; i++) {
		made_go("go", made_go_versions[i % MADE_GO_VERSIONS],
			i < MADE_GO_VERSIONS ? "false.S" : "-Wl,-z,noseparate-code -Wl,-N false.S");
		data = without_sections("go", &len);
		cr_assert_eq(elf_image_open_memory(&img, data, len), 0);
		cr_assert_eq(go_table_find(&tab, img), 0);
		names_check("go", &tab);
		elf_image_free(img);
		free(data);
	}
}

Test(go_table, malformed)
{
	static const struct {
		uint32_t at; /* in the header */
		uint64_t value;
	} changes[] = {
		{ 0, 0x0801000012345678 }, /* no such version */
		{ 8, 0 }, /* functions */
		{ 8, UINT64_MAX },
		{ 8, GO_TABLE_MAX_FUNCTIONS },
		{ 64, UINT64_MAX - 7 }, /* where their table is */
		{ 64, 1 << 30 },
		{ 32, UINT64_MAX }, /* names */
		{ 56, 1 << 30 }, /* values */
	};
	struct elf_image *img;
	struct go_table tab;
	char *path, *data;
	uint64_t off;
	size_t i, len;

	made_go("go", 20, "");
	img = made_go_open("go");
	cr_assert_eq(go_table_find(&tab, img), 0);
	off = tab.off;
	elf_image_free(img);
	for (i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		path = fixture_path("go");
		data = fixture_read(path, &len);
		memcpy(data + off + changes[i].at, &changes[i].value, 8);
		cr_assert_eq(elf_image_open_memory(&img, data, len), 0);
		cr_assert_eq(go_table_find(&tab, img), -EBADMSG, "change %zu", i);
		elf_image_free(img);
		free(data);
		free(path);
	}
}

/* A reader that gives up half way is used again; earlier results stay. */
struct flaky {
	char *data;
	size_t len;
	unsigned int nr_reads;
	bool broken;
};

static ssize_t flaky_read(void *arg, void *dst, size_t len, uint64_t off)
{
	struct flaky *flaky = arg;

	flaky->nr_reads++;
	if (flaky->broken)
		return -ETIMEDOUT;
	memcpy(dst, flaky->data + off, len);
	return (ssize_t)len;
}

Test(go_table, read_errors)
{
	struct flaky flaky = { 0 };
	struct elf_source source = { .read = flaky_read, .arg = &flaky };
	struct elf_image *img;
	struct go_table tab;
	unsigned int nr;
	char *path;

	made_go("go", 20, "");
	path = fixture_path("go");
	flaky.data = fixture_read(path, &flaky.len);
	((Elf64_Ehdr *)flaky.data)->e_shnum = 0; /* so that it is looked for */
	((Elf64_Ehdr *)flaky.data)->e_shoff = 0;
	source.size = flaky.len;
	cr_assert_eq(elf_image_new(&img, &source), 0);
	elf_image_drop_cache(img);
	flaky.broken = true;
	cr_assert_eq(go_table_find(&tab, img), -ETIMEDOUT);
	flaky.broken = false;
	cr_assert_eq(go_table_find(&tab, img), 0);
	nr = flaky.nr_reads;
	cr_assert_eq(go_table_find(&tab, img), 0);
	cr_assert_eq(flaky.nr_reads, nr);
	elf_image_free(img);
	free(flaky.data);
	free(path);
}

/*
 * There is padding everywhere, in two segments of the same bytes, and two headers of a table that
 * is far larger than the cached part of a file: the text might begin anywhere.
 */
#define PAD_OFF 0x10000
#define PAD_BYTES 0x80000
#define PAD_TABLE 0x100000
#define PAD_FUNCTIONS (4U << 20)

struct padding {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[3];
	struct {
		uint64_t magic, nr_functions, nr_files, text, parts[5];
	} headers[2];
	uint32_t entries[48][2], end;
	unsigned int nr_reads;
};

/* The part of the piece at piece_off that lies in [off, off + len). */
static void piece_read(const void *piece, size_t piece_len, uint64_t piece_off, char *dst,
		       size_t len, uint64_t off)
{
	uint64_t from = piece_off > off ? piece_off : off;
	uint64_t to = piece_off + piece_len < off + len ? piece_off + piece_len : off + len;

	if (from < to)
		memcpy(dst + (from - off), (const char *)piece + (from - piece_off), to - from);
}

static ssize_t padding_read(void *arg, void *dst, size_t len, uint64_t off)
{
	struct padding *pad = arg;
	uint64_t entries = PAD_TABLE + sizeof(pad->headers);

	pad->nr_reads++;
	/* Other functions of the table lie outside of every segment. */
	memset(dst, off < PAD_OFF ? 0 : off < PAD_OFF + PAD_BYTES ? 0xcc : 0xf0, len);
	piece_read(&pad->eh, sizeof(pad->eh) + sizeof(pad->ph), 0, dst, len, off);
	piece_read(pad->headers, sizeof(pad->headers), PAD_TABLE, dst, len, off);
	piece_read(pad->entries, sizeof(pad->entries), entries, dst, len, off);
	piece_read(&pad->end, 4, entries + PAD_FUNCTIONS * 8ULL, dst, len, off);
	return (ssize_t)len;
}

static void padding_init(struct padding *pad)
{
	uint64_t bytes = sizeof(pad->headers) + (PAD_FUNCTIONS + 1) * 8ULL, entries;
	uint32_t i, k;

	*pad = (struct padding){ .eh = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB,
						      1 },
					 .e_type = ET_DYN,
					 .e_machine = EM_X86_64,
					 .e_phoff = sizeof(pad->eh),
					 .e_phentsize = sizeof(pad->ph[0]),
					 .e_phnum = 3 },
				 .ph[0] = { .p_type = PT_LOAD,
					    .p_flags = PF_R,
					    .p_offset = PAD_TABLE,
					    .p_vaddr = 0x40000000,
					    .p_filesz = bytes,
					    .p_memsz = bytes },
				 .end = 1024 };
	for (i = 1; i < 3; i++)
		pad->ph[i] = (Elf64_Phdr){ .p_type = PT_LOAD,
					   .p_flags = PF_R | PF_X,
					   .p_offset = PAD_OFF,
					   .p_vaddr = i * 0x1000000,
					   .p_filesz = PAD_BYTES,
					   .p_memsz = PAD_BYTES };
	for (i = 0; i < 2; i++) {
		pad->headers[i].magic = 0x08010000fffffff1;
		pad->headers[i].nr_functions = PAD_FUNCTIONS;
		entries = (2 - i) * sizeof(pad->headers[0]);
		for (k = 0; k < 5; k++)
			pad->headers[i].parts[k] = entries;
	}
	for (i = 0; i < 48; i++)
		pad->entries[i][0] = 16 + 16 * i;
}

/* Only a few candidates are checked closely, whether most look right or not. */
Test(go_table, work_of_text_search)
{
	struct padding pad;
	struct elf_source source = { .read = padding_read, .arg = &pad };
	struct elf_image *img;
	struct go_table tab;
	int i;

	for (i = 0; i < 2; i++) {
		padding_init(&pad);
		source.size = PAD_TABLE + sizeof(pad.headers) + (PAD_FUNCTIONS + 1) * 8ULL;
		if (i) /* no candidate has all of the code that the table names */
			pad.end = 1U << 30;
		cr_assert_eq(elf_image_new(&img, &source), 0);
		cr_assert_eq(go_table_find(&tab, img), -EBADMSG);
		cr_assert_lt(pad.nr_reads, i ? 1000 : 10000, "%u reads", pad.nr_reads);
		elf_image_free(img);
	}
}

/* Names and lines through the interfaces that the program uses. */
Test(go_table, symbols)
{
	static const char *const at[] = { "leaf",      "pushes_1", "pushes_2",
					  "sigreturn", "foreign",  "text_end" };
	struct elf_symbol syms[6];
	struct elf_image *img;
	struct strtab *names;
	size_t i;

	cr_assert_eq(strtab_new(&names, 1 << 20), 0);
	made_go("go", 20, "-s");
	made_go("twin", 20, "");
	for (i = 0; i < 6; i++)
		syms[i] = (struct elf_symbol){ .rva = made_go_label("twin", at[i]),
					       .same_end = UINT64_MAX };
	syms[3].rva--; /* as return addresses are looked up */
	img = made_go_open("go");
	cr_assert_eq(elf_symbols_resolve(img, NULL, NULL, names, syms, 6), 0);
	cr_assert_str_eq(strtab_get(names, syms[0].name), "main.leaf");
	cr_assert_str_eq(strtab_get(names, syms[1].name), "main.(*T).pushes");
	cr_assert_str_eq(strtab_get(names, syms[3].name), "runtime.sigreturn");
	cr_assert_str_eq(strtab_get(names, syms[4].name), "foreign");
	cr_assert_eq(syms[5].name, 0);
	cr_assert_str_eq(strtab_get(names, syms[1].file), "/src/main.go");
	cr_assert_eq(syms[1].line, 21);
	cr_assert_eq(syms[1].start_line, 20);
	/* Code of a function in another file: it is not a line of this file. */
	cr_assert_str_eq(strtab_get(names, syms[2].file), "/src/main.go");
	cr_assert_eq(syms[2].line, 20);
	cr_assert_eq(syms[1].value, made_go_label("twin", "pushes"));
	cr_assert(syms[1].same_start <= syms[1].value &&
		  syms[1].same_end <= made_go_label("twin", "stores"));
	elf_image_free(img);
	strtab_free(names);
}
