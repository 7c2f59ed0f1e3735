// SPDX-License-Identifier: Apache-2.0
#include "tui/view.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "profile/live.h"

#define FILTER_MAX 64
#define PAGE_MAX_BYTES (16U << 20)
#define CALLS_LINES 3 /* lines on a screen */
#define CALLS_LINES_TEXT 10 /* lines of output without a screen */
#define HEAD_ROWS 5 /* rows above the table's rows, including its heading */

struct view {
	struct table_options table;
	bool processes;
	bool help;
	bool editing; /* the user edits the filter */
	char filter[FILTER_MAX], old_filter[FILTER_MAX];
	uint32_t pid; /* the process that the user looks into */
	uint64_t start_ns;
	bool selecting; /* a row is marked */
	size_t selected, first; /* rows of the table: the marked one; the first one on the screen */
	size_t nr_rows, page_rows; /* numbers of the last page */
};

static const char *const help_lines[] = {
	"1       sort by %Own: time in the function itself, in the last interval",
	"2       sort by %Total: time in it and in what it called, in the last interval",
	"3       sort by OwnTime: the same as 1 since the start",
	"4       sort by TotalTime: the same as 2 since the start",
	"L       lines or whole functions",
	"n       native frames in Python programs on or off",
	"k       kernel frames on or off",
	"/       show only what holds a text; Enter keeps it, Esc drops it",
	"R       reset: everything since the start is 0 again",
	"arrows  mark a row; PgUp, PgDn, Home, End move by pages",
	"Enter   look into the marked row's process, Backspace goes back",
	"?       this help, x or ? closes it",
	"q       quit",
	"",
	"100% is one CPU core; a sleeping thread uses none and is not shown, but with --wall:",
	"100% is then one thread all the time, [runnable] a thread that waits for a CPU,",
	"[parked] those that have nothing to do.",
	"Launch/s and %Blocked (--gpu) are of the row's process, in the last interval.",
};

int view_new(struct view **ret, const struct view_options *options)
{
	struct view *view = calloc(1, sizeof(*view));

	if (!view)
		return -ENOMEM;
	view->table.view =
		(options->native ? LIVE_NATIVE : 0U) | (options->kernel ? LIVE_KERNEL : 0U);
	view->table.lines = true;
	view->table.process = LIVE_ALL;
	view->table.filter = view->filter;
	view->processes = options->processes;
	*ret = view;
	return 0;
}

void view_free(struct view *view)
{
	free(view);
}

void view_show_processes(struct view *view)
{
	view->processes = true;
}

uint32_t view_pid(const struct view *view)
{
	return view->pid;
}

uint32_t view_process(const struct view *view, const struct live *live)
{
	const struct live_process *processes;
	size_t nr, i;

	if (!view->pid)
		return LIVE_ALL;
	processes = live_processes(live, &nr);
	for (i = 0; i < nr; i++)
		if (processes[i].pid == view->pid && processes[i].start_ns == view->start_ns)
			return (uint32_t)i;
	return (uint32_t)nr; /* the process was evicted: it has no rows */
}

/* Does a process have a pod? Then the page has a column for it. */
static bool has_pods(const struct live *live)
{
	const struct live_process *processes;
	size_t nr, i;

	processes = live_processes(live, &nr);
	for (i = 0; i < nr; i++)
		if (processes[i].pid && processes[i].pod[0])
			return true;
	return false;
}

static struct table_options table_now(const struct view *view, const struct live *live)
{
	struct table_options table = view->table;

	table.process = view_process(view, live);
	table.process_column = view->processes && !view->pid;
	table.pod_column = table.process_column && has_pods(live);
	return table;
}

/* Functions for keys. */

static void look_into(struct view *view, const struct live *live)
{
	struct table_options table = table_now(view, live);
	__cleanup(free_mem) const struct live_row **rows = NULL;
	const struct live_process *processes;
	size_t nr, nr_processes;

	if (!table.process_column)
		return;
	rows = table_rows(live, &table, &nr);
	processes = live_processes(live, &nr_processes);
	if (!rows || view->selected >= nr || rows[view->selected]->process >= nr_processes)
		return;
	view->pid = processes[rows[view->selected]->process].pid;
	view->start_ns = processes[rows[view->selected]->process].start_ns;
	view->selected = view->first = 0;
	view->selecting = false;
}

