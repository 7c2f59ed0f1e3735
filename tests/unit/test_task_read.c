// SPDX-License-Identifier: Apache-2.0
#include "tasks/task_read.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "proc/title.h"
#include "tasks/task_cpu.h"
#include "tasks/task_report.h"

#define HEAD "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
#define SLICE(name, cat, us, args)                                                                 \
	"{\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":5,\"name\":\"" name "\",\"cat\":\"" cat          \
	"\",\"dur\":" us ",\"args\":{" args "}},\n"
#define TAIL(rest)                                                                                 \
	"],\"otherData\":{\"of\":\"ray\",\"seconds\":2.5,\"calls_dropped\":3,\"lost\":{\"x\":"     \
	"2}" rest "}}\n"
#define CPU                                                                                        \
	",\"tasks\":[{\"name\":\"ray::f\",\"cpu_seconds\":0.5},{\"name\":\"ray::IDLE\",\"cpu_"     \
	"seconds\":1}]"

#define ROWS                                                                                       \
	"],\"otherData\":{\"of\":\"ray\",\"seconds\":1,\"tasks_dropped\":7,\"tasks\":[\n"          \
	"{\"name\":\"ray::f\",\"cpu_seconds\":0.5},\n{\"name\":\"g\",\"cpu_seconds\":2}\n"

static struct task_read *task_read;

static void begin(void)
{
	cr_assert_eq(task_read_new(&task_read), 0);
}

static void end(void)
{
	task_read_free(task_read);
}

TestSuite(task_read, .init = begin, .fini = end);

/* In pieces of so many bytes. */
static int file_in(const char *text, size_t step)
{
	size_t len = strlen(text), at, part;
	int err;

	for (at = 0; at < len; at += part) {
		part = len - at < step ? len - at : step;
		err = task_read_push(task_read, text + at, part);
		if (err)
			return err;
	}
	return task_read_end(task_read);
}

static const char good[] =
	HEAD "{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_name\",\"args\":{}},\n" SLICE(
		"ray::f", "task", "1000.5", "") SLICE("ray::A.g", "actor", "3", "\"ended\":false")
		SLICE("ray::f", "task", "3000", "\"begun_before\":true")
			SLICE("ray::f", "task", "2000", "") SLICE("ray::f", "task", "9000", "")
				SLICE("ray::h", "unclear", "9000", "") TAIL(CPU);

Test(task_read, two_files_in_pieces)
{
	const struct task_read_totals *totals;
	struct task_row *rows;
	size_t nr, step;

	for (step = 1; step < 400; step *= 7) {
		task_read_free(task_read);
		begin();
		cr_assert_eq(file_in(good, step), 0);
		cr_assert_eq(file_in(good, sizeof(good)), 0);
		rows = task_read_rows(task_read, &nr);
		cr_assert(rows && nr == 3);
		cr_expect_str_eq(rows[0].name, "f");
		cr_expect_eq(rows[0].nr, 8);
		cr_expect_eq(rows[0].total_ns, 2 * 15000500);
		cr_expect_eq(rows[0].median_ns, 2000000);
		cr_expect_eq(rows[0].longest_ns, 9000000);
		cr_expect_eq(rows[0].cpu_ns, 1000000000);
		cr_expect_eq(rows[0].nr_part, 2);
		cr_expect(!rows[0].actor);
		cr_expect_str_eq(rows[1].name, "A.g");
		cr_expect(rows[1].actor && rows[1].nr_part == 2);
		cr_expect_str_eq(rows[2].name, "IDLE");
		cr_expect(!rows[2].nr && rows[2].cpu_ns == 2000000000);
		free(rows);
		totals = task_read_totals(task_read);
		cr_expect_eq(totals->nr_files, 2);
		cr_expect_float_eq(totals->seconds, 5, 1e-9);
		cr_expect(totals->nr_unclear == 2 && totals->nr_dropped == 6 && totals->cpu_known &&
			  !totals->nr_not_understood);
		cr_expect(totals->nr_lost == 1 && totals->lost[0].count == 4 &&
			  !strcmp(totals->lost[0].name, "x"));
	}
}

Test(task_read, table)
{
	struct buf text = { .max = 1 << 20 };
	struct task_row *rows;
	size_t nr;

	cr_assert_eq(file_in(good, 100), 0);
	rows = task_read_rows(task_read, &nr);
	task_report(&text, rows, nr, task_read_totals(task_read), 1);
	cr_expect_str_eq(
		text.data,
		"5 calls of 2 names in 2.5 s\n\n"
		"    calls        mean      median     longest       total   share         CPU   "
		"longest/  kind   name\n"
		"                                                                                  "
		"median\n"
		"        4      3.8 ms      2.0 ms      9.0 ms     15.0 ms  100.0%      0.50 s     "
		"   "
		"4.5  task   f\n"
		"      and 1 more\n\n"
		"Workers used 1.00 s of CPU outside of these calls.\n"
		"2 calls had begun before or had not ended: what was seen of them counts.\n"
		"1 worker had one title all the time, as a task that runs or an actor that rests: "
		"not counted.\n"
		"3 older calls did not fit in --max-trace-bytes: not counted.\n"
		"Calls are missing, for what was lost is:\n        2 x\n",
		"%s", text.data);
	free(rows);
	buf_fini(&text);
}

