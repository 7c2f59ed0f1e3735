// SPDX-License-Identifier: Apache-2.0
#include "cfi_bench.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "elf/image.h"

struct cfi_bench *cfi_bench_new(void)
{
	struct cfi_bench *b = calloc(1, sizeof(*b));

	cr_assert(b);
	made_init(&b->frame);
	made_init(&b->hdr);
	return b;
}

void cfi_bench_close(struct cfi_bench *b)
{
	cfi_free(b->cfi);
	elf_image_free(b->img);
	free(b->data);
	b->cfi = NULL;
	b->img = NULL;
	b->data = NULL;
}

int cfi_bench_open(struct cfi_bench *b)
{
	cfi_bench_close(b);
	b->img = made_image(&b->frame, b->hdr.len ? &b->hdr : NULL, &b->data);
	return cfi_new(&b->cfi, b->img);
}

void cfi_bench_free(struct cfi_bench *b)
{
	cfi_bench_close(b);
	made_fini(&b->frame);
	made_fini(&b->hdr);
	free(b);
}

static int made_stack_read(struct unwind_reader *reader, __u64 va, void *dst, __u32 len)
{
	struct made_stack *array = (struct made_stack *)reader;

	if (va < 0x10000 || va - 0x10000 > sizeof(array->words) - len)
		return -EFAULT;
	memcpy(dst, (char *)array->words + (va - 0x10000), len);
	return 0;
}

void made_stack_init(struct made_stack *array)
{
	array->reader.read = made_stack_read;
	for (uint64_t i = 0; i < 32; i++)
		array->words[i] = 0xaa00 + i;
}

struct unwind_state made_stack_state(uint64_t pc)
{
	struct unwind_state s = { .valid = UNWIND_ALL_REGS, .exact = 1 };

	for (uint64_t i = 0; i < BPFPROF_NR_REGS; i++)
		s.regs[i] = 0x500 + i;
	s.regs[UNWIND_RSP] = 0x10000;
	s.regs[UNWIND_RIP] = pc;
	return s;
}

uint64_t cfi_row_sp(uint32_t at, int32_t off)
{
	return unwind_row_make(at, ROW_CFA, UNWIND_RSP, off / 8, BP_SAME, 0, 0);
}

uint64_t cfi_row_of(uint32_t at, enum unwind_row_kind kind)
{
	return unwind_row_make(at, kind, 0, 0, 0, 0, 0);
}

void cfi_bench_check_rows(struct cfi_bench *b, uint32_t page, const uint64_t *want, int nr,
			  int line)
{
	int got = cfi_build_page(b->cfi, page, b->rows);

	for (int i = 0; i < got && i < nr; i++)
		cr_assert_eq(b->rows[i], want[i], "line %d: row %d is %#lx, not %#lx", line, i,
			     b->rows[i], want[i]);
	cr_assert_eq(got, nr, "line %d: %d rows, not %d", line, got, nr);
}
