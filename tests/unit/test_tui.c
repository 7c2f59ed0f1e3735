// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/strtab.h"
#include "profile/aggregate.h"
#include "profile/live.h"
#include "tui/table.h"
#include "tui/view.h"
#include "tui/width.h"
#include "stack_frames.h"

#define PYTHON(n) ((uint64_t)BPFPROF_FRAME_PYTHON << BPFPROF_FRAME_SHIFT | (n))
#define NATIVE(n) ((uint64_t)BPFPROF_FRAME_NATIVE << BPFPROF_FRAME_SHIFT | (n))
#define SECOND 1000000000ULL

static struct live *live;
static struct view *view;
static struct page page;

static const char *const names[] = { "main (a.py:9)", "hot (a.py:2)", "cold (a.py:5)",
				     "\xe6\xbc\xa2\xe5\xad\x97 (a.py:7)", "esc\x1b[31m (a.py:8)" };

static void name_frames(void *arg, struct live *to, const uint64_t *frames, size_t nr, uint32_t pid)
{
	struct live_name name;
	char function[64];
	size_t i;

	(void)arg;
	(void)pid;
	for (i = 0; i < nr; i++) {
		name = (struct live_name){ .line = "memcpy (libc.so.6)" };
		if (frames[i] >> BPFPROF_FRAME_SHIFT == BPFPROF_FRAME_PYTHON)
			name.line = names[frames[i] & 7];
		snprintf(function, sizeof(function), "%s", name.line);
		if (strchr(function, ':'))
			memcpy(strchr(function, ':'), ")", 2);
		name.function = function;
		live_named(to, frames[i], &name);
	}
}

/*
 * One second: hot 0.6 s, of which 0.1 s in memcpy; cold 0.2 s; the wide name 0.1 s; all called by main; the
 * escape 0.1 s in another process.
 */
static void feed_in(const struct aggregate_container *container, const struct strtab *strings)
{
	static const uint64_t frames[] = { PYTHON(1), PYTHON(0), NATIVE(5), PYTHON(1), PYTHON(0),
					   PYTHON(2), PYTHON(0), PYTHON(3), PYTHON(0), PYTHON(4) };
	static const size_t first[] = { 0, 2, 5, 7, 9, 10 };
	struct stacks_made stacks = { .nr = 0 };
	const struct aggregate_process processes[] = {
		{ .pid = 42,
		  .agent_pid = 42,
		  .start_ns = 1,
		  .comm = "python3",
		  .container = container ? 1 : 0 },
		{ .pid = 43, .agent_pid = 43, .start_ns = 2, .comm = "x\x1b[2J\xc3" },
	};
	struct aggregate_sample samples[5] = { 0 };
	struct aggregate_view all = { .containers = container,
				      .nr_containers = container ? 1 : 0,
				      .strings = strings,
				      .processes = processes,
				      .nr_processes = 2,
				      .samples = samples,
				      .nr_samples = 5 };
	const struct live_names symbolizer = { .name = name_frames };
	static const uint64_t tenths[] = { 5, 1, 2, 1, 1 };
	size_t i;

	for (i = 0; i < 5; i++) {
		samples[i].stack = stack_make(&stacks, frames + first[i], first[i + 1] - first[i]);
		samples[i].process = i == 4;
		samples[i].count = tenths[i];
		samples[i].value_ns = tenths[i] * SECOND / 10;
	}
	stacks_view(&stacks, &all);
	cr_assert_eq(live_feed(live, &all, &symbolizer), 0);
	stacks_free(&stacks);
}

static void loader(void)
{
	feed_in(NULL, NULL);
}

static void setup(void)
{
	const struct view_options options = { .processes = true };

	width_init();
	cr_assert_eq(live_new(&live), 0);
	cr_assert_eq(view_new(&view, &options), 0);
	page = (struct page){ 0 };
	loader();
}

static void teardown(void)
{
	page_fini(&page);
	view_free(view);
	live_free(live);
}

TestSuite(tui, .init = setup, .fini = teardown);

/* Draws a page; its lines are looked up by line(). */
static void draw(size_t columns, size_t rows)
{
	const struct view_status status = { .what = "the whole machine",
					    .hz = 99,
					    .interval_ns = SECOND,
					    .nr_threads = 7,
					    .nr_processes = 2,
					    .lost = 3,
					    .lost_reasons = "ring_full 3",
					    .dump_pids = "-p 42" };
	size_t i;

	page_fini(&page);
	cr_assert_eq(view_page(view, live, &status, columns, rows, &page), 0);
	for (i = 0; columns && i < page.nr; i++)
		cr_assert_leq(width_of(page_text(&page, i)), columns, "line %zu: %s", i,
			      page_text(&page, i));
	if (rows)
		cr_assert_eq(page.nr, rows);
}

