// SPDX-License-Identifier: Apache-2.0
#include "gpu/report_read.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "gpu/report.h"

TestSuite(gpu_read, .timeout = 60);

static struct gpu_read filled;

static int add(const char *text)
{
	return gpu_read_add(&filled, "a.json", text, strlen(text));
}

static void setup(void)
{
	cr_assert_eq(gpu_read_init(&filled), 0);
}

static void teardown(void)
{
	gpu_read_fini(&filled);
}

/* gpu_read reads back the output of gpu_json(). */
Test(gpu_read, what_gpu_writes, .init = setup, .fini = teardown)
{
	static const char *const stack[] = { "ncclAllReduce", "Trainer.fit (loop.py:31)" };
	const struct gpu_report_collective collective = {
		"ncclAllReduce", "bfloat16", "op",  "sum", 0xc0, 7, 118,
		1250000000,	 42000,	     41000, true
	};
	const struct gpu_report_completion completions[] = {
		{ .operation = "ncclAllReduce",
		  .datatype = "bfloat16",
		  .extra_name = "op",
		  .extra = "sum",
		  .comm = 0xc0,
		  .bytes = 4096,
		  .count = 17,
		  .ns = 510,
		  .max_ns = 40,
		  .within_ns = 34,
		  .within_max_ns = 5,
		  .pending = 1,
		  .unknown = 2 },
		{ .operation = "ncclSend",
		  .datatype = "int8",
		  .extra_name = "peer",
		  .extra = "1",
		  .comm = 0xc0,
		  .bytes = 4096,
		  .pending = 1,
		  .pending_seconds = 42.5,
		  .pending_stream = 7 },
		{ .operation = "ncclRecv",
		  .datatype = "int8",
		  .extra_name = "peer",
		  .extra = "1",
		  .comm = 0xc0,
		  .bytes = 4096,
		  .unknown = 3 },
	};
	const struct gpu_report_comm comms[] = {
		{ 0xc0, true, UINT64_MAX, 3, 8, 120, "ncclAllReduce" },
		{ .comm = 0xdead, .calls = 1, .last = "ncclSend" }
	};
	const struct gpu_report_grouped grouped[] = {
		{ "ncclSend", "float32", "peer", "3", 0xc0, 7, 4096, 2 },
		{ "ncclAllReduce", "float32", "op", "sum", 0xdead, 8, 64, 1 },
	};
	const struct gpu_report_open open[] = {
		{ .tid = 102,
		  .thread = "pt_nccl",
		  .function = "ncclAllReduce",
		  .seconds = 42.5,
		  .stream = 7,
		  .comm = 0xc0,
		  .bytes = 64,
		  .stack = stack,
		  .nr_stack = 2 },
		{ .tid = 103,
		  .thread = "sync",
		  .function = "cudaStreamSynchronize",
		  .seconds = 1.5,
		  .since_before = true },
		{ .tid = 104,
		  .thread = "group",
		  .function = "ncclGroupEnd",
		  .ends_group = true,
		  .group = { true, true, 3, grouped, 2 } },
		{ .tid = 105, .thread = "group", .function = "ncclGroupEnd", .ends_group = true },
	};
	const struct gpu_report_process process = {
		.pid = 4242,
		.name = "python3",
		.container = "trainer",
		.pod = "job-0",
		.namespace = "ml",
		.ray_task = "",
		.rank = "3",
		.collectives = &collective,
		.nr_collectives = 1,
		.completions = completions,
		.nr_completions = 3,
		.comms = comms,
		.nr_comms = 2,
		.open = open,
		.nr_open = 4,
		.memory = { .live_bytes = 76,
			    .device_known = true,
			    .device_free = 17,
			    .device_total = 800 },
	};
	const struct gpu_report_where where[] = {
		{ .tid = 201, .thread = "python3", .running = true, .stack = stack, .nr_stack = 2 },
		{ .tid = 202, .thread = "pt_nccl", .was_in_nccl = true },
	};
	const struct gpu_report_process silent = { .pid = 4243,
						   .name = "python3",
						   .container = "",
						   .pod = "job-1",
						   .namespace = "",
						   .ray_task = "",
						   .rank = "4",
						   .where = where,
						   .nr_where = 2 };
	const struct gpu_report report = { .host = "node-1",
					   .seconds = 10,
					   .processes = &process,
					   .nr_processes = 1,
					   .silent = &silent,
					   .nr_silent = 1 };
	const struct gpu_report_process *read, *other;
	struct buf text;
	uint32_t peer;

	buf_init(&text, 1 << 20);
	gpu_json(&text, &report);
	cr_assert_eq(buf_error(&text), 0);
	cr_assert_eq(add(text.data), 0);
	buf_fini(&text);
	cr_assert_eq(filled.nr_files, 1);
	cr_expect_str_eq(filled.files[0].path, "a.json");
	cr_expect_str_eq(filled.files[0].report.host, "node-1");
	cr_expect_eq(filled.files[0].report.seconds, 10);
	cr_expect_eq(filled.files[0].report.nr_processes, 1);
	cr_expect_eq(filled.files[0].report.nr_silent, 1);
	cr_assert_eq(filled.nr_processes, 2);
	read = filled.processes[0].report;
	other = filled.processes[1].report;
	cr_expect_eq(read->nr_open, 4);
	cr_expect_eq(read->nr_comms, 2);
	cr_expect_eq(read->nr_collectives, 1);
	cr_expect(filled.processes[1].silent);
	cr_expect_eq(other->pid, 4243);
	cr_expect_eq(filled.processes[1].file, 0);
	cr_expect_str_eq(other->pod, "job-1");
	cr_expect_str_eq(other->rank, "4");
	cr_expect_eq(other->nr_open, 0);
	cr_assert_eq(other->nr_where, 2);
	cr_expect_eq(other->where[0].tid, 201);
	cr_expect_str_eq(other->where[0].thread, "python3");
	cr_expect(other->where[0].running);
	cr_expect_not(other->where[0].was_in_nccl);
	cr_assert_eq(other->where[0].nr_stack, 2);
	cr_expect_str_eq(other->where[0].stack[0], stack[0]);
	cr_expect_str_eq(other->where[0].stack[1], stack[1]);
	cr_expect_eq(other->where[1].tid, 202);
	cr_expect_not(other->where[1].running);
	cr_expect(other->where[1].was_in_nccl);
	cr_expect_eq(other->where[1].nr_stack, 0);
	cr_expect_not(filled.processes[0].silent);
	cr_expect_eq(read->pid, 4242);
	cr_expect_str_eq(read->name, "python3");
	cr_expect_str_eq(read->container, "trainer");
	cr_expect_str_eq(read->pod, "job-0");
	cr_expect_str_eq(read->namespace, "ml");
	cr_expect_str_eq(read->ray_task, "");
	cr_expect_str_eq(read->rank, "3");
	cr_expect(read->memory.device_known);
	cr_expect_eq(read->memory.device_free, 17);
	cr_expect_eq(read->memory.device_total, 800);
	cr_expect_eq(read->memory.live_bytes, 76);
	cr_assert_eq(filled.nr_comms, 2);
	cr_expect(read->comms[0].known);
	cr_expect_eq(read->comms[0].comm, 0xc0);
	cr_expect_eq(read->comms[0].hash, UINT64_MAX);
	cr_expect_eq(read->comms[0].rank, 3);
	cr_expect_eq(read->comms[0].size, 8);
	cr_expect_eq(read->comms[0].calls, 120);
	cr_expect_str_eq(read->comms[0].last, "ncclAllReduce");
	cr_expect_not(read->comms[1].known);
	cr_expect_eq(read->comms[1].comm, 0xdead);
	cr_assert_eq(filled.nr_collectives, 1);
	cr_expect_str_eq(read->collectives[0].operation, "ncclAllReduce");
	cr_expect_str_eq(read->collectives[0].datatype, "bfloat16");
	cr_expect_eq(read->collectives[0].comm, 0xc0);
	cr_expect_eq(read->collectives[0].stream, 7);
	cr_expect_eq(read->collectives[0].calls, 118);
	cr_expect_eq(read->collectives[0].bytes, 1250000000);
	cr_expect_eq(read->collectives[0].ns, 42000);
	cr_expect_eq(read->collectives[0].max_ns, 41000);
	cr_expect(read->collectives[0].captured);
	cr_assert_eq(filled.nr_completions, 2); /* the third one is not known at all */
	cr_expect_eq(read->nr_completions, 2);
	cr_expect_eq(read->completions[0].pending, 1);
	cr_expect_eq(read->completions[1].count, 0);
	cr_expect_eq(read->completions[1].pending, 1);
	cr_expect_eq(read->completions[1].pending_seconds, 42.5);
	cr_expect_eq(read->completions[1].pending_stream, 7);
	cr_expect_str_eq(read->completions[0].operation, "ncclAllReduce");
	cr_expect_str_eq(read->completions[0].datatype, "bfloat16");
	cr_expect_eq(read->completions[0].comm, 0xc0);
	cr_expect_eq(read->completions[0].bytes, 4096);
	cr_expect_eq(read->completions[0].count, 17);
	cr_expect_eq(read->completions[0].ns, 510);
	cr_expect_eq(read->completions[0].max_ns, 40);
	cr_expect_eq(read->completions[0].within_ns, 34);
	cr_assert_eq(filled.nr_open, 4);
	cr_expect_not(read->open[0].group.complete);
	cr_expect_eq(read->open[0].group.nr, 0);
	cr_expect(read->open[2].group.complete);
	cr_expect_eq(read->open[2].group.calls, 3);
	cr_assert_eq(read->open[2].group.nr, 2);
	cr_expect_eq(filled.nr_rows[GPU_ROW_GROUPED], 2);
	cr_expect_str_eq(read->open[2].group.rows[0].operation, "ncclSend");
	cr_expect_str_eq(read->open[2].group.rows[0].datatype, "float32");
	cr_expect_eq(read->open[2].group.rows[0].comm, 0xc0);
	cr_expect_eq(read->open[2].group.rows[0].stream, 7);
	cr_expect_eq(read->open[2].group.rows[0].bytes, 4096);
	cr_expect_eq(read->open[2].group.rows[0].count, 2);
	cr_expect_str_eq(read->open[2].group.rows[0].extra_name, "peer");
	cr_expect_str_eq(read->open[2].group.rows[0].extra, "3");
	cr_expect(gpu_read_peer("ncclSend", read->open[2].group.rows[0].extra, &peer));
	cr_expect_eq(peer, 3);
	cr_expect_null(read->open[2].group.rows[1].extra);
	cr_expect_not(gpu_read_is_between_two(read->open[2].group.rows[1].operation));
	cr_expect_eq(read->open[2].group.rows[1].comm, 0xdead);
	cr_expect_not(read->open[3].group.complete);
	cr_expect_eq(read->open[3].group.calls, 0);
	cr_expect_not(read->open[0].since_before);
	cr_expect(read->open[1].since_before);
	cr_expect_eq(read->open[1].seconds, 1.5);
	cr_expect_eq(read->open[1].comm, 0);
	cr_expect_eq(read->open[0].tid, 102);
	cr_expect_str_eq(read->open[0].thread, "pt_nccl");
	cr_expect_str_eq(read->open[0].function, "ncclAllReduce");
	cr_expect_eq(read->open[0].seconds, 42.5);
	cr_expect_eq(read->open[0].comm, 0xc0);
	cr_expect_eq(read->open[0].bytes, 64);
	cr_assert_eq(read->open[0].nr_stack, 2);
	cr_expect_str_eq(read->open[0].stack[1], stack[1]);
	cr_expect_eq(filled.nr_not_understood, 0);
	cr_expect_eq(filled.nr_left_out, 0);
}

