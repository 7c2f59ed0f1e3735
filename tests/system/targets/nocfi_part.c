/* SPDX-License-Identifier: Apache-2.0 */
/* Built without .eh_frame, with frame pointers. */
#include "target.h"

unsigned long nocfi_one(unsigned long n);
unsigned long nocfi_two(unsigned long n);
unsigned long nocfi_spin(unsigned long n);
void table_spin(unsigned long n);

NOINLINE unsigned long nocfi_spin(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++)
		target_sink += i ^ (target_sink >> 3);
	/* Asking for it keeps the frame: gcc leaves it out of leaves otherwise. */
	target_sink += (unsigned long)__builtin_frame_address(0) & 1;
	return target_sink;
}

NOINLINE unsigned long nocfi_two(unsigned long n)
{
	unsigned long sum = nocfi_spin(300000 + n);

	table_spin(300000);
	BARRIER();
	return sum;
}

NOINLINE unsigned long nocfi_one(unsigned long n)
{
	unsigned long sum = nocfi_two(n + 1);

	BARRIER();
	return sum + n;
}
