// SPDX-License-Identifier: Apache-2.0
#include "elf/symbol_find.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elf/image.h"
#include "test_elf_fixture.h"

#define LIBC "/lib/x86_64-linux-gnu/libc.so.6"
#define NO_LIMIT (1U << 30)

TestSuite(symbol_find, .timeout = 120);

static const char source[] = "int the_name(int n) { return n + 1; }\n"
			     "int other_the_name(int n) { return n + 2; }\n"
			     "int data_here = 5;\n"
			     "extern int not_here(void);\n"
			     "int caller(void) { return not_here(); }\n"
			     "__asm__(\".globl constant\\n.set constant, 77\");\n";

static void build(const char *file, const char *options)
{
	char script[256];

	fixture_write("a.c", source);
	snprintf(script, sizeof(script), "gcc -O1 -fPIC -shared -nostdlib %s -o %s a.c", options,
		 file);
	fixture_run(script);
}

static void check_lookups(const char *file)
{
	static const char *const names[] = { "the_name", "not_here", "data_here", "absent",
					     "constant", "_name",    "the_nam" };
	struct symbol_found found[7];
	struct elf_image *img = fixture_open(file);
	char *path = fixture_path(file);

	cr_assert_eq(symbol_find_dynamic(img, names, 7, found), 0);
	cr_assert_eq(found[0].pattern, 0);
	cr_assert_eq(found[0].value, fixture_value(path, "the_name"));
	cr_assert_eq(found[0].type, STT_FUNC);
	cr_assert_gt(found[0].bytes, 0);
	cr_assert_eq(found[2].pattern, 2);
	cr_assert_eq(found[2].value, fixture_value(path, "data_here"));
	cr_assert_eq(found[2].bytes, 4);
	cr_assert_eq(found[2].type, STT_OBJECT);
	/* Undefined, absent, absolute, the end and the beginning of a name. */
	cr_assert_eq(found[1].pattern, UINT32_MAX);
	cr_assert_eq(found[3].pattern, UINT32_MAX);
	cr_assert_eq(found[4].pattern, UINT32_MAX);
	cr_assert_eq(found[5].pattern, UINT32_MAX);
	cr_assert_eq(found[6].pattern, UINT32_MAX);
	elf_image_free(img);
	free(path);
}

Test(symbol_find, gnu_hash)
{
	build("gnu.so", "-Wl,--hash-style=gnu");
	check_lookups("gnu.so");
}

Test(symbol_find, sysv_hash)
{
	build("sysv.so", "-Wl,--hash-style=sysv");
	check_lookups("sysv.so");
}

Test(symbol_find, without_section_headers)
{
	size_t len;
	char *data;
	char *path;
	FILE *f;

	build("whole.so", "-Wl,--hash-style=gnu");
	data = fixture_read("whole.so", &len);
	memset(data + offsetof(Elf64_Ehdr, e_shoff), 0, 8);
	memset(data + offsetof(Elf64_Ehdr, e_shnum), 0, 4);
	path = fixture_path("cut.so");
	f = fopen(path, "w");
	cr_assert(f && fwrite(data, 1, len, f) == len && !fclose(f));
	free(path);
	free(data);
	{
		static const char *const names[] = { "the_name" };
		struct symbol_found found;
		struct elf_image *img = fixture_open("cut.so");

		path = fixture_path("whole.so");
		cr_assert_eq(symbol_find_dynamic(img, names, 1, &found), 0);
		cr_assert_eq(found.value, fixture_value(path, "the_name"));
		elf_image_free(img);
		free(path);
	}
}

/* Every name of a large library, against nm: each must be found, and none of another spelling. */
Test(symbol_find, all_of_libc)
{
	struct elf_image *img = fixture_open(LIBC);
	struct nm_symbol *syms;
	size_t nr, i, found_nr = 0;

	syms = fixture_nm("-D --defined-only", LIBC, &nr);
	cr_assert_gt(nr, 1000);
	for (i = 0; i < nr; i++) {
		const char *name = syms[i].name, *wrong;
		struct symbol_found found = { 0 };
		char other[sizeof(syms[i].name) + 1];

		cr_assert_eq(symbol_find_dynamic(img, &name, 1, &found), 0);
		if (syms[i].type == 'A')
			continue;
		cr_assert_eq(found.pattern, 0, "%s", name);
		if (found.value == syms[i].value)
			found_nr++; /* else another version of it */
		snprintf(other, sizeof(other), "%s~", name);
		wrong = other;
		cr_assert_eq(symbol_find_dynamic(img, &wrong, 1, &found), 0);
		cr_assert_eq(found.pattern, UINT32_MAX, "%s", other);
	}
	cr_assert_gt(found_nr, nr * 9 / 10, "%zu of %zu", found_nr, nr);
	free(syms);
	elf_image_free(img);
}

