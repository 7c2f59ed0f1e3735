/* SPDX-License-Identifier: Apache-2.0 */
/* Walks through the 64 pages of pages.S in turn. */
#define TARGET_MAIN
#include "target.h"

extern void (*const page_table[64])(unsigned long rounds);
void page_spin(unsigned long rounds);

NOINLINE void page_spin(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++)
		target_sink += i ^ (target_sink >> 3);
}

NOINLINE void page_round(void)
{
	for (unsigned int i = 0; i < 64; i++)
		page_table[i](5000);
	BARRIER();
}

int main(int argc, char **argv)
{
	target_init(argc, argv);
	for (;;)
		page_round();
}
