// SPDX-License-Identifier: Apache-2.0
/* unwind_step(): each kind of row over memory that is an array, with nothing readable around it. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <linux/types.h>
#include <string.h>

struct unwind_reader {
	int nr_reads;
};

#define MEMORY_VA 0x10000ULL
#define MEMORY_WORDS 64

static __u64 memory[MEMORY_WORDS];

static int unwind_read(struct unwind_reader *reader, __u64 va, void *dst, __u32 len)
{
	reader->nr_reads++;
	if (va < MEMORY_VA || va - MEMORY_VA > sizeof(memory) - len)
		return -1;
	memcpy(dst, (char *)memory + (va - MEMORY_VA), len);
	return 0;
}

static int unwind_read_u64(struct unwind_reader *reader, __u64 va, __u64 *dst)
{
	return unwind_read(reader, va, dst, sizeof(*dst));
}

#include "unwind_native.h"

#define R12 12
#define VA(word) (MEMORY_VA + 8 * (word))
#define WORD(word) (0xabc000ULL + (word)) /* what lies in word n, unless the test changes it */

struct step_case {
	char name[48];
	__u64 row;
	/* before; registers that are not given are 0 and known unless taken out by lost */
	__u64 rsp, rbp, r12, rip;
	__u32 lost;
	/* word, value: changed in memory first, unless word is 0 */
	__u32 word;
	__u64 value;
	__u32 word2;
	__u64 value2;
	int stop;
	/* after, if stop is 0 */
	__u64 want_rsp, want_rbp, want_rip;
	__u32 bp_lost;
};

/* By the layout that unwind_native.h documents, as a constant. */
#define ROW(kind, reg, off, rule, bp_off, second)                                                  \
	((__u64)(kind) << 16 | (__u64)(reg) << 20 | (__u64)((off) / 8 & 0xffff) << 24 |            \
	 (__u64)(rule) << 40 | (__u64)((bp_off) / 8 & 0x3fff) << 42 |                              \
	 (__u64)((second)&0xff) << 56)
#define BP (1U << UNWIND_RBP)

