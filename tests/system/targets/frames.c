/* SPDX-License-Identifier: Apache-2.0 */
/* Frames of 64 KiB, of alloca and of variable length arrays. */
#define TARGET_MAIN
#include "target.h"

#include <alloca.h>

NOINLINE void spin(volatile unsigned char *p, unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++)
		*p += (unsigned char)(i ^ (target_sink >> 3));
}

NOINLINE unsigned long frame_vla(unsigned int n)
{
	volatile unsigned char array[n + 1];

	array[n] = (unsigned char)n;
	spin(&array[n], 20000);
	BARRIER();
	return array[n];
}

NOINLINE unsigned long frame_alloca(unsigned int n)
{
	volatile unsigned char *p = (volatile unsigned char *)alloca(n + 16);
	unsigned long sum;

	p[n] = 1;
	sum = frame_vla(n + 33);
	BARRIER();
	return sum + p[n];
}

NOINLINE unsigned long frame_big_two(unsigned int n)
{
	volatile unsigned char array[65536];
	unsigned long sum;

	array[n] = (unsigned char)n;
	sum = frame_alloca(n & 511);
	BARRIER();
	return sum + array[n];
}

NOINLINE unsigned long frame_big_one(unsigned int n)
{
	volatile unsigned char array[65536];
	unsigned long sum;

	array[n] = (unsigned char)n;
	sum = frame_big_two(n + 7);
	BARRIER();
	return sum + array[n];
}

int main(int argc, char **argv)
{
	unsigned int n = 0;

	target_init(argc, argv);
	for (;;)
		target_sink += frame_big_one(n++ & 0x7fff);
}