static void look_back(struct view *view)
{
	view->pid = 0;
	view->selected = view->first = 0;
}

/* Marks a row `by` farther down; the first press only marks. */
static void mark_move(struct view *view, ptrdiff_t by)
{
	size_t step = (size_t)(by < 0 ? -by : by);

	if (!view->selecting) {
		view->selecting = true;
		if (step == 1)
			return;
	}
	if (by < 0)
		view->selected -= step < view->selected ? step : view->selected;
	else
		view->selected += step;
	/* The page corrects a position past the end. */
}

static enum view_result filter_key(struct view *view, uint32_t key)
{
	size_t len = strlen(view->filter);

	switch (key) {
	case VIEW_KEY_ENTER:
		view->editing = false;
		return VIEW_REDRAW;
	case VIEW_KEY_ESCAPE:
		view->editing = false;
		view->filter[0] = 0;
		return VIEW_REDRAW;
	case VIEW_KEY_BACKSPACE:
		if (!len)
			view->editing = false;
		while (len && utf8_continues(view->filter[--len]))
			;
		view->filter[len] = 0;
		return VIEW_REDRAW;
	default:
		break;
	}
	/* The bytes of an UTF-8 character come one by one. */
	if (key < ' ' || key == 0x7f || key > 0xff || len + 2 > sizeof(view->filter))
		return VIEW_NOTHING;
	view->filter[len] = (char)key;
	view->filter[len + 1] = 0;
	view->selected = view->first = 0;
	return VIEW_REDRAW;
}

static enum view_result move_key(struct view *view, const struct live *live, uint32_t key)
{
	ptrdiff_t page = view->page_rows > 1 ? (ptrdiff_t)view->page_rows : 1;

	switch (key) {
	case VIEW_KEY_UP:
		mark_move(view, -1);
		return VIEW_REDRAW;
	case VIEW_KEY_DOWN:
		mark_move(view, 1);
		return VIEW_REDRAW;
	case VIEW_KEY_PAGE_UP:
		mark_move(view, -page);
		return VIEW_REDRAW;
	case VIEW_KEY_PAGE_DOWN:
		mark_move(view, page);
		return VIEW_REDRAW;
	case VIEW_KEY_HOME:
		view->selected = 0;
		return VIEW_REDRAW;
	case VIEW_KEY_END:
		view->selecting = true;
		view->selected = view->nr_rows ? view->nr_rows - 1 : 0;
		return VIEW_REDRAW;
	case VIEW_KEY_ENTER:
		look_into(view, live);
		return VIEW_REDRAW;
	case VIEW_KEY_BACKSPACE:
	case VIEW_KEY_ESCAPE:
		look_back(view);
		return VIEW_REDRAW;
	default:
		return VIEW_NOTHING;
	}
}

enum view_result view_key(struct view *view, const struct live *live, uint32_t key)
{
	if (view->editing)
		return filter_key(view, key);
	switch (key) {
	case 'q':
	case 'Q':
		return VIEW_QUIT;
	case '?':
		view->help = !view->help;
		return VIEW_REDRAW;
	case 'x':
	case 'X':
		view->help = false;
		return VIEW_REDRAW;
	case '1':
	case '2':
	case '3':
	case '4':
		view->table.sort = (enum table_sort)(key - '1');
		return VIEW_REDRAW;
	case 'l':
	case 'L':
		view->table.lines = !view->table.lines;
		return VIEW_REDRAW;
	case 'n':
	case 'N':
		view->table.view ^= LIVE_NATIVE;
		return VIEW_REDRAW;
	case 'k':
	case 'K':
		view->table.view ^= LIVE_KERNEL;
		return VIEW_REDRAW;
	case 'r':
	case 'R':
		view->selected = view->first = 0;
		return VIEW_RESET;
	case '/':
		view->editing = true;
		view->help = false;
		return VIEW_REDRAW;
	default:
		break;
	}
	if (view->help) {
		view->help = key != VIEW_KEY_ESCAPE;
		return VIEW_REDRAW;
	}
	return move_key(view, live, key);
}

/* Functions for pages. */

static double percent(uint64_t ns, uint64_t interval_ns)
{
	return interval_ns ? 100.0 * (double)ns / (double)interval_ns : 0;
}

