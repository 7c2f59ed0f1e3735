// SPDX-License-Identifier: Apache-2.0
#include "symbol/lines.h"

#include <string.h>

/* Moves the unfinished line to the front and reads more. */
static int refill(struct lines *lines)
{
	size_t rest = lines->len - lines->pos;
	ssize_t got;

	if (rest > LINES_MAX) {
		lines->skip = true;
		rest = 0;
		lines->pos = lines->len;
	}
	memmove(lines->data, lines->data + lines->pos, rest);
	lines->pos = 0;
	lines->len = rest;
	got = lines->read(lines->arg, lines->data + rest, sizeof(lines->data) - rest, lines->off);
	if (got < 0)
		return (int)got;
	if ((size_t)got > sizeof(lines->data) - rest)
		got = 0;
	lines->end = !got;
	lines->len += (size_t)got;
	lines->off += (uint64_t)got;
	return 0;
}

int lines_next(struct lines *lines, const char **ret_line, size_t *ret_len, uint64_t *ret_off)
{
	const char *start, *newline;
	size_t len;
	bool skip;
	int err;

	for (;;) {
		start = lines->data + lines->pos;
		newline = memchr(start, '\n', lines->len - lines->pos);
		if (!newline && !lines->end) {
			err = refill(lines);
			if (err)
				return err;
			continue;
		}
		if (!newline && lines->pos == lines->len)
			return 0;
		len = newline ? (size_t)(newline - start) : lines->len - lines->pos;
		skip = lines->skip || len > LINES_MAX;
		lines->skip = false;
		*ret_off = lines->off - (lines->len - lines->pos);
		lines->pos += len + !!newline;
		if (skip)
			continue;
		*ret_line = start;
		*ret_len = len;
		return 1;
	}
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

bool line_hex(const char *line, size_t len, size_t *pos, uint64_t *ret)
{
	size_t i = *pos, first;
	uint64_t value = 0;

	if (len - i > 2 && line[i] == '0' && (line[i + 1] == 'x' || line[i + 1] == 'X'))
		i += 2;
	for (first = i; i < len && hex_digit(line[i]) >= 0; i++) {
		if (value >> 60)
			return false;
		value = value << 4 | (uint64_t)hex_digit(line[i]);
	}
	if (i == first || (i < len && line[i] != ' ' && line[i] != '\t'))
		return false;
	while (i < len && (line[i] == ' ' || line[i] == '\t'))
		i++;
	*pos = i;
	*ret = value;
	return true;
}
