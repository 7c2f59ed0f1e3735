// SPDX-License-Identifier: Apache-2.0
#include "base/closer.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

Test(closer, closes_everything_before_it_ends)
{
	struct closer *closer;
	int fds[100], i;

	cr_assert_eq(closer_new(&closer, NULL, NULL), 0);
	for (i = 0; i < 100; i++) {
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		cr_assert(fds[i] >= 0);
		closer_close(closer, fds[i]);
		closer_close(closer, -1);
	}
	closer_free(closer);
	for (i = 0; i < 100; i++)
		cr_assert(fcntl(fds[i], F_GETFD) < 0 && errno == EBADF, "%d", fds[i]);
}

Test(closer, nothing_to_close)
{
	struct closer *closer;

	cr_assert_eq(closer_new(&closer, NULL, NULL), 0);
	closer_free(closer);
	closer_free(NULL);
}

/* A child has all descriptors of its parent until it ends. */
Test(closer, child_that_lives_on, .timeout = 60)
{
	struct closer *closer;
	pid_t child;
	int fd;

	cr_assert_eq(closer_new(&closer, NULL, NULL), 0);
	child = fork();
	cr_assert(child >= 0);
	if (!child) {
		alarm(20); /* also if the parent is killed */
		pause();
	}
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	cr_assert(fd >= 0);
	closer_close(closer, fd);
	closer_free(closer);
	cr_assert(fcntl(fd, F_GETFD) < 0 && errno == EBADF);
	usleep(200000); /* a child closes its files before it can be waited for */
	cr_assert_eq(waitpid(child, NULL, WNOHANG), 0, "the child had to end first");
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}
