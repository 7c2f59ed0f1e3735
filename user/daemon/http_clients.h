/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_HTTP_CLIENTS_H
#define BPFPROF_DAEMON_HTTP_CLIENTS_H

/*
 * Time limits for sending a whole request and for reading a whole answer. libmicrohttpd's own limit
 * starts again with each byte, so that a few slow clients could use up all connections. When nearly all
 * connections are in use, a client without a whole request is disconnected.
 */

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#define HTTP_MAX_CLIENTS 32
#define HTTP_REQUEST_SECONDS 10
#define HTTP_ANSWER_SECONDS 60

struct http_client {
	bool used, asked; /* asked: the request is complete */
	int fd; /* belongs to the server */
	uint64_t due_ns;
};

struct http_clients {
	struct http_client all[HTTP_MAX_CLIENTS];
};

/* For MHD_OPTION_NOTIFY_CONNECTION; arg is a struct http_clients. */
void http_clients_notify(void *arg, struct MHD_Connection *connection, void **socket_context,
			 enum MHD_ConnectionNotificationCode code);
/* The request is complete. later: the answer has its own limits. */
void http_client_asked(struct MHD_Connection *connection, bool later);
/* The request is answered: the next one may begin. */
void http_client_over(struct MHD_Connection *connection);
/* Shuts down connections over their limit; the server closes them when it runs next. */
void http_clients_limit(struct http_clients *clients, uint64_t now_ns);

#endif