/* Number of the line that holds text, -1 if none does. */
static int line(const char *text)
{
	size_t i;

	for (i = 0; i < page.nr; i++)
		if (strstr(page_text(&page, i), text))
			return (int)i;
	return -1;
}

static void keys(const char *text)
{
	for (; *text; text++)
		view_key(view, live, (unsigned char)*text);
}

Test(tui, widths)
{
	static const struct {
		const char *text;
		size_t columns;
		const char *expect, *expect_ends;
	} cases[] = {
		{ "plain", 0, "plain", "plain" },
		{ "plain", 5, "plain", "plain" },
		{ "plain", 4, "pla\xe2\x80\xa6", "pla\xe2\x80\xa6" },
		{ "plain", 1, "\xe2\x80\xa6", "\xe2\x80\xa6" },
		{ "\x1b[31mred\x07\x7f", 0, "?[31mred??", "?[31mred??" },
		{ "a\xc2\x9b"
		  "b",
		  0, "a?b", "a?b" }, /* a C1 control */
		{ "a\xe2\x80\xae"
		  "b",
		  0, "a?b", "a?b" }, /* right-to-left override */
		{ "a\xff\xfe", 0, "a??", "a??" },
		{ "a\xed\xa0\x80", 0, "a???", "a???" }, /* a surrogate */
		{ "\xc0\xaf", 0, "??", "??" }, /* overlong */
		{ "\xe6\xbc\xa2\xe5\xad\x97", 4, "\xe6\xbc\xa2\xe5\xad\x97",
		  "\xe6\xbc\xa2\xe5\xad\x97" },
		{ "\xe6\xbc\xa2\xe5\xad\x97", 3, "\xe6\xbc\xa2\xe2\x80\xa6",
		  "\xe6\xbc\xa2\xe2\x80\xa6" },
		{ "e\xcc\x81t\xc3\xa9", 3, "e\xcc\x81t\xc3\xa9", "e\xcc\x81t\xc3\xa9" },
		{ "abcdefghijklmnopqrstuvwxyz", 24, "abcdefghijklmnopqrstuvw\xe2\x80\xa6",
		  "abcdefghijk\xe2\x80\xa6opqrstuvwxyz" },
	};
	struct buf buf;
	size_t i, columns;

	buf_init(&buf, 1000);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		buf_reset(&buf);
		columns = width_add(&buf, cases[i].text, cases[i].columns);
		cr_expect_str_eq(buf.data, cases[i].expect, "%zu", i);
		cr_expect_eq(columns, width_of(buf.data), "%zu", i);
		buf_reset(&buf);
		width_add_ends(&buf, cases[i].text, cases[i].columns);
		cr_expect_str_eq(buf.data, cases[i].expect_ends, "%zu", i);
	}
	/* A wide character at the cut leaves a blank. */
	buf_reset(&buf);
	width_pad(&buf, "\xe6\xbc\xa2\xe5\xad\x97", 2);
	cr_expect_eq(width_of(buf.data), 2);
	buf_reset(&buf);
	width_pad(&buf, "ab", 5);
	cr_expect_str_eq(buf.data, "ab   ");
	buf_fini(&buf);
}

Test(tui, marks_without_an_end_are_cut)
{
	char text[2 + 2 * 1000] = "e";
	size_t i;

	for (i = 0; i < 1000; i++)
		memcpy(text + 1 + 2 * i, "\xcc\x81", 3);
	cr_expect_eq(width_of(text), 1 + 1000 - 3);
}

Test(tui, seconds)
{
	static const struct {
		uint64_t ms;
		const char *expect;
	} cases[] = { { 0, "0.000" },	    { 7, "0.007" },	 { 999, "0.999" },
		      { 1000, "1.00" },	    { 12345, "12.35" },	 { 99994, "99.99" },
		      { 100000, "100.0" },  { 999940, "999.9" }, { 1000400, "1000" },
		      { 36000000, "36000" } };
	char text[24];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		table_seconds(text, cases[i].ms * 1000000);
		cr_expect_str_eq(text, cases[i].expect);
	}
}

