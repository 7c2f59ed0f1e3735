// SPDX-License-Identifier: Apache-2.0
/*
 * storm SECONDS: two pairs of threads that hand a byte to and fro as fast as they can, and three
 * threads that compute on one CPU. Prints a line for each of them: what it does, its tid, how long
 * it was there, how long it waited for a CPU (in ns, the kernel's count) and how often it was switched.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PAIRS 2
#define SPINNERS 3

static double seconds;
static int pipes[PAIRS][2][2];

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void tell(const char *what, int64_t begin)
{
	unsigned long long run, delay = 0;
	struct rusage usage;
	FILE *file = fopen("/proc/thread-self/schedstat", "r");

	if (!file || fscanf(file, "%llu %llu", &run, &delay) != 2)
		exit(1);
	fclose(file);
	getrusage(RUSAGE_THREAD, &usage);
	printf("%s %ld %lld %llu %ld\n", what, syscall(SYS_gettid), (long long)(now() - begin),
	       delay, usage.ru_nvcsw + usage.ru_nivcsw);
}

static void *hand(void *arg)
{
	long nr = (long)arg, pair = nr / 2, side = nr % 2;
	int64_t begin = now(), end = begin + (int64_t)(seconds * 1e9);
	int in = pipes[pair][side][0], out = pipes[pair][!side][1];
	char byte = 'x';

	/* The first side says when it is over. */
	do {
		if (!side && write(out, &byte, 1) != 1)
			exit(1);
		if (read(in, &byte, 1) != 1)
			exit(1);
		if (side && byte != 'q' && write(out, &byte, 1) != 1)
			exit(1);
	} while (side ? byte != 'q' : now() < end);
	byte = 'q';
	if (!side && write(out, &byte, 1) != 1)
		exit(1);
	tell("hand", begin);
	return NULL;
}

static void *spin(void *arg)
{
	int64_t begin = now(), end = begin + (int64_t)(seconds * 1e9);
	cpu_set_t *one = arg;

	sched_setaffinity(0, sizeof(*one), one);
	while (now() < end)
		;
	tell("spin", begin);
	return NULL;
}

int main(int argc, char *argv[])
{
	pthread_t threads[2 * PAIRS + SPINNERS];
	cpu_set_t all, one;
	long i;

	seconds = argc > 1 ? strtod(argv[1], NULL) : 1;
	sched_getaffinity(0, sizeof(all), &all);
	CPU_ZERO(&one);
	for (i = 0; i < CPU_SETSIZE && !CPU_ISSET(i, &all); i++)
		;
	CPU_SET(i, &one);
	for (i = 0; i < 2 * PAIRS; i++)
		if (pipe(pipes[i / 2][i % 2]))
			return 1;
	for (i = 0; i < 2 * PAIRS; i++)
		if (pthread_create(&threads[i], NULL, hand, (void *)i))
			return 1;
	for (; i < 2 * PAIRS + SPINNERS; i++)
		if (pthread_create(&threads[i], NULL, spin, &one))
			return 1;
	for (i = 0; i < 2 * PAIRS + SPINNERS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
