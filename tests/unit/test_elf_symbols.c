// SPDX-License-Identifier: Apache-2.0
#include "elf/symbols.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/strtab.h"
#include "elf/image.h"
#include "test_elf_fixture.h"

#define LIBC "/lib/x86_64-linux-gnu/libc.so.6"
#define LIBSTDCXX "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"

static struct strtab *names;

static void setup(void)
{
	cr_assert(!strtab_new(&names, 64 << 20));
}

static void teardown(void)
{
	strtab_free(names);
}

TestSuite(elf_symbols, .init = setup, .fini = teardown, .timeout = 120);

static int compare_rva(const void *a, const void *b)
{
	const struct elf_symbol *x = a, *y = b;

	return x->rva < y->rva ? -1 : x->rva > y->rva;
}

static int resolve(const char *file, const struct elf_debug_paths *paths, struct elf_symbol *syms,
		   size_t nr)
{
	struct elf_image *img = fixture_open(file);
	int err;

	qsort(syms, nr, sizeof(*syms), compare_rva);
	err = elf_symbols_resolve(img, paths, NULL, names, syms, nr);
	elf_image_free(img);
	return err;
}

/* The name of one address, "" if it has none. */
static const char *name_of(const char *file, const struct elf_debug_paths *paths, uint64_t rva)
{
	struct elf_symbol sym = { .rva = rva };

	cr_assert_eq(resolve(file, paths, &sym, 1), 0);
	return strtab_get(names, sym.name);
}

