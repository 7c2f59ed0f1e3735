// SPDX-License-Identifier: Apache-2.0
/* bpfprof top: shows what uses the CPU right now, or what all threads do, interval by interval. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/background.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/print.h"
#include "base/signals.h"
#include "base/time.h"
#include "capture/container_filter.h"
#include "capture/pod_processes.h"
#include "capture/sampler.h"
#include "capture/target.h"
#include "cmd/command.h"
#include "cmd/top_calls.h"
#include "cmd/watched.h"
#include "kernel/waits.h"
#include "options/options.h"
#include "proc/pids.h"
#include "proc/usage.h"
#include "profile/aggregate.h"
#include "profile/live.h"
#include "profile/live_symbolizer.h"
#include "profile/stats.h"
#include "profile/symbolize.h"
#include "profile/thread_times.h"
#include "tui/screen.h"
#include "tui/view.h"
#include "tui/width.h"

#define PAGE_TEXT_BYTES (1U << 20)
#define AGGREGATE_BYTES (4U << 20) /* for one interval; there are two for a moment */
#define CHECK_MS 200 /* between two checks whether the targets live */
/* The stacks of waiting threads are read for half a delay, at most for this time. */
#define READING_MAX_NS NS_PER_SECOND
#define WHAT_MAX 256
#define MESSAGE_MAX 1024
#define MAX_CHILDREN 256 /* children whose threads each snapshot counts */

struct top {
	const struct top_options *options;
	struct sampler sampler;
	struct aggregate *aggregate; /* of the running interval */
	struct thread_times *times; /* NULL without --wall */
	struct top_calls calls; /* with --gpu */
	struct live *live;
	struct live_symbolizer symbolizer;
	struct view *view;
	uint64_t start_ns; /* begin of the running interval */
	pid_t pod_pid; /* with --pod-pids: of the one process of -p, 0: not known */
	uint64_t end_ns; /* of --duration; UINT64_MAX: none */
	uint64_t interval_ns; /* length of the shown interval */
	bool ended; /* the targets have exited */
	bool quit;
	bool dirty; /* the screen is not up to date */
	struct run_stats stats;
	char what[WHAT_MAX];
	struct buf lost_reasons, dump_pids, message;
};

static bool has_screen(const struct top_options *options)
{
	return !options->once && !options->batch;
}

static void on_event(void *arg, const struct event *event)
{
	struct top *top = arg;

	switch (event->kind) {
	case EVENT_SAMPLE:
		if (top->times)
			thread_times_add(top->times, event->input);
		else
			aggregate_add(top->aggregate, event->input);
		break;
	case EVENT_THREAD_END:
		thread_times_end(top->times, event->input, event->rest);
		break;
	default:
		break;
	}
}

static void step(void *arg)
{
	struct top *top = arg;

	sampler_run(&top->sampler);
}

static bool is_named(const struct capture_options *capture, uint32_t pid)
{
	size_t i;

	for (i = 0; i < capture->nr_pids; i++)
		if ((uint32_t)capture->pids[i] == pid)
			return true;
	return false;
}

static uint64_t threads_of(pid_t pid)
{
	struct proc_usage usage;

	return proc_usage_read(&usage, pid) ? 0 : usage.nr_threads;
}

/* All threads of the machine: the second number of /proc/loadavg's fourth word. */
static uint64_t threads_of_machine(void)
{
	__cleanup(close_file) FILE *file = fopen("/proc/loadavg", "re");
	char line[128], *slash;

	if (!file || !fgets(line, sizeof(line), file))
		return 0;
	slash = strchr(line, '/');
	return slash ? strtoull(slash + 1, NULL, 10) : 0;
}

