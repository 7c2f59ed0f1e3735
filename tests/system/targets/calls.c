/* SPDX-License-Identifier: Apache-2.0 */
/* A plain chain of calls that keeps several callee-saved registers busy. */
#define TARGET_MAIN
#include "target.h"

NOINLINE void spin(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++)
		target_sink += i ^ (target_sink >> 3);
}

NOINLINE unsigned long level_three(unsigned long a, unsigned long b)
{
	unsigned long c = a * b + target_sink;

	spin(20000 + (c & 1));
	BARRIER();
	return c + target_sink;
}

NOINLINE unsigned long level_two(unsigned long a, unsigned long b, unsigned long c)
{
	unsigned long local[4] = { a, b, c, target_sink };

	BARRIER();
	for (int i = 0; i < 4; i++)
		local[i] += level_three(local[i], a + b);
	BARRIER();
	return local[0] + local[3];
}

NOINLINE unsigned long level_one(unsigned long (*next)(unsigned long, unsigned long, unsigned long))
{
	unsigned long sum = next(1, 2, 3);

	BARRIER();
	return sum + next(4, 5, sum);
}

int main(int argc, char **argv)
{
	target_init(argc, argv);
	for (;;)
		target_sink += level_one(level_two);
}
