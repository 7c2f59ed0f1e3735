// SPDX-License-Identifier: Apache-2.0
/*
 * chain LEVELS [MS]: spins below a chain of LEVELS different functions, for MS
 * milliseconds of CPU time or for ever.
 *
 * Its user stack is LEVELS + 5 deep: leaf, the levels, main and three frames of the
 * C library's start. Different functions rather than one that calls itself:
 * a profiler's cache of return addresses must not get away with a single entry.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define FRAME_BYTES 40 /* with the return address and saved registers about 64 a frame */

static unsigned long end_ns;

static unsigned long cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (unsigned long)now.tv_sec * 1000000000 + (unsigned long)now.tv_nsec;
}

static __attribute__((noinline)) unsigned int leaf(unsigned int x)
{
	unsigned int i;

	do {
		for (i = 0; i < 100000; i++) {
			x = x * 1664525 + 1013904223;
			__asm__ volatile("" : "+r"(x));
		}
	} while (!end_ns || cpu_ns() < end_ns);
	return x;
}

#define LEVEL(name, below)                                                                         \
	static __attribute__((noinline)) unsigned int name(unsigned int x)                         \
	{                                                                                          \
		volatile unsigned char pad[FRAME_BYTES];                                           \
                                                                                                   \
		pad[0] = (unsigned char)x;                                                         \
		x = below(x + 1);                                                                  \
		return x + pad[0];                                                                 \
	}

#define TEN(t, below)                                                                              \
	LEVEL(level_##t##0, below)                                                                 \
	LEVEL(level_##t##1, level_##t##0)                                                          \
	LEVEL(level_##t##2, level_##t##1)                                                          \
	LEVEL(level_##t##3, level_##t##2)                                                          \
	LEVEL(level_##t##4, level_##t##3)                                                          \
	LEVEL(level_##t##5, level_##t##4)                                                          \
	LEVEL(level_##t##6, level_##t##5)                                                          \
	LEVEL(level_##t##7, level_##t##6)                                                          \
	LEVEL(level_##t##8, level_##t##7)                                                          \
	LEVEL(level_##t##9, level_##t##8)

TEN(0, leaf)
TEN(1, level_09)
TEN(2, level_19)
TEN(3, level_29)
TEN(4, level_39)
TEN(5, level_49)
TEN(6, level_59)
TEN(7, level_69)
TEN(8, level_79)
TEN(9, level_89)

#define NAMES(t)                                                                                   \
	level_##t##0, level_##t##1, level_##t##2, level_##t##3, level_##t##4, level_##t##5,        \
		level_##t##6, level_##t##7, level_##t##8, level_##t##9

static unsigned int (*const chains[])(unsigned int) = { leaf,	  NAMES(0), NAMES(1), NAMES(2),
							NAMES(3), NAMES(4), NAMES(5), NAMES(6),
							NAMES(7), NAMES(8), NAMES(9) };

int main(int argc, char **argv)
{
	unsigned long levels = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	unsigned long ms = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;

	if (levels >= sizeof(chains) / sizeof(chains[0])) {
		fprintf(stderr, "usage: chain LEVELS [MS], LEVELS up to 100\n");
		return 2;
	}
	if (getppid()) /* not the first process of a container */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (ms)
		end_ns = cpu_ns() + ms * 1000000;
	return chains[levels]((unsigned int)argc) == 42;
}
