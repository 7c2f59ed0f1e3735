// SPDX-License-Identifier: Apache-2.0
#include "daemon/http.h"

#include <errno.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/time.h"
#include "daemon/http_later.h"
#include "daemon/http_library.h"
#include "daemon/http_server.h"

#define CONNECTION_BYTES 16384 /* headers included: larger ones are refused */
#define BODY_BYTES (1U << 20)
#define BACKLOG 512 /* clients that come while the loop does other work */
#define EVENTS_AT_ONCE 16
#define ROUNDS_AT_ONCE 16 /* of sending, before the loop does other work */

/* host[NI_MAXHOST] and port[NI_MAXSERV] out of HOST:PORT. */
static int address_split(const char *address, char *host, char *port)
{
	const char *colon = strrchr(address, ':'), *end = colon;
	size_t len;

	if (!colon || !colon[1] || strlen(colon + 1) > 5 ||
	    colon[1 + strspn(colon + 1, "0123456789")] || strtoul(colon + 1, NULL, 10) > 65535)
		return -EINVAL;
	if (*address == '[') {
		if (end == address || end[-1] != ']')
			return -EINVAL;
		address++;
		end--;
	} else if (memchr(address, ':', (size_t)(colon - address))) {
		return -EINVAL; /* an IPv6 address has brackets */
	}
	len = (size_t)(end - address);
	if (len >= NI_MAXHOST)
		return -EINVAL;
	memcpy(host, address, len);
	host[len] = 0;
	snprintf(port, NI_MAXSERV, "%s", colon + 1);
	return 0;
}

static int address_find(struct addrinfo **ret, const char *address)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
				  .ai_socktype = SOCK_STREAM };
	char host[NI_MAXHOST], port[NI_MAXSERV];
	int err = address_split(address, host, port);

	if (err)
		return err;
	/*
	 * Without a host all addresses are meant: a socket of IPv6 also takes IPv4, if the kernel
	 * has IPv6.
	 */
	if (!*host)
		hints.ai_family = access("/proc/net/if_inet6", R_OK) ? AF_INET : AF_INET6;
	return getaddrinfo(*host ? host : NULL, port, &hints, ret) ? -EINVAL : 0;
}

int http_check_address(const char *address)
{
	struct addrinfo *info;
	int err = address_find(&info, address);

	if (!err)
		freeaddrinfo(info);
	return err;
}

static int listen_on(const char *address, uint16_t *ret_port)
{
	struct sockaddr_storage bound;
	socklen_t len = sizeof(bound);
	struct addrinfo *info;
	int fd, err, on = 1, off = 0;
	char port[NI_MAXSERV];

	err = address_find(&info, address);
	if (err)
		return err;
	fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		err = -errno;
	} else {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		if (info->ai_family == AF_INET6)
			setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
		if (bind(fd, info->ai_addr, info->ai_addrlen) || listen(fd, BACKLOG) ||
		    getsockname(fd, (struct sockaddr *)&bound, &len))
			err = -errno;
	}
	freeaddrinfo(info);
	if (!err && getnameinfo((struct sockaddr *)&bound, len, NULL, 0, port, sizeof(port),
				NI_NUMERICSERV))
		err = -EINVAL;
	if (err) {
		if (fd >= 0)
			close(fd);
		return err;
	}
	*ret_port = (uint16_t)strtoul(port, NULL, 10);
	return fd;
}

static enum MHD_Result reply_send(struct MHD_Connection *connection, const struct http_reply *reply)
{
	struct MHD_Response *response = http_response(reply);
	enum MHD_Result result;

	if (!response)
		return MHD_NO;
	result = MHD_queue_response(connection, reply->status, response);
	MHD_destroy_response(response);
	return result;
}

static const struct sockaddr *client_sockaddr(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

	return info ? info->client_addr : NULL;
}

static void client_text(char *dst, size_t cap, const struct sockaddr *from)
{
	if (!from || from->sa_family == AF_UNIX ||
	    getnameinfo(from, sizeof(struct sockaddr_in6), dst, (socklen_t)cap, NULL, 0,
			NI_NUMERICHOST))
		*dst = 0;
}

static enum MHD_Result request_answer(struct http *http, struct MHD_Connection *connection,
				      const char *path, bool head, struct http_reply *reply)
{
	const struct sockaddr *from = client_sockaddr(connection);
	char client[NI_MAXHOST];
	struct http_address address;
	const struct http_request request = {
		.http = http,
		.connection = connection,
		.path = path,
		.client = client,
		.address = &address,
		.head = head,
		.authorization = MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
							     MHD_HTTP_HEADER_AUTHORIZATION),
	};

	client_text(client, sizeof(client), from);
	http_address_make(&address, from);
	http->answer(http->arg, &request, reply);
	if (reply->later)
		return MHD_YES;
	if (reply->status == MHD_HTTP_NOT_FOUND && !reply->body->len)
		buf_add_str(reply->body, "not found\n");
	return buf_error(reply->body) ? MHD_NO : reply_send(connection, reply);
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *connection, const char *path,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_len, void **state)
{
	bool head = !strcmp(method, MHD_HTTP_METHOD_HEAD);
	struct http *http = arg;
	struct buf body;
	struct http_reply reply = { .status = MHD_HTTP_NOT_FOUND,
				    .type = "text/plain; charset=utf-8",
				    .allow = "GET, HEAD",
				    .body = &body };
	enum MHD_Result result;

	(void)version;
	(void)upload;
	/*
	 * The server calls this when the headers are complete, and again when the request is. A
	 * body is refused. A third call comes for a later answer that was cut before it began.
	 */
	if (*upload_len || (*state && *state != http))
		return MHD_NO;
	buf_init(&body, BODY_BYTES);
	if (!head && strcmp(method, MHD_HTTP_METHOD_GET)) {
		reply.status = MHD_HTTP_METHOD_NOT_ALLOWED;
		buf_add_str(&body, "GET and HEAD only\n");
		result = reply_send(connection, &reply);
		http_client_asked(connection, false);
	} else if (!*state) {
		*state = http;
		result = MHD_YES;
	} else {
		result = request_answer(http, connection, path, head, &reply);
		http_client_asked(connection, reply.later != NULL);
		if (reply.later)
			*state = reply.later;
	}
	buf_fini(&body);
	return result;
}

