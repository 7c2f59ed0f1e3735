/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_SYMBOL_PERFMAP_H
#define BPFPROF_SYMBOL_PERFMAP_H

/*
 * /tmp/perf-PID.map, where JIT compilers write `START SIZE NAME` lines (hex, hex, rest of line).
 * Untrusted: bounded, streamed, the last line that covers an address wins.
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

/* Of a larger file half as many from its head, and from its end. */
#define PERFMAP_MAX_BYTES (128U << 20)

/*
 * 0, 1 (parts of the file were left out: its middle, or where the source has -ENODATA, which it has for
 * a block of 4 KiB each), -E2BIG (too many lines that cover each other) or -errno of the
 * source: what was found stays. Malformed lines are passed over, and a name that the file no longer
 * has where it was found is none. Takes the source.
 */
int perfmap_resolve(const struct elf_source *source, struct strtab *names,
		    struct perfmap_query *queries, size_t nr);

#endif
