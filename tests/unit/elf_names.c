// SPDX-License-Identifier: Apache-2.0
#include "elf_names.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "elf/image.h"
#include "test_elf_fixture.h"

struct strtab *elf_names;

static void setup(void)
{
	cr_assert(!strtab_new(&elf_names, 64 << 20));
}

static void teardown(void)
{
	strtab_free(elf_names);
}

TestSuite(elf_symbols, .init = setup, .fini = teardown, .timeout = 120);

static int compare_rva(const void *a, const void *b)
{
	const struct elf_symbol *x = a, *y = b;

	return x->rva < y->rva ? -1 : x->rva > y->rva;
}

int elf_names_resolve(const char *file, const struct elf_debug_paths *paths,
		      struct elf_symbol *syms, size_t nr)
{
	struct elf_image *img = fixture_open(file);
	int err;

	qsort(syms, nr, sizeof(*syms), compare_rva);
	err = elf_symbols_resolve(img, paths, NULL, elf_names, syms, nr);
	elf_image_free(img);
	return err;
}

const char *elf_name_of(const char *file, const struct elf_debug_paths *paths, uint64_t rva)
{
	struct elf_symbol sym = { .rva = rva };

	cr_assert_eq(elf_names_resolve(file, paths, &sym, 1), 0);
	return strtab_get(elf_names, sym.name);
}

uint64_t elf_section_va(const char *file, const char *section)
{
	struct elf_image *img = fixture_open(file);
	const struct elf_section *sec = elf_image_section(img, section);
	uint64_t va = sec ? sec->va : 0;

	elf_image_free(img);
	cr_assert_neq(va, 0);
	return va;
}

const char elf_assembly[] =
	".text\n"
	".balign 256\n"
	".globl base; base: .skip 16\n" /* 0: a label, nothing else */
	".globl sized; .type sized,@function; sized: .skip 8\n" /* 16 */
	"inner: .skip 8\n" /* 24: label inside of sized */
	".size sized,16\n"
	".skip 16\n" /* 32: belongs to no symbol */
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

const char elf_two_functions[] =
	"static __attribute__((noinline)) int hidden(int n) { return n * 3 + 1; }\n"
	"__attribute__((noinline)) int exported(int n) { return hidden(n) * 5; }\n"
	"int main(int n, char **v) { (void)v; return exported(n); }\n"
	"asm(\".text\\n.type bare,@function\\nbare: .skip 16\\n.globl shown\\n.type "
	"shown,@function\\n\"\n"
	"    \"shown: .skip 16\\n.size shown,16\\n.skip 16\");\n";
