// SPDX-License-Identifier: Apache-2.0
/* Groups of collectives and graphs of kernels in the report. */
#include "gpu/report.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "gpu_report_made.h"

static const struct gpu_report_grouped grouped[] = {
	{ "ncclSend", "float32", "peer", "3", 0xc0, 7, 4200000, 2 },
	{ "ncclAllReduce", "bfloat16", "op", "sum", 0xdead, 8, 4096, 1 },
	{ "ncclAllGather", "int8", "", "", UINT64_MAX, 8, 64, 3 },
};

#define SEND                                                                                       \
	"    in the group: 2 ncclSend float32 4.2 MB peer 3,\n"                                    \
	"        communicator 0xc0, rank 3 of 8, stream 0x7\n"

/* The collectives that the end of a group waits for, or the part that is not known. */
Test(gpu_report, groups)
{
	static const struct {
		struct gpu_report_group group;
		const char *table, *json;
	} cases[] = {
		{ { true, true, 3, grouped, 2 },
		  SEND "    and 1 ncclAllReduce bfloat16 4.1 kB sum,\n"
		       "        communicator 0xdead, stream 0x8\n",
		  "\"group\":[{\"operation\":\"ncclSend\",\"datatype\":\"float32\",\"peer\":3,"
		  "\"comm\":\"0xc0\",\"stream\":\"0x7\",\"bytes\":4200000,\"count\":2},{"
		  "\"operation\":\"ncclAllReduce\",\"datatype\":\"bfloat16\",\"op\":\"sum\","
		  "\"comm\":\"0xdead\",\"stream\":\"0x8\",\"bytes\":4096,\"count\":1}],"
		  "\"group_calls\":3,\"group_complete\":true," },
		{ { true, false, 7, grouped, 1 },
		  SEND "    and 5 more that are not known\n",
		  "\"count\":2}],\"group_calls\":7,\"group_complete\":false," },
		{ { true, false, 2, grouped, 1 },
		  SEND "    (this may not be all)\n",
		  "\"group_calls\":2,\"group_complete\":false," },
		{ { true, false, 3, grouped + 2, 1 },
		  "    in the group: 3 ncclAllGather int8 64 B,\n"
		  "        communicator not known, stream 0x8\n"
		  "    (this may not be all)\n",
		  "\"comm\":null," },
		{ { true, false, 2, NULL, 0 },
		  "    in the group: 2 collectives that are not known\n",
		  "\"group\":[],\"group_calls\":2,\"group_complete\":false," },
		{ { true, false, 0, NULL, 0 },
		  "    in the group: no collective that is known\n",
		  "\"group\":[],\"group_calls\":0,\"group_complete\":false," },
		{ { false, false, 0, NULL, 0 },
		  "    in the group: not known, the group began before the hooks\n",
		  "\"group\":null,\"group_calls\":null,\"group_complete\":false," },
	};
	struct gpu_report_process process = busy;
	struct gpu_report_open open = { .tid = 9,
					.thread = "w",
					.function = "ncclGroupEnd",
					.seconds = 5,
					.ends_group = true };
	struct gpu_report report = gpu_report_made(&process, 1);
	struct buf wanted;
	char *text;
	size_t i;

	process.open = &open;
	process.nr_open = 1;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		open.group = cases[i].group;
		buf_init(&wanted, 4096);
		buf_printf(&wanted,
			   "  ncclGroupEnd has not returned for 5.0 s: thread 9 w\n%s"
			   "      (no stack was taken)\n",
			   cases[i].table);
		text = gpu_report_table(&report, &(struct gpu_report_options){ 0 });
		expect_part(text, wanted.data);
		expect_columns(text, 80);
		free(text);
		buf_fini(&wanted);
		text = gpu_report_json(&report);
		expect_part(text, cases[i].json);
		free(text);
	}
}