static bool is_function(const struct nm_symbol *sym)
{
	return strchr("tTwWi", sym->type) && sym->bytes;
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

/* Whether sym is best or another name of the same range. */
static bool is_alias(const struct nm_symbol *nm, size_t nr, const struct nm_symbol *best,
		     const struct elf_symbol *sym)
{
	const char *name = strtab_get(names, sym->name);
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
	cr_assert_eq(resolve(path, NULL, syms, nr), 0);
	for (sym = syms; sym < syms + nr; sym++) {
		name = strtab_get(names, sym->name);
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

	cr_assert_eq(resolve(file, NULL, &sym, 1), 0);
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
		cr_expect_str_eq(strtab_get(names, sym.name), cases[i].name);
		cr_expect_eq(sym.same_start, base + cases[i].start, "%zu", i);
		cr_expect_eq(sym.same_end, base + cases[i].end, "%zu", i);
		all[i] = (struct elf_symbol){ .rva = sym.rva, .same_end = UINT64_MAX };
	}
	cr_assert_eq(resolve("a.so", NULL, all, 9), 0);
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

/* Where objdump sees PLT entries: it finds their names on its own. */
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
		cr_assert_eq(elf_symbols_resolve(img, NULL, NULL, names, syms, 2), 0);
		name = strtab_get(names, syms[0].name);
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
		name = name_of("static", NULL, entry + 2);
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

static uint64_t section_va(const char *file, const char *section)
{
	struct elf_image *img = fixture_open(file);
	const struct elf_section *sec = elf_image_section(img, section);
	uint64_t va = sec ? sec->va : 0;

	elf_image_free(img);
	cr_assert_neq(va, 0);
	return va;
}

/* No name at all rather than that of a function which merely precedes. */
Test(elf_symbols, plt_header_is_not_init)
{
	fixture_write("a.c", "#include <stdio.h>\nint main(void) { puts(\"\"); }\n");
	fixture_run("gcc -Wl,-z,lazy -o a a.c; strip -o stripped a;"
		    "gcc -fcf-protection -Wl,-z,ibtplt,-z,lazy -o ibt a.c");
	cr_assert_str_eq(name_of("a", NULL, section_va("a", ".plt")), "");
	cr_assert_str_eq(name_of("a", NULL, section_va("a", ".plt") + 8), "");
	cr_assert_str_eq(name_of("a", NULL, section_va("a", ".plt") + 16), "puts@plt");
	cr_assert_str_eq(name_of("a", NULL, section_va("a", ".init") + 4), "_init");
	cr_assert_str_eq(name_of("ibt", NULL, section_va("ibt", ".plt") + 4), "");
	cr_assert_str_eq(name_of("ibt", NULL, section_va("ibt", ".plt") + 20), "puts@plt");
	cr_assert_str_eq(name_of("ibt", NULL, section_va("ibt", ".plt.sec") + 4), "puts@plt");
	cr_assert_str_eq(name_of("stripped", NULL, section_va("a", ".plt") + 16), "puts@plt");
	cr_assert_str_eq(name_of("stripped", NULL, section_va("a", ".init") + 4), "");
}

/* Offsets are written out so that expected names can be read off the source. */
static const char assembly[] =
	".text\n"
	".balign 256\n"
	".globl base; base: .skip 16\n" /* 0: a label, nothing else */
	".globl sized; .type sized,@function; sized: .skip 8\n" /* 16 */
	"inner: .skip 8\n" /* 24: label inside of sized */
	".size sized,16\n"
	".skip 16\n" /* 32: nobody's */
	".type unsized,@function; unsized: .skip 16\n" /* 48 */
	".globl object; .type object,@object; object: .skip 16\n" /* 64 */
	".type outer,@function; outer: .skip 4\n" /* 80 */
	".type nested,@function; nested: .skip 4; .size nested,4\n" /* 84 */
	".skip 8; .size outer,16\n" /* 88 */
	".weak weak_name; .globl a_global; .type a_global,@function\n"
	".type weak_name,@function; .type alias,@function\n"
	"weak_name: alias: a_global: .skip 16\n" /* 96 */
	".size weak_name,16; .size alias,16; .size a_global,16\n"
	".globl longer, short; .type longer,@function; .type short,@function\n"
	"longer: short: .skip 16\n" /* 112 */
	".size longer,16; .size short,16\n"
	".globl untyped; untyped: .skip 16; .size untyped,16\n" /* 128 */
	".globl big; .type big,@function; .type small,@function\n"
	"big: small: .skip 16; .size big,16; .size small,8\n" /* 144 */
	".type first_one,@function; .type o,@function; .type last_one,@function\n"
	"first_one: o: last_one: .skip 16\n" /* 160 */
	".size first_one,16; .size o,16; .size last_one,16\n"
	".globl part; .type whole,@function; .type part,@function\n"
	"whole: part: .skip 16; .size whole,16; .size part,8\n" /* 176 */
	".globl last; .type last,@function; last: .skip 16\n" /* 192 */
	".section .other,\"ax\",@progbits\n"
	".skip 64\n"
	".globl huge; .type huge,@function; huge: .skip 16; .size huge,4096\n";

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

	fixture_write("a.S", assembly);
	fixture_run("gcc -c -o a.o a.S; ld -e base -o a a.o; strip -x -o globals a");
	base = fixture_value("a", "base");
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_assert_str_eq(name_of("a", NULL, base + cases[i].off), cases[i].name, "%lu",
				 cases[i].off);
	/* A symbol ends with its section, and another section's symbols do not precede. */
	other = section_va("a", ".other");
	cr_assert_str_eq(name_of("a", NULL, other), "");
	cr_assert_str_eq(name_of("a", NULL, other + 64), "huge");
	cr_assert_str_eq(name_of("a", NULL, other + 79), "huge");
	cr_assert_str_eq(name_of("a", NULL, other + 80), "");
	/* Local symbols were removed: anything may follow a label now. */
	cr_assert_str_eq(name_of("globals", NULL, base + 16), "sized");
	cr_assert_str_eq(name_of("globals", NULL, base + 48), "");
	cr_assert_str_eq(name_of("globals", NULL, base + 196), "");
}

/* Queries in one call or one by one: the same; entries with a name are left alone. */
Test(elf_symbols, many_at_once_and_named_ones)
{
	struct elf_symbol syms[200] = { 0 };
	uint64_t base;
	size_t i;

	fixture_write("a.S", assembly);
	fixture_run("gcc -c -o a.o a.S; ld -e base -o a a.o");
	base = fixture_value("a", "base");
	for (i = 0; i < 200; i++)
		syms[i].rva = base + i - 20;
	syms[40].name = strtab_add(names, "known");
	cr_assert_eq(resolve("a", NULL, syms, 200), 0);
	for (i = 0; i < 200; i++)
		if (i != 40)
			cr_assert_str_eq(strtab_get(names, syms[i].name),
					 name_of("a", NULL, syms[i].rva), "%zu", i);
	cr_assert_str_eq(strtab_get(names, syms[40].name), "known");
	cr_assert_eq(resolve("a", NULL, syms, 0), 0);
}

static const char two_functions[] =
	"static __attribute__((noinline)) int hidden(int n) { return n * 3 + 1; }\n"
	"__attribute__((noinline)) int exported(int n) { return hidden(n) * 5; }\n"
	"int main(int n, char **v) { (void)v; return exported(n); }\n"
	"asm(\".text\\n.type bare,@function\\nbare: .skip 16\\n.globl shown\\n.type "
	"shown,@function\\n\"\n"
	"    \"shown: .skip 16\\n.size shown,16\\n.skip 16\");\n";

/* The recipe of Fedora's find-debuginfo: functions that .dynsym lacks, xz, one section. */
static const char minidebuginfo[] =
	"gcc -O1 -rdynamic -o full a.c; nm -D full --format=posix --defined-only | awk '{print "
	"$1}' | sort > dyn;"
	"nm full --format=posix --defined-only | awk '$2 ~ /[Tt]/ {print $1}' | sort > all;"
	"comm -13 dyn all > keep; objcopy -S --keep-symbols=keep full mini.debug 2>/dev/null;"
	"objcopy --only-keep-debug full only; objcopy -S --remove-section .comment "
	"--keep-symbols=keep only mini;"
	"xz -k mini; strip -o a full; objcopy --add-section .gnu_debugdata=mini.xz a";

Test(elf_symbols, debugdata_inside_the_file)
{
	uint64_t hidden;

	fixture_write("a.c", two_functions);
	fixture_run(minidebuginfo);
	hidden = fixture_value("full", "hidden");
	cr_assert_str_eq(name_of("a", NULL, hidden), "hidden");
	cr_assert_str_eq(name_of("a", NULL, fixture_value("full", "exported") + 1), "exported");
	/* Its symbols do not border on those of .dynsym: no names for what has no size. */
	cr_assert_str_eq(name_of("full", NULL, fixture_value("full", "bare") + 1), "bare");
	cr_assert_str_eq(name_of("a", NULL, fixture_value("full", "bare") + 1), "");
	cr_assert_str_eq(name_of("a", NULL, fixture_value("full", "shown") + 1), "shown");
	cr_assert_str_eq(name_of("a", NULL, fixture_value("full", "shown") + 20), "");
	fixture_run("strip -R .gnu_debugdata -o none a");
	cr_assert_str_eq(name_of("none", NULL, hidden), "");
	cr_assert_str_eq(name_of("none", NULL, fixture_value("full", "exported") + 1), "exported");
}

Test(elf_symbols, debugdata_bombs_are_refused)
{
	struct elf_symbol syms[2] = { 0 };
	uint64_t hidden, exported;

	fixture_write("a.c", two_functions);
	fixture_run(minidebuginfo);
	hidden = fixture_value("full", "hidden");
	exported = fixture_value("full", "exported");
	fixture_run(
		"set_data() { objcopy --update-section .gnu_debugdata=$1 a $2; };"
		"head -c 40000000 /dev/zero | xz > bomb.xz; set_data bomb.xz bomb;"
		"xz -k --lzma2=dict=512MiB -c mini > wide.xz; set_data wide.xz wide;"
		"head -c 100 mini.xz > cut.xz; set_data cut.xz cut;"
		"head -c 500 mini.xz | tr '\\000-\\377' '\\377\\000-\\376' > bad.xz; set_data "
		"bad.xz bad;"
		"xz -c full.c > text.xz 2>/dev/null || xz -c a.c > text.xz; set_data text.xz text");
	static const struct {
		const char *file;
		int want;
	} cases[] = { { "bomb", -E2BIG },
		      { "wide", -E2BIG },
		      { "cut", -EBADMSG },
		      { "bad", -EBADMSG },
		      { "text", -EBADMSG } };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(syms, 0, sizeof(syms));
		syms[0].rva = hidden;
		syms[1].rva = exported;
		cr_assert_eq(resolve(cases[i].file, NULL, syms, 2), cases[i].want, "%s",
			     cases[i].file);
		/* What was found before stays. */
		cr_assert_str_eq(strtab_get(names, syms[syms[1].rva == exported].name), "exported");
		cr_assert_eq(syms[syms[1].rva != exported].name, 0);
	}
}

