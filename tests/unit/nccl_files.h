/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_NCCL_FILES_H
#define BPFPROF_TESTS_NCCL_FILES_H

/* Files of gpu --json with NCCL, written by macros, and what report --nccl shows of them. */

#include <stddef.h>

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

char *nccl_report_of(const char *first, const char *second, size_t rows);
void nccl_expect_exactly(const char *first, const char *second, const char *wanted);
/* All of these parts, in that order; the last one is NULL. */
void nccl_expect_parts(const char *first, const char *second, const char *const *parts);

#define EXPECT_PARTS(first, second, ...)                                                           \
	nccl_expect_parts(first, second, (const char *const[]){ __VA_ARGS__, NULL })

/* No other process of the text is blamed. */
void nccl_expect_none_behind(const char *first, const char *second);

#define NCCL_HEAD                                                                                  \
	"    Rank      Calls  Last                  Open                              Process\n"

#endif
