/* SPDX-License-Identifier: Apache-2.0 */
/* Lives in the vDSO, and in real system calls now and then. */
#define TARGET_MAIN
#include "target.h"

NOINLINE unsigned long clock_loop(unsigned int n)
{
	struct timespec now = { 0 };
	unsigned long sum = 0;

	for (unsigned int i = 0; i < n; i++) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		sum += (unsigned long)now.tv_nsec;
	}
	BARRIER();
	return sum;
}

NOINLINE unsigned long call_loop(unsigned int n)
{
	unsigned long sum = 0;

	for (unsigned int i = 0; i < n; i++)
		sum += (unsigned long)getppid();
	BARRIER();
	return sum;
}

int main(int argc, char **argv)
{
	target_init(argc, argv);
	for (;;)
		target_sink += clock_loop(2000) + call_loop(200);
}
