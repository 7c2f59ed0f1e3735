/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_PUSH_POST_H
#define BPFPROF_DAEMON_PUSH_POST_H

/*
 * One HTTP POST of a file or a text, over libcurl. Without libcurl (make PUSH=0) push_post_open() fails.
 * Redirects are not followed, so that credentials are sent to the configured server only. The status
 * of the answer decides; little of its body is read.
 */

#include <stdatomic.h>
#include <stdbool.h>

struct push_item;
struct push_post;

/* All but the first are failures. push_outcome_name() is the reason in /metrics. */
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
	PUSH_NOT_FOUND, /* 404: the service may not have started yet */
	PUSH_REFUSED, /* any other 4xx: trying again is of no use */
	PUSH_SERVER, /* 5xx */
	PUSH_CREDENTIALS, /* a file with credentials cannot be read */
	PUSH_FILE, /* the file cannot be read */
	PUSH_GONE, /* retention has removed the file */
	PUSH_STOPPED, /* the daemon ends */
	PUSH_NR_OUTCOMES
};
const char *push_outcome_name(enum push_outcome outcome);

/* Borrowed until push_post_close(); NULL: none. */
struct push_access {
	const char *tenant_file, *basic_file, *bearer_file;
	const char *ca_file; /* certificates to trust, instead of the system's */
	const char *content_type;
	unsigned int timeout_ms; /* of a whole request */
};

struct push_result {
	enum push_outcome outcome;
	int status; /* of HTTP, 0: no answer came */
	unsigned int retry_after_s; /* asked for by the server; 0: not */
	const char *why; /* static text, or NULL */
	unsigned long long bytes; /* of the body */
};

/*
 * 0, -ENOMEM, -ELIBACC: libcurl cannot be loaded, -EOPNOTSUPP: built with PUSH=0. One thread opens and closes all. No
 * other thread may use libcurl while the first one is opened or the last one is closed.
 */
int push_post_open(struct push_post **ret, const struct push_access *access);
void push_post_close(struct push_post *post); /* NULL is fine */

/* Ends within a second of *stop with PUSH_STOPPED. One thread only may call it. */
void push_post_send(struct push_post *post, const char *url, const struct push_item *item,
		    const atomic_bool *stop, struct push_result *ret);

#endif
