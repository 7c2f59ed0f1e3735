// SPDX-License-Identifier: Apache-2.0
/*
 * report --nccl: calls that began before the recording, silent processes, and places in the code.
 */
#include "gpu/nccl_report.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "nccl_files.h"

#define BEFORE(comm, function, seconds)                                                            \
	"{\"tid\":77,\"thread\":\"worker\",\"comm\":\"" comm                                       \
	"\",\"stream\":\"0x7\",\"function\":\"" function "\",\"seconds\":" seconds                 \
	",\"bytes\":4000,\"since_before\":true,\"stack\":[\"" function "\",\"fit (x.py:1)\"]}"
#define MET(rank, calls) COMM("0x" rank "0", "0xabc", rank, "4", calls, "ncclAllReduce")
#define HANGS(pid, rank, seconds)                                                                  \
	PROCESS(pid, COMMS(MET(rank, "0")) OPENS(BEFORE("0x" rank "0", "ncclAllReduce", seconds)))

/*
 * The job hung before the recording: the waiting ranks are known, but not their numbers of calls.
 */
Test(nccl_report, since_before)
{
	nccl_expect_exactly(
		FILE_OF("a", "10", HANGS("10", "0", "52") "," HANGS("11", "1", "50")),
		FILE_OF("b", "10", HANGS("20", "3", "51") "," PROCESS("21", COMMS(MET("2", "1")))),
		"[1] a.json: a, 10.0 s, 2 processes\n"
		"[2] b.json: b, 10.0 s, 2 processes\n"
		"\n"
		"Communicator 0xabc, 4 ranks\n" NCCL_HEAD
		"       0          -  ncclAllReduce         "
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
		"  In a call since before the hooks: ranks 0-1, 3, whose calls cannot be "
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

/* The communicator is not known: older files, or frames that do not show it. */
Test(nccl_report, communicator_not_known)
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

/* The hanging rank's communicator is not known: then this rank is not reported as behind. */
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

	nccl_expect_none_behind(reduces, NULL);
	EXPECT_PARTS(reduces, NULL,
		     "  Some calls began before the hooks: which communicator they wait for is "
		     "not always known\n");
	/* Making a communicator is no call of one. */
	EXPECT_PARTS(FILE_OF("a", "10", UNKNOWN("10", "2", "ncclCommInitRank") "," WAITS_IN_IT),
		     NULL, "  BEHIND: rank 2, ");
}

/* A silent process made its last call before the recording: its communicator is not known. */
Test(nccl_report, silent)
{
#define SILENT(...)                                                                                \
	"{\"host\":\"b\",\"seconds\":10,\"processes\":[],\"without_calls\":[" __VA_ARGS__ "]}"
	const char *hung = FILE_OF("a", "10", HANGS("10", "0", "52") "," HANGS("11", "1", "50"));
	const char *ranked = SILENT(PROCESS("20", ",\"rank\":\"2\"") "," PROCESS("21", ""));
	const char *wrong =
		"{\"host\":\"b\",\"seconds\":10,\"processes\":[],\"without_calls\":[7]}";
	char *text;

	nccl_expect_none_behind(hung, ranked);
	EXPECT_PARTS(
		hung, ranked, "[2] b.json: b, 10.0 s, 2 processes\n",
		"  Not in these files: ranks 2-3 of 4: without a call while they were watched, or "
		"not watched.\n"
		"  Others wait: a missing rank is behind, if it was watched\n"
		"    RANK=2, which may be it: [2] b pid 20 python3\n"
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
		"    RANK=2, which may be it: [2] b pid 20 python3\n"
		"      in no CUDA or NCCL call that is known: thread 20 python3\n"
		"        read\n"
		"        next_batch (x.py:7)\n"
		"      and thread 29 engine, the last seen in NCCL, on a CPU\n"
		"        hook (x.py:9)\n",
		"  [2] b pid 21 python3\n"
		"      in no CUDA or NCCL call that is known: thread 21 t, on a CPU; to see where: "
		"bpfprof "
		"dump -p 21, on b\n");
	text = nccl_report_of(ranked, NULL, 1);
	cr_expect(strstr(text, "pid 20 python3, rank 2\n      in no CUDA or NCCL call that is "
			       "known; to see "
			       "where: bpfprof dump -p 20, on "
			       "b\n  ... and 1 more\n"),
		  "%s", text);
	free(text);
	EXPECT_PARTS(wrong, NULL, "b, 10.0 s, 0 processes\n", "1 entry was not understood\n");
}

/* One rank of a job without a known communicator: its place since before the recording. */
static void rank_add(struct buf *file, unsigned int rank, const char *lists)
{
	buf_printf(file, "%s{\"pid\":%u,\"name\":\"python3\",\"rank\":\"%u\"%s}",
		   file->data[file->len - 1] == '[' ? "" : ",", 100 + rank, rank, lists);
}

/*
 * Hanging ranks are shown by their place: one of them is elsewhere, and this is the rank to look
 * at.
 */
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
	text = nccl_report_of(file.data, NULL, 1);
	cr_expect(strstr(text, "        eval (x.py:9)\n  ... and 15 more\n"), "%s", text);
	cr_expect(strstr(text, "        load (x.py:4)\n  ... and 4 more\n"), "%s", text);
	free(text);
	buf_fini(&file);
}

/* A rank without a number of calls is not behind by number, and the counted ranks are compared. */
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

	nccl_expect_none_behind(all, NULL);
	EXPECT_PARTS(
		all, NULL,
		"  All 2 ranks wait, the longest in ncclAllReduce for more than 52.0 s\n"
		"  In a call since before the hooks: ranks 0-1, whose calls cannot be "
		"compared\n"
		"  Not in these files: ranks 2-3 of 4: without a call while they were watched, "
		"or not watched.\n"
		"  Others wait: a missing rank is behind, if it was watched\n");
	nccl_expect_none_behind(mixed, NULL);
	EXPECT_PARTS(
		mixed, NULL,
		"  All 2 ranks wait, the longest in ncclAllReduce for more than 52.0 s\n"
		"  In a call since before the hooks: rank 0, whose calls cannot be compared\n");
	EXPECT_PARTS(
		compared, NULL,
		"  BEHIND: rank 1, with 7 calls, while rank 2 has made 8\n"
		"  All wait, the longest in ncclAllReduce for more than 52.0 s\n"
		"  In a call since before the hooks: rank 0, whose calls cannot be compared\n");
	nccl_expect_none_behind(sends, NULL);
	EXPECT_PARTS(
		sends, NULL, "ncclSend for > 52.0 s",
		"  In a call since before the hooks: rank 0, whose calls cannot be compared\n");
}
