// SPDX-License-Identifier: Apache-2.0
/* For gilwaits.py, called with the GIL held: between both times nobody else can have it. */
#include <stdint.h>
#include <time.h>

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void hold(int64_t ns, int64_t times[2])
{
	struct timespec t = { .tv_nsec = ns };

	times[0] = now();
	nanosleep(&t, NULL);
	times[1] = now();
}
