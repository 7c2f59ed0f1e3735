// SPDX-License-Identifier: Apache-2.0
#include "tui/page.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/vec.h"
#include "tui/width.h"

static void page_line_at(struct page *page, enum page_style style, size_t off)
{
	buf_add(&page->text, "", 1);
	if (vec_grow(page->lines, page->nr + 1, page->cap, VEC_BOUNDED)) {
		page->text.error = -ENOMEM;
		return;
	}
	page->lines[page->nr++] = (struct page_line){ .off = off, .style = style };
}

void page_add(struct page *page, enum page_style style, size_t columns, const char *fmt, ...)
{
	size_t off = page->text.len;
	char *text;
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (len < 0) {
		page->text.error = -ENOMEM;
		return;
	}
	width_add(&page->text, text, columns);
	free(text);
	page_line_at(page, style, off);
}

const char *page_text(const struct page *page, size_t line)
{
	return page->text.data + page->lines[line].off;
}

void page_fini(struct page *page)
{
	buf_fini(&page->text);
	free(page->lines);
	*page = (struct page){ 0 };
}