/* Sums of impossible times do not wrap around. */
Test(task_read, far_too_long)
{
	struct task_row *rows;
	size_t nr, i;

	for (i = 0; i < 30; i++)
		cr_assert_eq(file_in(HEAD SLICE("f", "task", "1e15", "") TAIL(""), 100), 0);
	rows = task_read_rows(task_read, &nr);
	cr_expect(rows && nr == 1 && rows[0].total_ns == UINT64_MAX);
	free(rows);
}

Test(task_read, cpu_not_recorded)
{
	cr_assert_eq(file_in(HEAD TAIL(""), 100), 0);
	cr_expect(!task_read_totals(task_read)->cpu_known);
}

Test(task_read, entries_of_the_wrong_type)
{
	struct task_row *rows;
	size_t nr;

	cr_assert_eq(
		file_in(HEAD SLICE("f", "task", "-1", "") SLICE("f", "task", "\"1\"", "") SLICE(
				"f", "task", "1e300",
				"") "[1],\n7,\nnothing,\n{},\n"
				    "{\"ph\":\"X\",\"name\":3,\"cat\":\"task\",\"dur\":1},\n" TAIL(
					    ",\"tasks\":[{},7]"),
			1000),
		0);
	cr_expect_eq(task_read_totals(task_read)->nr_not_understood, 10);
	rows = task_read_rows(task_read, &nr);
	cr_expect(rows && !nr);
	free(rows);
}

Test(task_read, other_files)
{
	cr_expect_eq(file_in("", 1), -EBADMSG);
	cr_expect_eq(file_in("[1, 2]\n", 10), -EBADMSG);
	task_read_free(task_read);
	begin();
	cr_expect_eq(file_in(HEAD SLICE("f", "task", "1", ""), 10), -ENODATA, "cut short");
	cr_expect_eq(file_in(HEAD "],\"otherData\":{\"calls\":1}}\n", 10), -EBADMSG, "of gpu");
	task_read_free(task_read);
	begin();
	cr_expect_eq(file_in(HEAD TAIL("") "{}\n", 10), -EBADMSG, "goes on");
	task_read_free(task_read);
	begin();
	cr_expect_eq(file_in(HEAD "],\n", 10), -ENODATA);
}

/* CPU times as they are written: in lines of their own. */
Test(task_read, rows_of_cpu)
{
	struct task_row *rows;
	size_t nr, step;

	for (step = 1; step < 400; step *= 7)
		cr_assert_eq(file_in(HEAD SLICE("f", "task", "1", "") ROWS "]}}\n", step), 0);
	rows = task_read_rows(task_read, &nr);
	cr_assert(rows && nr == 2);
	cr_expect(rows[0].nr == 4 && rows[0].cpu_ns == 2000000000);
	cr_expect(!rows[1].nr && rows[1].cpu_ns == 8000000000);
	free(rows);
	cr_expect(task_read_totals(task_read)->cpu_known &&
		  task_read_totals(task_read)->nr_cpus_dropped == 28 &&
		  !task_read_totals(task_read)->nr_not_understood);
	cr_expect_eq(file_in(HEAD ROWS, 100), -ENODATA);
	task_read_free(task_read);
	begin();
	cr_expect_eq(file_in(HEAD ROWS TAIL(""), 100), -EBADMSG);
}

/* A line that is too long is skipped; names are cut. */
Test(task_read, too_long)
{
	size_t half = 1U << 16, at;
	char *line = malloc(2 * half + 2), name[TITLE_MAX + 12] = "";
	struct task_row *rows;
	struct buf text = { .max = 1 << 16 };
	size_t nr;

	cr_assert(line);
	memset(name, 'n', sizeof(name) - 1);
	for (at = 0; at < 2 * half; at += 2)
		memcpy(line + at, "7,", 2);
	memcpy(line + at, "\n", 2);
	line[0] = '[';
	cr_expect_eq(file_in(line, half), -EBADMSG);
	task_read_free(task_read);
	begin();
	cr_assert_eq(task_read_push(task_read, HEAD, strlen(HEAD)), 0);
	cr_assert_eq(task_read_push(task_read, line, 2 * half + 1), 0);
	buf_printf(&text, SLICE("%s", "task", "1", "") "%s", name, TAIL(""));
	cr_assert_eq(file_in(text.data, half), 0);
	buf_fini(&text);
	cr_expect_eq(task_read_totals(task_read)->nr_not_understood, 1);
	rows = task_read_rows(task_read, &nr);
	cr_assert(rows && nr == 1);
	cr_expect_eq(strlen(rows[0].name), TITLE_MAX);
	free(rows);
	free(line);
}

