// SPDX-License-Identifier: Apache-2.0
/*
 * Six functions that take 5, 10, 15, 20, 25 and 25 parts of a hundred: the same loop, so many times
 * over, with a constant of its own so that no two are merged. Runs until it is killed.
 */
#include "hidden.h"

static volatile unsigned int sink;

#define SHARE(name, parts, seed)                                                                   \
	__attribute__((noinline, noclone)) static void name(void)                                  \
	{                                                                                          \
		unsigned int n = sink;                                                             \
		int i;                                                                             \
                                                                                                   \
		for (i = 0; i < (parts)*40000; i++)                                                \
			n = n * 1664525u + seed + sink;                                            \
		sink = n;                                                                          \
	}

SHARE(share_a, 5, 1013904223u)
SHARE(share_b, 10, 1013904225u)
SHARE(share_c, 15, 1013904227u)
SHARE(share_d, 20, 1013904229u)
SHARE(share_e, 25, 1013904231u)
SHARE(share_f, 25, 1013904233u)

int main(void)
{
	process_hide();
	for (;;) {
		share_a();
		share_b();
		share_c();
		share_d();
		share_e();
		share_f();
	}
}