/* Entries of several processes stay with theirs. */
Test(gpu_read, ranges, .init = setup, .fini = teardown)
{
	cr_assert_eq(add("{\"host\":\"a\",\"processes\":["
			 "{\"pid\":1,\"communicators\":[{\"comm\":\"0x1\"},{\"comm\":\"0x2\"}]},"
			 "{\"pid\":2,\"open\":[{\"function\":\"f\"}]}]}"),
		     0);
	cr_assert_eq(add("{\"host\":\"b\",\"processes\":["
			 "{\"pid\":3,\"communicators\":[{\"comm\":\"0x3\"}]}]}"),
		     0);
	cr_assert_eq(filled.nr_files, 2);
	cr_assert_eq(filled.nr_processes, 3);
	cr_expect_eq(filled.processes[0].report->nr_comms, 2);
	cr_expect_eq(filled.processes[1].report->nr_comms, 0);
	cr_expect_eq(filled.processes[1].report->nr_open, 1);
	cr_expect_eq(filled.processes[2].file, 1);
	cr_assert_eq(filled.processes[2].report->nr_comms, 1);
	cr_expect_eq(filled.processes[2].report->comms[0].comm, 3);
	cr_expect_eq(filled.nr_comms, 3);
	cr_expect_eq(filled.nr_open, 1);
	cr_expect_eq(filled.nr_not_understood, 0);
}

