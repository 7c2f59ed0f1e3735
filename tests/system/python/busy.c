// SPDX-License-Identifier: Apache-2.0
/* Threads that are not Python's, and C code that runs without the GIL. */
#include <pthread.h>
#include <stdint.h>
#include <time.h>

typedef void (*callback_t)(void);

static volatile uint32_t sink;

static double cpu_seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

__attribute__((noinline)) void busy_spin(uint32_t rounds)
{
	uint32_t x = 1;

	for (uint32_t i = 0; i < rounds; i++)
		x = x * 1664525 + i;
	sink = x;
}

__attribute__((noinline)) void busy_for(double seconds)
{
	double end = cpu_seconds(CLOCK_THREAD_CPUTIME_ID) + seconds;

	while (cpu_seconds(CLOCK_THREAD_CPUTIME_ID) < end)
		busy_spin(10000);
}

struct native_thread {
	pthread_t thread;
	callback_t callback;
	double seconds;
};

static struct native_thread threads[8];

static void *native_thread_main(void *arg)
{
	struct native_thread *self = arg;

	if (self->callback)
		self->callback();
	else
		busy_for(self->seconds);
	return 0;
}

/* callback 0: busy for some seconds instead. */
int busy_start(int slot, callback_t callback, double seconds)
{
	threads[slot].callback = callback;
	threads[slot].seconds = seconds;
	return pthread_create(&threads[slot].thread, 0, native_thread_main, &threads[slot]);
}

int busy_join(int slot)
{
	return pthread_join(threads[slot].thread, 0);
}