static struct step_case step_cases[] = {
	{ .name = "rsp + 8: no frame yet",
	  .row = ROW(ROW_CFA, 7, 8, BP_SAME, 0, 0),
	  .rsp = VA(4),
	  .rbp = 77,
	  .want_rsp = VA(5),
	  .want_rbp = 77,
	  .want_rip = WORD(4) },
	{ .name = "rbp saved",
	  .row = ROW(ROW_CFA, 7, 32, BP_AT_CFA, -16, 0),
	  .rsp = VA(4),
	  .rbp = 77,
	  .want_rsp = VA(8),
	  .want_rbp = WORD(6),
	  .want_rip = WORD(7) },
	{ .name = "rbp + 16",
	  .row = ROW(ROW_CFA, 6, 16, BP_AT_CFA, -16, 0),
	  .rsp = VA(4),
	  .rbp = VA(20),
	  .want_rsp = VA(22),
	  .want_rbp = WORD(20),
	  .want_rip = WORD(21) },
	{ .name = "negative offset of the cfa",
	  .row = ROW(ROW_CFA, 12, -16, BP_SAME, 0, 0),
	  .rsp = VA(4),
	  .r12 = VA(30),
	  .want_rsp = VA(28),
	  .want_rip = WORD(27) },
	{ .name = "rbp undefined",
	  .row = ROW(ROW_CFA, 7, 8, BP_LOST, 0, 0),
	  .rsp = VA(4),
	  .rbp = 77,
	  .want_rsp = VA(5),
	  .want_rip = WORD(4),
	  .bp_lost = 1 },
	{ .name = "rbp stays lost",
	  .row = ROW(ROW_CFA, 7, 8, BP_SAME, 0, 0),
	  .rsp = VA(4),
	  .rbp = 77,
	  .lost = BP,
	  .want_rsp = VA(5),
	  .want_rip = WORD(4),
	  .bp_lost = 1 },
	{ .name = "lost rbp found again",
	  .row = ROW(ROW_CFA, 7, 16, BP_AT_CFA, -16, 0),
	  .rsp = VA(4),
	  .lost = BP,
	  .want_rsp = VA(6),
	  .want_rbp = WORD(4),
	  .want_rip = WORD(5) },
	{ .name = "cfa on a lost register",
	  .row = ROW(ROW_CFA, 6, 16, BP_AT_CFA, -16, 0),
	  .rsp = VA(4),
	  .rbp = VA(20),
	  .lost = BP,
	  .stop = BPFPROF_STOP_REG_LOST },
	{ .name = "rbp saved at a lost rbp",
	  .row = ROW(ROW_CFA, 7, 8, BP_AT_BP, 0, 0),
	  .rsp = VA(4),
	  .lost = BP,
	  .stop = BPFPROF_STOP_REG_LOST },
	{ .name = "cfa is rsp",
	  .row = ROW(ROW_CFA, 7, 0, BP_SAME, 0, 0),
	  .rsp = VA(4),
	  .stop = BPFPROF_STOP_BAD_FRAME },
	{ .name = "cfa below rsp",
	  .row = ROW(ROW_CFA, 6, 16, BP_SAME, 0, 0),
	  .rsp = VA(30),
	  .rbp = VA(20),
	  .stop = BPFPROF_STOP_BAD_FRAME },
	{ .name = "first word of memory",
	  .row = ROW(ROW_CFA, 7, 8, BP_SAME, 0, 0),
	  .rsp = VA(0),
	  .want_rsp = VA(1),
	  .want_rip = WORD(0) },
	{ .name = "last word of memory",
	  .row = ROW(ROW_CFA, 7, 8, BP_SAME, 0, 0),
	  .rsp = VA(63),
	  .want_rsp = VA(64),
	  .want_rip = WORD(63) },
	{ .name = "return address out of memory",
	  .row = ROW(ROW_CFA, 7, 8, BP_SAME, 0, 0),
	  .rsp = VA(64),
	  .stop = BPFPROF_STOP_READ_FAULT },
	{ .name = "saved rbp out of memory",
	  .row = ROW(ROW_CFA, 7, 8, BP_AT_CFA, -24, 0),
	  .rsp = VA(1),
	  .stop = BPFPROF_STOP_READ_FAULT },
	{ .name = "rbp at rbp out of memory",
	  .row = ROW(ROW_CFA, 7, 8, BP_AT_BP, 8, 0),
	  .rsp = VA(1),
	  .rbp = VA(63),
	  .stop = BPFPROF_STOP_READ_FAULT },
	{ .name = "return address 0",
	  .row = ROW(ROW_CFA, 7, 8, BP_SAME, 0, 0),
	  .rsp = VA(4),
	  .word = 4,
	  .value = 0,
	  .stop = BPFPROF_STOP_COMPLETE },
	{ .name = "largest offsets",
	  .row = ROW(ROW_CFA, 12, 0x7fff * 8, BP_AT_CFA, 0x1fff * 8, 0),
	  .rsp = VA(1),
	  .r12 = VA(9) - 0x7fff * 8ULL,
	  .stop = BPFPROF_STOP_READ_FAULT },
	{ .name = "largest offset of the cfa",
	  .row = ROW(ROW_CFA, 12, 0x7fff * 8, BP_SAME, 0, 0),
	  .rsp = VA(1),
	  .r12 = VA(9) - 0x7fff * 8ULL,
	  .want_rsp = VA(9),
	  .want_rip = WORD(8) },
	{ .name = "smallest offset of the cfa",
	  .row = ROW(ROW_CFA, 12, -0x8000 * 8, BP_SAME, 0, 0),
	  .rsp = VA(1),
	  .r12 = VA(9) + 0x8000 * 8ULL,
	  .want_rsp = VA(9),
	  .want_rip = WORD(8) },
	{ .name = "smallest offset of rbp",
	  .row = ROW(ROW_CFA, 7, 8, BP_AT_BP, -0x2000 * 8, 0),
	  .rsp = VA(1),
	  .rbp = VA(9) + 0x2000 * 8,
	  .want_rsp = VA(2),
	  .want_rip = WORD(1),
	  .want_rbp = WORD(9) },
	{ .name = "largest offset of rbp",
	  .row = ROW(ROW_CFA, 7, 8, BP_AT_BP, 0x1fff * 8, 0),
	  .rsp = VA(1),
	  .rbp = VA(9) - 0x1fff * 8ULL,
	  .want_rsp = VA(2),
	  .want_rip = WORD(1),
	  .want_rbp = WORD(9) },
	{ .name = "addresses wrap",
	  .row = ROW(ROW_CFA, 7, 32, BP_SAME, 0, 0),
	  .rsp = -8ULL,
	  .stop = BPFPROF_STOP_BAD_FRAME },
	{ .name = "plt: first instructions",
	  .row = ROW(ROW_PLT, 7, 8, BP_SAME, 0, 11),
	  .rsp = VA(4),
	  .rbp = 77,
	  .rip = 0x102a,
	  .want_rsp = VA(5),
	  .want_rbp = 77,
	  .want_rip = WORD(4) },
	{ .name = "plt: after the push",
	  .row = ROW(ROW_PLT, 7, 8, BP_SAME, 0, 11),
	  .rsp = VA(4),
	  .rbp = 77,
	  .rip = 0x102b,
	  .want_rsp = VA(6),
	  .want_rbp = 77,
	  .want_rip = WORD(5) },
	{ .name = "plt: last byte",
	  .row = ROW(ROW_PLT, 7, 8, BP_SAME, 0, 9),
	  .rsp = VA(4),
	  .rip = 0x102f,
	  .want_rsp = VA(6),
	  .want_rip = WORD(5) },
	{ .name = "realigned stack",
	  .row = ROW(ROW_DEREF, 6, -8, BP_AT_BP, 0, 0),
	  .rsp = VA(4),
	  .rbp = VA(20),
	  .word = 19,
	  .value = VA(40),
	  .want_rsp = VA(40),
	  .want_rbp = WORD(20),
	  .want_rip = WORD(39) },
	{ .name = "deref with an addend",
	  .row = ROW(ROW_DEREF, 7, 24, BP_SAME, 0, -2),
	  .rsp = VA(4),
	  .word = 7,
	  .value = VA(40),
	  .want_rsp = VA(38),
	  .want_rip = WORD(37) },
	{ .name = "deref of unreadable memory",
	  .row = ROW(ROW_DEREF, 6, -8, BP_AT_BP, 0, 0),
	  .rsp = VA(4),
	  .rbp = VA(0),
	  .stop = BPFPROF_STOP_READ_FAULT },
	{ .name = "deref of a lost register",
	  .row = ROW(ROW_DEREF, 6, -8, BP_AT_BP, 0, 0),
	  .rsp = VA(4),
	  .rbp = VA(20),
	  .lost = BP,
	  .stop = BPFPROF_STOP_REG_LOST },
	{ .name = "index",
	  .row = ROW(ROW_INDEX, 12, 8, BP_AT_CFA, -24, 1),
	  .rsp = VA(4),
	  .r12 = 10,
	  .word = 15,
	  .value = VA(40),
	  .want_rsp = VA(41),
	  .want_rbp = WORD(38),
	  .want_rip = WORD(40) },
	{ .name = "index: huge",
	  .row = ROW(ROW_INDEX, 12, 8, BP_SAME, 0, 1),
	  .rsp = VA(4),
	  .r12 = ~0ULL >> 3,
	  .stop = BPFPROF_STOP_READ_FAULT },
	{ .name = "far: on a stack below",
	  .row = ROW(ROW_FAR, 6, 16, BP_AT_CFA, -16, 0),
	  .rsp = VA(40),
	  .rbp = VA(10),
	  .want_rsp = VA(12),
	  .want_rbp = WORD(10),
	  .want_rip = WORD(11) },
	{ .name = "far: a large frame",
	  .row = ROW(ROW_FAR, 7, 24, BP_SAME, 0, 2),
	  .rsp = VA(4) - 2 * UNWIND_FAR_BYTES,
	  .rbp = 77,
	  .want_rsp = VA(7),
	  .want_rbp = 77,
	  .want_rip = WORD(6) },
	{ .name = "far: a lost register",
	  .row = ROW(ROW_FAR, 6, 16, BP_AT_CFA, -16, 0),
	  .rsp = VA(4),
	  .rbp = VA(10),
	  .lost = BP,
	  .stop = BPFPROF_STOP_REG_LOST },
	{ .name = "go calls c: from a goroutine", /* that ends at word 60, and was at 20 */
	  .row = ROW(ROW_GO_C, 0, 16, BP_AT_CFA, 8, 2),
	  .rsp = VA(40),
	  .word = 41, /* g; its end is at 30, and how far below that it was at 42 */
	  .value = VA(29),
	  .word2 = 30,
	  .value2 = 0xabc000ULL + 42 + VA(20),
	  .want_rsp = VA(22),
	  .want_rbp = WORD(20),
	  .want_rip = WORD(21) },
	{ .name = "go calls c: from the same stack",
	  .row = ROW(ROW_GO_C, 0, 8, BP_SAME, 8, 2),
	  .rsp = VA(10),
	  .rbp = 77,
	  .word = 11,
	  .value = 0,
	  .word2 = 12,
	  .value2 = VA(20),
	  .want_rsp = VA(21),
	  .want_rbp = 77,
	  .want_rip = WORD(20) },
	{ .name = "go calls c: g is not there",
	  .row = ROW(ROW_GO_C, 0, 8, BP_SAME, 8, 2),
	  .rsp = VA(10),
	  .stop = BPFPROF_STOP_READ_FAULT },
	{ .name = "go calls c: what it left is not there",
	  .row = ROW(ROW_GO_C, 0, 8, BP_SAME, 8, 2),
	  .rsp = VA(63),
	  .stop = BPFPROF_STOP_READ_FAULT },
	{ .name = "outermost frame",
	  .row = ROW(ROW_END, 0, 0, 0, 0, 0),
	  .rsp = VA(4),
	  .stop = BPFPROF_STOP_COMPLETE },
	{ .name = "rare",
	  .row = ROW(ROW_RARE, 0, 0, 0, 0, 0),
	  .rsp = VA(4),
	  .stop = BPFPROF_STOP_RARE_RULE },
	{ .name = "unreadable file",
	  .row = ROW(ROW_UNREADABLE, 0, 0, 0, 0, 0),
	  .rsp = VA(4),
	  .stop = BPFPROF_STOP_MISS_FILE },
	{ .name = "invalid", .row = 0, .rsp = VA(4), .stop = BPFPROF_STOP_RARE_RULE },
	{ .name = "kind of a later version",
	  .row = ROW(15, 7, 8, 0, 0, 0),
	  .rsp = VA(4),
	  .stop = BPFPROF_STOP_RARE_RULE },
	{ .name = "frame pointer",
	  .row = ROW(ROW_NONE, 0, 0, 0, 0, 0),
	  .rsp = VA(4),
	  .rbp = VA(20),
	  .want_rsp = VA(22),
	  .want_rbp = WORD(20),
	  .want_rip = WORD(21) },
	{ .name = "frame pointer at rsp",
	  .row = ROW(ROW_NONE, 0, 0, 0, 0, 0),
	  .rsp = VA(20),
	  .rbp = VA(20),
	  .want_rsp = VA(22),
	  .want_rbp = WORD(20),
	  .want_rip = WORD(21) },
	{ .name = "frame pointer 0",
	  .row = ROW(ROW_NONE, 0, 0, 0, 0, 0),
	  .rsp = VA(4),
	  .stop = BPFPROF_STOP_COMPLETE },
	{ .name = "frame pointer lost",
	  .row = ROW(ROW_NONE, 0, 0, 0, 0, 0),
	  .rsp = VA(4),
	  .rbp = VA(20),
	  .lost = BP,
	  .stop = BPFPROF_STOP_REG_LOST },
	{ .name = "frame pointer below rsp",
	  .row = ROW(ROW_NONE, 0, 0, 0, 0, 0),
	  .rsp = VA(21),
	  .rbp = VA(20),
	  .stop = BPFPROF_STOP_NO_TABLE },
	{ .name = "frame pointer not aligned",
	  .row = ROW(ROW_NONE, 0, 0, 0, 0, 0),
	  .rsp = VA(4),
	  .rbp = VA(20) + 4,
	  .stop = BPFPROF_STOP_NO_TABLE },
	{ .name = "frame pointer far away",
	  .row = ROW(ROW_NONE, 0, 0, 0, 0, 0),
	  .rsp = VA(4),
	  .rbp = VA(5) + UNWIND_MAX_FRAME_BYTES,
	  .stop = BPFPROF_STOP_NO_TABLE },
	{ .name = "frame pointer unreadable",
	  .row = ROW(ROW_NONE, 0, 0, 0, 0, 0),
	  .rsp = VA(4),
	  .rbp = VA(63),
	  .stop = BPFPROF_STOP_READ_FAULT },
	{ .name = "frame pointer, return address 0, in vain",
	  .row = ROW(ROW_NONE, 0, 0, 0, 0, UNWIND_LOOKED_AT | UNWIND_NO_RULE),
	  .rsp = VA(4),
	  .rbp = VA(20),
	  .word = 21,
	  .value = 0,
	  .stop = BPFPROF_STOP_NO_TABLE },
	{ .name = "frame pointer 0, innermost, in vain",
	  .row = ROW(ROW_NONE, 0, 0, 0, 0, UNWIND_LOOKED_AT | UNWIND_NO_RULE),
	  .rsp = VA(4),
	  .stop = BPFPROF_STOP_NO_TABLE },
	{ .name = "frame pointer, return address 0",
	  .row = ROW(ROW_NONE, 0, 0, 0, 0, 0),
	  .rsp = VA(4),
	  .rbp = VA(20),
	  .word = 21,
	  .value = 0,
	  .stop = BPFPROF_STOP_COMPLETE },
};