Test(gpu_read, not_ours, .init = setup, .fini = teardown)
{
	static const char *const texts[] = {
		"",
		"x",
		"{",
		"[]",
		"{}",
		"1",
		"null",
		"\"host\"",
		"{\"host\":\"a\"}",
		"{\"processes\":[]}",
		"{\"host\":1,\"processes\":[]}",
		"{\"host\":\"a\",\"processes\":{}}",
		"{\"host\":\"a\",\"processes\":[]} more",
		"{\"host\":\"\xff\",\"processes\":[]}",
	};
	size_t i;

	for (i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		cr_expect_eq(add(texts[i]), -EBADMSG, "%s", texts[i]);
	cr_expect_eq(filled.nr_files, 0);
}

/* Values of a wrong type are skipped and counted, and the other values stay. */
Test(gpu_read, wrong_types, .init = setup, .fini = teardown)
{
	static const struct {
		const char *process;
		uint64_t nr;
		size_t nr_comms, nr_collectives, nr_open;
	} cases[] = {
		{ "7", 1, 0, 0, 0 },
		{ "{\"pid\":\"x\",\"name\":7,\"pod\":null,\"rank\":[]}", 3, 0, 0, 0 },
		{ "{\"pid\":-1}", 1, 0, 0, 0 },
		{ "{\"communicators\":7,\"collectives\":{},\"open\":\"\",\"memory\":[]}", 4, 0, 0,
		  0 },
		{ "{\"communicators\":[1,{},{\"comm\":7},{\"comm\":\"7\"},{\"comm\":\"0x\"},"
		  "{\"comm\":\"0x11111111111111111\"},{\"comm\":\"0x1g\"}]}",
		  7, 0, 0, 0 },
		{ "{\"communicators\":[{\"comm\":\"0x1\",\"hash\":null,\"rank\":null,\"size\":null}"
		  "]}",
		  0, 1, 0, 0 },
		{ "{\"communicators\":[{\"comm\":\"0x1\",\"hash\":\"0x2\",\"rank\":8,\"size\":8}]}",
		  1, 1, 0, 0 },
		{ "{\"communicators\":[{\"comm\":\"0x1\",\"hash\":\"0x2\",\"rank\":-1,\"size\":8}]"
		  "}",
		  1, 1, 0, 0 },
		{ "{\"communicators\":[{\"comm\":\"0x1\",\"hash\":\"0x2\",\"size\":8}]}", 1, 1, 0,
		  0 },
		{ "{\"communicators\":[{\"comm\":\"0x1\",\"hash\":\"0x2\",\"rank\":0.5,"
		  "\"size\":0.9}]}",
		  1, 1, 0, 0 },
		{ "{\"pid\":4294967296}", 1, 0, 0, 0 },
		{ "{\"pid\":4294967295}", 0, 0, 0, 0 },
		{ "{\"collectives\":[{},{\"operation\":\"x\"},{\"operation\":\"x\",\"calls\":1}]}",
		  2, 0, 1, 0 },
		{ "{\"open\":[{},{\"function\":\"x\",\"stack\":[1,\"y\"]},{\"function\":\"\"}]}", 3,
		  0, 0, 1 },
		{ "{\"memory\":{\"device_free\":9,\"device_total\":8}}", 1, 0, 0, 0 },
		{ "{\"memory\":{\"device_free\":null,\"device_total\":null}}", 0, 0, 0, 0 },
		{ "{\"unknown\":[1,2,{}]}", 0, 0, 0, 0 },
		{ "{\"where\":null}", 0, 0, 0, 0 },
		{ "{\"where\":7}", 1, 0, 0, 0 },
		{ "{\"where\":{\"tid\":1}}", 1, 0, 0, 0 },
		{ "{\"where\":[7,{\"tid\":\"x\",\"thread\":7,\"stack\":[\"f\",7]}]}", 4, 0, 0, 0 },
	};
	char text[1024];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		teardown();
		setup();
		snprintf(text, sizeof(text), "{\"host\":\"a\",\"processes\":[%s]}",
			 cases[i].process);
		cr_assert_eq(add(text), 0, "%s", text);
		cr_expect_eq(filled.nr_not_understood, cases[i].nr, "%s: %lu", text,
			     (unsigned long)filled.nr_not_understood);
		cr_expect_eq(filled.nr_comms, cases[i].nr_comms, "%s", text);
		cr_expect_eq(filled.nr_collectives, cases[i].nr_collectives, "%s", text);
		cr_expect_eq(filled.nr_open, cases[i].nr_open, "%s", text);
		cr_expect(!filled.nr_comms || !filled.processes[0].report->comms[0].known, "%s",
			  text);
		cr_expect(!filled.nr_processes || !filled.processes[0].report->memory.device_known,
			  "%s", text);
	}
}

