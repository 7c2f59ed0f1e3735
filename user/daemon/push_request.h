/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_PUSH_REQUEST_H
#define BPFPROF_DAEMON_PUSH_REQUEST_H

/*
 * A request: checks of its URL, and its credentials. To Pyroscope: the URL of POST /ingest with its labels. grafana/pyroscope,
 * docs/sources/reference-server-api describes /ingest: its parameter name is
 * APPLICATION{LABEL=VALUE,...} without any quoting.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct push_item;

#define PUSH_APPLICATION "bpfprof" /* becomes the label service_name */
#define PUSH_URL_MAX 2048
#define PUSH_SECRET_MAX 8192

/* The labels of all pushes. */
struct push_labels {
	const char *host;
	char *const *more; /* NAME=VALUE, valid for push_label_check() */
	size_t nr_more;
	uint32_t hz;
};

/*
 * A URL is http:// or https://, a host, and perhaps a path and, where it is allowed, a query; no user, no password.
 * secrets: the flag of a file with credentials, for the reason. 0, or -EINVAL with the reason added to why, which does
 * not repeat the URL.
 */
int push_url_check(const char *url, bool query, const char *secrets, struct buf *why);
/* The length of SCHEME://HOST:PORT: the log shows no more of a URL whose path may be a secret. */
size_t push_url_server(const char *url);
/* NAME=VALUE whose name is a valid label that bpfprof does not set itself. 0 or -EINVAL. */
int push_label_check(const char *label);

/* Adds URL/ingest?..., or URL?... if it ends in /ingest. dst has the error. */
void push_url_make(struct buf *dst, const char *url, const struct push_labels *labels,
		   const struct push_item *item);

/*
 * Reads a regular file without its line end: a token, a tenant, or USER:PASSWORD. 0, -errno, -EINVAL
 * (empty, or with bytes that no header may have), -E2BIG over PUSH_SECRET_MAX. The caller wipes dst.
 */
int push_secret_read(struct buf *dst, const char *path);

#endif
