/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_PUSH_REQUEST_H
#define BPFPROF_DAEMON_PUSH_REQUEST_H

/*
 * What Pyroscope is asked: the URL of POST /ingest with its labels, and what proves who we are. The
 * form of /ingest is that of grafana/pyroscope, docs/sources/reference-server-api: the parameter name holds
 * APPLICATION{LABEL=VALUE,...}, which knows no quoting.
 */

#include <stddef.h>
#include <stdint.h>

struct buf;
struct push_item;

#define PUSH_APPLICATION "bpfprof" /* becomes the label service_name */
#define PUSH_URL_MAX 2048
#define PUSH_SECRET_MAX 8192

/* Of all pushes. */
struct push_labels {
	const char *host;
	char *const *more; /* NAME=VALUE, as push_label_check() wants them */
	size_t nr_more;
	uint32_t hz;
};

/*
 * 0, or -EINVAL with the reason added to why, which does not repeat the URL: http:// or https://, a host, and
 * a path if need be; no user, no password, no query.
 */
int push_url_check(const char *url, struct buf *why);
/* NAME=VALUE with a name that is a label, and none of ours. 0 or -EINVAL. */
int push_label_check(const char *label);

/* Adds URL/ingest?...; a URL that ends in /ingest is taken as it is. Errors are dst's. */
void push_url_make(struct buf *dst, const char *url, const struct push_labels *labels,
		   const struct push_item *item);

/*
 * What is in a file, without the line end: a token, a tenant, or USER:PASSWORD. 0, -errno, -EINVAL (empty, or bytes that no header may
 * hold), -E2BIG over PUSH_SECRET_MAX. Regular files only. The caller wipes dst.
 */
int push_secret_read(struct buf *dst, const char *path);

#endif