static void head_add(struct view *view, const struct live *live, const struct view_status *status,
		     const struct table_options *table, struct page *page)
{
	struct live_use now, ever;
	struct buf more;

	live_use_get(live, table->process, &now, &ever);
	buf_init(&more, 4096);
	buf_printf(&more, "Total Samples %" PRIu64 ", Lost %" PRIu64, ever.samples, status->lost);
	if (status->lost && status->lost_reasons[0])
		buf_printf(&more, " (%s)", status->lost_reasons);
	buf_printf(&more, ", Truncated %" PRIu64 ", Unmerged %" PRIu64, status->truncated,
		   status->unmerged);
	if (status->dropped)
		buf_printf(&more, ", Dropped Rows %" PRIu64, status->dropped);
	page_add(page, PAGE_BOLD, table->columns, "bpfprof top: %s, %u Hz", status->what,
		 status->hz);
	page_add(page, PAGE_PLAIN, table->columns, "%s", buf_error(&more) ? "?" : more.data);
	buf_reset(&more);
	buf_printf(&more, "GIL: %.2f%%, Active: %.2f%%, ", percent(now.gil_ns, status->interval_ns),
		   percent(now.cpu_ns, status->interval_ns));
	if (status->wall)
		buf_printf(&more, "Waiting: %.2f%%, ",
			   percent(now.ns - now.cpu_ns, status->interval_ns));
	buf_printf(&more, "Threads: %" PRIu64, status->nr_threads);
	if (table->process_column)
		buf_printf(&more, ", Processes: %" PRIu64, status->nr_processes);
	if (table->view & LIVE_NATIVE)
		buf_add_str(&more, ", native");
	if (table->view & LIVE_KERNEL)
		buf_add_str(&more, ", kernel");
	page_add(page, PAGE_PLAIN, table->columns, "%s", buf_error(&more) ? "?" : more.data);
	buf_fini(&more);
	if (status->message)
		page_add(page, PAGE_MESSAGE, table->columns, "%s", status->message);
	else if (view->filter[0] && !view->editing)
		page_add(page, PAGE_BOLD, table->columns, "Filter: %s", view->filter);
	else
		page_add(page, PAGE_PLAIN, table->columns, "%s", "");
}

/*
 * Adds a line for each process that makes calls: one that waits for its GPU has no row in the
 * table.
 */
static void calls_add(const struct view_status *status, const struct table_options *table,
		      struct page *page)
{
	size_t i, shown = table->columns ? CALLS_LINES : CALLS_LINES_TEXT;

	for (i = 0; i < status->nr_calls && i < shown; i++)
		page_add(page, PAGE_PLAIN, table->columns,
			 "GPU: %u %s: %.0f launches/s, %.2f%% blocked", status->calls[i].pid,
			 status->calls[i].name, status->calls[i].launches,
			 status->calls[i].blocked);
	if (i < status->nr_calls)
		page_add(page, PAGE_PLAIN, table->columns, "GPU: %zu more processes",
			 status->nr_calls - i);
	if (!status->nr_calls && status->interval_ns)
		page_add(page, PAGE_PLAIN, table->columns, "%s",
			 "GPU: no call of CUDA or NCCL has begun so far; older ones: bpfprof gpu");
}

/* Adds one line, or two if it is too long: the advice must not be cut off. */
static void idle_add(const struct live *live, const struct view_status *status,
		     const struct table_options *table, struct page *page)
{
	struct live_use now, ever;
	char first[128], second[160] = "";
	bool both;

	live_use_get(live, table->process, &now, &ever);
	if (now.samples || !status->interval_ns)
		return;
	snprintf(first, sizeof(first), "0 %ssamples in %.1f s", status->wall ? "" : "on-CPU ",
		 (double)status->interval_ns / 1e9);
	if (status->dump_pids[0])
		snprintf(second, sizeof(second),
			 "%" PRIu64 " thread%s: bpfprof dump %s shows where", status->nr_threads,
			 status->nr_threads == 1 ? " sleeps" : "s sleep", status->dump_pids);
	else if (!status->nr_threads)
		snprintf(second, sizeof(second), "nothing ran that matches");
	both = second[0] &&
	       (!table->columns || strlen(first) + 2 + strlen(second) <= table->columns);
	page_add(page, PAGE_MESSAGE, table->columns, "%s%s%s", first, both ? "; " : "",
		 both ? second : "");
	if (second[0] && !both)
		page_add(page, PAGE_MESSAGE, table->columns, "%s", second);
}