ParameterizedTestParameters(step, kinds)
{
	return cr_make_param_array(struct step_case, step_cases,
				   sizeof(step_cases) / sizeof(step_cases[0]));
}

static void memory_fill(void)
{
	for (__u32 i = 0; i < MEMORY_WORDS; i++)
		memory[i] = WORD(i);
}

ParameterizedTest(struct step_case *c, step, kinds)
{
	struct unwind_reader reader = { 0 };
	struct unwind_state s = { .valid = UNWIND_ALL_REGS & ~c->lost, .exact = 1 }, before;
	__u32 valid;

	memory_fill();
	if (c->word)
		memory[c->word] = c->value;
	if (c->word2)
		memory[c->word2] = c->value2;
	s.regs[UNWIND_RSP] = c->rsp;
	s.regs[UNWIND_RBP] = c->rbp;
	s.regs[R12] = c->r12;
	s.regs[UNWIND_RIP] = c->rip;
	before = s;
	cr_assert_eq(unwind_step(&s, c->row, &reader), c->stop, "%s", c->name);
	if (c->stop == BPFPROF_STOP_READ_FAULT || c->stop == BPFPROF_STOP_RARE_RULE ||
	    (c->stop && unwind_row_kind(c->row) == ROW_NONE))
		cr_assert(!memcmp(&s, &before, sizeof(s)), "%s: changed", c->name);
	if (c->stop)
		return;
	cr_assert_eq(s.regs[UNWIND_RSP], c->want_rsp, "%s: rsp", c->name);
	cr_assert_eq(s.regs[UNWIND_RIP], c->want_rip, "%s: rip", c->name);
	valid = UNWIND_FRAME_REGS & ~(c->bp_lost ? BP : 0);
	if (unwind_row_kind(c->row) == ROW_CFA || unwind_row_kind(c->row) == ROW_PLT)
		valid |= 1U << UNWIND_RBX; /* same value */
	cr_assert_eq(s.valid, valid, "%s: valid", c->name);
	if (!c->bp_lost)
		cr_assert_eq(s.regs[UNWIND_RBP], c->want_rbp, "%s: rbp", c->name);
	cr_assert_eq(s.exact, 0, "%s", c->name);
}

