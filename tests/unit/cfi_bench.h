/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_CFI_BENCH_H
#define BPFPROF_TESTS_CFI_BENCH_H

/* An image with call frame information written by made_frame.h, its rows, and a stack to step on. */

#include <dwarf.h>

#include "unwind/cfi.h"
#include "unwind/reader.h"
#include "made_frame.h"
#include "unwind_native.h"

#define PCREL4 (DW_EH_PE_pcrel | DW_EH_PE_sdata4)

struct cfi_bench { /* an image under test */
	struct made frame, hdr;
	struct elf_image *img;
	struct cfi *cfi;
	void *data;
	uint64_t rows[CFI_PAGE_MAX_ROWS];
};

struct cfi_bench *cfi_bench_new(void);
void cfi_bench_close(struct cfi_bench *b);
int cfi_bench_open(struct cfi_bench *b);
void cfi_bench_free(struct cfi_bench *b);

struct made_stack {
	struct unwind_reader reader; /* first */
	uint64_t words[32]; /* at 0x10000 */
};

void made_stack_init(struct made_stack *array);
struct unwind_state made_stack_state(uint64_t pc);
/* A row of a page: cfa is rsp + off and nothing is saved; or a row without rules. */
uint64_t cfi_row_sp(uint32_t at, int32_t off);
uint64_t cfi_row_of(uint32_t at, enum unwind_row_kind kind);

#define CHECK_ROWS(b, page, ...)                                                                   \
	cfi_bench_check_rows(b, page, (const uint64_t[]){ __VA_ARGS__ },                           \
			     sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t),         \
			     __LINE__)

void cfi_bench_check_rows(struct cfi_bench *b, uint32_t page, const uint64_t *want, int nr,
			  int line);

#define START (MADE_CODE1 + 0x100)

/* Code alignment, data alignment, return address; then what the rules need. */
#define CIE_HEAD 1, 0x78, 16
#define CIE_RULES DW_CFA_def_cfa, 7, 8, DW_CFA_offset | 16, 1

#endif
