/* SPDX-License-Identifier: Apache-2.0 */
/* The shared library of the targets plt and later. */
#include "target.h"

#ifndef PREFIX
#define PREFIX lib
#endif
#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
#define NAME(x) JOIN(PREFIX, x)

unsigned long NAME(_tiny)(unsigned long a);
unsigned long NAME(_calls)(unsigned long a);
unsigned long NAME(_spin)(unsigned long n);

static volatile unsigned long sink;

NOINLINE unsigned long NAME(_tiny)(unsigned long a)
{
	return a + sink;
}

NOINLINE unsigned long NAME(_spin)(unsigned long n)
{
	for (unsigned long i = 0; i < n; i++)
		sink += i ^ (sink >> 3);
	return sink;
}

/* Calls itself through its own PLT: the symbols can be replaced. */
NOINLINE unsigned long NAME(_calls)(unsigned long a)
{
	unsigned long sum = a;

	for (unsigned int i = 0; i < 200; i++)
		sum += NAME(_tiny)(i);
	sum += NAME(_spin)(200);
	BARRIER();
	return sum;
}
