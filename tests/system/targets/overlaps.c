// SPDX-License-Identifier: Apache-2.0
/*
 * A Ray actor that makes several calls at once, and says when each of them began and ended: prints
 * "N METHOD TID BEGIN BEGUN ENDS ENDED", nanoseconds of CLOCK_MONOTONIC before and after the title is
 * set. Call N, from 1 in the order of begin, runs call_N; each lane of calls makes NR_EACH of them.
 *
 * overlaps SECONDS ROOM CLASS MODE: ROOM is an argument that is long enough to be overwritten.
 *   threads  each lane is a thread
 *   fibers   each lane is a fiber of one thread, with a stack of its own beside the others'
 * The calls wait for SIGUSR1. Before, a call of each lane is open: it ends after that.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "worker_title.h"

#define NR_LANES 4
#define NR_EACH 15
#define STACK_BYTES (256 << 10) /* as in Ray */
#define US 1000ULL

static const char *const methods[] = { "f", "g", "fit", "f", "evaluate" };
static char class[100];
static pthread_mutex_t title_lock = PTHREAD_MUTEX_INITIALIZER; /* Python's GIL */
static unsigned int nr_begun;
static ucontext_t scheduler, fibers[NR_LANES];
static int fiber = -1; /* the one that runs, -1: lanes are threads */

static void burn(unsigned long long us)
{
	unsigned long long end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + us * US;
	volatile unsigned int x = 1;
	int i;

	do {
		for (i = 0; i < 2000; i++)
			x = x * 1103515245 + 12345;
	} while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end);
}

static __attribute__((noinline)) void rest(unsigned long long us)
{
	if (fiber < 0)
		usleep((useconds_t)us);
	else
		swapcontext(&fibers[fiber], &scheduler);
}

/* The name in its code, or the compiler makes one of equal functions. */
#define WORK(name)                                                                                 \
	static __attribute__((noinline)) void name(unsigned int part)                              \
	{                                                                                          \
		__asm__ volatile("# " #name);                                                      \
		burn(4000);                                                                        \
		rest(part);                                                                        \
	}

WORK(call_1)
WORK(call_2)
WORK(call_3)
WORK(call_4)
WORK(call_5)
WORK(call_6)
WORK(call_7)
WORK(call_8)
WORK(call_9)
WORK(call_10)
WORK(call_11)
WORK(call_12)
WORK(call_other)

static void (*const calls[])(unsigned int) = {
	call_1, call_2, call_3, call_4,	 call_5,  call_6,
	call_7, call_8, call_9, call_10, call_11, call_12,
};

/* As Ray, from another depth of the stack at the end than at the begin. */
static __attribute__((noinline)) void title_reset(void)
{
	volatile char deeper[192];
	char title[120];

	deeper[0] = 0;
	snprintf(title, sizeof(title), "ray::%s", class);
	title_set(title);
	(void)deeper[0];
}

static void call(unsigned int lane, unsigned int k)
{
	const char *method = methods[(lane + k) % 5];
	unsigned long long begin, begun, ends;
	char title[120];
	unsigned int n, i;

	snprintf(title, sizeof(title), "ray::%s.%s", class, method);
	pthread_mutex_lock(&title_lock);
	begin = now();
	title_set(title);
	begun = now();
	n = ++nr_begun;
	pthread_mutex_unlock(&title_lock);
	/* Calls last 1 to 4 rounds: they do not end in the order of their begin. */
	for (i = 0; i <= (lane + 3 * k) % 4; i++)
		(n <= 12 ? calls[n - 1] : call_other)(3000 * (lane + 1));
	pthread_mutex_lock(&title_lock);
	ends = now();
	title_reset();
	printf("%u %s %ld %llu %llu %llu %llu\n", n, method, syscall(SYS_gettid), begin, begun,
	       ends, now());
	fflush(stdout);
	pthread_mutex_unlock(&title_lock);
}

static pthread_barrier_t gate;

static void lane_run(unsigned int lane)
{
	char title[120];
	unsigned int k;

	snprintf(title, sizeof(title), "ray::%s.before", class);
	title_set(title);
	if (fiber < 0) {
		pthread_barrier_wait(&gate);
		pthread_barrier_wait(&gate);
	} else {
		rest(0);
	}
	pthread_mutex_lock(&title_lock);
	title_reset();
	pthread_mutex_unlock(&title_lock);
	for (k = 0; k < NR_EACH; k++) {
		call(lane, k);
		rest(1000 * (lane + 1));
	}
}

static void *thread_run(void *lane)
{
	lane_run((unsigned int)(unsigned long)lane);
	return NULL;
}

static void fiber_run(void)
{
	for (lane_run((unsigned int)fiber);;)
		rest(0);
}

static void fibers_make(void)
{
	char *stacks = mmap(NULL, NR_LANES * STACK_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int i;

	if (stacks == MAP_FAILED)
		exit(1);
	for (i = 0; i < NR_LANES; i++) {
		getcontext(&fibers[i]);
		fibers[i].uc_stack.ss_sp = stacks + i * STACK_BYTES;
		fibers[i].uc_stack.ss_size = STACK_BYTES;
		makecontext(&fibers[i], fiber_run, 0);
	}
}

static void *fibers_run(void *arg)
{
	int round;

	fibers_make();
	for (fiber = 0; fiber < NR_LANES; fiber++)
		swapcontext(&scheduler, &fibers[fiber]);
	pthread_barrier_wait(&gate);
	pthread_barrier_wait(&gate);
	for (round = 0; round < 6 * NR_EACH; round++) {
		for (fiber = 0; fiber < NR_LANES; fiber++)
			swapcontext(&scheduler, &fibers[fiber]);
		usleep(1000);
	}
	return arg;
}

int main(int argc, char **argv)
{
	unsigned int threads, seconds, i;
	pthread_t thread;
	sigset_t usr1;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &usr1, NULL);
	if (argc != 5)
		return 2;
	seconds = (unsigned int)atoi(argv[1]);
	snprintf(class, sizeof(class), "%s", argv[3]);
	threads = strcmp(argv[4], "fibers") ? NR_LANES : 1;
	area = argv[0];
	room = (size_t)(argv[4] + strlen(argv[4]) + 1 - argv[0]);
	pthread_barrier_init(&gate, NULL, threads + 1);
	title_reset();
	for (i = 0; i < threads; i++)
		if (pthread_create(&thread, NULL, threads > 1 ? thread_run : fibers_run,
				   (void *)(unsigned long)i))
			return 1;
	pthread_barrier_wait(&gate);
	printf("ready\n");
	fflush(stdout);
	sigwait(&usr1, &(int){ 0 });
	pthread_barrier_wait(&gate);
	sleep(seconds);
	return 0;
}