struct opened {
	char paths[1024];
};

static struct elf_image *open_recorded(void *arg, const char *path)
{
	struct opened *opened = arg;
	struct elf_image *img = NULL;
	int fd;

	if (strlen(opened->paths) + strlen(path) + 2 < sizeof(opened->paths)) {
		strncat(opened->paths, path + strlen(fixture_dir()), 256);
		strncat(opened->paths, "\n", 2);
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && !elf_image_open_fd(&img, fd) ? img : NULL;
}

Test(elf_symbols, separate_debug_files)
{
	struct opened opened = { 0 };
	char root[100], script[600];
	struct elf_debug_paths paths = {
		.dir = fixture_dir(), .root = root, .open = open_recorded, .arg = &opened
	};
	uint64_t hidden;

	snprintf(root, sizeof(root), "%s/debug", fixture_dir());
	fixture_write("a.c", two_functions);
	fixture_run("gcc -g -O1 -Wl,--build-id=0xabcdef0123 -o full a.c; objcopy --only-keep-debug "
		    "full x.debug;"
		    "strip -o a full; objcopy --add-gnu-debuglink=x.debug a linked;"
		    "mkdir -p debug/.build-id/ab .debug");
	hidden = fixture_value("full", "hidden");
	/* Beside the image. */
	cr_assert_str_eq(name_of("linked", &paths, hidden), "hidden");
	cr_assert_str_eq(opened.paths, "/debug/.build-id/ab/cdef0123.debug\n/x.debug\n");
	cr_assert_str_eq(name_of("linked", NULL, hidden), "");
	cr_assert_str_eq(name_of("a", &paths, hidden), "");
	/* .debug, root/dir, .build-id */
	fixture_run("mv x.debug .debug/");
	cr_assert_str_eq(name_of("linked", &paths, hidden), "hidden");
	snprintf(script, sizeof(script), "mkdir -p debug%s; mv .debug/x.debug debug%s/",
		 fixture_dir(), fixture_dir());
	fixture_run(script);
	cr_assert_str_eq(name_of("linked", &paths, hidden), "hidden");
	snprintf(script, sizeof(script), "mv debug%s/x.debug debug/.build-id/ab/cdef0123.debug",
		 fixture_dir());
	fixture_run(script);
	cr_assert_str_eq(name_of("a", &paths, hidden), "hidden");
	cr_assert_str_eq(name_of("linked", &paths, hidden), "hidden");
	/* Another build's file is not believed, wherever it lies. */
	fixture_run("gcc -g -O1 -Wl,--build-id=0xabcdef0124 -o other a.c; cp other x.debug;"
		    "cp other debug/.build-id/ab/cdef0123.debug");
	cr_assert_str_eq(name_of("linked", &paths, hidden), "");
	cr_assert_str_eq(name_of("a", &paths, hidden), "");
}

Test(elf_symbols, debuglink_without_build_id_needs_its_checksum)
{
	struct opened opened = { 0 };
	struct elf_debug_paths paths = { .dir = fixture_dir(),
					 .open = open_recorded,
					 .arg = &opened };
	uint64_t hidden;

	fixture_write("a.c", two_functions);
	fixture_run("gcc -g -O1 -Wl,--build-id=none -o full a.c; objcopy --only-keep-debug full "
		    "x.debug;"
		    "strip -o a full; objcopy --add-gnu-debuglink=x.debug a");
	hidden = fixture_value("full", "hidden");
	cr_assert_str_eq(name_of("a", &paths, hidden), "hidden");
	fixture_run("printf x >> x.debug");
	cr_assert_str_eq(name_of("a", &paths, hidden), "");
}

Test(elf_symbols, debuglink_cannot_lead_elsewhere)
{
	struct opened opened = { 0 };
	struct elf_debug_paths paths = { .dir = fixture_dir(),
					 .open = open_recorded,
					 .arg = &opened };
	uint64_t hidden;

	fixture_write("a.c", two_functions);
	fixture_run(
		"gcc -g -O1 -o full a.c; strip -o a full; mkdir sub; cp full sub/x;"
		"printf 'sub/x\\0\\0\\0abcd' > link; objcopy --add-section .gnu_debuglink=link a "
		"slash;"
		"printf '..\\0\\0abcd' > link; objcopy --add-section .gnu_debuglink=link a dots;"
		"printf '\\0\\0\\0\\0abcd' > link; objcopy --add-section .gnu_debuglink=link a "
		"empty;"
		"printf 'abcdefgh' > link; objcopy --add-section .gnu_debuglink=link a unended");
	hidden = fixture_value("full", "hidden");
	cr_assert_str_eq(name_of("slash", &paths, hidden), "");
	cr_assert_str_eq(name_of("dots", &paths, hidden), "");
	cr_assert_str_eq(name_of("empty", &paths, hidden), "");
	cr_assert_str_eq(name_of("unended", &paths, hidden), "");
	cr_assert_str_eq(opened.paths, "");
}

Test(elf_symbols, versions_are_no_part_of_a_name)
{
	fixture_write("a.c", "__attribute__((noinline)) int impl(int n) { return n; }\n"
			     "asm(\".symver impl,versioned@@V1\");\n");
	fixture_run("echo 'V1 { global: versioned; local: *; };' > map;"
		    "gcc -shared -fPIC -O0 -Wl,--version-script=map -o a.so a.c; nm a.so | grep -q "
		    "versioned@@V1");
	cr_assert_str_eq(name_of("a.so", NULL, fixture_value("a.so", "versioned")), "versioned");
}

/* As in the memory of a process, or after `strip --strip-section-headers`. */
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
		cr_assert_eq(elf_symbols_resolve(img, NULL, NULL, names, syms, 3), 0);
		cr_assert_str_eq(strtab_get(names, syms[0].name), "one", "%s", styles[i]);
		cr_assert_str_eq(strtab_get(names, syms[1].name), "two", "%s", styles[i]);
		cr_assert_str_eq(strtab_get(names, syms[2].name), "", "%s", styles[i]);
		elf_image_free(img);
		free(data);
	}
}

