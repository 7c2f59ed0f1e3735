/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two pthreads with names and chains of their own, and one task made by clone(). They share one
 * CPU, so that each has a third of the time whatever else runs.
 */
#define TARGET_MAIN
#include "target.h"

#include <pthread.h>
#include <sched.h>

NOINLINE void spin(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++)
		target_sink += i ^ (target_sink >> 3);
}

NOINLINE void work_a(void)
{
	spin(20000);
	BARRIER();
}

NOINLINE void work_b(void)
{
	spin(20000);
	BARRIER();
}

NOINLINE void *thread_a(void *arg)
{
	pthread_setname_np(pthread_self(), "worker-a");
	for (;;)
		work_a();
	return arg;
}

NOINLINE void *thread_b(void *arg)
{
	pthread_setname_np(pthread_self(), "worker-b");
	for (;;)
		work_b();
	return arg;
}

NOINLINE int raw_task(void *arg)
{
	for (;;)
		spin(20000 + (arg != NULL));
	return 0;
}

static unsigned char raw_stack[65536] __attribute__((aligned(16)));

int main(int argc, char **argv)
{
	pthread_t a, b;
	cpu_set_t cpus;

	target_init(argc, argv);
	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	if (pthread_create(&a, NULL, thread_a, NULL) || pthread_create(&b, NULL, thread_b, NULL))
		return 1;
	if (clone(raw_task, raw_stack + sizeof(raw_stack),
		  CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD, NULL) < 0)
		return 1;
	for (;;)
		pause();
}
