// SPDX-License-Identifier: Apache-2.0
/* own_frames(): the leaf end of kernel stacks as the timer clock meets them. */
#include <criterion/criterion.h>
#include <linux/types.h>

#include "own_frames.h"

#define IRQ 0x1010ULL /* in asm_sysvec_apic_timer_interrupt */
#define SOFTIRQ 0x2010ULL /* in do_softirq */
#define USER 0x302dULL /* where asm_fred_entrypoint_user's call returns to */
#define KERNEL 0x312dULL
#define OTHER 0x9000ULL

static const struct bpfprof_cfg idt = {
	.irq_start = 0x1000,
	.irq_end = 0x1100,
	.softirq_start = 0x2000,
	.softirq_end = 0x2100,
};

static const struct bpfprof_cfg fred = {
	.irq_start = 0x1000,
	.irq_end = 0x1100,
	.softirq_start = 0x2000,
	.softirq_end = 0x2100,
	.fred_user_start = 0x3000,
	.fred_user_end = 0x3100,
	.fred_kernel_start = 0x3100,
	.fred_kernel_end = 0x3200,
};

static const struct own_frames_case {
	const char *name;
	const struct bpfprof_cfg *cfg;
	__u64 frames[32];
	__u32 nr;
	int in_syscall;
	__u32 own;
} cases[] = {
	{ "user mode", &idt, { OTHER, OTHER, IRQ }, 3, 0, 3 },
	{ "kernel mode", &idt, { OTHER, IRQ, OTHER, OTHER }, 4, 1, 2 },
	{ "bottom halves", &idt, { OTHER, SOFTIRQ, OTHER, OTHER }, 4, 1, 2 },
	{ "do_softirq in an interrupt", &idt, { OTHER, SOFTIRQ, OTHER, IRQ, OTHER }, 5, 1, 4 },
	{ "no frames", &idt, { 0 }, 0, 0, 0 },
	{ "nothing known", &idt, { OTHER, OTHER, OTHER }, 3, 0, 0 },
	{ "first of a range", &idt, { 0x1000, OTHER }, 2, 0, 1 },
	{ "behind a range", &idt, { 0x1100, 0x2100, OTHER }, 3, 0, 0 },
	{ "too far out", &idt, { [24] = IRQ }, 25, 0, 0 },
	{ "just not too far out", &idt, { [23] = IRQ }, 25, 0, 24 },
	{ "no FRED there", &idt, { OTHER, USER, KERNEL }, 3, 0, 0 },
	{ "FRED, user mode", &fred, { OTHER, OTHER, USER }, 3, 0, 3 },
	{ "FRED, kernel mode of a call", &fred, { OTHER, KERNEL, OTHER, USER }, 4, 1, 2 },
	{ "FRED, kernel mode of an interrupt", &fred, { OTHER, KERNEL, OTHER, USER }, 4, 0, 2 },
	{ "FRED, bottom halves in a call", &fred, { OTHER, SOFTIRQ, OTHER, USER }, 4, 1, 2 },
	{ "FRED, do_softirq of user mode", &fred, { OTHER, SOFTIRQ, OTHER, USER }, 4, 0, 4 },
	{ "FRED, a call and nothing known", &fred, { OTHER, OTHER, USER }, 3, 1, 0 },
};

Test(own_frames, all)
{
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_eq(
			own_frames(cases[i].cfg, cases[i].frames, cases[i].nr, cases[i].in_syscall),
			cases[i].own, "%s", cases[i].name);
}

Test(own_frames, threads_that_go_on_from_an_interrupt)
{
	const struct bpfprof_cfg cfg = { .irq_start = 0x1000,
					 .irq_end = 0x1100,
					 .irq_exit_start = 0x4000,
					 .irq_exit_end = 0x4010,
					 .irq_exit_user_start = 0x4020,
					 .irq_exit_user_end = 0x4030,
					 .wake_start = 0x5000,
					 .wake_end = 0x5100 };

	cr_expect(is_interrupt_exit(&cfg, 0x4000) && is_interrupt_exit(&cfg, 0x402f));
	cr_expect(!is_interrupt_exit(&cfg, 0x4010) && !is_interrupt_exit(&cfg, 0x1000));
	cr_expect(is_interrupt_entry(&cfg, 0x1000, 1) && !is_interrupt_entry(&cfg, 0x4000, 0));
	cr_expect(is_interrupt_entry(&fred, 0x3000, 0) && !is_interrupt_entry(&fred, 0x3000, 1));
	cr_expect(is_interrupt_entry(&fred, 0x3100, 1));
	cr_expect(is_wake_function(&cfg, 0x50ff) && !is_wake_function(&cfg, 0x5100));
}
