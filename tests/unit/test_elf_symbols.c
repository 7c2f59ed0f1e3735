// SPDX-License-Identifier: Apache-2.0
/* Functions and PLT entries of real files as binutils names them; names in odd and malformed files. */
#include "elf/symbols.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/strtab.h"
#include "elf/image.h"
#include "test_elf_fixture.h"
#include "elf_names.h"

#define LIBC "/lib/x86_64-linux-gnu/libc.so.6"
#define LIBSTDCXX "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"

static bool is_function(const struct nm_symbol *sym)
{
	/* A weak variable of a thread has the type 'W', too, and its value is an offset. */
	return strchr("tTwWi", sym->type) && sym->bytes && sym->value >= 4096;
}

/* The innermost of nm's functions around rva: the last to begin, the shortest of those. */
static const struct nm_symbol *innermost(const struct nm_symbol *nm, size_t nr, uint64_t rva)
{
	const struct nm_symbol *best = NULL;
	size_t low = 0, high = nr, mid;

	while (low < high) {
		mid = (low + high) / 2;
		if (nm[mid].value <= rva)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low > 0 && (!best || nm[low - 1].value == best->value); low--) {
		if (!is_function(&nm[low - 1]) || rva - nm[low - 1].value >= nm[low - 1].bytes)
			continue;
		if (!best || nm[low - 1].bytes < best->bytes)
			best = &nm[low - 1];
	}
	return best;
}

/* Is sym the best symbol, or another name of the same range? */
static bool is_alias(const struct nm_symbol *nm, size_t nr, const struct nm_symbol *best,
		     const struct elf_symbol *sym)
{
	const char *name = strtab_get(elf_names, sym->name);
	size_t i = (size_t)(best - nm);

	while (i > 0 && nm[i - 1].value == best->value)
		i--;
	for (; i < nr && nm[i].value == best->value; i++)
		if (nm[i].bytes == best->bytes && !strcmp(nm[i].name, name))
			return sym->value == best->value && sym->bytes == best->bytes;
	return false;
}

/*
 * All functions of a file: first, middle and last byte have a name that nm gives to that range;
 * the bytes before and behind have one only if nm knows a function there. Returns the number of functions.
 */
static size_t compare_with_nm(const char *file, const char *nm_args)
{
	char *path = fixture_path(file);
	const struct nm_symbol *best;
	struct elf_symbol *syms, *sym;
	struct nm_symbol *nm;
	size_t nr_nm, nr = 0, nr_functions = 0, i;
	const char *name;

	nm = fixture_nm(nm_args, path, &nr_nm);
	syms = calloc(nr_nm * 5, sizeof(*syms));
	for (i = 0; i < nr_nm; i++) {
		if (!is_function(&nm[i]))
			continue;
		nr_functions++;
		syms[nr++].rva = nm[i].value - 1;
		syms[nr++].rva = nm[i].value;
		syms[nr++].rva = nm[i].value + nm[i].bytes / 2;
		syms[nr++].rva = nm[i].value + nm[i].bytes - 1;
		syms[nr++].rva = nm[i].value + nm[i].bytes;
	}
	cr_assert_eq(elf_names_resolve(path, NULL, syms, nr), 0);
	for (sym = syms; sym < syms + nr; sym++) {
		name = strtab_get(elf_names, sym->name);
		best = innermost(nm, nr_nm, sym->rva);
		if (best)
			cr_assert(is_alias(nm, nr_nm, best, sym), "%s: %#lx is %s, not %s", path,
				  sym->rva, name, best->name);
		else if (sym->name && sym->bytes)
			cr_assert(strstr(name, "@plt"), "%s: %#lx is no part of %s", path, sym->rva,
				  name);
	}
	free(nm);
	free(syms);
	free(path);
	return nr_functions;
}

Test(elf_symbols, all_functions_of_real_libraries_as_nm_knows_them)
{
	cr_assert_gt(compare_with_nm(LIBC, "-D --defined-only"), 2000);
	cr_assert_gt(compare_with_nm(LIBSTDCXX, "-D --defined-only"), 4000);
}

