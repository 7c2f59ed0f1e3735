// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"
#include "gpu/report.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/units.h"
#include "profile/stats.h"
#include "made_profile.h"

TestSuite(gpu_report, .timeout = 60);

static const char *const hung_stack[] = { "ncclAllReduce", "all_reduce (distributed_c10d.py:2501)",
					  "Trainer.fit (loop.py:31)" };

static const struct gpu_report_call calls[] = {
	{ "cuLaunchKernel", "cuLaunchKernel", 12000, 0, 0, 0, 0, false },
	{ "cuStreamSynchronize", "cuStreamSynchronize_ptsz", 40, 0, 9000000000, 1500000000, 2,
	  true },
	{ "cuMemcpyDtoHAsync", "cuMemcpyDtoHAsync_v2", 7, 4096, 2500, 900, 0, true },
	{ "ncclAllReduce", "ncclAllReduce", 120, 1250000000, 0, 0, 0, false },
};

#define GEMM                                                                                       \
	"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_64x3_tn_"     \
	"align8>(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_64x3_tn_align8::Params)"

static const struct gpu_report_launch launches[] = {
	{ GEMM,
	  0x55,
	  "cuLaunchKernel",
	  "cuLaunchKernel",
	  { 64, 8, 1 },
	  { 128, 1, 1 },
	  0,
	  4000,
	  "",
	  NULL,
	  false,
	  0 },
	{ "scale(float*)",
	  0x66,
	  "cuLaunchKernel",
	  "",
	  { 10, 1, 1 },
	  { 256, 1, 1 },
	  0,
	  5000,
	  "",
	  NULL,
	  false,
	  0 },
	{ GEMM,
	  0x55,
	  "cuLaunchKernel",
	  "cuLaunchKernel",
	  { 64, 4, 2 },
	  { 128, 1, 1 },
	  7,
	  2998,
	  "",
	  NULL,
	  false,
	  0 },
	{ "graph@0x77",
	  0x77,
	  "cuGraphLaunch",
	  "cuGraphLaunch",
	  { 0 },
	  { 0 },
	  0,
	  2,
	  "",
	  NULL,
	  false,
	  0 },
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
	{ "Broadcast", "float32", "root", "3", 0xc0, 256, 2, 900, 500, 30, 20, 0, 0, 0, 0 },
	{ "AllReduce", "bfloat16", "op", "sum", 0xc0, 10000000, 100, 10200000000, 240000000,
	  5100000000, 120000000, 17, 1, 75.5, 0x7e },
	{ "AllReduce", "int8", "op", "max", 0xc0, 3, 0, 0, 0, 0, 0, 2, 0, 75.25, 7 },
	{ "Send", "int8", "peer", "1", 0xdead, 64, 0, 0, 0, 0, 0, 1, 0, 0.25, 0 },
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

static const struct gpu_report_process busy = {
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

static const struct gpu_report_process idle = {
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

static struct gpu_report report_of(const struct gpu_report_process *processes, size_t nr)
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

static char *table_of(const struct gpu_report *report, const struct gpu_report_options *options)
{
	struct buf text;

	buf_init(&text, 1 << 20);
	gpu_table(&text, report, options);
	cr_assert_eq(buf_error(&text), 0);
	return buf_take(&text);
}

static char *json_of(const struct gpu_report *report)
{
	struct buf text;

	buf_init(&text, 1 << 20);
	gpu_json(&text, report);
	cr_assert_eq(buf_error(&text), 0);
	return buf_take(&text);
}

static void expect(const char *text, const char *part)
{
	cr_expect(strstr(text, part), "no '%s' in:\n%s", part, text);
}

static void expect_columns(const char *text, size_t columns)
{
	char *copy = strdup(text), *line, *save = NULL;

	for (line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		cr_expect_leq(text_columns(line), columns, "%s", line);
	free(copy);
}

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
	"    of these 1.0 s until now in one that is not over\n"
	"\n"
	"  Starved: 2.5 s (25% of the time) in 120 gaps, the longest 900 ms\n"
	"    and 30.0 ms in synchronous copies to the device in these gaps\n"
	"    and now for 1.2 s\n"
	"\n"
	"  Garbage collections: 120 ms in 16, the longest 33.0 ms\n"
	"\n"
	"  Memory: 76.0 GB live, peak 77.0 GB; 120 allocations, 80 frees\n"
	"    3 frees were of memory from before the start\n"
	"  Device: 78.3 GB of 80.0 GB used (97.9%), by its last cuMemGetInfo\n"
	"    NEARLY FULL (over 95%): kernels and collectives may take many times longer\n"
	"  PyTorch's tensors: 70.0 GB live, peak 72.0 GB; 5000 allocations, 4000 frees\n"
	"  Page-locked on host: 5.0 GB live, peak 6.0 GB; 12 allocations, 8 frees\n"
	"    1 frees were of memory from before the start\n"
	"\n"
	"  Communicator 0xc0: rank 3 of 8, hash 0xabcdef\n"
	"    120 calls since it was met, the last one ncclAllReduce\n"
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
	"    1 of which it will not be known\n"
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
	"Stacks: 900 taken, 30 not, over 100 a second and thread\n"
	"Lost: 5 (keys full)\n";

Test(gpu_report, table)
{
	const struct gpu_report_process processes[] = { busy, idle };
	struct gpu_report report = report_of(processes, 2);
	char *text = table_of(&report, &(struct gpu_report_options){ 0 });

	cr_assert_str_eq(text, golden);
	expect_columns(text, 80);
	free(text);
}

/* A narrow screen, few rows. */
/* The first page of a screen: what hangs first, and what there is no room for is said. */
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
	report = report_of(processes, 7);
	report.recent_seconds = 2;
	text = table_of(&report, &options);
	for (last = text; nr < 23 && last; nr++)
		last = strchr(last, '\n') ? strchr(last, '\n') + 1 : NULL;
	cr_assert(last);
	last[-1] = '\0';
	cr_expect_str_eq(
		text,
		"GPU calls on node-1, 10.0 s: 7 processes, 4 calls have not come back\n"
		"Now: 950 launches/s, blocked 150% of one thread, 76.0 GB of memory live\n"
		"Hooked: 245 functions of 1 library; 1 not (malformed)\n"
		"Stacks: 900 taken, 30 not, over 100 a second and thread\n"
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
	struct gpu_report report = report_of(&busy, 1);
	char *text = table_of(&report, &(struct gpu_report_options){ .rows = 1, .columns = 60 });

	expect(text, "\n    ... and 1 more\n\n  Kernel launches: 12000 (1200/s) of 3 kernels\n");
	expect(text, "\n       6998  2 shapes         void cutlass::\xe2\x80\xa6"
		     "align8::Params)\n"
		     "    ... and 2 more\n");
	expect(text, "\n         40        9.0 s");
	expect(text, "\n    ... and 3 more\n");
	free(text);
}

static const struct gpu_report_grouped grouped[] = {
	{ "ncclSend", "float32", "peer", "3", 0xc0, 7, 4200000, 2 },
	{ "ncclAllReduce", "bfloat16", "op", "sum", 0xdead, 8, 4096, 1 },
	{ "ncclAllGather", "int8", "", "", UINT64_MAX, 8, 64, 3 },
};

#define SEND                                                                                       \
	"    in the group: 2 ncclSend float32 4.2 MB peer 3,\n"                                    \
	"        communicator 0xc0, rank 3 of 8, stream 0x7\n"

/* What the end of a group waits for, or how much of that is not known. */
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
		  SEND "    and 5 more, of which nothing is known\n",
		  "\"count\":2}],\"group_calls\":7,\"group_complete\":false," },
		{ { true, false, 2, grouped, 1 },
		  SEND "    (that is not certain)\n",
		  "\"group_calls\":2,\"group_complete\":false," },
		{ { true, false, 3, grouped + 2, 1 },
		  "    in the group: 3 ncclAllGather int8 64 B,\n"
		  "        communicator not known, stream 0x8\n"
		  "    (that is not certain)\n",
		  "\"comm\":null," },
		{ { true, false, 2, NULL, 0 },
		  "    in the group: 2 collectives, of which nothing is known\n",
		  "\"group\":[],\"group_calls\":2,\"group_complete\":false," },
		{ { true, false, 0, NULL, 0 },
		  "    in the group: no collective that is known\n",
		  "\"group\":[],\"group_calls\":0,\"group_complete\":false," },
		{ { false, false, 0, NULL, 0 },
		  "    in the group: not known, it began before it was watched\n",
		  "\"group\":null,\"group_calls\":null,\"group_complete\":false," },
	};
	struct gpu_report_process process = busy;
	struct gpu_report_open open = { .tid = 9,
					.thread = "w",
					.function = "ncclGroupEnd",
					.seconds = 5,
					.ends_group = true };
	struct gpu_report report = report_of(&process, 1);
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
		text = table_of(&report, &(struct gpu_report_options){ 0 });
		expect(text, wanted.data);
		expect_columns(text, 80);
		free(text);
		buf_fini(&wanted);
		text = json_of(&report);
		expect(text, cases[i].json);
		free(text);
	}
}

