/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_UNWIND_CFI_EVAL_H
#define BPFPROF_UNWIND_CFI_EVAL_H

/* Applies call frame rules to the registers and the memory of a process. */

struct cfi_expr_env;
struct cfi_program;
struct unwind_state;

/*
 * All registers of the caller that prog->state and the ABI restore. 0, or enum bpfprof_stop: COMPLETE
 * at the outermost frame, BAD_CFI, REG_LOST, READ_FAULT, BAD_FRAME. *ret may not be env->state; it is
 * untouched unless 0 or COMPLETE is returned.
 */
int cfi_eval_caller(const struct cfi_program *prog, const struct cfi_expr_env *env,
		    struct unwind_state *ret);

#endif
