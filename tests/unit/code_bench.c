// SPDX-License-Identifier: Apache-2.0
#include "code_bench.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unwind/reader.h"
#include "unwind_native.h"

uint64_t code_row_sp(int32_t off)
{
	return unwind_row_make(0, ROW_CFA, UNWIND_RSP, off / 8, BP_SAME, 0, 0);
}

void code_bench_find_code(struct code_bench *b)
{
	const struct elf_segment *segs;
	size_t nr, i;

	segs = elf_image_segments(b->img, &nr);
	for (b->seg = NULL, i = 0; i < nr; i++)
		if (segs[i].type == 1 && segs[i].flags & 1)
			b->seg = &segs[i];
	cr_assert(b->seg);
}

void code_bench_open(struct code_bench *b, const char *code)
{
	char *path = fixture_path("code");

	memset(b, 0, sizeof(*b));
	fixture_write("code.s", code);
	fixture_run("as -o code.o code.s");
	fixture_run("ld -o code -e 0 --eh-frame-hdr -z noseparate-code --no-warn-execstack code.o");
	b->img = fixture_open("code");
	b->symbols = fixture_nm("", path, &b->nr_symbols);
	code_bench_find_code(b);
	if (cfi_new(&b->cfi, b->img))
		b->cfi = NULL;
	free(path);
}

void code_bench_close(struct code_bench *b)
{
	cfi_free(b->cfi);
	elf_image_free(b->img);
	free(b->symbols);
}

uint64_t code_place(const struct code_bench *b, const char *label)
{
	uint64_t off = 0;
	size_t i;

	for (i = 0; i < b->nr_symbols && strcmp(b->symbols[i].name, label); i++)
		;
	cr_assert(i < b->nr_symbols, "no label %s", label);
	off = b->symbols[i].value - b->seg->va + b->seg->off;
	return off;
}

uint64_t code_row_at(const struct code_bench *b, uint64_t off)
{
	int i;

	for (i = 0; i < b->nr; i++)
		if (off >= b->rules[i].off && off - b->rules[i].off < b->rules[i].len)
			return b->rules[i].row;
	return 0;
}

void code_bench_link(struct code_bench *b, const char *options)
{
	char command[256];

	cfi_free(b->cfi);
	elf_image_free(b->img);
	snprintf(command, sizeof(command),
		 "ld %s -o code --eh-frame-hdr -z noseparate-code --no-warn-execstack code.o",
		 options);
	fixture_run(command);
	free(b->symbols);
	fixture_run("cp code code.full && strip -s code");
	b->img = fixture_open("code");
	b->symbols = fixture_nm("", "code.full", &b->nr_symbols);
	code_bench_find_code(b);
	cr_assert_eq(cfi_new(&b->cfi, b->img), 0);
}

static enum cfi_verdict judge_check(void *arg, uint64_t row, bool frame_pointer)
{
	struct judge *judge = arg;

	if (!judge->row)
		judge->row = row;
	if (row == judge->refused)
		return CFI_REFUSED;
	if (frame_pointer)
		return judge->frame_pointer ? CFI_PROVEN : CFI_REFUSED;
	return judge->verdict;
}

static int judge_start(void *arg, uint64_t *ret_off)
{
	struct judge *judge = arg;

	if (!judge->has_start)
		return -ENODATA;
	judge->has_start = false;
	*ret_off = judge->start;
	return 0;
}

static uint64_t judge_outermost(void *arg)
{
	return ((struct judge *)arg)->outermost;
}

int code_learn(struct code_bench *b, uint64_t off, bool exact, struct judge *judge)
{
	struct cfi_trial trial = { judge_check, judge_start, judge_outermost, judge };

	return cfi_learn(b->cfi, off, exact, &trial, &judge->here);
}

uint64_t code_page_row(struct code_bench *b, uint64_t off, bool *ret_next)
{
	static uint64_t rows[CFI_PAGE_MAX_ROWS];
	int nr = cfi_build_page(b->cfi, (uint32_t)(off >> 16), rows), i;

	cr_assert_gt(nr, 0);
	for (i = 0; i + 1 < nr && unwind_row_low(rows[i + 1]) <= (off & 0xffff); i++)
		;
	if (ret_next)
		*ret_next = i + 1 < nr && unwind_row_low(rows[i + 1]) == (off & 0xffff) + 1;
	return rows[i] & ~0xffffULL;
}

uint64_t row_none(int flags)
{
	return unwind_row_make(0, ROW_NONE, 0, 0, 0, 0, flags);
}

uint64_t row_unproven(int flags)
{
	return unwind_row_make(0, ROW_UNPROVEN, 0, 0, 0, 0, flags);
}