Test(tui, columns_are_those_of_py_spy)
{
	keys("1");
	draw(0, 0);
	cr_expect_eq(line("   %Own  %Total  OwnTime  TotalTime      PID Process"), 4);
	cr_expect_str_eq(page_text(&page, 5), " 60.00%  60.00%   0.600s     0.600s       42 "
					      "python3          hot (a.py:2)");
	cr_expect_eq(line("GIL: 0.00%, Active: 100.00%, Threads: 7, Processes: 2"), 2);
	cr_expect_eq(line("Total Samples 10, Lost 3 (ring_full 3), Truncated 0, Unmerged 0"), 1);
	cr_expect_neq(line("esc?[31m (a.py:8)"), -1);
	cr_expect_neq(line("     43 x?[2J?           esc"), -1);
}

Test(tui, sorting_by_each_column)
{
	static const struct {
		const char *key, *first;
	} cases[] = { { "2", "main" }, { "1", "hot" }, { "4", "main" }, { "3", "hot" } };
	size_t i;

	loader();
	for (i = 0; i < 4; i++) {
		keys(cases[i].key);
		draw(0, 0);
		cr_expect(strstr(page_text(&page, 5), cases[i].first), "%s: %s", cases[i].key,
			  page_text(&page, 5));
	}
	cr_expect(strstr(page_text(&page, 5), "1.20s      1.20s"), "%s", page_text(&page, 5));
}

Test(tui, lines_native_filter)
{
	draw(0, 0);
	cr_expect_eq(line("memcpy"), -1);
	keys("n");
	draw(0, 0);
	cr_expect_neq(line("memcpy (libc.so.6)"), -1);
	cr_expect(strstr(page_text(&page, 2), ", native"));
	cr_expect(strstr(page_text(&page, 5), " 50.00%  60.00%"), "%s", page_text(&page, 5));
	keys("nL");
	draw(0, 0);
	cr_expect_neq(line("Function (filename)"), -1);
	cr_expect_neq(line("hot (a.py)"), -1);
	keys("L/CO");
	draw(80, 24);
	cr_expect_eq(line("hot"), -1);
	cr_expect_neq(line("cold (a.py:5)"), -1);
	cr_expect_str_eq(page_text(&page, 23), "/CO");
	view_key(view, live, VIEW_KEY_BACKSPACE);
	keys("qq1?");
	cr_expect_eq(line("Keys"), -1, "keys are letters of the filter");
	view_key(view, live, VIEW_KEY_ENTER);
	draw(80, 24);
	cr_expect_neq(line("Filter: Cqq1?"), -1);
	keys("/");
	view_key(view, live, VIEW_KEY_ESCAPE);
	draw(80, 24);
	cr_expect_neq(line("hot (a.py:2)"), -1);
	cr_expect_eq(line("Filter"), -1);
	keys("/python3");
	draw(80, 24);
	cr_expect(line("hot") > 0 && line("esc?") < 0, "the process is searched too");
}

Test(tui, into_a_process_and_back)
{
	cr_expect_eq(view_process(view, live), LIVE_ALL);
	draw(80, 24);
	cr_expect_eq(page.lines[5].style, PAGE_SELECTED);
	view_key(view, live, VIEW_KEY_END);
	draw(80, 24);
	cr_expect_eq(page.lines[5].style, PAGE_PLAIN);
	/* main (a.py:9) is last: no own time. */
	view_key(view, live, VIEW_KEY_ENTER);
	cr_expect_eq(view_pid(view), 42);
	draw(80, 24);
	cr_expect_eq(line("esc"), -1);
	cr_expect_eq(line("PID"), -1);
	cr_expect_neq(line("Active: 90.00%"), -1);
	cr_expect_neq(line("Total Samples 9,"), -1);
	view_key(view, live, VIEW_KEY_BACKSPACE);
	cr_expect_eq(view_pid(view), 0);
	draw(80, 24);
	cr_expect_neq(line("esc?[31m"), -1);
}

Test(tui, the_mark_stays_on_the_screen)
{
	size_t i;

	draw(80, 10);
	for (i = 0; i < 20; i++)
		view_key(view, live, VIEW_KEY_DOWN);
	draw(80, 10);
	cr_expect_eq(page.lines[8].style, PAGE_SELECTED);
	cr_expect(strstr(page_text(&page, 8), "main"));
	view_key(view, live, VIEW_KEY_HOME);
	draw(80, 10);
	cr_expect(page.lines[5].style == PAGE_SELECTED && strstr(page_text(&page, 5), "hot"));
	view_key(view, live, VIEW_KEY_PAGE_DOWN);
	view_key(view, live, VIEW_KEY_PAGE_UP);
	view_key(view, live, VIEW_KEY_UP);
	draw(80, 10);
	cr_expect_eq(page.lines[5].style, PAGE_SELECTED);
}