/* What a call was given, as far as that is known. */
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
		/* Of a type that is not known. */
		{ { .comm = 0xdead, .bytes = 64, .extra_name = "peer", .extra = "1" },
		  "    64 B peer 1,\n    communicator 0xdead, stream 0x0\n",
		  "\"bytes\":64,\"datatype\":null,\"peer\":1,\"stack\"" },
		/* The end of a communicator, a copy, and what nothing is known of. */
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
	struct gpu_report report = report_of(&process, 1);
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
		text = table_of(&report, &(struct gpu_report_options){ 0 });
		expect(text, wanted.data);
		free(text);
		buf_fini(&wanted);
		text = json_of(&report);
		expect(text, cases[i].json);
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
	struct gpu_report report = report_of(&process, 1);
	char *text;
	size_t i;

	for (i = 0; i < 20; i++)
		many[i] = grouped[0];
	process.open = &open;
	process.nr_open = 1;
	text = table_of(&report, &(struct gpu_report_options){ .rows = 5 });
	expect(text, "rank 3 of 8, stream 0x7\n    ... and 12 more\n      (no stack was taken)\n");
	free(text);
	text = table_of(&report, &(struct gpu_report_options){ 0 });
	cr_expect_null(strstr(text, "and 12 more"));
	free(text);
}