/* Compares with the kernel's declaration of the signal frame. */
#include <ucontext.h>

Test(step, signal_frame)
{
	static const struct {
		int greg;
		int reg;
	} order[] = { { REG_RAX, 0 },  { REG_RDX, 1 },	{ REG_RCX, 2 },	 { REG_RBX, 3 },
		      { REG_RSI, 4 },  { REG_RDI, 5 },	{ REG_RBP, 6 },	 { REG_RSP, 7 },
		      { REG_R8, 8 },   { REG_R9, 9 },	{ REG_R10, 10 }, { REG_R11, 11 },
		      { REG_R12, 12 }, { REG_R13, 13 }, { REG_R14, 14 }, { REG_R15, 15 },
		      { REG_RIP, 16 } };
	struct unwind_state s = { .valid = 1U << UNWIND_RSP };
	struct unwind_reader reader = { 0 };
	greg_t *gregs = (greg_t *)((char *)&memory[2] + offsetof(ucontext_t, uc_mcontext.gregs));
	__u64 row = ROW(ROW_SIGNAL, 7, (int)offsetof(ucontext_t, uc_mcontext), 0, 0, 0);

	cr_assert_eq(unwind_row_off(row), 40);
	for (int i = 0; i < 17; i++)
		gregs[order[i].greg] = 0x1000 + order[i].reg;
	s.regs[UNWIND_RSP] = VA(2);
	cr_assert_eq(unwind_step(&s, row, &reader), 0);
	for (__u64 i = 0; i < 17; i++)
		cr_assert_eq(s.regs[i], 0x1000 + i, "register %d", (int)i);
	cr_assert_eq(s.valid, UNWIND_ALL_REGS);
	cr_assert_eq(s.exact, 1);
	cr_assert_eq(reader.nr_reads, 1);
	cr_assert_eq(unwind_lookup_pc(&s), 0x1010);

	s.regs[UNWIND_RSP] = VA(MEMORY_WORDS - 10);
	cr_assert_eq(unwind_step(&s, row, &reader), BPFPROF_STOP_READ_FAULT);
	cr_assert_eq(s.regs[UNWIND_RSP], VA(MEMORY_WORDS - 10));

	gregs[REG_RIP] = 0;
	s.regs[UNWIND_RSP] = VA(2);
	cr_assert_eq(unwind_step(&s, row, &reader), BPFPROF_STOP_COMPLETE);
}

