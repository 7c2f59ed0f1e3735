/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that sleep in C, each in its own chain of calls. */
#define TARGET_MAIN
#include "target.h"

#include <alloca.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define LONG 100000

static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
static int pipe_fds[2];

static NOINLINE void nap(void)
{
	sleep(LONG);
	target_sink++;
}

static NOINLINE void way_sleep(void)
{
	nap();
	target_sink++;
}

static NOINLINE void way_mutex(void)
{
	pthread_mutex_lock(&held);
	target_sink++;
}

static NOINLINE void way_condition(void)
{
	pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

	pthread_mutex_lock(&lock);
	pthread_cond_wait(&condition, &lock);
	target_sink++;
}

static NOINLINE void way_semaphore(void)
{
	sem_t semaphore;

	sem_init(&semaphore, 0, 0);
	sem_wait(&semaphore);
	target_sink++;
}

static NOINLINE void way_read(void)
{
	char byte;

	target_sink += (unsigned long)read(pipe_fds[0], &byte, 1);
}

static NOINLINE void way_poll(void)
{
	struct pollfd fd = { .fd = pipe_fds[0], .events = POLLIN };

	target_sink += (unsigned long)poll(&fd, 1, -1);
}

static NOINLINE void way_select(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(pipe_fds[0], &set);
	target_sink += (unsigned long)select(pipe_fds[0] + 1, &set, NULL, NULL, NULL);
}

static NOINLINE void way_epoll(void)
{
	struct epoll_event event;
	int fd = epoll_create1(0);

	target_sink += (unsigned long)epoll_wait(fd, &event, 1, -1);
}

static NOINLINE void way_socket(void)
{
	int fds[2];
	char byte;

	if (!socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
		target_sink += (unsigned long)recv(fds[0], &byte, 1, 0);
}

static NOINLINE void way_child(void)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	waitpid(pid, &status, 0);
	target_sink++;
}

static int compare(const void *a, const void *b)
{
	nap();
	return a < b;
}

static NOINLINE void way_callback(void)
{
	int items[2] = { 2, 1 };

	qsort(items, 2, sizeof(items[0]), compare);
	target_sink++;
}

static void on_signal(int sig)
{
	(void)sig;
	nap();
	target_sink++;
}

static NOINLINE void way_handler(void)
{
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	target_sink++;
}

static NOINLINE void way_alloca(void)
{
	volatile char *room = alloca((target_sink & 1) + 5000);

	room[0] = 1;
	nap();
	target_sink += (unsigned long)room[0];
}

static NOINLINE void deeper(int depth)
{
	volatile char room[64];

	room[0] = 1;
	if (depth)
		deeper(depth - 1);
	else
		nap();
	target_sink += (unsigned long)room[0];
}

static NOINLINE void way_deep(void)
{
	deeper(90);
	target_sink++;
}

static NOINLINE void way_pause(void)
{
	pause();
	target_sink++;
}

static void (*const ways[])(void) = { way_sleep,  way_mutex, way_condition, way_semaphore,
				      way_read,	  way_poll,  way_select,    way_epoll,
				      way_socket, way_child, way_callback,  way_handler,
				      way_alloca, way_deep,  way_pause };

static void *run(void *arg)
{
	(*(void (*const *)(void))arg)();
	return NULL;
}

int main(int argc, char *argv[])
{
	pthread_t thread;

	target_init(argc, argv);
	pthread_mutex_lock(&held);
	if (pipe(pipe_fds))
		return 1;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		pthread_create(&thread, NULL, run, (void *)(uintptr_t)&ways[i]);
	nap();
	return 0;
}