/* Processes that ran in the interval, and threads of the watched processes. */
static void count_threads(struct top *top, uint64_t *ret_processes, uint64_t *ret_threads)
{
	const struct capture_options *capture = &top->options->capture;
	bool all = !capture->nr_pids && !capture->nr_comms && !capture->nr_workers &&
		   !container_filter_is_set(&capture->containers);
	const struct live_process *processes;
	size_t nr, i, nr_children = 0;
	uint64_t threads = 0, ran = 0;

	for (i = 0; i < capture->nr_pids; i++)
		threads += threads_of(capture->pids[i]);
	processes = live_processes(top->live, &nr);
	for (i = 0; i < nr; i++) {
		if (!processes[i].kernel_pid || !processes[i].now.samples)
			continue;
		ran++;
		if (!all && processes[i].pid && !is_named(capture, processes[i].pid) &&
		    nr_children++ < MAX_CHILDREN)
			threads += threads_of((pid_t)processes[i].pid);
	}
	if (all)
		threads = threads_of_machine();
	*ret_processes = ran;
	*ret_threads = view_pid(top->view) ? threads_of((pid_t)view_pid(top->view)) : threads;
}

static const struct counter live_lost_counters[] = {
	{ COUNTER_LOST, "process_table_full", offsetof(struct live_counters, samples_lost),
	  .help = NULL },
	{ 0 },
};

static void lost_fill(struct top *top)
{
	const struct live_counters *counters = live_counters(top->live);
	const struct stats_reasons *lost = &top->stats.lost;
	size_t i;

	top->stats = (struct run_stats){ 0 };
	sampler_stats(&top->sampler, &top->stats);
	stats_add_rows(&top->stats.lost, live_lost_counters, counters, false);
	buf_reset(&top->lost_reasons);
	buf_add_str(&top->lost_reasons, "");
	for (i = 0; i < lost->nr; i++)
		if (lost->reasons[i].count)
			buf_printf(&top->lost_reasons, "%s%s %" PRIu64,
				   top->lost_reasons.len ? ", " : "", lost->reasons[i].name,
				   lost->reasons[i].count);
}

/* A pid as the reader of the table knows it. */
static uint32_t shown_pid(const struct top *top, uint32_t pid)
{
	return top->pod_pid && pid == (uint32_t)top->options->capture.pids[0]
		       ? (uint32_t)top->pod_pid
		       : pid;
}

static void dump_pids_fill(struct top *top)
{
	const struct capture_options *capture = &top->options->capture;
	size_t i;

	buf_reset(&top->dump_pids);
	buf_add_str(&top->dump_pids, "");
	if (view_pid(top->view))
		buf_printf(&top->dump_pids, "-p %u", shown_pid(top, view_pid(top->view)));
	for (i = 0; !view_pid(top->view) && i < capture->nr_pids; i++)
		buf_printf(&top->dump_pids, "%s-p %u", i ? " " : "",
			   shown_pid(top, (uint32_t)capture->pids[i]));
}

static void message_fill(struct top *top)
{
	const struct capture_options *capture = &top->options->capture;

	buf_reset(&top->message);
	buf_add_str(&top->message, "");
	if (top->ended && capture->nr_pids == 1)
		buf_printf(&top->message, "pid %u has exited",
			   shown_pid(top, (uint32_t)capture->pids[0]));
	else if (top->ended)
		buf_printf(&top->message, "all %zu processes have exited", capture->nr_pids);
	else if (view_pid(top->view) && kill((pid_t)view_pid(top->view), 0) && errno == ESRCH)
		buf_printf(&top->message, "pid %u has exited", shown_pid(top, view_pid(top->view)));
	else if (top->symbolizer.kernel_names_hidden)
		buf_add_str(&top->message, "kernel functions have no names: needs CAP_SYSLOG and "
					   "kernel.kptr_restrict below 2");
	else if (symbolize_problem(&top->symbolizer.files))
		buf_printf(&top->message, "functions of some files have no names: %s",
			   symbolize_problem(&top->symbolizer.files));
}

/* Stacks that do not reach their root. */
static uint64_t nr_truncated(const struct live_counters *counters)
{
	uint64_t nr = 0;
	size_t i;

	for (i = 0; i < BPFPROF_NR_STOPS; i++)
		if (i != BPFPROF_STOP_COMPLETE && i != BPFPROF_STOP_NO_USER)
			nr += counters->stops[i];
	return nr;
}

