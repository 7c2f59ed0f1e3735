// SPDX-License-Identifier: Apache-2.0
/* A Unix socket beside the port: the kernel says which process has connected. */
#include "daemon/http_server.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 64
#define ACCEPTS_AT_ONCE 16
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

/* Without it a client's pid may be that of another process by the time of its question. */
static bool has_peer_pidfd(void)
{
	int fds[2], pidfd = -1, err;
	socklen_t len = sizeof(pidfd);

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds))
		return false;
	err = getsockopt(fds[0], SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len);
	if (!err)
		close(pidfd);
	close(fds[0]);
	close(fds[1]);
	return !err;
}

/* No other user may put a file, or a link, in the place of the socket. */
static int folder_check(const char *path)
{
	char folder[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	struct stat st;

	snprintf(folder, sizeof(folder), "%s", path);
	if (stat(dirname(folder), &st))
		return -errno;
	if ((st.st_uid && st.st_uid != geteuid()) || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return -EPERM;
	return 0;
}

static int socket_listen(const struct sockaddr_un *address, struct stat *st)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), err = 0;
	mode_t mask;

	if (fd < 0)
		return -errno;
	if (!lstat(address->sun_path, st) && S_ISSOCK(st->st_mode))
		unlink(address->sun_path);
	mask = umask(0111); /* all may connect */
	if (bind(fd, (const struct sockaddr *)address, sizeof(*address)))
		err = -errno;
	umask(mask);
	if (!err && (lstat(address->sun_path, st) || listen(fd, BACKLOG)))
		err = -errno;
	if (!err)
		return fd;
	close(fd);
	return err;
}

int http_socket_open(struct http *http, const char *path)
{
	struct epoll_event event = { .events = EPOLLIN, .data = { .ptr = http } };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct stat st;
	int fd;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	if (!has_peer_pidfd())
		return -ENOPROTOOPT;
	fd = folder_check(path);
	if (fd)
		return fd;
	memcpy(address.sun_path, path, strlen(path));
	fd = socket_listen(&address, &st);
	if (fd < 0)
		return fd;
	http->socket_fd = fd;
	http->socket_dev = st.st_dev;
	http->socket_ino = st.st_ino;
	http->socket_path = strdup(path);
	if (!http->socket_path)
		return -ENOMEM;
	return epoll_ctl(http->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

void http_socket_accept(struct http *http)
{
	struct sockaddr_un address;
	socklen_t len;
	int fd, i;

	for (i = 0; i < ACCEPTS_AT_ONCE; i++) {
		len = sizeof(address);
		fd = accept4(http->socket_fd, (struct sockaddr *)&address, &len,
			     SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd < 0)
			return;
		/* It closes the descriptor if it has no room. */
		MHD_add_connection(http->mhd, fd, (const struct sockaddr *)&address, len);
	}
}

void http_socket_close(struct http *http)
{
	struct stat st;

	if (http->socket_fd < 0)
		return;
	/* Another daemon may have replaced it. */
	if (http->socket_path && !lstat(http->socket_path, &st) && st.st_dev == http->socket_dev &&
	    st.st_ino == http->socket_ino)
		unlink(http->socket_path);
	free(http->socket_path);
	close(http->socket_fd);
	http->socket_fd = -1;
}

int http_peer_get(struct http_peer *ret, const struct http_request *request)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct ucred peer;
	socklen_t len = sizeof(int);
	int domain, pidfd;

	if (!info || getsockopt(info->connect_fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) ||
	    domain != AF_UNIX)
		return -ENOTSOCK;
	len = sizeof(peer);
	if (getsockopt(info->connect_fd, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		peer = (struct ucred){ .uid = (uid_t)-1 };
	*ret = (struct http_peer){ .pid = peer.pid, .uid = peer.uid, .pidfd = -1 };
	len = sizeof(pidfd);
	if (!getsockopt(info->connect_fd, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &len))
		ret->pidfd = pidfd;
	return 0;
}
