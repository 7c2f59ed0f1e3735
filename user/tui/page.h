/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TUI_PAGE_H
#define BPFPROF_TUI_PAGE_H

/* Lines of text for a screen. Names that targets chose are made safe, and cut to the width of the screen. */

#include <stddef.h>

#include "base/buf.h"

enum page_style { PAGE_PLAIN, PAGE_BOLD, PAGE_HEADING, PAGE_SELECTED, PAGE_MESSAGE };

struct page_line {
	size_t off; /* of its text, with a NUL, in page.text */
	enum page_style style;
};

struct page {
	struct buf text;
	struct page_line *lines;
	size_t nr, cap;
};

/*
 * Adds a line of untrusted text, which is cut if it is wider than that many columns (0: no limit). An error
 * stays in page->text, which the owner has initialized with the limit of the page.
 */
void page_add(struct page *page, enum page_style style, size_t columns, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
const char *page_text(const struct page *page, size_t line);
void page_fini(struct page *page);

#endif
