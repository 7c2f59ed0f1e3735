/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_UNWIND_NATIVE_H
#define BPFPROF_BPF_UNWIND_NATIVE_H

/*
 * One step up a native stack. Plain C, compiled into the BPF programs, into user space (misses, dump)
 * and into the tests. The includer defines the reader (struct unwind_reader is its own):
 *
 *	static int unwind_read(struct unwind_reader *reader, __u64 va, void *dst, __u32 len);
 *	static int unwind_read_u64(struct unwind_reader *reader, __u64 va, __u64 *dst);
 *
 * (0 or negative).
 *
 * The rules come from rows of 8 bytes: .eh_frame reduced to what compiled code uses (on x86-64: System V
 * ABI, AMD64 supplement, 3.7). The rule of the return address is the same for all rows: arch.h defines it
 * as UNWIND_RETURN_OFF, together with the stack pointer (sp), the frame pointer (fp) and the base register
 * (base). A rule that no row can hold is ROW_RARE and is left to user space. A row is valid from its
 * address to the address of the next row.
 *
 *	bits  0-15  file offset & 0xffff: rows are sorted by it within a page
 *	bits 16-19  kind
 *	bits 20-23  register that the cfa is built on (DWARF number)
 *	bits 24-39  cfa offset / 8, signed
 *	bits 40-41  rule of fp
 *	bits 42-55  offset of the saved fp / 8, signed
 *	bits 56-63  second number, signed: addend / 8 of ROW_DEREF and ROW_INDEX, pc threshold
 *	            of ROW_PLT; of ROW_CFA the rule of base: offset from the cfa / 8 of the saved
 *	            one, 0 = same, 1 = lost (rows that lead to other stacks always lose it); of
 *	            ROW_NONE UNWIND_LOOKED_AT (without it user space has not searched the code for
 *	            a rule yet), UNWIND_NO_START, UNWIND_NO_RULE; of ROW_UNPROVEN UNWIND_HALTS
 *
 * The walk follows base because the loader's _dl_runtime_resolve builds its frame on it. It keeps only
 * the place of a saved base, so that a frame costs no read for it.
 */

#include "bpfprof.h"

enum unwind_row_kind {
	ROW_INVALID = 0,
	ROW_CFA = 1, /* cfa = reg + off */
	ROW_PLT = 2, /* cfa = sp + off + ((pc & 15) >= second ? 8 : 0) */
	ROW_DEREF = 3, /* cfa = *(reg + off) + second */
	ROW_SIGNAL = 4, /* signal frame: the registers lie at sp + off (uc_mcontext) */
	ROW_END = 5, /* return address undefined: outermost frame */
	ROW_NONE = 6, /* code without a rule: the walk follows the frame pointer */
	ROW_RARE = 7, /* a rule that a row cannot hold */
	ROW_UNREADABLE = 8, /* the file could not be read, so its rules are not known */
	ROW_INDEX = 9, /* cfa = *(sp + 8 * reg + off) + second (OpenSSL's multiplications) */
	/* From here on the caller's frame may be on another stack, at a lower address. */
	ROW_FAR = 10, /* cfa = reg + off + second * 256 KiB */
	ROW_GO_C = 11, /* Go's asmcgocall on the stack for C code, see unwind_go_stack() */
	/* Code without a table and without a rule in its instructions: the walk ends. */
	ROW_UNPROVEN = 12,
};

#define UNWIND_FAR_BYTES (1 << 18)
#define UNWIND_WITH_CFA                                                                            \
	(1U << ROW_CFA | 1U << ROW_PLT | 1U << ROW_DEREF | 1U << ROW_INDEX | 1U << ROW_FAR |       \
	 1U << ROW_GO_C)

#define UNWIND_LOOKED_AT 1
#define UNWIND_NO_START 2 /* the next row is not the start of a function */
#define UNWIND_NO_RULE 4 /* the instructions gave no rule: the end of the stack is not known */
/* Second number of ROW_UNPROVEN: the code stops the processor before it returns. */
#define UNWIND_HALTS 1

enum unwind_bp_rule {
	BP_SAME = 0,
	BP_AT_CFA = 1, /* saved at cfa + off */
	BP_AT_BP = 2, /* saved at fp + off (functions that realign their stack) */
	BP_LOST = 3,
};

#define UNWIND_ALL_REGS ((1U << BPFPROF_NR_REGS) - 1)
/* In valid, instead of the bit of base: regs[UNWIND_BASE] is the place of base. */
#define UNWIND_BASE_SAVED (1U << BPFPROF_NR_REGS)
#define UNWIND_FRAME_REGS ((1U << UNWIND_FP) | (1U << UNWIND_SP) | (1U << UNWIND_PC))
#define UNWIND_MAX_FRAME_BYTES (16U << 20) /* a frame pointer further up is not followed */

