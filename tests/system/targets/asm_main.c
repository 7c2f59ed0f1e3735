/* SPDX-License-Identifier: Apache-2.0 */
/* Drives the functions of asm.S one after the other. */
#define TARGET_MAIN
#include "target.h"

unsigned long asm_push(unsigned long n);
unsigned long asm_rax(unsigned long n);
void asm_deref(void);
void asm_r12(void);
void asm_rbp(void);
void asm_callback(void);

NOINLINE void asm_spin(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++)
		target_sink += i ^ (target_sink >> 3);
}

NOINLINE void asm_callback(void)
{
	asm_spin(3000);
	BARRIER();
}

NOINLINE void asm_loop(void)
{
	asm_push(9000);
	asm_rax(10000);
	asm_deref();
	asm_rbp();
	BARRIER();
}

NOINLINE void asm_r12_loop(void)
{
	asm_r12();
	BARRIER();
}

int main(int argc, char **argv)
{
	target_init(argc, argv);
	for (;;) {
		asm_loop();
		asm_r12_loop();
	}
}
