// SPDX-License-Identifier: Apache-2.0
/*
 * Writes the first page of the live table: a head with a fixed number of lines, then sections with
 * as many rows as the screen has room for. The worst rows come first. The tables below have the
 * other rows.
 */
#include "gpu/report_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "profile/stats.h"

#define RATE_WIDTH 10
#define PENDING_SECONDS 5.0 /* a shorter time is usual if no call asks for completions */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* The rate since the last snapshot, per second. */
static double recent_rate(const struct gpu_writer *w, uint64_t count)
{
	double seconds = gpu_seconds(w->report->recent_seconds);

	return seconds > 0 ? (double)count / seconds : 0;
}

/* The head. */

static void add_title(struct gpu_writer *w, size_t nr_stuck)
{
	const struct gpu_report *report = w->report;
	char line[256];
	size_t len;

	if (*report->host)
		len = (size_t)snprintf(line, sizeof(line), "GPU calls on %.64s, ", report->host);
	else
		len = (size_t)snprintf(line, sizeof(line), "GPU calls, ");
	snprintf(line + len, sizeof(line) - len, "%.1f s: %zu process%s, %zu call%s not come back",
		 gpu_seconds(report->seconds), report->nr_processes,
		 report->nr_processes == 1 ? "" : "es", nr_stuck,
		 nr_stuck == 1 ? " has" : "s have");
	gpu_add_rest(w, line);
}

static void add_totals(struct gpu_writer *w)
{
	uint64_t launches = 0, blocked = 0, live = 0;
	const struct gpu_report_process *process;
	char text[UNITS_TEXT];
	size_t i;

	for (i = 0; i < w->report->nr_processes; i++) {
		process = &w->report->processes[i];
		launches += process->recent_launches;
		blocked += process->recent_blocked_ns;
		live += process->memory.live_bytes;
	}
	gpu_add_rest_printf(w,
			    "Now: %.0f launches/s, blocked %.0f%% of one thread, %s of memory "
			    "live",
			    recent_rate(w, launches), recent_rate(w, blocked) / 1e7,
			    units_bytes(text, live));
}

static void add_hooked(struct gpu_writer *w)
{
	const struct gpu_report *report = w->report;
	const char *problem = NULL;
	size_t functions = 0;
	size_t hooked = 0, i;

	for (i = 0; i < report->nr_libraries; i++) {
		functions += report->libraries[i].functions;
		hooked += !report->libraries[i].problem;
		if (report->libraries[i].problem)
			problem = report->libraries[i].problem;
	}
	if (!report->nr_libraries)
		gpu_add_rest(w, "No process has libcuda.so.1 or libnccl mapped: waiting for one");
	else if (problem)
		gpu_add_rest_printf(w, "Hooked: %zu functions of %zu librar%s; %zu not (%s)",
				    functions, hooked, hooked == 1 ? "y" : "ies",
				    report->nr_libraries - hooked, problem);
	else
		gpu_add_rest_printf(w, "Hooked: %zu functions of %zu librar%s", functions, hooked,
				    hooked == 1 ? "y" : "ies");
}

/* Writes all losses that fit in one line; the end of the table has all of them. */
static void add_lost(struct gpu_writer *w)
{
	const struct gpu_report *report = w->report;
	struct buf line;
	size_t nr = 0, i;
	char *c;

	buf_init(&line, 4096);
	buf_printf(&line,
		   "Stacks: %" PRIu64 " taken, %" PRIu64 " skipped, over %u per second and thread",
		   report->stacks_taken, report->stacks_skipped, report->stacks_hz);
	gpu_add_rest(w, buf_error(&line) ? "?" : line.data);
	buf_reset(&line);
	for (i = 0; i < report->nr_lost; i++)
		if (report->lost[i].count)
			buf_printf(&line, "%s%" PRIu64 " %s",
				   nr++ ? ", " : "Lost: ", report->lost[i].count,
				   report->lost[i].name);
	if (!nr)
		buf_add_str(&line, "Lost: nothing");
	for (c = line.data; c && *c; c++)
		if (*c == '_')
			*c = ' ';
	gpu_add_rest(w, buf_error(&line) ? "?" : line.data);
	buf_fini(&line);
}

/* Sections. */

/* Lines that are left, and sections that still need lines. */
struct room {
	size_t lines, sections;
};

/*
 * The rows that a section of nr rows shows. Its share of lines includes its head and a blank
 * line.
 */