/* Time of names that were too many is not that outside of calls. */
Test(task_read, other_names)
{
	struct buf text = { .max = 1 << 20 };
	struct task_row *rows;
	size_t nr;

	cr_assert_eq(file_in(HEAD SLICE("f", "task", "1", "") TAIL(
				     ",\"tasks\":[{\"name\":\"ray::IDLE\",\"cpu_seconds\":0.25},"
				     "{\"name\":\"ray::(other)\",\"cpu_seconds\":3}]"),
			     1000),
		     0);
	rows = task_read_rows(task_read, &nr);
	task_report(&text, rows, nr, task_read_totals(task_read), 0);
	cr_expect(strstr(text.data,
			 "\nWorkers used 0.25 s of CPU outside of these calls.\n"
			 "3.00 s of CPU belong to names beyond the first 256 of a worker, in "
			 "one sum.\n"),
		  "%s", text.data);
	free(rows);
	buf_fini(&text);
}

/* Parts of one thing are one row; the file has each by its name. */
Test(task_read, names_that_differ_in_numbers)
{
	struct buf text = { .max = 1 << 20 };
	struct task_row *rows;
	size_t nr;

	cr_assert_eq(
		file_in(HEAD SLICE("ray::part-0", "task", "600000", "") SLICE("ray::part-1", "task",
									      "4200000", "")
				SLICE("ray::part-1", "task", "500000", "\"ended\":false") SLICE(
					"ray::part-2", "task", "700000",
					"") SLICE("ray::conv2d", "task", "1000",
						  "") SLICE("ray::conv3d", "task", "2000", "")
					TAIL(",\"tasks\":[{\"name\":\"ray::part-0\",\"cpu_"
					     "seconds\":0.5},"
					     "{\"name\":\"ray::part-9\",\"cpu_seconds\":0.25}]"),
			1000),
		0);
	rows = task_read_rows(task_read, &nr);
	cr_assert_eq(nr, 3);
	cr_expect_str_eq(rows[0].name, "part-1", "the one of the longest call");
	cr_expect_eq(rows[0].nr, 4);
	cr_expect_eq(rows[0].nr_part, 1);
	cr_expect_eq(rows[0].nr_names, 3);
	cr_expect_eq(rows[0].total_ns, 6000000000);
	cr_expect_eq(rows[0].median_ns, 600000000);
	cr_expect_eq(rows[0].longest_ns, 4200000000);
	cr_expect_eq(rows[0].cpu_ns, 750000000);
	task_report(&text, rows, nr, task_read_totals(task_read), 2);
	cr_expect(strstr(text.data, "6 calls of 5 names in 2.5 s"), "%s", text.data);
	cr_expect(strstr(text.data, " 7.0  task   part-# (3 names)\n"), "%s", text.data);
	cr_expect(strstr(text.data, "  task   conv3d\n      and 1 more\n"), "%s", text.data);
	free(rows);
	buf_fini(&text);
}

Test(task_read, cpu_of_names_that_differ_in_numbers)
{
	struct task_cpu list[] = { { .title = "ray::f", .ns = 3000000000 },
				   { .title = "ray::part-0", .ns = 2000000000 },
				   { .title = "ray::part-1", .ns = 2500000000 } };
	struct buf text = { .max = 1 << 20 };
	size_t nr = 3;

	cr_assert_eq(task_cpu_group(list, &nr), 0);
	cr_assert_eq(nr, 2);
	task_report_cpu(&text, list, nr, 0);
	cr_expect(strstr(text.data, "3 titles of Ray workers, 7.50 s of CPU\n"), "%s", text.data);
	cr_expect(strstr(text.data, "     4.50 s   60.0%  part-# (2 names)\n"
				    "     3.00 s   40.0%  f\n"),
		  "%s", text.data);
	buf_fini(&text);
}

/* Each reason by its name, as often as all files say; of too many the rest is with the last. */
Test(task_read, lost)
{
	const struct task_read_totals *totals = task_read_totals(task_read);
	struct buf tail = { .max = 4096 };
	size_t i;

	buf_add_str(&tail, "],\"otherData\":{\"of\":\"ray\",\"lost\":{\"none\":0");
	for (i = 0; i < TASK_READ_MAX_REASONS + 5; i++)
		buf_printf(&tail, ",\"reason %zu of more than there may be of them\":%zu", i,
			   i + 1);
	buf_add_str(&tail, "}}}\n");
	for (i = 0; i < 2; i++) {
		cr_assert_eq(task_read_push(task_read, HEAD, strlen(HEAD)), 0);
		cr_assert_eq(file_in(tail.data, 100), 0);
	}
	cr_assert_eq(totals->nr_lost, TASK_READ_MAX_REASONS);
	for (i = 0; i + 1 < TASK_READ_MAX_REASONS; i++)
		cr_expect_eq(totals->lost[i].count, 2 * (i + 1));
	cr_expect_eq(totals->lost[i].count, 2 * (24 + 25 + 26 + 27 + 28 + 29));
	cr_expect_str_eq(totals->lost[0].name, "reason 0 of more than there may be of t");
	buf_fini(&tail);
}
