/* SPDX-License-Identifier: Apache-2.0 */
/* 300 frames of one function, then a busy leaf. */
#define TARGET_MAIN
#include "target.h"

NOINLINE void spin(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++)
		target_sink += i ^ (target_sink >> 3);
}

NOINLINE unsigned long recurse(unsigned int depth, unsigned long a)
{
	volatile unsigned long pad[8];
	unsigned long sum;

	pad[depth & 7] = a;
	if (depth == 1) {
		spin(3000000);
		BARRIER();
		return a;
	}
	sum = recurse(depth - 1, a + pad[depth & 7]);
	BARRIER();
	return sum + pad[depth & 7];
}

int main(int argc, char **argv)
{
	target_init(argc, argv);
	for (;;)
		target_sink += recurse(300, 1);
}
