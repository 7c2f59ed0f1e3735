/* SPDX-License-Identifier: Apache-2.0 */
/* One of the two libraries of reuse: BETA has other names and frames at the same addresses. */
#include "target.h"

static volatile unsigned long sink;

#ifdef BETA
#define SPIN beta_spin
#define OUTER beta_outer
#define PAD 200
#else
#define SPIN alpha_spin
#define OUTER alpha_outer
#define PAD 3
#endif

unsigned long OUTER(unsigned long rounds);

static NOINLINE unsigned long SPIN(unsigned long rounds)
{
	volatile unsigned long pad[PAD];

	pad[rounds % PAD] = rounds;
	for (unsigned long i = 0; i < rounds; i++)
		sink += i ^ (sink >> 3);
	return pad[rounds % PAD];
}

NOINLINE unsigned long OUTER(unsigned long rounds)
{
	volatile unsigned long pad[PAD];

	pad[rounds % PAD] = SPIN(rounds);
	BARRIER();
	return pad[rounds % PAD];
}