/* Sections that lie: what is said is an error or nothing, never a read outside. */
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

	fixture_write("a.c", two_functions);
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
		err = elf_symbols_resolve(img, NULL, NULL, names, &sym, 1);
		cr_assert_eq(err, cases[i].want, "case %zu: %d", i, err);
		elf_image_free(img);
		free(copy);
	}
	free(data);
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

	cr_assert_eq(elf_symbols_resolve(img, NULL, &starts, names, &sym, 1), 0);
	elf_image_free(img);
	return strtab_get(names, sym.name);
}

Test(elf_symbols, an_unwind_table_proves_where_a_function_begins)
{
	uint64_t base;

	fixture_write("a.S", assembly);
	fixture_run("gcc -c -o a.o a.S; ld -e base -o a a.o; strip -x -o globals a;"
		    "ld -shared -s -o exported.so a.o");
	base = fixture_value("a", "base");
	/* What begins at a symbol without a size has its name, also where others were removed. */
	cr_assert_str_eq(name_with_start("globals", base + 196, 0), "");
	cr_assert_str_eq(name_with_start("globals", base + 196, base + 192), "last");
	cr_assert_str_eq(name_with_start("globals", base + 196, base + 196), "");
	cr_assert_str_eq(name_with_start("globals", base + 52, base + 48), "");
	/* What begins behind it has not, though nothing else precedes. */
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
		cr_assert_str_eq(name_of("sparse.so", NULL, va + 1), cases[i].sparse);
		cr_assert_str_eq(name_of("partly.so", NULL, va + 1), cases[i].partly);
		/* The label merely precedes all of it. */
		cr_assert_str_eq(name_of("label.so", NULL, va + 1), cases[i].sparse);
		cr_assert_str_eq(name_with_start("label.so", va + 1, va), cases[i].sparse);
	}
}

