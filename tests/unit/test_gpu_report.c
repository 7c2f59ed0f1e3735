// SPDX-License-Identifier: Apache-2.0
#include "gpu/report.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/units.h"
#include "made_profile.h"
#include "gpu_report_made.h"

static const char golden[] =
	"GPU calls on node-1, 10.0 s\n"
	"\n"
	"Process 4242: python3, rank 3\n"
	"  pod ml/job-0, container trainer, ray::Trainer.fit\n"
	"\n"
	"  ncclAllReduce has not returned for 42.5 s: thread 102 pt_nccl\n"
	"    1.2 GB bfloat16 sum,\n"
	"    communicator 0xc0, rank 3 of 8, stream 0x7\n"
	"      ncclAllReduce\n"
	"      all_reduce (distributed_c10d.py:2501)\n"
	"      Trainer.fit (loop.py:31)\n"
	"  cuMemcpyDtoH has not returned for 3.0 s: thread 103 io\n"
	"      (no stack was taken)\n"
	"\n"
	"  Kernel launches: 12000 (1200/s) of 3 kernels\n"
	"      Calls  Grid / block     Kernel\n"
	"       6998  2 shapes         void cutlass::Kernel2<cu\xe2\x80\xa6"
	"8_64x3_tn_align8::Params)\n"
	"       5000  10 / 256         scale(float*)\n"
	"          2  -                graph@0x77\n"
	"\n"
	"     Copies      Bytes         Time  Direction, call\n"
	"          3    12.3 MB       3.4 ms  HtoD cuMemcpyHtoD\n"
	"          7     4.1 kB       2.5 us  DtoH cuMemcpyDtoHAsync\n"
	"\n"
	"  Calls: 12167, blocked for 9.0 s (90% of one thread's time)\n"
	"      Calls      Blocked      Longest      Bytes  Errors  Call\n"
	"         40        9.0 s        1.5 s          -       2  cuStreamSynchronize\n"
	"          7       2.5 us       900 ns     4.1 kB       0  cuMemcpyDtoHAsync\n"
	"      12000            -            -          -       0  cuLaunchKernel\n"
	"        120            -            -     1.2 GB       0  ncclAllReduce\n"
	"\n"
	"  Launch to sync: 6.2 s (62% of the time) in 122 spans, the longest 1.0 s\n"
	"    of these, 1.0 s in the span that still runs\n"
	"\n"
	"  Starved: 2.5 s (25% of the time) in 120 gaps, the longest 900 ms\n"
	"    and 30.0 ms in synchronous copies to the device in these gaps\n"
	"    and 1.2 s in the gap that still runs\n"
	"\n"
	"  Garbage collections: 120 ms in 16, the longest 33.0 ms\n"
	"\n"
	"  Memory: 76.0 GB live, peak 77.0 GB; 120 allocations, 80 frees\n"
	"    3 frees were of memory allocated before the start\n"
	"  Device: 78.3 GB of 80.0 GB used (97.9%), by its last cuMemGetInfo\n"
	"    NEARLY FULL (over 95%): kernels and collectives may take many times longer\n"
	"  PyTorch's tensors: 70.0 GB live, peak 72.0 GB; 5000 allocations, 4000 frees\n"
	"  Page-locked on host: 5.0 GB live, peak 6.0 GB; 12 allocations, 8 frees\n"
	"    1 frees were of memory allocated before the start\n"
	"\n"
	"  Communicator 0xc0: rank 3 of 8, hash 0xabcdef\n"
	"    120 calls since it was first seen, the last one ncclAllReduce\n"
	"      Calls      Bytes         Time      Longest  Operation\n"
	"        118     1.2 GB       42.0 s       41.0 s  AllReduce bfloat16 sum\n"
	"          2      512 B       900 ns       500 ns  Broadcast float32 root 3\n"
	"   Complete         Mean      Longest       Each  Operation\n"
	"        100    <= 102 ms    <= 240 ms    10.0 MB  AllReduce bfloat16 sum\n"
	"          2    <= 450 ns    <= 500 ns      256 B  Broadcast float32 root 3\n"
	"          0            -            -        3 B  AllReduce int8 max\n"
	"    <=: noticed within 50.0 ms on average, 120 ms at most\n"
	"    19 not known to be complete yet; the oldest called 75.5 s ago:\n"
	"      AllReduce bfloat16 10.0 MB on stream 0x7e\n"
	"    1 whose completion will never be known\n"
	"\n"
	"  Communicator 0xdead: rank not known\n"
	"      Calls      Bytes         Time      Longest  Operation\n"
	"          1       64 B            -            -  Send int8 peer 1\n"
	"   Complete         Mean      Longest       Each  Operation\n"
	"          0            -            -       64 B  Send int8 peer 1\n"
	"    1 not known to be complete yet, called 250 ms ago:\n"
	"      Send int8 64 B on stream 0x0\n"
	"\n"
	"Process 77: idle\n"
	"  no CUDA or NCCL call in 10.0 s\n"
	"\n"
	"Hooked: 245 functions of /usr/lib/x86_64-linux-gnu/libcuda.so.1\n"
	"Not hooked (malformed): /opt/libnccl.so.2\n"
	"Stacks: 900 taken, 30 skipped, over 100 per second and thread\n"
	"Lost: 5 (keys full)\n";

