// SPDX-License-Identifier: Apache-2.0
#include "gpu/nccl_report.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_files.h"

static const char large_job[] =
	"{\"host\":\"n\",\"seconds\":10,\"processes\":["
	"{\"pid\":10,\"name\":\"python3\",\"communicators\":[{\"comm\":\"0xc0\",\"hash\":\"0xabc\","
	"\"rank\":1,\"size\":4294967295,\"calls\":5,\"last\":\"x\"}]},"
	"{\"pid\":11,\"name\":\"python3\",\"rank\":\"4000000000\"},"
	"{\"pid\":12,\"name\":\"python3\",\"rank\":\"7\"},"
	"{\"pid\":13,\"name\":\"python3\",\"rank\":\"07\"},"
	"{\"pid\":14,\"name\":\"python3\",\"rank\":\"7x\"},"
	"{\"pid\":15,\"name\":\"python3\",\"rank\":\"99999999999999999999\"},"
	"{\"pid\":16,\"name\":\"python3\",\"rank\":\"7\"},"
	"{\"pid\":17,\"name\":\"python3\",\"rank\":\"1\"}]}";

/* Very many ranks are missing: the hints search the known processes, and not each missing rank. */
Test(nccl_report, hints_of_large_communicators)
{
	char *text = nccl_report_of(large_job, NULL, 0);
	const char *first = strstr(text, "    RANK=7, which may be it: n pid 12 python3\n");
	const char *second = strstr(text, "    RANK=7, which may be it: n pid 16 python3\n");
	const char *third =
		strstr(text, "    RANK=4000000000, which may be it: n pid 11 python3\n");

	cr_expect(first && second > first && third > second, "%s", text);
	cr_expect_not(strstr(text, "RANK=1,") || strstr(text, "pid 13") || strstr(text, "pid 14") ||
			      strstr(text, "pid 15"),
		      "%s", text);
	free(text);
}

Test(nccl_report, one_does_not_come)
{
	nccl_expect_exactly(
		FILE_OF("node-1", "10",
			PROCESS("10", COMMS(REDUCE("0", "120")) OPENS(WAITS("42.5"))) "," PROCESS(
				"11", ",\"ray_task\":\"ray::Trainer.fit\",\"pod\":\"job-0\","
				      "\"namespace\":\"ml\"" COMMS(REDUCE("1", "119"))
					      OPENS(OPEN("0x0", "cuStreamSynchronize", "41", "0",
							 "\"cuStreamSynchronize\","
							 "\"load (data.py:7)\"")))),
		FILE_OF("node-2", "10",
			PROCESS("20", COMMS(REDUCE("2", "120")) OPENS(WAITS("40")))),
		"[1] a.json: node-1, 10.0 s, 2 processes\n"
		"[2] b.json: node-2, 10.0 s, 1 process\n"
		"\n"
		"Communicator 0xabc, 4 ranks\n" NCCL_HEAD
		"       0        120  ncclAllReduce         "
		"ncclAllReduce for 42.5 s          [1] node-1 "
		"pid 10 python3\n"
		"       1        119  ncclAllReduce         cuStreamSynchronize for 41.0 s    [1] "
		"node-1 "
		"pid 11 ray::Trainer.fit, pod ml/job-0\n"
		"       2        120  ncclAllReduce         ncclAllReduce for 40.0 s          [2] "
		"node-2 "
		"pid 20 python3\n"
		"  BEHIND: rank 1, in no collective of this communicator, while ranks 0, 2 wait, "
		"the "
		"longest in ncclAllReduce for 42.5 s\n"
		"  With fewer calls, too: at most 119, those that wait 120\n"
		"  bpfprof counts calls from its own start, and these are of several files, of "
		"10.0 s "
		"each:\n"
		"  a difference may come from their start\n"
		"    Rank 1: [1] node-1 pid 11 ray::Trainer.fit, pod ml/job-0\n"
		"      in cuStreamSynchronize for 41.0 s: thread 77 worker\n"
		"        cuStreamSynchronize\n"
		"        load (data.py:7)\n"
		"  Not in these files: rank 3 of 4: without a call while it was watched, or not "
		"watched.\n"
		"  Others wait: a missing rank is behind, if it was watched\n");
}

