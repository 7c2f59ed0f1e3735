// SPDX-License-Identifier: Apache-2.0
/* The report as JSON. */
#include "gpu/report.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "made_profile.h"
#include "gpu_report_made.h"

#define NO_COLLECTIVE                                                                              \
	"\"comm\":\"0x0\",\"hash\":null,\"rank\":null,\"size\":null,\"bytes\":0,\"datatype\":null"

static const char golden_json[] =
	"{\"host\":\"node-1\",\"seconds\":10.000,\"start_seconds\":0.000,\"libraries\":[{"
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
	struct gpu_report report = gpu_report_made(processes, 2);
	char *text, *shown;
	int status;

	silent.where = where;
	silent.nr_where = 2;
	report.silent = &silent;
	report.nr_silent = 1;
	text = gpu_report_json(&report);
	cr_assert_str_eq(text, golden_json);
	shown = made_run("python3 -c 'import json,sys; d=json.load(sys.stdin); "
			 "print(list(d), list(d[\"processes\"][0]))'",
			 text, strlen(text), &status);
	cr_expect_str_eq(shown,
			 "['host', 'seconds', 'start_seconds', 'libraries', 'processes', "
			 "'without_calls', 'stacks', "
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
