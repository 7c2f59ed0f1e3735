/* SPDX-License-Identifier: Apache-2.0 */
/* Calls a shared library through lazy PLT entries, mostly functions of a few instructions. */
#define TARGET_MAIN
#include "target.h"

unsigned long lib_tiny(unsigned long a);
unsigned long lib_calls(unsigned long a);

NOINLINE unsigned long plt_loop(unsigned long n)
{
	unsigned long sum = 0;

	for (unsigned long i = 0; i < n; i++)
		sum += lib_tiny(i);
	sum += lib_calls(n);
	BARRIER();
	return sum;
}

int main(int argc, char **argv)
{
	target_init(argc, argv);
	for (;;)
		target_sink += plt_loop(500);
}
