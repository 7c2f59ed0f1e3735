/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_ARCH_X86_64_H
#define BPFPROF_BPF_ARCH_X86_64_H

/*
 * x86-64: registers, calls, signal frames and system calls (System V ABI, AMD64 supplement, 3.2 and
 * 3.4; Linux, arch/x86/include/asm/ptrace.h). Include arch.h instead. The first part is plain C for
 * BPF, user space and the tests; the second part is for BPF programs.
 */

#define BPFPROF_NR_REGS 17 /* in DWARF order: rax rdx rcx rbx rsi rdi rbp rsp r8-r15 rip */
/* Registers with the arguments of a system call: rdi rsi rdx r10 r8 r9. */
#define BPFPROF_NR_SYSCALL_ARGS 6
#define BPFPROF_SYSCALL_ARGS                                                                       \
	{                                                                                          \
		5, 4, 1, 10, 8, 9                                                                  \
	}
#define BPFPROF_USER_VA_END (1ULL << 56) /* user memory lies below this address */
/* A function may use so much below the stack pointer without moving it. */
#define RED_ZONE_BYTES 128

enum {
	UNWIND_RAX = 0,
	UNWIND_RBX = 3,
	UNWIND_RBP = 6,
	UNWIND_RSP = 7,
	UNWIND_RIP = 16,
	/* Registers that the walkers follow, named by their purpose. */
	UNWIND_BASE = UNWIND_RBX, /* some functions build their frame on it */
	UNWIND_FP = UNWIND_RBP,
	UNWIND_SP = UNWIND_RSP,
	UNWIND_PC = UNWIND_RIP,
};

/* The registers that a function preserves for its caller, besides the stack pointer (3.2.1). */
#define UNWIND_PRESERVED                                                                           \
	{                                                                                          \
		UNWIND_BASE, UNWIND_FP, 12, 13, 14, 15                                             \
	}
#define UNWIND_NR_PRESERVED 6

#define UNWIND_RBX_SAVED UNWIND_BASE_SAVED /* bit of unwind_state.valid, see unwind_native.h */

/*
 * The rule of the return address, which is the same for all rows: a call pushes it, so it lies at
 * this offset from the CFA, and at the stack pointer when a function begins.
 */
#define UNWIND_RETURN_OFF (-CALL_PUSHES)
#define CALL_PUSHES 8 /* bytes */

/*
 * The frame pointer points to the caller's frame pointer, followed by the return address and the
 * caller's stack.
 */
#define UNWIND_RECORD_RETURN 8
#define UNWIND_RECORD_BYTES 16

#define UNWIND_SIGNAL_CONTEXT 40 /* offset of uc_mcontext in struct ucontext (asm/ucontext.h) */
#define SYSCALL_BYTES 2 /* length of the instruction of a system call */

/*
 * The register in each word of uc_mcontext (asm/sigcontext.h): r8-r15 rdi rsi rbp rbx rdx rax rcx
 * rsp rip.
 */
#define UNWIND_SIGNAL_ORDER                                                                        \
	{                                                                                          \
		8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7, 16                           \
	}

#ifdef __bpf__

#define PAGE_SHIFT 12
#define PAGE_BYTES (1 << PAGE_SHIFT)
#define SYS_FUTEX 202
#define USER32_CS 0x23
#define TASK_TLS_BASE thread.fsbase /* member of a task with the result of pthread_self() */

static __always_inline __u64 regs_sp(const struct pt_regs *regs)
{
	return regs->sp;
}

static __always_inline __u64 regs_pc(const struct pt_regs *regs)
{
	return regs->ip;
}

/* Copies BPFPROF_NR_REGS registers. */
static __always_inline void regs_copy(__u64 *dst, const struct pt_regs *regs)
{
	dst[0] = regs->ax;
	dst[1] = regs->dx;
	dst[2] = regs->cx;
	dst[3] = regs->bx;
	dst[4] = regs->si;
	dst[5] = regs->di;
	dst[6] = regs->bp;
	dst[7] = regs->sp;
	dst[8] = regs->r8;
	dst[9] = regs->r9;
	dst[10] = regs->r10;
	dst[11] = regs->r11;
	dst[12] = regs->r12;
	dst[13] = regs->r13;
	dst[14] = regs->r14;
	dst[15] = regs->r15;
	dst[16] = regs->ip;
}

