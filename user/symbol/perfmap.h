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

#define PERFMAP_MAX_BYTES (64U << 20) /* of a larger file, the last ones */

/*
 * 0, -E2BIG (too many lines that cover each other; what was found stays) or -errno of the
 * source; malformed lines are passed over. Takes the source.
 */
int perfmap_resolve(const struct elf_source *source, struct strtab *names,
		    struct perfmap_query *queries, size_t nr);

#endif
