/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_UNWIND_X86_64_INSN_ROW_H
#define BPFPROF_UNWIND_X86_64_INSN_ROW_H

/* Rows (bpf/unwind_native.h) of states of the abstract machine. Internal to the folder. */

#include "unwind/x86_64/insn_machine.h"

/* The caller's registers. */
struct insn_caller {
	struct value cfa, rbp, rbx;
};

/* The row of an instruction with this state before it; 0 if no row can hold the rule. */
uint64_t insn_row_make(const struct machine *m, const struct insn_caller *caller);

#endif