struct unwind_state {
	__u64 regs[BPFPROF_NR_REGS];
	__u32 valid; /* bit n: regs[n] is known; UNWIND_BASE_SAVED */
	__u32 exact; /* 1: pc is an interrupted instruction; 0: a return address */
};

static inline __u64 unwind_row_make(__u32 low, __u32 kind, __u32 reg, __s32 off8, __u32 bp_rule,
				    __s32 bp_off8, __s32 second)
{
	return (__u64)(low & 0xffff) | (__u64)(kind & 15) << 16 | (__u64)(reg & 15) << 20 |
	       (__u64)(off8 & 0xffff) << 24 | (__u64)(bp_rule & 3) << 40 |
	       (__u64)(bp_off8 & 0x3fff) << 42 | (__u64)(second & 0xff) << 56;
}

static inline __u32 unwind_row_low(__u64 row)
{
	return row & 0xffff;
}

static inline __u32 unwind_row_kind(__u64 row)
{
	return (row >> 16) & 15;
}

static inline __u32 unwind_row_reg(__u64 row)
{
	return (row >> 20) & 15;
}

static inline __s64 unwind_row_off(__u64 row)
{
	return (__s64)(__s16)(row >> 24) * 8;
}

static inline __u32 unwind_row_bp_rule(__u64 row)
{
	return (row >> 40) & 3;
}

static inline __s64 unwind_row_bp_off(__u64 row)
{
	return ((__s64)(row << 8) >> 50) * 8;
}

static inline __s64 unwind_row_second(__u64 row)
{
	return (__s64)row >> 56;
}

/* Code without a rule whose instructions user space has not searched yet. */
static inline int unwind_row_unexplored(__u64 row)
{
	return unwind_row_kind(row) == ROW_NONE && !(unwind_row_second(row) & UNWIND_LOOKED_AT);
}

/*
 * Does a stack start at a return address with this row before it, and the next row at next_low? A
 * return address at the first byte of a function, with no code before it, was not pushed by a call:
 * it belongs to a trampoline (makecontext).
 */
static inline int unwind_row_starts_stack(__u64 row, __u32 low, __u32 next_low)
{
	return unwind_row_kind(row) == ROW_NONE && next_low == low + 1 &&
	       !(unwind_row_second(row) & UNWIND_NO_START);
}

/* The address to look up for the current frame of s. */
static inline __u64 unwind_lookup_pc(const struct unwind_state *s)
{
	return s->exact ? s->regs[UNWIND_PC] : s->regs[UNWIND_PC] - 1;
}

/*
 * A signal handler returns to the first byte of its trampoline, which no call has entered: that
 * byte belongs to the frame, not the byte before it, although the row of the table begins there.
 * Returns the distance from off, the address looked up.
 */
static inline __u64 unwind_signal_entry(const struct unwind_state *s, __u64 row, __u64 off)
{
	return unwind_row_kind(row) == ROW_SIGNAL && !s->exact &&
	       unwind_row_low(row) == (off & 0xffff);
}

/*
 * Takes the registers that a signal handler will restore from va (uc_mcontext of the signal frame).
 */
static inline int unwind_signal_frame(struct unwind_state *s, __u64 va,
				      struct unwind_reader *reader)
{
	static const __u8 order[BPFPROF_NR_REGS] = UNWIND_SIGNAL_ORDER;
	__u64 gregs[BPFPROF_NR_REGS];
	__u32 i;

	if (unwind_read(reader, va, gregs, sizeof(gregs)))
		return BPFPROF_STOP_READ_FAULT;
	for (i = 0; i < BPFPROF_NR_REGS; i++)
		s->regs[order[i]] = gregs[i];
	s->valid = UNWIND_ALL_REGS;
	s->exact = 1;
	return s->regs[UNWIND_PC] ? 0 : BPFPROF_STOP_COMPLETE;
}

static inline int unwind_frame_pointer(struct unwind_state *s, struct unwind_reader *reader)
{
	__u64 bp = s->regs[UNWIND_FP], sp = s->regs[UNWIND_SP];
	__u64 saved_bp, ra;

	if (!(s->valid & 1U << UNWIND_FP))
		return BPFPROF_STOP_REG_LOST;
	if (!bp) /* by the ABI this is the outermost frame */
		return BPFPROF_STOP_COMPLETE;
	if (bp < sp || bp & 7 || bp - sp > UNWIND_MAX_FRAME_BYTES)
		return BPFPROF_STOP_NO_TABLE;
	if (unwind_read_u64(reader, bp, &saved_bp) ||
	    unwind_read_u64(reader, bp + UNWIND_RECORD_RETURN, &ra))
		return BPFPROF_STOP_READ_FAULT;
	if (!ra)
		return BPFPROF_STOP_COMPLETE;
	s->regs[UNWIND_FP] = saved_bp;
	s->regs[UNWIND_SP] = bp + UNWIND_RECORD_BYTES;
	s->regs[UNWIND_PC] = ra;
	s->valid = UNWIND_FRAME_REGS;
	s->exact = 0;
	return 0;
}