static void heading_add(const struct table_options *table, struct page *page)
{
	struct buf line;

	buf_init(&line, 4096);
	table_heading(&line, table);
	page_add(page, PAGE_HEADING, table->columns, "%s", buf_error(&line) ? "?" : line.data);
	buf_fini(&line);
}

/* Keeps the marked row and the screen within the rows; space: rows that fit. */
static void scroll(struct view *view, size_t nr, size_t space)
{
	if (view->selected >= nr)
		view->selected = nr ? nr - 1 : 0;
	if (view->selected < view->first)
		view->first = view->selected;
	if (space && view->selected >= view->first + space)
		view->first = view->selected - space + 1;
	if (view->first + space > nr)
		view->first = nr > space ? nr - space : 0;
	view->nr_rows = nr;
	view->page_rows = space;
}

static int rows_add(struct view *view, const struct live *live, const struct table_options *table,
		    size_t space, struct page *page)
{
	__cleanup(free_mem) const struct live_row **rows = NULL;
	__cleanup(buf_fini) struct buf line;
	size_t nr, i, end;
	bool marked;

	buf_init(&line, PAGE_MAX_BYTES);
	rows = table_rows(live, table, &nr);
	if (!rows)
		return -ENOMEM;
	scroll(view, nr, space == SIZE_MAX ? nr : space);
	end = space < nr - view->first ? view->first + space : nr;
	for (i = view->first; i < end; i++) {
		marked = i == view->selected && (view->selecting || table->process_column) &&
			 table->columns;
		buf_reset(&line);
		table_row(&line, live, rows[i], table);
		if (buf_error(&line))
			return buf_error(&line);
		page_add(page, marked ? PAGE_SELECTED : PAGE_PLAIN, table->columns, "%s",
			 line.data);
	}
	return 0;
}

static void help_add(const struct table_options *table, size_t rows, struct page *page)
{
	size_t i, nr = sizeof(help_lines) / sizeof(help_lines[0]);

	page_add(page, PAGE_HEADING, table->columns, "%s", "Keys");
	for (i = 0; i < nr && page->nr + 1 < rows; i++)
		page_add(page, PAGE_PLAIN, table->columns, "%s", help_lines[i]);
}

static void foot_add(const struct view *view, const struct table_options *table, struct page *page)
{
	if (view->editing)
		page_add(page, PAGE_BOLD, table->columns, "/%s", view->filter);
	else if (view->pid)
		page_add(page, PAGE_PLAIN, table->columns, "%s",
			 "q quits, ? helps, Backspace shows all processes");
	else if (table->process_column)
		page_add(page, PAGE_PLAIN, table->columns, "%s",
			 "q quits, ? helps, Enter looks into a process");
	else
		page_add(page, PAGE_PLAIN, table->columns, "%s", "q quits, ? helps");
}

int view_page(struct view *view, const struct live *live, const struct view_status *status,
	      size_t columns, size_t rows, struct page *ret)
{
	struct table_options table = table_now(view, live);
	struct page page = { 0 };
	size_t space = SIZE_MAX;
	int err = 0;

	buf_init(&page.text, PAGE_MAX_BYTES);
	table.columns = columns;
	table.interval_ns = status->interval_ns;
	table.gpu = status->gpu;
	table.calls = status->calls;
	table.nr_calls = status->nr_calls;
	/* On a screen of a few rows the rows of the table are the most useful. */
	if (!rows || rows > HEAD_ROWS + 2)
		head_add(view, live, status, &table, &page);
	if (status->gpu && (!rows || rows > HEAD_ROWS + CALLS_LINES + 4))
		calls_add(status, &table, &page);
	if (view->help && rows) {
		help_add(&table, rows, &page);
	} else {
		heading_add(&table, &page);
		idle_add(live, status, &table, &page);
		if (rows)
			space = rows > page.nr + 1 ? rows - page.nr - 1 : 0;
		err = rows_add(view, live, &table, space, &page);
	}
	while (!err && rows && page.nr + 1 < rows)
		page_add(&page, PAGE_PLAIN, 0, "%s", "");
	if (!err && rows && page.nr < rows)
		foot_add(view, &table, &page);
	if (rows && page.nr > rows)
		page.nr = rows;
	if (!err)
		err = buf_error(&page.text);
	if (err) {
		page_fini(&page);
		return err;
	}
	*ret = page;
	return 0;
}
