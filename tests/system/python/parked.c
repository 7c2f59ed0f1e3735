// SPDX-License-Identifier: Apache-2.0
/* Parallel regions for parked.py: each of the workers writes down when it was in one. */
#include <omp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS 3
#define MAX_TIMES 4096

static struct {
	int64_t tid, begin_ns, end_ns;
} times[MAX_TIMES];
static size_t nr_times;

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

__attribute__((noinline)) void share(int ms)
{
	struct timespec t = { .tv_nsec = ms * 1000000L };
	int64_t begin = now();
	size_t at;

	nanosleep(&t, NULL);
	at = __atomic_fetch_add(&nr_times, 1, __ATOMIC_SEQ_CST);
	if (!omp_get_thread_num() || at >= MAX_TIMES)
		return;
	times[at].tid = syscall(SYS_gettid);
	times[at].begin_ns = begin;
	times[at].end_ns = now();
}

void region(int ms)
{
#pragma omp parallel num_threads(THREADS)
	share(ms);
}

void wait_ready(void)
{
	while (__atomic_load_n(&nr_times, __ATOMIC_SEQ_CST) < THREADS)
		usleep(1000);
}

/* How many, and they themselves unless to is NULL. */
size_t written(int64_t *to)
{
	size_t i;

	for (i = 0; to && i < nr_times && i < MAX_TIMES; i++) {
		to[3 * i] = times[i].tid;
		to[3 * i + 1] = times[i].begin_ns;
		to[3 * i + 2] = times[i].end_ns;
	}
	return nr_times < MAX_TIMES ? nr_times : MAX_TIMES;
}
