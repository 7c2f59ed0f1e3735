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

/*
 * Where in a loop of a few instructions interrupts land is the processor's to
 * choose (of this function with its sum alone from 0.8 to 55% of the samples,
 * by the compiler). A division is waited for where it stands: every fourth
 * call is seen in here on any of them, the others leave the stubs their share.
 */
NOINLINE unsigned long NAME(_tiny)(unsigned long a)
{
	if (!(a % 4))
		return a / (sink | 1);
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
