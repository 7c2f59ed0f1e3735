// SPDX-License-Identifier: Apache-2.0
#include "kernel/probes/allocator.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "elf/image.h"
#include "test_elf_fixture.h"

TestSuite(allocator, .timeout = 60);

#define NR_FUNCTIONS (sizeof(functions) / sizeof(functions[0]))
#define OWN "push %rbx; pop %rbx; ret"

static const struct {
	const char *name, *code;
	enum bpfprof_alloc_kind kind; /* 0: without a probe */
	uint64_t in; /* where the probe is */
} functions[] = {
	{ "malloc", OWN, ALLOC_MALLOC, 0 },
	{ "calloc", "push %rbx; call malloc@plt; pop %rbx; ret", ALLOC_CALLOC, 0 },
	{ "realloc", "push %rbx; pop %rbx; je malloc@plt; ret", ALLOC_REALLOC_PASSING, 0 },
	{ "rallocx", "push %rbx; pop %rbx; jne elsewhere@plt; call malloc@plt; ret", ALLOC_REALLOC,
	  0 },
	{ "aligned_alloc", OWN, ALLOC_ALIGNED, 0 },
	/* As in musl. */
	{ "memalign", "jmp aligned_alloc@plt", 0, 0 },
	{ "valloc", "mov %rdi, %rsi; mov $4096, %edi; jmp memalign@plt", 0, 0 },
	{ "pvalloc", "jmp elsewhere@plt", ALLOC_MALLOC, 0 },
	{ "_Znwm", OWN, ALLOC_MALLOC, 0 },
	/* As in jemalloc, but shorter. */
	{ "_Znam", ".byte 0xeb, _Znwm - . - 1", 0, 0 },
	{ "_ZnamRKSt9nothrow_t", "endbr64; " OWN, ALLOC_MALLOC, 4 },
	{ "free", ".globl own_free, _ZdlPvm; own_free: _ZdlPvm: " OWN, ALLOC_FREE, 0 },
	{ "_ZdlPv", "endbr64; jmp free@plt", 0, 0 },
	/* As in mimalloc. */
	{ "_ZdaPv", "bnd jmp own_free@plt", 0, 0 },
	{ "_ZdaPvm", "1: jmp 1b", ALLOC_FREE, 0 },
	{ "elsewhere", "ret", 0, 0 },
};

static struct elf_image *assemble(const char *flags)
{
	char *text, script[128];
	size_t len, i;
	FILE *f = open_memstream(&text, &len);

	cr_assert(f);
	fputs("	.text\n", f);
	for (i = 0; i < NR_FUNCTIONS; i++)
		fprintf(f,
			"	.globl %1$s\n	.type %1$s, @function\n%1$s: %2$s\n"
			"	.size %1$s, . - %1$s\n",
			functions[i].name, functions[i].code);
	fputs("	.type _ZdlPvm, @function\n	.section .note.GNU-stack, \"\", @progbits\n", f);
	fclose(f);
	fixture_write("a.S", text);
	free(text);
	snprintf(script, sizeof(script), "gcc -shared -nostdlib %s -o a.so a.S", flags);
	fixture_run(script);
	return fixture_open("a.so");
}

/* The cookie of the probe at off; 0: there is none. */
static uint64_t cookie_at(const struct allocator *allocator, uint64_t off)
{
	size_t i;

	for (i = 0; i < allocator->nr; i++)
		if (allocator->offsets[i] == off)
			return allocator->cookies[i];
	return 0;
}

/* Functions that only pass their call on are left out. */
Test(allocator, heap)
{
	struct elf_image *img = assemble("");
	size_t i, nr = 0, nr_allocating = 0;
	struct allocator allocator;

	cr_assert_eq(allocator_read(&allocator, img, ALLOCATOR_HEAP, false), 0);
	for (i = 0; i < NR_FUNCTIONS; i++) {
		uint64_t off = fixture_offset("a.so", functions[i].name) + functions[i].in;

		cr_expect_eq(cookie_at(&allocator, off), functions[i].kind, "%s",
			     functions[i].name);
		nr += functions[i].kind != 0;
		nr_allocating += functions[i].kind && functions[i].kind != ALLOC_FREE;
	}
	cr_expect_eq(allocator.nr, nr, "%zu probes", allocator.nr);
	cr_assert_eq(allocator.nr_allocating, nr_allocating);
	for (i = 0; i < nr; i++)
		cr_expect_eq(allocator.cookies[i] == ALLOC_FREE, i >= nr_allocating, "probe %zu",
			     i);
	cr_expect_eq(allocator.starts[0], fixture_offset("a.so", "malloc"));
	cr_expect_eq(allocator.bytes[0], 3);
	cr_expect_eq(allocator_read(&allocator, img, ALLOCATOR_MAPS, false), -ENODATA);
	elf_image_free(img);
}

/* A file that exports no free is no allocator, unless it is a program with one. */
Test(allocator, program)
{
	struct allocator allocator;
	struct elf_image *img;

	fixture_write("v", "{ local: free; };");
	img = assemble("-Wl,--version-script=v");
	cr_expect_eq(allocator_read(&allocator, img, ALLOCATOR_HEAP, false), -ENODATA);
	cr_expect_eq(allocator_read(&allocator, img, ALLOCATOR_HEAP, true), 0);
	elf_image_free(img);
}