/* The others wait for the device, so only the counts can show a rank that is behind. */
Test(nccl_report, fewer_calls)
{
	nccl_expect_exactly(
		FILE_OF("node-1", "10",
			PROCESS("10", COMMS(REDUCE("0", "120")) OPENS(OPEN("0x0", "cuStreamSynchronize", "30", "0", ""))) "," PROCESS(
				"11",
				COMMS(REDUCE(
					"1",
					"119"))) "," PROCESS("12",
							     COMMS(REDUCE(
								     "2",
								     "120"))) "," PROCESS("13",
											  COMMS(REDUCE(
												  "3",
												  "119")))),
		NULL,
		"a.json: node-1, 10.0 s, 4 processes\n"
		"\n"
		"Communicator 0xabc, 4 ranks\n" NCCL_HEAD
		"       0        120  ncclAllReduce         "
		"cuStreamSynchronize for 30.0 s    node-1 pid "
		"10 python3\n"
		"       1        119  ncclAllReduce         -                                 "
		"node-1 pid "
		"11 python3\n"
		"       2        120  ncclAllReduce         -                                 "
		"node-1 pid "
		"12 python3\n"
		"       3        119  ncclAllReduce         -                                 "
		"node-1 pid "
		"13 python3\n"
		"  BEHIND: ranks 1, 3, with 119 calls, while rank 0 has made 120\n"
		"  No rank waits in a collective, but rank 0 does in cuStreamSynchronize, for 30.0 "
		"s\n"
		"    Rank 1: node-1 pid 11 python3\n"
		"      in no CUDA or NCCL call; to see where: bpfprof dump -p 11, on node-1\n"
		"    Rank 3: node-1 pid 13 python3\n"
		"      in no CUDA or NCCL call; to see where: bpfprof dump -p 13, on node-1\n");
}

Test(nccl_report, all_equal)
{
	const char *two =
		FILE_OF("n", "1",
			PROCESS("10", COMMS(COMM("0x1", "0xabc", "0", "2", "7", "x"))) "," PROCESS(
				"11", COMMS(COMM("0x2", "0xabc", "1", "2", "7", "x"))));
	const char *waiting = FILE_OF(
		"n", "1",
		PROCESS("10",
			COMMS(COMM("0x1", "0xabc", "0", "2", "7", "x")) OPENS(OPEN(
				"0x1", "x", "2", "8",
				""))) "," PROCESS("11",
						  COMMS(COMM("0x2", "0xabc", "1", "2", "7", "x"))
							  OPENS(OPEN("0x2", "x", "3", "8", ""))));

	nccl_expect_none_behind(two, NULL);
	EXPECT_PARTS(two, NULL,
		     "  All 2 ranks have made 7 calls\n"
		     "  No rank waits in a call: all may run as usual\n");
	nccl_expect_none_behind(waiting, NULL);
	EXPECT_PARTS(waiting, NULL,
		     "  All 2 ranks have made 7 calls, and all wait, the longest in x for 3.0 s\n");
}

Test(nccl_report, different_calls)
{
	const char *text = FILE_OF(
		"n", "1",
		PROCESS("10",
			COMMS(COMM("0x1", "0xabc", "0", "2", "7", "x")) OPENS(OPEN(
				"0x1", "x", "2", "8000",
				""))) "," PROCESS("11",
						  COMMS(COMM("0x2", "0xabc", "1", "2", "7", "x"))
							  OPENS(OPEN("0x2", "y", "3", "8", ""))));

	EXPECT_PARTS(text, NULL,
		     "  They wait in different calls: rank 0 in x of 8.0 kB, rank 1 in y of 8 B\n");
}

/* Runs of very different lengths: the counts show little, and the report says so. */
Test(nccl_report, other_runs)
{
	EXPECT_PARTS(
		FILE_OF("n", "60", PROCESS("10", COMMS(REDUCE("0", "600")))),
		FILE_OF("m", "2", PROCESS("11", COMMS(REDUCE("1", "20")))),
		"  BEHIND: rank 1, with 20 calls, while rank 0 has made 600\n",
		"  No rank waits in a call: all may run as usual\n",
		"of several files, of 2.0 s to 60.0 s:\n"
		"  this alone may explain the difference\n",
		"  Not in these files: ranks 2-3 of 4: without a call while they were watched, or "
		"not watched\n");
}

/* Sends and receives are not of all ranks. */
Test(nccl_report, between_two)
{
	const char *counts = FILE_OF(
		"n", "1",
		PROCESS("10", COMMS(COMM("0x1", "0xabc", "0", "2", "17", "ncclSend")) COLLECTIVES(
				      COLLECTIVE("0x1", "ncclSend", "10", "10", "0",
						 "0"))) "," PROCESS("11",
								    COMMS(COMM("0x2", "0xabc", "1",
									       "2", "7", "x"))));
	const char *open = FILE_OF(
		"n", "1",
		PROCESS("10", COMMS(COMM("0x1", "0xabc", "0", "2", "7", "ncclRecv")) OPENS(
				      OPEN("0x1", "ncclRecv", "50", "8",
					   ""))) "," PROCESS("11", COMMS(COMM("0x2", "0xabc", "1",
									      "2", "7", "x"))));

	nccl_expect_none_behind(counts, NULL);
	EXPECT_PARTS(counts, NULL, "  All 2 ranks have made 7 calls\n");
	nccl_expect_none_behind(open, NULL);
	EXPECT_PARTS(open, NULL,
		     "  All 2 ranks have made 7 calls, and some wait, in ncclRecv for 50.0 s\n",
		     "  The awaited ranks wait, too, are not in these files, or are not "
		     "known\n");
}

