/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_LIBDW_RULES_H
#define BPFPROF_TESTS_LIBDW_RULES_H

/*
 * The caller's registers as libdw's rules give them, over made-up memory: the
 * reference for the program's own readers. Shares no code with them.
 */

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

#define RULES_NR_REGS 17

struct unwind_state;

/* Every address holds something, and no two the same. */
uint64_t made_memory(uint64_t va);

struct rules_result {
	bool has_cfa;
	bool signal;
	uint64_t cfa;
	bool known[RULES_NR_REGS];
	bool same[RULES_NR_REGS]; /* known, and no rule changes it */
	uint64_t regs[RULES_NR_REGS];
};

/* before: in the frame, all known. False if libdw cannot say or an operation is not known here. */
bool rules_eval(Dwarf_Frame *frame, const struct unwind_state *before, struct rules_result *ret);

#endif
