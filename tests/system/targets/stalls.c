// SPDX-License-Identifier: Apache-2.0
/* Programs without Python that stall, or only wait: WAY [FILE or NUMBER]. Says "ready" before the last wait. */
#include "target.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

volatile unsigned long target_sink;
static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t met;

static void ready(void)
{
	puts("ready");
	fflush(stdout);
}

NOINLINE static void *crossed(void *other)
{
	pthread_mutex_lock(other ? &second : &first);
	pthread_barrier_wait(&met);
	pthread_mutex_lock(other ? &first : &second);
	return NULL;
}

NOINLINE static void *condition(void *arg)
{
	pthread_mutex_lock(&first);
	pthread_cond_wait(&never, &first);
	return arg;
}

NOINLINE static void full_pipe(void)
{
	static char room[1 << 20];
	int fds[2];

	if (!pipe(fds) && write(fds[1], room, sizeof(room)) < 0)
		BARRIER();
}

NOINLINE static void read_one(int fd)
{
	char byte;

	if (read(fd, &byte, 1) < 0)
		BARRIER();
}

static void threads_start(int nr, void *(*run)(void *))
{
	static char none;
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 << 10);
	while (nr--)
		if (pthread_create(&thread, &attr, run, &none))
			exit(77);
}

static int child_of_vfork(void *arg)
{
	if (arg)
		read_one(*(int *)arg);
	sleep(1000);
	return 0;
}

static void *waits_for_signals(void *arg)
{
	pause();
	return arg;
}

/* The parent sleeps until the child ends. arg: NULL, or a pipe that the child reads. */
NOINLINE static void vfork_like(void *arg)
{
	static char stack[64 << 10];

	clone(child_of_vfork, stack + sizeof(stack) / 2, CLONE_VM | CLONE_VFORK | SIGCHLD, arg);
}

static void children_that_read(int nr, int fd)
{
	while (nr--)
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			read_one(fd);
			_exit(0);
		}
}

NOINLINE static void file_use(const char *way, const char *path)
{
	int fd = strcmp(way, "stat") ? open(path, O_RDONLY) : -1;
	char byte;

	ready();
	if (!strcmp(way, "stat"))
		access(path, R_OK);
	else if (!strcmp(way, "read") && pread(fd, &byte, 1, 0) < 0)
		BARRIER();
	else
		target_sink = *(volatile char *)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "", *more = argc > 2 ? argv[2] : "0";
	int nr = atoi(more), last = 0, fds[2] = { 0 };

	alarm(300);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pthread_barrier_init(&met, NULL, 2);
	if (!strcmp(way, "read") || !strcmp(way, "map") || !strcmp(way, "stat"))
		file_use(way, more);
	if (!strcmp(way, "mutexes") || !strcmp(way, "threads"))
		threads_start(nr ? nr : 1, nr ? condition : crossed);
	if (!strcmp(way, "leader-ends"))
		threads_start(1, condition);
	if (!strcmp(way, "leader-ends-well"))
		threads_start(1, waits_for_signals);
	if (!strcmp(way, "handler"))
		signal(SIGTERM, (void (*)(int))ready);
	if (!strcmp(way, "vfork-stuck") || !strcmp(way, "held"))
		last = pipe(fds);
	if (!strcmp(way, "held"))
		children_that_read(nr, fds[0]);
	while (!strcmp(way, "pipes") && last++ < nr && !pipe(fds))
		;
	if (!strcmp(way, "name")) {
		prctl(PR_SET_NAME, "\033[31m\nStalled:");
		strcpy(argv[0], "\033[1m\n(pid");
	}
	ready();
	if (!strcmp(way, "leader-ends") || !strcmp(way, "leader-ends-well"))
		pthread_exit(NULL);
	else if (!strcmp(way, "mutexes"))
		crossed(NULL);
	else if (!strcmp(way, "pipe"))
		full_pipe();
	else if (!strcmp(way, "pipes") || !strcmp(way, "held"))
		read_one(fds[0]);
	else if (!strcmp(way, "vfork") || !strcmp(way, "vfork-stuck"))
		vfork_like(fds[1] ? fds : NULL);
	else if (strcmp(way, "pause") != 0)
		condition(NULL);
	pause();
	return 0;
}