/* A pipeline: each waits for the one before it, and the first one is what all of them wait for. */
Test(nccl_report, pipeline)
{
#define STAGE(pid, rank, call)                                                                     \
	PROCESS(pid, COMMS(COMM("0x1", "0xabc", rank, "4", "7", "ncclRecv")) OPENS(call))
#define WITH(function, seconds, peer)                                                              \
	"{\"tid\":77,\"thread\":\"worker\",\"comm\":\"0x1\",\"function\":\"" function              \
	"\",\"seconds\":" seconds ",\"bytes\":8,\"peer\":" peer ",\"stack\":[]}"
	const char *all = FILE_OF(
		"n", "1",
		STAGE("10", "0", "") "," STAGE("11", "1", WITH("ncclRecv", "50", "0")) "," STAGE(
			"12", "2",
			WITH("ncclRecv", "51", "1")) "," STAGE("13", "3",
							       WITH("ncclRecv", "52", "2")));
	const char *circle =
		FILE_OF("n", "1",
			STAGE("10", "0", WITH("ncclSend", "50", "1")) "," STAGE(
				"11", "1", WITH("ncclRecv", "51", "0")) "," STAGE("12", "2", ""));
	const char *astray =
		FILE_OF("n", "1",
			STAGE("10", "0", WITH("ncclRecv", "50", "1")) "," STAGE(
				"11", "1",
				OPEN("0x1", "ncclAllReduce", "51", "8",
				     "")) "," STAGE("12", "2",
						    OPEN("0x1", "ncclAllReduce", "52", "8", "")));
	const char *absurd =
		FILE_OF("n", "1",
			STAGE("10", "0", WITH("ncclSend", "50", "4e9")) "," STAGE(
				"11", "1", WITH("ncclRecv", "51", "-1")) "," STAGE("12", "2", ""));

	EXPECT_PARTS(all, NULL,
		     "  BEHIND: rank 0, in no call of this communicator, while ranks 1-3 wait, the "
		     "longest in ncclRecv for 52.0 s\n    Rank 0: n pid 10 python3\n");
	nccl_expect_none_behind(circle, NULL);
	/* One that is in a receive while all others are in a collective is what they wait for. */
	EXPECT_PARTS(
		astray, NULL,
		"  BEHIND: rank 0, in no collective of this communicator, while ranks 1-2 wait, "
		"the longest in ncclAllReduce for 52.0 s\n    Rank 0: n pid 10 python3\n"
		"      in ncclRecv for 50.0 s: thread 77 worker\n");
	EXPECT_PARTS(circle, NULL, "and some wait, the longest in ncclRecv for 51.0 s\n");
	nccl_expect_none_behind(absurd, NULL);
}

/* Two files of one run: the newer one counts. The worst process comes first. */
Test(nccl_report, older_file)
{
	const char *old = FILE_OF("n", "1", PROCESS("10", COMMS(REDUCE("0", "5"))));
	const char *now = FILE_OF(
		"n", "1",
		PROCESS("10", COMMS(REDUCE("0", "7"))) "," PROCESS(
			"11", COMMS(REDUCE("1", "7") "," COMM("0x9", "0x9", "0", "1", "3", "y"))));

	nccl_expect_none_behind(old, now);
	EXPECT_PARTS(old, now, "Communicator 0x9, 1 rank\n", "Communicator 0xabc, 4 ranks\n",
		     "[1] n pid 10 python3 (an older file)\n", "[2] n pid 10 python3\n",
		     "  All 2 ranks have made 7 calls\n", "Not in these files: ranks 2-3 of 4");
}

/* A process that calls itself by the number that is missing. */
Test(nccl_report, missing)
{
	EXPECT_PARTS(
		FILE_OF("n", "1",
			PROCESS("10", COMMS(REDUCE("0", "5")) OPENS(WAITS("5"))) "," PROCESS(
				"11", ",\"rank\":\"2\"" OPENS(OPEN("0x0", "cuCtxSynchronize", "4",
								   "0", "\"f (x.py:1)\"")))),
		NULL, "  One rank alone: there is none to compare it with\n",
		"  Not in these files: ranks 1-3 of 4: ",
		"    RANK=2, which may be it: n pid 11 python3\n"
		"      in cuCtxSynchronize for 4.0 s: thread 77 worker\n"
		"        f (x.py:1)\n");
}