Test(gpu_report, wide)
{
	struct gpu_report report = report_of(&busy, 1);
	char *text = table_of(&report, &(struct gpu_report_options){ .columns = 120 });

	expect(text,
	       "\n      Calls  Grid / block     Stream          Called            Kernel\n"
	       "       6998  2 shapes         several         cuLaunchKernel    void cutlass::");
	expect(text,
	       "\n       5000  10 / 256         0x0             cuLaunchKernel    scale(float*)\n"
	       "          2  -                0x0             cuGraphLaunch     graph@0x77\n");
	expect_columns(text, 120);
	free(text);
}

/* The library that a launch came through has a column on narrow screens, too. */
Test(gpu_report, entries)
{
	const struct gpu_report_launch by_library = { "gemm",
						      1,
						      "cuLaunchKernel",
						      "cublasGemmEx",
						      { 1, 1, 1 },
						      { 1024, 1, 64 },
						      0,
						      5,
						      NULL,
						      "",
						      false,
						      0 };
	struct gpu_report_process process = idle;
	struct gpu_report report = report_of(&process, 1);
	char *text;

	process.launches = &by_library;
	process.nr_launches = 1;
	text = table_of(&report, &(struct gpu_report_options){ 0 });
	expect(text, "\n          5  1 / 1024x1x64    cublasGemmEx      gemm\n");
	free(text);
}

