// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tasks/task_calls.h"
#include "tasks/task_times.h"

#define MS 1000000ULL

static struct task_times *times;

static void begin(void)
{
	cr_assert_eq(task_times_new(&times), 0);
}

static void end(void)
{
	task_times_free(times);
}

TestSuite(task_times, .init = begin, .fini = end);

/* Worker pid takes the title at that time. */
static bool title(uint32_t pid, uint64_t ms, const char *text, const char *old_comm)
{
	struct task_change change = { .pid = pid,
				      .own_pid = 1000 + pid,
				      .start_ns = 7 * pid,
				      .ts_ns = ms * MS,
				      .main_thread = true,
				      .title = text,
				      .old_comm = old_comm };

	return task_times_see(times, &change);
}

static void call(uint32_t pid, uint64_t from_ms, uint64_t to_ms, const char *text)
{
	title(pid, from_ms, text, "ray::IDLE");
	title(pid, to_ms, "ray::IDLE", text);
}

static struct task_time first(size_t want)
{
	size_t nr;
	struct task_time *list = task_times_list(times, &nr), one = { 0 };

	cr_assert_eq(nr, want, "%zu names", nr);
	if (nr)
		one = list[0];
	free(list);
	return one;
}

Test(task_times, one_long_among_ten)
{
	struct task_time time;
	uint32_t i;

	for (i = 0; i < 9; i++)
		call(i % 3, 1000 * i, 1000 * i + 200, "ray::f");
	call(5, 100, 4100, "ray::f");
	time = first(1);
	cr_expect_str_eq(time.name, "f");
	cr_expect_eq(time.nr, 10);
	cr_expect_eq(time.total_ns, 5800 * MS);
	cr_expect_eq(time.median_ns, 200 * MS);
	cr_expect_eq(time.longest_ns, 4000 * MS);
	cr_expect_eq(time.longest_pid, 1005);
	cr_expect(!time.longest_runs);
}

/* Each is called once: only together they say anything. */
Test(task_times, names_that_differ_in_numbers)
{
	char text[64], group[64];
	struct task_time time;
	uint32_t i;

	for (i = 0; i < 10; i++) {
		snprintf(text, sizeof(text), "ray::part-%u", i);
		call(i, 1000, i == 7 ? 5200 : 1600, text);
	}
	time = first(1);
	task_group_text(group, sizeof(group), time.name, time.numbers);
	cr_expect_str_eq(group, "part-#");
	cr_expect_str_eq(time.name, "part-7", "the longest one");
	cr_expect_eq(time.nr, 10);
	cr_expect_eq(time.median_ns, 600 * MS);
	cr_expect_eq(time.longest_ns, 4200 * MS);
	cr_expect_eq(time.longest_pid, 1007);
	/* One name is no group, whatever is in it. */
	call(1, 10000, 90000, "ray::lone-7");
	call(2, 10000, 11000, "ray::lone-7");
	time = first(2);
	cr_expect_str_eq(time.name, "lone-7");
	cr_expect_eq(time.numbers, TASK_NUMBERS_NONE);
}

/*
 * A number may belong to the name of a function: each name then has its own durations, and some
 * have a sample of them.
 */
Test(task_times, names_that_end_in_numbers)
{
	struct task_time time;
	char text[64];
	uint32_t i;

	for (i = 0; i < 3000; i++) /* three of four take 20 ms, but seldom */
		call(1, 100 * i, 100 * i + 5, "ray::part_0");
	for (i = 0; i < 40; i++) {
		snprintf(text, sizeof(text), "ray::part_%u", 1 + i % 4);
		call(2, 100 * i, 100 * i + 20, text);
	}
	time = first(1);
	cr_expect_eq(time.numbers, TASK_NUMBERS_ALL);
	cr_expect_eq(time.nr, 3040);
	cr_expect_eq(time.total_ns, (3000 * 5 + 40 * 20) * MS);
	cr_expect_eq(time.median_ns, 5 * MS);
	cr_expect_eq(time.longest_ns, 20 * MS);
}

/* More than there is room for names: they take up one. */
Test(task_times, many_of_a_group)
{
	char text[64];
	uint32_t i;

	for (i = 0; i < 3 * TASK_TIMES_MAX_NAMES; i++) {
		snprintf(text, sizeof(text), "ray::part-%u", i);
		call(1, i, i + 1, text);
	}
	cr_expect_eq(first(1).nr, 3 * TASK_TIMES_MAX_NAMES);
	cr_expect_eq(task_times_nr_left_out(times), 0);
}

Test(task_times, still_running)
{
	struct task_time time;

	call(1, 0, 100, "ray::f");
	title(2, 50, "ray::f", "ray::IDLE");
	task_times_close(times, 950 * MS);
	time = first(1);
	cr_expect_eq(time.nr, 2);
	cr_expect_eq(time.longest_ns, 900 * MS);
	cr_expect_eq(time.longest_pid, 1002);
	cr_expect(time.longest_runs);
}

/* A call that ran when the recording began has no known begin. */
Test(task_times, begun_before)
{
	title(1, 100, "ray::IDLE", "ray::f");
	first(0);
	title(2, 100, "ray::Actor", "ray::Actor.run");
	first(0);
}

