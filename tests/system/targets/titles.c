// SPDX-License-Identifier: Apache-2.0
/*
 * A worker as Ray's look from outside: it writes what it does over its own arguments and names
 * its main thread by the first 15 bytes of that, as setproctitle does; the time under each title is
 * measured by its own CPU clock. Not related to a task: it only burns CPU.
 *
 * titles SECONDS ROOM MODE: ROOM is an argument that is long enough to be overwritten.
 *   shares  four titles in turns of 20, 40, 60 and 80 ms, SECONDS of CPU time in all; prints
 *           "TITLE NANOSECONDS" each
 *   once    half a second of one title, then another one with another name for the main thread
 *           (as PyTorch gives it)
 *   many    a new title every millisecond
 *   bad     one good title, then escapes, broken UTF-8, no title at all
 *   long    a title of 1305 bytes
 *   endless no NUL in all of the arguments
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker_title.h"

static __attribute__((noinline)) unsigned long long burn(unsigned long long ns)
{
	unsigned long long start = clock_ns(CLOCK_THREAD_CPUTIME_ID), at;
	volatile unsigned int x = 1;
	int i;

	do {
		for (i = 0; i < 20000; i++)
			x = x * 1103515245 + 12345;
		at = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	} while (at - start < ns);
	return at - start;
}

static void shares(unsigned long long ns)
{
	static const char *const titles[] = { "ray::Trainer.fit", "ray::Trainer.evaluate",
					      "ray::MapBatches(expensive)", "ray::IDLE" };
	unsigned long long spent[4] = { 0 };
	unsigned int i;

	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < ns) {
		for (i = 0; i < 4; i++) {
			title_set(titles[i]);
			spent[i] += burn((i + 1) * 20000000ULL);
		}
	}
	for (i = 0; i < 4; i++)
		printf("%s %llu\n", titles[i], spent[i]);
}

static void many(unsigned long long end)
{
	char title[64];
	unsigned int i;

	for (i = 0; now() < end; i++) {
		snprintf(title, sizeof(title), "ray::task_%u", i);
		title_set(title);
		burn(1000000);
	}
}

static void bad(unsigned long long end)
{
	static const char *const titles[] = { "ray::\033]0;owned\007", "ray::\xff\xfe\xc0\x80",
					      "not a title\nat all;x", "ray::", "" };
	unsigned int i;

	title_set("ray::Good.one");
	burn(300000000);
	for (i = 0; now() < end; i++) {
		title_set(titles[i % 5]);
		prctl(PR_SET_NAME, "ray::Good.one");
		burn(5000000);
	}
}

int main(int argc, char **argv)
{
	unsigned long long end;
	char long_title[1306];

	if (argc != 4 || getenv("TARGET_NONDUMPABLE"))
		prctl(PR_SET_DUMPABLE, 0);
	if (argc != 4)
		return 2;
	end = now() + strtoull(argv[1], NULL, 10) * 1000000000ULL;
	const char *mode = strdup(argv[3]);

	area = argv[0];
	room = (size_t)(argv[3] + strlen(argv[3]) + 1 - argv[0]);
	if (!mode)
		return 1;
	if (!strcmp(mode, "shares")) {
		shares(strtoull(argv[1], NULL, 10) * 1000000000ULL);
		return 0;
	} else if (!strcmp(mode, "many")) {
		many(end);
	} else if (!strcmp(mode, "bad")) {
		bad(end);
	} else if (!strcmp(mode, "once")) {
		title_set("ray::Trainer.fit");
		burn(500000000);
		title_set("ray::Trainer.later");
		prctl(PR_SET_NAME, "pt_main_thread");
		burn(500000000);
	} else if (!strcmp(mode, "long")) {
		memset(long_title, 'x', sizeof(long_title) - 1);
		memcpy(long_title, "ray::", 5);
		long_title[sizeof(long_title) - 1] = 0;
		title_set(long_title);
	} else if (!strcmp(mode, "endless")) {
		memcpy(area, "ray::", 5);
		memset(area + 5, 'y', room - 5);
		prctl(PR_SET_NAME, "ray::yyy");
	}
	while (now() < end)
		burn(10000000);
	return 0;
}
