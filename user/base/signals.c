// SPDX-License-Identifier: Apache-2.0
#include "base/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

int signals_open(const int *signals, sigset_t *ret_old)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	for (; *signals; signals++)
		sigaddset(&set, *signals);
	sigprocmask(SIG_BLOCK, &set, ret_old);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

int signals_follow_stdin(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	int flags = fcntl(STDIN_FILENO, F_GETFL);

	if (flags < 0 || fcntl(STDIN_FILENO, F_SETOWN, getpid()) ||
	    fcntl(STDIN_FILENO, F_SETSIG, SIGINT) || fcntl(STDIN_FILENO, F_SETFL, flags | O_ASYNC))
		return -errno;
	if (poll(&input, 1, 0) > 0)
		kill(getpid(), SIGINT);
	return 0;
}

int signals_next(int fd)
{
	struct signalfd_siginfo info;

	return read(fd, &info, sizeof(info)) == sizeof(info) ? (int)info.ssi_signo : 0;
}