/* What is written into a graph is told by itself, and is in no sum. */
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
	struct gpu_report report = report_of(&process, 1);
	char *text;

	process.calls = calls;
	process.nr_calls = 1;
	process.graphs = graphs;
	process.nr_graphs = 3;
	text = table_of(&report, &(struct gpu_report_options){ 0 });
	expect(text, "\n  Graph launches: 115 (12/s) of 3 kinds of graphs\n"
		     "  What 5 of them run is not known\n"
		     "       Runs  Graphs  Kernel\n"
		     "       3500       2  gemm\n"
		     "       3200       1  attention\n"
		     "\n");
	expect_columns(text, 80);
	free(text);
	text = table_of(&report, &(struct gpu_report_options){ .rows = 1 });
	expect(text, "       2  gemm\n    ... and 1 more\n");
	free(text);
	text = json_of(&report);
	expect(text, "\"graphs\":[{\"content\":\"0x6a\",\"launches\":100,"
		     "\"complete\":true,\"nodes\":[{\"function\":\"cuLaunchKernel\","
		     "\"kernel\":\"gemm\",\"count\":30},");
	expect(text, "{\"function\":\"cuMemsetD8Async\",\"kernel\":null,\"count\":3}]},{"
		     "\"content\":\"0x6b\",");
	expect(text, "{\"content\":null,\"launches\":5,\"complete\":false,"
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
	struct gpu_report report = report_of(&process, 1);
	char *text;

	process.calls = calls;
	process.nr_calls = 1;
	process.graphs = graphs;
	process.nr_graphs = 2;
	text = table_of(&report, &(struct gpu_report_options){ 0 });
	expect(text, "/s) of 2 kinds of graphs\n  Some of them run more than is known\n       Runs "
		     " Graphs  Kernel\n"
		     "     18.4 E       2  k\n");
	free(text);
}

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
	struct gpu_report report = report_of(&process, 1);
	char *text;

	process.launches = some;
	process.nr_launches = 3;
	process.copies = &copy;
	process.nr_copies = 1;
	process.collectives = &collective;
	process.nr_collectives = 1;
	text = table_of(&report, &(struct gpu_report_options){ 0 });
	expect(text, "Kernel launches: 5 (");
	expect(text, "/s) of 1 kernels\n  [captured]: 12 more, written into graphs, not run\n");
	expect(text, "\n          5  -                gemm\n");
	expect(text, "\n         12  -                [captured] gemm\n");
	expect(text, "  [captured] HtoD c\n");
	expect(text, "  [captured] AllReduce int8 sum\n");
	free(text);
}

Test(gpu_report, launches_through_a_library)
{
	const struct gpu_report_launch through[] = {
		{ "gemm",
		  1,
		  "cuLaunchKernel",
		  "cuLaunchKernel",
		  { 1, 1, 1 },
		  { 32, 1, 1 },
		  0,
		  5,
		  "libcublas.so.12",
		  "cublasGemmEx",
		  false,
		  0 },
		{ "gemm",
		  1,
		  "cuLaunchKernel",
		  "cuLaunchKernel",
		  { 1, 1, 1 },
		  { 32, 1, 1 },
		  7,
		  4,
		  "libcublas.so.12",
		  "cublasGemmEx",
		  false,
		  0 },
		{ "gemm",
		  1,
		  "cuLaunchKernel",
		  "cuLaunchKernel",
		  { 1, 1, 1 },
		  { 32, 1, 1 },
		  0,
		  3,
		  "libcudnn_ops.so.9",
		  "",
		  false,
		  0 },
		{ "own",
		  2,
		  "cuLaunchKernel",
		  "cuLaunchKernel",
		  { 1, 1, 1 },
		  { 32, 1, 1 },
		  0,
		  2,
		  "",
		  NULL,
		  false,
		  0 },
	};
	struct gpu_report_process process = idle;
	struct gpu_report report = report_of(&process, 1);
	char *text;

	process.launches = through;
	process.nr_launches = 4;
	text = table_of(&report, &(struct gpu_report_options){ 0 });
	expect(text, "  Through                   Kernel\n");
	expect(text, "\n          9  1 / 32           cublasGemmEx              gemm\n");
	expect(text, "\n          3  1 / 32           libcudnn_ops.so.9         gemm\n");
	expect(text, "\n          2  1 / 32           -                         own\n");
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
	struct gpu_report report = report_of(&busy, 1);
	char *text = table_of(&report, &(struct gpu_report_options){ .sort = "calls" });

	cr_expect_lt(place(text, "0  cuLaunchKernel\n"), place(text, "0  ncclAllReduce\n"));
	cr_expect_lt(place(text, "0  ncclAllReduce\n"), place(text, "2  cuStreamSynchronize\n"));
	cr_expect_lt(place(text, "DtoH cuMemcpyDtoHAsync\n"), place(text, "HtoD cuMemcpyHtoD\n"));
	free(text);
	text = table_of(&report, &(struct gpu_report_options){ .sort = "bytes" });
	cr_expect_lt(place(text, "0  ncclAllReduce\n"), place(text, "0  cuMemcpyDtoHAsync\n"));
	cr_expect_lt(place(text, "0  cuMemcpyDtoHAsync\n"), place(text, "0  cuLaunchKernel\n"));
	free(text);
	text = table_of(&report, &(struct gpu_report_options){ .sort = "blocked" });
	cr_expect_lt(place(text, "2  cuStreamSynchronize\n"),
		     place(text, "0  cuMemcpyDtoHAsync\n"));
	cr_expect_lt(place(text, "HtoD cuMemcpyHtoD\n"), place(text, "DtoH cuMemcpyDtoHAsync\n"));
	free(text);
}

