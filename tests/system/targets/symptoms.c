// SPDX-License-Identifier: Apache-2.0
/*
 * Programs with something wrong with them, and their healthy brothers; each writes down what it did.
 *
 * symptoms ROOM MODE ARG...: ROOM is an argument that is long enough for a Ray title.
 *   tasks NAME NR US [LONG_US]  NR tasks of a Ray worker, each so long; with LONG_US one more at the
 *                               end. Prints "NR NANOSECONDS" of all, and nanoseconds of that one.
 *                               `%` in NAME is the number of each.
 *   worker TITLE MS OF_MS       a Ray worker with this title that is busy MS of every OF_MS, for ever
 *   threads NR SECONDS          NR threads that only compute, beside the main thread, which waits
 *   leak MIB SECONDS            takes MIB more of memory every second
 *   load MIB SECONDS            takes MIB at the beginning, then computes
 *   saw MIB SECONDS             takes MIB and gives it back, again and again
 * The first line of the input is waited for.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "worker_title.h"

#define MS 1000000ULL
#define MIB (1UL << 20)

static unsigned long long burn_until(unsigned long long end)
{
	volatile unsigned int x = 1;
	int i;

	while (now() < end)
		for (i = 0; i < 2000; i++)
			x = x * 1103515245 + 12345;
	return now();
}

static unsigned long long task(const char *title, unsigned long long us)
{
	unsigned long long begin;

	title_set(title);
	begin = now();
	burn_until(begin + us * 1000);
	begin = now() - begin;
	title_set("ray::IDLE");
	return begin;
}

static void title_make(char *title, size_t cap, const char *name, unsigned long long number)
{
	const char *mark = strchr(name, '%');

	if (mark)
		snprintf(title, cap, "ray::%.*s%llu%s", (int)(mark - name), name, number, mark + 1);
	else
		snprintf(title, cap, "ray::%s", name);
}

static void tasks(char **args)
{
	unsigned long long nr = strtoull(args[1], NULL, 10), us = strtoull(args[2], NULL, 10);
	unsigned long long spent = 0, last = 0, i;
	char title[64];

	for (i = 0; i < nr; i++) {
		title_make(title, sizeof(title), args[0], i);
		spent += task(title, us);
	}
	if (args[3]) {
		title_make(title, sizeof(title), args[0], i);
		last = task(title, strtoull(args[3], NULL, 10));
		spent += last;
		nr++;
	}
	printf("%llu %llu %llu\n", nr, spent, last);
}

static void worker(const char *title, unsigned long long busy_ns, unsigned long long of_ns)
{
	unsigned long long begin, end;

	title_set(title);
	for (;;) {
		begin = now();
		end = burn_until(begin + busy_ns);
		if (end < begin + of_ns)
			usleep((unsigned int)((begin + of_ns - end) / 1000));
	}
}

static void *compute(void *arg)
{
	burn_until(*(unsigned long long *)arg);
	return NULL;
}

static void threads(unsigned int nr, unsigned long long end)
{
	pthread_t thread = 0;

	while (nr--)
		pthread_create(&thread, NULL, compute, &end);
	pthread_join(thread, NULL);
}

static void *take(size_t bytes)
{
	char *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		exit(1);
	memset(memory, 1, bytes);
	return memory;
}

static void memory(const char *mode, size_t bytes, unsigned long long end)
{
	unsigned long long begin;

	if (!strcmp(mode, "load"))
		take(bytes);
	while (now() < end) {
		begin = now();
		if (!strcmp(mode, "leak"))
			take(bytes / 10);
		if (!strcmp(mode, "saw")) {
			void *some = take(bytes);

			burn_until(begin + 300 * MS);
			munmap(some, bytes);
		}
		burn_until(begin + 50 * MS);
		usleep(50000);
	}
}

int main(int argc, char **argv)
{
	unsigned long long number, seconds;
	char *args[6] = { 0 };
	const char *mode;
	int i;

	if (argc < 4 || argc > 8)
		return 2;
	for (i = 2; i < argc; i++)
		args[i - 2] = strdup(argv[i]);
	area = argv[0];
	room = (size_t)(argv[argc - 1] + strlen(argv[argc - 1]) + 1 - argv[0]);
	mode = args[0];
	title_set(strcmp(mode, "tasks") ? "symptoms" : "ray::IDLE");
	if (getchar() == EOF)
		return 0;
	number = args[2] ? strtoull(args[2], NULL, 10) : 0;
	seconds = args[3] ? strtoull(args[3], NULL, 10) : 0;
	if (!strcmp(mode, "tasks"))
		tasks(args + 1);
	else if (!strcmp(mode, "worker"))
		worker(args[1], number * MS, seconds * MS);
	else if (!strcmp(mode, "threads"))
		threads((unsigned int)strtoull(args[1], NULL, 10), now() + number * 1000 * MS);
	else
		memory(mode, strtoull(args[1], NULL, 10) * MIB, now() + number * 1000 * MS);
	return 0;
}
