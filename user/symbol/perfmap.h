/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_SYMBOL_PERFMAP_H
#define BPFPROF_SYMBOL_PERFMAP_H

/*
 * Reads /tmp/perf-PID.map, into which JIT compilers write `START SIZE NAME` lines (hex, hex, rest of
 * line). Untrusted: bounded and streamed. The last line that covers an address wins.
 */

#include <stddef.h>
#include <stdint.h>

struct elf_source;
struct strtab;

struct perfmap_query {
	uint64_t va; /* ascending */
	uint32_t name; /* id in names; 0 = unknown */
	uint64_t start;
};

/* In a larger file half of these bytes are read at the beginning and half at the end. */
#define PERFMAP_MAX_BYTES (128U << 20)

/*
 * 0, 1 (parts of the file were left out: its middle, or blocks of 4 KiB for which the source returns
 * -ENODATA), -E2BIG (too many lines that cover each other) or -errno of the source: the names found
 * before stay. Malformed lines are skipped. An address has no name if its line has changed meanwhile.
 * Takes the source.
 */
int perfmap_resolve(const struct elf_source *source, struct strtab *names,
		    struct perfmap_query *queries, size_t nr);

#endif
