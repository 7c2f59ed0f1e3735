// SPDX-License-Identifier: Apache-2.0
/* 300 frames of one function: main -> dive x 300 -> bottom. Runs until it is killed. */
#include "hidden.h"

static volatile unsigned int sink;

__attribute__((noinline, noclone)) static unsigned int bottom(unsigned int n)
{
	int i;

	for (i = 0; i < 2000000; i++)
		n = n * 1664525u + 1013904223u + sink;
	return n;
}

__attribute__((noinline, noclone)) static unsigned int dive(unsigned int depth)
{
	unsigned int got = depth > 1 ? dive(depth - 1) : bottom(depth);

	sink += got; /* keeps the frame: not a tail call */
	return got + 1;
}

int main(void)
{
	process_hide();
	for (;;)
		sink += dive(300);
}
