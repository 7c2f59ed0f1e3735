/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes in states that a dump must not stumble over: argv[1] says which.
 *	vfork		in state D until its child goes
 *	leader		the first thread has ended, another sleeps
 *	missing		a thread whose stack is memory that a userfaultfd never brings
 *	file PATH	the same, from a file that is mapped
 *	locked PATH	prints where it has the file; from the first byte of stdin on another thread
 *			wants to map memory all the time
 *	mappers		16 threads that map memory by turns: the lock of its memory is hardly ever free
 *	spin		a thread that never sleeps, and one that always does
 *	flutter		threads that sleep and run by turns, very often
 *	many		500 threads that sleep
 */
#define TARGET_MAIN
#include "target.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define LONG 100000
#define STACK_BYTES (256 * 1024)
#define LEAVES_BYTES (64 * 1024)
#define MAPPED_BYTES (1024 * 1024)

static NOINLINE void nap(void)
{
	sleep(LONG);
	target_sink++;
}

static void *sleeper(void *arg)
{
	nap();
	return arg;
}

static void *spinner(void *arg)
{
	for (;;)
		target_sink++;
	return arg;
}

static NOINLINE void flutter_once(void)
{
	struct timespec t = { .tv_nsec = 20000 };
	unsigned long i;

	for (i = 0; i < 2000; i++)
		target_sink++;
	nanosleep(&t, NULL);
}

static void *flutterer(void *arg)
{
	for (;;)
		flutter_once();
	return arg;
}

static NOINLINE void wait_for_child(void)
{
	if (!vfork()) {
		for (;;)
			pause();
	}
	target_sink++;
}

/* Sleeps with its stack pointer there: only the kernel is asked to return. */
static void sleep_on(char *sp)
{
	__asm__ volatile("mov %0, %%rsp\n\tmov $34, %%eax\n\tsyscall\n\t" /* pause() */
			 :
			 : "r"(sp)
			 : "memory", "rax", "rcx", "r11");
}

/* The part of the stack that it then stands on is memory that never comes. */
static void *missing(void *arg)
{
	char *stack = arg;
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_api api = { .api = UFFD_API };
	long fd = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);

	range.range.start = (unsigned long)stack;
	range.range.len = LEAVES_BYTES;
	if (fd < 0 || ioctl((int)fd, UFFDIO_API, &api) || ioctl((int)fd, UFFDIO_REGISTER, &range))
		_exit(77);
	sleep_on(stack + LEAVES_BYTES / 2);
	return arg;
}

static void *mapper(void *arg)
{
	char byte;

	if (read(0, &byte, 1) != 1)
		return arg;
	for (;;) {
		void *va = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		munmap(va, 4096);
		usleep(1000);
	}
}

/* Touches the pages if touches is not NULL. */
static void *eager_mapper(void *touches)
{
	for (;;) {
		char *va = mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		size_t i;

		for (i = 0; touches && i < MAPPED_BYTES; i += 4096)
			va[i] = 1;
		munmap(va, MAPPED_BYTES);
	}
	return touches;
}

static void *mapped(void *arg)
{
	sleep_on((char *)arg + LEAVES_BYTES / 2);
	return arg;
}

static void start(void *(*fn)(void *), void *stack, void *arg)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	if (stack)
		pthread_attr_setstack(&attr, stack, STACK_BYTES);
	else
		pthread_attr_setstacksize(&attr, STACK_BYTES);
	if (pthread_create(&thread, &attr, fn, arg))
		_exit(78);
}

int main(int argc, char *argv[])
{
	const char *way = argc > 1 ? argv[1] : "";
	void *stack;
	int i, fd;

	argv[1] = (char *)"100";
	target_init(argc, argv);
	if (!strcmp(way, "vfork")) {
		wait_for_child();
	} else if (!strcmp(way, "leader")) {
		start(sleeper, NULL, NULL);
		pthread_exit(NULL);
	} else if (!strcmp(way, "missing")) {
		stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			     -1, 0);
		start(missing, stack, stack);
	} else if (!strcmp(way, "file") && argc > 2) {
		fd = open(argv[2], O_RDONLY);
		stack = mmap(NULL, LEAVES_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
		if (stack == MAP_FAILED)
			return 77;
		start(mapped, NULL, stack);
	} else if (!strcmp(way, "locked") && argc > 2) {
		fd = open(argv[2], O_RDONLY);
		stack = mmap(NULL, LEAVES_BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
		if (stack == MAP_FAILED)
			return 77;
		printf("%lu\n", (unsigned long)stack);
		fflush(stdout);
		start(mapper, NULL, NULL);
	} else if (!strcmp(way, "mappers")) {
		for (i = 0; i < 16; i++)
			start(eager_mapper, NULL, i % 2 ? &fd : NULL);
	} else if (!strcmp(way, "spin")) {
		start(spinner, NULL, NULL);
	} else if (!strcmp(way, "flutter")) {
		for (i = 0; i < 4; i++)
			start(flutterer, NULL, NULL);
	} else if (!strcmp(way, "many")) {
		for (i = 0; i < 500; i++)
			start(sleeper, NULL, NULL);
	}
	nap();
	return 0;
}