/*
 * The number of the system call by which the thread left user mode; negative: it left it otherwise.
 */
static __always_inline __s64 regs_syscall(const struct pt_regs *regs)
{
	return (__s64)regs->orig_ax;
}

/* The first argument of a system call. */
static __always_inline __u64 regs_syscall_argument(const struct pt_regs *regs)
{
	return regs->di;
}

/*
 * Is the pc an interrupted instruction? The syscall instruction leaves rip in rcx and rflags in
 * r11; then rip is the instruction after it, which may belong to another function or to none.
 */
static __always_inline bool regs_are_exact(const struct pt_regs *regs)
{
	return !(regs->cx == regs->ip && regs->r11 == regs->flags && regs_syscall(regs) >= 0);
}

/* Do the registers belong to 32-bit code? */
static __always_inline bool regs_are_compat32(const struct pt_regs *regs)
{
	return (regs->cs & 0xffff) == USER32_CS;
}

/*
 * Did the perf event interrupt user mode? The verifier lets programs read the context of the event
 * by whole words; pt_regs comes first.
 */
static __always_inline bool perf_is_user(const struct bpf_perf_event_data *ctx)
{
	const __u32 cs = __builtin_offsetof(struct pt_regs, cs);

	return (*(volatile __u64 *)((void *)ctx + cs) & 3) == 3;
}

/*
 * Return address at the first instruction of a function. The kernel sets it to 0 if it cannot be
 * read.
 */
static __always_inline void regs_return_read(const struct pt_regs *regs, __u64 *dst)
{
	bpf_probe_read_user(dst, sizeof(*dst), (void *)regs->sp);
}

/* The result of a function that has just returned. */
static __always_inline __u64 regs_result(const struct pt_regs *regs)
{
	return regs->ax;
}

/*
 * In assembly: the verifier wants a constant offset for each read of a probe's context, and the
 * compiler would merge them into a variable one.
 */
#define REGS_TAKE(nr, field)                                                                       \
	case nr:                                                                                   \
		asm volatile("%0 = *(u64 *)(%1 + %2)"                                              \
			     : "=r"(value)                                                         \
			     : "r"(regs), "i"(__builtin_offsetof(struct pt_regs, field)));         \
		break

#define REGISTER_ARGUMENTS 6

/*
 * One of the first arguments by its number, from 1 on, at the first instruction of a function; 0
 * for other numbers.
 */
static __always_inline __u64 regs_argument(struct pt_regs *regs, __u32 nr)
{
	__u64 value = 0;

	switch (nr) {
		REGS_TAKE(1, di);
		REGS_TAKE(2, si);
		REGS_TAKE(3, dx);
		REGS_TAKE(4, cx);
		REGS_TAKE(5, r8);
		REGS_TAKE(6, r9);
	}
	return value;
}

/* The address of an argument on the stack: the seventh and later ones. */
static __always_inline __u64 regs_argument_va(const struct pt_regs *regs, __u32 nr)
{
	return regs->sp + 8 * (nr - REGISTER_ARGUMENTS);
}

/* A register by its number in instructions (Intel's manual, volume 2, 3.1.1.1). */
static __always_inline __u64 regs_by_number(struct pt_regs *regs, __u32 nr)
{
	__u64 value = 0;

	switch (nr) {
		REGS_TAKE(0, ax);
		REGS_TAKE(1, cx);
		REGS_TAKE(2, dx);
		REGS_TAKE(3, bx);
		REGS_TAKE(4, sp);
		REGS_TAKE(5, bp);
		REGS_TAKE(6, si);
		REGS_TAKE(7, di);
		REGS_TAKE(8, r8);
		REGS_TAKE(9, r9);
		REGS_TAKE(10, r10);
		REGS_TAKE(11, r11);
		REGS_TAKE(12, r12);
		REGS_TAKE(13, r13);
		REGS_TAKE(14, r14);
		REGS_TAKE(15, r15);
	}
	return value;
}

#endif

#endif
