// SPDX-License-Identifier: Apache-2.0
/*
 * gpu_steps FOLDER [spin]: steps of a training loop, as many as each line of standard input says,
 * against the fake libcuda in FOLDER; or, where the line begins with an s, launches of as many
 * shapes, no two of which have the same grid. After each line it prints what it has done since the start as a
 * line of JSON. With spin waiting for the device takes CPU time, as the driver does that polls.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FORWARD_LAUNCHES 4
#define BACKWARD_LAUNCHES 6
#define FORWARD_NS 6000000
#define BACKWARD_NS 2000000
#define WAIT_US 4000
#define ALLOCATE_EVERY 10 /* steps: of all of them a stack is to be taken */
#define KEPT_BYTES 4096
#define SCRATCH_BYTES 65536

#define FUNCTION __attribute__((noinline, noclone))

static struct {
	int (*launch)(uint64_t kernel, unsigned int gx, unsigned int gy, unsigned int gz,
		      unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
		      uint64_t stream, void **args, void **extra);
	int (*synchronize)(uint64_t stream);
	int (*allocate)(uint64_t *va, uint64_t bytes);
	int (*release)(uint64_t va);
	int (*get_function)(uint64_t *kernel, uint64_t module, const char *name);
	void (*set_latency_us)(unsigned int us);
	void (*spin)(int on);
} cuda;

static uint64_t kernel;
static uint64_t launches, syncs, allocations, frees, inuse;
static uint64_t idle_least_ns, idle_most_ns; /* from the last wait's end on; or 0 */
static uint64_t starved_least_ns, starved_most_ns;
static uint64_t forward_ns, backward_ns, wait_ns, blocked_ns; /* blocked_ns: of the clock */

static uint64_t now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static inline __attribute__((always_inline)) void burn(uint64_t ns)
{
	uint64_t end = now_ns(CLOCK_THREAD_CPUTIME_ID) + ns;

	while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end)
		;
}

/* A launch after which the device is not idle any more. */
static void launch(unsigned int grid)
{
	uint64_t begin = now_ns(CLOCK_MONOTONIC);

	cuda.launch(kernel, grid, 1, 1, 128, 1, 1, 0, 0, NULL, NULL);
	launches++;
	if (!idle_least_ns)
		return;
	starved_least_ns += begin - idle_least_ns;
	starved_most_ns += now_ns(CLOCK_MONOTONIC) - idle_most_ns;
	idle_least_ns = 0;
}

FUNCTION static void forward(void)
{
	uint64_t start = now_ns(CLOCK_THREAD_CPUTIME_ID);
	int i;

	for (i = 0; i < FORWARD_LAUNCHES; i++)
		launch(8);
	burn(FORWARD_NS);
	forward_ns += now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
}

FUNCTION static void backward(void)
{
	uint64_t start = now_ns(CLOCK_THREAD_CPUTIME_ID);
	int i;

	for (i = 0; i < BACKWARD_LAUNCHES; i++)
		launch(16);
	burn(BACKWARD_NS);
	backward_ns += now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
}

FUNCTION static void wait_step(void)
{
	uint64_t start = now_ns(CLOCK_THREAD_CPUTIME_ID), begin = now_ns(CLOCK_MONOTONIC);

	cuda.synchronize(0);
	syncs++;
	idle_least_ns = now_ns(CLOCK_MONOTONIC);
	idle_most_ns = begin + WAIT_US * 1000;
	blocked_ns += idle_least_ns - begin;
	wait_ns += now_ns(CLOCK_THREAD_CPUTIME_ID) - start;
}

FUNCTION static void keep(void)
{
	uint64_t va;

	cuda.allocate(&va, KEPT_BYTES);
	allocations++;
	inuse += KEPT_BYTES;
}

FUNCTION static void scratch(void)
{
	uint64_t va;

	cuda.allocate(&va, SCRATCH_BYTES);
	cuda.release(va);
	allocations++;
	frees++;
}

FUNCTION static void shapes(unsigned int nr)
{
	for (; nr; nr--, launches++)
		cuda.launch(kernel, nr, 7, 1, 128, 1, 1, 0, 0, NULL, NULL);
}

static void *find(void *library, const char *name)
{
	void *found = dlsym(library, name);

	if (!found) {
		fprintf(stderr, "gpu_steps: no %s\n", name);
		exit(1);
	}
	return found;
}

static void load(const char *folder)
{
	char path[4096];
	void *library;

	snprintf(path, sizeof(path), "%s/libcuda.so.1", folder);
	library = dlopen(path, RTLD_NOW);
	if (!library) {
		fprintf(stderr, "gpu_steps: %s\n", dlerror());
		exit(1);
	}
	*(void **)&cuda.launch = find(library, "cuLaunchKernel");
	*(void **)&cuda.synchronize = find(library, "cuStreamSynchronize");
	*(void **)&cuda.allocate = find(library, "cuMemAlloc_v2");
	*(void **)&cuda.release = find(library, "cuMemFree_v2");
	*(void **)&cuda.get_function = find(library, "cuModuleGetFunction");
	*(void **)&cuda.set_latency_us = find(library, "fake_cuda_set_latency_us");
	*(void **)&cuda.spin = find(library, "fake_cuda_spin");
}

static void print(void)
{
	printf("{\"pid\": %d, \"calls\": %lu, \"launch\": %lu, \"sync\": %lu, \"alloc\": %lu, "
	       "\"free\": %lu, \"inuse\": %lu, \"blocked_ns\": %lu, "
	       "\"starved_ns\": [%lu, %lu], "
	       "\"cpu\": {\"forward\": %lu, \"backward\": %lu, \"wait_step\": %lu}}\n",
	       getpid(), launches + syncs + allocations + frees, launches, syncs, allocations,
	       frees, inuse, blocked_ns, starved_least_ns, starved_most_ns, forward_ns, backward_ns,
	       wait_ns);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	char line[32];
	long left;

	if (argc < 2)
		return 2;
	load(argv[1]);
	cuda.set_latency_us(WAIT_US);
	cuda.spin(argc > 2 && !strcmp(argv[2], "spin"));
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (!kernel)
			cuda.get_function(&kernel, 0, "train_kernel");
		if (line[0] == 's')
			shapes((unsigned int)strtoul(line + 1, NULL, 10));
		for (left = (long)strtoul(line, NULL, 10); left > 0; left--) {
			forward();
			backward();
			wait_step();
			if (syncs % ALLOCATE_EVERY == 1) {
				keep();
				scratch();
			}
		}
		print();
	}
	return 0;
}
