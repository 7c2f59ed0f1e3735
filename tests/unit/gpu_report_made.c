// SPDX-License-Identifier: Apache-2.0
#include "gpu_report_made.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/buf.h"
#include "profile/stats.h"

TestSuite(gpu_report, .timeout = 60);

static const char *const hung_stack[] = { "ncclAllReduce", "all_reduce (distributed_c10d.py:2501)",
					  "Trainer.fit (loop.py:31)" };

static const struct gpu_report_call calls[] = {
	{ .function = "cuLaunchKernel", .exported = "cuLaunchKernel", .calls = 12000 },
	{ .function = "cuStreamSynchronize",
	  .exported = "cuStreamSynchronize_ptsz",
	  .calls = 40,
	  .ns = 9000000000,
	  .max_ns = 1500000000,
	  .errors = 2,
	  .blocks = true },
	{ .function = "cuMemcpyDtoHAsync",
	  .exported = "cuMemcpyDtoHAsync_v2",
	  .calls = 7,
	  .bytes = 4096,
	  .ns = 2500,
	  .max_ns = 900,
	  .blocks = true },
	{ .function = "ncclAllReduce",
	  .exported = "ncclAllReduce",
	  .calls = 120,
	  .bytes = 1250000000 },
};

static const struct gpu_report_launch launches[] = {
	{ .kernel = GEMM,
	  .handle = 0x55,
	  .function = "cuLaunchKernel",
	  .exported = "cuLaunchKernel",
	  .grid = { 64, 8, 1 },
	  .block = { 128, 1, 1 },
	  .calls = 4000,
	  .library = "" },
	{ .kernel = "scale(float*)",
	  .handle = 0x66,
	  .function = "cuLaunchKernel",
	  .exported = "",
	  .grid = { 10, 1, 1 },
	  .block = { 256, 1, 1 },
	  .calls = 5000,
	  .library = "" },
	{ .kernel = GEMM,
	  .handle = 0x55,
	  .function = "cuLaunchKernel",
	  .exported = "cuLaunchKernel",
	  .grid = { 64, 4, 2 },
	  .block = { 128, 1, 1 },
	  .stream = 7,
	  .calls = 2998,
	  .library = "" },
	{ .kernel = "graph@0x77",
	  .handle = 0x77,
	  .function = "cuGraphLaunch",
	  .exported = "cuGraphLaunch",
	  .calls = 2,
	  .library = "" },
};

static const struct gpu_report_copy copies[] = {
	{ "DtoH", "cuMemcpyDtoHAsync", 0, 7, 4096, 2500, false },
	{ "HtoD", "cuMemcpyHtoD", 0, 3, 12300000, 3400000, false },
};

static const struct gpu_report_collective collectives[] = {
	{ "Broadcast", "float32", "root", "3", 0xc0, 7, 2, 512, 900, 500, false },
	{ "AllReduce", "bfloat16", "op", "sum", 0xc0, 7, 118, 1250000000, 42000000000, 41000000000,
	  false },
	{ "Send", "int8", "peer", "1", 0xdead, 7, 1, 64, 0, 0, false },
};

static const struct gpu_report_completion completions[] = {
	{ .operation = "Broadcast",
	  .datatype = "float32",
	  .extra_name = "root",
	  .extra = "3",
	  .comm = 0xc0,
	  .bytes = 256,
	  .count = 2,
	  .ns = 900,
	  .max_ns = 500,
	  .within_ns = 30,
	  .within_max_ns = 20 },
	{ .operation = "AllReduce",
	  .datatype = "bfloat16",
	  .extra_name = "op",
	  .extra = "sum",
	  .comm = 0xc0,
	  .bytes = 10000000,
	  .count = 100,
	  .ns = 10200000000,
	  .max_ns = 240000000,
	  .within_ns = 5100000000,
	  .within_max_ns = 120000000,
	  .pending = 17,
	  .unknown = 1,
	  .pending_seconds = 75.5,
	  .pending_stream = 0x7e },
	{ .operation = "AllReduce",
	  .datatype = "int8",
	  .extra_name = "op",
	  .extra = "max",
	  .comm = 0xc0,
	  .bytes = 3,
	  .pending = 2,
	  .pending_seconds = 75.25,
	  .pending_stream = 7 },
	{ .operation = "Send",
	  .datatype = "int8",
	  .extra_name = "peer",
	  .extra = "1",
	  .comm = 0xdead,
	  .bytes = 64,
	  .pending = 1,
	  .pending_seconds = 0.25 },
};

