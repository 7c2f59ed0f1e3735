/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks realigned to 64 bytes with alloca beside them: the CFA is read from memory (deref). */
#define TARGET_MAIN
#include "target.h"

#include <alloca.h>

struct wide {
	unsigned long v[8];
} __attribute__((aligned(64)));

NOINLINE void spin(volatile struct wide *w, unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++)
		w->v[i & 7] += i ^ (target_sink >> 3);
}

/* Small: samples meet its prologue, where the CFA hangs on another register. */
NOINLINE unsigned long realign_small(unsigned long a)
{
	volatile struct wide w;
	volatile unsigned char *p = (volatile unsigned char *)alloca((a & 63) + 1);

	w.v[a & 7] = a;
	p[a & 63] = 1;
	BARRIER();
	return w.v[a & 7] + p[a & 63];
}

NOINLINE unsigned long realign_two(unsigned long a)
{
	volatile struct wide w = { { a } };
	volatile unsigned char *p = (volatile unsigned char *)alloca((a & 255) + 1);

	p[a & 255] = 2;
	spin(&w, 2000);
	BARRIER();
	return w.v[a & 7] + p[a & 255];
}

NOINLINE unsigned long realign_one(unsigned long a)
{
	volatile struct wide w = { { a } };
	volatile unsigned char *p = (volatile unsigned char *)alloca((a & 255) + 1);
	unsigned long sum;

	p[a & 255] = 3;
	sum = realign_two(a + p[a & 255]);
	for (int i = 0; i < 12; i++)
		sum += realign_small(sum);
	BARRIER();
	return sum + w.v[a & 7];
}

int main(int argc, char **argv)
{
	unsigned long n = 0;

	target_init(argc, argv);
	for (;;)
		target_sink += realign_one(n++);
}