Test(gpu_report, nothing)
{
	struct gpu_report report = { .host = "", .seconds = 2.5 };
	char *text = table_of(&report, &(struct gpu_report_options){ 0 });

	cr_expect_str_eq(text, "GPU calls, 2.5 s\nno CUDA or NCCL call in 2.5 s\n\n"
			       "No process has libcuda.so.1 or libnccl mapped.\n");
	free(text);
	text = json_of(&report);
	cr_expect_str_eq(text, "{\"host\":\"\",\"seconds\":2.500,\"libraries\":[],\"processes\":[],"
			       "\"without_calls\":[],\"stacks\":{\"taken\":0,\"skipped\":0,"
			       "\"per_thread_and_second\":0},\"lost\":{}}\n");
	free(text);
}

/* A device that is not nearly full, and one that says nonsense. */
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
	struct gpu_report report = report_of(&process, 1);
	char *text;
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		process.memory = (struct gpu_report_memory){ .device_known = true,
							     .device_free = cases[i].free,
							     .device_total = cases[i].total };
		text = table_of(&report, &(struct gpu_report_options){ 0 });
		expect(text, cases[i].line);
		free(text);
	}
}

/* What drives a terminal, ends a line or a string, or is no number. */
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
	const struct gpu_report_launch launch = { bad,
						  UINT64_MAX,
						  bad,
						  bad,
						  { UINT32_MAX, UINT32_MAX, UINT32_MAX },
						  { UINT32_MAX, UINT32_MAX, UINT32_MAX },
						  UINT64_MAX,
						  UINT64_MAX,
						  bad,
						  bad,
						  true,
						  0 };
	const struct gpu_report_call call = { bad,	  bad,	      UINT64_MAX, UINT64_MAX,
					      UINT64_MAX, UINT64_MAX, UINT64_MAX, true };
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
	struct gpu_report report = report_of(&process, 1);
	size_t columns, nr = 0;
	const char *c;
	char *text;
	int status;

	report.host = bad;
	report.seconds = NAN;
	report.libraries = &library;
	report.nr_libraries = 1;
	for (columns = 0; columns < 200; columns += 7) {
		text = table_of(&report, &(struct gpu_report_options){ .columns = columns });
		for (c = text; *c; c++)
			cr_assert(*c == '\n' || (unsigned char)*c >= 0x20);
		cr_expect_null(strstr(text, "\xe2\x80\xae"));
		free(text);
	}
	text = json_of(&report);
	for (c = text; *c; c++)
		nr += (unsigned char)*c < 0x20;
	cr_expect_eq(nr, 1, "its last byte");
	free(made_run("python3 -c 'import json,sys; json.load(sys.stdin)'", text, strlen(text),
		      &status));
	cr_expect_eq(status, 0, "%s", text);
	free(text);
}

