/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_SYMBOL_KALLSYMS_H
#define BPFPROF_SYMBOL_KALLSYMS_H

/*
 * Kernel function names from /proc/kallsyms, also of modules and BPF programs, in one streaming pass:
 * memory follows the number of addresses.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct strtab;

struct kallsyms_query {
	uint64_t va; /* ascending */
	uint32_t name; /* id in names; 0 = unknown */
	uint32_t module; /* id in names; 0 = the kernel itself */
	uint64_t start; /* of the symbol */
	uint64_t end; /* start of the next symbol, or the farthest possible end of the function */
};

/*
 * path is normally /proc/kallsyms. 0; -EACCES if every address there reads as
 * zero (no CAP_SYSLOG, or kptr_restrict=2); -errno of open and read; -ENOMEM.
 */
int kallsyms_resolve(const char *path, struct strtab *names, struct kallsyms_query *queries,
		     size_t nr);

struct kallsyms_range {
	const char *name;
	bool prefix; /* name is the prefix of several symbols that lie together: the range of all */
	bool optional; /* found only if it is not far behind the others */
	uint64_t start; /* 0: there is no such symbol */
	uint64_t end; /* start of the next symbol; 0: there is no such symbol */
};

/*
 * Fills in several symbols in one pass, which ends when all are found. A symbol ends at the lowest higher
 * symbol that follows in the file; that is exact for the kernel's own symbols, which are sorted. 0,
 * -EACCES as above, -errno.
 */
int kallsyms_find(const char *path, struct kallsyms_range *ranges, size_t nr);

/*
 * The whole file in memory, for a caller with new addresses all the time: some 40 bytes for each symbol,
 * KALLSYMS_TABLE_MAX symbols at most.
 */
struct kallsyms_table;

#define KALLSYMS_TABLE_MAX (1U << 19)

/* 0, -EACCES as above, -E2BIG, -ENOMEM, -errno. */
int kallsyms_table_new(struct kallsyms_table **ret, const char *path);
void kallsyms_table_free(struct kallsyms_table *table);
/* The name as by kallsyms_resolve(), borrowed. It holds for [*ret_start, *ret_end). */
const char *kallsyms_table_find(const struct kallsyms_table *table, uint64_t va,
				uint64_t *ret_start, uint64_t *ret_end);

#endif
