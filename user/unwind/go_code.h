/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_UNWIND_GO_CODE_H
#define BPFPROF_UNWIND_GO_CODE_H

/*
 * Facts about a Go function that only its instructions show: the place where it saves the frame
 * pointer (bp), and the code between the instructions that change the stack. go_rows.c makes rows of them.
 */

#include <stdbool.h>
#include <stdint.h>

#include "elf/go_table.h"

#define GO_CODE_MAX_REGIONS 6
#define GO_CODE_MAX_FRAME (INT8_MAX * UNWIND_FAR_BYTES) /* bytes */
#define GO_CODE_BP_OFF 16 /* compilers save bp this far below the cfa */

enum go_code_kind {
	GO_CODE_PLAIN,
	GO_CODE_OUTERMOST, /* nothing called it */
	GO_CODE_SIGNAL_RETURN,
	GO_CODE_NO_TABLE, /* foreign code in a Go program: the table has nothing about it */
	GO_CODE_WRITES_SP,
};

/* How the caller is found between the first and the last write of the stack pointer (sp). */
enum go_switched {
	GO_SWITCHED_UNKNOWN,
	GO_SWITCHED_OUTERMOST, /* there is no caller */
	GO_SWITCHED_BP, /* by bp */
	GO_SWITCHED_C, /* by what asmcgocall leaves on the stack of C code */
};

/* Code up to a return. */
struct go_region {
	uint64_t start;
	uint64_t from; /* after the first write of sp; 0: sp is not written */
	uint64_t to; /* before the last write of sp; without any, before bp is written */
	uint64_t c_from; /* asmcgocall: from here on c_slots are on the stack */
	int32_t c_slots
		[2]; /* asmcgocall: offsets from sp of the two words that lead to its caller */
};

struct go_code {
	const struct go_table *tab;
	int64_t *work_left;
	struct go_function fn;
	uint64_t from, to; /* the rows are for these addresses */
	enum go_code_kind kind;
	uint64_t bp_from; /* bp is saved from this address on */
	int32_t bp_off; /* bp is saved at cfa + bp_off; 0: it is not saved */
	bool bp_kept; /* bp is the caller's where the frame is empty */
	enum go_switched switched;
	int32_t sp_before; /* distance from sp to the return address at the first write of sp */
	int32_t bp_to_cfa; /* distance from bp to the cfa there; 0: it is not known */
	uint32_t nr_regions;
	struct go_region regions[GO_CODE_MAX_REGIONS];
};

/* Fills in kind and the fields after it from the code of f->fn. Incomplete if no work is left. */
void go_code_scan(struct go_code *f);

#endif
