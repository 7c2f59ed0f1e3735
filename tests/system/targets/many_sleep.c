// SPDX-License-Identifier: Apache-2.0
/*
 * Sleeps in as many threads as it is told, besides the first one, each in a function of its own stack:
 * rest() called by thread(). Says "ready" when all have begun.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define STACK_BYTES 32768

static pthread_barrier_t begun;

static __attribute__((noinline)) void rest(void)
{
	for (;;)
		pause();
}

static void *thread(void *arg)
{
	pthread_barrier_wait(&begun);
	rest();
	return arg;
}

int main(int argc, char **argv)
{
	unsigned int i, nr = argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 10) : 1;
	pthread_attr_t attr;
	pthread_t id;

	pthread_barrier_init(&begun, NULL, nr + 1);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	for (i = 0; i < nr; i++)
		if (pthread_create(&id, &attr, thread, NULL))
			return 1;
	pthread_barrier_wait(&begun);
	puts("ready");
	fflush(stdout);
	rest();
	return 0;
}
