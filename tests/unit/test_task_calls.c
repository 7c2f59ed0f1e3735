// SPDX-License-Identifier: Apache-2.0
#include "tasks/task_calls.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define NR_WORKERS 16384
#define NR_ROOM (TASK_CALLS_MAX_BYTES / (TITLE_MAX + 1))

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
	uint32_t pid;

	for (pid = 1; pid <= NR_ROOM; pid++)
		see(pid, long_title('a'));
	cr_expect_eq(task_calls_nr_no_room(calls), 0);
	see(pid, "ray::f");
	cr_expect_eq(task_calls_nr_no_room(calls), 1);
	see(pid, "ray::IDLE");
	cr_expect_eq(task_calls_nr_no_room(calls), 2);
	cr_expect_eq(nr_reported, 0);
	task_calls_exit(calls, 1, 1, 5000);
	cr_expect_eq(nr_reported, 1);
	see(pid, "ray::f");
	see(pid, "ray::IDLE");
	cr_expect_eq(nr_reported, 2);
	cr_expect_str_eq(reported, "ray::f");
	cr_expect_eq(task_calls_nr_no_room(calls), 2);
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
		     NR_WORKERS - TASK_CALLS_MAX_BYTES / (900 + 5 + 1 + 900 + 1));
}
