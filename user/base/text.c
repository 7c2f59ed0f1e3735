// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include "base/buf.h"
#include "base/utf8.h"

#include <stdint.h>
#include <string.h>

#define TYPED_MAX 120
#define REPLACEMENT "\xef\xbf\xbd"
#define ELLIPSIS "\xe2\x80\xa6"

/* Decodes the character at str. Returns its length, or 0 if XML forbids it. */
static size_t decode(const char *str, uint32_t *ret)
{
	size_t len = utf8_decode(str, SIZE_MAX, ret);

	return len && *ret != 0xfffe && *ret != 0xffff ? len : 0;
}

/*
 * Returns the number of bytes of the next character, made safe, and the bytes in *ret_bytes; 0 at
 * the end of str.
 */
static size_t safe_next(const char **str, const char *control, const char **ret_bytes)
{
	uint32_t c;
	size_t len;

	if (!**str)
		return 0;
	*ret_bytes = *str;
	len = decode(*str, &c);
	if (!len) {
		*ret_bytes = REPLACEMENT;
		*str += 1;
		return sizeof(REPLACEMENT) - 1;
	}
	*str += len;
	if (utf8_is_control(c)) {
		*ret_bytes = control;
		return 1;
	}
	return len;
}

static void add_safe(struct buf *dst, const char *str, char semicolon, const char *control)
{
	const char *bytes;
	size_t len, total = 0;

	while ((len = safe_next(&str, control, &bytes))) {
		total += len;
		if (total > TEXT_MAX) {
			buf_add_str(dst, "...");
			return;
		}
		if (*bytes == ';')
			buf_add_char(dst, semicolon);
		else
			buf_add(dst, bytes, len);
	}
}

void text_add(struct buf *dst, const char *str)
{
	add_safe(dst, str, ';', " ");
}

void text_add_part(struct buf *dst, const char *str)
{
	add_safe(dst, str, ':', " ");
}

void text_add_shown(struct buf *dst, const char *str)
{
	add_safe(dst, str, ';', "?");
}

void text_add_json(struct buf *dst, const char *str)
{
	uint32_t c;
	size_t len;

	buf_add_char(dst, '"');
	for (; *str; str += len ? len : 1) {
		len = decode(str, &c);
		if (!len)
			buf_add_str(dst, REPLACEMENT);
		else if (c == '"' || c == '\\')
			buf_printf(dst, "\\%c", (char)c);
		else if (utf8_is_control(c))
			buf_printf(dst, "\\u%04x", c);
		else
			buf_add(dst, str, len);
	}
	buf_add_char(dst, '"');
}

void text_json(FILE *out, const char *str)
{
	const char *bytes;
	size_t len;

	putc('"', out);
	while ((len = safe_next(&str, " ", &bytes))) {
		if (*bytes == '"' || *bytes == '\\')
			fprintf(out, "\\%c", *bytes);
		else if (*bytes == '<' || *bytes == '>' || *bytes == '&')
			fprintf(out, "\\u%04x", (unsigned int)*bytes);
		else
			fwrite(bytes, 1, len, out);
	}
	putc('"', out);
}

void text_xml(FILE *out, const char *str)
{
	const char *bytes;
	size_t len;

	while ((len = safe_next(&str, " ", &bytes))) {
		switch (*bytes) {
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '&':
			fputs("&amp;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		case '\'':
			fputs("&#39;", out);
			break;
		default:
			fwrite(bytes, 1, len, out);
		}
	}
}

size_t text_columns(const char *text)
{
	size_t columns = 0;

	for (; *text; text++)
		columns += !utf8_continues(*text);
	return columns;
}

static const char *skip_columns(const char *text, size_t columns)
{
	for (; *text && columns; columns--) {
		text++;
		while (utf8_continues(*text))
			text++;
	}
	return text;
}

void text_add_cut(struct buf *dst, const char *text, size_t columns)
{
	size_t have = text_columns(text), head;
	const char *end;

	if (have <= columns) {
		buf_add_str(dst, text);
		return;
	}
	head = (columns - 1) / 2;
	end = skip_columns(text, head);
	buf_add(dst, text, (size_t)(end - text));
	buf_add_str(dst, ELLIPSIS);
	buf_add_str(dst, skip_columns(text, have - (columns - 1 - head)));
}

void text_add_word(struct buf *dst, const char *str)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "/._-+:,@%=";

	if (*str && !str[strspn(str, plain)]) {
		buf_add_str(dst, str);
		return;
	}
	buf_add_char(dst, '\'');
	for (; *str; str++)
		if (*str == '\'')
			buf_add_str(dst, "'\\''");
		else
			buf_add_char(dst, *str);
	buf_add_char(dst, '\'');
}

bool text_begins(const char *text, const char *begin)
{
	return !strncmp(text, begin, strlen(begin));
}

bool text_ends(const char *text, const char *end)
{
	size_t len = strlen(text), end_len = strlen(end);

	return len >= end_len && !strcmp(text + len - end_len, end);
}

const char *text_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

void text_add_typed(struct buf *dst, const char *text)
{
	size_t len = strlen(text), i = 0, n;

	for (; i < len; i += n ? n : 1) {
		n = utf8_printable(text + i, len - i);
		if (i + (n ? n : 1) > TYPED_MAX)
			break;
		if (n)
			buf_add(dst, text + i, n);
		else
			buf_add_char(dst, '?');
	}
	if (i < len)
		buf_add_str(dst, "...");
}
