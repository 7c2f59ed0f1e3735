// SPDX-License-Identifier: Apache-2.0
/*
 * A Ray actor as it looks from outside, which says when each of its calls began and ended: prints
 * "BEGIN END" of each, nanoseconds of CLOCK_MONOTONIC. Call n runs call_N, the time between two
 * calls resting(), a second thread beside(), always.
 *
 * steps SECONDS ROOM CLASS CALL_US REST_US MODE: ROOM is an argument that is long enough to be
 * overwritten.
 *   plain   CLASS.step by turns with CLASS
 *   born    the same after IDLE, CLASS.__init__ and CLASS.__ray_ready__, and half way the main
 *           thread takes another name
 *   named   calls have a title of their own, `special`, without class
 *   other   every other call is CLASS.other, which call_other() runs
 *   task    CLASS is a task: IDLE between two
 *   threads a thread of its own runs the calls
 *   flood   new titles of one class, as fast as it can
 *   storm   nothing but new titles of other classes
 *   crowd   a process for each ms that calls take, one after the other, of 30 new titles each
 *   halt    after Halt, at SIGUSR1, 5000 new titles as fast as it can; it stays in the last
 * With STEPS_GATE in the environment, the first call waits for SIGUSR1; with STEPS_CALLS=N it ends
 * after so many; with STEPS_HOLD=N call N goes on until SIGUSR1; with STEPS_MAPS=FILE it has mapped
 * that as a library. With LD_PRELOAD=LIBCUDA it runs
 * call_N of its third call and those after it in a window of the profiler, call_other() around it, and
 * prints when the windows began and ended. It launches then, of the first NR_CALLS calls: in
 * each call N times kernel out_N, or both before and after a window; N times in_N at both ends of the
 * window; between two calls N times rest_N.
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "worker_title.h"

#define NR_CALLS 12
#define NR_HALT 5000
#define US 1000ULL

static inline __attribute__((always_inline)) void burn(unsigned long long us)
{
	unsigned long long end = now() + us * US;
	volatile unsigned int x = 1;
	int i;

	do {
		for (i = 0; i < 2000; i++)
			x = x * 1103515245 + 12345;
	} while (now() < end);
}

/* The name in its code, or the compiler makes one of equal functions. */
#define WORK(name)                                                                                 \
	static __attribute__((noinline)) void name(unsigned long long us)                          \
	{                                                                                          \
		__asm__ volatile("# " #name);                                                      \
		burn(us);                                                                          \
	}

WORK(resting)
WORK(call_other)
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

static void (*const calls[NR_CALLS])(unsigned long long) = {
	call_1, call_2, call_3, call_4,	 call_5,  call_6,
	call_7, call_8, call_9, call_10, call_11, call_12,
};

int cuProfilerStart(void) __attribute__((weak));
int cuProfilerStop(void) __attribute__((weak));
int cuModuleGetFunction(unsigned long *kernel, unsigned long module, const char *name)
	__attribute__((weak));
int cuLaunchKernel(unsigned long kernel, unsigned int gx, unsigned int gy, unsigned int gz,
		   unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
		   unsigned long stream, void **args, void **extra) __attribute__((weak));

/* Of call n, from 0. */
static void launch(const char *what, unsigned int n)
{
	unsigned long kernel = 0;
	char name[32];
	unsigned int i;

	if (!cuLaunchKernel || n >= NR_CALLS)
		return;
	snprintf(name, sizeof(name), "%s_%u", what, n + 1);
	cuModuleGetFunction(&kernel, 1, name);
	for (i = 0; i <= n; i++)
		cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, 0, NULL, NULL);
}

struct actor {
	const char *class, *mode;
	unsigned long long call_us, rest_us, end_ns;
};

static void *beside(void *arg)
{
	const struct actor *actor = arg;

	prctl(PR_SET_NAME, "beside");
	while (now() < actor->end_ns)
		burn(1000);
	return NULL;
}

