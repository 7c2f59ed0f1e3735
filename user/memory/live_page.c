// SPDX-License-Identifier: Apache-2.0
#include "memory/live_page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strtab.h"
#include "base/time.h"
#include "memory/live_holders.h"
#include "memory/table.h"
#include "tui/page.h"

#define PAGE_BYTES (1U << 20)
#define LINE_BYTES 4096
#define SLOPE_MIN_NS (10 * NS_PER_SECOND) /* a shorter time says nothing */
#define SLOPE_MIN_BYTES (1 << 20) /* per minute */
#define MOST_MINUTES (7 * 24 * 60)

/* A row, with what sorts it. */
struct live_row {
	const struct live_holder *holder;
	const char *name;
	int64_t change;
};

static int by_bytes(const void *a, const void *b)
{
	const struct live_row *x = a, *y = b;

	if (x->holder->bytes != y->holder->bytes)
		return x->holder->bytes > y->holder->bytes ? -1 : 1;
	return strcmp(x->name, y->name);
}

static int by_change_most(const void *a, const void *b)
{
	const struct live_row *x = a, *y = b;

	if (llabs(x->change) != llabs(y->change))
		return llabs(x->change) > llabs(y->change) ? -1 : 1;
	return by_bytes(a, b);
}

/* Adds "1.20 GiB". */
static void amount(struct buf *dst, uint64_t bytes)
{
	struct buf text;

	buf_init(&text, LINE_BYTES);
	table_amount(&text, (int64_t)bytes);
	if (!buf_error(&text))
		buf_add_str(dst, text.data + strspn(text.data, " "));
	while (dst->len && dst->data[dst->len - 1] == ' ')
		dst->data[--dst->len] = '\0';
	buf_fini(&text);
}

static void line_add(struct page *page, enum page_style style, size_t columns, struct buf *line)
{
	page_add(page, style, columns, "%s", buf_error(line) ? "?" : line->len ? line->data : "");
	buf_reset(line);
}

static void limit_words(struct buf *dst, const struct live_holders *live)
{
	if (!live->nr_groups) {
		buf_add_str(dst, "No limit of a cgroup");
		return;
	}
	buf_add_str(dst,
		    live->nr_groups > 1 ? "Nearest limit of a cgroup " : "Limit of the cgroup ");
	amount(dst, live->limit_bytes);
	buf_add_str(dst, ", used ");
	amount(dst, live->used_bytes);
	buf_printf(dst, " (%.0f%%)", 100 * (double)live->used_bytes / (double)live->limit_bytes);
}

static void growth_words(struct buf *dst, const struct live_holders *live)
{
	uint64_t ns;
	double slope = live_holders_slope(live, &ns);

	buf_add_str(dst, "Growth ");
	if (!ns) {
		buf_add_str(dst, "not known yet");
		return;
	}
	buf_add_str(dst, slope < 0 ? "-" : "+");
	amount(dst, (uint64_t)(slope < 0 ? -slope : slope));
	buf_printf(dst, " per minute, over %.0f s", (double)ns / 1e9);
}

/* Nothing if it does not grow, or if some of what grows has another limit, or none. */
static void slope_words(struct buf *dst, const struct live_holders *live)
{
	uint64_t ns;
	double slope = live_holders_slope(live, &ns), minutes;

	if (!live->one_group || ns < SLOPE_MIN_NS || slope < SLOPE_MIN_BYTES)
		return;
	minutes = (double)(live->limit_bytes - live->used_bytes) / slope;
	if (minutes > MOST_MINUTES)
		return;
	buf_add_str(dst, "At this slope the limit is reached in ");
	if (minutes < 2)
		buf_printf(dst, "%.0f s.", 60 * minutes);
	else if (minutes < 120)
		buf_printf(dst, "%.0f minutes.", minutes);
	else
		buf_printf(dst, "%.0f hours.", minutes / 60);
}

static void head_add(const struct live_holders *live, const char *what, size_t columns,
		     struct page *page)
{
	__cleanup(buf_fini) struct buf line = { .max = LINE_BYTES };

	page_add(page, PAGE_BOLD, columns, "bpfprof memory: %s", what);
	amount(&line, live->total_bytes);
	buf_add_str(&line, " anonymous, ");
	amount(&line, live->file_bytes);
	buf_add_str(&line, " of files, ");
	amount(&line, live->shared_bytes);
	buf_add_str(&line, " shared");
	if (live->swap_bytes) {
		buf_add_str(&line, ", ");
		amount(&line, live->swap_bytes);
		buf_add_str(&line, " in swap");
	}
	buf_printf(&line, "; %zu process%s", live->nr_processes,
		   live->nr_processes == 1 ? "" : "es");
	line_add(page, PAGE_PLAIN, columns, &line);
	limit_words(&line, live);
	line_add(page, PAGE_PLAIN, columns, &line);
	growth_words(&line, live);
	line_add(page, PAGE_PLAIN, columns, &line);
	slope_words(&line, live);
	line_add(page, PAGE_MESSAGE, columns, &line);
}

static void row_add(const struct live_row *row, uint64_t total, size_t columns, struct page *page)
{
	__cleanup(buf_fini) struct buf line = { .max = LINE_BYTES };

	table_amount(&line, row->holder->bytes);
	buf_printf(&line, " %5.1f%% ",
		   total ? 100 * (double)row->holder->bytes / (double)total : 0.0);
	table_amount_signed(&line, row->change, true);
	buf_add_str(&line, "  ");
	buf_add_str(&line, row->name);
	line_add(page, PAGE_PLAIN, columns, &line);
}

static int rows_add(const struct live_holders *live, bool by_change, size_t columns, size_t space,
		    struct page *page)
{
	__cleanup(free_mem) struct live_row *rows = calloc(live->nr + 1, sizeof(*rows));
	const struct live_holder *holder;
	size_t nr = 0, i;

	if (!rows)
		return -ENOMEM;
	for (i = 0; i < live->nr; i++) {
		holder = &live->list[i];
		rows[nr] = (struct live_row){
			.holder = holder,
			.name = strtab_get(live->names, holder->name),
			.change = holder->bytes - live_holder_before(live, holder),
		};
		nr += holder->bytes || rows[nr].change;
	}
	qsort(rows, nr, sizeof(*rows), by_change ? by_change_most : by_bytes);
	for (i = 0; i < nr && i < space; i++)
		row_add(&rows[i], live->total_bytes + live->swap_bytes, columns, page);
	return 0;
}

int live_page(const struct live_holders *live, const char *what, bool by_change, size_t columns,
	      size_t rows, struct page *ret)
{
	struct page page = { .text = { .max = PAGE_BYTES } };
	int err;

	head_add(live, what, columns, &page);
	page_add(&page, PAGE_HEADING, columns, "%s", "     Held  Share      Change  Function");
	err = rows_add(live, by_change, columns, rows > page.nr + 1 ? rows - page.nr - 1 : 0,
		       &page);
	while (!err && page.nr + 1 < rows)
		page_add(&page, PAGE_PLAIN, columns, "%s", "");
	page_add(&page, PAGE_PLAIN, columns, "%s",
		 by_change ? "q quits, h sorts by what is held" : "q quits, g sorts by change");
	if (page.nr > rows)
		page.nr = rows;
	err = err ?: buf_error(&page.text);
	if (err)
		page_fini(&page);
	else
		*ret = page;
	return err;
}
