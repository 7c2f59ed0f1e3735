/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_HTTP_SERVER_H
#define BPFPROF_DAEMON_HTTP_SERVER_H

/* Internals of the server, for http.c, http_later.c and http_response.c alone. */

#include <microhttpd.h>
#include <stdint.h>

#include <sys/types.h>

#include "daemon/http.h"
#include "daemon/http_clients.h"

struct http_later;

struct http {
	struct MHD_Daemon *mhd;
	http_answer_fn answer;
	void *arg;
	int epoll_fd; /* has the descriptor of mhd, clients, and the pipes of later answers */
	int socket_fd; /* of http_socket.c, -1: none */
	char *socket_path;
	dev_t socket_dev; /* of the file at socket_path, as it was made */
	ino_t socket_ino;
	uint16_t port;
	struct http_later *laters; /* the later answers that are open, a list */
	struct http_clients clients;
};

/* A descriptor in epoll_fd; the event points to it. */
struct http_watch {
	struct http_later *later;
	int fd; /* -1: none */
};

/* A response with all headers of reply; the caller destroys it. NULL: out of memory. */
struct MHD_Response *http_response(const struct http_reply *reply);
void http_response_headers(struct MHD_Response *response, const char *type);

/* http_socket.c: clients have come to the Unix socket. */
void http_socket_accept(struct http *http);
void http_socket_close(struct http *http);

/* The watched descriptor has an event. */
void http_later_event(struct http_watch *watch);
/* Must be called before the server ends. */
void http_later_cut_all(struct http *http);
/* libmicrohttpd has ended the request. */
void http_later_over(struct http_later *later, bool whole);

#endif
