// SPDX-License-Identifier: Apache-2.0
#include "cmd/gpu_screen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "gpu/job.h"
#include "gpu/recent.h"
#include "gpu/report.h"
#include "tui/screen.h"
#include "tui/view.h"
#include "tui/width.h"

#define PAGE_MAX (16U << 20)

struct gpu_screen {
	struct gpu_recent *recent;
	const char *sort; /* static, from the options */
	size_t top; /* first line shown below the head */
	size_t nr_lines,
		nr_shown; /* lines of the last page below the head; lines of them on the screen */
};

int gpu_screen_open(struct gpu_screen **ret, uint64_t start_ns, const char *sort)
{
	struct gpu_screen *screen = calloc(1, sizeof(*screen));
	int err = screen ? gpu_recent_new(&screen->recent, start_ns) : -ENOMEM;

	width_init();
	if (!err)
		err = screen_open();
	if (err) {
		if (screen)
			gpu_recent_free(screen->recent);
		free(screen);
		return err;
	}
	screen->sort = sort;
	*ret = screen;
	return 0;
}

void gpu_screen_close(struct gpu_screen *screen)
{
	if (!screen)
		return;
	screen_close();
	gpu_recent_free(screen->recent);
	free(screen);
}

/* Makes lines of a text: each newline becomes the end of a line. */
static int lines_split(struct page *page)
{
	size_t nr = 0, i, off = 0;

	for (i = 0; i < page->text.len; i++)
		nr += page->text.data[i] == '\n';
	page->lines = calloc(nr + 2, sizeof(*page->lines)); /* one more for the foot */
	if (!page->lines)
		return -ENOMEM;
	for (i = 0; i < page->text.len; i++) {
		if (page->text.data[i] != '\n')
			continue;
		page->text.data[i] = '\0';
		page->lines[page->nr++] = (struct page_line){ .off = off };
		off = i + 1;
	}
	return 0;
}

/* Keeps the head, and below it the lines that fit, beginning at the scroll position. */
static void scroll(struct gpu_screen *screen, struct page *page, size_t rows)
{
	size_t head = page->nr < GPU_OVERVIEW_HEAD ? page->nr : GPU_OVERVIEW_HEAD;

	screen->nr_lines = page->nr - head;
	screen->nr_shown = rows > head + 1 ? rows - head - 1 : 0;
	if (screen->nr_shown > screen->nr_lines)
		screen->nr_shown = screen->nr_lines;
	if (screen->top > screen->nr_lines - screen->nr_shown)
		screen->top = screen->nr_lines - screen->nr_shown;
	memmove(page->lines + head, page->lines + head + screen->top,
		screen->nr_shown * sizeof(*page->lines));
	page->nr = head + screen->nr_shown;
	if (page->nr)
		page->lines[0].style = PAGE_BOLD;
}

static void foot_add(const struct gpu_screen *screen, struct page *page)
{
	size_t below = screen->nr_lines - screen->nr_shown - screen->top;

	page->lines[page->nr++] =
		(struct page_line){ .off = page->text.len, .style = PAGE_HEADING };
	buf_printf(&page->text,
		   "q quits, s sorts (now by %s), arrows scroll: %zu lines above, %zu below",
		   screen->sort, screen->top, below);
	buf_add_char(&page->text, '\0');
}

/* Cuts lines at the edge: the rest of a line would begin the next one. */
static void lines_cut(struct page *page, size_t columns)
{
	struct buf cut;
	size_t i, off;

	if (buf_error(&page->text))
		return;
	buf_init(&cut, PAGE_MAX);
	for (i = 0; i < page->nr; i++) {
		off = cut.len;
		width_add(&cut, page_text(page, i), columns);
		buf_add_char(&cut, '\0');
		page->lines[i].off = off;
	}
	buf_fini(&page->text);
	page->text = cut;
}

int gpu_screen_draw(struct gpu_screen *screen, struct gpu_job *job,
		    const struct gpu_snapshot *snapshot)
{
	struct page page = { 0 };
	size_t columns, rows;
	int err;

	screen_size(&columns, &rows);
	buf_init(&page.text, PAGE_MAX);
	err = gpu_report_build(&page.text, job, snapshot,
			       &(struct gpu_report_how){ .columns = columns,
							 .screen_rows = rows,
							 .sort = screen->sort,
							 .recent = screen->recent });
	if (!err)
		err = lines_split(&page);
	if (!err) {
		scroll(screen, &page, rows);
		foot_add(screen, &page);
		lines_cut(&page, columns);
		err = buf_error(&page.text);
	}
	if (!err)
		screen_draw(&page);
	page_fini(&page);
	return err;
}

int gpu_screen_show(struct gpu_screen *screen, struct gpu_job *job,
		    const struct gpu_snapshot *snapshot)
{
	int err = gpu_recent_take(screen->recent, snapshot);

	return err ? err : gpu_screen_draw(screen, job, snapshot);
}

static void sort_next(struct gpu_screen *screen)
{
	static const char *const sorts[] = { "calls", "bytes", "blocked" };
	size_t i = 0;

	while (i < 2 && strcmp(sorts[i], screen->sort) != 0)
		i++;
	screen->sort = sorts[(i + 1) % 3];
}

static enum gpu_screen_result key_take(struct gpu_screen *screen, uint32_t key)
{
	size_t page = screen->nr_shown > 1 ? screen->nr_shown - 1 : 1;
	size_t last = screen->nr_lines - screen->nr_shown;

	switch (key) {
	case 'q':
		return GPU_SCREEN_QUIT;
	case 's':
		sort_next(screen);
		break;
	case VIEW_KEY_DOWN:
		screen->top++; /* drawing corrects a position past the end */
		break;
	case VIEW_KEY_UP:
		screen->top -= screen->top > 0;
		break;
	case VIEW_KEY_PAGE_DOWN:
	case ' ':
		screen->top += page;
		break;
	case VIEW_KEY_PAGE_UP:
		screen->top -= screen->top < page ? screen->top : page;
		break;
	case VIEW_KEY_HOME:
		screen->top = 0;
		break;
	case VIEW_KEY_END:
		screen->top = last;
		break;
	default:
		return GPU_SCREEN_NOTHING;
	}
	return GPU_SCREEN_REDRAW;
}

enum gpu_screen_result gpu_screen_keys(struct gpu_screen *screen)
{
	enum gpu_screen_result all = GPU_SCREEN_NOTHING, one;
	uint32_t key;

	while ((key = screen_key())) {
		one = key_take(screen, key);
		if (one > all)
			all = one;
	}
	return all;
}
