// SPDX-License-Identifier: Apache-2.0
#include "cmd/report_bundle.h"

#include <errno.h>
#include <string.h>

#define MAGIC "bpfprof-files\n"
#define NAME_MAX_BYTES 255
#define SIZE_DIGITS 12

bool report_bundle_is(const char *data, size_t len)
{
	return len >= strlen(MAGIC) && !memcmp(data, MAGIC, strlen(MAGIC));
}

/* Reads digits up to a blank. */
static int take_size(const char **at, const char *end, size_t *ret)
{
	size_t size = 0, digits = 0;

	while (*at < end && **at >= '0' && **at <= '9' && digits++ < SIZE_DIGITS)
		size = size * 10 + (size_t)(*(*at)++ - '0');
	if (!digits || *at == end || *(*at)++ != ' ')
		return -EBADMSG;
	*ret = size;
	return 0;
}

static int take_file(const char **at, const char *end, struct report_bundle_file *ret)
{
	const char *line;
	size_t size = 0, name;
	int err = take_size(at, end, &size);

	if (err)
		return err;
	line = memchr(*at, '\n', (size_t)(end - *at));
	name = line ? (size_t)(line - *at) : 0;
	if (!name || name > NAME_MAX_BYTES || memchr(*at, 0, name) ||
	    size > (size_t)(end - line - 1))
		return -EBADMSG;
	memcpy(ret->name, *at, name);
	ret->name[name] = 0;
	ret->data = line + 1;
	ret->len = size;
	*at = ret->data + size;
	return 0;
}

int report_bundle_each(const char *data, size_t len,
		       int (*each)(void *arg, const struct report_bundle_file *file), void *arg)
{
	const char *at = data + strlen(MAGIC), *end = data + len;
	struct report_bundle_file file;
	int err = 0;

	while (!err && at < end) {
		err = take_file(&at, end, &file);
		if (!err)
			err = each(arg, &file);
	}
	return err;
}

struct reading {
	int (*each)(void *arg, const struct report_bundle_file *file);
	void *arg;
	size_t nr_good, nr_bad;
};

static int read_one(void *arg, const struct report_bundle_file *file)
{
	struct reading *reading = arg;
	int err = reading->each(reading->arg, file);

	reading->nr_good += !err;
	reading->nr_bad += err != 0;
	return err == -ENOMEM ? err : 0;
}

int report_bundle_read(const char *data, size_t len,
		       int (*each)(void *arg, const struct report_bundle_file *file), void *arg,
		       bool *bad)
{
	struct reading reading = { .each = each, .arg = arg };
	int err = report_bundle_each(data, len, read_one, &reading);

	*bad |= reading.nr_bad != 0;
	return err ?: reading.nr_bad && !reading.nr_good ? -ECANCELED : 0;
}
