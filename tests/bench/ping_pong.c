// SPDX-License-Identifier: Apache-2.0
/*
 * Two threads that hand a byte to and fro by pipes: ping_pong SECONDS prints the CPU time of a switch
 * in nanoseconds: what else runs on the machine has little part in that.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int there[2], back[2];

static double now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void *answer(void *arg)
{
	char byte;

	while (read(there[0], &byte, 1) == 1)
		if (write(back[1], &byte, 1) != 1)
			break;
	return arg;
}

int main(int argc, char *argv[])
{
	double start, cpu, seconds = argc > 1 ? strtod(argv[1], NULL) : 1;
	unsigned long rounds = 0;
	pthread_t thread;
	char byte = 'x';

	if (pipe(there) || pipe(back) || pthread_create(&thread, NULL, answer, NULL))
		return 1;
	start = now(CLOCK_MONOTONIC);
	cpu = now(CLOCK_PROCESS_CPUTIME_ID);
	do {
		if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
			return 1;
		rounds++;
	} while (rounds % 64 || now(CLOCK_MONOTONIC) - start < seconds);
	printf("%.1f\n", (now(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 1e9 / 2 / (double)rounds);
	close(there[1]);
	pthread_join(thread, NULL);
	return 0;
}