Test(symbol_find, no_tables)
{
	static const char *const names[] = { "_start" };
	struct symbol_found found = { .value = 42 };
	struct symbol_pattern pattern = { "_start", SYMBOL_EXACT };
	struct elf_image *img;
	size_t nr = 42;

	fixture_write("s.S", ".globl _start\n_start: ret\n");
	fixture_run("gcc -nostdlib -static -o plain s.S; strip -o stripped plain");
	img = fixture_open("stripped");
	cr_assert_eq(symbol_find_dynamic(img, names, 1, &found), -ENODATA);
	cr_assert_eq(found.value, 42);
	cr_assert_eq(symbol_find_all(img, SHT_SYMTAB, NO_LIMIT, &pattern, 1, &found, 1, &nr),
		     -ENODATA);
	cr_assert_eq(nr, 42);
	elf_image_free(img);
	img = fixture_open("plain");
	cr_assert_eq(symbol_find_dynamic(img, names, 1, &found), -ENODATA);
	cr_assert_eq(symbol_find_all(img, SHT_SYMTAB, NO_LIMIT, &pattern, 1, &found, 1, &nr), 0);
	cr_assert_eq(nr, 1);
	elf_image_free(img);
}

static size_t count(struct elf_image *img, const char *name, enum symbol_match match)
{
	struct symbol_pattern pattern = { name, match };
	struct symbol_found found[64];
	size_t nr;

	cr_assert_eq(symbol_find_all(img, SHT_SYMTAB, NO_LIMIT, &pattern, 1, found, 64, &nr), 0);
	return nr;
}

Test(symbol_find, patterns)
{
	struct symbol_pattern both[] = { { "_two", SYMBOL_PREFIX }, { "one", SYMBOL_PARTS } };
	struct symbol_found found[64];
	struct elf_image *img;
	size_t nr;

	fixture_write("p.S",
		      "	.globl _start, one, plus_one, one.cold, one.part.0, oneness, one_\n"
		      "_start: one: nop\none.cold: nop\none.part.0: nop\noneness: nop\n"
		      "one_: nop\nplus_one: nop\n_two_a: nop\n_two_b.llvm.1: nop\nx_two: nop\n"
		      "	.globl old\n	.symver old, one@VERS_1\nold: ret\n");
	fixture_write("p.map", "VERS_1 { };");
	fixture_run("gcc -nostdlib -shared -Wl,--version-script=p.map -o p.so p.S");
	img = fixture_open("p.so");
	/* `one` and `one@VERS_1`; not `plus_one`, whose string may hold that of `one`. */
	cr_assert_eq(count(img, "one", SYMBOL_EXACT), 2);
	cr_assert_eq(count(img, "one", SYMBOL_PARTS), 4);
	cr_assert_eq(count(img, "one", SYMBOL_PREFIX), 6);
	cr_assert_eq(count(img, "_two", SYMBOL_PREFIX), 2);
	cr_assert_eq(count(img, "_two", SYMBOL_EXACT), 0);
	cr_assert_eq(symbol_find_all(img, SHT_SYMTAB, NO_LIMIT, both, 2, found, 64, &nr), 0);
	cr_assert_eq(nr, 6);
	cr_assert_eq(symbol_find_all(img, SHT_SYMTAB, NO_LIMIT, both, 2, found, 3, &nr), 0);
	cr_assert_eq(nr, 3);
	cr_assert_eq(symbol_find_all(img, SHT_SYMTAB, 64, both, 2, found, 64, &nr), -E2BIG);
	elf_image_free(img);
}