Test(tui, every_size_of_a_terminal)
{
	static const char *const states[] = { "", "?", "x/filter", "\n", "n", "k" };
	size_t columns, rows, i;

	for (i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		keys(states[i]);
		for (columns = 1; columns < 140; columns += columns < 45 ? 1 : 7)
			for (rows = 1; rows < 30; rows++)
				draw(columns, rows);
	}
}

Test(tui, narrow_terminals_keep_own_and_function)
{
	draw(20, 12);
	cr_expect_str_eq(page_text(&page, 4), "   %Own  Function (\xe2\x80\xa6");
	cr_expect_str_eq(page_text(&page, 5), " 60.00%  hot (a.py:\xe2\x80\xa6");
	draw(45, 12);
	cr_expect_str_eq(page_text(&page, 4),
			 "   %Own  %Total      PID  Function (filename\xe2\x80\xa6");
}

Test(tui, idle)
{
	const struct aggregate_view none = { 0 };
	const struct live_names symbolizer = { .name = name_frames };
	enum view_result result;

	cr_assert_eq(live_feed(live, &none, &symbolizer), 0);
	result = view_key(view, live, 'R');
	cr_expect_eq(result, VIEW_RESET);
	live_reset(live);
	draw(80, 24);
	cr_expect_neq(
		line("0 on-CPU samples in 1.0 s; 7 threads sleep: bpfprof dump -p 42 shows where"),
		-1);
	draw(60, 24);
	cr_expect_neq(line("0 on-CPU samples in 1.0 s"), -1);
	cr_expect_neq(line("7 threads sleep: bpfprof dump -p 42 shows where"), -1);
	cr_expect_eq(view_key(view, live, 'q'), VIEW_QUIT);
	cr_expect_eq(view_key(view, live, 'j'), VIEW_NOTHING);
}

/* Lines of calls are few, however many processes make some: on a screen and where there is none. */
Test(tui, calls_of_many_processes)
{
	struct table_calls calls[12] = { 0 };
	const struct view_status status = {
		.what = "x", .interval_ns = SECOND, .gpu = true, .calls = calls, .nr_calls = 12
	};
	const struct view_status none = { .what = "x", .interval_ns = SECOND, .gpu = true };

	for (uint32_t i = 0; i < 12; i++)
		calls[i].pid = 100 + i;
	cr_assert_eq(view_page(view, live, &status, 0, 0, &page), 0);
	cr_expect_neq(line("GPU: 109 "), -1);
	cr_expect_eq(line("GPU: 110 "), -1);
	cr_expect_neq(line("GPU: 2 more processes"), -1);
	page_fini(&page);
	cr_assert_eq(view_page(view, live, &status, 80, 24, &page), 0);
	cr_expect_neq(line("GPU: 102 "), -1);
	cr_expect_eq(line("GPU: 103 "), -1);
	cr_expect_neq(line("GPU: 9 more processes"), -1);
	page_fini(&page);
	cr_assert_eq(view_page(view, live, &none, 80, 24, &page), 0);
	cr_expect_neq(
		line("GPU: no call of CUDA or NCCL has begun so far; older ones: bpfprof gpu"), -1);
}

Test(tui, pods)
{
	struct aggregate_container container = { 0 };
	struct strtab *strings;

	cr_assert_eq(strtab_new(&strings, 4096), 0);
	container.id = strtab_add(strings, "4f2c");
	draw(160, 40);
	cr_expect_eq(line("Pod"), -1);
	/* In no pod: by its id. */
	feed_in(&container, strings);
	draw(160, 40);
	cr_expect_geq(line("42 python3         4f2c "), 0);
	container.pod = strtab_add(strings, "tra\033[1miner-0");
	container.namespace = strtab_add(strings, "ml");
	feed_in(&container, strings);
	draw(160, 40);
	cr_expect_geq(line("PID Process         Pod  "), 0);
	cr_expect_geq(line("42 python3         ml/tra?[1miner-0"), 0);
	/* No room for it, but it can be searched for. */
	draw(119, 40);
	cr_expect_eq(line("Pod"), -1);
	keys("/iner-0");
	view_key(view, live, VIEW_KEY_ENTER);
	draw(119, 40);
	cr_expect_geq(line("hot (a.py"), 0);
	cr_expect_eq(line("esc"), -1);
	strtab_free(strings);
}
