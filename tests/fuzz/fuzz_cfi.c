// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=16384 */
#include "elf/image.h"
#include "unwind/cfi.h"
#include "unwind/reader.h"
#include "unwind_native.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_bytes(struct unwind_reader *reader, __u64 va, void *dst, __u32 len)
{
	(void)reader;
	if (va % 16 == 15)
		return -1;
	memset(dst, (int)(va * 31), len);
	return 0;
}

/* The rules that are read out of code are tried on nothing: one in three is good. */
static enum cfi_verdict check(void *arg, uint64_t row, bool frame_pointer)
{
	uint32_t *calls = arg;

	(void)row;
	(void)frame_pointer;
	return (enum cfi_verdict)(++*calls % 4);
}

static int next_start(void *arg, uint64_t *ret_off)
{
	uint32_t *calls = arg;

	*ret_off = ++*calls * 61 % 4096;
	return *calls % 5 ? 0 : -1;
}

static uint64_t outermost(void *arg)
{
	return ++*(uint32_t *)arg % 7 ? 0 : unwind_row_make(0, ROW_CFA, UNWIND_RSP, 2, 0, 0, 1);
}

static void learn(struct cfi *cfi, size_t size)
{
	uint32_t calls = 0;
	uint64_t here;
	struct cfi_trial trial = { check, next_start, outermost, &calls };

	for (uint64_t i = 0; i < 8; i++)
		cfi_learn(cfi, i * size / 8, i & 1, &trial, &here);
	cfi_forget_unproven(cfi, 0);
}

/* A whole file: every page of it, before and after code was read, and a step at some places. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint64_t rows[CFI_PAGE_MAX_ROWS];
	struct unwind_reader reader = { .read = read_bytes };
	struct elf_image *img;
	uint64_t start, end;
	struct cfi *cfi;

	if (elf_image_open_memory(&img, data, size))
		return 0;
	if (!cfi_new(&cfi, img)) {
		uint32_t nr_pages = (uint32_t)(size >> 16) + 1;

		for (uint32_t i = 0; i < 2 * nr_pages; i++) {
			int nr;

			if (i == nr_pages)
				learn(cfi, size);
			nr = cfi_build_page(cfi, i % nr_pages, rows);

			if (!nr || nr > CFI_PAGE_MAX_ROWS || (nr > 0 && rows[0] & 0xffff))
				abort();
			for (int i = 0; i < nr; i++)
				if (i && (unwind_row_low(rows[i]) <= unwind_row_low(rows[i - 1]) ||
					  !((rows[i] ^ rows[i - 1]) >> 16)))
					abort();
		}
		for (uint64_t i = 0; i < 16; i++) {
			struct unwind_state s = { .valid = UNWIND_ALL_REGS, .exact = i & 1 };
			int stop;

			for (uint64_t reg = 0; reg < BPFPROF_NR_REGS; reg++)
				s.regs[reg] = (i + 1) * 0x1000 + reg * 8;
			stop = cfi_step(cfi, i * size / 16, &s, &reader);
			if (stop < 0 || stop >= BPFPROF_NR_STOPS)
				abort();
			if (!cfi_function(cfi, i * 0x400, &start, &end) &&
			    (start > i * 0x400 || end <= i * 0x400))
				abort();
		}
		cfi_free(cfi);
	}
	elf_image_free(img);
	return 0;
}