static const struct gpu_report_comm comms[] = {
	{ .comm = 0xc0,
	  .known = true,
	  .hash = 0xabcdef,
	  .rank = 3,
	  .size = 8,
	  .calls = 120,
	  .last = "ncclAllReduce" },
};

static const struct gpu_report_open opens[] = {
	{ .tid = 101, .thread = "worker", .function = "cuStreamSynchronize", .seconds = 0.2 },
	{ .tid = 102,
	  .thread = "pt_nccl",
	  .function = "ncclAllReduce",
	  .seconds = 42.5,
	  .stream = 7,
	  .comm = 0xc0,
	  .bytes = 1250000000,
	  .stack = hung_stack,
	  .nr_stack = 3,
	  .datatype = "bfloat16",
	  .op = "sum" },
	{ .tid = 103, .thread = "io", .function = "cuMemcpyDtoH", .seconds = 3 },
};

const struct gpu_report_process busy = {
	.pid = 4242,
	.name = "python3",
	.container = "trainer",
	.pod = "job-0",
	.namespace = "ml",
	.ray_task = "ray::Trainer.fit",
	.rank = "3",
	.calls = calls,
	.nr_calls = 4,
	.launches = launches,
	.nr_launches = 4,
	.copies = copies,
	.nr_copies = 2,
	.collectives = collectives,
	.nr_collectives = 3,
	.completions = completions,
	.nr_completions = 4,
	.comms = comms,
	.nr_comms = 1,
	.open = opens,
	.nr_open = 3,
	.device_idle = { true, 2500000000, 900000000, 120, 30000000, 1.25 },
	.spans = { true, 121, 5250000000, 800000000, 1 },
	.gc_calls = 16,
	.gc_ns = 120000000,
	.gc_max_ns = 33000000,
	.memory = { 76000000000, 77000000000, 120, 80, 3, true, 1700000000, 80000000000 },
	.host_memory = { 5000000000, 6000000000, 12, 8, 1, false, 0, 0 },
	.tensors_known = true,
	.tensor_memory = { 70000000000, 72000000000, 5000, 4000, 0, false, 0, 0 },
};

const struct gpu_report_process idle = {
	.pid = 77,
	.name = "idle",
	.container = "",
	.pod = "",
	.namespace = "",
	.ray_task = "",
	.rank = "",
};

static const struct gpu_report_library libraries[] = {
	{ "/usr/lib/x86_64-linux-gnu/libcuda.so.1", true, false, false, false, 245, NULL },
	{ "/opt/libnccl.so.2", false, true, false, false, 0, "malformed" },
};

static const struct stats_reason lost[] = { { "keys_full", 5 }, { "none", 0 } };

struct gpu_report gpu_report_made(const struct gpu_report_process *processes, size_t nr)
{
	return (struct gpu_report){ .host = "node-1",
				    .seconds = 10,
				    .libraries = libraries,
				    .nr_libraries = 2,
				    .processes = processes,
				    .nr_processes = nr,
				    .stacks_taken = 900,
				    .stacks_skipped = 30,
				    .stacks_hz = 100,
				    .lost = lost,
				    .nr_lost = 2 };
}

char *gpu_report_table(const struct gpu_report *report, const struct gpu_report_options *options)
{
	struct buf text;

	buf_init(&text, 1 << 20);
	gpu_table(&text, report, options);
	cr_assert_eq(buf_error(&text), 0);
	return buf_take(&text);
}

char *gpu_report_json(const struct gpu_report *report)
{
	struct buf text;

	buf_init(&text, 1 << 20);
	gpu_json(&text, report);
	cr_assert_eq(buf_error(&text), 0);
	return buf_take(&text);
}

void expect_part(const char *text, const char *part)
{
	cr_expect(strstr(text, part), "no '%s' in:\n%s", part, text);
}

void expect_columns(const char *text, size_t columns)
{
	char *copy = strdup(text), *line, *save = NULL;

	for (line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		cr_expect_leq(text_columns(line), columns, "%s", line);
	free(copy);
}
