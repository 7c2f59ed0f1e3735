// SPDX-License-Identifier: Apache-2.0
#include "proc/mountinfo.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"

#define MAJOR_MAX 0xfffU /* 12 and 20 bits: the kernel's include/linux/kdev_t.h */
#define MINOR_MAX 0xfffffU

/* Decodes \040 (space): the kernel writes space, tab, newline and backslash in this form. */
static void decode_octal(char *text)
{
	char *to = text;

	while (*text) {
		if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] >= '0' &&
		    text[2] <= '7' && text[3] >= '0' && text[3] <= '7') {
			*to = (char)((text[1] - '0') << 6 | (text[2] - '0') << 3 | (text[3] - '0'));
			to += *to != 0;
			text += 4;
		} else {
			*to++ = *text++;
		}
	}
	*to = 0;
}

/*
 * Returns the field at *at, NUL-terminated, and moves *at to the next one. NULL after the last one.
 */
static char *field_next(char **at)
{
	char *field = *at, *end;

	if (!field)
		return NULL;
	end = strchr(field, ' ');
	if (end)
		*end++ = 0;
	*at = end;
	return field;
}

/* Parses decimal digits up to stop; -1: it is no number up to max. */
static long parse_number(const char **at, char stop, unsigned long max)
{
	const char *p = *at;
	unsigned long n = 0;

	if (*p == stop)
		return -1;
	for (; *p != stop; p++) {
		if (*p < '0' || *p > '9')
			return -1;
		n = n * 10 + (unsigned long)(*p - '0');
		if (n > max)
			return -1;
	}
	*at = stop ? p + 1 : p;
	return (long)n;
}

/* Parses ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [OPTIONAL...] - TYPE SOURCE SUPER-OPTIONS. */
int mount_line_parse(struct mount_line *ret, char *line)
{
	char *at = line, *root, *point, *field, *type;
	const char *number;
	long major_nr, minor_nr;

	field_next(&at);
	field_next(&at);
	number = field_next(&at);
	root = field_next(&at);
	point = field_next(&at);
	if (!point)
		return -EBADMSG;
	major_nr = parse_number(&number, ':', MAJOR_MAX);
	minor_nr = major_nr < 0 ? -1 : parse_number(&number, 0, MINOR_MAX);
	if (minor_nr < 0 || !root[0] || point[0] != '/')
		return -EBADMSG;
	do
		field = field_next(&at);
	while (field && strcmp(field, "-"));
	type = field_next(&at);
	field_next(&at);
	if (!at) /* nothing follows the source */
		return -EBADMSG;
	decode_octal(root);
	decode_octal(point);
	*ret = (struct mount_line){
		.dev = makedev((unsigned int)major_nr, (unsigned int)minor_nr),
		.root = root,
		.point = point,
		.type = type,
		.options = at,
	};
	return 0;
}

/*
 * Passes on the whole lines in the len bytes at data; *ret_used is their length. False: fn stopped.
 */
static bool take_lines(char *data, size_t len, size_t *ret_used, bool *skip, mount_line_fn fn,
		       void *arg)
{
	struct mount_line line;
	char *at = data, *end = data + len, *newline;

	while ((newline = memchr(at, '\n', (size_t)(end - at)))) {
		*newline = 0;
		if (!*skip && !mount_line_parse(&line, at) && !fn(arg, &line))
			return false;
		*skip = false;
		at = newline + 1;
	}
	*ret_used = (size_t)(at - data);
	return true;
}

int mountinfo_read(int fd, size_t max_bytes, mount_line_fn fn, void *arg)
{
	__cleanup(free_mem) char *data = malloc(MOUNTINFO_LINE_MAX);
	size_t len = 0, used, total = 0;
	bool skip = false; /* the rest of a long line is skipped */
	ssize_t n;

	if (!data)
		return -ENOMEM;
	for (;;) {
		n = read(fd, data + len, MOUNTINFO_LINE_MAX - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : 0;
		len += (size_t)n;
		total += (size_t)n;
		if (!take_lines(data, len, &used, &skip, fn, arg))
			return 0;
		if (!used && len == MOUNTINFO_LINE_MAX) {
			skip = true;
			used = len;
		}
		len -= used;
		memmove(data, data + used, len);
		if (total >= max_bytes)
			return -E2BIG;
	}
}