/* The byte that a handler returns to is the frame's; during the system call it is inside anyway. */
Test(step, signal_trampolines_begin_where_handlers_return_to)
{
	__u64 row = ROW(ROW_SIGNAL, 7, 40, 0, 0, 0) | 0xf2f;
	struct unwind_state s = { .exact = 0 };

	cr_assert_eq(unwind_signal_entry(&s, row, 0x40f2f), 1);
	cr_assert_eq(unwind_signal_entry(&s, row, 0x40f30), 0, "within the system call");
	s.exact = 1;
	cr_assert_eq(unwind_signal_entry(&s, row, 0x40f2f), 0, "an interrupted one");
	s.exact = 0;
	cr_assert_eq(unwind_signal_entry(&s, ROW(ROW_CFA, 7, 8, 0, 0, 0) | 0xf2f, 0x40f2f), 0);
}

struct rbx_case {
	char name[40];
	__u64 rows[2];
	__u32 lost; /* at the start */
	int stop;
	__u64 want_rsp; /* after both; the second row is built on rbx */
};

#define BX (1U << UNWIND_RBX)

static struct rbx_case rbx_cases[] = {
	{ "in its register",
	  { ROW(ROW_CFA, 7, 16, 0, 0, 0), ROW(ROW_CFA, 3, 8, 0, 0, 0) },
	  0,
	  0,
	  VA(31) },
	{ "saved", { ROW(ROW_CFA, 7, 16, 0, 0, -2), ROW(ROW_CFA, 3, 8, 0, 0, 0) }, 0, 0, VA(41) },
	{ "saved after lost",
	  { ROW(ROW_CFA, 7, 16, 0, 0, -2), ROW(ROW_CFA, 3, 8, 0, 0, 0) },
	  BX,
	  0,
	  VA(41) },
	{ "lost at the start",
	  { ROW(ROW_CFA, 7, 16, 0, 0, 0), ROW(ROW_CFA, 3, 8, 0, 0, 0) },
	  BX,
	  BPFPROF_STOP_REG_LOST,
	  0 },
	{ "lost by a row",
	  { ROW(ROW_CFA, 7, 16, 0, 0, 1), ROW(ROW_CFA, 3, 8, 0, 0, 0) },
	  0,
	  BPFPROF_STOP_REG_LOST,
	  0 },
	{ "lost by a realigned frame",
	  { ROW(ROW_DEREF, 7, 8, 0, 0, 0), ROW(ROW_CFA, 3, 8, 0, 0, 0) },
	  0,
	  BPFPROF_STOP_REG_LOST,
	  0 },
	{ "kept by a PLT",
	  { ROW(ROW_PLT, 7, 8, 0, 0, 11), ROW(ROW_CFA, 3, 8, 0, 0, 0) },
	  0,
	  0,
	  VA(31) },
	{ "lost by a frame pointer",
	  { ROW(ROW_NONE, 0, 0, 0, 0, 0), ROW(ROW_CFA, 3, 8, 0, 0, 0) },
	  0,
	  BPFPROF_STOP_REG_LOST,
	  0 },
	{ "saved out of memory",
	  { ROW(ROW_CFA, 7, 16, 0, 0, -128), ROW(ROW_CFA, 3, 8, 0, 0, 0) },
	  0,
	  BPFPROF_STOP_READ_FAULT,
	  0 },
};