Test(gpu_report, table)
{
	const struct gpu_report_process processes[] = { busy, idle };
	struct gpu_report report = gpu_report_made(processes, 2);
	char *text = gpu_report_table(&report, &(struct gpu_report_options){ 0 });

	cr_assert_str_eq(text, golden);
	expect_columns(text, 80);
	free(text);
}

/* A narrow screen, few rows. */
/* The first page of a screen: hanging calls come first, and rows without room are counted. */
Test(gpu_report, overview)
{
	const struct gpu_report_options options = { .rows = 2, .columns = 80, .screen_rows = 24 };
	struct gpu_report_process processes[7];
	struct gpu_report_launch kernels[9];
	struct gpu_report report;
	char *text, *last, names[9][4] = { 0 };
	size_t i, nr = 0;

	for (i = 0; i < 9; i++) {
		snprintf(names[i], sizeof(names[i]), "k%zu", i);
		kernels[i] = (struct gpu_report_launch){ .kernel = names[i],
							 .function = "cuLaunchKernel",
							 .exported = "cuLaunchKernel",
							 .calls = 100,
							 .recent = 10 * i };
	}
	for (i = 0; i < 7; i++) {
		processes[i] = idle;
		processes[i].pid = 80 + (uint32_t)i;
		processes[i].recent_launches = 100 * i;
		processes[i].launches = kernels;
		processes[i].nr_launches = 9;
	}
	processes[2] = busy;
	processes[2].recent_blocked_ns = 3000000000;
	report = gpu_report_made(processes, 7);
	report.recent_seconds = 2;
	text = gpu_report_table(&report, &options);
	for (last = text; nr < 23 && last; nr++)
		last = strchr(last, '\n') ? strchr(last, '\n') + 1 : NULL;
	cr_assert(last);
	last[-1] = '\0';
	cr_expect_str_eq(
		text,
		"GPU calls on node-1, 10.0 s: 7 processes, 4 calls have not come back\n"
		"Now: 950 launches/s, blocked 150% of one thread, 76.0 GB of memory live\n"
		"Hooked: 245 functions of 1 library; 1 not (malformed)\n"
		"Stacks: 900 taken, 30 skipped, over 100 per second and thread\n"
		"Lost: 5 keys full\n"
		"\n"
		"           For  Not come back\n"
		"        75.5 s  pid 4242: AllReduce 10.0 MB has returned, not seen complete\n"
		"        75.2 s  pid 4242: AllReduce 3 B has returned, not seen complete\n"
		"        42.5 s  pid 4242: ncclAllReduce 1.2 GB \xe2\x80\xa6"
		"educe (distributed_c10d.py:2501)\n"
		"         3.0 s  pid 4242: cuMemcpyDtoH\n"
		"\n"
		"  Launches/s   Blocked       Live       PID  Process\n"
		"           0      150%    76.0 GB      4242  ray::Trainer.fit, rank 3\n"
		"         300        0%          -        86  idle\n"
		"         250        0%          -        85  idle\n"
		"    ... 4 more processes\n"
		"\n"
		"  Launches/s   Launches  Kernel\n"
		"         240        600  k8\n"
		"         210        600  k7\n"
		"         180        600  k6\n"
		"    ... 9 more kernels");
	free(text);
}

