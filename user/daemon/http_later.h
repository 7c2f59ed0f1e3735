/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_HTTP_LATER_H
#define BPFPROF_DAEMON_HTTP_LATER_H

/*
 * An answer that comes out of a pipe, some time after the request. When the client disconnects
 * meanwhile, the answer ends. No more than one pipe's worth of bytes is in memory, however large the
 * answer and however slow the client is.
 */

#include <stdbool.h>
#include <stdint.h>

struct http_later;
struct http_request;
struct http_reply;

struct http_later_events {
	/* The pipe of http_later_wait() has bytes, or its writer has closed it. */
	void (*readable)(void *arg);
	/* All bytes were read. 0: the answer is complete; -EAGAIN: not known yet; else it is cut off. */
	int (*ended)(void *arg);
	/* Called once, before the answer is freed. whole: it was sent to its end. */
	void (*done)(void *arg, bool whole);
};

/* May be called once, while the request is answered. NULL: out of memory, nothing has changed. */
struct http_later *http_later_new(const struct http_request *request, struct http_reply *reply,
				  const struct http_later_events *events, void *arg);

/* Calls readable() once fd, a pipe that does not block, has bytes. Borrows fd. 0 or -errno. */
int http_later_wait(struct http_later *later, int fd);

#define HTTP_LATER_SIZE_UNKNOWN UINT64_MAX

/* Sends the bytes of fd, borrowed until done(). file_name: a name for the client, or NULL. */
void http_later_stream(struct http_later *later, int fd, uint64_t size, const char *type,
		       const char *file_name);
/* Sends a reply instead; copies its body. */
void http_later_reply(struct http_later *later, const struct http_reply *reply);
/* Calls ended() again, which has returned -EAGAIN. */
void http_later_again(struct http_later *later);
/* Cuts the answer off where it is. */
void http_later_cut(struct http_later *later);

#endif
