/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_UNWIND_X86_64_INSN_MACHINE_H
#define BPFPROF_UNWIND_X86_64_INSN_MACHINE_H

/*
 * The abstract machine of insn_unwind.c: the values of registers and stack words before an
 * instruction, as terms over the registers at the first instruction. Internal to the folder.
 */

#include <stdbool.h>
#include <stdint.h>

#define NR_GPRS 16
#define NR_SLOTS 12
#define MAX_OFF (1 << 24)
#define BASE_ALIGNED 16 /* the stack pointer after it was rounded down */

enum value_kind {
	VALUE_UNKNOWN = 0,
	VALUE_REG, /* first value of register `base` + add */
	VALUE_LOADED, /* word at (first value of register `base` + off), + add */
	VALUE_LOADED_TWICE, /* word at the address VALUE_LOADED */
};

struct value {
	uint8_t kind, base;
	int32_t off, add;
};

/* A word of the stack that an instruction has written. */
struct slot {
	uint8_t base;
	bool used;
	int32_t off;
	struct value value;
};

struct machine {
	struct value regs[NR_GPRS]; /* DWARF numbers */
	struct slot slots[NR_SLOTS];
	bool full; /* too many words were written: a word without a slot is unknown */
};

static inline struct value unknown(void)
{
	return (struct value){ .kind = VALUE_UNKNOWN };
}

bool insn_value_equal(const struct value *a, const struct value *b);
struct value insn_value_plus(struct value v, int64_t n);
/* Do the 8 bytes at base + off have their first value? */
bool insn_is_untouched(const struct machine *m, uint8_t base, int32_t off);
/* The 8 bytes at address. */
struct value insn_load(struct machine *m, struct value address);
void insn_store(struct machine *m, struct value address, uint32_t bytes, struct value value);
/* Two ways lead to one instruction: a keeps what is equal in both. True if a changed. */
bool insn_meet(struct machine *a, struct machine *b);

#endif
