// SPDX-License-Identifier: Apache-2.0
/*
 * Two threads, of which the second sleeps and spins, then executes this file again: what comes then
 * goes on under the number of the first. Says "TID SECONDS", of the second thread and, by the clock of the day, when it executes.
 */
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define PART_S 1.5

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void part(void)
{
	double end;

	usleep((useconds_t)(PART_S * 1e6));
	for (end = now_s() + PART_S; now_s() < end;)
		;
}

static void *second(void *arg)
{
	part();
	printf("%d %.6f\n", gettid(), now_s());
	fflush(stdout);
	execl("/proc/self/exe", "exec_thread", "again", (char *)NULL);
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	(void)argv;
	if (argc > 1) {
		part();
		for (;;)
			pause();
	}
	puts("ready");
	fflush(stdout);
	if (pthread_create(&thread, NULL, second, NULL))
		return 1;
	pthread_join(thread, NULL);
	return 1;
}
