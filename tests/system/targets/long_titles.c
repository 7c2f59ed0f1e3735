// SPDX-License-Identifier: Apache-2.0
/*
 * A Ray worker as it looks from outside, with tasks whose names are long: of each of some lengths two
 * that differ in their last byte alone. Each burns CPU time; between two the worker is idle.
 *
 * long_titles ROOM LENGTHS MS TIMES: ROOM is an argument that is long enough to be overwritten, LENGTHS
 * are bytes of titles with commas between them. After SIGUSR1 all of them TIMES times; prints
 * "LENGTH LAST BEGIN BEGUN END ENDED" of each task, nanoseconds of CLOCK_MONOTONIC, then stays idle.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define MAX_TITLE 4096

static char *area;
static size_t room;

static unsigned long long clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (unsigned long long)ts.tv_sec * 1000000000ULL + (unsigned long long)ts.tv_nsec;
}

/* What is read in between is no title, not half of one and half of another. */
static void title_set(const char *title)
{
	size_t len = strnlen(title, room - 1);
	volatile char *first = area + 5;

	*first = 0;
	__asm__ volatile("" ::: "memory");
	memcpy(area, title, 5);
	memcpy(area + 6, title + 6, len - 6);
	memset(area + len, 0, room - len);
	__asm__ volatile("" ::: "memory");
	*first = title[5];
	prctl(PR_SET_NAME, area);
}

static __attribute__((noinline)) void burn(unsigned long long ns)
{
	unsigned long long end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns;
	volatile unsigned int x = 1;
	int i;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
		for (i = 0; i < 2000; i++)
			x = x * 1103515245 + 12345;
}

static void task(size_t len, char last, unsigned long long ns)
{
	unsigned long long begin, begun, end;
	char title[MAX_TITLE + 1];

	memset(title, 'x', len);
	memcpy(title, "ray::", 5);
	title[len - 1] = last;
	title[len] = 0;
	begin = clock_ns(CLOCK_MONOTONIC);
	title_set(title);
	begun = clock_ns(CLOCK_MONOTONIC);
	burn(ns);
	end = clock_ns(CLOCK_MONOTONIC);
	title_set("ray::IDLE");
	printf("%zu %c %llu %llu %llu %llu\n", len, last, begin, begun, end,
	       clock_ns(CLOCK_MONOTONIC));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	unsigned long long ns, times;
	const char *lengths, *at;
	char *end;
	size_t len;
	sigset_t gate;

	sigemptyset(&gate);
	sigaddset(&gate, SIGUSR1);
	sigprocmask(SIG_BLOCK, &gate, NULL);
	if (argc != 5 || getenv("TARGET_NONDUMPABLE"))
		prctl(PR_SET_DUMPABLE, 0);
	if (argc != 5)
		return 2;
	lengths = strdup(argv[2]);
	ns = strtoull(argv[3], NULL, 10) * 1000000ULL;
	times = strtoull(argv[4], NULL, 10);
	area = argv[0];
	room = (size_t)(argv[4] + strlen(argv[4]) + 1 - argv[0]);
	if (!lengths)
		return 1;
	title_set("ray::IDLE");
	sigwait(&gate, &(int){ 0 });
	while (times-- > 0) {
		for (at = lengths; *at; at = *end ? end + 1 : end) {
			len = strtoull(at, &end, 10);
			if (len < 7 || len > MAX_TITLE || len >= room)
				return 2;
			task(len, 'a', ns);
			task(len, 'b', ns);
		}
	}
	for (;;)
		pause();
}
