// SPDX-License-Identifier: Apache-2.0
/* report --nccl: slow ranks, and collectives that hang on the device. */
#include "gpu/nccl_report.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_files.h"

Test(nccl_report, slow)
{
	nccl_expect_exactly(
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
		"Communicator 0xa, 1 rank\n" NCCL_HEAD
		"       0        101  ncclAllReduce         -    "
		"                             [1] n pid "
		"10 python3\n"
		"\n"
		"Communicator 0xb, 1 rank\n" NCCL_HEAD "       0         12  ncclAllReduce         "
		"ncclAllReduce for 500 ms          [2] n pid "
		"20 python3\n"
		"\n"
		"Time in calls on the host, the slowest against the fastest; the work of the "
		"GPU after\n"
		"a call has returned is not included\n"
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

/* Completed collectives by size, with the exactness of their times. */
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
		"Within: the real end may be this much earlier\n"
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
/* A fast process and a slow one, each in a group of two, with the same operation and size. */
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
	text = nccl_report_of(FIRST_NODE("1", "0xf1", "0x51", "0x52"), second, 64);
	cr_expect_not(strstr(text, "2 ranks:") || strstr(text, "several"), "%s", text);
	free(text);
}

/* Between runs no communicator is the same. */
Test(nccl_report, groups_of_several_runs)
{
	EXPECT_PARTS(FIRST_NODE("1", "0xf1", "0x51", "0x52"),
		     FIRST_NODE("2", "0xf3", "0x53", "0x54"),
		     "each, 2 ranks: 120 times\n  (one run has several communicators of that size: "
		     "which of them match those\n  of another run is not known)\n",
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
		"device, or no call has asked for them yet; the oldest of each rank\n"
		"   Called ago    Pending  Oldest\n"
		"       44.5 s          1  ncclAllReduce float32 4.0 kB on stream 0x7e,\n"
		"                          communicator 0xabc, rank 1 of 4: [1] n pid 11 python3\n"
		"       43.5 s          5  ncclBroadcast float32 64 B on stream 0x7f,\n"
		"                          communicator 0xabc, rank 0 of 4: [1] n pid 10 python3\n"
		"        5.0 s          1  ncclSend float32 1 B on stream 0x0,\n"
		"                          a communicator at 0xee: [1] n pid 10 python3\n");
	text = nccl_report_of(
		FILE_OF("n", "1",
			PROCESS("10", COMPLETIONS(PENDING("0x1", "x", "4", "1", "0.9", "0x0")))),
		NULL, 64);
	cr_expect_not(strstr(text, "have returned"), "%s", text);
	cr_expect_not(strstr(text, "float32, 4 B"), "%s", text);
	free(text);
}

/* Means of bytes per call that are nearly the same are compared; several streams are one row. */
