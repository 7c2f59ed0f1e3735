/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_WALK_CODE_H
#define BPFPROF_KERNEL_WALK_CODE_H

/*
 * Code without unwind tables: its rules are read from the instructions
 * (unwind/insn_unwind.h) and proven with the stack of a process.
 */

#include <stdbool.h>
#include <stdint.h>

struct image;
struct process;
struct process_mapping;
struct unwind_reader;
struct unwind_state;
struct walker;

/* The evidence for a rule from code: one stack. */
struct code_trial {
	struct walker *walker;
	const struct process *process;
	const struct unwind_state *state;
	struct unwind_reader *reader;
	uint64_t now_ns;
	bool unread; /* the copy of the stack did not suffice to try some rule */
	bool hangs; /* the process's memory did not arrive in time */
	bool all_mapped; /* all code that the process has mapped is known */
	const struct process_mapping *mapping; /* mapping of the place */
	uint64_t search_va; /* end of the search for return addresses above; 0: not searched yet */
	uint64_t return_va; /* place of the return address that a rule must lead to; 0: any */
	uint32_t nr_starts;
};

/*
 * The row of a file's code, learned for all processes or for this one alone (cfi_learn()); 0 if
 * there is no time, or not enough of the stack (trial->unread).
 */
uint64_t code_row_learn(struct walker *walker, struct image *image, uint64_t off, bool exact,
			struct code_trial *trial, uint64_t now_ns);
/* The row of code in no file: it keeps frame pointers, or its instructions are read; 0 as above. */
uint64_t code_row_anon(struct walker *walker, const struct process *process,
		       const struct process_mapping *mapping, struct code_trial *trial,
		       uint64_t now_ns);

#endif
