// SPDX-License-Identifier: Apache-2.0
#include "base/closer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define NR_THREADS 8
#define STACK_BYTES (64U << 10)
#define END (-1) /* sent instead of a descriptor: the thread that reads it ends */

struct closer {
	int take_fd, give_fd; /* a pipe of descriptors */
	void (*before)(void *arg);
	void *arg;
	pthread_t threads[NR_THREADS];
	int nr_threads;
};

static void now_close(const struct closer *closer, int fd)
{
	if (closer->before)
		closer->before(closer->arg);
	close(fd);
}

static void *run(void *arg)
{
	const struct closer *closer = arg;
	int fd;

	/* A read of so few bytes takes all of them or none: pipe(7). */
	while (read(closer->take_fd, &fd, sizeof(fd)) == sizeof(fd) && fd != END)
		now_close(closer, fd);
	return NULL;
}

static void threads_start(struct closer *closer)
{
	pthread_attr_t attr;

	if (pthread_attr_init(&attr))
		return;
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	while (closer->nr_threads < NR_THREADS &&
	       !pthread_create(&closer->threads[closer->nr_threads], &attr, run, closer))
		closer->nr_threads++;
	pthread_attr_destroy(&attr);
}

int closer_new(struct closer **ret, void (*before)(void *arg), void *arg)
{
	struct closer *closer = calloc(1, sizeof(*closer));
	int fds[2];

	if (!closer)
		return -ENOMEM;
	if (pipe2(fds, O_CLOEXEC)) {
		free(closer);
		return -errno;
	}
	closer->before = before;
	closer->arg = arg;
	closer->take_fd = fds[0];
	closer->give_fd = fds[1];
	*ret = closer;
	return 0;
}

void closer_free(struct closer *closer)
{
	const int end = END;
	int i;

	if (!closer)
		return;
	/*
	 * A child of bpfprof may hold the pipe open, too, so the threads would never see its end.
	 */
	for (i = 0; i < closer->nr_threads; i++)
		if (write(closer->give_fd, &end, sizeof(end)) != sizeof(end))
			break;
	close(closer->give_fd);
	for (i = 0; i < closer->nr_threads; i++)
		pthread_join(closer->threads[i], NULL);
	close(closer->take_fd);
	free(closer);
}

void closer_close(struct closer *closer, int fd)
{
	if (fd < 0)
		return;
	if (!closer->nr_threads)
		threads_start(closer);
	if (!closer->nr_threads || write(closer->give_fd, &fd, sizeof(fd)) != sizeof(fd))
		now_close(closer, fd);
}
