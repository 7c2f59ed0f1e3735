/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_SYMBOL_KALLSYMS_H
#define BPFPROF_SYMBOL_KALLSYMS_H

/*
 * Kernel function names from /proc/kallsyms (modules and BPF programs
 * included) in one streaming pass: memory follows the number of addresses.
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
	uint64_t end; /* where the next one starts, or where no function reaches from there */
};

/*
 * path is normally /proc/kallsyms. 0; -EACCES if every address there reads as
 * zero (no CAP_SYSLOG, or kptr_restrict=2); -errno of open and read; -ENOMEM.
 */
int kallsyms_resolve(const char *path, struct strtab *names, struct kallsyms_query *queries,
		     size_t nr);

struct kallsyms_range {
	const char *name;
	bool prefix; /* of several symbols that lie together: from the first of them to the last */
	bool optional; /* found only if it is not far behind the others */
	uint64_t start, end; /* end: start of the next symbol; both 0 if there is no such symbol */
};

/*
 * Fills in several symbols in one pass, which ends when all are found: the next symbol is the
 * lowest higher one that follows in the file, exact for the kernel's own, which come sorted.
 * 0, -EACCES as above, -errno.
 */
int kallsyms_find(const char *path, struct kallsyms_range *ranges, size_t nr);

/*
 * All of it kept in memory, for who has new addresses all the time: some 40 bytes for each
 * symbol, of which KALLSYMS_TABLE_MAX are taken.
 */
struct kallsyms_table;

#define KALLSYMS_TABLE_MAX (1U << 19)

/* 0, -EACCES as above, -E2BIG, -ENOMEM, -errno. */
int kallsyms_table_new(struct kallsyms_table **ret, const char *path);
void kallsyms_table_free(struct kallsyms_table *table);
/* As kallsyms_resolve() would name it; borrowed. *ret_start, *ret_end: where the name holds. */
const char *kallsyms_table_find(const struct kallsyms_table *table, uint64_t va,
				uint64_t *ret_start, uint64_t *ret_end);

#endif
