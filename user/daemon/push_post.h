/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_PUSH_POST_H
#define BPFPROF_DAEMON_PUSH_POST_H

/*
 * One HTTP POST of a file, over libcurl. A build without (make PUSH=0) has this module too: there
 * nothing can be opened. Redirects are not followed: what proves who we are goes where we were told
 * to push, and nowhere else. An answer counts by its status; of what follows little is read.
 */

#include <stdatomic.h>
#include <stdbool.h>

struct push_post;

/* How it went; from PUSH_RESOLVE on: not delivered. push_outcome_name() gives the reason in metrics. */
enum push_outcome {
	PUSH_DELIVERED,
	PUSH_RESOLVE, /* no address for that host */
	PUSH_CONNECT,
	PUSH_TLS,
	PUSH_TIMEOUT,
	PUSH_BROKEN, /* no answer, or none that is HTTP */
	PUSH_REDIRECTED,
	PUSH_DENIED, /* 401, 403, 407 */
	PUSH_BUSY, /* 408, 425, 429 */
	PUSH_NOT_FOUND, /* 404: what is to answer may not be there yet */
	PUSH_REFUSED, /* any other 4xx: it will never be taken */
	PUSH_SERVER, /* 5xx */
	PUSH_CREDENTIALS, /* a file that proves who we are cannot be read */
	PUSH_FILE, /* what was to be pushed cannot be read */
	PUSH_GONE, /* it is not there any more: retention */
	PUSH_STOPPED, /* we are to end */
	PUSH_NR_OUTCOMES
};
const char *push_outcome_name(enum push_outcome outcome);

/* Borrowed until push_post_close(); NULL: none. */
struct push_access {
	const char *tenant_file, *basic_file, *bearer_file;
	const char *ca_file; /* certificates to trust, instead of the system's */
	unsigned int timeout_ms; /* for all of one request */
};

struct push_result {
	enum push_outcome outcome;
	int status; /* of HTTP, 0 = none came */
	unsigned int retry_after_s; /* that the server asks for, 0 = nothing said */
	const char *why; /* static text, or NULL */
	unsigned long long bytes; /* of the file */
};

/* 0, -ENOMEM, -EOPNOTSUPP: built without. Not while other threads run that use libcurl. */
int push_post_open(struct push_post **ret, const struct push_access *access);
void push_post_close(struct push_post *post); /* NULL is fine */

/* Ends early, PUSH_STOPPED, within a second of *stop. From one thread. */
void push_post_send(struct push_post *post, const char *url, const char *path,
		    const atomic_bool *stop, struct push_result *ret);

#endif
