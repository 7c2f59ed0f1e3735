/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_HTTP_CLIENTS_H
#define BPFPROF_DAEMON_HTTP_CLIENTS_H

/*
 * The connections of the server, and their limits. libmicrohttpd's own limits are not enough: its time
 * limit starts again with each byte, and it refuses the newest client of an address, while here the
 * newest one always has a place. The others of its address make room for it: first those that have not
 * sent a whole request, then those that do not take their answer. A probe of the kubelet is answered at
 * once, and so never waits for others at its own address or elsewhere.
 *
 * A client with a later answer (http_later.h) has shown the token. These limits leave it alone; its
 * owner answers only a few of them at a time.
 */

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"
#include "daemon/http_address.h"

#define HTTP_MAX_CLIENTS 32 /* after each run of the server */
#define HTTP_MAX_PER_ADDRESS 4 /* without a token */
#define HTTP_REQUEST_SECONDS 10 /* to send a request */
#define HTTP_ANSWER_SECONDS 5 /* to take an answer */
#define HTTP_MAX_CONNECTIONS                                                                       \
	64 /* of the server, with new ones, and cut ones that it has yet to close */

enum http_client_state {
	HTTP_CLIENT_FREE,
	HTTP_CLIENT_ASKING, /* has not sent a whole request */
	HTTP_CLIENT_TAKING, /* the server sends the answer */
	HTTP_CLIENT_LEAVING, /* the server is done; the kernel has a part of the answer */
	HTTP_CLIENT_TRUSTED, /* has shown the token */
	HTTP_CLIENT_CUT, /* is shut down; the server has yet to close it */
};

struct http_client {
	enum http_client_state state;
	bool is_new; /* the server has not looked for its request yet: it is not cut */
	struct http_address address;
	int fd; /* belongs to the server; HTTP_CLIENT_LEAVING: a copy that belongs to this module */
	uint64_t since_ns; /* in this state */
};

/* Clients that were cut. */
struct http_refused {
	uint64_t too_many_of_address, too_many, request_too_slow, answer_not_taken;
};
extern const struct counter http_refused_counters[];

struct http_clients {
	struct http_client all[HTTP_MAX_CONNECTIONS + HTTP_MAX_CLIENTS];
	struct http_refused refused;
};

/* For MHD_OPTION_NOTIFY_CONNECTION; arg is a struct http_clients. */
void http_clients_notify(void *arg, struct MHD_Connection *connection, void **socket_context,
			 enum MHD_ConnectionNotificationCode code);
/* The request is complete. later: the client has shown the token. */
void http_client_asked(struct MHD_Connection *connection, bool later);
/* The server will now look for the requests of all clients that are there. */
void http_clients_begin(struct http_clients *clients);
/* Shuts down connections over a limit; the server closes them when it runs next. */
void http_clients_limit(struct http_clients *clients, uint64_t now_ns);
/* After the server has ended. */
void http_clients_fini(struct http_clients *clients);

/*
 * The client that has to make room: of the address with more than HTTP_MAX_PER_ADDRESS connections; if
 * there is none, but more than HTTP_MAX_CLIENTS in all, of the address with most. NULL: all have room.
 * *ret_of_address: which of the two limits it was.
 */
struct http_client *http_clients_excess(struct http_clients *clients, bool *ret_of_address);

#endif