ParameterizedTestParameters(step, rbx)
{
	return cr_make_param_array(struct rbx_case, rbx_cases,
				   sizeof(rbx_cases) / sizeof(rbx_cases[0]));
}

/* rbx through a frame, to one that is built on it, as the loader's resolver is. */
ParameterizedTest(struct rbx_case *c, step, rbx)
{
	struct unwind_reader reader = { 0 };
	struct unwind_state s = { .valid = UNWIND_ALL_REGS & ~c->lost, .exact = 1 };

	memory_fill();
	memory[4] = VA(40); /* rbx, saved at cfa - 16 */
	memory[5] = VA(20); /* an address, both to return to and to dereference */
	s.regs[UNWIND_RSP] = VA(4);
	s.regs[UNWIND_RBP] = VA(8);
	s.regs[UNWIND_RBX] = VA(30);
	cr_assert_eq(unwind_step(&s, c->rows[0], &reader), 0, "%s", c->name);
	cr_assert_eq(unwind_step(&s, c->rows[1], &reader), c->stop, "%s", c->name);
	if (!c->stop)
		cr_assert_eq(s.regs[UNWIND_RSP], c->want_rsp, "%s: %llx", c->name,
			     s.regs[UNWIND_RSP]);
}

Test(step, settle)
{
	struct unwind_state s = { .valid = 1U << UNWIND_RSP };
	struct unwind_reader reader = { 0 };

	memory_fill();
	cr_assert_eq(unwind_settle(&s, &reader), 0);
	cr_assert_eq(reader.nr_reads, 0);
	cr_assert_eq(s.valid, 1U << UNWIND_RSP);

	s.valid = UNWIND_RBX_SAVED | 1U << UNWIND_RSP;
	s.regs[UNWIND_RBX] = VA(9);
	cr_assert_eq(unwind_settle(&s, &reader), 0);
	cr_assert_eq(s.regs[UNWIND_RBX], WORD(9));
	cr_assert_eq(s.valid, BX | 1U << UNWIND_RSP);

	s.valid = UNWIND_RBX_SAVED | 1U << UNWIND_RSP;
	s.regs[UNWIND_RBX] = 8;
	cr_assert_eq(unwind_settle(&s, &reader), -1);
	cr_assert_eq(s.valid, 1U << UNWIND_RSP);
}

