/* SPDX-License-Identifier: Apache-2.0 */
/* One part has no tables, only frame pointers; it calls back into code that has tables only. */
#define TARGET_MAIN
#include "target.h"

unsigned long nocfi_one(unsigned long n);
void table_spin(unsigned long n);

NOINLINE void table_spin(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++)
		target_sink += i ^ (target_sink >> 3);
}

int main(int argc, char **argv)
{
	target_init(argc, argv);
	for (;;)
		target_sink += nocfi_one(2);
}