Test(gpu_report, rows_and_columns)
{
	struct gpu_report report = gpu_report_made(&busy, 1);
	char *text =
		gpu_report_table(&report, &(struct gpu_report_options){ .rows = 1, .columns = 60 });

	expect_part(text,
		    "\n    ... and 1 more\n\n  Kernel launches: 12000 (1200/s) of 3 kernels\n");
	expect_part(text, "\n       6998  2 shapes         void cutlass::\xe2\x80\xa6"
			  "align8::Params)\n"
			  "    ... and 2 more\n");
	expect_part(text, "\n         40        9.0 s");
	expect_part(text, "\n    ... and 3 more\n");
	free(text);
}

/* The arguments of a call, as far as they are known. */
Test(gpu_report, arguments)
{
	static const struct {
		struct gpu_report_open open;
		const char *table, *json;
	} cases[] = {
		{ { .comm = 0xc0, .stream = 7, .bytes = 64, .datatype = "int8", .op = "max" },
		  "    64 B int8 max,\n    communicator 0xc0, rank 3 of 8, stream 0x7\n",
		  "\"stream\":\"0x7\",\"comm\":\"0xc0\",\"hash\":\"0xabcdef\",\"rank\":3,\"size\":"
		  "8,"
		  "\"bytes\":64,\"datatype\":\"int8\",\"op\":\"max\",\"stack\"" },
		{ { .comm = 0xdead,
		    .stream = 7,
		    .datatype = "int8",
		    .op = "avg",
		    .extra_name = "root",
		    .extra = "5" },
		  "    0 B int8 avg root 5,\n    communicator 0xdead, stream 0x7\n",
		  "\"comm\":\"0xdead\",\"hash\":null,\"rank\":null,\"size\":null,\"bytes\":0,"
		  "\"datatype\":\"int8\",\"op\":\"avg\",\"root\":5,\"stack\"" },
		/* The type is not known. */
		{ { .comm = 0xdead, .bytes = 64, .extra_name = "peer", .extra = "1" },
		  "    64 B peer 1,\n    communicator 0xdead, stream 0x0\n",
		  "\"bytes\":64,\"datatype\":null,\"peer\":1,\"stack\"" },
		/* The end of a communicator, a copy, and a call without any known argument. */
		{ { .comm = 0xc0 },
		  "    communicator 0xc0, rank 3 of 8, stream 0x0\n",
		  "\"size\":8,\"bytes\":0,\"datatype\":null,\"stack\"" },
		{ { .stream = 9, .bytes = 64 },
		  "    64 B, stream 0x9\n",
		  "\"comm\":\"0x0\",\"hash\":null,\"rank\":null,\"size\":null,\"bytes\":64," },
		{ { .arguments_unknown = true },
		  "",
		  "\"stream\":null,\"comm\":null,\"hash\":null,\"rank\":null,\"size\":null,"
		  "\"bytes\":null,\"datatype\":null,\"stack\"" },
	};
	struct gpu_report_process process = busy;
	struct gpu_report_open open;
	struct gpu_report report = gpu_report_made(&process, 1);
	struct buf wanted;
	char *text;
	size_t i;

	process.open = &open;
	process.nr_open = 1;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		open = cases[i].open;
		open.tid = 9;
		open.thread = "w";
		open.function = "f";
		open.seconds = 5;
		open.since_before = true;
		buf_init(&wanted, 4096);
		buf_printf(&wanted,
			   "  f has not returned for more than 5.0 s: thread 9 w\n%s"
			   "      (no stack was taken)\n",
			   cases[i].table);
		text = gpu_report_table(&report, &(struct gpu_report_options){ 0 });
		expect_part(text, wanted.data);
		free(text);
		buf_fini(&wanted);
		text = gpu_report_json(&report);
		expect_part(text, cases[i].json);
		free(text);
	}
}

