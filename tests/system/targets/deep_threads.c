// SPDX-License-Identifier: Apache-2.0
/* deep_threads THREADS DEPTH: so many threads sleep in a recursion so deep; prints a line then. */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_barrier_t all;

static __attribute__((noinline, noclone)) long descend(long depth)
{
	volatile long below = 0;

	if (depth > 1) {
		below = descend(depth - 1);
	} else {
		pthread_barrier_wait(&all);
		for (;;)
			pause();
	}
	return below + 1;
}

static void *thread_run(void *depth)
{
	return (void *)descend((long)depth);
}

int main(int argc, char **argv)
{
	long nr, depth, i;
	pthread_t thread;

	if (argc != 3)
		return 2;
	nr = strtol(argv[1], NULL, 10);
	depth = strtol(argv[2], NULL, 10);
	if (nr < 1 || nr > 10000 || pthread_barrier_init(&all, NULL, (unsigned int)nr + 1))
		return 1;
	for (i = 0; i < nr; i++)
		if (pthread_create(&thread, NULL, thread_run, (void *)depth))
			return 1;
	pthread_barrier_wait(&all);
	puts("asleep");
	fflush(stdout);
	for (;;)
		pause();
}