Test(task_times, actor)
{
	struct task_time time;

	title(1, 0, "ray::A.__init__", "ray::IDLE");
	title(1, 10, "ray::A", "ray::A.__init__");
	title(1, 20, "ray::A.step", "ray::A");
	title(1, 50, "ray::A", "ray::A.step");
	time = first(1); /* the constructor is not one of the program's calls */
	cr_expect_str_eq(time.name, "A.step");
	cr_expect_eq(time.total_ns, 30 * MS);
}

/* A thread of it got a name: the title is the same, and no new call. */
Test(task_times, same_title_again)
{
	title(1, 0, "ray::f", "ray::IDLE");
	title(1, 10, "ray::f", "ray::f");
	title(1, 30, "ray::IDLE", "ray::f");
	cr_expect_eq(first(1).nr, 1);
	cr_expect_eq(first(1).total_ns, 30 * MS);
}

Test(task_times, lost_changes)
{
	struct task_change change = { .pid = 1,
				      .start_ns = 7,
				      .ts_ns = 900 * MS,
				      .main_thread = true,
				      .lost = 3,
				      .title = "ray::f",
				      .old_comm = "ray::IDLE" };

	title(1, 0, "ray::f", "ray::IDLE");
	task_times_see(times, &change); /* the same title, but another call */
	title(1, 910, "ray::IDLE", "ray::f");
	cr_expect_eq(first(1).nr, 1);
	cr_expect_eq(first(1).longest_ns, 10 * MS);
	cr_expect_eq(task_times_nr_left_out(times), 3);
}

/* Lost changes after the last change are not reported by a change. */
Test(task_times, lost_at_the_end)
{
	title(1, 0, "ray::f", "ray::IDLE");
	title(2, 0, "ray::f", "ray::IDLE");
	task_times_lose(times, 1, 7, 0);
	task_times_lose(times, 2, 15, 3); /* another process with this pid */
	first(0);
	task_times_lose(times, 2, 14, 3);
	task_times_exit(times, 2, 14, 400 * MS);
	task_times_close(times, 900 * MS);
	cr_expect_eq(first(1).nr, 1);
	cr_expect_eq(first(1).total_ns, 900 * MS);
	cr_expect_eq(task_times_nr_left_out(times), 3);
}

/* Methods in threads of their own overlap: each takes its own time. */
Test(task_times, in_threads)
{
	struct task_change change = { .pid = 1,
				      .start_ns = 7,
				      .ts_ns = 20 * MS,
				      .tid = 2,
				      .title = "ray::A.g",
				      .old_comm = "ray::A" };

	title(1, 10, "ray::A.f", "ray::A");
	task_times_see(times, &change);
	title(1, 90, "ray::A", "ray::A.f");
	cr_expect_eq(first(1).total_ns, 80 * MS);
	change.ts_ns = 120 * MS;
	change.title = "ray::A";
	task_times_see(times, &change);
	cr_expect_eq(first(2).total_ns, 100 * MS);
}

Test(task_times, exit_ends_a_call)
{
	title(1, 0, "ray::f", "ray::IDLE");
	task_times_exit(times, 1, 8, 50 * MS); /* another process with this pid */
	first(0);
	task_times_exit(times, 1, 7, 50 * MS);
	cr_expect_eq(first(1).total_ns, 50 * MS);
	cr_expect(!first(1).longest_runs);
}

Test(task_times, of_interest)
{
	cr_expect(!title(1, 0, "ray::IDLE", "python"));
	cr_expect(title(1, 0, "ray::f", "ray::IDLE"));
	cr_expect(!title(1, 1, "ray::IDLE", "ray::f"));
	cr_expect(title(2, 1, "ray::f", "ray::IDLE"));
}

/* The median of very many calls is that of a sample of them. */
Test(task_times, many)
{
	uint64_t i;

	for (i = 0; i < 100000; i++)
		call(1, 100 * i, 100 * i + 1 + i % 21, "ray::f"); /* 1 to 21 ms */
	cr_expect_eq(first(1).nr, 100000);
	cr_expect_eq(first(1).longest_ns, 21 * MS);
	cr_expect(first(1).median_ns >= 9 * MS && first(1).median_ns <= 13 * MS, "%llu",
		  (unsigned long long)first(1).median_ns);
}

Test(task_times, bounded)
{
	char text[64];
	uint32_t i;

	for (i = 0; i < 3 * TASK_TIMES_MAX_NAMES; i++) {
		snprintf(text, sizeof(text), "ray::f%ux", i);
		call(1, i, i + 1, text);
	}
	cr_expect(!title(1, i, "ray::one more", "ray::IDLE"));
	cr_expect_gt(task_times_nr_left_out(times), TASK_TIMES_MAX_NAMES);
	for (i = 0; i < 3 * TASK_TIMES_MAX_WORKERS; i++)
		call(i, 10, 20, "ray::f0x");
	cr_expect_lt(first(TASK_TIMES_MAX_NAMES - 1).nr, TASK_TIMES_MAX_WORKERS + 2);
}