Test(gpu_report, wide)
{
	struct gpu_report report = gpu_report_made(&busy, 1);
	char *text = gpu_report_table(&report, &(struct gpu_report_options){ .columns = 120 });

	expect_part(
		text,
		"\n      Calls  Grid / block     Stream          Called            Kernel\n"
		"       6998  2 shapes         several         cuLaunchKernel    void cutlass::");
	expect_part(
		text,
		"\n       5000  10 / 256         0x0             cuLaunchKernel    scale(float*)\n"
		"          2  -                0x0             cuGraphLaunch     graph@0x77\n");
	expect_columns(text, 120);
	free(text);
}

/* The library that a launch came through has a column on narrow screens, too. */
Test(gpu_report, entries)
{
	const struct gpu_report_launch by_library = { .kernel = "gemm",
						      .handle = 1,
						      .function = "cuLaunchKernel",
						      .exported = "cublasGemmEx",
						      .grid = { 1, 1, 1 },
						      .block = { 1024, 1, 64 },
						      .calls = 5,
						      .entry = "" };
	struct gpu_report_process process = idle;
	struct gpu_report report = gpu_report_made(&process, 1);
	char *text;

	process.launches = &by_library;
	process.nr_launches = 1;
	text = gpu_report_table(&report, &(struct gpu_report_options){ 0 });
	expect_part(text, "\n          5  1 / 1024x1x64    cublasGemmEx      gemm\n");
	free(text);
}

static size_t place(const char *text, const char *part)
{
	const char *at = strstr(text, part);

	cr_assert(at, "no '%s' in:\n%s", part, text);
	return (size_t)(at - text);
}

Test(gpu_report, sort)
{
	struct gpu_report report = gpu_report_made(&busy, 1);
	char *text = gpu_report_table(&report, &(struct gpu_report_options){ .sort = "calls" });

	cr_expect_lt(place(text, "0  cuLaunchKernel\n"), place(text, "0  ncclAllReduce\n"));
	cr_expect_lt(place(text, "0  ncclAllReduce\n"), place(text, "2  cuStreamSynchronize\n"));
	cr_expect_lt(place(text, "DtoH cuMemcpyDtoHAsync\n"), place(text, "HtoD cuMemcpyHtoD\n"));
	free(text);
	text = gpu_report_table(&report, &(struct gpu_report_options){ .sort = "bytes" });
	cr_expect_lt(place(text, "0  ncclAllReduce\n"), place(text, "0  cuMemcpyDtoHAsync\n"));
	cr_expect_lt(place(text, "0  cuMemcpyDtoHAsync\n"), place(text, "0  cuLaunchKernel\n"));
	free(text);
	text = gpu_report_table(&report, &(struct gpu_report_options){ .sort = "blocked" });
	cr_expect_lt(place(text, "2  cuStreamSynchronize\n"),
		     place(text, "0  cuMemcpyDtoHAsync\n"));
	cr_expect_lt(place(text, "HtoD cuMemcpyHtoD\n"), place(text, "DtoH cuMemcpyDtoHAsync\n"));
	free(text);
}

Test(gpu_report, nothing)
{
	struct gpu_report report = { .host = "", .seconds = 2.5 };
	char *text = gpu_report_table(&report, &(struct gpu_report_options){ 0 });

	cr_expect_str_eq(text, "GPU calls, 2.5 s\nno CUDA or NCCL call in 2.5 s\n\n"
			       "No process has libcuda.so.1 or libnccl mapped.\n");
	free(text);
	text = gpu_report_json(&report);
	cr_expect_str_eq(text, "{\"host\":\"\",\"seconds\":2.500,\"start_seconds\":0.000,"
			       "\"libraries\":[],\"processes\":[],"
			       "\"without_calls\":[],\"stacks\":{\"taken\":0,\"skipped\":0,"
			       "\"per_thread_and_second\":0},\"lost\":{}}\n");
	free(text);
}