/* Names of code count, whatever type they have; those of data do not. */
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
			name_of("a", NULL, fixture_value("a", cases[i].symbol) + cases[i].off),
			cases[i].name, "%s + %lu", cases[i].symbol, cases[i].off);
	cr_assert_str_eq(name_of("a", NULL, section_va("a", ".late")), "late");
	/* Assembler alone: no local symbol tells that all are there, and no size that some were removed. */
	cr_assert_str_eq(name_of("c", NULL, fixture_value("c", "_start") + 3), "_start");
	cr_assert_str_eq(name_of("c", NULL, fixture_value("c", "label") + 31), "label");
	cr_assert_str_eq(name_of("c", NULL, fixture_value("c", "unsized") + 1), "unsized");
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
			cr_assert_str_eq(name_of("a", NULL, last), name);
			cr_assert_str_eq(name_of("a", NULL, last + 15), name);
		}
		/* Nothing is beyond the last sections, whatever the size of the last but one says. */
		snprintf(name, sizeof(name), "f%zu", numbers[i] - 2);
		cr_assert_str_eq(name_of("a", NULL, fixture_value("a", name) + 40), "");
	}
}

/* A label names code behind the address at which an empty section begins, inside of the section that holds both. */
Test(elf_symbols, sections_without_bytes)
{
	fixture_write("a.S", ".section .held,\"ax\"; .globl _start; .type _start,@function\n"
			     "_start: .skip 16; label: .skip 16; .size _start,16\n"
			     ".section .empty,\"ax\"\n");
	fixture_write("a.ld", "SECTIONS { .held 0x1000 : { *(.held) } .empty 0x1010 : { "
			      "*(.empty) . = .; } }\n");
	fixture_run("gcc -c -o a.o a.S; ld -T a.ld -o a a.o");
	cr_assert_eq(section_va("a", ".empty"), 0x1010);
	cr_assert_str_eq(name_of("a", NULL, 0x1010), "label");
	cr_assert_str_eq(name_of("a", NULL, 0x101f), "label");
}

