// SPDX-License-Identifier: Apache-2.0
/*
 * gpu_calls LIBCUDA: makes calls of that library as its standard input says, one line each, and
 * answers with the CPU time that they took, in ns.
 *
 *   launch N                  N kernel launches of 16 kernels
 *   sync N                    N times cuStreamSynchronize
 *   pair N                    N times cuMemAlloc and cuMemFree
 *   threads N HZ SECONDS      HZ launches a second, evenly, by N threads together; answers how many
 *
 * Calls are made below LEVELS frames of its own.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NR_KERNELS 16
#define LEVELS 15
#define MAX_THREADS 64
#define NS 1000000000UL
#define STREAM 0x7e0000001000UL

typedef int launch_fn(uint64_t kernel, unsigned int, unsigned int, unsigned int, unsigned int,
		      unsigned int, unsigned int, unsigned int, uint64_t stream, void **, void **);

static launch_fn *cu_launch;
static int (*cu_sync)(uint64_t stream);
static int (*cu_alloc)(uint64_t *va, uint64_t bytes);
static int (*cu_free)(uint64_t va);
static uint64_t kernels[NR_KERNELS];

struct worker {
	pthread_t thread;
	unsigned long period_ns, first_ns, end_ns;
	unsigned long nr;
};

static unsigned long clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (unsigned long)now.tv_sec * NS + (unsigned long)now.tv_nsec;
}

static void launch(unsigned long i)
{
	cu_launch(kernels[i % NR_KERNELS], 128, 2, 1, 256, 1, 1, 0, STREAM, NULL, NULL);
}

static __attribute__((noinline)) void launch_many(unsigned long nr)
{
	for (unsigned long i = 0; i < nr; i++)
		launch(i);
}

static __attribute__((noinline)) void sync_many(unsigned long nr)
{
	for (unsigned long i = 0; i < nr; i++)
		cu_sync(STREAM);
}

static __attribute__((noinline)) void pair_many(unsigned long nr)
{
	uint64_t va;

	for (unsigned long i = 0; i < nr; i++) {
		va = 0;
		cu_alloc(&va, 4096);
		cu_free(va);
	}
}

/* CPU time of work(nr) below so many frames. */
static __attribute__((noinline)) unsigned long below(unsigned int levels,
						     void (*work)(unsigned long), unsigned long nr)
{
	volatile unsigned long ns;

	if (levels) {
		ns = below(levels - 1, work, nr);
		return ns;
	}
	ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	work(nr);
	return clock_ns(CLOCK_THREAD_CPUTIME_ID) - ns;
}

static __attribute__((noinline)) void launch_evenly(struct worker *worker)
{
	struct timespec next;
	unsigned long ns;

	for (ns = worker->first_ns; ns < worker->end_ns; ns += worker->period_ns) {
		next.tv_sec = (time_t)(ns / NS);
		next.tv_nsec = (long)(ns % NS);
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL))
			;
		launch(worker->nr++);
	}
}

static __attribute__((noinline)) void evenly_below(unsigned int levels, struct worker *worker)
{
	volatile unsigned int left = levels;

	if (left)
		evenly_below(left - 1, worker);
	else
		launch_evenly(worker);
	left++; /* no jump */
}

static void *worker_run(void *arg)
{
	evenly_below(LEVELS, arg);
	return NULL;
}

static unsigned long threads_run(unsigned int nr, unsigned long hz, unsigned long seconds)
{
	struct worker workers[MAX_THREADS] = { 0 };
	unsigned long begin_ns = clock_ns(CLOCK_MONOTONIC), launches = 0;
	unsigned int i;

	for (i = 0; i < nr && i < MAX_THREADS; i++) {
		workers[i].period_ns = nr * NS / hz;
		workers[i].first_ns = begin_ns + i * NS / hz;
		workers[i].end_ns = begin_ns + seconds * NS;
		if (pthread_create(&workers[i].thread, NULL, worker_run, &workers[i]))
			exit(1);
	}
	while (i--) {
		pthread_join(workers[i].thread, NULL);
		launches += workers[i].nr;
	}
	return launches;
}

static void *symbol(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	return found;
}

int main(int argc, char **argv)
{
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int (*look_up)(uint64_t * handle, uint64_t module, const char *name);
	unsigned long nr, hz, seconds;
	char line[128], name[32];

	if (!library) {
		fprintf(stderr, "usage: gpu_calls LIBCUDA\n");
		return 1;
	}
	*(void **)&cu_launch = symbol(library, "cuLaunchKernel");
	*(void **)&cu_sync = symbol(library, "cuStreamSynchronize");
	*(void **)&cu_alloc = symbol(library, "cuMemAlloc_v2");
	*(void **)&cu_free = symbol(library, "cuMemFree_v2");
	*(void **)&look_up = symbol(library, "cuModuleGetFunction");
	for (int i = 0; i < NR_KERNELS; i++) {
		snprintf(name, sizeof(name), "bench_kernel_%d", i);
		look_up(&kernels[i], 0x1000, name);
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("ready\n");
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "launch %lu", &nr) == 1)
			printf("%lu\n", below(LEVELS, launch_many, nr));
		else if (sscanf(line, "sync %lu", &nr) == 1)
			printf("%lu\n", below(LEVELS, sync_many, nr));
		else if (sscanf(line, "pair %lu", &nr) == 1)
			printf("%lu\n", below(LEVELS, pair_many, nr));
		else if (sscanf(line, "threads %lu %lu %lu", &nr, &hz, &seconds) == 3)
			printf("%lu\n", threads_run((unsigned int)nr, hz, seconds));
		else
			return 1;
	}
	return 0;
}