/* Whatever it is cut to by its maximum, it says so and reads nothing that is not there. */
Test(gpu_report, no_room)
{
	struct gpu_report report = report_of(&busy, 1);
	char *table = table_of(&report, &(struct gpu_report_options){ 0 }),
	     *json = json_of(&report);
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

#define NO_COLLECTIVE                                                                              \
	"\"comm\":\"0x0\",\"hash\":null,\"rank\":null,\"size\":null,\"bytes\":0,\"datatype\":null"

static const char golden_json[] =
	"{\"host\":\"node-1\",\"seconds\":10.000,\"libraries\":[{"
	"\"path\":\"/usr/lib/x86_64-linux-gnu/libcuda.so.1\",\"layers\":[\"cuda\"],"
	"\"functions\":245,\"problem\":null},{\"path\":\"/opt/libnccl.so.2\",\"layers\":["
	"\"nccl\"],\"functions\":0,\"problem\":\"malformed\"}],\"processes\":[{"
	"\"pid\":4242,\"name\":\"python3\",\"container\":\"trainer\",\"pod\":\"job-0\","
	"\"namespace\":\"ml\",\"ray_task\":\"ray::Trainer.fit\",\"rank\":\"3\",\"calls\":[{"
	"\"function\":\"cuLaunchKernel\",\"exported\":\"cuLaunchKernel\",\"calls\":12000,"
	"\"bytes\":0,\"ns\":0,\"max_ns\":0,\"errors\":0},{"
	"\"function\":\"cuStreamSynchronize\",\"exported\":\"cuStreamSynchronize_ptsz\","
	"\"calls\":40,\"bytes\":0,\"ns\":9000000000,\"max_ns\":1500000000,\"errors\":2},{"
	"\"function\":\"cuMemcpyDtoHAsync\",\"exported\":\"cuMemcpyDtoHAsync_v2\","
	"\"calls\":7,\"bytes\":4096,\"ns\":2500,\"max_ns\":900,\"errors\":0},{"
	"\"function\":\"ncclAllReduce\",\"exported\":\"ncclAllReduce\",\"calls\":120,"
	"\"bytes\":1250000000,\"ns\":0,\"max_ns\":0,\"errors\":0}],\"launches\":[{"
	"\"kernel\":\"void "
	"cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_64x3_tn_align8>("
	"cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_64x3_tn_align8::Params)\","
	"\"handle\":\"0x55\",\"function\":\"cuLaunchKernel\","
	"\"exported\":\"cuLaunchKernel\",\"library\":null,\"entry\":null,\"grid\":[64,8,1],"
	"\"block\":[128,1,1],"
	"\"stream\":\"0x0\",\"calls\":4000,\"captured\":false},{\"kernel\":\"scale(float*)\","
	"\"handle\":\"0x66\",\"function\":\"cuLaunchKernel\",\"exported\":\"\",\"library\":null,"
	"\"entry\":null,\"grid\":["
	"10,1,1],\"block\":[256,1,1],\"stream\":\"0x0\",\"calls\":5000,\"captured\":false},{"
	"\"kernel\":\"void "
	"cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_64x3_tn_align8>("
	"cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128_64x3_tn_align8::Params)\","
	"\"handle\":\"0x55\",\"function\":\"cuLaunchKernel\","
	"\"exported\":\"cuLaunchKernel\",\"library\":null,\"entry\":null,\"grid\":[64,4,2],"
	"\"block\":[128,1,1],"
	"\"stream\":\"0x7\",\"calls\":2998,\"captured\":false},{\"kernel\":\"graph@0x77\","
	"\"handle\":\"0x77\","
	"\"function\":\"cuGraphLaunch\",\"exported\":\"cuGraphLaunch\",\"library\":null,\"entry\":"
	"null,\"grid\":[0,0,0],"
	"\"block\":[0,0,0],\"stream\":\"0x0\",\"calls\":2,\"captured\":false}],\"graphs\":[],"
	"\"copies\":[{"
	"\"direction\":\"DtoH\",\"function\":\"cuMemcpyDtoHAsync\",\"stream\":\"0x0\","
	"\"calls\":7,\"bytes\":4096,\"ns\":2500,\"captured\":false},{\"direction\":\"HtoD\","
	"\"function\":\"cuMemcpyHtoD\",\"stream\":\"0x0\",\"calls\":3,\"bytes\":12300000,"
	"\"ns\":3400000,\"captured\":false}],\"memory\":{\"live_bytes\":76000000000,"
	"\"peak_bytes\":77000000000,\"allocations\":120,\"frees\":80,\"unknown_frees\":3,"
	"\"device_free\":1700000000,\"device_total\":80000000000},\"host_memory\":{"
	"\"live_bytes\":5000000000,\"peak_bytes\":6000000000,\"allocations\":12,\"frees\":8,"
	"\"unknown_frees\":1},\"tensor_memory\":{"
	"\"live_bytes\":70000000000,\"peak_bytes\":72000000000,\"allocations\":5000,"
	"\"frees\":4000,\"unknown_frees\":0},\"starved\":{"
	"\"ns\":2500000000,\"max_ns\":900000000,\"gaps\":120,\"copy_ns\":30000000,"
	"\"since_seconds\":1.250},\"spans\":{\"count\":121,\"ns\":5250000000,"
	"\"max_ns\":800000000,\"since_seconds\":1.000},\"collectives\":[{"
	"\"operation\":\"Broadcast\",\"datatype\":\"float32\",\"root\":3,"
	"\"comm\":\"0xc0\",\"stream\":\"0x7\",\"calls\":2,\"bytes\":512,\"ns\":900,"
	"\"max_ns\":500,\"captured\":false},{\"operation\":\"AllReduce\",\"datatype\":\"bfloat16\","
	"\"op\":\"sum\",\"comm\":\"0xc0\",\"stream\":\"0x7\",\"calls\":118,"
	"\"bytes\":1250000000,\"ns\":42000000000,\"max_ns\":41000000000,\"captured\":false},{"
	"\"operation\":\"Send\",\"datatype\":\"int8\",\"peer\":1,\"comm\":\"0xdead\","
	"\"stream\":\"0x7\",\"calls\":1,\"bytes\":64,\"ns\":0,\"max_ns\":0,\"captured\":false}],"
	"\"completions\":[{\"operation\":\"Broadcast\",\"datatype\":\"float32\",\"ro"
	"ot\":3,\"comm\":\"0xc0\",\"bytes\":256,\"count\":2,\"ns\":900,\"max_ns\":500,"
	"\"within_ns\":30,\"within_max_ns\":20,\"pending\":0,\"unknown\":0,"
	"\"pending_seconds\":null,\"pending_stream\":null},{\"ope"
	"ration\":\"AllReduce\",\"datatype\":\"bfloat16\",\"op\":\"sum\",\"comm\":\"0xc"
	"0\",\"bytes\":10000000,\"count\":100,\"ns\":10200000000,\"max_ns\":240000"
	"000,\"within_ns\":5100000000,\"within_max_ns\":120000000,\"pending\":1"
	"7,\"unknown\":1,\"pending_seconds\":75.500,\"pending_stream\":\"0x7e\"},{"
	"\"operation\":\"AllReduce\",\"datatype\":\"int8\",\"op\":\"max\",\"comm\":\"0xc0\","
	"\"bytes\":3,\"count\":0,\"ns\":0,\"max_ns\":0,\"within_ns\":0,\"within_max_ns\":0,"
	"\"pending\":2,\"unknown\":0,\"pending_seconds\":75.250,\"pending_stream\":\"0x7\"},{"
	"\"operation\":\"Send\",\"datatype\":\"int8\",\"peer\":1,\"c"
	"omm\":\"0xdead\",\"bytes\":64,\"count\":0,\"ns\":0,\"max_ns\":0,\"within_ns\""
	":0,\"within_max_ns\":0,\"pending\":1,\"unknown\":0,\"pending_seconds\":0.250,"
	"\"pending_stream\":\"0x0\"}],"
	"\"communicators\":[{\"comm\":\"0xc0\",\"hash\":\"0xabcdef\",\"rank\":3,\"size\":8,"
	"\"calls\":120,\"last\":\"ncclAllReduce\"}],\"open\":[{\"tid\":101,"
	"\"thread\":\"worker\",\"function\":\"cuStreamSynchronize\",\"seconds\":0.200,"
	"\"since_before\":false,\"stream\":\"0x0\"," NO_COLLECTIVE ",\"stack\":[]},{"
	"\"tid\":102,"
	"\"thread\":\"pt_nccl\",\"function\":\"ncclAllReduce\",\"seconds\":42.500,"
	"\"since_before\":false,\"stream\":\"0x7\",\"comm\":\"0xc0\",\"hash\":\"0xabcdef\","
	"\"rank\":3,\"size\":8,\"bytes\":1250000000,\"datatype\":\"bfloat16\",\"op\":\"sum\","
	"\"stack\":["
	"\"ncclAllReduce\",\"all_reduce (distributed_c10d.py:2501)\","
	"\"Trainer.fit (loop.py:31)\"]},{\"tid\":103,\"thread\":\"io\","
	"\"function\":\"cuMemcpyDtoH\",\"seconds\":3.000,\"since_before\":false,\"stream\":"
	"\"0x0\"," NO_COLLECTIVE ",\"stack\":[]}],\"where\":[]},{\"pid\":77,\"name\":\"idle\","
	"\"container\":null,\"pod\":null,\"namespace\":null,\"ray_task\":null,"
	"\"rank\":null,\"calls\":[],\"launches\":[],\"graphs\":[],\"copies\":[],\"memory\":{"
	"\"live_bytes\":0,\"peak_bytes\":0,\"allocations\":0,\"frees\":0,"
	"\"unknown_frees\":0,\"device_free\":null,\"device_total\":null},\"host_memory\":{"
	"\"live_bytes\":0,\"peak_bytes\":0,\"allocations\":0,\"frees\":0,\"unknown_frees\":0},"
	"\"tensor_memory\":null,"
	"\"starved\":null,\"spans\":null,\"collectives\":["
	"],\"completions\":[],\"communicators\":[],\"open\":[],\"where\":[]}],\"without_calls\":["
	"{"
	"\"pid\":77,\"name\":\"idle\",\"container\":null,\"pod\":null,\"namespace\":null,"
	"\"ray_task\":null,\"rank\":null,\"where\":[{\"tid\":78,\"thread\":\"main\",\"last_in_"
	"nccl\":"
	"false,\"running\":false,"
	"\"stack\":[\"read\",\"next_batch (x.py:7)\"]},{\"tid\":79,\"thread\":\"engine\","
	"\"last_in_nccl\":true,\"running\":true,\"stack\":[]}]}],\"stacks\":{\"taken\":900,"
	"\"skipped\":30,\"per_thread_and_second\":100},"
	"\"lost\":{\"keys_full\":5,\"none\":0}}\n";

Test(gpu_report, json)
{
	static const char *const stack[] = { "read", "next_batch (x.py:7)" };
	const struct gpu_report_where where[] = {
		{ .tid = 78, .thread = "main", .stack = stack, .nr_stack = 2 },
		{ .tid = 79, .thread = "engine", .was_in_nccl = true, .running = true },
	};
	const struct gpu_report_process processes[] = { busy, idle };
	struct gpu_report_process silent = idle;
	struct gpu_report report = report_of(processes, 2);
	char *text, *shown;
	int status;

	silent.where = where;
	silent.nr_where = 2;
	report.silent = &silent;
	report.nr_silent = 1;
	text = json_of(&report);
	cr_assert_str_eq(text, golden_json);
	shown = made_run("python3 -c 'import json,sys; d=json.load(sys.stdin); "
			 "print(list(d), list(d[\"processes\"][0]))'",
			 text, strlen(text), &status);
	cr_expect_str_eq(shown,
			 "['host', 'seconds', 'libraries', 'processes', 'without_calls', 'stacks', "
			 "'lost'] "
			 "['pid', 'name', 'container', 'pod', 'namespace', 'ray_task', 'rank', "
			 "'calls', 'launches', 'graphs', 'copies', 'memory', 'host_memory', "
			 "'tensor_memory', "
			 "'starved', 'spans', "
			 "'collectives', 'completions', "
			 "'communicators', 'open', 'where']\n");
	free(shown);
	free(text);
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