/*
 * As many sections as there may be, and symbols that all cover the address: a look at each section for each
 * symbol would take a minute, far beyond the time that the test has.
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
	cr_assert_eq(elf_symbols_resolve(img, NULL, NULL, names, syms, 2), 0);
	cr_assert_str_eq(strtab_get(names, syms[0].name), "covers");
	cr_assert_eq(syms[1].name, 0); /* it is behind the section */
	elf_image_free(img);
	free(data);
}

/* The end of a name tells which function it is, however long it is. */
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
			name = name_of("a", NULL, fixture_value("a", "base") + 8 * (k + 1));
			cr_assert_str_neq(name, before);
			cr_assert_eq(strlen(name), lengths[i] < 16383 ? 16382 : 1023);
			if (lengths[i] < 65536)
				cr_assert_eq(name[strlen(name) - 1], (char)('0' + k));
			before = name;
		}
	}
}

/* Symbols that all cover all addresses: the work is bounded. */
Test(elf_symbols, nested_symbols_do_not_take_forever)
{
	struct elf_symbol *syms = calloc(4096, sizeof(*syms));
	uint64_t base;
	size_t i;

	fixture_run("awk 'BEGIN { print \".text\\n.globl base\\nbase: .skip 8192\";"
		    "for (i = 0; i < 30000; i++) printf \".globl s%d\\n.type s%d,@function\\n"
		    ".set s%d,base\\n.size s%d,8192\\n\", i, i, i, i }' > a.S;"
		    "gcc -c -o a.o a.S; ld -e base -o a a.o");
	base = fixture_value("a", "base");
	for (i = 0; i < 4096; i++)
		syms[i].rva = base + i;
	cr_assert_eq(resolve("a", NULL, syms, 4096), -E2BIG);
	cr_assert_neq(syms[0].name, 0);
	free(syms);
}