/* A group is complete only if everything in it was understood. */
Test(gpu_read, groups, .init = setup, .fini = teardown)
{
#define REDUCES "{\"operation\":\"ncclAllReduce\",\"comm\":\"0x1\",\"count\":2}"
#define CALLS(nr) "],\"group_calls\":" nr ",\"group_complete\":true"
	static const struct {
		const char *group;
		uint64_t nr_not_understood;
		size_t nr;
		bool complete;
	} cases[] = {
		{ "\"group\":[" REDUCES CALLS("2"), 0, 1, true },
		{ "\"group\":[" REDUCES "," REDUCES CALLS("4"), 0, 2, true },
		{ "\"group\":[" REDUCES CALLS("3"), 0, 1, false },
		{ "\"group\":[" REDUCES "],\"group_calls\":2", 0, 1, false },
		{ "\"group\":[" REDUCES "],\"group_complete\":true", 0, 1, false },
		{ "\"group\":[" REDUCES "],\"group_calls\":2,\"group_complete\":1", 0, 1, false },
		{ "\"group\":[" REDUCES ",7" CALLS("2"), 1, 1, false },
		{ "\"group\":[" REDUCES ",{}" CALLS("2"), 1, 1, false },
		{ "\"group\":[" CALLS("0"), 0, 0, false },
		{ "\"group\":7,\"group_complete\":true", 1, 0, false },
		{ "\"group\":null,\"group_calls\":null,\"group_complete\":false", 0, 0, false },
		{ "\"group\":[{\"operation\":\"x\",\"comm\":\"0x0\",\"count\":1}" CALLS("1"), 0, 1,
		  true },
		{ "\"group\":[{\"operation\":\"x\",\"comm\":null,\"count\":1}" CALLS("1"), 0, 1,
		  false },
		{ "\"group\":[{\"operation\":\"x\",\"comm\":\"0x1\",\"count\":-1}" CALLS("0"), 2, 0,
		  false },
		{ "\"group\":[{\"operation\":\"ncclSend\",\"comm\":\"0x1\",\"count\":1,"
		  "\"peer\":1}" CALLS("1"),
		  0, 1, true },
		{ "\"group\":[{\"operation\":\"ncclSend\",\"comm\":\"0x1\",\"count\":1,"
		  "\"peer\":\"1\"}" CALLS("1"),
		  1, 1, false },
		{ "\"group\":[{\"operation\":\"ncclRecv\",\"comm\":\"0x1\",\"count\":1,"
		  "\"peer\":-1}" CALLS("1"),
		  1, 1, false },
		{ "\"group\":[{\"operation\":\"ncclRecv\",\"comm\":\"0x1\",\"count\":1}" CALLS("1"),
		  0, 1, false },
	};
	const struct gpu_report_group *group;
	char text[1024];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		teardown();
		setup();
		snprintf(text, sizeof(text),
			 "{\"host\":\"a\",\"processes\":[{\"open\":[{\"function\":\"x\",%s}]}]}",
			 cases[i].group);
		cr_assert_eq(add(text), 0, "%s", text);
		cr_assert_eq(filled.nr_open, 1, "%s", text);
		cr_expect_eq(filled.nr_not_understood, cases[i].nr_not_understood, "%s: %lu", text,
			     (unsigned long)filled.nr_not_understood);
		group = &filled.processes[0].report->open[0].group;
		cr_expect_eq(group->nr, cases[i].nr, "%s", text);
		cr_expect_eq(group->complete, cases[i].complete, "%s", text);
	}
}

