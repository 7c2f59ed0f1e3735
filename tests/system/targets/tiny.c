/* SPDX-License-Identifier: Apache-2.0 */
/* Functions so small that samples meet every instruction of their prologues and epilogues. */
#define TARGET_MAIN
#include "target.h"

NOINLINE unsigned long tiny_leaf(unsigned long a)
{
	return a + target_sink;
}

NOINLINE unsigned long tiny_pushes(unsigned long a, unsigned long b, unsigned long c)
{
	unsigned long x = tiny_leaf(a), y = tiny_leaf(b);

	return x + y * tiny_leaf(c) + a + b + c;
}

NOINLINE unsigned long tiny_frame(unsigned long a)
{
	volatile unsigned long local[24];

	local[a % 24] = a;
	BARRIER();
	return tiny_leaf(local[a % 24]) + local[a % 24];
}

NOINLINE unsigned long tiny_args(unsigned long a, unsigned long b, unsigned long c, unsigned long d,
				 unsigned long e, unsigned long f, unsigned long g, unsigned long h)
{
	return tiny_leaf(a + b) + tiny_leaf(c + d + e + f) + g + h;
}

NOINLINE unsigned long tiny_early(unsigned long a)
{
	if (a & 1)
		return a;
	a += tiny_leaf(a);
	BARRIER();
	return a;
}

NOINLINE unsigned long tiny_loop(unsigned long n)
{
	unsigned long sum = 0;

	for (unsigned long i = 0; i < n; i++) {
		sum += tiny_pushes(i, sum, n);
		sum += tiny_frame(i);
		sum += tiny_args(i, sum, 3, 4, 5, 6, 7, 8);
		sum += tiny_early(i);
	}
	return sum;
}

int main(int argc, char **argv)
{
	target_init(argc, argv);
	for (;;)
		target_sink += tiny_loop(100000);
}