static int page_make(struct top *top, size_t columns, size_t rows, struct page *ret)
{
	const struct live_counters *counters = live_counters(top->live);
	struct view_status status = {
		.what = top->what,
		.hz = top->options->capture.session.hz,
		.interval_ns = top->interval_ns,
		.truncated = nr_truncated(counters),
		.unmerged = counters->unmerged,
		.dropped = counters->rows_evicted,
		.gpu = top->options->capture.session.gpu,
		.wall = top->times,
		.calls = top->calls.rows,
		.nr_calls = top->calls.nr_rows,
	};

	count_threads(top, &status.nr_processes, &status.nr_threads);
	if (status.nr_processes > 1)
		view_show_processes(top->view);
	lost_fill(top);
	dump_pids_fill(top);
	message_fill(top);
	if (buf_error(&top->lost_reasons) || buf_error(&top->dump_pids) || buf_error(&top->message))
		return -ENOMEM;
	status.lost = stats_total(&top->stats.lost);
	status.lost_reasons = top->lost_reasons.data;
	status.dump_pids = top->ended ? "" : top->dump_pids.data;
	status.message = top->message.len ? top->message.data : NULL;
	return view_page(top->view, top->live, &status, columns, rows, ret);
}

/* With --wall, a wait across the boundary of two intervals counts in both. */
static void waits_rotate(struct top *top, uint64_t now_ns)
{
	struct sampler_rotate rotate = { .times = top->times, .at_ns = now_ns };

	if (!top->options->once)
		rotate.reading_ns = top->options->delay_ns < 2 * READING_MAX_NS
					    ? top->options->delay_ns / 2
					    : READING_MAX_NS;
	thread_times_boundary(top->times, top->aggregate, now_ns);
	sampler_waits_rotate(&top->sampler, &rotate);
	thread_times_close(top->times);
}

/* Ends the running interval and shows it. */
static int interval_end(struct top *top, uint64_t now_ns)
{
	struct live_names symbolizer = live_symbolizer_fill(&top->symbolizer);
	struct aggregate *ended = top->aggregate, *next;
	struct aggregate_view view;
	int err;

	err = aggregate_new(&next, false, AGGREGATE_BYTES);
	if (err)
		return err;
	/* Samples that come during symbolization belong to the next interval. */
	top->aggregate = next;
	if (top->times)
		waits_rotate(top, now_ns);
	aggregate_view_get(ended, &view);
	background_pause(top->sampler.background);
	err = live_feed(top->live, &view, &symbolizer);
	background_resume(top->sampler.background);
	aggregate_free(ended);
	if (!err && top->options->capture.session.gpu)
		err = top_calls_update(&top->calls);
	top->interval_ns = now_ns - top->start_ns;
	top->start_ns = now_ns;
	return err;
}

static int draw(struct top *top)
{
	size_t columns, rows;
	struct page page;
	int err;

	screen_size(&columns, &rows);
	err = page_make(top, columns, rows, &page);
	if (err)
		return err;
	screen_draw(&page);
	page_fini(&page);
	top->dirty = false;
	return 0;
}

static int print_page(struct top *top, size_t columns, size_t rows)
{
	__cleanup(buf_fini) struct buf text = { .max = PAGE_TEXT_BYTES };
	struct page page;
	size_t i;
	int err;

	err = page_make(top, columns, rows, &page);
	if (err)
		return err;
	/* The line about keys and the empty lines above it are not printed. */
	if (rows && page.nr)
		page.nr--;
	while (page.nr && !page_text(&page, page.nr - 1)[0])
		page.nr--;
	for (i = 0; i < page.nr; i++) {
		buf_add_str(&text, page_text(&page, i));
		buf_add_char(&text, '\n');
	}
	page_fini(&page);
	err = buf_error(&text);
	return err ? err : print_lines(stdout, text.data, text.len);
}

