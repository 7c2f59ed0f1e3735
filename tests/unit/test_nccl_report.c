// SPDX-License-Identifier: Apache-2.0
#include "gpu/nccl_report.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "gpu/report_read.h"

TestSuite(nccl_report, .timeout = 60);

#define FILE_OF(host, seconds, ...)                                                                \
	"{\"host\":\"" host "\",\"seconds\":" seconds ",\"processes\":[" __VA_ARGS__ "]}"
#define PROCESS(pid, rest) "{\"pid\":" pid ",\"name\":\"python3\"" rest "}"
#define COMMS(...) ",\"communicators\":[" __VA_ARGS__ "]"
#define COMM(comm, hash, rank, size, calls, last)                                                  \
	"{\"comm\":\"" comm "\",\"hash\":\"" hash "\",\"rank\":" rank ",\"size\":" size            \
	",\"calls\":" calls ",\"last\":\"" last "\"}"
/* Written into a graph: its time says nothing. */
#define CAPTURED                                                                                   \
	"{\"operation\":\"ncclAllReduce\",\"datatype\":\"float32\",\"comm\":\"0xc0\",\"stream\":"  \
	"\"0x7\","                                                                                 \
	"\"calls\":9,\"bytes\":36000,\"ns\":90000000000,\"max_ns\":10000000000,\"captured\":true}"
#define COLLECTIVES(...) ",\"collectives\":[" __VA_ARGS__ "]"
#define COLLECTIVE(comm, operation, calls, bytes, ns, max_ns)                                      \
	"{\"comm\":\"" comm "\",\"operation\":\"" operation                                        \
	"\",\"datatype\":\"float32\",\"stream\":\"0x7\",\"calls\":" calls ",\"bytes\":" bytes      \
	",\"ns\":" ns ",\"max_ns\":" max_ns "}"
#define COMPLETIONS(...) ",\"completions\":[" __VA_ARGS__ "]"
#define COMPLETION(bytes, count, ns, max_ns, within_ns)                                            \
	"{\"comm\":\"0xc0\",\"operation\":\"ncclAllReduce\",\"datatype\":\"float32\","             \
	"\"bytes\":" bytes ",\"count\":" count ",\"ns\":" ns ",\"max_ns\":" max_ns                 \
	",\"within_ns\":" within_ns "}"
#define OPENS(...) ",\"open\":[" __VA_ARGS__ "]"
#define OPEN(comm, function, seconds, bytes, stack)                                                \
	"{\"tid\":77,\"thread\":\"worker\",\"comm\":\"" comm "\",\"stream\":\"0x7\",\"function\":" \
	"\"" function "\",\"seconds\":" seconds ",\"bytes\":" bytes ",\"stack\":[" stack "]}"
#define REDUCE(rank, calls) COMM("0xc0", "0xabc", rank, "4", calls, "ncclAllReduce")
#define WAITS(seconds) OPEN("0xc0", "ncclAllReduce", seconds, "4000", "\"ncclAllReduce\"")

static char *report_of(const char *first, const char *second, size_t rows)
{
	const struct nccl_report_options options = { .rows = rows };
	struct gpu_read read;
	struct buf text;

	cr_assert_eq(gpu_read_init(&read), 0);
	cr_assert_eq(gpu_read_add(&read, "a.json", first, strlen(first)), 0);
	if (second)
		cr_assert_eq(gpu_read_add(&read, "b.json", second, strlen(second)), 0);
	buf_init(&text, 1 << 20);
	cr_assert_eq(nccl_report(&text, &read, &options), 0);
	cr_assert_eq(buf_error(&text), 0);
	gpu_read_fini(&read);
	return buf_take(&text);
}

static void expect_exactly(const char *first, const char *second, const char *wanted)
{
	char *text = report_of(first, second, 64);

	cr_expect_str_eq(text, wanted, "got:\n%s\nnot:\n%s", text, wanted);
	free(text);
}

/* All of these parts, in that order; the last one is NULL. */
static void expect_parts(const char *first, const char *second, const char *const *parts)
{
	char *text = report_of(first, second, 64), *at = text;

	for (; *parts; parts++) {
		char *found = strstr(at, *parts);

		cr_expect(found, "no '%s' in:\n%s", *parts, at);
		at = found ? found + strlen(*parts) : at;
	}
	free(text);
}

#define EXPECT_PARTS(first, second, ...)                                                           \
	expect_parts(first, second, (const char *const[]){ __VA_ARGS__, NULL })

/* Nobody else of that text is blamed. */
static void expect_none_behind(const char *first, const char *second)
{
	char *text = report_of(first, second, 64);

	cr_expect_not(strstr(text, "BEHIND"), "%s", text);
	free(text);
}

#define HEAD                                                                                       \
	"    Rank      Calls  Last                  Open                              Process\n"

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

/* However many ranks are missing: who is among them is looked for, and not each of them. */
Test(nccl_report, hints_of_large_communicators)
{
	char *text = report_of(large_job, NULL, 0);
	const char *first = strstr(text, "    RANK=7, if that is it: n pid 12 python3\n");
	const char *second = strstr(text, "    RANK=7, if that is it: n pid 16 python3\n");
	const char *third = strstr(text, "    RANK=4000000000, if that is it: n pid 11 python3\n");

	cr_expect(first && second > first && third > second, "%s", text);
	cr_expect_not(strstr(text, "RANK=1,") || strstr(text, "pid 13") || strstr(text, "pid 14") ||
			      strstr(text, "pid 15"),
		      "%s", text);
	free(text);
}

