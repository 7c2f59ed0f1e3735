/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TUI_VIEW_H
#define BPFPROF_TUI_VIEW_H

/*
 * Room tui: shows a live table on a terminal, and takes its keys.
 *
 * This file: the state of top, without a terminal. It takes keys and makes pages of lines.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tui/page.h"
#include "tui/table.h"

struct live;
struct view;

enum view_key { /* besides characters */
		VIEW_KEY_UP = 0x110000, /* above all of Unicode */
		VIEW_KEY_DOWN,
		VIEW_KEY_PAGE_UP,
		VIEW_KEY_PAGE_DOWN,
		VIEW_KEY_HOME,
		VIEW_KEY_END,
		VIEW_KEY_ENTER,
		VIEW_KEY_BACKSPACE,
		VIEW_KEY_ESCAPE,
		VIEW_KEY_OTHER, /* any key without a meaning */
};

enum view_result { VIEW_NOTHING, VIEW_REDRAW, VIEW_RESET, VIEW_QUIT };

/* The facts in the head of the page. */
struct view_status {
	const char *what; /* "'train.py' (pid 42)", "the whole machine" */
	uint32_t hz;
	uint64_t interval_ns; /* length of the last one, 0: none has ended yet */
	uint64_t nr_threads; /* of the processes watched */
	uint64_t nr_processes; /* that ran */
	uint64_t lost; /* samples since the start */
	const char *lost_reasons; /* "ring_full 3, tick_skipped 1", or "" */
	uint64_t truncated, unmerged; /* stacks since the start */
	uint64_t dropped; /* rows for which there was no room */
	const char *message; /* an event: "pid 42 has exited"; or NULL */
	bool gpu; /* calls are watched */
	bool wall; /* all time of threads counts, waits too */
	const struct table_calls *calls; /* the most blocked first */
	size_t nr_calls;
	const char *dump_pids; /* "-p 42", or "": there is no process to name */
};

struct view_options {
	bool native, kernel;
	bool processes; /* there may be several: a column for them, and Enter */
};

int view_new(struct view **ret, const struct view_options *options); /* 0 or -ENOMEM */
void view_free(struct view *view);

enum view_result view_key(struct view *view, const struct live *live, uint32_t key);

/* The process that the page shows, as an index for live_use_get(); LIVE_ALL: all. */
uint32_t view_process(const struct view *view, const struct live *live);
/* Its pid, 0: all; the pid stays after it has exited. */
uint32_t view_pid(const struct view *view);
/* There is more than one process from now on. */
void view_show_processes(struct view *view);

/*
 * Makes the page for a terminal of that size; 0: as long or as wide as needed, without lines that only a
 * screen needs. 0, then page_fini() is due, or -ENOMEM.
 */
int view_page(struct view *view, const struct live *live, const struct view_status *status,
	      size_t columns, size_t rows, struct page *ret);

#endif
