// SPDX-License-Identifier: Apache-2.0
#include "tasks/task_timeline.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "profile/stats.h"
#include "tasks/task_calls.h"
#include "tasks/task_cpu.h"
#include "tasks/task_read.h"
#include "tasks/task_trace.h"

#define NR_NAMES 20000

static struct task_trace *trace;
static struct task_calls *calls;
static char *text;
static size_t text_len;
static struct task_timeline made;
static const struct task_cpu one_cpu[] = { { .title = "ray::f", .ns = 1500000000 } };
static const struct task_cpu *cpus = one_cpu;
static size_t nr_cpus = 1;

static const char *label(void *arg, const struct task_call *call)
{
	(void)arg;
	return call->pid == 7 ? "pod ml/\"a\"" : "";
}

static void on_call(void *arg, const struct task_call *call)
{
	task_trace_add(arg, call, label, NULL);
}

static void setup(void)
{
	cr_assert_eq(task_trace_new(&trace, "/tmp", 64U << 20), 0);
	cr_assert_eq(task_calls_new(&calls, 4, on_call, trace), 0);
}

static void teardown(void)
{
	task_calls_free(calls);
	task_trace_free(trace);
	free(text);
}

TestSuite(task_timeline, .init = setup, .fini = teardown);

static struct task_change change_of(uint32_t pid, uint64_t ns, const char *title,
				    const char *old_comm)
{
	return (struct task_change){ .pid = pid,
				     .start_ns = 1000 + pid,
				     .ts_ns = ns,
				     .main_thread = true,
				     .chosen = true,
				     .title = title,
				     .old_comm = old_comm };
}

static void title(uint32_t pid, uint64_t ns, const char *name, const char *old_comm)
{
	const struct task_change change = change_of(pid, ns, name, old_comm);

	task_calls_see(calls, &change);
}

static void look(uint32_t pid, uint64_t ns, const char *name)
{
	const struct task_change change = change_of(pid, ns, name, "");

	task_calls_poll(calls, &change, 100);
}

/* The written trace; the caller frees it. */
static json_t *written(uint64_t max_bytes)
{
	struct stats_reasons lost = { 0 };
	FILE *out = open_memstream(&text, &text_len);
	json_t *json;

	cr_assert(out);
	made = (struct task_timeline){ .trace = trace,
				       .cpus = cpus,
				       .nr_cpus = nr_cpus,
				       .facts.max_bytes = max_bytes,
				       .facts.host = "node1",
				       .facts.end_ns = 5000,
				       .facts.lost = &lost };
	task_calls_close(calls, 5000);
	cr_assert_eq(task_trace_close(trace), 0);
	task_trace_lost(trace, &lost);
	cr_assert_eq(task_timeline_write(out, &made), 0);
	fclose(out);
	cr_assert(text_len <= max_bytes, "%zu", text_len);
	json = json_loadb(text, text_len, 0, NULL);
	cr_assert(json, "%s", text);
	return json;
}

/* Each slice: `PID NAME CATEGORY MICROSECONDS+LENGTH [flags]`. */
static void expect(json_t *json, const char *wanted)
{
	char line[256], all[2048] = "";
	json_t *event, *args;
	size_t i;

	json_array_foreach(json_object_get(json, "traceEvents"), i, event)
	{
		if (strcmp(json_string_value(json_object_get(event, "ph")), "X"))
			continue;
		args = json_object_get(event, "args");
		snprintf(line, sizeof(line), "%lld %s %s %.1f+%.1f%s%s\n",
			 json_integer_value(json_object_get(event, "pid")),
			 json_string_value(json_object_get(event, "name")),
			 json_string_value(json_object_get(event, "cat")),
			 json_number_value(json_object_get(event, "ts")),
			 json_number_value(json_object_get(event, "dur")),
			 json_object_get(args, "begun_before") ? " before" : "",
			 json_object_get(args, "ended") ? " runs" : "");
		strncat(all, line, sizeof(all) - strlen(all) - 1);
	}
	cr_expect_str_eq(all, wanted, "%s\ninstead of\n%s", all, wanted);
}

