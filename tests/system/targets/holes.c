/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks with pages that no memory was ever given to: arrays of which only the start is used. */
#define TARGET_MAIN
#include "target.h"

NOINLINE void spin(volatile unsigned char *p, unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++)
		*p += (unsigned char)(i ^ (target_sink >> 3));
}

/* Two holes: one page, and fifteen. */
NOINLINE unsigned long hole_small(unsigned long n)
{
	volatile unsigned char array[3 * 4096];

	array[0] = (unsigned char)n;
	spin(array, 2000);
	BARRIER();
	return array[0];
}

NOINLINE unsigned long hole_large(unsigned long n)
{
	volatile unsigned char array[16 * 4096];
	unsigned long sum;

	array[0] = (unsigned char)n;
	sum = hole_small(n);
	BARRIER();
	return sum + array[0];
}

#define ABOVE(name, next)                                                                          \
	NOINLINE unsigned long name(unsigned long n)                                               \
	{                                                                                          \
		unsigned long sum = next(n + 1);                                                   \
                                                                                                   \
		BARRIER();                                                                         \
		return sum + target_sink;                                                          \
	}

ABOVE(above_six, hole_large)
ABOVE(above_five, above_six)
ABOVE(above_four, above_five)
ABOVE(above_three, above_four)
ABOVE(above_two, above_three)
ABOVE(above_one, above_two)

int main(int argc, char **argv)
{
	unsigned long n = 0;

	target_init(argc, argv);
	for (;;)
		target_sink += above_one(n++);
}
