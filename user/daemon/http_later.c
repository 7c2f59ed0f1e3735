// SPDX-License-Identifier: Apache-2.0
#include "daemon/http_later.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "daemon/http_server.h"

#define BLOCK_BYTES 32768
#define DISPOSITION_MAX 192

struct http_later {
	struct http *http;
	struct http_later *prev, *next;
	struct MHD_Connection *connection;
	const struct http_later_events *events;
	void *arg;
	struct http_watch client, pipe;
	int client_fd, fd;
	uint64_t size;
	bool suspended; /* the server does not look at the connection */
	bool cut; /* nothing more is sent */
};

static int watch(struct http_later *later, struct http_watch *watch, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data = { .ptr = watch } };

	if (watch->fd == fd)
		return 0;
	if (epoll_ctl(later->http->epoll_fd, EPOLL_CTL_ADD, fd, &event))
		return -errno;
	watch->fd = fd;
	return 0;
}

static void unwatch(struct http_later *later, struct http_watch *watch)
{
	if (watch->fd >= 0)
		epoll_ctl(later->http->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
	watch->fd = -1;
}

/* The server does not watch a suspended connection, so this does: the client may disconnect. */
static void suspend(struct http_later *later)
{
	if (later->suspended)
		return;
	MHD_suspend_connection(later->connection);
	later->suspended = true;
	watch(later, &later->client, later->client_fd, EPOLLRDHUP);
}

static void resume(struct http_later *later)
{
	if (!later->suspended)
		return;
	unwatch(later, &later->client);
	later->suspended = false;
	MHD_resume_connection(later->connection);
}

struct http_later *http_later_new(const struct http_request *request, struct http_reply *reply,
				  const struct http_later_events *events, void *arg)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(request->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct http_later *later = calloc(1, sizeof(*later));

	if (!later || !info) {
		free(later);
		return NULL;
	}
	later->http = request->http;
	later->connection = request->connection;
	later->client_fd = info->connect_fd;
	later->events = events;
	later->arg = arg;
	later->fd = -1;
	later->client = (struct http_watch){ .later = later, .fd = -1 };
	later->pipe = (struct http_watch){ .later = later, .fd = -1 };
	later->next = request->http->laters;
	if (later->next)
		later->next->prev = later;
	request->http->laters = later;
	suspend(later);
	reply->later = later;
	return later;
}

int http_later_wait(struct http_later *later, int fd)
{
	return watch(later, &later->pipe, fd, EPOLLIN);
}

void http_later_event(struct http_watch *watch)
{
	struct http_later *later = watch->later;
	bool is_client = watch == &later->client;

	if (watch->fd < 0)
		return;
	unwatch(later, watch);
	if (is_client)
		http_later_cut(later);
	else if (later->fd >= 0) /* the answer is being sent */
		resume(later);
	else
		later->events->readable(later->arg);
}

/* The server asks for more bytes of the answer. */
static ssize_t on_read(void *arg, uint64_t pos, char *dst, size_t max)
{
	struct http_later *later = arg;
	ssize_t n;
	int err;

	if (later->cut)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	n = read(later->fd, dst, max);
	if (n > 0)
		return n;
	if (n < 0 && errno == EINTR)
		return 0;
	if (n < 0 && errno == EAGAIN) {
		suspend(later);
		return watch(later, &later->pipe, later->fd, EPOLLIN)
			       ? MHD_CONTENT_READER_END_WITH_ERROR
			       : 0;
	}
	err = n < 0 ? -errno : later->events->ended(later->arg);
	if (err == -EAGAIN) {
		suspend(later);
		return 0;
	}
	if (err || (later->size != HTTP_LATER_SIZE_UNKNOWN && pos < later->size))
		return MHD_CONTENT_READER_END_WITH_ERROR;
	return MHD_CONTENT_READER_END_OF_STREAM;
}

void http_later_stream(struct http_later *later, int fd, uint64_t size, const char *type,
		       const char *file_name)
{
	struct MHD_Response *response = MHD_create_response_from_callback(
		size == HTTP_LATER_SIZE_UNKNOWN ? MHD_SIZE_UNKNOWN : size, BLOCK_BYTES, on_read,
		later, NULL);
	char disposition[DISPOSITION_MAX];

	if (!response) {
		http_later_cut(later);
		return;
	}
	http_response_headers(response, type);
	if (file_name) {
		snprintf(disposition, sizeof(disposition), "attachment; filename=\"%s\"",
			 file_name);
		MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_DISPOSITION, disposition);
	}
	later->fd = fd;
	later->size = size;
	if (MHD_queue_response(later->connection, MHD_HTTP_OK, response) != MHD_YES)
		later->cut = true;
	MHD_destroy_response(response);
	resume(later);
}

void http_later_reply(struct http_later *later, const struct http_reply *reply)
{
	struct MHD_Response *response = buf_error(reply->body) ? NULL : http_response(reply);

	if (!response) {
		http_later_cut(later);
		return;
	}
	if (MHD_queue_response(later->connection, reply->status, response) != MHD_YES)
		later->cut = true;
	MHD_destroy_response(response);
	resume(later);
}

void http_later_again(struct http_later *later)
{
	if (later->pipe.fd < 0 && later->fd >= 0)
		resume(later);
}

void http_later_cut(struct http_later *later)
{
	later->cut = true;
	/*
	 * The bytes in the buffers of the server are dropped too, since it sees the shutdown at
	 * once.
	 */
	shutdown(later->client_fd, SHUT_RDWR);
	unwatch(later, &later->pipe);
	resume(later);
}

void http_later_cut_all(struct http *http)
{
	struct http_later *later;

	for (later = http->laters; later; later = later->next)
		http_later_cut(later);
}

void http_later_over(struct http_later *later, bool whole)
{
	unwatch(later, &later->client);
	unwatch(later, &later->pipe);
	if (later->prev)
		later->prev->next = later->next;
	else
		later->http->laters = later->next;
	if (later->next)
		later->next->prev = later->prev;
	later->events->done(later->arg, whole);
	free(later);
}
