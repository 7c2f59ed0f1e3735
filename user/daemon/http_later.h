/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_HTTP_LATER_H
#define BPFPROF_DAEMON_HTTP_LATER_H

/*
 * An answer of which the bytes come out of a pipe, some time after the question. The client is
 * watched meanwhile: when it goes away, that is the end of it. One pipe's worth of bytes is in
 * memory, however large the answer and however slow its reader is.
 */

#include <stdbool.h>
#include <stdint.h>

struct http_later;
struct http_request;
struct http_reply;

struct http_later_events {
	/* What http_later_wait() waited for has come: bytes, or the end of them. */
	void (*readable)(void *arg);
	/* All bytes were read. 0: that was all of it; -EAGAIN: not known yet; else it is cut. */
	int (*ended)(void *arg);
	/* The answer was sent as a whole, or cut or given up, and is freed after this. Called once. */
	void (*done)(void *arg, bool whole);
};

/* To be called while it is answered, once; NULL: out of memory, nothing has changed. */
struct http_later *http_later_new(const struct http_request *request, struct http_reply *reply,
				  const struct http_later_events *events, void *arg);

/* Calls readable() once fd, a pipe that does not block, has something. Borrowed. 0 or -errno. */
int http_later_wait(struct http_later *later, int fd);

#define HTTP_LATER_SIZE_UNKNOWN UINT64_MAX

/* Sends what comes out of fd, borrowed until done(); file_name: what to store it as, or NULL. */
void http_later_stream(struct http_later *later, int fd, uint64_t size, const char *type,
		       const char *file_name);
/* Or a reply like any other; its body is copied. */
void http_later_reply(struct http_later *later, const struct http_reply *reply);
/* Looks again after ended() said -EAGAIN. */
void http_later_again(struct http_later *later);
/* Cuts it, whatever has been sent. */
void http_later_cut(struct http_later *later);

#endif