Test(nccl_report, one_does_not_come)
{
	expect_exactly(
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
		"Communicator 0xabc, 4 ranks\n" HEAD "       0        120  ncclAllReduce         "
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
		"  Calls are counted from when bpfprof came, and these are of several files, of "
		"10.0 s "
		"each:\n"
		"  a difference may come from their start\n"
		"    Rank 1: [1] node-1 pid 11 ray::Trainer.fit, pod ml/job-0\n"
		"      in cuStreamSynchronize for 41.0 s: thread 77 worker\n"
		"        cuStreamSynchronize\n"
		"        load (data.py:7)\n"
		"  Not in these files: rank 3 of 4: without a call while it was watched, or not "
		"watched.\n"
		"  Others wait: if watched, that is who is behind\n");
}

/* The others wait for the device, where counts alone tell. */
Test(nccl_report, fewer_calls)
{
	expect_exactly(
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
		"Communicator 0xabc, 4 ranks\n" HEAD "       0        120  ncclAllReduce         "
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
		"  None waits in a collective, but rank 0 does in cuStreamSynchronize, for 30.0 s\n"
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

	expect_none_behind(two, NULL);
	EXPECT_PARTS(two, NULL,
		     "  All 2 ranks have made 7 calls\n"
		     "  None waits in a call: they may be running as usual\n");
	expect_none_behind(waiting, NULL);
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

/* Runs of very different lengths: the counts say little, and that is said. */
Test(nccl_report, other_runs)
{
	EXPECT_PARTS(
		FILE_OF("n", "60", PROCESS("10", COMMS(REDUCE("0", "600")))),
		FILE_OF("m", "2", PROCESS("11", COMMS(REDUCE("1", "20")))),
		"  BEHIND: rank 1, with 20 calls, while rank 0 has made 600\n",
		"  None waits in a call: they may be running as usual\n",
		"of several files, of 2.0 s to 60.0 s:\n"
		"  the difference may be no more than that\n",
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

	expect_none_behind(counts, NULL);
	EXPECT_PARTS(counts, NULL, "  All 2 ranks have made 7 calls\n");
	expect_none_behind(open, NULL);
	EXPECT_PARTS(open, NULL,
		     "  All 2 ranks have made 7 calls, and some wait, in ncclRecv for 50.0 s\n",
		     "  Whoever these send to or receive from waits, too, is not in these files, "
		     "or is not "
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
	expect_none_behind(circle, NULL);
	/* One that is in a receive while all others are in a collective is what they wait for. */
	EXPECT_PARTS(
		astray, NULL,
		"  BEHIND: rank 0, in no collective of this communicator, while ranks 1-2 wait, "
		"the longest in ncclAllReduce for 52.0 s\n    Rank 0: n pid 10 python3\n"
		"      in ncclRecv for 50.0 s: thread 77 worker\n");
	EXPECT_PARTS(circle, NULL, "and some wait, the longest in ncclRecv for 51.0 s\n");
	expect_none_behind(absurd, NULL);
}

/* A group's end may be of any communicator, unless there is only one. */
Test(nccl_report, groups)
{
	const char *one = FILE_OF(
		"n", "1",
		PROCESS("10", COMMS(COMM("0x1", "0xabc", "0", "2", "7", "x")) OPENS(
				      OPEN("0x0", "ncclGroupEnd", "50", "0",
					   ""))) "," PROCESS("11", COMMS(COMM("0x2", "0xabc", "1",
									      "2", "7", "x"))));
	const char *two = FILE_OF(
		"n", "1",
		PROCESS("10",
			COMMS(COMM("0x1", "0xabc", "0", "2", "7", "x") "," COMM("0x3", "0xdef", "0",
										"2", "7", "x"))
				OPENS(OPEN("0x0", "ncclGroupEnd", "50", "0",
					   ""))) "," PROCESS("11", COMMS(COMM("0x2", "0xabc", "1",
									      "2", "7", "x"))));

	EXPECT_PARTS(
		one, NULL,
		"  BEHIND: rank 1, in no collective of this communicator, while rank 0 waits, in "
		"ncclGroupEnd for 50.0 s\n");
	expect_none_behind(two, NULL);
	EXPECT_PARTS(two, NULL, "Who waits in ncclGroupEnd may do so for another communicator\n");
}

#define GROUP(seconds, complete, calls, ...)                                                       \
	"{\"tid\":77,\"thread\":\"worker\",\"comm\":\"0x0\",\"stream\":\"0x0\",\"function\":"      \
	"\"ncclGroupEnd\",\"seconds\":" seconds ",\"group\":[" __VA_ARGS__                         \
	"],\"group_calls\":" calls ",\"group_complete\":" complete ",\"stack\":[\"f (x.py:1)\"]}"
#define GROUPED(comm, operation, peer, count)                                                      \
	"{\"operation\":\"" operation "\",\"datatype\":\"float32\"" peer ",\"comm\":\"" comm       \
	"\",\"stream\":\"0x7\",\"bytes\":4000,\"count\":" count "}"
#define PEER(peer) ",\"peer\":" peer
/* Two communicators, of as many ranks, in each process. */
#define BOTH(rank, size) ",\"communicators\":[" BOTH_OF(rank, size) "]"
#define BOTH_OF(rank, size)                                                                        \
	COMM("0x1", "0xabc", rank, size, "7", "x") "," COMM("0x2", "0xdef", rank, size, "7", "x")

/* A group that says what is in it waits for these communicators, and for no other. */
Test(nccl_report, told_groups)
{
	const char *one =
		FILE_OF("n", "1",
			PROCESS("10", BOTH("0", "2") OPENS(GROUP(
					      "50", "true", "3",
					      GROUPED("0x1", "ncclAllReduce", "", "2") "," GROUPED(
						      "0x1", "ncclBroadcast", "",
						      "1")))) "," PROCESS("11", BOTH("1", "2")));
	const char *both = FILE_OF(
		"n", "1",
		PROCESS("10",
			BOTH("0", "2") OPENS(GROUP(
				"50", "true", "1",
				GROUPED("0x1", "ncclAllReduce", "",
					"1")))) "," PROCESS("11",
							    BOTH("1", "2") OPENS(GROUP(
								    "40", "true", "1",
								    GROUPED("0x2", "ncclAllReduce",
									    "", "1")))));
	const char *unsure =
		FILE_OF("n", "1",
			PROCESS("10", BOTH("0", "2") OPENS(GROUP(
					      "50", "false", "3",
					      GROUPED("0x1", "ncclAllReduce", "",
						      "2")))) "," PROCESS("11", BOTH("1", "2")));
	const char *stale =
		FILE_OF("n", "1",
			PROCESS("10", BOTH("0", "2") OPENS(GROUP(
					      "0.5", "true", "1",
					      GROUPED("0x1", "ncclAllReduce", "",
						      "1")))) "," PROCESS("11", BOTH("1", "2")));

	EXPECT_PARTS(
		one, NULL, "Communicator 0xabc, 2 ranks\n",
		"       0          7  x                     "
		"ncclAllReduce (group) for 50.0 s  n pid 10",
		"  BEHIND: rank 1, in no collective of this communicator, while rank 0 waits, in "
		"ncclAllReduce (group) for 50.0 s\n",
		"Communicator 0xdef, 2 ranks\n", "ncclGroupEnd for 50.0 s",
		"  All 2 ranks have made 7 calls\n"
		"  None waits in a collective, but rank 0 does in ncclGroupEnd, for 50.0 s\n");
	EXPECT_PARTS(
		both, NULL, "Communicator 0xabc, 2 ranks\n",
		"  BEHIND: rank 1, in no collective of this communicator, while rank 0 waits, in "
		"ncclAllReduce (group) for 50.0 s\n"
		"    Rank 1: n pid 11 python3\n"
		"      in ncclGroupEnd for 40.0 s: thread 77 worker\n"
		"        in the group: 1 ncclAllReduce float32 4.0 kB, communicator 0xdef, stream "
		"0x7\n"
		"        f (x.py:1)\n",
		"Communicator 0xdef, 2 ranks\n", "  BEHIND: rank 0, in no collective",
		"communicator 0xabc, stream 0x7\n");
	expect_none_behind(unsure, NULL);
	EXPECT_PARTS(unsure, NULL, "Who waits in ncclGroupEnd may do so for another communicator\n",
		     "Who waits in ncclGroupEnd may do so for another communicator\n");
	expect_none_behind(stale, NULL);
}

/* Sends and receives wait for those that they are with; whoever else is in no call may be right. */
Test(nccl_report, groups_of_pairs)
{
#define SENDS(pid, rank, peer)                                                                     \
	PROCESS(pid, BOTH(rank, "4") OPENS(GROUP("50", "true", "1",                                \
						 GROUPED("0x1", "ncclSend", PEER(peer), "1"))))
#define IDLES(pid, rank) PROCESS(pid, BOTH(rank, "4"))
	EXPECT_PARTS(FILE_OF("n", "1",
			     SENDS("10", "0", "2") "," IDLES("11", "1") "," IDLES(
				     "12", "2") "," IDLES("13", "3")),
		     NULL,
		     "  BEHIND: rank 2, in no call of this communicator, while rank 0 waits, in "
		     "ncclSend (group) for 50.0 s\n");
	/* Through one that waits, too. */
	EXPECT_PARTS(FILE_OF("n", "1",
			     SENDS("10", "0", "1") "," SENDS("11", "1", "3") "," IDLES(
				     "12", "2") "," IDLES("13", "3")),
		     NULL,
		     "  BEHIND: rank 3, in no call of this communicator, while ranks 0-1 wait, the "
		     "longest in ncclSend (group) for 50.0 s\n");
	/* In a circle, for one that is not there, for one that is in a receive by itself. */
	expect_none_behind(
		FILE_OF("n", "1",
			SENDS("10", "0", "1") "," SENDS("11", "1", "0") "," IDLES("12", "2")),
		NULL);
	expect_none_behind(FILE_OF("n", "1", SENDS("10", "0", "3") "," IDLES("12", "2")), NULL);
	EXPECT_PARTS(FILE_OF("n", "1", SENDS("10", "0", "3") "," IDLES("12", "2")), NULL,
		     "  All 2 ranks have made 7 calls, and some wait, in ncclSend (group) "
		     "for 50.0 s\n"
		     "  Whoever these send to or receive from waits, too, is not in these files, "
		     "or is not "
		     "known\n");
	expect_none_behind(FILE_OF("n", "1",
				   SENDS("10", "0", "1") "," PROCESS(
					   "11", BOTH("1", "4") OPENS(
							 OPEN("0x1", "ncclRecv", "50", "8", "")))),
			   NULL);
	/* A collective waits for all. */
	EXPECT_PARTS(
		FILE_OF("n", "1",
			SENDS("10", "0", "1") "," IDLES("11", "1") "," IDLES("12", "2") "," PROCESS(
				"13",
				BOTH("3", "4") OPENS(OPEN("0x1", "ncclAllReduce", "20", "8", "")))),
		NULL,
		"  BEHIND: ranks 1-2, in no collective of this communicator, while ranks 0, 3 "
		"wait");
}

#define BEFORE(comm, function, seconds)                                                            \
	"{\"tid\":77,\"thread\":\"worker\",\"comm\":\"" comm                                       \
	"\",\"stream\":\"0x7\",\"function\":\"" function "\",\"seconds\":" seconds                 \
	",\"bytes\":4000,\"since_before\":true,\"stack\":[\"" function "\",\"fit (x.py:1)\"]}"
#define MET(rank, calls) COMM("0x" rank "0", "0xabc", rank, "4", calls, "ncclAllReduce")
#define HANGS(pid, rank, seconds)                                                                  \
	PROCESS(pid, COMMS(MET(rank, "0")) OPENS(BEFORE("0x" rank "0", "ncclAllReduce", seconds)))

/* A job that hung before anybody came: it is known who waits, not who has made how many calls. */
Test(nccl_report, since_before)
{
	expect_exactly(
		FILE_OF("a", "10", HANGS("10", "0", "52") "," HANGS("11", "1", "50")),
		FILE_OF("b", "10", HANGS("20", "3", "51") "," PROCESS("21", COMMS(MET("2", "1")))),
		"[1] a.json: a, 10.0 s, 2 processes\n"
		"[2] b.json: b, 10.0 s, 2 processes\n"
		"\n"
		"Communicator 0xabc, 4 ranks\n" HEAD "       0          -  ncclAllReduce         "
		"ncclAllReduce for > 52.0 s        [1] a "
		"pid 10 python3\n"
		"       1          -  ncclAllReduce         ncclAllReduce for > 50.0 s        [1] "
		"a "
		"pid 11 python3\n"
		"       2          1  ncclAllReduce         -                                 [2] "
		"b "
		"pid 21 python3\n"
		"       3          -  ncclAllReduce         ncclAllReduce for > 51.0 s        [2] "
		"b "
		"pid 20 python3\n"
		"  BEHIND: rank 2, in no collective of this communicator, while ranks 0-1, 3 wait, "
		"the longest in ncclAllReduce for more than 52.0 s\n"
		"  In it since before they were watched: ranks 0-1, 3, whose calls cannot be "
		"compared\n"
		"    Rank 2: [2] b pid 21 python3\n"
		"      in no CUDA or NCCL call; to see where: bpfprof dump -p 21, on b\n"
		"\n"
		"Calls that began before they were watched:\n"
		"  3 at the same place:\n"
		"  [1] a pid 10 python3\n"
		"  [1] a pid 11 python3\n"
		"  [2] b pid 20 python3\n"
		"      in ncclAllReduce, the longest for more than 52.0 s: thread worker\n"
		"        ncclAllReduce\n"
		"        fit (x.py:1)\n");
}

/* Of which communicator it is nobody told: earlier files, or frames that do not tell. */
Test(nccl_report, before_of_nobody)
{
	EXPECT_PARTS(
		FILE_OF("a", "10", PROCESS("10", OPENS(BEFORE("0xc0", "ncclAllReduce", "52")))),
		NULL, "\nNo communicator was used while these processes were watched\n",
		"\nCalls that began before they were watched:\n"
		"  a pid 10 python3\n"
		"      in ncclAllReduce for more than 52.0 s: thread 77 worker\n");
	EXPECT_PARTS(
		FILE_OF("a", "10",
			PROCESS("10",
				",\"communicators\":[{\"comm\":\"0xc0\",\"hash\":null,"
				"\"rank\":null,\"size\":null,\"calls\":3,\"last\":\"x\"}]" OPENS(
					BEFORE("0xc0", "ncclAllReduce", "52")))),
		NULL, "\n1 more communicators, whose ranks are not known\n",
		"      in ncclAllReduce for more than 52.0 s: thread 77 worker\n");
}

/* Of which communicator it hangs in is not known: then it is not the one that is behind. */
Test(nccl_report, before_of_unknown)
{
#define UNKNOWN(pid, rank, function)                                                               \
	PROCESS(pid,                                                                               \
		COMMS(MET(rank, "3") "," COMM("0xd0", "0xdef", "0", "1", "1", "x")) OPENS(         \
			"{\"tid\":77,\"thread\":\"worker\",\"function\":\"" function               \
			"\",\"seconds\":52,\"comm\":null,\"since_before\":true,\"stack\":[]}"))
#define WAITS_IN_IT                                                                                \
	PROCESS("11", COMMS(MET("1", "3")) OPENS(OPEN("0x10", "ncclAllReduce", "50", "4000", "")))
	const char *reduces =
		FILE_OF("a", "10", UNKNOWN("10", "2", "ncclAllReduce") "," WAITS_IN_IT);

	expect_none_behind(reduces, NULL);
	EXPECT_PARTS(reduces, NULL,
		     "  Of calls from before it is not always known for which communicator they "
		     "wait\n");
	/* Making a communicator is no call of one. */
	EXPECT_PARTS(FILE_OF("a", "10", UNKNOWN("10", "2", "ncclCommInitRank") "," WAITS_IN_IT),
		     NULL, "  BEHIND: rank 2, ");
}

/* Whoever made its last call before that is of no communicator that is known. */
Test(nccl_report, silent)
{
#define SILENT(...)                                                                                \
	"{\"host\":\"b\",\"seconds\":10,\"processes\":[],\"without_calls\":[" __VA_ARGS__ "]}"
	const char *hung = FILE_OF("a", "10", HANGS("10", "0", "52") "," HANGS("11", "1", "50"));
	const char *ranked = SILENT(PROCESS("20", ",\"rank\":\"2\"") "," PROCESS("21", ""));
	const char *wrong =
		"{\"host\":\"b\",\"seconds\":10,\"processes\":[],\"without_calls\":[7]}";
	char *text;

	expect_none_behind(hung, ranked);
	EXPECT_PARTS(
		hung, ranked, "[2] b.json: b, 10.0 s, 2 processes\n",
		"  Not in these files: ranks 2-3 of 4: without a call while they were watched, or "
		"not watched.\n"
		"  Others wait: if watched, that is who is behind\n"
		"    RANK=2, if that is it: [2] b pid 20 python3\n"
		"      in no CUDA or NCCL call that is known; to see where: bpfprof dump -p 20, on "
		"b\n",
		"\nWith NCCL, but without a call while they were watched, and in none before, as "
		"far as is known:\n"
		"  [2] b pid 20 python3, rank 2\n"
		"      in no CUDA or NCCL call that is known; to see where: bpfprof dump -p 20, on "
		"b\n"
		"  [2] b pid 21 python3\n"
		"      in no CUDA or NCCL call that is known; to see where: bpfprof dump -p 21, on "
		"b\n");
	EXPECT_PARTS(
		hung,
		SILENT(PROCESS("20", ",\"rank\":\"2\",\"where\":[{\"tid\":20,\"thread\":"
				     "\"python3\",\"running\":false,\"stack\":[\"read\","
				     "\"next_batch (x.py:7)\"]},{\"tid\":29,\"thread\":\"engine\","
				     "\"last_in_nccl\":true,\"running\":true,\"stack\":[\"hook "
				     "(x.py:9)\"]}]") "," PROCESS("21", ",\"where\":[{\"tid\":21,"
									"\"thread\":\"t\","
									"\"running\":true,"
									"\"last_in_nccl\":true,"
									"\"stack\":[]}]")),
		"    RANK=2, if that is it: [2] b pid 20 python3\n"
		"      in no CUDA or NCCL call that is known: thread 20 python3\n"
		"        read\n"
		"        next_batch (x.py:7)\n"
		"      and thread 29 engine, the last seen in NCCL, on a CPU\n"
		"        hook (x.py:9)\n",
		"  [2] b pid 21 python3\n"
		"      in no CUDA or NCCL call that is known: thread 21 t, on a CPU; to see where: "
		"bpfprof "
		"dump -p 21, on b\n");
	text = report_of(ranked, NULL, 1);
	cr_expect(strstr(text, "pid 20 python3, rank 2\n      in no CUDA or NCCL call that is "
			       "known; to see "
			       "where: bpfprof dump -p 20, on "
			       "b\n  ... and 1 more\n"),
		  "%s", text);
	free(text);
	EXPECT_PARTS(wrong, NULL, "b, 10.0 s, 0 processes\n", "1 entry was not understood\n");
}

/* Of one rank of a job of which no communicator is known: where it is since before. */
static void rank_add(struct buf *file, unsigned int rank, const char *lists)
{
	buf_printf(file, "%s{\"pid\":%u,\"name\":\"python3\",\"rank\":\"%u\"%s}",
		   file->data[file->len - 1] == '[' ? "" : ",", 100 + rank, rank, lists);
}

/* What hangs is shown by where it is: the rank that is elsewhere is what is looked for. */
Test(nccl_report, places)
{
#define CALL(seconds, at)                                                                          \
	"{\"tid\":77,\"thread\":\"worker\",\"function\":\"a function of "                          \
	"libcuda\",\"seconds\":" seconds ",\"since_before\":true,\"stack\":[" at "]}"
#define DRIVER(seconds, at) ",\"open\":[" CALL(seconds, "\"cudaStreamSynchronize\",\"" at "\"") "]"
#define EVAL "\"cudaStreamSynchronize\",\"eval (x.py:9)\""
#define SLEEPS(at)                                                                                 \
	",\"where\":[{\"tid\":7,\"thread\":\"python3\",\"running\":false,\"stack\":[\"read\","     \
	"\"" at "\"]}]"
	unsigned int i;
	struct buf file;
	char *text;

	buf_init(&file, 1 << 20);
	buf_add_str(&file, "{\"host\":\"a\",\"seconds\":10,\"processes\":[");
	for (i = 0; i < 16; i++)
		if (i != 5 && i != 9 && i != 10)
			rank_add(&file, i,
				 i == 3 ? DRIVER("64", "fit (x.py:2)")
					: DRIVER("60", "fit (x.py:2)"));
	/* Two threads of one process are one process still. */
	rank_add(&file, 9, ",\"open\":[" CALL("70", EVAL) "," CALL("71", EVAL) "]");
	rank_add(&file, 22, ",\"open\":[" CALL("80", "") "," CALL("81", "") "]");
	buf_add_str(&file, "],\"without_calls\":[");
	rank_add(&file, 5, SLEEPS("next (x.py:1)"));
	rank_add(&file, 10, SLEEPS("load (x.py:4)"));
	rank_add(&file, 5, SLEEPS("next (x.py:1)"));
	rank_add(&file, 20, "");
	rank_add(&file, 21, "");
	buf_add_str(&file, "]}");
	EXPECT_PARTS(
		file.data, NULL,
		"\n15 processes are in calls since before they were watched, 5 with NCCL are in "
		"none "
		"that is known:\n  one of these may be what the others wait for\n"
		"\nCalls that began before they were watched:\n"
		"  1 at the same place with 2 threads, rank 9:\n"
		"  a pid 109 python3, rank 9\n"
		"      in a function of libcuda, the longest for more than 71.0 s: thread worker\n"
		"        cudaStreamSynchronize\n"
		"        eval (x.py:9)\n"
		"  a pid 122 python3, rank 22\n"
		"      in a function of libcuda for more than 80.0 s: thread 77 worker\n"
		"        (no stack was taken)\n"
		"  a pid 122 python3, rank 22\n"
		"      in a function of libcuda for more than 81.0 s: thread 77 worker\n"
		"        (no stack was taken)\n"
		"  13 at the same place, ranks 0-4, 6-8, 11-15:\n"
		"  a pid 100 python3, rank 0\n",
		"  a pid 108 python3, rank 8\n"
		"  ... and 5 more\n"
		"      in a function of libcuda, the longest for more than 64.0 s: thread worker\n"
		"        cudaStreamSynchronize\n"
		"        fit (x.py:2)\n"
		"\nWith NCCL, but without a call while they were watched, and in none before, as "
		"far as is known:\n"
		"  a pid 110 python3, rank 10\n"
		"      in no CUDA or NCCL call that is known: thread 7 python3\n"
		"        read\n"
		"        load (x.py:4)\n"
		"  a pid 120 python3, rank 20\n"
		"      in no CUDA or NCCL call that is known; to see where: bpfprof dump -p 120, "
		"on "
		"a\n"
		"  a pid 121 python3, rank 21\n"
		"      in no CUDA or NCCL call that is known; to see where: bpfprof dump -p 121, "
		"on "
		"a\n"
		"  2 at the same place, rank 5:\n"
		"  a pid 105 python3, rank 5\n"
		"  a pid 105 python3, rank 5\n"
		"      in no CUDA or NCCL call that is known: thread python3\n"
		"        read\n"
		"        next (x.py:1)\n");
	text = report_of(file.data, NULL, 1);
	cr_expect(strstr(text, "        eval (x.py:9)\n  ... and 15 more\n"), "%s", text);
	cr_expect(strstr(text, "        load (x.py:4)\n  ... and 4 more\n"), "%s", text);
	free(text);
	buf_fini(&file);
}

/* Whoever is in it by now is behind by no number, and those that are counted are compared. */
Test(nccl_report, not_counted)
{
#define COUNTED(pid, rank, calls)                                                                  \
	PROCESS(pid, COMMS(MET(rank, calls))                                                       \
			     OPENS(OPEN("0x" rank "0", "ncclAllReduce", "9", "4000", "")))
	const char *all = FILE_OF("a", "10", HANGS("10", "0", "52") "," HANGS("11", "1", "50"));
	const char *mixed = FILE_OF("a", "10", HANGS("10", "0", "52") "," COUNTED("11", "1", "7"));
	const char *compared = FILE_OF(
		"a", "10",
		HANGS("10", "0", "52") "," COUNTED("11", "1", "7") "," COUNTED("12", "2", "8"));
	const char *sends = FILE_OF(
		"a", "10",
		PROCESS("10", COMMS(MET("0", "0"))
				      OPENS(BEFORE("0x00", "ncclSend",
						   "52"))) "," PROCESS("11", COMMS(MET("1", "7"))));

	expect_none_behind(all, NULL);
	EXPECT_PARTS(
		all, NULL,
		"  All 2 ranks wait, the longest in ncclAllReduce for more than 52.0 s\n"
		"  In it since before they were watched: ranks 0-1, whose calls cannot be "
		"compared\n"
		"  Not in these files: ranks 2-3 of 4: without a call while they were watched, "
		"or not watched.\n"
		"  Others wait: if watched, that is who is behind\n");
	expect_none_behind(mixed, NULL);
	EXPECT_PARTS(
		mixed, NULL,
		"  All 2 ranks wait, the longest in ncclAllReduce for more than 52.0 s\n"
		"  In it since before it was watched: rank 0, whose calls cannot be compared\n");
	EXPECT_PARTS(
		compared, NULL,
		"  BEHIND: rank 1, with 7 calls, while rank 2 has made 8\n"
		"  All wait, the longest in ncclAllReduce for more than 52.0 s\n"
		"  In it since before it was watched: rank 0, whose calls cannot be compared\n");
	expect_none_behind(sends, NULL);
	EXPECT_PARTS(
		sends, NULL, "ncclSend for > 52.0 s",
		"  In it since before it was watched: rank 0, whose calls cannot be compared\n");
}

/* Two files of one run: the last one tells. What is worst comes first. */
Test(nccl_report, older_file)
{
	const char *old = FILE_OF("n", "1", PROCESS("10", COMMS(REDUCE("0", "5"))));
	const char *now = FILE_OF(
		"n", "1",
		PROCESS("10", COMMS(REDUCE("0", "7"))) "," PROCESS(
			"11", COMMS(REDUCE("1", "7") "," COMM("0x9", "0x9", "0", "1", "3", "y"))));

	expect_none_behind(old, now);
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
		"    RANK=2, if that is it: n pid 11 python3\n"
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

Test(nccl_report, slow)
{
	expect_exactly(
		FILE_OF("n", "10",
			PROCESS("10",
				COMMS(COMM("0xc0", "0xa", "0", "1", "101", "ncclAllReduce"))
					COLLECTIVES(COLLECTIVE(
						"0xc0", "ncclAllReduce", "100", "400000", "1000000",
						"50000") "," COLLECTIVE("0xc0", "ncclAllReduce",
									"1", "4000000000", "7000",
									"7000") "," CAPTURED))),
		FILE_OF("n", "10",
			PROCESS("20",
				COMMS(COMM("0xc0", "0xb", "0", "1", "12", "ncclAllReduce"))
					COLLECTIVES(COLLECTIVE(
						"0xc0", "ncclAllReduce", "11", "44000", "50000000",
						"9000000") "," COLLECTIVE("0xee", "ncclSend", "2",
									  "5", "0", "0"))
						OPENS(OPEN("0xc0", "ncclAllReduce", "0.5", "4000",
							   "")))),
		"[1] a.json: n, 10.0 s, 1 process\n"
		"[2] b.json: n, 10.0 s, 1 process\n"
		"\n"
		"Communicator 0xa, 1 rank\n" HEAD "       0        101  ncclAllReduce         -    "
		"                             [1] n pid "
		"10 python3\n"
		"\n"
		"Communicator 0xb, 1 rank\n" HEAD "       0         12  ncclAllReduce         "
		"ncclAllReduce for 500 ms          [2] n pid "
		"20 python3\n"
		"\n"
		"Time in calls on the host, the slowest against the fastest; what the GPU does "
		"after\n"
		"a call has returned is not in it\n"
		"\n"
		"  ncclAllReduce float32, 4.0 kB each, 1 rank: 500 times\n"
		"         Mean      Longest      Calls    Rank  Process\n"
		"       5.0 ms       9.0 ms         11       0  [2] n pid 20 python3\n"
		"      10.0 us      50.0 us        100       0  [1] n pid 10 python3\n"
		"\n"
		"  ncclAllReduce float32, 4.0 GB each, 1 rank\n"
		"         Mean      Longest      Calls    Rank  Process\n"
		"       7.0 us       7.0 us          1       0  [1] n pid 10 python3\n"
		"\n"
		"  ncclSend float32, 2 B each, ranks not known\n"
		"         Mean      Longest      Calls    Rank  Process\n"
		"            -            -          2       ?  [2] n pid 20 python3\n");
}

/* Seen to be complete: by size, exactly; how exact that is stands there. */
Test(nccl_report, slow_on_the_device)
{
	EXPECT_PARTS(
		FILE_OF("n", "10",
			PROCESS("10", COMMS(COMM("0xc0", "0xa", "0", "1", "101", "ncclAllReduce"))
					      COMPLETIONS(COMPLETION(
						      "4000", "100", "20000000", "300000",
						      "1000000") "," COMPLETION("9000", "1", "7",
										"7", "0")))),
		FILE_OF("n", "10",
			PROCESS("20", COMMS(COMM("0xc0", "0xb", "0", "1", "12", "ncclAllReduce"))
					      COMPLETIONS(COMPLETION("4000", "10", "1000000000",
								     "150000000", "400000000")))),
		"\nTime until collectives were seen to be complete, the slowest against the "
		"fastest;\n"
		"Within: so much earlier they may have been\n"
		"\n"
		"  ncclAllReduce float32, 4.0 kB each, 1 rank: 500 times\n"
		"         Mean      Longest       Within      Calls    Rank  Process\n"
		"    <= 100 ms    <= 150 ms      40.0 ms         10       0  [2] n pid 20 python3\n"
		"    <= 200 us    <= 300 us      10.0 us        100       0  [1] n pid 10 python3\n"
		"\n"
		"  ncclAllReduce float32, 9.0 kB each, 1 rank\n"
		"         Mean      Longest       Within      Calls    Rank  Process\n"
		"      <= 7 ns      <= 7 ns            -          1       0  [1] n pid 10 "
		"python3\n");
}

#define COMPLETE(comm, count, ns)                                                                  \
	"{\"comm\":\"" comm "\",\"operation\":\"ncclAllReduce\",\"datatype\":\"float32\","         \
	"\"bytes\":4000,\"count\":" count ",\"ns\":" ns ",\"max_ns\":1,\"within_ns\":0}"
/* A process in a group of two that is fast, and one that is slow, of the same operation and size. */
#define IN_TWO(pid, rank, fast, fast_rank, fast_ns, slow, slow_ns)                                 \
	PROCESS(pid, COMMS(COMM("0xf0", fast, fast_rank, "2", "1",                                 \
				"x") "," COMM("0x50", slow, rank, "2", "1", "x"))                  \
			     COMPLETIONS(COMPLETE("0xf0", "10",                                    \
						  fast_ns) "," COMPLETE("0x50", "10", slow_ns)))
#define FIRST_NODE(tens, fast, slow, slow2)                                                        \
	FILE_OF("n", "1",                                                                          \
		IN_TWO(tens "0", "0", fast, "0", "100", slow,                                      \
		       "10000") "," IN_TWO(tens "1", "0", fast, "1", "300", slow2, "12000"))

/* Groups of as many ranks that are of different use are no slower than each other: each has its own. */
Test(nccl_report, groups_of_one_run)
{
	const char *second =
		FILE_OF("m", "1",
			IN_TWO("20", "1", "0xf2", "0", "500", "0x51",
			       "40000") "," IN_TWO("21", "1", "0xf2", "1", "500", "0x52", "18000"));
	char *text;

	EXPECT_PARTS(FIRST_NODE("1", "0xf1", "0x51", "0x52"), second,
		     "each, 2 ranks, communicator 0x51: 4.0 times\n", "    <= 4.0 us",
		     "       1  [2] m pid 20 python3\n", "    <= 1.0 us",
		     "       0  [1] n pid 10 python3\n",
		     "each, 2 ranks, communicator 0xf1: 3.0 times\n",
		     "each, 2 ranks, communicator 0x52: 1.5 times\n",
		     "each, 2 ranks, communicator 0xf2: 1.0 times\n");
	text = report_of(FIRST_NODE("1", "0xf1", "0x51", "0x52"), second, 64);
	cr_expect_not(strstr(text, "2 ranks:") || strstr(text, "several"), "%s", text);
	free(text);
}

/* Between runs no communicator is the same. */
Test(nccl_report, groups_of_several_runs)
{
	EXPECT_PARTS(FIRST_NODE("1", "0xf1", "0x51", "0x52"),
		     FIRST_NODE("2", "0xf3", "0x53", "0x54"),
		     "each, 2 ranks: 120 times\n  (several communicators of that size in one run: "
		     "which of them compare with which\n  of another run is not known)\n",
		     "each, 2 ranks, communicator 0xf1: 3.0 times\n",
		     "each, 2 ranks, communicator 0xf3: 3.0 times\n");
}

#define PENDING(comm, operation, bytes, pending, seconds, stream)                                  \
	"{\"comm\":\"" comm "\",\"operation\":\"" operation "\",\"datatype\":\"float32\","         \
	"\"bytes\":" bytes ",\"count\":0,\"pending\":" pending ",\"pending_seconds\":" seconds     \
	",\"pending_stream\":\"" stream "\"}"

/* All ranks have returned from a collective that hangs on the device. */
Test(nccl_report, hangs_on_the_device)
{
	char *text;

	EXPECT_PARTS(
		FILE_OF("n", "100",
			PROCESS("10",
				COMMS(REDUCE("0", "7")) COMPLETIONS(
					PENDING("0xc0", "ncclAllReduce", "4000", "3", "42.5", "0x7e") "," PENDING(
						"0xc0", "ncclBroadcast", "64", "2", "43.5",
						"0x7f") "," PENDING("0xee", "ncclSend", "1", "1",
								    "5",
								    "0x0"))) "," PROCESS("11",
											 COMMS(REDUCE("1", "7")) COMPLETIONS(PENDING(
												 "0"
												 "x"
												 "c"
												 "0",
												 "n"
												 "c"
												 "c"
												 "l"
												 "A"
												 "l"
												 "l"
												 "R"
												 "e"
												 "d"
												 "u"
												 "c"
												 "e",
												 "4"
												 "0"
												 "0"
												 "0",
												 "1",
												 "4"
												 "4"
												 "."
												 "5",
												 "0"
												 "x"
												 "7"
												 "e")))),
		FILE_OF("m", "100",
			PROCESS("20", COMMS(REDUCE("2", "7"))
					      COMPLETIONS(PENDING("0xc0", "ncclAllReduce", "4000",
								  "1", "0.9", "0x7e")))),
		"\nCollectives that have returned and were not seen to be complete: they hang on "
		"the\n"
		"device, or nobody has asked for them yet; of each rank the oldest\n"
		"   Called ago    Pending  Oldest\n"
		"       44.5 s          1  ncclAllReduce float32 4.0 kB on stream 0x7e,\n"
		"                          communicator 0xabc, rank 1 of 4: [1] n pid 11 python3\n"
		"       43.5 s          5  ncclBroadcast float32 64 B on stream 0x7f,\n"
		"                          communicator 0xabc, rank 0 of 4: [1] n pid 10 python3\n"
		"        5.0 s          1  ncclSend float32 1 B on stream 0x0,\n"
		"                          a communicator at 0xee: [1] n pid 10 python3\n");
	text = report_of(
		FILE_OF("n", "1",
			PROCESS("10", COMPLETIONS(PENDING("0x1", "x", "4", "1", "0.9", "0x0")))),
		NULL, 64);
	cr_expect_not(strstr(text, "have returned"), "%s", text);
	cr_expect_not(strstr(text, "float32, 4 B"), "%s", text);
	free(text);
}

/* Means of bytes per call that are nearly the same are compared; several streams are one row. */
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
	char *text = report_of(
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
	expect_exactly(
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
		"  78.3 GB of 80.0 GB (97.9%), 76.0 GB of it live allocations seen: n pid "
		"10 python3\n"
		"\n"
		"1 entry was not understood\n");
}

/* Names that want to write to the terminal. */
Test(nccl_report, hostile_names)
{
	char *text = report_of(
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