/* A device that is not nearly full, and one with impossible numbers. */
Test(gpu_report, device)
{
	static const struct {
		uint64_t free, total;
		const char *line;
	} cases[] = {
		{ 5, 100, "  Device: 95 B of 100 B used (95.0%), by its last cuMemGetInfo\n\n" },
		{ 200, 100, "  Device: 0 B of 100 B used (0.0%), by its last cuMemGetInfo\n\n" },
		{ 0, 0, "  Device: 0 B of 0 B used (0.0%), by its last cuMemGetInfo\n\n" },
	};
	struct gpu_report_process process = idle;
	struct gpu_report report = gpu_report_made(&process, 1);
	char *text;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		process.memory = (struct gpu_report_memory){ .device_known = true,
							     .device_free = cases[i].free,
							     .device_total = cases[i].total };
		text = gpu_report_table(&report, &(struct gpu_report_options){ 0 });
		expect_part(text, cases[i].line);
		free(text);
	}
}

/* Text that controls a terminal, or ends a line or a string, and values that are no numbers. */
Test(gpu_report, hostile)
{
	static const char bad[] = "\x1b[31mred\n\"quoted\"\\\xff\xe2\x80\xae;";
	const char *const stack[] = { bad };
	const struct gpu_report_grouped row = { bad, bad,	 "op",	     bad,
						1,   UINT64_MAX, UINT64_MAX, UINT64_MAX };
	const struct gpu_report_group group = { true, true, 0, &row, 1 };
	const struct gpu_report_open open = { .tid = 1,
					      .thread = bad,
					      .function = bad,
					      .seconds = NAN,
					      .stack = stack,
					      .nr_stack = 1,
					      .ends_group = true,
					      .group = group };
	const struct gpu_report_open later = { .tid = 1,
					       .thread = bad,
					       .function = bad,
					       .seconds = INFINITY,
					       .comm = 1,
					       .stack = stack,
					       .nr_stack = 1,
					       .ends_group = true,
					       .group = group };
	const struct gpu_report_open late = { .tid = 1,
					      .thread = bad,
					      .function = bad,
					      .seconds = 1e300,
					      .comm = 1,
					      .bytes = UINT64_MAX,
					      .stack = stack,
					      .nr_stack = 1,
					      .datatype = bad,
					      .op = bad,
					      .extra_name = "root",
					      .extra = bad };
	const struct gpu_report_launch launch = { .kernel = bad,
						  .handle = UINT64_MAX,
						  .function = bad,
						  .exported = bad,
						  .grid = { UINT32_MAX, UINT32_MAX, UINT32_MAX },
						  .block = { UINT32_MAX, UINT32_MAX, UINT32_MAX },
						  .stream = UINT64_MAX,
						  .calls = UINT64_MAX,
						  .library = bad,
						  .entry = bad,
						  .captured = true };
	const struct gpu_report_call call = { .function = bad,
					      .exported = bad,
					      .calls = UINT64_MAX,
					      .bytes = UINT64_MAX,
					      .ns = UINT64_MAX,
					      .max_ns = UINT64_MAX,
					      .errors = UINT64_MAX,
					      .blocks = true };
	const struct gpu_report_copy copy = { bad,	  bad,	      UINT64_MAX, UINT64_MAX,
					      UINT64_MAX, UINT64_MAX, true };
	const struct gpu_report_collective collective = { bad,	      bad,	  "op",
							  bad,	      UINT64_MAX, UINT64_MAX,
							  UINT64_MAX, UINT64_MAX, UINT64_MAX,
							  UINT64_MAX, true };
	const struct gpu_report_comm comm = { .comm = 5, .calls = UINT64_MAX, .last = bad };
	const struct gpu_report_open all[] = { open, later, late };
	const struct gpu_report_process process = {
		.pid = 1,
		.name = bad,
		.container = bad,
		.pod = bad,
		.namespace = bad,
		.ray_task = bad,
		.rank = bad,
		.calls = &call,
		.nr_calls = 1,
		.launches = &launch,
		.nr_launches = 1,
		.copies = &copy,
		.nr_copies = 1,
		.collectives = &collective,
		.nr_collectives = 1,
		.comms = &comm,
		.nr_comms = 1,
		.open = all,
		.nr_open = 3,
		.memory = { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, true,
			    UINT64_MAX, UINT64_MAX },
		.host_memory = { UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, false,
				 0, 0 },
	};
	const struct gpu_report_library library = { bad, true, true, true, true, UINT32_MAX, bad };
	struct gpu_report report = gpu_report_made(&process, 1);
	size_t columns, nr = 0;
	const char *c;
	char *text;
	int status;

	report.host = bad;
	report.seconds = NAN;
	report.libraries = &library;
	report.nr_libraries = 1;
	for (columns = 0; columns < 200; columns += 7) {
		text = gpu_report_table(&report,
					&(struct gpu_report_options){ .columns = columns });
		for (c = text; *c; c++)
			cr_assert(*c == '\n' || (unsigned char)*c >= 0x20);
		cr_expect_null(strstr(text, "\xe2\x80\xae"));
		free(text);
	}
	text = gpu_report_json(&report);
	for (c = text; *c; c++)
		nr += (unsigned char)*c < 0x20;
	cr_expect_eq(nr, 1, "its last byte");
	free(made_run("python3 -c 'import json,sys; json.load(sys.stdin)'", text, strlen(text),
		      &status));
	cr_expect_eq(status, 0, "%s", text);
	free(text);
}

