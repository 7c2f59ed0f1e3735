/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_REMOTE_RIGHT_H
#define BPFPROF_DAEMON_REMOTE_RIGHT_H

/* The processes that an HTTP client may ask about: by its token, or by the pod of the process that came to the Unix socket. */

#include <stdbool.h>

#include "daemon/http.h"

struct container_filter;
struct daemon;

#define REMOTE_OWNER_MAX 128 /* more than TOKEN_MAX */

/* The process that a client may ask about. */
struct remote_target {
	pid_t pid; /* as we see it */
	uint64_t start_ticks; /* for target_has_start(); 0: not to be checked */
};

struct remote_right {
	/* By token: these pods; NULL: everything. Borrowed until the next reload. */
	const struct container_filter *bound;
	bool by_socket; /* about the pod of peer, which a child finds out */
	struct http_peer peer;
	char owner[REMOTE_OWNER_MAX]; /* of recordings of memory: the token, or the pod of peer */
};

/*
 * 0; -ENOENT: the daemon answers no such client; -EACCES: the client is refused, and the reply says why. To be released
 * after 0.
 */
int remote_right_find(struct remote_right *ret, struct daemon *daemon,
		      const struct http_request *request, struct http_reply *reply);
void remote_right_release(struct remote_right *right); /* twice is fine */

/* Counts a refusal for /metrics; the reason is a constant. */
void remote_refusal_count(struct daemon *daemon, const char *reason);
/* And answers it with a sentence. */
void remote_refuse(struct daemon *daemon, struct http_reply *reply, unsigned int status,
		   const char *reason, const char *text);

#endif
