/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function written at run time into anonymous memory, with a frame pointer,
 * named by /tmp/perf-PID.map; it is busy itself and calls back into C.
 */
#define TARGET_MAIN
#include "target.h"
#include "perf_map.h"

NOINLINE void jit_callback(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++)
		target_sink += i ^ (target_sink >> 3);
}

NOINLINE void run_jit(void (*code)(void (*)(unsigned long), unsigned long))
{
	code(jit_callback, 300000);
	BARRIER();
}

static const unsigned char jit_code[] = {
	0x55, /* push %rbp */
	0x48, 0x89, 0xe5, /* mov %rsp, %rbp */
	0x53, 0x50, /* push %rbx; push %rax */
	0x48, 0x89, 0xf8, /* mov %rdi, %rax */
	0x48, 0x89, 0xf1, /* mov %rsi, %rcx */
	0x48, 0xff, 0xc9, /* dec %rcx */
	0x48, 0x85, 0xc9, /* test %rcx, %rcx */
	0x75, 0xf8, /* jnz dec */
	0x48, 0x89, 0xf7, /* mov %rsi, %rdi */
	0xff, 0xd0, /* call *%rax */
	0x58, 0x5b, /* pop %rax; pop %rbx */
	0x5d, 0xc3, /* pop %rbp; ret */
};

int main(int argc, char **argv)
{
	void *code;

	target_init(argc, argv);
	code = perf_map_code(jit_code, sizeof(jit_code));
	if (!code)
		return 1;
	for (;;)
		run_jit((void (*)(void (*)(unsigned long), unsigned long))code);
}