static void on_keys(struct top *top)
{
	uint32_t key;

	while ((key = screen_key())) {
		switch (view_key(top->view, top->live, key)) {
		case VIEW_QUIT:
			top->quit = true;
			break;
		case VIEW_RESET:
			live_reset(top->live);
			top->dirty = true;
			break;
		case VIEW_REDRAW:
			top->dirty = true;
			break;
		default:
			break;
		}
	}
}

static void on_signals(struct top *top, int fd)
{
	int signal;

	while ((signal = signals_next(fd))) {
		if (signal != SIGWINCH) {
			top->quit = true;
		} else if (has_screen(top->options)) {
			screen_resize();
			top->dirty = true;
		}
	}
}

/* Runs one interval: until the delay is over, the user quits, or the targets have exited. */
static int watch(struct top *top, int signal_fd)
{
	uint64_t end_ns = top->start_ns + top->options->delay_ns < top->end_ns
				  ? top->start_ns + top->options->delay_ns
				  : top->end_ns;
	struct pollfd fds[] = { { .fd = sampler_fd(&top->sampler), .events = POLLIN },
				{ .fd = signal_fd, .events = POLLIN },
				{ .fd = STDIN_FILENO, .events = POLLIN } };
	nfds_t nr = has_screen(top->options) ? 3 : 2;
	int err = 0, ms, max_ms = top->options->capture.nr_pids ? CHECK_MS : INT_MAX;

	while (!top->quit && !top->ended && time_monotonic_ns() < end_ns && !err) {
		ms = sampler_run(&top->sampler);
		if (top->options->capture.session.gpu &&
		    gpu_monitor_run(&top->calls.watch, time_monotonic_ns()))
			ms = 0;
		sampler_poll(&top->sampler, fds, nr,
			     time_poll_ms(time_monotonic_ns(), end_ns, ms < max_ms ? ms : max_ms));
		if (fds[1].revents)
			on_signals(top, signal_fd);
		if (nr == 3 && fds[2].revents & POLLIN)
			on_keys(top);
		if (nr == 3 && fds[2].revents & ~POLLIN) /* the terminal is closed */
			top->quit = true;
		top->ended = sampler_targets_ended(&top->sampler);
		if (top->dirty && !top->quit && nr == 3)
			err = draw(top);
	}
	if (err)
		return err;
	sampler_run(&top->sampler);
	if (top->options->once) /* there is no next table that would have its samples */
		sampler_catch_up(&top->sampler);
	return interval_end(top, time_monotonic_ns());
}

/* Shows interval after interval on the screen. */
static int watch_screen(struct top *top, int signal_fd)
{
	size_t columns = 80, rows = 24;
	int err = draw(top);

	while (!err && !top->quit && !top->ended) {
		err = watch(top, signal_fd);
		if (!err && !top->quit && !top->ended)
			err = draw(top);
	}
	screen_size(&columns, &rows);
	screen_close();
	if (err || !top->ended)
		return err;
	/* The screen is closed: the last snapshot stays on the terminal. */
	return print_page(top, columns, rows);
}

/* Prints one table, or with --batch one after each delay. */
static int watch_tables(struct top *top, int signal_fd)
{
	int err;

	do {
		err = watch(top, signal_fd) ?: print_page(top, 0, 0);
		if (!err && top->options->batch)
			err = print_lines(stdout, "\n", 1);
	} while (!err && top->options->batch && !top->quit && !top->ended &&
		 top->start_ns < top->end_ns);
	return err;
}

static int run(struct top *top, int signal_fd)
{
	const struct capture_options *capture = &top->options->capture;
	struct view_options view = { .native = top->options->native };
	int err;

	view.processes = capture->nr_pids != 1;
	err = view_new(&top->view, &view);
	if (!err)
		err = live_new(&top->live);
	if (!err && top->times && !top->options->parked)
		live_idle(top->live);
	if (!err && has_screen(top->options)) {
		err = screen_open();
		if (err == -ENOENT) {
			log_error("the terminal TERM=%s is not known here; bpfprof top --once "
				  "prints one table",
				  getenv("TERM") ? getenv("TERM") : "");
			return EXIT_FAILED;
		}
	}
	if (!err)
		err = has_screen(top->options) ? watch_screen(top, signal_fd)
					       : watch_tables(top, signal_fd);
	screen_close();
	if (err && err != -EPIPE) { /* EPIPE: the reader of a pipe has read enough */
		log_error("%s%s",
			  has_screen(top->options) || err == -ENOMEM ? "" : "standard output: ",
			  strerror(-err));
		return EXIT_FAILED;
	}
	if (top->ended && top->message.len)
		log_info("%s", top->message.data);
	return EXIT_DONE;
}

