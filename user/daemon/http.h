/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_HTTP_H
#define BPFPROF_DAEMON_HTTP_H

/*
 * A small HTTP server over libmicrohttpd, run by its owner's loop: no thread, and nobody who is slow is
 * waited for. GET and HEAD only. Bounded: connections, their memory and their time. An answer is
 * given at once, or later (http_later.h) by somebody who works meanwhile.
 */

#include <stdbool.h>
#include <stdint.h>

struct buf;
struct http;
struct http_later;

/* While it is being answered. */
struct http_request {
	struct http *http;
	void *connection; /* for http_later.h */
	const char *path; /* decoded, without what follows a '?' */
	const char *authorization; /* that header, or NULL */
	const char *client; /* its address, or "" */
	bool head; /* HEAD: no body is wanted */
};

struct http_reply {
	unsigned int status; /* 404 unless it is set */
	const char *type; /* of the body */
	struct buf *body;
	unsigned int retry_seconds; /* with 503: when to come again; 0: not said */
	const char *allow; /* with 405: methods that are */
	struct http_later *later; /* not NULL: none of this is used, see http_later.h */
};

/* Fills in reply. */
typedef void (*http_answer_fn)(void *arg, const struct http_request *request,
			       struct http_reply *reply);

/*
 * Listens on ADDRESS:PORT, [ADDRESS]:PORT or :PORT (all addresses; port 0: any), numbers only. 0, -EINVAL (no such form)
 * or -errno.
 */
int http_open(struct http **ret, const char *address, http_answer_fn answer, void *arg);
void http_close(struct http *http); /* NULL is fine; ends what is answered later, too */
int http_fd(const struct http *http); /* readable when there is something to do */
void http_run(struct http *http); /* also now and then, for time limits */
bool http_is_pending(const struct http *http); /* http_run() has more to do at once */
uint16_t http_port(const struct http *http);

/* Is address of that form? 0 or -EINVAL. */
int http_check_address(const char *address);

/*
 * Calls take for each NAME=VALUE behind the '?', decoded ("" where there is no '='), until it
 * returns an error, which is returned; -EINVAL: there are bytes in it that cannot be.
 */
int http_query(const struct http_request *request,
	       int (*take)(void *arg, const char *name, const char *value), void *arg);

#endif
