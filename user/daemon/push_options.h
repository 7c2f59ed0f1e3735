/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_PUSH_OPTIONS_H
#define BPFPROF_DAEMON_PUSH_OPTIONS_H

/* The flags --push* of `bpfprof daemon`. What takes why: as in options/values.h. */

#include <stddef.h>

struct buf;

#define PUSH_TIMEOUT_MS 10000U
#define PUSH_QUEUE 1000U

struct push_options {
	char *url; /* or NULL: nothing is pushed */
	char *tenant_file, *basic_file, *bearer_file, *ca_file; /* or NULL */
	char **labels; /* NAME=VALUE */
	size_t nr_labels;
	unsigned int timeout_ms;
	size_t queue;
};

int push_file_take(char **dst, const char *value, struct buf *why);
int push_label_take(struct push_options *options, const char *value, struct buf *why);
int push_timeout_take(struct push_options *options, const char *value, struct buf *why);
int push_queue_take_size(struct push_options *options, const char *value, struct buf *why);
void push_options_fini(struct push_options *options);

/*
 * All of them together, once they are known: 0, or -EINVAL with a sentence added to error. The URL is
 * looked at here because what is wrong with it may be a password, which must not be repeated.
 */
int push_options_check(const struct push_options *options, struct buf *error);

#endif
