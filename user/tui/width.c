// SPDX-License-Identifier: Apache-2.0
#include "tui/width.h"

#include <langinfo.h>
#include <locale.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <wchar.h>

#include "base/buf.h"
#include "base/utf8.h"

#define ELLIPSIS "\xe2\x80\xa6"
#define COLUMNS_FOR_ENDS 24
#define MAX_MARKS 3 /* characters without a width that may follow one with a width */

void width_init(void)
{
	if (setlocale(LC_CTYPE, "") && !strcmp(nl_langinfo(CODESET), "UTF-8"))
		return;
	setlocale(LC_CTYPE, "C.UTF-8");
}

/* The columns and bytes of one character; bytes is 0 at the end of the text. */
struct cell {
	const char *bytes;
	size_t nr_bytes;
	size_t columns;
};

/* Joiners and invisible characters change other columns, too. */
static bool is_control(uint32_t c)
{
	return utf8_is_control(c) || c == 0xad || (c >= 0x200b && c <= 0x200d) ||
	       (c >= 0x2060 && c <= 0x206f) || (c >= 0xfe00 && c <= 0xfe0f) ||
	       (c >= 0xe0000 && c <= 0xe0fff);
}

/* The next cell of text; *marks counts characters without a width since the last one with a width. */
static struct cell cell_next(const char **text, size_t *marks)
{
	static const char bad[] = "?";
	struct cell cell = { .bytes = *text, .columns = 1 };
	uint32_t c = 0;
	int columns;

	if (!**text)
		return cell;
	cell.nr_bytes = utf8_decode(*text, SIZE_MAX, &c);
	*text += cell.nr_bytes ? cell.nr_bytes : 1;
	columns = cell.nr_bytes && !is_control(c) ? wcwidth((wchar_t)c) : -1;
	*marks = columns ? 0 : *marks + 1;
	if (columns < 0 || *marks > MAX_MARKS)
		return (struct cell){ .bytes = bad, .nr_bytes = 1, .columns = 1 };
	cell.columns = (size_t)columns;
	return cell;
}

size_t width_of(const char *text)
{
	size_t columns = 0, marks = 0;
	struct cell cell;

	for (cell = cell_next(&text, &marks); cell.nr_bytes; cell = cell_next(&text, &marks))
		columns += cell.columns;
	return columns;
}

/* Adds the cells that lie wholly in [from, to) columns. Returns the columns added. */
static size_t add_between(struct buf *dst, const char *text, size_t from, size_t to)
{
	size_t at = 0, added = 0, marks = 0;
	struct cell cell;

	for (cell = cell_next(&text, &marks); cell.nr_bytes; cell = cell_next(&text, &marks)) {
		/* A mark belongs to the character before it. */
		if (at >= from && at + cell.columns <= to && (cell.columns || at > from)) {
			buf_add(dst, cell.bytes, cell.nr_bytes);
			added += cell.columns;
		}
		at += cell.columns;
	}
	return added;
}

/* Adds a text that may be cut in the middle: the last `tail` columns show its end. */
static size_t add_cut(struct buf *dst, const char *text, size_t columns, size_t tail)
{
	size_t have = width_of(text), head, added;

	if (!columns || have <= columns)
		return add_between(dst, text, 0, SIZE_MAX);
	head = columns - 1 - tail;
	added = add_between(dst, text, 0, head);
	buf_add_str(dst, ELLIPSIS);
	return added + 1 + add_between(dst, text, have - tail, SIZE_MAX);
}

size_t width_add(struct buf *dst, const char *text, size_t columns)
{
	return add_cut(dst, text, columns, 0);
}

size_t width_add_ends(struct buf *dst, const char *text, size_t columns)
{
	return add_cut(dst, text, columns, columns >= COLUMNS_FOR_ENDS ? columns / 2 : 0);
}

void width_pad(struct buf *dst, const char *text, size_t columns)
{
	size_t added = width_add(dst, text, columns);

	for (; added < columns; added++)
		buf_add_char(dst, ' ');
}