Test(task_timeline, tasks_and_actors)
{
	json_t *json, *tasks;

	title(7, 1000, "ray::f", "ray::IDLE");
	title(7, 1500, "ray::IDLE", "ray::f");
	title(8, 1100, "ray::A.__init__", "ray::IDLE");
	title(8, 1200, "ray::A", "ray::A.__init__");
	title(8, 1300, "ray::special", "ray::A"); /* .options(name=) */
	title(8, 1400, "ray::A", "ray::special");
	title(8, 2000, "ray::A.run", "ray::A");
	json = written(1 << 20);
	expect(json, "7 ray::f task 1.0+0.5\n8 ray::A.__init__ actor 1.1+0.1\n"
		     "8 ray::special actor 1.3+0.1\n8 ray::A.run actor 2.0+3.0 runs\n");
	cr_expect(strstr(text,
			 "\"name\":\"process_labels\",\"args\":{\"labels\":\"pod ml/\\\"a\\\"\"}"));
	cr_expect(strstr(text, "\"name\":\"process_name\",\"args\":{\"name\":\"ray::A\"}"));
	tasks = json_object_get(json_object_get(json, "otherData"), "tasks");
	cr_expect_float_eq(
		json_number_value(json_object_get(json_array_get(tasks, 0), "cpu_seconds")), 1.5,
		1e-9);
	json_decref(json);
}

/* Calls from before the start: the next title shows what they were, if one comes. */
Test(task_timeline, begun_before)
{
	json_t *json;

	look(1, 150, "ray::f");
	look(2, 150, "ray::A");
	look(3, 150, "ray::B.run");
	look(4, 150, "ray::g");
	title(1, 1000, "ray::IDLE", "ray::f");
	title(2, 1100, "ray::A.run", "ray::A"); /* it had been at rest */
	title(2, 1200, "ray::A", "ray::A.run");
	title(3, 1300, "ray::B", "ray::B.run");
	json = written(1 << 20);
	expect(json, "1 ray::f task 0.1+0.9 before\n3 ray::B.run actor 0.1+1.2 before\n"
		     "4 ray::g unclear 0.1+4.9 before runs\n2 ray::A.run actor 1.1+0.1\n");
	json_decref(json);
}

/* A change from before the poll may come after it: then all changes come after it. */
Test(task_timeline, looked_at_too_late)
{
	json_t *json;

	look(1, 900, "ray::f");
	title(1, 400, "ray::f", "ray::IDLE");
	title(1, 1000, "ray::IDLE", "ray::f");
	look(1, 2000, "ray::IDLE");
	title(1, 3000, "ray::f", "ray::IDLE");
	title(1, 3100, "ray::IDLE", "ray::f");
	json = written(1 << 20);
	expect(json, "1 ray::f task 0.4+0.6\n1 ray::f task 3.0+0.1\n");
	json_decref(json);
}

/* A pid may be that of two workers, one after the other; workers past the limit are counted. */
Test(task_timeline, pids)
{
	struct task_change again = change_of(1, 2000, "ray::g", "ray::IDLE");
	json_t *json;
	uint32_t i;

	title(1, 1000, "ray::f", "ray::IDLE");
	task_calls_exit(calls, 1, 1001, 1500);
	again.start_ns = 9999;
	task_calls_see(calls, &again);
	task_calls_exit(calls, 1, 9999, 2500);
	for (i = 10; i < 15; i++)
		title(i, 3000, "ray::IDLE", "python");
	cr_expect_eq(task_calls_nr_left_out(calls), 1);
	json = written(1 << 20);
	expect(json, "1 ray::f task 1.0+0.5\n1 ray::g task 2.0+0.5\n");
	cr_expect(!strstr(strstr(text, "process_name") + 1, "process_name"), "named twice");
	json_decref(json);
}

static void title_in(uint32_t tid, uint64_t ns, const char *name)
{
	struct task_change change = change_of(1, ns, name, "ray::A");

	change.main_thread = false;
	change.tid = tid;
	task_calls_see(calls, &change);
}

