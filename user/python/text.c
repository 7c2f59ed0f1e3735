// SPDX-License-Identifier: Apache-2.0
#include "python/text.h"

#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "base/text.h"
#include "base/utf8.h"

#define MAX_PACKAGES 64 /* nested packages; each costs the search of a file */
#define REPLACEMENT 0xfffdU

static const char cut_mark[] = "\xe2\x80\xa6"; /* U+2026 */
#define CUT_MARK_LEN (sizeof(cut_mark) - 1)

static uint32_t read_char(const uint8_t *src, uint32_t char_bytes)
{
	uint32_t value = 0;
	uint16_t half;

	if (char_bytes == 1)
		return *src;
	if (char_bytes == 2) {
		memcpy(&half, src, sizeof(half));
		return half;
	}
	memcpy(&value, src, sizeof(value));
	return value;
}

static size_t write_utf8(char dst[UTF8_MAX], uint32_t c)
{
	if (c == 0 || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		c = REPLACEMENT;
	return utf8_encode(dst, c);
}

size_t python_text(char *dst, size_t cap, const uint8_t *src, size_t len, size_t total,
		   uint32_t char_bytes)
{
	size_t n = 0, cut_at = 0, bytes, pos;
	bool cut = total > len;
	char utf8[UTF8_MAX];

	if (!cap)
		return 0;
	if (char_bytes != 1 && char_bytes != 2 && char_bytes != 4) {
		dst[0] = '\0';
		return 0;
	}
	if (total < len)
		len = total;
	if (len % char_bytes)
		cut = true;
	for (pos = 0; len - pos >= char_bytes; pos += char_bytes) {
		bytes = write_utf8(utf8, read_char(src + pos, char_bytes));
		if (bytes >= cap - n) {
			cut = true;
			break;
		}
		memcpy(dst + n, utf8, bytes);
		n += bytes;
		if (CUT_MARK_LEN < cap - n)
			cut_at = n;
	}
	if (cut) {
		n = cut_at;
		if (CUT_MARK_LEN < cap) {
			memcpy(dst + n, cut_mark, CUT_MARK_LEN);
			n += CUT_MARK_LEN;
		}
	}
	dst[n] = '\0';
	return n;
}

static const char *skip_digits(const char *text)
{
	return text + strspn(text, "0123456789");
}

/* The part of text behind "lib/pythonX.Y/" ("t" for a free-threaded build), or NULL. */
static const char *skip_stdlib(const char *text)
{
	const char *major, *minor, *end;

	if (text_begins(text, "lib/python"))
		major = text + strlen("lib/python");
	else if (text_begins(text, "lib64/python"))
		major = text + strlen("lib64/python");
	else
		return NULL;
	end = skip_digits(major);
	if (end == major || *end != '.')
		return NULL;
	minor = end + 1;
	end = skip_digits(minor);
	if (end == minor)
		return NULL;
	if (*end == 't')
		end++;
	return *end == '/' ? end + 1 : NULL;
}

/* The part of text behind a folder of modules, or NULL. */
static const char *skip_library(const char *text)
{
	if (text_begins(text, "site-packages/") || text_begins(text, "dist-packages/"))
		return strchr(text, '/') + 1;
	return skip_stdlib(text);
}

static const char *guess_short(const char *path)
{
	const char *found = text_base_name(path), *part = path, *rest, *slash;

	for (;;) {
		rest = skip_library(part);
		if (rest && *rest)
			found = rest;
		slash = strchr(part, '/');
		if (!slash)
			return found;
		part = slash + 1;
	}
}

const char *python_short_file(const char *path, int (*has_init)(void *arg, const char *folder),
			      void *arg)
{
	const char *found = text_base_name(path);
	size_t len = (size_t)(found - path);
	char folder[PATH_MAX];
	int level, has;

	if (path[0] == '<' || found == path)
		return path;
	if (!has_init || len > sizeof(folder)) /* its slash makes room for the NUL */
		return guess_short(path);
	memcpy(folder, path, len);
	for (level = 0; level < MAX_PACKAGES; level++) {
		while (len && folder[len - 1] == '/')
			len--;
		if (!len)
			break;
		folder[len] = '\0';
		has = has_init(arg, folder);
		if (has < 0)
			return guess_short(path);
		if (!has)
			break;
		while (len && folder[len - 1] != '/')
			len--;
		found = path + len;
	}
	return found;
}
