/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_HTTP_CLIENTS_H
#define BPFPROF_DAEMON_HTTP_CLIENTS_H

/*
 * How long a client may take for all of a request, and for taking the answer: libmicrohttpd's own
 * limit begins anew with each byte, so that a few who send one now and then would keep all others out. When
 * nearly all connections are taken, who has asked for nothing yet makes room.
 */

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#define HTTP_MAX_CLIENTS 32
#define HTTP_REQUEST_SECONDS 10
#define HTTP_ANSWER_SECONDS 60

struct http_client {
	bool used, asked; /* asked: its request is whole */
	int fd; /* the server's */
	uint64_t due_ns;
};

struct http_clients {
	struct http_client all[HTTP_MAX_CLIENTS];
};

/* For MHD_OPTION_NOTIFY_CONNECTION; arg is a struct http_clients. */
void http_clients_notify(void *arg, struct MHD_Connection *connection, void **socket_context,
			 enum MHD_ConnectionNotificationCode code);
/* Its request is whole. later: the answer has limits of its own. */
void http_client_asked(struct MHD_Connection *connection, bool later);
/* Its request is over: the next one may begin. */
void http_client_over(struct MHD_Connection *connection);
/* Hangs up on those that took too long; the server sees that when it runs next. */
void http_clients_limit(struct http_clients *clients, uint64_t now_ns);

#endif
