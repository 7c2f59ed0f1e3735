/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function written at run time into anonymous memory that keeps numbers in rbp, as those of
 * oneDNN do: named by /tmp/perf-PID.map; it is busy itself and calls back into C. With ZEROS rbp always
 * points to what looks like the end of a stack. With FAR the callback lies far from it. With
 * VAIN the code cannot be followed to its end.
 */
#define TARGET_MAIN
#include "target.h"
#include "perf_map.h"

NOINLINE void jit_callback(unsigned long rounds)
{
#ifdef FAR
	volatile char room[80 << 10];

	for (unsigned long i = 0; i < sizeof(room); i += 512)
		room[i] = (char)i;
#endif
	for (unsigned long i = 0; i < rounds; i++)
		target_sink += i ^ (target_sink >> 3);
}

NOINLINE void run_jit(void (*code)(void (*)(unsigned long), unsigned long))
{
	code(jit_callback, 300000);
	BARRIER();
}

/* Copied to where it runs: position-independent. */
__asm__(".pushsection .rodata\n"
	"jit_begin:\n"
	"push %rbx\n"
	"push %r12\n"
	"mov %rsp, %rax\n"
	"sub $0x400, %rsp\n"
	"mov %rbp, 0x3f8(%rsp)\n"
	"mov %rdi, %rbx\n"
	"mov %rsi, %r12\n"
#ifdef ZEROS
	"lea 8(%rsp), %rbp\n"
	"movq $0, (%rbp)\n"
	"movq $0, 8(%rbp)\n"
#else
	"mov %rsi, %rbp\n"
	"1: dec %rbp\n" /* 0 in the end */
	"jnz 1b\n"
	"lea 8(%rsp), %rbp\n" /* and something that looks like a frame pointer */
#endif
	"mov %r12, %rcx\n"
	"2: dec %rcx\n"
	"jnz 2b\n"
	"mov %r12, %rdi\n"
	"call *%rbx\n"
	"mov 0x3f8(%rsp), %rbp\n"
	"add $0x400, %rsp\n"
	"pop %r12\n"
	"pop %rbx\n"
#ifdef VAIN
	"pop %rcx\n"
	"jmp *%rcx\n"
#else
	"ret\n"
#endif
	"jit_end:\n"
	".popsection\n");
extern const unsigned char jit_begin[], jit_end[];

int main(int argc, char **argv)
{
	void *code;

	target_init(argc, argv);
	code = perf_map_code(jit_begin, (size_t)(jit_end - jit_begin));
	if (!code)
		return 1;
	for (;;)
		run_jit((void (*)(void (*)(unsigned long), unsigned long))code);
}