static void on_over(void *arg, struct MHD_Connection *connection, void **state,
		    enum MHD_RequestTerminationCode why)
{
	struct http *http = arg;

	(void)connection;
	if (*state && *state != http)
		http_later_over(*state, why == MHD_REQUEST_TERMINATED_COMPLETED_OK);
	*state = NULL;
}

struct query {
	int (*take)(void *arg, const char *name, const char *value);
	void *arg;
	int err;
};

static enum MHD_Result on_argument(void *arg, enum MHD_ValueKind kind, const char *name,
				   size_t name_len, const char *value, size_t value_len)
{
	struct query *query = arg;

	(void)kind;
	if (strlen(name) != name_len || (value && strlen(value) != value_len))
		query->err = -EINVAL;
	else
		query->err = query->take(query->arg, name, value ? value : "");
	return query->err ? MHD_NO : MHD_YES;
}

int http_query(const struct http_request *request,
	       int (*take)(void *arg, const char *name, const char *value), void *arg)
{
	struct query query = { .take = take, .arg = arg };

	MHD_get_connection_values_n(request->connection, MHD_GET_ARGUMENT_KIND, on_argument,
				    &query);
	return query.err;
}

static void on_log(void *arg, const char *fmt, va_list ap)
{
	(void)arg;
	(void)fmt;
	(void)ap; /* errors of clients are not logged */
}

/* Puts the descriptor of the server into epoll_fd. */
static int watch_server(struct http *http)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->mhd, MHD_DAEMON_INFO_EPOLL_FD);
	struct epoll_event event = { .events = EPOLLIN };

	if (!info)
		return -ENOMEM;
	http->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (http->epoll_fd < 0)
		return -errno;
	return epoll_ctl(http->epoll_fd, EPOLL_CTL_ADD, info->epoll_fd, &event) ? -errno : 0;
}

int http_open(struct http **ret, const char *address, http_answer_fn answer, void *arg)
{
	struct http *http;
	int fd, err = http_library_load();

	if (err)
		return err;
	http = calloc(1, sizeof(*http));
	if (!http)
		return -ENOMEM;
	http->answer = answer;
	http->arg = arg;
	http->epoll_fd = -1;
	http->socket_fd = -1;
	fd = listen_on(address, &http->port);
	if (fd < 0) {
		free(http);
		return fd;
	}
	http->mhd = MHD_start_daemon(
		MHD_USE_EPOLL | MHD_USE_ERROR_LOG | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
		on_request, http, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
		MHD_OPTION_NOTIFY_CONNECTION, http_clients_notify, &http->clients,
		MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_NOTIFY_COMPLETED, on_over, http,
		MHD_OPTION_CONNECTION_LIMIT, (unsigned int)HTTP_MAX_CONNECTIONS,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_BYTES,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned int)HTTP_REQUEST_SECONDS, MHD_OPTION_END);
	if (!http->mhd) {
		close(fd);
		free(http);
		return -ENOMEM;
	}
	err = watch_server(http);
	if (err) {
		http_close(http);
		return err;
	}
	*ret = http;
	return 0;
}

void http_close(struct http *http)
{
	if (!http)
		return;
	http_later_cut_all(http);
	MHD_stop_daemon(http->mhd);
	http_socket_close(http);
	http_clients_fini(&http->clients);
	if (http->epoll_fd >= 0)
		close(http->epoll_fd);
	free(http);
}

int http_fd(const struct http *http)
{
	return http->epoll_fd;
}

bool http_is_pending(const struct http *http)
{
	MHD_UNSIGNED_LONG_LONG ms;

	return MHD_get_timeout(http->mhd, &ms) == MHD_YES && !ms;
}

void http_run(struct http *http)
{
	struct epoll_event events[EVENTS_AT_ONCE];
	int i, nr = epoll_wait(http->epoll_fd, events, EVENTS_AT_ONCE, 0);

	http_clients_begin(&http->clients);
	/* The watches stay valid in this loop: only MHD_run() frees them. */
	for (i = 0; i < nr; i++)
		if (events[i].data.ptr == http)
			http_socket_accept(http);
		else if (events[i].data.ptr)
			http_later_event(events[i].data.ptr);
	for (i = 0; i < ROUNDS_AT_ONCE; i++) {
		MHD_run(http->mhd);
		if (!http_is_pending(http))
			break;
	}
	http_clients_limit(&http->clients, time_monotonic_ns());
}

const struct http_refused *http_refused(const struct http *http)
{
	return &http->clients.refused;
}

uint16_t http_port(const struct http *http)
{
	return http->port;
}