Test(step, lookup_pc)
{
	struct unwind_state s = { .regs[UNWIND_RIP] = 100, .exact = 1 };

	cr_assert_eq(unwind_lookup_pc(&s), 100);
	s.exact = 0;
	cr_assert_eq(unwind_lookup_pc(&s), 99);
}

/* Every field comes back as it went in, at its limits and without touching the others. */
Test(step, row_fields)
{
	static const __s32 off8[] = { -0x8000, -1, 0, 1, 0x7fff };
	static const __s32 bp8[] = { -0x2000, -1, 0, 1, 0x1fff };
	static const __s32 second[] = { -0x80, -1, 0, 1, 0x7f };

	for (int i = 0; i < 125; i++) {
		__u32 low = i & 1 ? 0xffff : 0, kind = i & 2 ? 15 : 1, reg = i & 1 ? 15 : 0;
		__u64 row = unwind_row_make(low, kind, reg, off8[i % 5], i % 4, bp8[i / 5 % 5],
					    second[i / 25]);

		cr_assert_eq(unwind_row_low(row), low);
		cr_assert_eq(unwind_row_kind(row), kind);
		cr_assert_eq(unwind_row_reg(row), reg);
		cr_assert_eq(unwind_row_off(row), off8[i % 5] * 8LL);
		cr_assert_eq(unwind_row_bp_rule(row), (__u32)i % 4);
		cr_assert_eq(unwind_row_bp_off(row), bp8[i / 5 % 5] * 8LL);
		cr_assert_eq(unwind_row_second(row), second[i / 25]);
	}
}
