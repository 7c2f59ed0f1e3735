// SPDX-License-Identifier: Apache-2.0
/* report --nccl: groups, which may wait for several communicators or for a pair of ranks. */
#include "gpu/nccl_report.h"

#include <criterion/criterion.h>

#include "nccl_files.h"

/* The end of a group may belong to any communicator, unless there is only one. */
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
	nccl_expect_none_behind(two, NULL);
	EXPECT_PARTS(two, NULL, "A rank in ncclGroupEnd may wait for another communicator\n");
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

/* A group with known content waits for these communicators, and for no other. */
Test(nccl_report, known_groups)
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
		"  No rank waits in a collective, but rank 0 does in ncclGroupEnd, for 50.0 s\n");
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
	nccl_expect_none_behind(unsure, NULL);
	EXPECT_PARTS(unsure, NULL, "A rank in ncclGroupEnd may wait for another communicator\n",
		     "A rank in ncclGroupEnd may wait for another communicator\n");
	nccl_expect_none_behind(stale, NULL);
}

/* Sends and receives wait for their peers; other ranks in no call may be fine. */
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
	/*
	 * The ranks wait in a circle, for a rank that does not exist, or for a rank in a receive.
	 */
	nccl_expect_none_behind(
		FILE_OF("n", "1",
			SENDS("10", "0", "1") "," SENDS("11", "1", "0") "," IDLES("12", "2")),
		NULL);
	nccl_expect_none_behind(FILE_OF("n", "1", SENDS("10", "0", "3") "," IDLES("12", "2")),
				NULL);
	EXPECT_PARTS(FILE_OF("n", "1", SENDS("10", "0", "3") "," IDLES("12", "2")), NULL,
		     "  All 2 ranks have made 7 calls, and some wait, in ncclSend (group) "
		     "for 50.0 s\n"
		     "  The awaited ranks wait, too, are not in these files, or are not "
		     "known\n");
	nccl_expect_none_behind(FILE_OF("n", "1",
					SENDS("10", "0", "1") "," PROCESS(
						"11", BOTH("1", "4") OPENS(OPEN("0x1", "ncclRecv",
										"50", "8", "")))),
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