/*
 * Was the result of unwind_frame_pointer() only a guess? It leaves s unchanged. In code without a
 * rule, fp may hold anything; 0 marks the outermost frame by the ABI, but in the innermost frame it
 * may be a number, too.
 */
static inline int unwind_end_guessed(const struct unwind_state *s, int stop)
{
	return stop == BPFPROF_STOP_NO_TABLE ||
	       (stop == BPFPROF_STOP_COMPLETE && (s->exact || s->regs[UNWIND_FP]));
}

/* Reads base if only its place is known: 0, or -1 if it cannot be read (then base is lost). */
static inline int unwind_settle(struct unwind_state *s, struct unwind_reader *reader)
{
	if (!(s->valid & UNWIND_BASE_SAVED))
		return 0;
	s->valid &= ~UNWIND_BASE_SAVED;
	if (unwind_read_u64(reader, s->regs[UNWIND_BASE], &s->regs[UNWIND_BASE]))
		return -1;
	s->valid |= 1U << UNWIND_BASE;
	return 0;
}

/*
 * Go code that calls C switches to the thread's own stack. At sp + bp_off it leaves g, the
 * goroutine whose stack it left (which may be moved meanwhile), and at sp + 8 * second the distance
 * of the old stack pointer from the end of that stack (g.stack.hi); or, without g, the old stack
 * pointer.
 */
static inline int unwind_go_stack(struct unwind_state *s, __u64 row, struct unwind_reader *reader,
				  __u64 *ret_cfa)
{
	__u64 sp = s->regs[UNWIND_SP], g, high, depth;

	if (unwind_read_u64(reader, sp + unwind_row_bp_off(row), &g) ||
	    unwind_read_u64(reader, sp + unwind_row_second(row) * 8, &depth))
		return BPFPROF_STOP_READ_FAULT;
	*ret_cfa = depth + unwind_row_off(row);
	if (!g)
		return 0;
	if (unwind_read_u64(reader, g + 8, &high))
		return BPFPROF_STOP_READ_FAULT;
	*ret_cfa = high - depth + unwind_row_off(row);
	return 0;
}

/* The result of a step by a row without a CFA. */
static inline int unwind_without_cfa(struct unwind_state *s, __u64 row,
				     struct unwind_reader *reader)
{
	__u32 kind = unwind_row_kind(row);
	int stop;

	if (kind == ROW_END)
		return BPFPROF_STOP_COMPLETE;
	if (kind == ROW_SIGNAL)
		return unwind_signal_frame(s, s->regs[UNWIND_SP] + unwind_row_off(row), reader);
	if (kind == ROW_UNREADABLE)
		return BPFPROF_STOP_MISS_FILE;
	if (kind == ROW_UNPROVEN) /* by the ABI the outermost frame has fp 0 */
		return unwind_row_second(row) && !s->exact && s->valid & 1U << UNWIND_FP &&
				       !s->regs[UNWIND_FP]
			       ? BPFPROF_STOP_COMPLETE
			       : BPFPROF_STOP_NO_TABLE;
	if (kind != ROW_NONE)
		return BPFPROF_STOP_RARE_RULE;
	stop = unwind_frame_pointer(s, reader);
	if (unwind_row_second(row) & UNWIND_NO_RULE && unwind_end_guessed(s, stop))
		stop = BPFPROF_STOP_NO_TABLE;
	return stop;
}

/* The CFA of kinds other than ROW_CFA: 0, or a stop. */
static inline int unwind_other_cfa(struct unwind_state *s, __u64 row, struct unwind_reader *reader,
				   __u64 *ret_cfa)
{
	__u32 kind = unwind_row_kind(row), reg = unwind_row_reg(row) & 15;
	__u64 cfa = s->regs[UNWIND_SP] + unwind_row_off(row);

	if (kind == ROW_GO_C)
		return unwind_go_stack(s, row, reader, ret_cfa);
	if (kind == ROW_PLT) {
		*ret_cfa =
			(s->regs[UNWIND_PC] & 15) >= (__u64)unwind_row_second(row) ? cfa + 8 : cfa;
		return 0;
	}
	if (reg == UNWIND_BASE && unwind_settle(s, reader))
		return BPFPROF_STOP_READ_FAULT;
	if (!(s->valid & 1U << reg))
		return BPFPROF_STOP_REG_LOST;
	if (kind == ROW_FAR) {
		*ret_cfa = s->regs[reg] + unwind_row_off(row) +
			   unwind_row_second(row) * UNWIND_FAR_BYTES;
		return 0;
	}
	cfa = kind == ROW_INDEX ? cfa + s->regs[reg] * 8 : s->regs[reg] + unwind_row_off(row);
	if (unwind_read_u64(reader, cfa, ret_cfa))
		return BPFPROF_STOP_READ_FAULT;
	*ret_cfa += unwind_row_second(row) * 8;
	return 0;
}