/* More kinds than are shown, unless all are asked for. */
Test(gpu_report, large_group)
{
	struct gpu_report_grouped many[20];
	const struct gpu_report_open open = { .tid = 9,
					      .thread = "w",
					      .function = "ncclGroupEnd",
					      .seconds = 5,
					      .ends_group = true,
					      .group = { true, true, 40, many, 20 } };
	struct gpu_report_process process = busy;
	struct gpu_report report = gpu_report_made(&process, 1);
	char *text;
	size_t i;

	for (i = 0; i < 20; i++)
		many[i] = grouped[0];
	process.open = &open;
	process.nr_open = 1;
	text = gpu_report_table(&report, &(struct gpu_report_options){ .rows = 5 });
	expect_part(text,
		    "rank 3 of 8, stream 0x7\n    ... and 12 more\n      (no stack was taken)\n");
	free(text);
	text = gpu_report_table(&report, &(struct gpu_report_options){ 0 });
	cr_expect_null(strstr(text, "and 12 more"));
	free(text);
}

static const struct gpu_report_node decode[] = {
	{ "cuLaunchKernel", "gemm", 30 },
	{ "cuLaunchKernelEx", "gemm", 2 },
	{ "cuLaunchKernelEx", "attention", 32 },
	{ "cuMemsetD8Async", NULL, 3 },
};

/* Kernels by what launches of graphs have run of them. */
Test(gpu_report, graphs)
{
	const struct gpu_report_graph graphs[] = {
		{ 0x6a, 100, true, decode, 4 },
		{ 0x6b, 10, true, decode, 1 },
		{ 0, 5, false, NULL, 0 },
	};
	struct gpu_report_process process = idle;
	struct gpu_report report = gpu_report_made(&process, 1);
	char *text;

	process.calls = busy.calls;
	process.nr_calls = 1;
	process.graphs = graphs;
	process.nr_graphs = 3;
	text = gpu_report_table(&report, &(struct gpu_report_options){ 0 });
	expect_part(text, "\n  Graph launches: 115 (12/s) of 3 kinds of graphs\n"
			  "  The kernels of 5 of them are not known\n"
			  "       Runs  Graphs  Kernel\n"
			  "       3500       2  gemm\n"
			  "       3200       1  attention\n"
			  "\n");
	expect_columns(text, 80);
	free(text);
	text = gpu_report_table(&report, &(struct gpu_report_options){ .rows = 1 });
	expect_part(text, "       2  gemm\n    ... and 1 more\n");
	free(text);
	text = gpu_report_json(&report);
	expect_part(text, "\"graphs\":[{\"content\":\"0x6a\",\"launches\":100,"
			  "\"complete\":true,\"nodes\":[{\"function\":\"cuLaunchKernel\","
			  "\"kernel\":\"gemm\",\"count\":30},");
	expect_part(text, "{\"function\":\"cuMemsetD8Async\",\"kernel\":null,\"count\":3}]},{"
			  "\"content\":\"0x6b\",");
	expect_part(text, "{\"content\":null,\"launches\":5,\"complete\":false,"
			  "\"nodes\":[]}],");
	free(text);
}

Test(gpu_report, graphs_that_are_not_all_known)
{
	const struct gpu_report_node node = { "cuLaunchKernel", "k", UINT32_MAX };
	const struct gpu_report_graph graphs[] = {
		{ 0x6a, UINT64_MAX, false, &node, 1 },
		{ 0x6b, UINT64_MAX, true, &node, 1 },
	};
	struct gpu_report_process process = idle;
	struct gpu_report report = gpu_report_made(&process, 1);
	char *text;

	process.calls = busy.calls;
	process.nr_calls = 1;
	process.graphs = graphs;
	process.nr_graphs = 2;
	text = gpu_report_table(&report, &(struct gpu_report_options){ 0 });
	expect_part(text,
		    "/s) of 2 kinds of graphs\n  Some of them have more kernels than are known\n  "
		    "     Runs "
		    " Graphs  Kernel\n"
		    "     18.4 E       2  k\n");
	free(text);
}