/* Those that begin alike are met in one go: each of them, and nothing that only looks like one. */
Test(symbol_find, alike)
{
	static const struct symbol_pattern patterns[] = {
		{ "one", SYMBOL_EXACT },
		{ "ncclSend", SYMBOL_EXACT },
		{ "ncclSendLater", SYMBOL_EXACT },
		{ "nccl", SYMBOL_EXACT },
		{ "ncclRecv", SYMBOL_PARTS },
		{ "ncclA", SYMBOL_PREFIX },
		{ "on", SYMBOL_EXACT },
	};
	static const uint32_t wanted[] = { 0, 1, 2, 3, 4, 4, 5, 5, 6 };
	struct symbol_found found[64];
	struct elf_image *img;
	size_t nr, i;

	fixture_write("a.S",
		      "one: nop\nncclSend: nop\nncclSendLater: nop\nnccl: nop\nncclRecv: nop\n"
		      "ncclRecv.cold: nop\nncclA: nop\nncclAll: nop\non: nop\n"
		      "ncclSen: nop\nncclSend.cold: nop\nncclRecvs: nop\nonce: nop\nncc: nop\n"
		      "xncclSenX: nop\nncclX: nop\nNcclSend: nop\n");
	fixture_run("gcc -nostdlib -shared -o a.so a.S");
	img = fixture_open("a.so");
	cr_assert_eq(symbol_find_all(img, SHT_SYMTAB, NO_LIMIT, patterns,
				     sizeof(patterns) / sizeof(patterns[0]), found, 64, &nr),
		     0);
	cr_assert_eq(nr, sizeof(wanted) / sizeof(wanted[0]), "%zu", nr);
	for (i = 0; i < nr; i++)
		cr_expect_eq(found[i].pattern, wanted[i], "%zu: %u", i, found[i].pattern);
	elf_image_free(img);
}

/* Names on both sides of the places where the strings are cut into pieces. */
Test(symbol_find, large_table)
{
	struct elf_image *img;
	struct symbol_pattern pattern = { "needle_", SYMBOL_PREFIX };
	static struct symbol_found found[4096];
	size_t nr, i;

	fixture_run("for i in $(seq 1 3000); do echo \".globl needle_$i; needle_$i: nop\";"
		    " echo \".globl a_long_name_that_is_only_filling_this_$i;"
		    " a_long_name_that_is_only_filling_this_$i: nop\"; done > big.S;"
		    "gcc -nostdlib -shared -o big.so big.S");
	img = fixture_open("big.so");
	cr_assert_eq(symbol_find_all(img, SHT_SYMTAB, NO_LIMIT, &pattern, 1, found, 4096, &nr), 0);
	cr_assert_eq(nr, 3000);
	for (i = 1; i < nr; i++)
		cr_assert_neq(found[i].value, found[0].value);
	elf_image_free(img);
}

struct hostile {
	const char *name;
	unsigned int word; /* of .gnu.hash, 4 bytes each */
	uint32_t value;
	int wanted;
};

/* Nothing is read out of the file's bounds, and no chain is followed for ever. */
Test(symbol_find, hostile_hash)
{
	static const struct hostile cases[] = {
		{ "no buckets", 0, 0, 0 },
		{ "buckets far away", 2, 0xffffffff, -EBADMSG },
		{ "no bloom filter", 2, 0, 0 },
	};
	static const char *const names[] = { "the_name" };
	struct symbol_found found;
	struct elf_image *img;
	const struct elf_section *sec;
	uint64_t off;
	size_t i, len;
	char *data;

	build("h.so", "-Wl,--hash-style=gnu");
	img = fixture_open("h.so");
	sec = elf_image_section(img, ".gnu.hash");
	cr_assert(sec);
	off = sec->off;
	elf_image_free(img);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		data = fixture_read("h.so", &len);
		memcpy(data + off + cases[i].word * 4, &cases[i].value, 4);
		cr_assert_eq(elf_image_open_memory(&img, data, len), 0);
		found.pattern = UINT32_MAX;
		cr_assert_eq(symbol_find_dynamic(img, names, 1, &found), cases[i].wanted, "%s",
			     cases[i].name);
		cr_assert_eq(found.pattern, UINT32_MAX, "%s", cases[i].name);
		elf_image_free(img);
		free(data);
	}
}

/* A chain that never ends: sysv chains can be made into rings. */
Test(symbol_find, ring)
{
	static const char *const names[] = { "no_such_name" };
	const struct elf_section *sec;
	struct symbol_found found;
	struct elf_image *img;
	uint32_t *table, nr, i;
	size_t len;
	char *data;

	build("ring.so", "-Wl,--hash-style=sysv");
	data = fixture_read("ring.so", &len);
	cr_assert_eq(elf_image_open_memory(&img, data, len), 0);
	sec = elf_image_section(img, ".hash");
	cr_assert(sec);
	table = (uint32_t *)(data + sec->off);
	nr = table[0] + table[1];
	for (i = 0; i < nr; i++)
		table[2 + i] = 1;
	elf_image_drop_cache(img);
	cr_assert_eq(symbol_find_dynamic(img, names, 1, &found), -EBADMSG);
	elf_image_free(img);
	free(data);
}
