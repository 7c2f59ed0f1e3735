/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_CODE_BENCH_H
#define BPFPROF_TESTS_CODE_BENCH_H

/* Code that is assembled when a test runs: the rules found in it, and the rows learned from it. */

#include "elf/image.h"
#include "unwind/cfi.h"
#include "unwind/insn_unwind.h"
#include "test_elf_fixture.h"

#define MAX_RULES 512

struct code_bench {
	struct elf_image *img;
	struct cfi *cfi; /* NULL without tables */
	struct nm_symbol *symbols;
	size_t nr_symbols;
	const struct elf_segment *seg; /* the code */
	struct insn_rule rules[MAX_RULES];
	int nr;
};

/* cfa = rsp + off, nothing saved */
uint64_t code_row_sp(int32_t off);
void code_bench_find_code(struct code_bench *b);
void code_bench_open(struct code_bench *b, const char *code);
void code_bench_close(struct code_bench *b);
/* File offset of a label. */
uint64_t code_place(const struct code_bench *b, const char *label);
uint64_t code_row_at(const struct code_bench *b, uint64_t off);
/* The same code as a library with only dynamic symbols, or linked in another way. */
void code_bench_link(struct code_bench *b, const char *options);

/* The judgement of a process on rules that are found in the code of its thread. */
struct judge {
	enum cfi_verdict verdict;
	uint64_t row; /* the first one that it was asked about */
	uint64_t start; /* where a call went whose return address lies on its stack */
	bool has_start;
	uint64_t outermost;
	uint64_t refused; /* a row that it contradicts in any case */
	bool frame_pointer; /* its rbp is a frame's */
	uint64_t here; /* out: the row for this process alone */
};

int code_learn(struct code_bench *b, uint64_t off, bool exact, struct judge *judge);

#define PLEASED                                                                                    \
	{                                                                                          \
		.verdict = CFI_PROVEN                                                              \
	}

/* The row of off in its page, and of the byte after it whether a row begins there. */
uint64_t code_page_row(struct code_bench *b, uint64_t off, bool *ret_next);
uint64_t row_none(int flags);
uint64_t row_unproven(int flags);

#define TABLE "t: .cfi_startproc\n ret\n .cfi_endproc\n"

#endif