/* A call with absurd arguments makes absurd sums: no reason to refuse the file. */
Test(gpu_read, large_numbers, .init = setup, .fini = teardown)
{
	cr_assert_eq(add("{\"host\":\"a\",\"seconds\":1e300,\"processes\":[{\"collectives\":["
			 "{\"operation\":\"x\",\"calls\":1,\"bytes\":18446744073709551615}]}]}"),
		     0);
	cr_assert_eq(filled.nr_collectives, 1);
	cr_expect_eq(filled.processes[0].report->collectives[0].bytes, 1ULL << 60);
	cr_expect_eq(filled.files[0].report.seconds, 1e9);
}

static char *repeated(const char *head, const char *one, size_t nr, const char *tail)
{
	struct buf text;

	buf_init(&text, 128U << 20);
	buf_add_str(&text, head);
	while (nr--)
		buf_add_str(&text, one);
	buf_add_str(&text, tail);
	return buf_take(&text);
}

#define REDUCE "{\"operation\":\"ncclAllReduce\",\"comm\":\"0x1\",\"count\":1}"

Test(gpu_read, too_many, .init = setup, .fini = teardown)
{
	char *text;
	size_t i;

	text = repeated("{\"host\":\"a\",\"processes\":[{\"communicators\":[",
			"{\"comm\":\"0x1\"},", 5000, "{\"comm\":\"0x1\"}]}]}");
	cr_assert_eq(add(text), 0);
	free(text);
	cr_expect_eq(filled.nr_comms, 1024);
	cr_expect_eq(filled.nr_left_out, 5001 - 1024);
	text = repeated("{\"host\":\"a\",\"processes\":[{\"open\":[{\"function\":\"x\","
			"\"group_calls\":601,\"group_complete\":true,\"group\":[",
			REDUCE ",", 600, REDUCE "]}]}]}");
	cr_assert_eq(add(text), 0);
	free(text);
	cr_expect_eq(filled.processes[1].report->open[0].group.nr, 512);
	cr_expect_not(filled.processes[1].report->open[0].group.complete);
	cr_expect_eq(filled.nr_left_out, 5001 - 1024 + 601 - 512);
	text = repeated("{\"host\":\"a\",\"processes\":[", "{},", 70000, "{}]}");
	cr_assert_eq(add(text), 0);
	free(text);
	cr_expect_eq(filled.nr_processes, 65536);
	for (i = 3; i < GPU_READ_FILES; i++)
		cr_assert_eq(add("{\"host\":\"a\",\"processes\":[]}"), 0);
	cr_expect_eq(add("{\"host\":\"a\",\"processes\":[]}"), -E2BIG);
}

Test(gpu_read, too_deep, .init = setup, .fini = teardown)
{
	char *text = repeated("{\"host\":\"a\",\"processes\":[", "[", 100000, "");

	cr_expect_eq(add(text), -EBADMSG);
	free(text);
}

/* Small text, large in memory. */
Test(gpu_read, too_large, .init = setup, .fini = teardown)
{
	char *text = repeated("{\"host\":\"a\",\"processes\":[", "{},", 20000000, "{}]}");

	cr_assert(text);
	cr_expect_eq(add(text), -E2BIG);
	free(text);
	cr_expect_eq(gpu_read_add(&filled, "a", "", GPU_READ_FILE_BYTES + 1), -E2BIG);
}
