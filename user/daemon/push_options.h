/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_PUSH_OPTIONS_H
#define BPFPROF_DAEMON_PUSH_OPTIONS_H

/* The flags --push* and --notify* of `bpfprof daemon`. */

#include <stddef.h>

#include "options/flag.h"

struct buf;

struct push_options {
	char *url; /* or NULL: nothing is sent */
	char *tenant_file, *basic_file, *bearer_file, *ca_file; /* or NULL */
	char **labels; /* NAME=VALUE */
	size_t nr_labels;
	unsigned int timeout_ms;
	size_t queue;
};

/* Rows of a push_options. notify_flags sets neither tenant_file, basic_file, labels, timeout_ms nor queue. */
extern const struct flag push_flags[], notify_flags[];

/*
 * 0, or -EINVAL with a sentence added to error. The parser of flags repeats a wrong value in its
 * message; this does not, as a wrong URL may have a password in it.
 */
int push_options_check_url(const struct push_options *options, struct buf *error);
int notify_options_check_url(const struct push_options *options, struct buf *error);

#endif