static void symbolizer_fill(struct top *top)
{
	top->symbolizer.images = top->sampler.reader.images;
	top->symbolizer.codes = top->sampler.codes;
	top->symbolizer.runner = top->sampler.reader.runner;
	top->symbolizer.step = step;
	top->symbolizer.arg = top;
}

static int start(struct top *top, int signal_fd)
{
	bool gpu = top->options->capture.session.gpu,
	     wall = top->options->capture.session.waits != SESSION_NO_WAITS;
	int status;

	if (aggregate_new(&top->aggregate, false, AGGREGATE_BYTES) ||
	    (wall && thread_times_new(&top->times, top->aggregate, 0))) {
		log_error("out of memory");
		return EXIT_FAILED;
	}
	status = sampler_open(&top->sampler, &top->options->capture);
	sampler_observe(&top->sampler, on_event, top);
	if (!status && gpu)
		status = top_calls_open(&top->calls, &top->sampler);
	if (!status)
		status = sampler_start(&top->sampler);
	if (status)
		return status;
	if (gpu)
		gpu_monitor_start(&top->calls.watch);
	top->start_ns = wall ? waits_start_ns(top->sampler.waits) : time_monotonic_ns();
	top->end_ns =
		top->options->duration_ns ? top->start_ns + top->options->duration_ns : UINT64_MAX;
	if (top->options->pod_pids && top->options->capture.nr_pids == 1)
		top->pod_pid = target_pod_pid(top->options->capture.pids[0]);
	watched_text(top->what, sizeof(top->what), &top->options->capture,
		     top->sampler.reader.runner, top->pod_pid);
	symbolizer_fill(top);
	return run(top, signal_fd);
}

static int run_with(const struct top_options *options)
{
	struct top top = { .options = options };
	__cleanup(close_fd) int signal_fd = -1;
	int status;

	status = sampler_check_targets(options->capture.pids, options->capture.nr_pids);
	if (status)
		return status;
	if (has_screen(options) && (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))) {
		log_error("standard input and output must be a terminal; bpfprof top --once prints "
			  "one table anywhere, --batch one after the other");
		return EXIT_USAGE;
	}
	signal_fd =
		signals_open((const int[]){ SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, 0 }, NULL);
	if (signal_fd < 0) {
		log_error("%s", strerror(-signal_fd));
		return EXIT_FAILED;
	}
	width_init();
	buf_init(&top.lost_reasons, MESSAGE_MAX);
	buf_init(&top.dump_pids, 16 * MESSAGE_MAX);
	buf_init(&top.message, MESSAGE_MAX);
	status = start(&top, signal_fd);
	if (options->capture.session.gpu)
		top_calls_close(&top.calls);
	sampler_close(&top.sampler);
	thread_times_free(top.times);
	aggregate_free(top.aggregate);
	live_free(top.live);
	live_symbolizer_fini(&top.symbolizer);
	view_free(top.view);
	buf_fini(&top.lost_reasons);
	buf_fini(&top.dump_pids);
	buf_fini(&top.message);
	return status;
}

int top_run(const struct top_options *options)
{
	struct top_options resolved = *options;
	struct pids processes = { 0 };
	int status = sampler_check();

	if (!status && options->capture.session.gpu)
		status = gpu_monitor_check();
	if (!status)
		status = pod_processes_resolve(&processes, &resolved.capture);
	resolved.capture.report_workers = !has_screen(options); /* otherwise there is a screen */
	resolved.capture.background_share = 1;
	if (!status)
		status = run_with(&resolved);
	pids_fini(&processes);
	return status;
}