static size_t room_take(struct room *room, size_t nr)
{
	size_t share = room->lines / (room->sections ? room->sections : 1), rows;

	room->sections -= room->sections > 0;
	rows = share > 3 ? share - 2 : 1;
	if (nr > rows)
		rows = rows > 1 ? rows - 1 : 1; /* one line is for the number of the others */
	rows = least(rows, nr);
	room->lines -= least(room->lines, 2 + rows + (rows < nr));
	return rows;
}

static void add_more(struct gpu_writer *w, size_t nr, size_t shown, const char *what)
{
	if (nr > shown)
		gpu_add_rest_printf(w, "    ... %zu more %s", nr - shown, what);
}

/* Calls that have not returned and collectives that are not complete, of all processes. */
struct stuck {
	const struct gpu_report_process *process;
	const struct gpu_report_open *open; /* or: */
	const struct gpu_report_completion *pending;
	double seconds;
};

static int compare_stuck(const void *a, const void *b)
{
	const struct stuck *x = a, *y = b;

	return GPU_ORDER(y->seconds, x->seconds) ?: GPU_ORDER(x->process, y->process);
}

static size_t stuck_fill(const struct gpu_report *report, struct stuck *stuck)
{
	const struct gpu_report_process *process;
	size_t nr = 0, i, k;

	for (i = 0; i < report->nr_processes; i++) {
		process = &report->processes[i];
		for (k = 0; k < process->nr_open; k++)
			if (gpu_is_hung(&process->open[k]))
				stuck[nr++] = (struct stuck){ process, &process->open[k], NULL,
							      process->open[k].seconds };
		for (k = 0; k < process->nr_completions; k++)
			if (process->completions[k].pending &&
			    process->completions[k].pending_seconds >= PENDING_SECONDS)
				stuck[nr++] =
					(struct stuck){ process, NULL, &process->completions[k],
							process->completions[k].pending_seconds };
	}
	return nr;
}

/* The innermost Python frame, as it has a file and a line; without one the caller. */
static const char *where_of(const struct gpu_report_open *open)
{
	size_t i;

	for (i = 1; i < open->nr_stack; i++)
		if (strstr(open->stack[i], ".py:"))
			return open->stack[i];
	return open->nr_stack > 1 ? open->stack[1] : "";
}

static void add_stuck_row(struct gpu_writer *w, const struct stuck *stuck)
{
	const struct gpu_report_completion *pending = stuck->pending;
	const struct gpu_report_open *open = stuck->open;
	const char *where = open ? where_of(open) : "";
	char text[UNITS_TEXT], bytes[UNITS_TEXT];

	buf_printf(w->dst, "  %s%*s  ", open && open->since_before ? ">" : " ", GPU_TIME_WIDTH,
		   units_ns(text, gpu_ns(stuck->seconds)));
	if (pending)
		gpu_add_rest_printf(w, "pid %u: %s %s has returned, not seen complete",
				    stuck->process->pid, pending->operation,
				    units_bytes(bytes, pending->bytes));
	else
		gpu_add_rest_printf(w, "pid %u: %s%s%s%s%s", stuck->process->pid, open->function,
				    open->bytes ? " " : "",
				    open->bytes ? units_bytes(bytes, open->bytes) : "",
				    *where ? " in " : "", where);
}

static void add_stuck(struct gpu_writer *w, struct stuck *stuck, size_t nr, struct room *room)
{
	size_t shown, i;

	if (!nr)
		return;
	shown = room_take(room, nr);
	qsort(stuck, nr, sizeof(*stuck), compare_stuck);
	gpu_line_end(w);
	buf_printf(w->dst, "   %*s  ", GPU_TIME_WIDTH, "For");
	gpu_add_rest(w, "Not come back");
	for (i = 0; i < shown; i++)
		add_stuck_row(w, &stuck[i]);
	add_more(w, nr, shown, "that have not come back");
}

