/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TUI_VIEW_H
#define BPFPROF_TUI_VIEW_H

/*
 * Room tui: shows a live table on a terminal, and takes its keys.
 *
 * What top shows and how keys change it, without a terminal: keys go in, pages of lines
 * come out.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "tui/table.h"

struct live;
struct view;

enum view_key { /* beside the characters themselves */
		VIEW_KEY_UP = 0x110000, /* above all of Unicode */
		VIEW_KEY_DOWN,
		VIEW_KEY_PAGE_UP,
		VIEW_KEY_PAGE_DOWN,
		VIEW_KEY_HOME,
		VIEW_KEY_END,
		VIEW_KEY_ENTER,
		VIEW_KEY_BACKSPACE,
		VIEW_KEY_ESCAPE,
		VIEW_KEY_OTHER, /* any that means nothing here */
};

enum view_result { VIEW_NOTHING, VIEW_REDRAW, VIEW_RESET, VIEW_QUIT };

/* What the page's head tells beside the table. */
struct view_status {
	const char *what; /* "'train.py' (pid 42)", "the whole machine" */
	uint32_t hz;
	uint64_t interval_ns; /* the last one; 0: none has ended yet */
	uint64_t nr_threads; /* of the processes watched */
	uint64_t nr_processes; /* that ran */
	uint64_t lost; /* samples since the start */
	const char *lost_reasons; /* "ring_full 3, tick_skipped 1", or "" */
	uint64_t truncated, unmerged; /* stacks since the start */
	uint64_t dropped; /* rows that there was no room for */
	const char *message; /* NULL or what happened: "pid 42 has exited" */
	bool gpu; /* calls are watched */
	bool wall; /* all time of threads, waits too, is counted */
	const struct table_calls *calls; /* the most blocked first */
	size_t nr_calls;
	const char *dump_pids; /* "-p 42", or "" where there is no process to name */
};

enum page_style { PAGE_PLAIN, PAGE_BOLD, PAGE_HEADING, PAGE_SELECTED, PAGE_MESSAGE };

struct page_line {
	size_t off; /* of its text in page.text, which ends with a NUL */
	enum page_style style;
};

struct page {
	struct buf text;
	struct page_line *lines;
	size_t nr, cap;
};

struct view_options {
	bool native, kernel;
	bool processes; /* several may be shown: a column for them, and Enter */
};

int view_new(struct view **ret, const struct view_options *options); /* 0 or -ENOMEM */
void view_free(struct view *view);

enum view_result view_key(struct view *view, const struct live *live, uint32_t key);

/* The process that is looked into, as an index for live_use_get(); LIVE_ALL: none. */
uint32_t view_process(const struct view *view, const struct live *live);
/* Its pid, 0 = none; stays when it is gone. */
uint32_t view_pid(const struct view *view);
/* From now on there is more than one process. */
void view_show_processes(struct view *view);

/*
 * The page for a terminal of that size; 0 = as long or as wide as it takes, without what only
 * helps on a screen. 0 or -ENOMEM. To be freed by page_fini().
 */
int view_page(struct view *view, const struct live *live, const struct view_status *status,
	      size_t columns, size_t rows, struct page *ret);
const char *page_text(const struct page *page, size_t line);
void page_fini(struct page *page);

#endif
