/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_HTTP_H
#define BPFPROF_DAEMON_HTTP_H

/*
 * A small HTTP server over libmicrohttpd for GET and HEAD. The loop of its owner runs it, without a
 * thread, and never waits for a slow client. Connections, their memory and their time are bounded
 * (http_clients.h); each has one request, and the server closes it after the answer. The owner answers a
 * request at once, or later (http_later.h).
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;
struct http;
struct http_address;
struct http_later;
struct http_refused;

/* Valid until http_answer_fn returns. */
struct http_request {
	struct http *http;
	void *connection; /* for http_later.h */
	const char *path; /* decoded, without the query */
	const char *authorization; /* that header, or NULL */
	const char *client; /* its address, or "" */
	const struct http_address *address; /* the same, for limits */
	bool head; /* HEAD: the reply is sent without its body */
};

struct http_reply {
	unsigned int status; /* 404 unless it is set */
	const char *type; /* of the body */
	struct buf *body;
	unsigned int
		retry_seconds; /* with 503 or 429: when the client may try again; 0: not sent */
	const char *allow; /* with 405: the allowed methods */
	struct http_later *later; /* not NULL: the other members are not used, see http_later.h */
};

/* Fills in reply. */
typedef void (*http_answer_fn)(void *arg, const struct http_request *request,
			       struct http_reply *reply);

/*
 * Listens on ADDRESS:PORT, [ADDRESS]:PORT or :PORT (all addresses; port 0: any), numbers only. 0,
 * -EINVAL (another form), -ELIBACC (libmicrohttpd cannot be loaded) or -errno.
 */
int http_open(struct http **ret, const char *address, http_answer_fn answer, void *arg);
/*
 * Listens on a Unix socket, too, that every user may connect to; a socket of that name is replaced. 0 or
 * -errno.
 */
int http_socket_open(struct http *http, const char *path);

/* The process that has connected to the Unix socket. */
struct http_peer {
	pid_t pid; /* 0: it has no number in our pid namespace */
	uid_t uid;
	int pidfd; /* tells whether pid is still that process; to be closed; -1: the kernel has none */
};
/* 0, or -ENOTSOCK: the client came by TCP. */
int http_peer_get(struct http_peer *ret, const struct http_request *request);

void http_close(struct http *http); /* NULL is fine; also ends the answers of http_later.h */
int http_fd(const struct http *http); /* readable when http_run() has work */
void http_run(struct http *http); /* must also be called often, for time limits */
bool http_is_pending(const struct http *http); /* http_run() has more work at once */
uint16_t http_port(const struct http *http);
const struct http_refused *http_refused(const struct http *http); /* see http_clients.h */

/* Is address of that form? 0 or -EINVAL. */
int http_check_address(const char *address);

/*
 * Calls take for each NAME=VALUE of the query, decoded (VALUE is "" without a '='), and returns its
 * first error. -EINVAL: the query has bytes that are not allowed.
 */
int http_query(const struct http_request *request,
	       int (*take)(void *arg, const char *name, const char *value), void *arg);

#endif