Test(nccl_report, many_missing)
{
	EXPECT_PARTS(
		FILE_OF("n", "1",
			PROCESS("10",
				COMMS(COMM("0x1", "0x1", "4000000000", "4294967295", "1", "x")))),
		NULL,
		"  Not in these files: ranks 0-3999999999, 4000000001-4294967294 of 4294967295: ");
}

Test(nccl_report, about_the_same)
{
	EXPECT_PARTS(
		FILE_OF("n", "1",
			PROCESS("10",
				COLLECTIVES(COLLECTIVE(
					"0x1", "x", "10", "1000", "300",
					"40") "," COLLECTIVE("0x1", "x", "10", "1050", "500",
							     "90"))) "," PROCESS("11",
										 COLLECTIVES(COLLECTIVE(
											 "0x1", "x",
											 "10",
											 "1000",
											 "20",
											 "2")))),
		NULL,
		"  x float32, about 105 B each, ranks not known: 20 times\n"
		"         Mean      Longest      Calls    Rank  Process\n"
		"        40 ns        90 ns         20       ?  n pid 10 python3\n"
		"         2 ns         2 ns         10       ?  n pid 11 python3\n");
}

/* The fastest stays in sight. */
Test(nccl_report, few_rows)
{
	char *text = nccl_report_of(
		FILE_OF("n", "1",
			PROCESS("10", COLLECTIVES(COLLECTIVE("0x1", "x", "1", "1", "50", "1"))) "," PROCESS(
				"11",
				COLLECTIVES(COLLECTIVE(
					"0x1", "x", "1", "1", "30",
					"1"))) "," PROCESS("12",
							   COLLECTIVES(COLLECTIVE(
								   "0x1", "x", "1", "1", "20",
								   "1"))) "," PROCESS("13",
										      COLLECTIVES(COLLECTIVE(
											      "0x1",
											      "x",
											      "1",
											      "1",
											      "10",
											      "1")))),
		NULL, 2);

	cr_expect(strstr(text, "  n pid 10 python3\n  ... 2 more\n"), "%s", text);
	cr_expect(strstr(text, "  n pid 13 python3\n"), "%s", text);
	free(text);
}

Test(nccl_report, memory)
{
	nccl_expect_exactly(
		FILE_OF("n", "1",
			PROCESS("10",
				",\"memory\":{\"live_bytes\":76000000000,"
				"\"device_free\":1700000000,\"device_total\":"
				"80000000000}") "," PROCESS("11",
							    ",\"memory\":{\"live_"
							    "bytes\":7,\"device_"
							    "free\":4000000000,"
							    "\"device_total\":"
							    "80000000000}") "," PROCESS("12",
											",\"memory"
											"\":{"
											"\"device_"
											"free\":"
											"null,"
											"\"device_"
											"total\":"
											"null}") ","
												 "7"),
		NULL,
		"a.json: n, 1.0 s, 3 processes\n"
		"\n"
		"No communicator was used while these processes were watched\n"
		"\n"
		"Device memory over 95%, which makes kernels and collectives many times "
		"slower:\n"
		"  78.3 GB of 80.0 GB (97.9%), 76.0 GB in live allocations that were seen: n pid "
		"10 python3\n"
		"\n"
		"1 entry was not understood\n");
}

/* Names that want to write to the terminal. */
Test(nccl_report, hostile_names)
{
	char *text = nccl_report_of(
		FILE_OF("\\u001b[31m", "1",
			"{\"pid\":1,\"name\":\"a\\nb\\u0007\",\"pod\":\"\\u202e\",\"namespace\":"
			"\"\\u0000\"" COMMS(COMM("0x1", "0x1", "0", "2", "1",
						 "\\u001b")) COLLECTIVES(COLLECTIVE("0x1", "\\r",
										    "1", "1", "1",
										    "1"))
				OPENS(OPEN(
					"0x1", "\\u009b\\n", "9", "1",
					"\"\\u001b\\n\"")) "}," PROCESS("2",
									COMMS(COMM("0x1", "0x1",
										   "1", "2", "1",
										   "x"))
										OPENS(OPEN("0x0",
											   "\\b",
											   "0", "0",
											   "\"\\t"
											   "\"")))),
		NULL, 0);
	const char *at;

	for (at = text; *at; at++)
		cr_expect(*at == '\n' || (unsigned char)*at >= 0x20, "0x%x in:\n%s", *at, text);
	cr_expect_not(strstr(text, "\xc2\x9b"), "%s", text);
	cr_expect_not(strstr(text, "\xe2\x80\xae"), "%s", text);
	free(text);
}
