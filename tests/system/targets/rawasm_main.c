/* SPDX-License-Identifier: Apache-2.0 */
/* Drives the functions of rawasm.S one after the other. */
#define TARGET_MAIN
#include "target.h"

unsigned long raw_leaf(unsigned long n);
void raw_middle(void);
void raw_aligned(void);
void raw_stale(void);
void raw_rep(void);
void raw_callback(void);

NOINLINE void raw_spin(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++)
		target_sink += i ^ (target_sink >> 3);
}

NOINLINE void raw_callback(void)
{
	raw_spin(2000);
	BARRIER();
}

NOINLINE void raw_loop(void)
{
	raw_leaf(4000);
	raw_middle();
	raw_aligned();
	raw_stale();
	/* Shorter than the others, and quicker on some processors. */
	raw_rep();
	raw_rep();
	BARRIER();
}

int main(int argc, char **argv)
{
	target_init(argc, argv);
	for (;;)
		raw_loop();
}
