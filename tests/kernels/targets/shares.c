// SPDX-License-Identifier: Apache-2.0
/*
 * Six functions that take 5, 10, 15, 20, 25 and 25 parts of a hundred. At SIGTERM writes the CPU
 * time that each really took, in nanoseconds, to standard output: emulated CPUs are not exact.
 */
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include "hidden.h"

static volatile unsigned int sink;
static volatile sig_atomic_t stop;

static void on_term(int sig)
{
	(void)sig;
	stop = 1;
}

#define SHARE(name, parts)                                                                         \
	__attribute__((noinline, noclone)) static void name(void)                                  \
	{                                                                                          \
		unsigned int n = sink;                                                             \
		int i;                                                                             \
                                                                                                   \
		for (i = 0; i < (parts)*40000; i++)                                                \
			n = n * 1664525u + 1013904223u + sink;                                     \
		sink = n;                                                                          \
	}

SHARE(share_a, 5)
SHARE(share_b, 10)
SHARE(share_c, 15)
SHARE(share_d, 20)
SHARE(share_e, 25)
SHARE(share_f, 25)

static unsigned long long cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (unsigned long long)now.tv_sec * 1000000000ULL + (unsigned long long)now.tv_nsec;
}

int main(void)
{
	void (*const functions[])(void) = { share_a, share_b, share_c, share_d, share_e, share_f };
	unsigned long long took[6] = { 0 }, before, after;
	struct sigaction term = { .sa_handler = on_term };
	int i;

	process_hide();
	sigaction(SIGTERM, &term, NULL);
	before = cpu_ns();
	while (!stop) {
		for (i = 0; i < 6; i++) {
			functions[i]();
			after = cpu_ns();
			took[i] += after - before;
			before = after;
		}
	}
	for (i = 0; i < 6; i++)
		printf("share_%c %llu\n", 'a' + i, took[i]);
	return 0;
}
