// SPDX-License-Identifier: Apache-2.0
#include "daemon/push_options.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/duration.h"
#include "base/vec.h"
#include "daemon/push_request.h"
#include "options/values.h"

#define LABELS_MAX 16
#define TIMEOUT_MAX_NS (600 * 1000000000ULL)
#define QUEUE_MAX 100000

static int refuse(struct buf *why, const char *text)
{
	buf_add_str(why, text);
	return -EINVAL;
}

int push_file_take(char **dst, const char *value, struct buf *why)
{
	return *value ? value_string(dst, value) : refuse(why, "must be a file name");
}

int push_label_take(struct push_options *options, const char *value, struct buf *why)
{
	bool room;
	char *copy;

	if (push_label_check(value))
		return refuse(why, "must be NAME=VALUE, like cluster=train-a; not host, namespace, "
				   "pod or service_name, and no , or } in it");
	if (options->nr_labels == LABELS_MAX)
		return refuse(why, "16 labels are enough");
	copy = strdup(value);
	room = vec_fit(options->labels, options->nr_labels + 1);
	if (!copy || !room) {
		free(copy);
		return -ENOMEM;
	}
	options->labels[options->nr_labels++] = copy;
	return 0;
}

int push_timeout_take(struct push_options *options, const char *value, struct buf *why)
{
	uint64_t ns;

	if (duration_parse(value, &ns) || ns < 1000000 || ns > TIMEOUT_MAX_NS)
		return refuse(why, "must be a duration up to 10 minutes, like 10s");
	options->timeout_ms = (unsigned int)(ns / 1000000);
	return 0;
}

int push_queue_take_size(struct push_options *options, const char *value, struct buf *why)
{
	uint64_t number;

	if (value_number(value, QUEUE_MAX, &number) || !number)
		return refuse(why, "must be a number from 1 to 100000");
	options->queue = number;
	return 0;
}

void push_options_fini(struct push_options *options)
{
	free(options->url);
	free(options->tenant_file);
	free(options->basic_file);
	free(options->bearer_file);
	free(options->ca_file);
	while (options->nr_labels)
		free(options->labels[--options->nr_labels]);
	free(options->labels);
}

int push_options_check(const struct push_options *options, struct buf *error)
{
	if (!options->url) {
		if (options->tenant_file || options->basic_file || options->bearer_file ||
		    options->ca_file || options->nr_labels)
			return refuse(error, "--push is missing: which server are the other "
					     "--push flags for?");
		return 0;
	}
	if (options->basic_file && options->bearer_file)
		return refuse(error, "--push-basic-auth-file and --push-bearer-token-file: only "
				     "one of them can be sent");
	buf_add_str(error, "--push: the URL ");
	if (push_url_check(options->url, error))
		return -EINVAL;
	buf_reset(error);
	return 0;
}
