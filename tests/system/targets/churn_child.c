/* SPDX-License-Identifier: Apache-2.0 */
/* Burns 20 ms of CPU in a known chain and ends. */
#define TARGET_MAIN
#include "target.h"

NOINLINE void churn_spin(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++)
		target_sink += i ^ (target_sink >> 3);
}

NOINLINE int churn_work(void)
{
	struct timespec now;

	churn_spin(2000);
	return clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) || now.tv_sec ||
	       now.tv_nsec >= 20000000;
}

int main(void)
{
	while (!churn_work())
		BARRIER();
	return 0;
}