/* Calls that overlap are in tracks of their own, as few as there can be; the reader counts them. */
Test(task_timeline, overlapping)
{
	const int64_t pids = 1 << 22;
	const int64_t want[] = { 1, pids + 1, pids + 2, pids + 1, 1 };
	const int64_t want_threads[] = { 11, 12, 13, 12, 11 };
	struct task_read *task_read;
	struct task_row *rows;
	json_t *json, *event;
	size_t i, nr, at = 0;

	title_in(11, 1000, "ray::A.a");
	title_in(12, 1100, "ray::A.b");
	title_in(13, 1200, "ray::A.c");
	title_in(12, 1300, "ray::A");
	title_in(12, 1400, "ray::A.d");
	title_in(11, 1500, "ray::A");
	title_in(11, 1500, "ray::A.e");
	title_in(11, 1600, "ray::A");
	title_in(12, 1700, "ray::A");
	json = written(1 << 20);
	expect(json, "1 ray::A.a actor 1.0+0.5\n1 ray::A.b actor 1.1+0.2\n"
		     "1 ray::A.c actor 1.2+3.8 runs\n1 ray::A.d actor 1.4+0.3\n"
		     "1 ray::A.e actor 1.5+0.1\n");
	json_array_foreach(json_object_get(json, "traceEvents"), i, event)
	{
		if (strcmp(json_string_value(json_object_get(event, "ph")), "X"))
			continue;
		cr_expect_eq(json_integer_value(json_object_get(event, "tid")), want[at], "%zu",
			     at);
		cr_expect_eq(
			json_integer_value(json_object_get(json_object_get(event, "args"), "tid")),
			want_threads[at], "%zu", at);
		at++;
	}
	cr_expect_eq(at, 5);
	cr_expect(strstr(text, "\"calls at once: 2\"") && strstr(text, "\"calls at once: 3\"") &&
		  !strstr(text, "\"calls at once: 4\""));
	cr_assert_eq(task_read_new(&task_read), 0);
	cr_assert_eq(task_read_push(task_read, text, text_len), 0);
	cr_assert_eq(task_read_end(task_read), 0);
	rows = task_read_rows(task_read, &nr);
	cr_expect_eq(nr, 6); /* and ray::f, which has CPU time only */
	cr_expect_str_eq(rows[0].name, "A.c");
	cr_expect_eq(rows[0].total_ns, 3800);
	cr_expect(!task_read_totals(task_read)->nr_not_understood);
	free(rows);
	task_read_free(task_read);
	json_decref(json);
}

Test(task_timeline, newest_kept)
{
	json_t *json;
	uint64_t i;

	for (i = 0; i < 2000; i++) {
		title(1, 1000 * i, "ray::f", "ray::IDLE");
		title(1, 1000 * i + 500, "ray::IDLE", "ray::f");
	}
	json = written(100000);
	cr_expect(made.facts.nr_dropped > 0 && made.facts.nr_kept + made.facts.nr_dropped == 2000);
	cr_expect_gt(text_len, 85000);
	cr_expect_eq(json_array_size(json_object_get(json, "traceEvents")), made.facts.nr_kept + 2);
	cr_expect(strstr(text, "\"ts\":1999.000"), "the newest is not there");
	json_decref(json);
}

/*
 * The reader's view of the trace: names with CPU time, and the number of calls that were left out.
 */
static size_t names_read(uint64_t *ret_dropped)
{
	struct task_read *task_read;
	struct task_row *rows;
	size_t nr, i, known = 0;

	cr_assert_eq(task_read_new(&task_read), 0);
	cr_assert_eq(task_read_push(task_read, text, text_len), 0);
	cr_assert_eq(task_read_end(task_read), 0);
	rows = task_read_rows(task_read, &nr);
	for (i = 0; i < nr; i++)
		if (!rows[i].nr)
			cr_assert_eq(rows[i].cpu_ns, (NR_NAMES - known++) * 1000000ULL);
	free(rows);
	*ret_dropped = task_read_totals(task_read)->nr_cpus_dropped;
	cr_expect(!task_read_totals(task_read)->nr_not_understood);
	task_read_free(task_read);
	return known;
}

static void names_make(void)
{
	static struct task_cpu list[NR_NAMES];
	static char titles[NR_NAMES][32];
	size_t i;

	for (i = 0; i < NR_NAMES; i++) {
		snprintf(titles[i], sizeof(titles[i]), "ray::f%zux", i);
		list[i] =
			(struct task_cpu){ .title = titles[i], .ns = (NR_NAMES - i) * 1000000ULL };
	}
	cpus = list;
	nr_cpus = NR_NAMES;
}

Test(task_timeline, many_names)
{
	uint64_t dropped;

	names_make();
	json_decref(written(64U << 20));
	cr_expect_eq(names_read(&dropped), NR_NAMES);
	cr_expect_eq(dropped, 0);
}

/* A part of the file is for them, and no more: those that used the most stay, calls too. */
Test(task_timeline, too_many_names)
{
	uint64_t dropped;
	size_t nr;

	names_make();
	title(1, 1000, "ray::f", "ray::IDLE");
	title(1, 1500, "ray::IDLE", "ray::f");
	json_decref(written(1U << 20));
	cr_expect_eq(made.facts.nr_kept, 1);
	nr = names_read(&dropped);
	cr_expect(nr > 4000 && nr + dropped == NR_NAMES, "%zu", nr);
}
