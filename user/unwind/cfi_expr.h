/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_UNWIND_CFI_EXPR_H
#define BPFPROF_UNWIND_CFI_EXPR_H

/*
 * DWARF expressions (DWARF 5, 2.5) in call frame rules: classified by shape, so that the usual ones fit
 * into a row, or evaluated for a process.
 */

#include <stdint.h>

#include "unwind/frame_cursor.h"

struct unwind_reader;
struct unwind_state;

enum cfi_expr_kind {
	EXPR_OTHER = 0,
	EXPR_REG, /* reg + off */
	EXPR_DEREF, /* *(reg + off) + second */
	EXPR_INDEX, /* *(sp + 8 * reg + off) + second */
	EXPR_PLT, /* sp + off + ((pc & 15) >= second ? 8 : 0) */
};

struct cfi_expr_shape {
	enum cfi_expr_kind kind;
	uint64_t reg;
	int64_t off;
	int64_t second;
};

/* cur spans the expression. 0 (EXPR_OTHER included), or the cursor's error. */
int cfi_expr_classify(struct frame_cursor cur, struct cfi_expr_shape *ret);

struct cfi_expr_env {
	const struct unwind_state *state;
	struct unwind_reader *reader;
	uint64_t bias; /* runtime address minus image-relative address */
};

/*
 * Returns the value on top at the end. *initial is pushed first, if it is not NULL. 0, or enum
 * bpfprof_stop: BAD_CFI, REG_LOST, READ_FAULT.
 */
int cfi_expr_eval(struct frame_cursor cur, const struct cfi_expr_env *env, const uint64_t *initial,
		  uint64_t *ret);

#endif