/* Calls written into a graph are reported separately, and are in no sum. */
Test(gpu_report, captured)
{
	const struct gpu_report_launch some[] = {
		{ .kernel = "gemm",
		  .function = "f",
		  .exported = "f",
		  .calls = 9,
		  .captured = true,
		  0 },
		{ .kernel = "gemm", .function = "f", .exported = "f", .calls = 5 },
		{ .kernel = "gemm",
		  .function = "f",
		  .exported = "f",
		  .calls = 3,
		  .captured = true,
		  0 },
	};
	const struct gpu_report_copy copy = {
		.direction = "HtoD", .function = "c", .calls = 4, .bytes = 64, .captured = true
	};
	const struct gpu_report_collective collective = { .operation = "AllReduce",
							  .datatype = "int8",
							  .extra_name = "op",
							  .extra = "sum",
							  .calls = 2,
							  .captured = true };
	struct gpu_report_process process = idle;
	struct gpu_report report = gpu_report_made(&process, 1);
	char *text;

	process.launches = some;
	process.nr_launches = 3;
	process.copies = &copy;
	process.nr_copies = 1;
	process.collectives = &collective;
	process.nr_collectives = 1;
	text = gpu_report_table(&report, &(struct gpu_report_options){ 0 });
	expect_part(text, "Kernel launches: 5 (");
	expect_part(text,
		    "/s) of 1 kernels\n  [captured]: 12 more, written into graphs, not run\n");
	expect_part(text, "\n          5  -                gemm\n");
	expect_part(text, "\n         12  -                [captured] gemm\n");
	expect_part(text, "  [captured] HtoD c\n");
	expect_part(text, "  [captured] AllReduce int8 sum\n");
	free(text);
}

Test(gpu_report, launches_through_a_library)
{
	const struct gpu_report_launch through[] = {
		{ .kernel = "gemm",
		  .handle = 1,
		  .function = "cuLaunchKernel",
		  .exported = "cuLaunchKernel",
		  .grid = { 1, 1, 1 },
		  .block = { 32, 1, 1 },
		  .calls = 5,
		  .library = "libcublas.so.12",
		  .entry = "cublasGemmEx" },
		{ .kernel = "gemm",
		  .handle = 1,
		  .function = "cuLaunchKernel",
		  .exported = "cuLaunchKernel",
		  .grid = { 1, 1, 1 },
		  .block = { 32, 1, 1 },
		  .stream = 7,
		  .calls = 4,
		  .library = "libcublas.so.12",
		  .entry = "cublasGemmEx" },
		{ .kernel = "gemm",
		  .handle = 1,
		  .function = "cuLaunchKernel",
		  .exported = "cuLaunchKernel",
		  .grid = { 1, 1, 1 },
		  .block = { 32, 1, 1 },
		  .calls = 3,
		  .library = "libcudnn_ops.so.9",
		  .entry = "" },
		{ .kernel = "own",
		  .handle = 2,
		  .function = "cuLaunchKernel",
		  .exported = "cuLaunchKernel",
		  .grid = { 1, 1, 1 },
		  .block = { 32, 1, 1 },
		  .calls = 2,
		  .library = "" },
	};
	struct gpu_report_process process = idle;
	struct gpu_report report = gpu_report_made(&process, 1);
	char *text;

	process.launches = through;
	process.nr_launches = 4;
	text = gpu_report_table(&report, &(struct gpu_report_options){ 0 });
	expect_part(text, "  Through                   Kernel\n");
	expect_part(text, "\n          9  1 / 32           cublasGemmEx              gemm\n");
	expect_part(text, "\n          3  1 / 32           libcudnn_ops.so.9         gemm\n");
	expect_part(text, "\n          2  1 / 32           -                         own\n");
	free(text);
}
