// SPDX-License-Identifier: Apache-2.0
#include "options/values.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/names.h"
#include "base/time.h"
#include "base/vec.h"
#include "ray/worker_match.h"

#define BYTES_MAX (1ULL << 60)
#define MAX_LIST 1024 /* values of one repeatable flag */

int value_refuse(struct buf *why, const char *text)
{
	buf_add_str(why, text);
	return -EINVAL;
}

int value_number(const char *text, uint64_t max, uint64_t *ret)
{
	uint64_t value = 0;

	if (!*text)
		return -EINVAL;
	for (; *text; text++) {
		if (!isdigit((unsigned char)*text))
			return -EINVAL;
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value) || value > max)
			return -ERANGE;
	}
	*ret = value;
	return 0;
}

int value_epoch(const char *text, uint64_t *ret_ns)
{
	size_t len = strcspn(text, ".");
	__cleanup(free_mem) char *seconds = strndup(text, len);
	uint64_t ns = 0, unit = NS_PER_SECOND, value;
	const char *digit = text[len] ? text + len + 1 : text + len;
	int err;

	if (!seconds)
		return -ENOMEM;
	if (text[len] && !*digit)
		return -EINVAL;
	for (; isdigit((unsigned char)*digit) && unit > 1; digit++) {
		unit /= 10;
		ns += (uint64_t)(*digit - '0') * unit;
	}
	if (*digit)
		return -EINVAL;
	err = value_number(seconds, UINT64_MAX / NS_PER_SECOND - 1, &value);
	if (!err)
		*ret_ns = value * NS_PER_SECOND + ns;
	return err;
}

int value_string(char **dst, const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	free(*dst);
	*dst = copy;
	return 0;
}

int value_folder(char **dst, const char *value, struct buf *why)
{
	struct stat st;

	if (value[0] != '/')
		return value_refuse(why, "must be an absolute path, such as /host");
	if (stat(value, &st)) {
		buf_printf(why, "cannot be used as the node's file system: %s", strerror(errno));
		return -EINVAL;
	}
	if (!S_ISDIR(st.st_mode))
		return value_refuse(why, "is not a folder");
	return value_string(dst, value);
}

int value_bytes(const char *text, uint64_t *ret)
{
	static const char *const units[] = { "", "K", "M", "G", "T" };
	uint64_t value = 0;
	unsigned int i;

	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	for (; isdigit((unsigned char)*text); text++) {
		value = value * 10 + (uint64_t)(*text - '0');
		if (value > BYTES_MAX)
			return -ERANGE;
	}
	for (i = 4; i && toupper((unsigned char)*text) != units[i][0]; i--)
		;
	text += i > 0;
	if (i && *text == 'i')
		text++;
	if (toupper((unsigned char)*text) == 'B')
		text++;
	if (*text)
		return -EINVAL;
	if (!value || value > BYTES_MAX >> 10 * i)
		return -ERANGE;
	*ret = value << 10 * i;
	return 0;
}

static int value_pid(const char *text, pid_t *ret)
{
	uint64_t value;

	if (value_number(text, INT_MAX, &value) || !value)
		return -EINVAL;
	*ret = (pid_t)value;
	return 0;
}

static int take_pid(pid_t **list, size_t *nr, const char *value, struct buf *why)
{
	pid_t pid;

	if (value_pid(value, &pid))
		return value_refuse(why, "must be a process id, a whole number from 1");
	for (size_t i = 0; i < *nr; i++) {
		if ((*list)[i] == pid)
			return 0;
	}
	if (*nr == MAX_LIST)
		return value_refuse(why, "at most 1024 processes can be named");
	if (!vec_fit(*list, *nr + 1))
		return -ENOMEM;
	(*list)[(*nr)++] = pid;
	return 0;
}

int value_add_pids(pid_t **list, size_t *nr, const char *value, struct buf *why)
{
	const char *item = value;

	for (;;) {
		size_t len = strcspn(item, ",");
		__cleanup(free_mem) char *text = strndup(item, len);
		int err;

		if (!text)
			return -ENOMEM;
		err = take_pid(list, nr, text, why);
		if (err || !item[len])
			return err;
		item += len + 1;
	}
}

int value_add_name(char ***list, size_t *nr, const char *name, size_t len, struct buf *why)
{
	return *nr < MAX_LIST ? names_add(list, nr, name, len)
			      : value_refuse(why, "at most 1024 names can be given");
}

int value_add_patterns(char ***list, size_t *nr, const char *value, struct buf *why)
{
	const char *item = value;
	size_t len;
	int err = 0;

	for (;;) {
		item += strspn(item, " \t");
		len = strcspn(item, ",");
		value = item + len;
		while (len && (item[len - 1] == ' ' || item[len - 1] == '\t'))
			len--;
		if (len > WORKER_PATTERN_MAX)
			return value_refuse(why, "a pattern may have 1023 bytes");
		if (len)
			err = value_add_name(list, nr, item, len, why);
		if (err || !*value)
			break;
		item = value + 1;
	}
	if (!err && !*nr)
		return value_refuse(why,
				    "must be patterns like '*policy*' with commas between them");
	return err;
}