static void *actor_run(void *arg)
{
	const struct actor *actor = arg;
	char call[200], other[200], rest[200];
	const char *most = getenv("STEPS_CALLS"), *hold = getenv("STEPS_HOLD");
	unsigned long long begin, begun, max = most ? strtoull(most, NULL, 10) : ~0ULL,
					 held = hold ? strtoull(hold, NULL, 10) : 0;
	unsigned int n;
	sigset_t gate;
	int is_other;

	sigemptyset(&gate);
	sigaddset(&gate, SIGUSR1);
	snprintf(rest, sizeof(rest), "ray::%s", actor->class);
	snprintf(call, sizeof(call), "ray::%s.step", actor->class);
	snprintf(other, sizeof(other), "ray::%s.other", actor->class);
	if (!strcmp(actor->mode, "named"))
		strcpy(call, "ray::special");
	if (!strcmp(actor->mode, "task")) {
		strcpy(call, rest);
		strcpy(rest, "ray::IDLE");
	}
	if (!strcmp(actor->mode, "born")) {
		title_set("ray::IDLE");
		resting(300 * US);
		snprintf(other, sizeof(other), "ray::%s.__init__", actor->class);
		title_set(other);
		call_other(actor->call_us);
		title_set(rest);
		snprintf(other, sizeof(other), "ray::%s.__ray_ready__", actor->class);
		title_set(other);
		call_other(actor->call_us);
	}
	title_set(rest);
	if (getenv("STEPS_GATE"))
		sigwait(&gate, &(int){ 0 });
	for (n = 0; n < max && now() < actor->end_ns; n++) {
		resting(actor->rest_us / 2);
		launch("rest", n);
		resting(actor->rest_us / 2);
		is_other = !strcmp(actor->mode, "other") && n % 2 == 0;
		begin = now();
		title_set(is_other ? other : call);
		begun = now();
		if (n + 1 == held)
			sigwait(&gate, &(int){ 0 });
		if (cuProfilerStart && n > 1) {
			call_other(actor->call_us / 4);
			launch("out", n);
			begin = now();
			cuProfilerStart();
			cuProfilerStart(); /* one in another is part of that */
			begun = now();
			launch("in", n);
			calls[n % NR_CALLS](actor->call_us / 2);
			launch("in", n);
			printf("%llu %llu %llu ", begin, begun, now());
			cuProfilerStop();
			printf("%llu\n", now());
			launch("out", n);
			call_other(actor->call_us / 4);
			title_set(rest);
			fflush(stdout);
			continue;
		} else if (is_other) {
			call_other(actor->call_us);
		} else {
			calls[(!strcmp(actor->mode, "other") ? n / 2 : n) % NR_CALLS](
				actor->call_us / 2);
			launch("out", n);
			if (!strcmp(actor->mode, "born") && n % 2)
				prctl(PR_SET_NAME, "pt_main_thread");
			calls[(!strcmp(actor->mode, "other") ? n / 2 : n) % NR_CALLS](
				actor->call_us / 2);
		}
		printf("%llu %llu %llu ", begin, begun, now());
		title_set(rest);
		printf("%llu\n", now());
		fflush(stdout);
	}
	return NULL;
}

/* Until the end, or most of them. */
static void storm(const struct actor *actor, const char *format, unsigned int n, unsigned int most)
{
	char title[100];

	for (; n < most && now() < actor->end_ns; n++) {
		snprintf(title, sizeof(title), format, n);
		title_set(title);
	}
}

static int crowd(const struct actor *actor)
{
	unsigned int n;
	pid_t pid;

	for (n = 0; n < actor->call_us / 1000; n++) {
		pid = fork();
		if (!pid) {
			storm(actor, "ray::Crowd.x%u", 30 * n, 30 * n + 30);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, NULL, 0) != pid)
			return 1;
	}
	printf("%u\n", n);
	return 0;
}

static void halt(const struct actor *actor)
{
	sigset_t gate;

	sigemptyset(&gate);
	sigaddset(&gate, SIGUSR1);
	title_set("ray::Halt");
	sigwait(&gate, &(int){ 0 });
	storm(actor, "ray::Halt.x%u", 0, NR_HALT);
	printf("%llu\n", now());
	fflush(stdout);
	while (now() < actor->end_ns)
		usleep(1000);
}

static void map(const char *path)
{
	int fd = path ? open(path, O_RDONLY) : -1;

	if (fd >= 0)
		mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
}

int main(int argc, char **argv)
{
	struct actor actor;
	pthread_t thread;
	sigset_t gate;

	map(getenv("STEPS_MAPS"));
	sigemptyset(&gate);
	sigaddset(&gate, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &gate, NULL);
	if (argc != 7 || getenv("TARGET_NONDUMPABLE"))
		prctl(PR_SET_DUMPABLE, 0);
	if (argc != 7)
		return 2;
	actor.end_ns = now() + strtoull(argv[1], NULL, 10) * 1000000 * US;
	actor.class = strdup(argv[3]);
	actor.call_us = strtoull(argv[4], NULL, 10);
	actor.rest_us = strtoull(argv[5], NULL, 10);
	actor.mode = strdup(argv[6]);
	if (!actor.class || !actor.mode)
		return 1;
	area = argv[0];
	room = (size_t)(argv[6] + strlen(argv[6]) + 1 - argv[0]);
	if (!strcmp(actor.mode, "storm")) {
		storm(&actor, "ray::Storm%u.x", 0, ~0U);
	} else if (!strcmp(actor.mode, "flood")) {
		storm(&actor, "ray::Flood.x%u", 0, ~0U);
	} else if (!strcmp(actor.mode, "crowd")) {
		return crowd(&actor);
	} else if (!strcmp(actor.mode, "halt")) {
		halt(&actor);
	} else {
		if (pthread_create(&thread, NULL,
				   strcmp(actor.mode, "threads") ? beside : actor_run, &actor))
			return 1;
		if (!strcmp(actor.mode, "threads"))
			beside(&actor);
		else
			actor_run(&actor);
		pthread_join(thread, NULL);
	}
	return 0;
}
