/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals raised by the very first instruction of a function: the address
 * before it belongs to another function, with another frame.
 */
#define TARGET_MAIN
#include "target.h"

#include <ucontext.h>

LINKAGE void trap_first(void);

/* The function before it never returns and ends in the middle of a 48 byte frame. */
__asm__(".text\n"
	".globl trap_before\n"
	".type trap_before, @function\n"
	"trap_before:\n"
	".cfi_startproc\n"
	"	subq $40, %rsp\n"
	".cfi_adjust_cfa_offset 40\n"
	"	call abort@plt\n"
	".cfi_endproc\n"
	".size trap_before, . - trap_before\n"
	".globl trap_first\n"
	".type trap_first, @function\n"
	"trap_first:\n"
	".cfi_startproc\n"
	"	ud2\n"
	"	ret\n"
	".cfi_endproc\n"
	".size trap_first, . - trap_first\n");

NOINLINE void handler_spin(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++)
		target_sink += i ^ (target_sink >> 3);
}

NOINLINE void on_trap(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = (ucontext_t *)context;

	(void)info;
	handler_spin(20000 + (unsigned long)sig);
	uc->uc_mcontext.gregs[REG_RIP] += 2;
	BARRIER();
}

NOINLINE void trap_loop(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		trap_first();
	BARRIER();
}

int main(int argc, char **argv)
{
	struct sigaction action = { 0 };

	target_init(argc, argv);
	action.sa_sigaction = on_trap;
	action.sa_flags = SA_SIGINFO;
	if (sigaction(SIGILL, &action, NULL))
		return 1;
	for (;;)
		trap_loop(100);
}