Test(elf_symbols, all_functions_of_this_program_as_nm_knows_them)
{
	char path[512] = { 0 };

	cr_assert(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
	cr_assert_gt(compare_with_nm(path, "--defined-only"), 50);
}

Test(elf_symbols, static_and_clang_programs_as_nm_knows_them)
{
	fixture_write("a.c", "#include <stdio.h>\n#include <string.h>\n"
			     "static int helper(int n) { return n * 3; }\n"
			     "int main(int n, char **v) { puts(v[0]); return helper(n) + "
			     "(int)strlen(v[0]); }\n");
	fixture_run(
		"gcc -static -o static a.c; clang -O1 -o clang a.c; gcc -O0 -no-pie -o nopie a.c");
	cr_assert_gt(compare_with_nm("static", "--defined-only"), 1000);
	cr_assert_gt(compare_with_nm("clang", "--defined-only"), 1);
	cr_assert_gt(compare_with_nm("nopie", "--defined-only"), 1);
}

/* The function around rva and where its answer holds. */
static struct elf_symbol same_of(const char *file, uint64_t rva)
{
	struct elf_symbol sym = { .rva = rva, .same_end = UINT64_MAX };

	cr_assert_eq(elf_names_resolve(file, NULL, &sym, 1), 0);
	cr_assert(sym.same_start <= rva && rva < sym.same_end);
	return sym;
}

Test(elf_symbols, the_answer_is_the_same_between_the_borders)
{
	static const struct {
		uint64_t off, start, end; /* from `outer` */
		const char *name;
	} cases[] = {
		{ 0, 0, 16, "outer" },	 { 15, 0, 16, "outer" },  { 16, 16, 32, "inner" },
		{ 20, 16, 32, "inner" }, { 32, 32, 64, "outer" }, { 63, 32, 64, "outer" },
		{ 64, 64, 65, "bare" },	 { 70, 70, 71, "bare" },  { 80, 80, 96, "after" },
	};
	struct elf_symbol sym, all[9] = { 0 };
	struct nm_symbol *nm;
	uint64_t base = 0;
	size_t nr, i;

	fixture_write("a.s", ".text\n.balign 64\n"
			     ".globl outer\n.type outer,@function\nouter: .skip 16,0x90\n"
			     ".type inner,@function\ninner: .skip 16,0x90\n.size inner,16\n"
			     ".skip 32,0x90\n.size outer,64\n"
			     ".type bare,@function\nbare: .skip 16,0x90\n"
			     ".type after,@function\nafter: .skip 16,0x90\n.size after,16\n");
	fixture_run("gcc -shared -nostdlib -o a.so a.s");
	nm = fixture_nm("", "a.so", &nr);
	for (i = 0; i < nr; i++)
		if (!strcmp(nm[i].name, "outer"))
			base = nm[i].value;
	free(nm);
	cr_assert(base);
	for (i = 0; i < 9; i++) {
		sym = same_of("a.so", base + cases[i].off);
		cr_expect_str_eq(strtab_get(elf_names, sym.name), cases[i].name);
		cr_expect_eq(sym.same_start, base + cases[i].start, "%zu", i);
		cr_expect_eq(sym.same_end, base + cases[i].end, "%zu", i);
		all[i] = (struct elf_symbol){ .rva = sym.rva, .same_end = UINT64_MAX };
	}
	cr_assert_eq(elf_names_resolve("a.so", NULL, all, 9), 0);
	for (i = 0; i < 9; i++)
		cr_expect(all[i].same_start == base + cases[i].start &&
				  all[i].same_end == base + cases[i].end,
			  "%zu", i);
}

Test(elf_symbols, real_functions_are_the_same_at_both_ends)
{
	struct nm_symbol *nm;
	struct elf_symbol sym;
	size_t nr, i, nr_checked = 0;

	nm = fixture_nm("-D --defined-only", LIBC, &nr);
	for (i = 0; i < nr; i += 29) {
		if (!is_function(&nm[i]))
			continue;
		sym = same_of(LIBC, nm[i].value + nm[i].bytes / 2);
		cr_expect_eq(same_of(LIBC, sym.same_start).name, sym.name);
		cr_expect_eq(same_of(LIBC, sym.same_end - 1).name, sym.name);
		nr_checked += sym.same_end - sym.same_start > 1;
	}
	cr_expect_gt(nr_checked, 40);
	free(nm);
}

struct disassembled {
	uint64_t rva;
	char name[128];
};

/* The PLT entries that objdump sees: it finds their names in its own way. */
static struct disassembled *objdump_plt(const char *path, size_t *ret_nr)
{
	struct disassembled *plt = calloc(100000, sizeof(*plt));
	char script[512], *text, *line, *next, *end;
	size_t nr = 0, len;

	snprintf(script, sizeof(script), "objdump -d '%s' | grep -E '^[0-9a-f]+ <' > plt.out",
		 path);
	fixture_run(script);
	text = fixture_read("plt.out", &len);
	for (line = text; *line && nr < 100000; line = next) {
		next = strchrnul(line, '\n');
		if (*next)
			*next++ = 0;
		plt[nr].rva = strtoull(line, &end, 16);
		if (end[0] != ' ' || end[1] != '<' || !strstr(end, "@plt>:") || strlen(end) > 120)
			continue;
		snprintf(plt[nr].name, sizeof(plt[nr].name), "%.*s", (int)strlen(end) - 4, end + 2);
		nr++;
	}
	free(text);
	*ret_nr = nr;
	return plt;
}

/* Every PLT entry of a file, first and last byte; returns the number of entries. */
static size_t compare_with_objdump(const char *file)
{
	char *path = fixture_path(file), *at;
	struct elf_symbol syms[2];
	struct disassembled *plt;
	struct elf_image *img = fixture_open(file);
	const char *name;
	size_t nr, i;

	plt = objdump_plt(path, &nr);
	for (i = 0; i < nr; i++) {
		memset(syms, 0, sizeof(syms));
		syms[0].rva = plt[i].rva;
		syms[1].rva = plt[i].rva + 5;
		cr_assert_eq(elf_symbols_resolve(img, NULL, NULL, elf_names, syms, 2), 0);
		name = strtab_get(elf_names, syms[0].name);
		cr_assert_eq(syms[0].name, syms[1].name);
		cr_assert(syms[0].name && strstr(name, "@plt"), "%s: %#lx is '%s', not %s", path,
			  plt[i].rva, name, plt[i].name);
		cr_assert_eq(syms[0].value, plt[i].rva);
		/* binutils leaves a file's own ifuncs as *ABS*+0xADDRESS@plt: we name them. */
		at = strchr(plt[i].name, '@');
		if (strncmp(plt[i].name, "*ABS*", 5) && at)
			cr_assert(!strncmp(name, plt[i].name, (size_t)(at - plt[i].name)) &&
					  !strcmp(name + (at - plt[i].name), "@plt"),
				  "%s: %s, not %s", path, name, plt[i].name);
	}
	elf_image_free(img);
	free(plt);
	free(path);
	return nr;
}

Test(elf_symbols, plt_as_objdump_names_it)
{
	fixture_write(
		"a.c",
		"#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n"
		"int main(int n, char **v) { void (*volatile f)(void) = (void (*)(void))getpid;\n"
		"puts(v[0]); printf(\"%d %p\", rand(), (void *)f);\n"
		"return getpid() + abs(n) + (int)write(1, v[0], 1); }\n");
	fixture_run("gcc -o plain a.c; gcc -Wl,-z,now -o now a.c; gcc -Wl,-z,lazy -o lazy a.c;"
		    "gcc -fcf-protection -Wl,-z,ibtplt,-z,lazy -o ibt a.c;"
		    "gcc -fcf-protection -Wl,-z,ibtplt,-z,now -o ibtnow a.c;"
		    "gcc -fno-pie -no-pie -o nopie a.c; gcc -static -o static a.c;"
		    "gcc -fuse-ld=gold -o gold a.c; strip -o stripped plain");
	cr_assert_geq(compare_with_objdump("plain"), 4);
	cr_assert_geq(compare_with_objdump("now"), 4);
	cr_assert_geq(compare_with_objdump("lazy"), 4);
	cr_assert_geq(compare_with_objdump("ibt"), 4);
	cr_assert_geq(compare_with_objdump("ibtnow"), 4);
	cr_assert_geq(compare_with_objdump("nopie"), 4);
	cr_assert_geq(compare_with_objdump("gold"), 4);
	cr_assert_geq(compare_with_objdump("stripped"), 4);
	cr_assert_geq(compare_with_objdump(LIBC), 10);
	cr_assert_geq(compare_with_objdump(LIBSTDCXX), 100);
}

/* A static program calls its ifuncs through a PLT that only IRELATIVE relocations describe. */
Test(elf_symbols, plt_of_static_programs_is_named_by_resolvers)
{
	char *text, *line, *next, want[300];
	uint64_t entry, resolver;
	struct nm_symbol *nm;
	size_t len, nr, nr_seen = 0, nr_named = 0, i;
	const char *name;

	fixture_write(
		"a.c",
		"#include <string.h>\nint main(int n, char **v) { return (int)strlen(v[n]); }\n");
	/* ENTRY RESOLVER: the entry's jump target word as objdump resolves it, joined with readelf's. */
	fixture_run(
		"gcc -static -o static a.c; readelf -rW static | awk '/IRELATIV/ { print $1, $4 }' "
		"|"
		"sed 's/^0*//' | sort > relocs;"
		"objdump -d -j .plt static | awk '/jmp.*# / { sub(\":\", \"\", $1);"
		"for (i = 1; i < NF; i++) if ($i == \"#\") print $(i + 1), $1 }' | sort > jumps;"
		"join jumps relocs | cut -d' ' -f2,3 > joined");
	nm = fixture_nm("--defined-only", "static", &nr);
	text = fixture_read("joined", &len);
	for (line = text; *line; line = next + (*next == '\n')) {
		entry = strtoull(line, &next, 16);
		resolver = strtoull(next, &next, 16);
		nr_seen++;
		name = elf_name_of("static", NULL, entry + 2);
		for (i = 0; i < nr; i++) {
			snprintf(want, sizeof(want), "%s@plt", nm[i].name);
			if (nm[i].value == resolver && !strcmp(want, name))
				break;
		}
		nr_named += i < nr;
		cr_assert(i < nr || !*name, "%#lx is not %s", entry, name);
	}
	cr_assert(nr_seen >= 10 && nr_named == nr_seen, "%zu of %zu", nr_named, nr_seen);
	free(text);
	free(nm);
}

/* An address between functions has no name, rather than that of the function before it. */
Test(elf_symbols, plt_header_is_not_init)
{
	fixture_write("a.c", "#include <stdio.h>\nint main(void) { puts(\"\"); }\n");
	fixture_run("gcc -Wl,-z,lazy -o a a.c; strip -o stripped a;"
		    "gcc -fcf-protection -Wl,-z,ibtplt,-z,lazy -o ibt a.c");
	cr_assert_str_eq(elf_name_of("a", NULL, elf_section_va("a", ".plt")), "");
	cr_assert_str_eq(elf_name_of("a", NULL, elf_section_va("a", ".plt") + 8), "");
	cr_assert_str_eq(elf_name_of("a", NULL, elf_section_va("a", ".plt") + 16), "puts@plt");
	cr_assert_str_eq(elf_name_of("a", NULL, elf_section_va("a", ".init") + 4), "_init");
	cr_assert_str_eq(elf_name_of("ibt", NULL, elf_section_va("ibt", ".plt") + 4), "");
	cr_assert_str_eq(elf_name_of("ibt", NULL, elf_section_va("ibt", ".plt") + 20), "puts@plt");
	cr_assert_str_eq(elf_name_of("ibt", NULL, elf_section_va("ibt", ".plt.sec") + 4),
			 "puts@plt");
	cr_assert_str_eq(elf_name_of("stripped", NULL, elf_section_va("a", ".plt") + 16),
			 "puts@plt");
	cr_assert_str_eq(elf_name_of("stripped", NULL, elf_section_va("a", ".init") + 4), "");
}

Test(elf_symbols, versions_are_no_part_of_a_name)
{
	fixture_write("a.c", "__attribute__((noinline)) int impl(int n) { return n; }\n"
			     "asm(\".symver impl,versioned@@V1\");\n");
	fixture_run("echo 'V1 { global: versioned; local: *; };' > map;"
		    "gcc -shared -fPIC -O0 -Wl,--version-script=map -o a.so a.c; nm a.so | grep -q "
		    "versioned@@V1");
	cr_assert_str_eq(elf_name_of("a.so", NULL, fixture_value("a.so", "versioned")),
			 "versioned");
}

/* The image as in the memory of a process, or after `strip --strip-section-headers`. */
Test(elf_symbols, without_section_headers)
{
	static const char *const styles[] = { "gnu", "sysv", "both" };
	struct elf_symbol syms[3];
	struct elf_image *img;
	char script[200], *data;
	size_t len, i;

	fixture_write("a.c", "int one(int n) { return n + 1; }\nint two(int n) { return n * 2; }\n"
			     "static __attribute__((used)) int mine(void) { return 3; }\n");
	for (i = 0; i < 3; i++) {
		snprintf(script, sizeof(script),
			 "gcc -shared -fPIC -O0 -Wl,--hash-style=%s -o a.so a.c", styles[i]);
		fixture_run(script);
		memset(syms, 0, sizeof(syms));
		syms[0].rva = fixture_value("a.so", "one") + 2;
		syms[1].rva = fixture_value("a.so", "two") + 2;
		syms[2].rva = fixture_value("a.so", "mine") + 2;
		data = fixture_read("a.so", &len);
		memset(data + offsetof(Elf64_Ehdr, e_shoff), 0, 8);
		memset(data + offsetof(Elf64_Ehdr, e_shnum), 0, 4);
		cr_assert_eq(elf_image_open_memory(&img, data, len), 0);
		cr_assert_eq(elf_symbols_resolve(img, NULL, NULL, elf_names, syms, 3), 0);
		cr_assert_str_eq(strtab_get(elf_names, syms[0].name), "one", "%s", styles[i]);
		cr_assert_str_eq(strtab_get(elf_names, syms[1].name), "two", "%s", styles[i]);
		cr_assert_str_eq(strtab_get(elf_names, syms[2].name), "", "%s", styles[i]);
		elf_image_free(img);
		free(data);
	}
}

/* Sections with false content: the result is an error or nothing, never a read outside. */
Test(elf_symbols, malformed_tables)
{
	struct elf_symbol sym = { 0 };
	Elf64_Ehdr *eh;
	Elf64_Shdr *sh;
	struct elf_image *img;
	char *data, *copy;
	size_t len, i, k;
	int err;
	static const struct {
		uint32_t type;
		size_t offset, bytes;
		uint64_t value;
		int want;
	} cases[] = {
		{ SHT_SYMTAB, offsetof(Elf64_Shdr, sh_offset), 8, UINT64_MAX - 100, -EBADMSG },
		{ SHT_SYMTAB, offsetof(Elf64_Shdr, sh_offset), 8, 1U << 30, -EBADMSG },
		{ SHT_SYMTAB, offsetof(Elf64_Shdr, sh_size), 8, UINT64_MAX, -E2BIG },
		{ SHT_SYMTAB, offsetof(Elf64_Shdr, sh_size), 8, 1U << 20, -EBADMSG },
		{ SHT_SYMTAB, offsetof(Elf64_Shdr, sh_entsize), 8, 23, -EBADMSG },
		{ SHT_SYMTAB, offsetof(Elf64_Shdr, sh_link), 4, 10000, -EBADMSG },
		{ SHT_SYMTAB, offsetof(Elf64_Shdr, sh_link), 4, 0, -EBADMSG },
		{ SHT_STRTAB, offsetof(Elf64_Shdr, sh_offset), 8, 1U << 30, -EBADMSG },
		{ SHT_STRTAB, offsetof(Elf64_Shdr, sh_size), 8, UINT64_MAX, -EBADMSG },
		{ SHT_STRTAB, offsetof(Elf64_Shdr, sh_size), 8, 0, 0 },
	};

	fixture_write("a.c", elf_two_functions);
	fixture_run("gcc -O1 -o a a.c");
	sym.rva = fixture_value("a", "hidden");
	data = fixture_read("a", &len);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		copy = malloc(len);
		memcpy(copy, data, len);
		eh = (Elf64_Ehdr *)copy;
		sh = (Elf64_Shdr *)(copy + eh->e_shoff);
		for (k = eh->e_shnum;
		     k-- > 0 && (sh[k].sh_type != cases[i].type || k == eh->e_shstrndx);)
			;
		memcpy((char *)&sh[k] + cases[i].offset, &cases[i].value, cases[i].bytes);
		cr_assert_eq(elf_image_open_memory(&img, copy, len), 0);
		sym.name = 0;
		err = elf_symbols_resolve(img, NULL, NULL, elf_names, &sym, 1);
		cr_assert_eq(err, cases[i].want, "case %zu: %d", i, err);
		elf_image_free(img);
		free(copy);
	}
	free(data);
}