/* BP_AT_CFA: offset of the saved fp from the CFA. ROW_GO_C keeps the place of g in this field. */
static inline __s64 unwind_saved_bp(__u64 row)
{
	return unwind_row_kind(row) == ROW_GO_C ? -UNWIND_RECORD_BYTES : unwind_row_bp_off(row);
}

/*
 * Sets the caller's registers from the CFA. bx_rule: rule of base, as in the second number of
 * ROW_CFA.
 */
static __always_inline int unwind_to_caller(struct unwind_state *s, __u64 row, __u64 cfa,
					    __s64 bx_rule, struct unwind_reader *reader)
{
	__u64 ra, bp = s->regs[UNWIND_FP];
	__u32 bp_valid = s->valid & 1U << UNWIND_FP;

	if (unwind_read_u64(reader, cfa + UNWIND_RETURN_OFF, &ra))
		return BPFPROF_STOP_READ_FAULT;
	switch (unwind_row_bp_rule(row)) {
	case BP_AT_CFA:
		if (unwind_read_u64(reader, cfa + unwind_saved_bp(row), &bp))
			return BPFPROF_STOP_READ_FAULT;
		bp_valid = 1;
		break;
	case BP_AT_BP:
		if (!bp_valid)
			return BPFPROF_STOP_REG_LOST;
		if (unwind_read_u64(reader, bp + unwind_row_bp_off(row), &bp))
			return BPFPROF_STOP_READ_FAULT;
		break;
	case BP_LOST:
		bp_valid = 0;
		break;
	}
	s->regs[UNWIND_FP] = bp;
	s->regs[UNWIND_SP] = cfa;
	s->regs[UNWIND_PC] = ra;
	s->valid = 1U << UNWIND_SP | 1U << UNWIND_PC | (bp_valid ? 1U << UNWIND_FP : 0) |
		   (bx_rule ? 0 : s->valid & (1U << UNWIND_BASE | UNWIND_BASE_SAVED));
	if (bx_rule < 0) {
		s->regs[UNWIND_BASE] = cfa + bx_rule * 8;
		s->valid |= UNWIND_BASE_SAVED;
	}
	s->exact = 0;
	return ra ? 0 : BPFPROF_STOP_COMPLETE;
}

/* unwind_step() for ROW_CFA, the kind of nearly all rows. */
static inline int unwind_step_cfa(struct unwind_state *s, __u64 row, struct unwind_reader *reader)
{
	__u32 reg = unwind_row_reg(row) & 15;
	__u64 cfa;

	if (reg == UNWIND_BASE && unwind_settle(s, reader))
		return BPFPROF_STOP_READ_FAULT;
	if (!(s->valid & 1U << reg))
		return BPFPROF_STOP_REG_LOST;
	cfa = s->regs[reg] + unwind_row_off(row);
	if (cfa <= s->regs[UNWIND_SP])
		return BPFPROF_STOP_BAD_FRAME;
	return unwind_to_caller(s, row, cfa, unwind_row_second(row), reader);
}

/* unwind_step() for the other kinds. */
static inline int unwind_step_other(struct unwind_state *s, __u64 row, struct unwind_reader *reader)
{
	__u32 kind = unwind_row_kind(row);
	__u64 cfa;
	int stop;

	if (!(UNWIND_WITH_CFA & 1U << kind))
		return unwind_without_cfa(s, row, reader);
	stop = unwind_other_cfa(s, row, reader, &cfa);
	if (stop)
		return stop;
	if (cfa <= s->regs[UNWIND_SP] && kind != ROW_FAR && kind != ROW_GO_C)
		return BPFPROF_STOP_BAD_FRAME;
	return unwind_to_caller(s, row, cfa, kind != ROW_PLT, reader);
}

/*
 * Moves s one frame up by row. 0, or enum bpfprof_stop. After COMPLETE and failures s is invalid,
 * except after RARE_RULE, READ_FAULT and any stop of ROW_NONE: then it is unchanged (but base may
 * be settled).
 */
static inline int unwind_step(struct unwind_state *s, __u64 row, struct unwind_reader *reader)
{
	return unwind_row_kind(row) == ROW_CFA ? unwind_step_cfa(s, row, reader)
					       : unwind_step_other(s, row, reader);
}

#endif
