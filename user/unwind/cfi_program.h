/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_UNWIND_CFI_PROGRAM_H
#define BPFPROF_UNWIND_CFI_PROGRAM_H

/*
 * Runs call frame instructions (DWARF 5, 6.4.2, and the GNU ones of the psABI) and returns the rules of
 * one range of addresses after the other. Reads no process.
 */

#include <stdbool.h>
#include <stdint.h>

#include "unwind/frame_cursor.h"
#include "arch.h"

#define CFI_MAX_REMEMBERED 16 /* compilers nest one level */

enum cfi_rule_kind {
	RULE_UNSPECIFIED = 0, /* same value if the ABI preserves the register */
	RULE_UNDEFINED,
	RULE_SAME,
	RULE_OFFSET, /* saved at cfa + value */
	RULE_VAL_OFFSET, /* is cfa + value */
	RULE_REGISTER, /* is register value */
	RULE_EXPRESSION, /* saved at the result of the expression at file offset value */
	RULE_VAL_EXPRESSION, /* is the result of that expression */
};

struct cfi_rule {
	uint32_t kind;
	uint32_t len; /* of the expression */
	int64_t value;
};

/* RULE_UNDEFINED (none yet), RULE_REGISTER (reg + value) or RULE_VAL_EXPRESSION. */
struct cfi_cfa {
	struct cfi_rule rule;
	uint64_t reg;
};

struct cfi_state {
	struct cfi_cfa cfa;
	struct cfi_rule regs[BPFPROF_NR_REGS];
};

struct cfi_cie {
	uint64_t off; /* of the record in the file */
	uint64_t code_align;
	int64_t data_align;
	uint64_t ra_reg;
	uint8_t pointer_enc;
	bool has_augmentation_data;
	bool signal;
	struct cfi_state initial;
};

/* A running program of an FDE, see cfi_program_next(). */
struct cfi_program {
	struct frame_cursor cur;
	const struct cfi_cie *cie;
	uint64_t start, end; /* state holds for these addresses */
	uint64_t next; /* start of the following range */
	uint64_t limit; /* end of the function */
	bool initial; /* these are a CIE's instructions */
	uint32_t nr_remembered;
	struct cfi_state state;
	struct cfi_state remembered[CFI_MAX_REMEMBERED];
};

/* Runs the instructions of cie from cur on and fills in cie->initial. */
int cfi_program_run_cie(struct cfi_program *prog, const struct frame_cursor *cur,
			struct cfi_cie *cie);
void cfi_program_init(struct cfi_program *prog, const struct frame_cursor *cur,
		      const struct cfi_cie *cie, uint64_t start, uint64_t limit);
/*
 * 1: prog->state holds for [prog->start, prog->end), the next range in order; 0: end of the
 * function; -EBADMSG malformed from prog->next on, and other errors of the cursor.
 */
int cfi_program_next(struct cfi_program *prog);

/* Is the frame found as at the first instruction of a function? */
bool cfi_cfa_is_entry(const struct cfi_cfa *cfa);

/* A cursor over the expression of a rule that has one. */
struct frame_cursor cfi_program_expr(const struct cfi_program *prog, const struct cfi_rule *rule);

#endif