static void add_processes(struct gpu_writer *w, struct room *room)
{
	const struct gpu_report_process *process;
	size_t nr = w->report->nr_processes, shown, i;
	char text[UNITS_TEXT];

	if (!nr)
		return;
	shown = room_take(room, nr);
	gpu_line_end(w);
	buf_printf(w->dst, "  %*s  %8s  %*s  %8s  ", RATE_WIDTH, "Launches/s", "Blocked",
		   GPU_BYTES_WIDTH, "Live", "PID");
	gpu_add_rest(w, "Process");
	for (i = 0; i < shown; i++) {
		process = &w->report->processes[w->order[i]];
		buf_printf(w->dst, "  %*.0f  %7.0f%%  %*s  %8u  ", RATE_WIDTH,
			   recent_rate(w, process->recent_launches),
			   recent_rate(w, process->recent_blocked_ns) / 1e7, GPU_BYTES_WIDTH,
			   process->memory.live_bytes
				   ? units_bytes(text, process->memory.live_bytes)
				   : "-",
			   process->pid);
		if (*process->rank)
			gpu_add_rest_printf(w, "%s, rank %s",
					    *process->ray_task ? process->ray_task : process->name,
					    process->rank);
		else
			gpu_add_rest(w, *process->ray_task ? process->ray_task : process->name);
	}
	add_more(w, nr, shown, "processes");
}

struct kernel {
	const char *name;
	uint64_t recent, calls;
};

static int compare_name(const void *a, const void *b)
{
	return strcmp(((const struct kernel *)a)->name, ((const struct kernel *)b)->name);
}

static int compare_recent(const void *a, const void *b)
{
	const struct kernel *x = a, *y = b;

	return GPU_ORDER(y->recent, x->recent) ?: GPU_ORDER(y->calls, x->calls) ?:
	       strcmp(x->name, y->name);
}

/* The kernels of all processes, each once. */
static size_t kernels_fill(const struct gpu_report *report, struct kernel *kernels)
{
	const struct gpu_report_launch *launch;
	size_t all = 0, nr = 0, i, k;

	for (i = 0; i < report->nr_processes; i++) {
		for (k = 0; k < report->processes[i].nr_launches; k++) {
			launch = &report->processes[i].launches[k];
			if (!launch->captured)
				kernels[all++] = (struct kernel){ launch->kernel, launch->recent,
								  launch->calls };
		}
	}
	qsort(kernels, all, sizeof(*kernels), compare_name);
	for (i = 0; i < all; i++) {
		if (nr && !strcmp(kernels[nr - 1].name, kernels[i].name)) {
			kernels[nr - 1].recent += kernels[i].recent;
			kernels[nr - 1].calls += kernels[i].calls;
		} else {
			kernels[nr++] = kernels[i];
		}
	}
	qsort(kernels, nr, sizeof(*kernels), compare_recent);
	return nr;
}

static void add_kernels(struct gpu_writer *w, struct room *room)
{
	size_t all = 0, nr, shown, i;
	struct kernel *kernels;

	for (i = 0; i < w->report->nr_processes; i++)
		all += w->report->processes[i].nr_launches;
	kernels = gpu_rows_new(w, all, sizeof(*kernels));
	if (!kernels)
		return;
	nr = kernels_fill(w->report, kernels);
	if (nr) {
		shown = room_take(room, nr);
		gpu_line_end(w);
		buf_printf(w->dst, "  %*s  %*s  ", RATE_WIDTH, "Launches/s", GPU_CALLS_WIDTH,
			   "Launches");
		gpu_add_rest(w, "Kernel");
		for (i = 0; i < shown; i++) {
			buf_printf(w->dst, "  %*.0f  ", RATE_WIDTH,
				   recent_rate(w, kernels[i].recent));
			gpu_add_count(w, GPU_CALLS_WIDTH, kernels[i].calls);
			gpu_add_rest(w, kernels[i].name);
		}
		add_more(w, nr, shown, "kernels");
	}
	free(kernels);
}

void gpu_add_overview(struct gpu_writer *w, size_t screen_rows)
{
	const struct gpu_report *report = w->report;
	struct room room = { .sections = 3 };
	size_t all = 0, nr, i;
	struct stuck *stuck;

	for (i = 0; i < report->nr_processes; i++)
		all += report->processes[i].nr_open + report->processes[i].nr_completions;
	stuck = gpu_rows_new(w, all, sizeof(*stuck));
	if (!stuck)
		return;
	nr = stuck_fill(report, stuck);
	add_title(w, nr);
	add_totals(w);
	add_hooked(w);
	add_lost(w);
	room.sections -= !nr;
	/* One line is for the help on keys, below. */
	room.lines = screen_rows > GPU_OVERVIEW_HEAD + 1 ? screen_rows - GPU_OVERVIEW_HEAD - 1 : 1;
	add_stuck(w, stuck, nr, &room);
	free(stuck);
	add_processes(w, &room);
	add_kernels(w, &room);
}
