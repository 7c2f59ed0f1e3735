// SPDX-License-Identifier: Apache-2.0
#include "tasks/task_calls.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "ray/calls.h"

#define NR_WORKERS 16384
#define NR_ROOM (TASK_CALLS_MAX_BYTES / (TITLE_MAX + 1 + sizeof(struct call)))

static struct task_calls *calls;
static size_t nr_reported;
static char reported[TITLE_MAX + 1];

static void on_call(void *arg, const struct task_call *call)
{
	(void)arg;
	nr_reported++;
	snprintf(reported, sizeof(reported), "%s", call->title);
}

static void setup(void)
{
	cr_assert_eq(task_calls_new(&calls, NR_WORKERS, on_call, NULL), 0);
}

static void teardown(void)
{
	task_calls_free(calls);
}

TestSuite(task_calls, .init = setup, .fini = teardown);

static void see(uint32_t pid, const char *title)
{
	const struct task_change change = { .pid = pid,
					    .start_ns = pid,
					    .ts_ns = 1000 + pid,
					    .main_thread = true,
					    .title = title,
					    .old_comm = "ray::IDLE" };

	task_calls_see(calls, &change);
}

static const char *long_title(char last)
{
	static char title[TITLE_MAX + 1];

	memset(title, 'x', TITLE_MAX);
	memcpy(title, "ray::", 5);
	title[TITLE_MAX - 1] = last;
	return title;
}

/* A title that differs only in its last byte is another call. */
Test(task_calls, long_titles)
{
	see(1, long_title('a'));
	see(1, long_title('a'));
	cr_expect_eq(nr_reported, 0);
	see(1, long_title('b'));
	cr_expect_eq(nr_reported, 1);
	cr_expect_str_eq(reported, long_title('a'));
	see(1, "ray::IDLE");
	cr_expect_eq(nr_reported, 2);
	cr_expect_str_eq(reported, long_title('b'));
}

/* Past the room for titles, changes are left out and counted; workers that go make room. */
Test(task_calls, room)
{
	uint32_t pid, rest = NR_WORKERS;

	for (pid = 1; pid <= NR_ROOM; pid++)
		see(pid, long_title('a'));
	cr_expect_eq(task_calls_nr_no_room(calls), 0);
	while (!task_calls_nr_no_room(calls)) /* what is left is less than a long title */
		see(rest--, "ray::IDLE");
	cr_expect(NR_WORKERS - rest <= (TITLE_MAX + 1 + sizeof(struct call)) / 10 + 1);
	see(pid, "ray::f");
	cr_expect_eq(task_calls_nr_no_room(calls), 2);
	see(pid, "ray::IDLE");
	cr_expect_eq(task_calls_nr_no_room(calls), 3);
	cr_expect_eq(nr_reported, 0);
	task_calls_exit(calls, 1, 1, 5000);
	cr_expect_eq(nr_reported, 1);
	see(pid, "ray::f");
	see(pid, "ray::IDLE");
	cr_expect_eq(nr_reported, 2);
	cr_expect_str_eq(reported, "ray::f");
	cr_expect_eq(task_calls_nr_no_room(calls), 3);
}

/* A class takes room as its title does, and gives it back. */
Test(task_calls, classes)
{
	char method[TITLE_MAX + 1];
	uint32_t pid, k;

	memset(method, 'x', sizeof(method));
	memcpy(method, "ray::", 5);
	memcpy(method + 900, ".step", 6);
	for (k = 0; k < 8; k++)
		for (pid = 1; pid <= NR_ROOM / 2; pid++)
			see(pid, k % 2 ? "ray::IDLE" : method);
	cr_expect_eq(task_calls_nr_no_room(calls), 0);
	cr_expect_eq(nr_reported, 4 * (NR_ROOM / 2));
	for (pid = 1; pid <= NR_WORKERS; pid++)
		see(pid, method);
	cr_expect_eq(task_calls_nr_no_room(calls),
		     NR_WORKERS -
			     TASK_CALLS_MAX_BYTES / (900 + 5 + 1 + 900 + 1 + sizeof(struct call)));
}