/* A text that reaches its maximum is marked as cut, and nothing outside of memory is read. */
Test(gpu_report, no_room)
{
	struct gpu_report report = gpu_report_made(&busy, 1);
	char *table = gpu_report_table(&report, &(struct gpu_report_options){ 0 }),
	     *json = gpu_report_json(&report);
	struct buf text;
	size_t max;

	for (max = 0; max < strlen(table); max++) {
		buf_init(&text, max);
		gpu_table(&text, &report, &(struct gpu_report_options){ 0 });
		cr_expect_neq(buf_error(&text), 0);
		buf_fini(&text);
	}
	for (max = 0; max < strlen(json); max++) {
		buf_init(&text, max);
		gpu_json(&text, &report);
		cr_expect_neq(buf_error(&text), 0);
		buf_fini(&text);
	}
	free(table);
	free(json);
}

static const struct {
	uint64_t value;
	const char *count, *bytes, *ns;
} units[] = {
	{ 0, "0", "0 B", "0 ns" },
	{ 999, "999", "999 B", "999 ns" },
	{ 1000, "1000", "1.0 kB", "1.0 us" },
	{ 99949, "99949", "99.9 kB", "99.9 us" },
	{ 99951, "99951", "100 kB", "100 us" },
	{ 999499, "999499", "999 kB", "999 us" },
	{ 999500, "999500", "1.0 MB", "1.0 ms" },
	{ 9999999, "9999999", "10.0 MB", "10.0 ms" },
	{ 12345678, "12.3 M", "12.3 MB", "12.3 ms" },
	{ 99400000000, "99.4 G", "99.4 GB", "99.4 s" },
	{ 125000000000, "125 G", "125 GB", "2 min 5 s" },
	{ 6000000000000, "6.0 T", "6.0 TB", "1 h 40 min" },
	{ UINT64_MAX, "18.4 E", "18.4 EB", "5124095 h" },
};

Test(gpu_report, units)
{
	char text[UNITS_TEXT];
	size_t i;

	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		cr_expect_str_eq(units_count(text, units[i].value), units[i].count, "%s", text);
		cr_expect_str_eq(units_bytes(text, units[i].value), units[i].bytes, "%s", text);
		cr_expect_str_eq(units_ns(text, units[i].value), units[i].ns, "%s", text);
	}
}
