// SPDX-License-Identifier: Apache-2.0
/* The inner half of the chain: linked into the program, or a shared library of its own. */
#include "chain.h"

static volatile unsigned int chain_sink;

CHAIN_FUNCTION int chain_6(int n)
{
	unsigned int sum = (unsigned int)n;
	int i;

	for (i = 0; i < 2000; i++)
		sum = sum * 1664525u + 1013904223u + chain_sink;
	return (int)sum;
}

CHAIN_FUNCTION int chain_5(int n)
{
	CHAIN_CALL(chain_6, 20);
}

CHAIN_FUNCTION int chain_4(int n)
{
	CHAIN_CALL(chain_5, 20);
}