/* A change of worker 1, in a thread, with the stack pointer in KiB. */
static void see_in(uint32_t tid, uint64_t sp, uint64_t ts_ns, const char *title)
{
	const struct task_change change = { .pid = 1,
					    .start_ns = 1,
					    .ts_ns = ts_ns,
					    .tid = tid,
					    .sp = sp << 10,
					    .main_thread = tid == 1,
					    .chosen = true,
					    .title = title,
					    .old_comm = "ray::A" };

	task_calls_see(calls, &change);
}

static uint64_t reported_begin, reported_end;
static uint32_t reported_tid;

static void on_span(void *arg, const struct task_call *call)
{
	(void)arg;
	nr_reported++;
	snprintf(reported, sizeof(reported), "%s", call->title);
	reported_begin = call->begin_ns;
	reported_end = call->end_ns;
	reported_tid = call->tid;
	cr_expect_eq(call->kind, TASK_CALL_ACTOR);
	cr_expect_str_eq(call->class, "ray::A");
	cr_expect(call->chosen && !call->before);
}

static void expect_span(const char *title, uint32_t tid, uint64_t begin, uint64_t end)
{
	static size_t nr;

	cr_expect_eq(nr_reported, ++nr, "%s", title);
	cr_expect_str_eq(reported, title);
	cr_expect_eq(reported_tid, tid, "%s", title);
	cr_expect_eq(reported_begin, begin, "%s", title);
	cr_expect_eq(reported_end, end, "%s", title);
}

/* Fibers of one thread, and another thread; an end of a call that was not seen; lost changes. */
Test(task_calls, overlapping)
{
	struct task_change last = { .pid = 1,
				    .start_ns = 1,
				    .ts_ns = 90,
				    .tid = 3,
				    .sp = 900 << 10,
				    .chosen = true,
				    .lost = 1,
				    .title = "ray::A.k",
				    .old_comm = "" };

	task_calls_free(calls);
	cr_assert_eq(task_calls_new(&calls, 2, on_span, NULL), 0);
	see_in(3, 900, 10, "ray::A.f");
	see_in(3, 1156, 20, "ray::A.g");
	see_in(4, 900, 30, "ray::A.h");
	see_in(3, 900, 40, "ray::A");
	expect_span("ray::A.f", 3, 10, 40);
	see_in(3, 1412, 50, "ray::A");
	cr_expect_eq(task_calls_nr_no_begin(calls), 1);
	see_in(4, 900, 60, "ray::A");
	expect_span("ray::A.h", 4, 30, 60);
	see_in(3, 1156, 70, "ray::A");
	expect_span("ray::A.g", 3, 20, 70);
	see_in(3, 900, 80, "ray::A.f");
	task_calls_see(calls, &last);
	see_in(3, 900, 100, "ray::A");
	expect_span("ray::A.k", 3, 90, 100);
	see_in(3, 900, 110, "ray::A.f");
	task_calls_exit(calls, 1, 1, 120);
	expect_span("ray::A.f", 3, 110, 120);
	cr_expect_eq(task_calls_nr_left_out(calls), 1);
	cr_expect_eq(task_calls_nr_no_begin(calls), 1);
}

/* A call that the poll saw is not known any more once other threads set titles. */
Test(task_calls, polled_in_threads)
{
	const struct task_change polled = { .pid = 1,
					    .start_ns = 1,
					    .ts_ns = 5,
					    .tid = 1,
					    .main_thread = true,
					    .chosen = true,
					    .title = "ray::A.f",
					    .old_comm = "" };

	task_calls_free(calls);
	cr_assert_eq(task_calls_new(&calls, 2, on_span, NULL), 0);
	task_calls_poll(calls, &polled, 1);
	see_in(3, 900, 10, "ray::A.g");
	see_in(4, 900, 20, "ray::A");
	cr_expect_eq(task_calls_nr_no_begin(calls), 1);
	see_in(3, 900, 30, "ray::A");
	expect_span("ray::A.g", 3, 10, 30);
	task_calls_close(calls, 100);
	cr_expect_eq(nr_reported, 1);
}
