/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_UNWIND_X86_64_INSN_EXECUTE_H
#define BPFPROF_UNWIND_X86_64_INSN_EXECUTE_H

/* The effect of single instructions on the abstract machine (insn_machine.h). Internal to the folder. */

#include <Zydis/Zydis.h>

struct instruction;
struct machine;
struct value;

/* DWARF number of the 64-bit register that holds reg, -1 if reg is of another kind. */
int insn_gpr(ZydisRegister reg);

/* Any instruction but branches. */
void insn_execute(struct machine *m, const struct instruction *in);
/* Everything that the instruction writes becomes unknown. */
void insn_clobber(struct machine *m, const struct instruction *in);
void insn_push(struct machine *m, struct value value);
/* A call that has returned: registers that a function may change are unknown (System V ABI, 3.2.1). */
void insn_call(struct machine *m);

#endif
