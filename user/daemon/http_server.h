/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_HTTP_SERVER_H
#define BPFPROF_DAEMON_HTTP_SERVER_H

/* What http.c and http_later.c share, and nobody else. */

#include <microhttpd.h>
#include <stdint.h>

#include "daemon/http.h"
#include "daemon/http_clients.h"

struct http_later;

struct http {
	struct MHD_Daemon *mhd;
	http_answer_fn answer;
	void *arg;
	int epoll_fd; /* of ours: the server's own descriptor, clients and pipes of later answers */
	uint16_t port;
	struct http_later *laters; /* all of them */
	struct http_clients clients;
};

/* Into the epoll set of http; what it is given back with. */
struct http_watch {
	struct http_later *later;
	int fd; /* -1: none */
};

/* A response with all headers of reply, to be destroyed; NULL: out of memory. */
struct MHD_Response *http_response(const struct http_reply *reply);
void http_response_headers(struct MHD_Response *response, const char *type);

/* Something happened to what is watched. */
void http_later_event(struct http_watch *watch);
/* Before the server ends. */
void http_later_cut_all(struct http *http);
/* The request is over, for whatever reason. */
void http_later_over(struct http_later *later, bool whole);

#endif
